# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every way to sync or to bypass the page cache is counted once, under the right operation and unit."""

import json
import shutil

import harness
from harness import cases, check, equal, skip
from product import daemon, settled
from rig import cgroup, ext4, finish, release, slow_ext4, start_workload, workload

N = 60


class Rig:
    def __init__(self, t):
        self.daemon = t.enter(daemon(t))
        self.disk = t.enter(ext4())


def setup(t):
    return Rig(t)


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
    'direct O_DSYNC write': ('odsync', 'sync', {'direct': True}, 'syncwrite', None),
    'direct O_DSYNC overwrite': ('odsync', 'sync', {'direct': True, 'prepare': '1M'}, 'syncwrite', None),
    'direct RWF_DSYNC write': ('rwf-dsync', 'sync', {'direct': True}, 'syncwrite', None),
    'direct read': ('dread', 'sync', {'prepare': '1M'}, 'dread', None),
    'direct read of many blocks': ('dread', 'sync', {'prepare': '8M', 'block': '2M'}, 'dread', None),
    'direct write': ('dwrite', 'sync', {}, 'dwrite', None),
    'direct overwrite': ('dwrite', 'sync', {'prepare': '1M'}, 'dwrite', None),
    'direct write and fsync': ('fsync', 'sync', {'direct': True, 'write': 4096}, 'fsync', 'dwrite'),
    'io_uring fsync': ('fsync', 'uring', {'write': 4096, 'pattern': 'append'}, 'fsync', None),
    'io_uring fdatasync': ('fdatasync', 'uring', {'write': 4096}, 'fdatasync', None),
    'io_uring O_SYNC write': ('osync', 'uring', {}, 'syncwrite', None),
    'io_uring O_DSYNC write': ('odsync', 'uring', {}, 'syncwrite', None),
    'io_uring RWF_DSYNC write': ('rwf-dsync', 'uring', {}, 'syncwrite', None),
    'io_uring direct O_DSYNC write': ('odsync', 'uring', {'direct': True}, 'syncwrite', None),
    'io_uring direct read': ('dread', 'uring', {'prepare': '1M', 'depth': 4}, 'dread', None),
    'io_uring direct write': ('dwrite', 'uring', {'prepare': '1M', 'depth': 4}, 'dwrite', None),
    'libaio fsync': ('fsync', 'aio', {'write': 4096, 'pattern': 'append'}, 'fsync', None),
    'libaio fdsync': ('fdatasync', 'aio', {'write': 4096}, 'fdatasync', None),
    'libaio O_SYNC write': ('osync', 'aio', {}, 'syncwrite', None),
    'libaio O_DSYNC write': ('odsync', 'aio', {}, 'syncwrite', None),
    'libaio direct O_DSYNC write': ('odsync', 'aio', {'direct': True}, 'syncwrite', None),
    'libaio direct read': ('dread', 'aio', {'prepare': '1M', 'depth': 4}, 'dread', None),
    'libaio direct write': ('dwrite', 'aio', {'prepare': '1M', 'depth': 4}, 'dwrite', None),
}

# Ways whose owner cannot be told everywhere, and the word by which the list of blind spots says so.
BLIND_WORDS = {'libaio fsync': 'aio', 'libaio fdsync': 'aio'}


def total_of(daemon_, unit, disk):
    rows = daemon_.rows(unit, unit=unit, phase='total', device=disk.device)
    return sum(r['count'] for r in rows if r['op'] not in ('slowwrite', 'slowread', 'slowfault', 'meta'))


