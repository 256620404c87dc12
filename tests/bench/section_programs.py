# SPDX-License-Identifier: LGPL-2.1-or-later
"""What each BPF program runs, by the kernel's own statistics, per operation and per request. They cost some
nanoseconds a hit themselves, which are in all figures, also in those of empty programs."""

import collections
import pathlib
import time

import bench
import bpf
from bench import Budget
from disk import Ops, bench_disk
from variants import Missing, all_variants

OPS = ('append+fsync', 'clean-fsync', 'overwrite+fdatasync', 'dread', 'dwrite', 'device-read', 'write', 'append',
       'getpid')
QUIET = {'write': 400000, 'append': 100000, 'getpid': 2000000}  # calls at which nothing should happen, and how many
BACKGROUND = '(background)'  # what the machine does by itself, in a second
SETTLE_SEC = 0.02  # for what completes later
BACKGROUND_SEC = 0.3
HITS_SHOWN = 0.01  # an operation; what is below is the rest of the machine
MEASURED = ('empty', 'iolat', 'biolatency', 'bpftrace')

# What iolat allows itself.
SYNC_RATIO_MAX, SYNC_NSEC_MAX = 3, 1000
QUIET_HITS_MAX = 20 / 10000


def requests_completed():
    """Of all disks: the programs see all of them, too."""
    n = 0
    for path in pathlib.Path('/sys/block').glob('*/stat'):
        fields = [int(f) for f in path.read_text().split()]
        n += sum(fields[i] for i in (0, 4, 11, 15) if i < len(fields))
    return n


class Sample:
    """What the programs of a variant ran during so many operations, for all that the machine did meanwhile."""

    def __init__(self, variant, ops, op, count=None):
        points = variant.programs()
        before, requests, start = {i: bpf.program(i) for i in points}, requests_completed(), time.monotonic()
        if op == BACKGROUND:
            time.sleep(BACKGROUND_SEC)
            self.count = BACKGROUND_SEC  # so that all figures are a second's
        else:
            self.count = ops.run(op, 60000, count)['count']
            time.sleep(0 if op in QUIET else SETTLE_SEC)
        after = {i: bpf.program(i) for i in points}
        self.requests, self.seconds = requests_completed() - requests, time.monotonic() - start
        self.programs = collections.defaultdict(lambda: [0, 0])  # name, target -> runs, ns
        for i, point in points.items():
            entry = self.programs[point.program, point.target]
            entry[0] += after[i].runs - before[i].runs
            entry[1] += after[i].ns - before[i].ns

    def total(self, requests):
        """Runs and ns of the programs at points of requests, or of those at all others."""
        runs = ns = 0
        for (_, target), (n, t) in self.programs.items():
            if is_request(target) == requests:
                runs, ns = runs + n, ns + t
        return runs, ns


def is_request(target):
    return target.startswith('block_')


def summarize_programs(op, name, samples):
    rows = []
    for key in sorted({k for s in samples for k in s.programs}):
        runs = [s.programs[key][0] / s.count for s in samples]
        if bench.median(runs) < HITS_SHOWN:
            continue
        hit = [s.programs[key][1] / s.programs[key][0] for s in samples if s.programs[key][0] > 0]
        rows.append({'op': op, 'variant': name, 'program': key[0], 'target': key[1], 'request': is_request(key[1]),
                     'hits': bench.spread(runs), 'nsecPerHit': bench.spread(hit),
                     'nsecPerOp': bench.spread([s.programs[key][1] / s.count for s in samples])})
    return rows


def summarize_sums(op, name, samples, floor):
    """Floor: the samples of empty programs of the same rounds."""
    result = {'op': op, 'variant': name, 'requests': bench.spread([s.requests / s.count for s in samples])}
    for part, requests in ('operation', False), ('request', True):
        sums = [s.total(requests) for s in samples]
        result[part] = {'hits': bench.spread([runs / s.count for s, (runs, _) in zip(samples, sums)]),
                        'nsec': bench.spread([ns / s.count for s, (_, ns) in zip(samples, sums)])}
        lows = [f.total(requests)[1] / f.count for f in floor]
        mine = [ns / s.count for s, (_, ns) in zip(samples, sums)]
        if name == 'iolat' and all(lows):
            result[part]['ratioToEmpty'] = bench.spread([m / low for m, low in zip(mine, lows)])
    # A few requests of others among many operations without any say nothing.
    if op != BACKGROUND and result['requests']['median'] > 0.5:
        result['nsecPerRequest'] = bench.spread([s.total(True)[1] / s.requests for s in samples])
        if name != 'empty':
            result['netNSecPerRequest'] = bench.spread([net(s, f) / s.requests for s, f in zip(samples, floor)])
    return result


def net(sample, floor):
    """Time of the programs at points of requests, but for what as many empty ones would have taken."""
    runs, ns = sample.total(True)
    floor_runs, floor_ns = floor.total(True)
    return ns - runs * floor_ns / floor_runs


def find(rows, op, name):
    return next((r for r in rows if r['op'] == op and r['variant'] == name), None)


def middle(row, *path):
    for key in path:
        row = row.get(key) if row else None
    return row['median'] if row else None


