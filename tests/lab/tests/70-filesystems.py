#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-*
# timeout: 900
"""Each way to sync, on each file system, is counted exactly once, under the right operation, unit and file system.
The modules of the file systems come after iolatd has started."""

import time

import disks
import lab
import measure
from harness import cases, check, diagnose, equal, run, skip, wait_for

N = 6
KINDS = ('ext4', 'ext4 fast_commit', 'xfs', 'btrfs', 'overlay')
SIZE_MB = {'ext4': 128, 'ext4 fast_commit': 128, 'xfs': 320, 'btrfs': 256}

# kind of workload, its options, operation
WAYS = {
    'fsync': ('fsync', {'write': 4096, 'pattern': 'append'}, 'fsync'),
    'clean fsync': ('fsync', {}, 'fsync'),
    'fdatasync': ('fdatasync', {'write': 4096}, 'fdatasync'),
    'O_SYNC write': ('osync', {}, 'syncwrite'),
    'O_DSYNC write': ('odsync', {}, 'syncwrite'),
    'RWF_DSYNC write': ('rwf-dsync', {}, 'syncwrite'),
    'direct O_DSYNC write': ('odsync', {'direct': True}, 'syncwrite'),
    'msync': ('msync', {'write': 4096}, 'msync'),
    'io_uring fsync': ('fsync', {'engine': 'uring', 'write': 4096, 'pattern': 'append'}, 'fsync'),
    'io_uring fdatasync': ('fdatasync', {'engine': 'uring', 'write': 4096}, 'fdatasync'),
    'io_uring O_DSYNC write': ('odsync', {'engine': 'uring'}, 'syncwrite'),
    'AIO fsync': ('fsync', {'engine': 'aio', 'write': 4096, 'pattern': 'append'}, 'fsync'),
    'fsync of a directory': ('fsync-dir', {'write': 1}, 'fsync'),
    'sync': ('sync', {'write': 4096}, 'sync'),
    'syncfs': ('syncfs', {'write': 4096}, 'syncfs'),
    'sync_file_range': ('syncrange', {'write': 4096}, 'syncrange'),
}
ON_DIRECTORY = ('fsync-dir', 'sync', 'syncfs')
# What a mapping or a write of an overlay works on is the file below: the sync begins there.
BELOW_OVERLAY = ('msync', 'syncwrite')
BLIND_TITLES = {'AIO fsync': 'aio', 'sync': 'sync', 'syncfs': 'syncfs', 'sync_file_range': 'syncrange'}


class Rig(lab.Rig):
    """All file systems, mounted one after the other; how long their probes took to come."""

    def __init__(self, t):
        super().__init__(t)
        self.mount_points = {}
        self.devices = {}
        self.seconds = {}
        for kind in SIZE_MB:
            disk = t.enter(disks.null_blk(size=SIZE_MB[kind], memory_backed=1))
            measure.MAKE[kind](disk.node)
            began = time.monotonic()
            self.mount_points[kind] = t.enter(measure.mounted(disk, kind, fresh=False))
            try:
                if measure.wait_for_modules(kind, timeout=120):
                    self.seconds[kind] = time.monotonic() - began
            except AssertionError as e:
                self.seconds[kind] = None
                diagnose(str(e))
                diagnose(run('systemctl', 'status', '--no-pager', 'iolat-probes*', check=False).stdout)
                run('systemctl', 'start', 'iolat-probes.service', check=False)
        layers = self.mount_points['ext4'] / 'layers'
        self.mount_points['overlay'] = t.enter(measure.overlay(layers))
        for kind, path in self.mount_points.items():
            self.devices[kind] = measure.super_device(path)
        self.mount_time = time.monotonic()


setup = Rig


@cases('xfs', 'btrfs')
def test_module_that_comes_later_is_measured(t, kind):
    if not measure.is_function_tier():
        skip('this tier has no probes in that module')
    seconds = t.rig.seconds[kind]
    check(seconds is not None, f'the probes of {kind} did not come by themselves')
    diagnose(f'{seconds:.1f} s from before the first mount')
    # A second natively; here everything is some 15 times slower, and each program that is attached costs more.
    check(seconds < 90, f'{seconds:.1f} s')


def test_probes_of_overlay_come(t):
    if not measure.is_function_tier():
        skip('this tier has no probes in that module')
    wait_for(lambda: measure.attached('overlay-sync'), max(1, 30 - (time.monotonic() - t.rig.mount_time)),
             'probe overlay-sync')


def of_others(unit, devices):
    """Synchronous operations on these file systems that are not the unit's: (unit, op) -> count."""
    result = {}
    for r in lab.rows(phase='total'):
        if r['unit'] != unit and r['op'] in lab.SYNC_OPS and r['device'] in devices and r['origin'] != 'loop':
            result[r['unit'], r['op']] = result.get((r['unit'], r['op']), 0) + r['count']
    return result


def by_device(unit):
    """(op, device) -> count of the unit."""
    result = {}
    for r in lab.rows(unit, unit=unit, phase='total'):
        if r['op'] in lab.SYNC_OPS:
            result[r['op'], r['device']] = result.get((r['op'], r['device']), 0) + r['count']
    return result


def expected_device(t, kind, way, op):
    if op == 'sync':
        return None  # of all
    if kind == 'overlay' and op in BELOW_OVERLAY and 'fsync' not in way:
        return t.rig.devices['ext4']
    return t.rig.devices[kind]


def is_named_blind(kind, way):
    if lab.is_blind('other filesystems') and not kind.startswith('ext4'):
        return True
    return way in BLIND_TITLES and lab.is_blind(BLIND_TITLES[way])


@cases(*(f'{kind}, {way}' for kind in KINDS for way in WAYS))
def test_counted_once(t, case):
    kind, _, way = case.partition(', ')
    work, options, op = WAYS[way]
    unit, device = lab.unit_name(), expected_device(t, kind, way, op)
    devices = {t.rig.devices[kind], t.rig.devices['ext4'] if kind == 'overlay' else t.rig.devices[kind]}
    directory = t.directory(parent=t.rig.mount_points[kind])
    before = of_others(unit, devices)
    seen = lab.workload(unit, work, directory if work in ON_DIRECTORY else directory / 'file', count=N, **options)
    equal((seen['count'], seen['errors']), (N, 0), 'what the workload did')

    def others():
        return {k: n - before.get(k, 0) for k, n in of_others(unit, devices).items() if n != before.get(k, 0)}

    wanted = {(op, device): N}
    for _ in range(20):
        mine = by_device(unit)
        if mine == wanted:
            break
        time.sleep(0.2)
    if mine != wanted and is_named_blind(kind, way):
        mine, strangers = lab.settled(lambda: by_device(unit)), lab.settled(others)
        told = sum(mine.values()) + sum(strangers.values())
        what = f'{mine} of the unit, {strangers} of others, for {wanted} ({lab.health()})'
        check(told == N if way == 'AIO fsync' else told <= N, what)
        check({u for u, _ in strangers} <= {'(kernel)'}, what)
        skip(f'named as a blind spot: {what}')
    equal(mine, wanted, f'operations of {unit}; of others {others()}; {lab.health()}')
    equal(others(), {}, 'what others did meanwhile')


if __name__ == '__main__':
    lab.main()
