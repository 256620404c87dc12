# SPDX-License-Identifier: LGPL-2.1-or-later
"""What an operation takes longer with something attached than without. All variants one after the other, again and
again: what is compared was measured within seconds."""

import bench
from disk import Ops, bench_disk
from variants import Missing, all_variants

OPS = ('append+fsync', 'clean-fsync', 'overwrite+fdatasync', 'dread', 'dwrite', 'device-read', 'write', 'append',
       'getpid')
BASE = 'nothing'


def hits(variant):
    return sum(p['hits'] or 0 for p in variant.daemon.probes('probe'))


def measure_round(variant, ops, msec, samples):
    for op in OPS:
        ops.run(op, msec / 4)  # caches, and what the variant does at first
        before = hits(variant) if variant.name == 'iolat' else None
        answer = ops.run(op, msec)
        if before is not None:
            samples['hits'][op].append((hits(variant) - before) / answer['count'])
        samples[variant.name][op].append(answer)


def summarize(op, name, samples):
    """Differences and ratios are those of each round."""
    mine, base = samples[name][op], samples[BASE][op]
    row = {'op': op, 'variant': name, 'nsec': bench.spread([a['p50NSec'] for a in mine]),
           'meanNSec': bench.spread([a['meanNSec'] for a in mine])}
    if name != BASE:
        row['addedNSec'] = bench.spread([a['p50NSec'] - b['p50NSec'] for a, b in zip(mine, base)])
        row['ratio'] = bench.spread([a['p50NSec'] / b['p50NSec'] for a, b in zip(mine, base)])
        row['addedMeanNSec'] = bench.spread([a['meanNSec'] - b['meanNSec'] for a, b in zip(mine, base)])
    if name == 'iolat':
        row['hits'] = bench.spread(samples['hits'][op])
    return row


def measure(test, options):
    disk, described = bench_disk(test)
    variants, absent = all_variants(test), {}
    ops = Ops(test, disk)
    rounds, msec = options.rounds(15, 3), options.pick(200, 20)
    samples = {name: {op: [] for op in OPS} for name in [v.name for v in variants] + ['hits']}
    for n in range(rounds):
        bench.progress(f'round {n + 1} of {rounds}')
        for variant in variants:
            if variant.name in absent:
                continue
            try:
                with variant.on():
                    measure_round(variant, ops, msec, samples)
            except Missing as e:
                absent[variant.name] = str(e)
    rows = [summarize(op, v.name, samples) for op in OPS for v in variants if v.name not in absent]
    return {'disk': described, 'rounds': rounds, 'variants': [v.name for v in variants], 'absent': absent, 'rows': rows}


def text(result):
    rows, last = [], None
    for r in result['rows']:
        ratio = r.get('ratio')
        rows.append([r['op'] if r['op'] != last else '', r['variant'], bench.number(r['nsec']['median']),
                     bench.with_spread(r['addedNSec']) if ratio else '', f'{ratio["median"]:.3f}' if ratio else '',
                     bench.with_spread(r['addedMeanNSec']) if ratio else '',
                     bench.number(r['hits']['median'], 2) if 'hits' in r else ''])
        last = r['op']
    notes = [f'{name}: not measured: {why}' for name, why in result['absent'].items()]
    notes.append(f'Medians of {result["rounds"]} rounds (middle half), of the differences within a round; '
                 f'{result["disk"]}.')
    return bench.table('Nanoseconds of an operation',
                       ('operation', 'with', 'p50', 'added', 'ratio', 'added to mean', 'hits'), rows, notes,
                       left=(0, 1))