def budgets_of(sums, quiet, absent):
    result = []
    for op in 'append+fsync', 'overwrite+fdatasync', 'clean-fsync':
        row = find(sums, op, 'iolat')
        what = f'{op}: operation and journal programs'
        result += [Budget(what, middle(row, 'operation', 'ratioToEmpty'), SYNC_RATIO_MAX, 'x empty'),
                   Budget(what, middle(row, 'operation', 'nsec'), SYNC_NSEC_MAX, 'ns')]
    for op in 'device-read', 'dread', 'dwrite', 'append+fsync':
        mine, limit = (middle(find(sums, op, name), 'nsecPerRequest') for name in ('iolat', 'biolatency'))
        result.append(Budget(f'{op}: one request, against biolatency', mine, limit, 'ns',
                             note=absent.get('biolatency')))
    for op in QUIET:
        result.append(Budget(f'{op}: hits beyond those of the background', quiet[op], QUIET_HITS_MAX, 'a call'))
    return result


def quiet_hits(samples, background):
    """Hits a call, without those that would have come in that time anyway."""
    def hits(s):
        return s.total(False)[0] + s.total(True)[0]
    return max(0, bench.median([(hits(s) - hits(b) / b.seconds * s.seconds) / s.count
                                for s, b in zip(samples, background)]))


def measure(test, options):
    disk, described = bench_disk(test)
    variants, absent = [v for v in all_variants(test) if v.name in MEASURED], {}
    ops = Ops(test, disk)
    rounds, count = options.rounds(9, 3), options.pick(20000, 500)
    samples = {v.name: {op: [] for op in (BACKGROUND, *OPS)} for v in variants}
    with bpf.Statistics():
        for n in range(rounds):
            bench.progress(f'round {n + 1} of {rounds}')
            for variant in variants:
                if variant.name in absent:
                    continue
                try:
                    with variant.on():
                        samples[variant.name][BACKGROUND].append(Sample(variant, ops, BACKGROUND))
                        for op in OPS:
                            ops.run(op, 60000, count // 10)
                            n = options.pick(1, 0.1) * QUIET[op] if op in QUIET else count
                            samples[variant.name][op].append(Sample(variant, ops, op, int(n)))
                except Missing as e:
                    absent[variant.name] = str(e)
    there = [v.name for v in variants if v.name not in absent]
    sums = [summarize_sums(op, name, samples[name][op], samples['empty'][op])
            for op in (*OPS, BACKGROUND) for name in there]
    quiet = {op: quiet_hits(samples['iolat'][op], samples['iolat'][BACKGROUND]) for op in QUIET}
    programs = [row for op in OPS for name in there for row in summarize_programs(op, name, samples[name][op])]
    return {'disk': described, 'rounds': rounds, 'variants': [v.name for v in variants], 'absent': absent, 'sums': sums,
            'programs': programs, 'budgets': [b.json() for b in budgets_of(sums, quiet, absent)]}


def sums_table(result):
    rows, last = [], None
    for r in result['sums']:
        row = [r['op'] if r['op'] != last else '', r['variant']]
        for part in 'operation', 'request':
            ratio = r[part].get('ratioToEmpty')
            row += [bench.number(r[part]['hits']['median']), bench.with_spread(r[part]['nsec']),
                    f'{ratio["median"]:.2f}' if ratio else '']
        row += [bench.number(r['requests']['median']), bench.with_spread(r.get('nsecPerRequest')),
                bench.number(r['netNSecPerRequest']['median']) if 'netNSecPerRequest' in r else '']
        rows.append(row)
        last = r['op']
    notes = [f'{name}: not measured: {why}' for name, why in result['absent'].items()]
    notes += [f'Medians of {result["rounds"]} rounds (middle half); {result["disk"]}. Statistics cost some ns a hit; '
              'net: without what as many hits of empty programs took.',
              'Programs see the whole machine: what it does by itself in a second is the last operation.']
    return bench.table('BPF run time per operation: programs at block_* ("request") and all others ("operation")',
                       ('operation', 'with', 'hits', 'operation ns', 'x empty', 'hits', 'request ns', 'x empty',
                        'requests', 'ns a request', 'net'), rows, notes, left=(0, 1))


def programs_table(result):
    rows, last = [], None
    floor = {(r['op'], r['program']): r for r in result['programs'] if r['variant'] == 'empty'}
    for r in result['programs']:
        if r['variant'] == 'empty' or r['op'] in QUIET:
            continue
        key = r['op'], r['variant']
        low = floor.get((r['op'], r['program'])) if r['variant'] == 'iolat' else None
        rows.append([key[0] if key != last else '', key[1] if key != last else '', r['program'], r['target'],
                     bench.number(r['hits']['median']), bench.with_spread(r['nsecPerHit']),
                     bench.number(low['nsecPerHit']['median']) if low else '', bench.number(r['nsecPerOp']['median'])])
        last = key
    columns = ('operation', 'with', 'program', 'at', 'hits', 'ns a hit', 'empty', 'ns an operation')
    return bench.table('Programs', columns, rows, left=range(4))


def text(result):
    return '\n'.join([sums_table(result), programs_table(result), bench.budget_table(result['budgets'])])
