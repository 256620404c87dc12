#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-*
# timeout: 400
# long
"""A device that is suspended for 3 s, with and without its file system frozen: who waits there waits for data, for the
journal or for the end of the freeze, not for the file system's own code or anything unnamed."""

import time

import disks
import lab
import measure
from harness import cases, check, diagnose, run

SUSPEND_SEC = 3
RATE = 4
LOAD_SEC = 9
KINDS = {
    'fsync': ('fsync', {'write': 4096, 'pattern': 'append'}),
    'fdatasync': ('fdatasync', {'write': 4096}),
    'osync': ('osync', {'pattern': 'append'}),
}
NAMES = {
    'without freeze': (('data', 'journal', 'flush', 'io', 'admission', 'lock'), ['--nolockfs']),
    'with freeze': (('freeze', 'data', 'journal', 'flush', 'io', 'lock'), []),
}

setup = lab.Rig


def waits(unit):
    """All that the unit waited for: phase -> nanoseconds, over all operations, and the longest operation."""
    phases, longest = {}, 0
    for r in lab.rows(unit, unit=unit):
        if r['op'].startswith('rq-') or r['phase'] == 'runqueue':
            continue
        if r['phase'] == 'total':
            longest = max(longest, r['maxNSec'])
        phases[r['phase']] = phases.get(r['phase'], 0) + r['sumNSec']
    return phases, phases.pop('total', 0), longest


@cases(*(f'{k}, {n}' for n in NAMES for k in KINDS))
def test_wait_is_named(t, case):
    kind, _, how = case.partition(', ')
    names, options = NAMES[how]
    disk = t.enter(disks.dm_linear(t.enter(disks.virtio())))
    mount_point = t.enter(disks.mounted(disk))
    unit = lab.unit_name(kind)
    work, more = KINDS[kind]
    load = lab.start_workload(unit, work, mount_point / 'file', count=RATE * LOAD_SEC, rate=RATE, prepare='64K',
                              **more)
    time.sleep(3)
    began = time.monotonic()
    run('dmsetup', 'suspend', *options, disk.node)
    try:
        time.sleep(SUSPEND_SEC)
    finally:
        run('dmsetup', 'resume', disk.node)
    at_most = (time.monotonic() - began) * measure.SEC
    check(load.process.poll() is None, 'the workload ended too soon')
    load.finish()

    lab.settled(lambda: waits(unit))
    phases, total, longest = waits(unit)
    what = (f'total {measure.msec(total)}, longest {measure.msec(longest)}, suspended '
            f'{SUSPEND_SEC} s: {measure.show(phases)}')
    diagnose(what)
    # At the pace of the workload it began to wait within one interval.
    at_least = (SUSPEND_SEC - 2 / RATE) * measure.SEC
    check(at_least <= longest <= at_most * 1.2, f'nobody waited as long as the device was suspended: {what}')
    named = sum(phases.get(p, 0) for p in names)
    check(named >= 0.9 * at_least, f'the wait is not in {names}: {what}')
    check(named >= 0.9 * total, f'less than 90 % is named: {what}')
    check(phases.get('other', 0) <= 0.05 * total, f'more than 5 % is other: {what}')
    check(sum(phases.values()) == total, f'the phases do not sum to the total: {what}')
    main = ('freeze',) if how == 'with freeze' else ('data', 'journal')
    check(sum(phases.get(p, 0) for p in main) >= 0.8 * at_least, f'not in {main}: {what}')
    if how == 'without freeze':
        check('freeze' not in phases, f'nothing was frozen: {what}')


if __name__ == '__main__':
    lab.main()