@cases(*WAYS)
def test_counted_once(t, way):
    kind, engine, options, op, also = WAYS[way]
    d, disk = t.rig.daemon, t.rig.disk
    group = t.enter(cgroup('a.service'))
    path = t.directory(parent=disk.mount_point)
    kernel_before = settled(lambda: total_of(d, '(kernel)', disk))
    counted = workload(kind, path if kind == 'fsync-dir' else path / 'file', group, engine=engine, count=N, **options)
    equal((counted['count'], counted['errors']), (N, 0), 'what the workload did')

    expected = {op: N} | ({also: N} if also else {})
    blind = way in BLIND_WORDS and d.is_blind(BLIND_WORDS[way])
    if not blind:
        d.expect_counts(group.unit, expected)
        return
    # What cannot be told apart is still counted once: here, or as the kernel's.
    got = settled(lambda: (total_of(d, group.unit, disk), total_of(d, '(kernel)', disk) - kernel_before))
    equal(sum(got), sum(expected.values()), 'operations of the unit and of (kernel)')
    if got[1] == 0:
        d.expect_counts(group.unit, expected)
    print(f'# {got[0]} of the unit, {got[1]} of (kernel)', flush=True)


@cases('sync', 'syncfs', 'syncrange')
def test_counted_or_named_as_blind(t, kind):
    d, disk = t.rig.daemon, t.rig.disk
    group = t.enter(cgroup('a.service'))
    path = t.directory(parent=disk.mount_point)
    workload(kind, path / 'file' if kind == 'syncrange' else path, group, count=20, write=4096)
    word = {'syncrange': 'sync_file_range'}.get(kind, kind)
    if d.is_blind(word):
        equal(settled(lambda: d.counts(group.unit)), {}, f'operations of {group.unit}')
    else:
        d.expect_counts(group.unit, {kind: 20})


def test_buffered_writes_are_not_counted(t):
    group = t.enter(cgroup('a.service'))
    workload('write', t.directory(parent=t.rig.disk.mount_point) / 'file', group, count=2000)
    equal(settled(lambda: t.rig.daemon.counts(group.unit)), {}, 'synchronous operations of a buffered writer')


def test_two_units_at_once(t):
    d, disk = t.rig.daemon, t.rig.disk
    a, b = t.enter(cgroup('a.service')), t.enter(cgroup('b.service'))
    n, m = 1500, 2100
    path = t.directory(parent=disk.mount_point)
    one = start_workload('fsync', path / 'a', a, count=n, write=4096, pattern='append', barrier=True)
    two = start_workload('fdatasync', path / 'b', b, count=m, write=4096, barrier=True)
    release(one, two)
    equal((finish(one)['count'], finish(two)['count']), (n, m), 'what the workloads did')
    d.expect_counts(a.unit, {'fsync': n})
    d.expect_counts(b.unit, {'fdatasync': m})
    devices = {r['device'] for r in d.rows(a.unit, phase='total', op='fsync')}
    equal(devices, {disk.device}, 'devices of the fsyncs')


def test_many_threads(t):
    group = t.enter(cgroup('a.service'))
    path = t.directory(parent=t.rig.disk.mount_point)
    counted = workload('fsync', path / 'file', group, threads=8, count=400, write=4096, pattern='append')
    t.rig.daemon.expect_counts(group.unit, {'fsync': counted['count']})


def test_fio_with_fsync(t):
    if not shutil.which('fio'):
        skip('no fio')
    group = t.enter(cgroup('a.service'))
    path = t.directory(parent=t.rig.disk.mount_point)
    r = group.run('fio', '--name=f', f'--directory={path}', '--rw=write', '--bs=4k', '--size=4m', '--fsync=1',
                  '--create_fsync=0', '--output-format=json', cwd=path)
    n = json.loads(r.stdout)['jobs'][0]['sync']['total_ios']
    check(n > 500, f'fio did only {n} fsyncs')
    t.rig.daemon.expect_counts(group.unit, {'fsync': n})


def test_errors_are_counted(t):
    disk = t.enter(slow_ext4())
    group = t.enter(cgroup('a.service'))
    process = start_workload('fsync', disk.path('file'), group, count=5, write=4096, pattern='append',
                             ignore_errors=True, barrier=True)
    disk.delay(error=5)
    release(process)
    counted = finish(process)
    disk.delay()
    check(counted['errors'] > 0, 'no fsync failed')
    t.rig.daemon.expect_counts(group.unit, {'fsync': 5})
    rows = t.rig.daemon.rows(group.unit, op='fsync', phase='total')
    equal(sum(r['errors'] for r in rows), counted['errors'], 'failed fsyncs')


if __name__ == '__main__':
    harness.main()
