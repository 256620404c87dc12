# SPDX-License-Identifier: LGPL-2.1-or-later
"""The benchmark measures what it says, in short form: the figures themselves are not looked at, but whether they can be
true."""

import json
import os
import pathlib
import signal
import subprocess
import time

import harness
from harness import SHM, check, cgroup_root, equal, run, start, wait_for

BENCH = pathlib.Path(__file__).resolve().parents[1] / 'bench/run'
VARIANTS = {'nothing', 'empty', 'iolat', 'biolatency', 'bpftrace', 'bpftrace-syscalls'}
ALWAYS = {'nothing', 'empty', 'iolat'}
# For all that the machine does by itself meanwhile.
QUIET_HITS_MAX = 0.05
BUSY_HITS_MAX = 4


class Rig:
    """One run for all tests."""

    def __init__(self):
        self.sections = json.loads(run(BENCH, '--quick', '--json', '--rounds=2', 'cost', 'programs').stdout)['sections']


def setup(t):
    return Rig()


def value(rows, key, **wanted):
    found = [r for r in rows if all(r[k] == v for k, v in wanted.items())]
    equal(len(found), 1, f'rows with {wanted}')
    return found[0][key]['median']


def test_all_variants_are_there(t):
    cost, programs = t.rig.sections['cost'], t.rig.sections['programs']
    equal(set(cost['variants']), VARIANTS, 'variants')
    equal({r['variant'] for r in cost['rows']}, VARIANTS - set(cost['absent']), 'variants with figures')
    for section in cost, programs:
        equal(ALWAYS & set(section['absent']), set(), 'variants that need nothing but are absent')
        check(all(section['absent'].values()), f'a variant is absent for no reason: {section["absent"]}')
        rows = section['rows' if section is cost else 'sums']
        equal({r['variant'] for r in rows}, set(section['variants']) - set(section['absent']), 'variants with figures')
    check(all(r['nsec']['median'] > 0 for r in cost['rows']), 'an operation takes no time')


def test_hits(t):
    rows = t.rig.sections['cost']['rows']
    for op in 'append+fsync', 'clean-fsync', 'overwrite+fdatasync', 'dread', 'dwrite':
        hits = value(rows, 'hits', op=op, variant='iolat')
        check(hits > 1, f'{op}: {hits} hits')
    for op in 'write', 'getpid':
        hits = value(rows, 'hits', op=op, variant='iolat')
        check(hits < QUIET_HITS_MAX, f'{op}: {hits} hits')


def test_programs(t):
    section = t.rig.sections['programs']
    for variant in 'empty', 'iolat':
        for program in 'sync_enter', 'sync_exit':
            hits = value(section['programs'], 'hits', op='clean-fsync', variant=variant, program=program)
            check(0.99 < hits < BUSY_HITS_MAX, f'{variant}: {program} runs {hits} times for an fsync')
    for op in 'append+fsync', 'clean-fsync':
        full, empty = (value([r['operation'] for r in section['sums'] if (r['op'], r['variant']) == (op, v)], 'nsec')
                       for v in ('iolat', 'empty'))
        check(full > empty > 0, f'{op}: programs of iolat run {full} ns, empty ones {empty} ns')
    requests = value(section['sums'], 'requests', op='device-read', variant='iolat')
    check(0.99 < requests < BUSY_HITS_MAX, f'{requests} requests for a direct read of one block')
    check(section['budgets'] and all(b['value'] is not None for b in section['budgets'] if b['limit'] is not None),
          'a budget has no figure')


def test_nothing_is_left_behind(t):
    """Ended by a signal in the middle."""
    process = start(BENCH, '--quick', '--json', 'cost', stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    name = f'{harness.PREFIX}{process.pid}-*'
    wait_for(lambda: list(SHM.glob(name)), what='the disk of the benchmark')
    time.sleep(2)
    equal(process.poll(), None, 'exit code before the signal')
    children = pathlib.Path(f'/proc/{process.pid}/task/{process.pid}/children').read_text().split()
    check(children, 'nothing is running')
    process.send_signal(signal.SIGINT)
    equal(process.wait(30), 128 + signal.SIGINT, 'exit code')
    equal([p for p in children if pathlib.Path('/proc', p).exists()], [], 'processes')
    equal(list(SHM.glob(name)) + list(pathlib.Path(os.environ['IOLAT_TEST_DIR']).parent.glob(name)), [], 'directories')
    equal(list(cgroup_root().rglob(name)), [], 'cgroups')


if __name__ == '__main__':
    harness.main()
