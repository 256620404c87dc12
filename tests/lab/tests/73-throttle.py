#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-*
# timeout: 400
# long
"""Writers that are held back because too many pages are dirty: in the whole system, and in one unit with
MemoryHigh=."""

import json
import time

import disks
import lab
import measure
from harness import check, diagnose, equal, run

MBPS = 10

setup = lab.Rig


def writer_options(megabytes):
    return {'count': megabytes << 4, 'block': 1 << 16, 'pattern': 'append'}


def check_named(problems):
    problems = list(problems)
    check(not problems, '\n'.join(problems))


def test_low_dirty_bytes(t):
    slow = t.enter(disks.null_blk(size=256, memory_backed=1, mbps=MBPS))
    other = t.enter(disks.null_blk(size=128, memory_backed=1))
    slow_mount, other_mount = t.enter(disks.mounted(slow)), t.enter(disks.mounted(other))
    quiet = lab.unit_name('quiet')
    before = lab.workload(quiet, 'fsync', other_mount / 'quiet', count=20, rate=5, write=4096)
    measure.dirty_bytes(t, 8 << 20)

    writer, victim, elsewhere = lab.unit_name('writer'), lab.unit_name('victim'), lab.unit_name('elsewhere')
    began = time.monotonic_ns()
    load = lab.start_workload(writer, 'write', slow_mount / 'stream', **writer_options(60))
    time.sleep(1.5)
    loads = [lab.start_workload(victim, 'fsync', slow_mount / 'victim', count=5, rate=2, write=4096),
             lab.start_workload(elsewhere, 'fsync', other_mount / 'else', count=10, rate=4, write=4096)]
    victim_seen, elsewhere_seen = (json.loads(u.finish().splitlines()[-1]) for u in loads)
    seen = json.loads(load.finish().splitlines()[-1])
    elapsed = time.monotonic_ns() - began
    check(seen['sumNSec'] > measure.SEC, f'it was not held back: {seen}')

    phases, total, _ = measure.parts(writer, 'slowwrite')
    what = (f'slowwrite: {measure.msec(total)} of {measure.msec(seen["sumNSec"])} in write(2), '
            f'{measure.msec(elapsed)} in all: {measure.show(phases)}')
    diagnose(what)
    check(total <= 1.05 * seen['sumNSec'], f'more than the caller waited: {what}')
    check(total >= 0.5 * seen['sumNSec'], f'less than half of what the caller waited, copying included: {what}')
    # It also waits for what all writers on a slow disk do: room in the journal, blocks of metadata.
    check(phases.get('throttle', 0) >= 0.7 * total, f'less than 70 % is throttle: {what}')
    named = sum(phases.get(p, 0) for p in ('throttle', 'journal', 'io', 'admission', 'lock'))
    check(named >= 0.9 * total, f'less than 90 % is named: {what}')
    devices = {r['device'] for r in lab.rows(writer, unit=writer, op='slowwrite', phase='total')}
    equal(devices, {slow.device}, 'file systems of the slow writes')

    diagnose(run('iolatctl', 'status', writer).stdout)
    # Who syncs on the same disk waits for it: for its data or for the journal.
    check_named(measure.problems(victim, 'fsync', 'data', 'journal', 'throttle', 'admission', 'io', 'lock',
                                 caller=victim_seen['sumNSec']))
    # Who syncs on another disk does not.
    diagnose(f'on another disk: {measure.msec(elsewhere_seen["p50NSec"])}, alone {measure.msec(before["p50NSec"])}')
    check(elsewhere_seen['p50NSec'] < max(10 * before['p50NSec'], 100 * measure.MSEC), 'harmed on another disk')
    check_named(measure.problems(elsewhere, 'fsync', caller=elsewhere_seen['sumNSec'], tolerance=0.2, other=None))


def test_memory_high_of_a_unit(t):
    disk = t.enter(disks.null_blk(size=256, memory_backed=1, mbps=MBPS))
    mount_point = t.enter(disks.mounted(disk))
    hog, victim = lab.unit_name('hog'), lab.unit_name('victim')
    command = lab.workload_command('write', mount_point / 'stream', **writer_options(48))
    load = lab.Unit(hog, '--property=MemoryHigh=16M', '--property=IOAccounting=yes', *command)
    time.sleep(1.5)
    victim_seen = lab.workload(victim, 'fsync', mount_point / 'victim', count=5, rate=2, write=4096)
    seen = json.loads(load.finish().splitlines()[-1])
    phases, total, _ = measure.parts(hog, 'slowwrite')
    what = f'slowwrite: {measure.msec(total)} of {measure.msec(seen["sumNSec"])} in write(2): {measure.show(phases)}'
    diagnose(what)
    check(seen['sumNSec'] > measure.SEC, f'it was not held back: {what}')
    check(total <= 1.05 * seen['sumNSec'], f'more than the caller waited: {what}')
    if total < 0.5 * seen['sumNSec']:
        check(lab.is_blind('memory.high'), f'the wait is neither shown nor named as a blind spot: {what}')
    else:
        held = sum(phases.get(p, 0) for p in ('throttle', 'reclaim'))
        check(held >= 0.7 * total, f'less than 70 % is throttle: {what}')
    check_named(measure.problems(victim, 'fsync', 'data', 'journal', 'throttle', 'admission', 'io', 'lock',
                                 caller=victim_seen['sumNSec']))


if __name__ == '__main__':
    lab.main()
