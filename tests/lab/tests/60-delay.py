#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-*
# timeout: 600
# long
"""Where a disk takes 200 ms more for each write, totals are what the caller saw, and the time is under a name."""

import contextlib

import disks
import lab
from harness import cases, check, diagnose, run

DELAY_NSEC = 200_000_000
N = 5
UNNAMED = ('other', 'fs')
TOLERANCE = 0.05


# Each yields a disk with a small ext4 on it.

@contextlib.contextmanager
def dm_delay():
    with disks.virtio() as below:
        disks.make(below, small=True)
        with disks.dm_delay(below, DELAY_NSEC // 1_000_000) as disk:
            yield disk


@contextlib.contextmanager
def null_blk():
    with disks.null_blk(size=128, memory_backed=1, irqmode=2, completion_nsec=DELAY_NSEC) as disk:
        disks.make(disk, small=True)
        yield disk


@contextlib.contextmanager
def scsi_debug():
    with disks.scsi_debug(dev_size_mb=128, delay=0) as disk:
        disks.make(disk, small=True)
        disks.scsi_debug_delay(DELAY_NSEC)
        yield disk
        disks.scsi_debug_delay(0)


# A dm device is made of bios: the requests below it are not delayed, and neither are its reads.
DISKS = {'dm-delay': dm_delay, 'null_blk': null_blk, 'scsi_debug': scsi_debug}
REQUESTS_DELAYED = ('null_blk', 'scsi_debug')

# Operation: kind of workload, its options, how many delays one has at least.
KINDS = {
    'fsync': ('fsync', {'write': 4096, 'pattern': 'append'}, 2),
    'fdatasync': ('fdatasync', {'write': 4096, 'prepared': True}, 1),
    'syncwrite': ('odsync', {'prepared': True}, 1),
    'dread': ('dread', {'prepared': True}, 1),
}

setup = lab.Rig


def parts_of(unit, op, device):
    """phase -> nanoseconds; total and runqueue among them."""
    result = {}
    for r in lab.rows(unit, unit=unit, op=op, device=device):
        result[r['phase']] = result.get(r['phase'], 0) + r['sumNSec']
    return result


def problems_of_phases(unit, op, device, seen):
    """seen: what the workload says itself."""
    parts = parts_of(unit, op, device)
    total, runqueue = parts.pop('total'), parts.pop('runqueue', 0)
    named = sum(v for k, v in parts.items() if k not in UNNAMED)
    what = f'{op}: total {total}, caller {seen["sumNSec"]}, run queue {runqueue}, phases {parts}'
    diagnose(what)
    if abs(total - seen['sumNSec']) > TOLERANCE * seen['sumNSec']:
        yield f'the total is not what the caller saw: {what}'
    if sum(parts.values()) != total:
        yield f'the phases do not sum to the total: {what}'
    if named < 0.9 * total:
        yield f'less than 90 % has a name: {what}'
    if parts.get('other', 0) > 0.05 * total:
        yield f'more than 5 % is other: {what}'


def problems_of_requests(unit, device):
    """The delay is in the device's part of each request, not in the queue's."""
    n = spent = 0
    for r in lab.rows(unit, unit=unit, phase='device', device=device, origin='self'):
        if r['op'] in ('rq-read', 'rq-write'):
            n += r['count']
            spent += r['sumNSec']
    if n < N:
        yield f'only {n} requests of the unit'
    if spent < 0.9 * n * DELAY_NSEC:
        yield f'{n} requests took only {spent} ns in the device'


def problems_of(name, op, disk, path):
    kind, options, n_delays = KINDS[op]
    options = dict(options)
    if options.pop('prepared', False):
        run('dd', 'if=/dev/zero', f'of={path}', 'bs=64K', 'count=1', 'conv=fsync')
    unit = lab.unit_name(op)
    seen = lab.workload(unit, kind, path, count=N, **options)
    check(seen['minNSec'] > n_delays * DELAY_NSEC, f'there was no delay: {seen}')
    lab.expect_counts(unit, {op: N}, device=disk.device)
    yield from problems_of_phases(unit, op, disk.device, seen)
    if name in REQUESTS_DELAYED:
        yield from problems_of_requests(unit, disk.device)


@cases(*DISKS)
def test_delay_is_named(t, name):
    disk = t.enter(DISKS[name]())
    mount_point = t.enter(disks.mounted(disk, fresh=False))
    # The first commit of a journal also writes its superblock: a test of its own.
    run('dd', 'if=/dev/zero', f'of={mount_point / "first"}', 'bs=4K', 'count=1', 'conv=fsync')
    problems = []
    for op in KINDS:
        if op == 'dread' and (name not in REQUESTS_DELAYED or not lab.sees_direct_io()):
            continue
        problems += problems_of(name, op, disk, mount_point / op)
    check(not problems, '\n'.join(problems))


def test_first_commit_after_mount_is_named(t):
    disk = t.enter(dm_delay())
    mount_point = t.enter(disks.mounted(disk, fresh=False))
    unit = lab.unit_name()
    seen = lab.workload(unit, 'fsync', mount_point / 'first', count=1, write=4096)
    lab.expect_counts(unit, {'fsync': 1}, device=disk.device)
    problems = list(problems_of_phases(unit, 'fsync', disk.device, seen))
    check(not problems, '\n'.join(problems))


if __name__ == '__main__':
    lab.main()
