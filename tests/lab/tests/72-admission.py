#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-*
# timeout: 400
# long
"""Waiting to get a request at all is `admission`: too few tags, the writeback throttle, a limit of the unit. What the
device takes for a request stays what it is."""

import contextlib
import json

import disks
import lab
import measure
from harness import check, diagnose, run, skip

DELAY_NSEC = 20_000_000
THREADS = 64
N = 4

setup = lab.Rig


@contextlib.contextmanager
def slow_disk(t, **attributes):
    """One that takes long for each request, but many at once; without a scheduler."""
    disk = t.enter(disks.null_blk(size=128, memory_backed=1, irqmode=2, completion_nsec=DELAY_NSEC, submit_queues=1,
                                  hw_queue_depth=64, **attributes))
    disks.make(disk, small=True)
    disk.set('scheduler', 'none')
    with disks.mounted(disk, fresh=False) as mount_point:
        yield disk, mount_point


def admission(unit):
    """Over all operations but those of opening files: phase -> nanoseconds, and the total."""
    phases = {}
    for (op, phase), nsec in measure.sums(unit).items():
        if not op.startswith('rq-') and op != 'meta' and phase != 'runqueue':
            phases[phase] = phases.get(phase, 0) + nsec
    return phases, phases.pop('total', 0)


def check_admitted(unit, disk, seen, at_least):
    phases, total = admission(unit)
    mean, n = measure.device_share(unit, disk.device)
    what = (f'caller {measure.msec(seen["sumNSec"])}, total {measure.msec(total)}: {measure.show(phases)}; '
            f'{n} requests of {measure.msec(mean)} each in the device')
    diagnose(what)
    if lab.is_blind('admission phase'):
        skip(f'named as a blind spot: {what}')
    check(phases.get('admission', 0) >= at_least, f'too little admission: {what}')
    check(n > 0 and mean <= 2 * DELAY_NSEC, f'the device is not what it was: {what}')
    check(phases.get('other', 0) <= 0.05 * max(total, 1), f'more than 5 % is other: {what}')
    check(total <= seen['sumNSec'] * 1.05, f'more than the caller waited: {what}')


def test_few_requests(t):
    disk, mount_point = t.enter(slow_disk(t))
    unit = lab.unit_name()
    # Made and filled by one, a block each; small reads do not wait for tags yet.
    for i in range(THREADS):
        (mount_point / f'file.{i}').write_bytes(bytes(4096))
    run('sync')
    disk.set('nr_requests', 4)
    seen = lab.workload(unit, 'dwrite', mount_point / 'file', threads=THREADS, count=N)
    # Each of them has one request of the four, so it waits for all the others but its own.
    check(seen['sumNSec'] > 4 * THREADS * N * DELAY_NSEC, f'nobody had to wait: {seen}')
    check_admitted(unit, disk, seen, 0.8 * (seen['sumNSec'] - THREADS * N * 2 * DELAY_NSEC))


def test_writeback_throttle(t):
    disk, mount_point = t.enter(slow_disk(t))
    if not (disk.sys / 'queue/wbt_lat_usec').exists():
        skip('no writeback throttle here')
    for i in range(THREADS):
        (mount_point / f'file.{i}').write_bytes(bytes(4096))
    (mount_point / 'cold').write_bytes(bytes(65536))
    run('sync')
    try:
        disk.set('wbt_lat_usec', 1)
    except OSError as e:
        skip(f'no writeback throttle on this disk: {e}')
    # It throttles writes for the sake of reads; direct writes it lets pass.
    reader = lab.start_workload(lab.unit_name('reader'), 'dread', mount_point / 'cold', count=2000, rate=20)
    unit = lab.unit_name()
    # It takes some tenths of a second until it begins.
    seen = lab.workload(unit, 'fdatasync', mount_point / 'file', threads=THREADS, count=4 * N, write=4096)
    reader.stop()
    in_device = THREADS * 4 * N * 3 * DELAY_NSEC
    if seen['sumNSec'] < 2 * in_device:
        skip(f'it does not throttle this: {seen}')
    check_admitted(unit, disk, seen, 0.8 * (seen['sumNSec'] - in_device))


def test_limit_of_a_unit(t):
    disk = t.enter(disks.null_blk(size=128, memory_backed=1))
    mount_point = t.enter(disks.mounted(disk))
    unit = lab.unit_name('limited')
    command = lab.workload_command('dwrite', mount_point / 'file', count=32, block='64K', prepare='2M')
    load = lab.Unit(unit, f'--property=IOWriteBandwidthMax={disk.node} 1M', 'sh', '-c',
                    'sleep 1 && exec "$@"', 'sh', *command)
    free = lab.workload(lab.unit_name('free'), 'dwrite', mount_point / 'other', count=32, block='64K', prepare='2M')
    out = load.finish()
    seen = json.loads(out.splitlines()[-1])
    diagnose(f'limited {measure.msec(seen["sumNSec"])}, free {measure.msec(free["sumNSec"])}')
    check(seen['sumNSec'] > measure.SEC, f'it was not limited: {seen}')
    phases, total = admission(unit)
    what = f'caller {measure.msec(seen["sumNSec"])}, total {measure.msec(total)}: {measure.show(phases)}'
    diagnose(what)
    if lab.is_blind('admission phase'):
        skip(f'named as a blind spot: {what}')
    # Filling the file was limited, too: its writing is in data.
    check(phases.get('admission', 0) >= 0.9 * total, f'less than 90 % is admission: {what}')


if __name__ == '__main__':
    lab.main()
