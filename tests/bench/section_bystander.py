# SPDX-License-Identifier: LGPL-2.1-or-later
"""What iolat costs a program that does no storage I/O, and waits for locks all the time: it traces the events of
contended locks, which come to everybody."""

import os
import tempfile

import bench
import bpf
from bench import TOOLS, Talker
from harness import RUN, SHM
from rig import cgroup
from variants import Empty, Iolat, Nothing

KINDS = ('mutex', 'pipe', 'rename', 'mmap')
THREADS_OF_A_CPU = 4
BASE = 'nothing'
COUNTED = ('runs', 'nsecPerRun', 'runNSec', 'hits')


def lock_hits(variant):
    """Those that iolat itself counts: of locks that a task with storage I/O in flight waited for."""
    return sum(p['hits'] or 0 for p in variant.daemon.probes('probe') if p['probe'].startswith('lock-'))


class Runs:
    """What all programs of a variant ran while this is entered, with the kernel's statistics on."""

    def __init__(self, variant):
        self.points = variant.programs()

    def __enter__(self):
        self.before = {i: bpf.program(i) for i in self.points}
        return self

    def __exit__(self, *args):
        after = {i: bpf.program(i) for i in self.points}
        self.runs = sum(after[i].runs - self.before[i].runs for i in self.points)
        self.ns = sum(after[i].ns - self.before[i].ns for i in self.points)


def measure_round(variant, locks, msec, samples):
    for kind in KINDS:
        locks.ask(kind, msec // 4)
        answer = locks.ask(kind, msec)
        sample = {'nsec': answer['nsec'] / answer['count'], 'cpuNSec': answer['cpuNSec'] / answer['count']}
        if variant.name != BASE:  # apart from that, as the statistics cost something themselves
            before = lock_hits(variant) if variant.name == 'iolat' else None
            with bpf.Statistics(), Runs(variant) as runs:
                count = locks.ask(kind, msec)['count']
            sample |= {'runs': runs.runs / count, 'runNSec': runs.ns / count,
                       'nsecPerRun': runs.ns / runs.runs if runs.runs else None}
            if before is not None:
                sample['hits'] = (lock_hits(variant) - before) / count
        samples[variant.name][kind].append(sample)


def summarize(kind, name, samples):
    mine, base = samples[name][kind], samples[BASE][kind]
    row = {'kind': kind, 'variant': name}
    for key in mine[0]:
        row[key] = bench.spread([s[key] for s in mine if s[key] is not None])
    if name != BASE:
        for key in 'nsec', 'cpuNSec':
            row[f'{key}Ratio'] = bench.spread([a[key] / b[key] for a, b in zip(mine, base)])
    return row


def measure(test, options):
    iolat = Iolat(test)
    with iolat.on():
        points = iolat.points()
    variants = [Nothing(), Empty(points), iolat]
    threads = THREADS_OF_A_CPU * len(os.sched_getaffinity(0))
    group = test.enter(cgroup('bystander.service'))
    directory = test.enter(tempfile.TemporaryDirectory(prefix=f'{RUN}-', dir=SHM))
    locks = Talker(TOOLS / 'iolat-bench-locks', threads, directory, starter=group.start)
    test.defer(locks.close)
    rounds, msec = options.rounds(15, 3), options.pick(500, 100)
    samples = {v.name: {kind: [] for kind in KINDS} for v in variants}
    for n in range(rounds):
        bench.progress(f'round {n + 1} of {rounds}')
        for variant in variants:
            with variant.on():
                measure_round(variant, locks, msec, samples)
    return {'threads': threads, 'rounds': rounds,
            'rows': [summarize(kind, v.name, samples) for kind in KINDS for v in variants]}


def text(result):
    rows, last = [], None
    for r in result['rows']:
        ratios = [bench.with_spread(r[f'{k}Ratio']) if f'{k}Ratio' in r else '' for k in ('nsec', 'cpuNSec')]
        rows.append([r['kind'] if r['kind'] != last else '', r['variant'], bench.number(r['nsec']['median']), ratios[0],
                     bench.number(r['cpuNSec']['median']), ratios[1],
                     *(bench.number(r[k]['median']) if r.get(k) else '' for k in COUNTED)])
        last = r['kind']
    notes = [f'{result["threads"]} threads. Medians of {result["rounds"]} rounds (middle half), ratios of those within '
             'a round.',
             'Runs are those of all programs, of the whole machine; hits those that were part of storage I/O.']
    return bench.table('A program without storage I/O that waits for locks',
                       ('lock', 'with', 'ns', 'ratio', 'CPU ns', 'ratio', 'runs', 'ns a run', 'BPF ns', 'hits'), rows,
                       notes, left=(0, 1))
