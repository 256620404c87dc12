#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-*
# timeout: 900
# long
"""Where a disk takes 200 ms more, on each file system: totals are what the caller saw, and named phases have at least
90 % of the added time."""

import contextlib
import pathlib
import time

import disks
import lab
import measure
from harness import cases, check, diagnose, run, skip

DELAY_NSEC = 200_000_000
N = 4
NAMED = ('data', 'io', 'journal', 'admission', 'flush', 'lock')

setup = lab.Rig


class Delayed:
    """Yielded by each of the disks: on() and off() switch the delay, which is on already where it cannot be."""

    def __init__(self, disk, switch=None):
        self.disk = disk
        self.switch = switch or (lambda on: None)


@contextlib.contextmanager
def dm_delay(kind):
    """Delays bios, and so the requests below it not at all."""
    disks.need_module('dm_delay')
    name = f'lab-delay-{time.monotonic_ns()}'
    with disks.virtio() as below:
        def table(msec):
            return f'0 {int((below.sys / "size").read_text())} delay {below.node} 0 0 {below.node} 0 {msec}'

        def switch(on):
            run('dmsetup', 'suspend', '--nolockfs', name)
            run('dmsetup', 'load', name, '--table', table(DELAY_NSEC // 1_000_000 if on else 0))
            run('dmsetup', 'resume', name)
        run('dmsetup', 'create', name, '--table', table(0))
        try:
            yield Delayed(disks.Disk(pathlib.Path('/dev/mapper') / name), switch)
        finally:
            run('dmsetup', 'remove', '--retry', name)


@contextlib.contextmanager
def scsi_debug(kind):
    with disks.scsi_debug(dev_size_mb=400, delay=0) as disk:
        yield Delayed(disk, lambda on: disks.scsi_debug_delay(DELAY_NSEC if on else 0))


@contextlib.contextmanager
def null_blk(kind):
    """Cannot be switched, so with a file system that does little."""
    if kind != 'ext4':
        skip('making this file system there would take minutes')
    with disks.null_blk(size=128, memory_backed=1, irqmode=2, completion_nsec=DELAY_NSEC) as disk:
        disks.make(disk, small=True)
        yield Delayed(disk)


DISKS = {'dm-delay': dm_delay, 'scsi_debug': scsi_debug, 'null_blk': null_blk}
# Operation: kind of workload, its options
KINDS = {
    'fsync': ('fsync', {'write': 4096, 'pattern': 'append'}),
    'fdatasync': ('fdatasync', {'write': 4096}),
    'msync': ('msync', {'write': 4096}),
    'syncwrite': ('odsync', {}),
    'syncfs': ('syncfs', {'write': 4096}),
}
ON_DIRECTORY = ('syncfs',)


@cases(*(f'{kind}, {name}' for kind in ('ext4', 'xfs', 'btrfs') for name in DISKS))
def test_delay_is_named(t, case):
    kind, _, name = case.partition(', ')
    delayed = t.enter(DISKS[name](kind))
    mount_point = t.enter(measure.mounted(delayed.disk, kind, fresh=name != 'null_blk'))
    if kind != 'ext4':
        measure.wait_for_modules(kind, timeout=120)
        if lab.is_blind('other filesystems'):
            skip('named as a blind spot')
    device = measure.super_device(mount_point)
    for op in KINDS:
        run('dd', 'if=/dev/zero', f'of={mount_point / op}' if op not in ON_DIRECTORY else
            f'of={mount_point / "iolat-workload.0"}', 'bs=64K', 'count=1', 'conv=fsync')
    problems = []
    delayed.switch(True)
    try:
        for op, (work, options) in KINDS.items():
            if op in ON_DIRECTORY and lab.is_blind(op):
                continue
            unit = lab.unit_name(op)
            path = mount_point if op in ON_DIRECTORY else mount_point / op
            seen = lab.workload(unit, work, path, count=N, **options)
            if seen['minNSec'] < 0.9 * DELAY_NSEC:
                problems.append(f'there was no delay: {seen}')
                continue
            lab.expect_counts(unit, {op: N}, device=device)
            problems += measure.problems(unit, op, *NAMED, caller=seen['sumNSec'], device=device)
            if name != 'dm-delay':
                mean, n = measure.device_share(unit, delayed.disk.device)
                diagnose(f'{n} requests of its own, {measure.msec(mean)} each in the device')
                if n > 0 and mean < 0.9 * DELAY_NSEC:
                    problems.append(f'{op}: {n} requests took only {measure.msec(mean)} each in the device')
    finally:
        delayed.switch(False)
    check(not problems, '\n'.join(problems))


if __name__ == '__main__':
    lab.main()
