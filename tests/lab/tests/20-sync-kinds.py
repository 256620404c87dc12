#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: all
# timeout: 600
# long
"""Each way to sync or to bypass the page cache on ext4 is counted exactly once: under the right operation, unit and
file system, and under no other."""

import disks
import lab
from harness import cases, check, equal, skip

N = 20


class Rig(lab.Rig):
    def __init__(self, t):
        super().__init__(t)
        self.disk = t.enter(disks.virtio() if lab.IS_VM else disks.loop())
        self.mount_point = t.enter(disks.mounted(self.disk))


setup = Rig


# kind, engine, further options, operation, further operations for each one
WAYS = {
    'fsync': ('fsync', 'sync', {'write': 4096, 'pattern': 'append'}, 'fsync', None),
    'fsync with nothing dirty': ('fsync', 'sync', {}, 'fsync', None),
    'fdatasync': ('fdatasync', 'sync', {'write': 4096, 'prepare': '1M'}, 'fdatasync', None),
    'fdatasync with nothing dirty': ('fdatasync', 'sync', {}, 'fdatasync', None),
    'msync': ('msync', 'sync', {'write': 4096}, 'msync', None),
    'O_SYNC write': ('osync', 'sync', {}, 'syncwrite', None),
    'O_DSYNC write': ('odsync', 'sync', {}, 'syncwrite', None),
    'RWF_DSYNC write': ('rwf-dsync', 'sync', {}, 'syncwrite', None),
    'fsync of a directory': ('fsync-dir', 'sync', {'write': 1}, 'fsync', None),
    'direct O_SYNC write': ('osync', 'sync', {'direct': True}, 'syncwrite', None),
    'direct O_DSYNC overwrite': ('odsync', 'sync', {'direct': True, 'prepare': '1M'}, 'syncwrite', None),
    'direct read': ('dread', 'sync', {'prepare': '1M'}, 'dread', None),
    'direct write': ('dwrite', 'sync', {}, 'dwrite', None),
    'direct write and fsync': ('fsync', 'sync', {'direct': True, 'write': 4096}, 'fsync', 'dwrite'),
    'io_uring fsync': ('fsync', 'uring', {'write': 4096, 'pattern': 'append'}, 'fsync', None),
    'io_uring fdatasync': ('fdatasync', 'uring', {'write': 4096}, 'fdatasync', None),
    'io_uring O_SYNC write': ('osync', 'uring', {}, 'syncwrite', None),
    'io_uring RWF_DSYNC write': ('rwf-dsync', 'uring', {}, 'syncwrite', None),
    'io_uring direct O_DSYNC write': ('odsync', 'uring', {'direct': True}, 'syncwrite', None),
    'io_uring direct read': ('dread', 'uring', {'prepare': '1M', 'depth': 4}, 'dread', None),
    'libaio fsync': ('fsync', 'aio', {'write': 4096, 'pattern': 'append'}, 'fsync', None),
    'libaio fdsync': ('fdatasync', 'aio', {'write': 4096}, 'fdatasync', None),
    'libaio O_SYNC write': ('osync', 'aio', {}, 'syncwrite', None),
    'libaio direct O_DSYNC write': ('odsync', 'aio', {'direct': True}, 'syncwrite', None),
    'libaio direct write': ('dwrite', 'aio', {'prepare': '1M', 'depth': 4}, 'dwrite', None),
}

# What a way is called in the list of blind spots, where its owner or kind cannot be told.
BLIND_WORDS = {'aio': 'aio', 'uring': 'io_uring'}
DIRECT_OPS = ('dread', 'dwrite')


def counts_of_others(unit, device):
    """Synchronous and direct operations on the file system that are not the unit's: (unit, op) -> count."""
    result = {}
    for r in lab.rows(phase='total', device=device):
        if r['unit'] != unit and r['op'] in lab.SYNC_OPS:
            result[r['unit'], r['op']] = result.get((r['unit'], r['op']), 0) + r['count']
    return result


def check_blind(unit, device, expected, before):
    """What is not told apart, and said so, is still counted once: here or as the kernel's."""
    mine = lab.settled(lambda: lab.counts(unit, device=device))
    after = lab.settled(lambda: counts_of_others(unit, device))
    others = {k: n - before.get(k, 0) for k, n in after.items() if n != before.get(k, 0)}
    equal(sum(others.values()) + sum(mine.values()), sum(expected.values()),
          f'sum of {mine} of the unit and {others} of others, for {expected} ({lab.health()})')
    check(set(others) <= {('(kernel)', o) for o in lab.SYNC_OPS}, f'counted under others: {others}')


@cases(*WAYS)
def test_counted_once(t, way):
    kind, engine, options, op, also = WAYS[way]
    unit, device = lab.unit_name(), t.rig.disk.device
    directory = t.directory(parent=t.rig.mount_point)
    # Filling the file is part of the workload: its own fsync is one more operation.
    prepared = {'fsync': 1} if 'prepare' in options else {}
    before = lab.settled(lambda: counts_of_others(unit, device))
    counted = lab.workload(unit, kind, directory if kind == 'fsync-dir' else directory / 'file', engine=engine,
                           count=N, **options)
    equal((counted['count'], counted['errors']), (N, 0), 'what the workload did')

    expected = {op: N} | ({also: N} if also else {})
    if not lab.sees_direct_io():
        # Without tracepoints of iomap (6.6) and without the function tier only its sync can be seen.
        expected = {o: n for o, n in expected.items() if o not in DIRECT_OPS}
    for o, n in prepared.items():
        expected[o] = expected.get(o, 0) + n

    if engine in BLIND_WORDS and lab.is_blind(BLIND_WORDS[engine]):
        check_blind(unit, device, expected, before)
    else:
        lab.expect_counts(unit, expected, device=device)
        equal(counts_of_others(unit, device), before, 'what others did meanwhile')
    equal(sum(r['errors'] for r in lab.rows(unit, device=device, phase='total')), 0, 'errors')
    if op in DIRECT_OPS and op not in expected:
        skip('counted right, but this kernel shows no direct I/O')


@cases('sync', 'syncfs', 'syncrange')
def test_counted_or_named_as_blind(t, kind):
    unit = lab.unit_name()
    directory = t.directory(parent=t.rig.mount_point)
    lab.workload(unit, kind, directory / 'file' if kind == 'syncrange' else directory, count=N, write=4096)
    if lab.is_blind(kind):
        equal(lab.settled(lambda: lab.counts(unit)), {}, f'operations of {unit}')
        skip('nothing counted, but named as a blind spot')
    lab.expect_counts(unit, {kind: N})


def test_buffered_writes_are_not_counted(t):
    unit = lab.unit_name()
    lab.workload(unit, 'write', t.directory(parent=t.rig.mount_point) / 'file', count=2000)
    equal(lab.settled(lambda: lab.counts(unit)), {}, 'synchronous operations of a buffered writer')


def test_many_threads(t):
    unit = lab.unit_name()
    path = t.directory(parent=t.rig.mount_point) / 'file'
    counted = lab.workload(unit, 'fsync', path, threads=8, count=100, write=4096, pattern='append')
    lab.expect_counts(unit, {'fsync': counted['count']}, device=t.rig.disk.device)


if __name__ == '__main__':
    lab.main()
