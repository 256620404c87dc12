#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-generic-*
"""Where ext4 and its journal are modules that nothing needed so far, their tracepoints and functions are attached to
when they come, and what was absent until then is no fault."""

import time

import disks
import lab
import measure
from harness import check, diagnose, equal, wait_for

TRACEPOINTS = {'commit-start', 'commit-locking', 'commit-flushing', 'commit-logging', 'commit-end', 'handle-inode',
               'handle-stats'}
FUNCTIONS = {'ext4-sync', 'journal-wait', 'ext4-fast-commit', 'handle-restart'}
N = 20


def absent():
    return {r['probe'] for r in lab.probes() if r['state'] == 'absent'}


def test_modules_that_come(t):
    equal((TRACEPOINTS | FUNCTIONS) - absent(), set(), 'attached although there is no such module yet')
    check(not lab.query('status')['degraded'], 'degraded, though nothing is missing')

    disk = t.enter(disks.null_blk(size=128, memory_backed=1))
    measure.MAKE['ext4'](disk.node)
    began = time.monotonic()
    where = t.enter(measure.mounted(disk, 'ext4', fresh=False))
    wait_for(lambda: measure.attached(*FUNCTIONS) == FUNCTIONS, 60, 'the functions')
    diagnose(f'functions after {time.monotonic() - began:.1f} s')
    # All programs are loaded again for them: some seconds, emulated.
    wait_for(lambda: measure.attached(*TRACEPOINTS) == TRACEPOINTS, 120, 'the tracepoints')
    diagnose(f'tracepoints after {time.monotonic() - began:.1f} s')

    unit = lab.unit_name()
    lab.workload(unit, 'fsync', where / 'file', count=N, write=4096, pattern='append')
    lab.expect_counts(unit, {'fsync': N}, device=disk.device)
    sums = {r['phase']: r['sumNSec'] for r in lab.rows(unit, unit=unit, op='fsync')}
    check(sums.get('journal', 0) > sums['total'] / 10, f'waits for the journal are not seen: {sums}')
    requests = lab.rows(unit='(kernel)', op='rq-write', phase='device', origin='journal', device=disk.device)
    check(sum(r['count'] for r in requests) >= N, f'requests of the journal: {requests}')


if __name__ == '__main__':
    lab.main()
