#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-*
# timeout: 500
# long
"""Write-back by kernel workers is charged to the unit that wrote the new file, on each file system, on an encrypted
disk, with and without I/O accounting. Who only overwrites what another one has read is charged as the limit says."""

import contextlib
import pathlib
import re
import time

import disks
import lab
import measure
from harness import cases, check, diagnose, equal, run, wait_for

SIZE = 16 << 20
SHARE = 0.99
OPTIONS = {'btrfs compressed': 'noatime,compress=zstd'}
# Half of it can be compressed.
WRITER = '''
import os, sys, time
with open(sys.argv[1], 'r+b' if os.path.exists(sys.argv[1]) else 'wb') as f:
    for i in range(int(sys.argv[2]) >> 16):
        f.write(b''.join(os.urandom(2048) + bytes(2048) for _ in range(16)))
print('done', flush=True)
time.sleep(1000)
'''
READER = '''
import sys, time
with open(sys.argv[1], 'rb') as f:
    while f.read(1 << 20):
        pass
print('done', flush=True)
time.sleep(1000)
'''

setup = lab.Rig


def generation():
    out = run('/usr/lib/iolat/iolat-probes', 'show').stdout
    return int(re.match(r'Generation (\d+),', out).group(1))


@contextlib.contextmanager
def dm_crypt(below):
    name = f'lab-crypt-{time.monotonic_ns()}'
    if not pathlib.Path('/sys/module/dm_crypt').exists():
        before = generation()
        disks.need_module('dm_crypt')
        wait_for(lambda: generation() > before, 60, 'a generation that knows dm_crypt')
    sectors = int((below.sys / 'size').read_text())
    run('dmsetup', 'create', name, '--table',
        f'0 {sectors} crypt aes-xts-plain64 {"5a" * 32} 0 {below.node} 0')
    try:
        yield disks.Disk(pathlib.Path('/dev/mapper') / name)
    finally:
        run('dmsetup', 'remove', '--retry', name)


def lasting(t, unit, program, *arguments, properties=()):
    """A unit that goes on after its work: only then do its pages stay its own."""
    u = lab.Unit(unit, *(f'--property={p}' for p in properties), 'python3', '-c', program, *arguments)
    t.defer(u.stop)
    equal(u.process.stdout.readline(), 'done\n', f'what {unit} says')


def charged(unit, device):
    """Bytes written for the unit, and by which method its owner was found."""
    total, methods = 0, {}
    for r in lab.rows(unit, unit=unit, op='rq-write', phase='device', device=device):
        total += r['bytes']
        for method, n in (r['ownedBy'] or {}).items():
            methods[method] = methods.get(method, 0) + n
    return total, methods


def charged_to_others(units, device):
    result = {}
    for r in lab.rows(op='rq-write', phase='device', device=device):
        if r['unit'] not in units:
            key = f'{r["unit"]}, {r["origin"]}'
            result[key] = result.get(key, 0) + r['bytes']
    return result


def btrfs_data(mount_point):
    """Bytes of data on the disk, as compressed."""
    out = run('btrfs', 'filesystem', 'df', '-b', mount_point).stdout
    return sum(int(n) for n in re.findall(r'^Data,.*used=(\d+)', out, re.M))


KINDS = ('ext4', 'xfs', 'btrfs', 'btrfs compressed', 'ext4 on dm-crypt')


@cases(*(f'{k}, {a}' for k in KINDS for a in ('default settings', 'IOAccounting=yes')))
def test_writeback_is_the_writers(t, case):
    kind, _, accounting = case.partition(', ')
    below = t.enter(disks.null_blk(size=400, memory_backed=1))
    disk = t.enter(dm_crypt(below)) if 'crypt' in kind else below
    mount_point = t.enter(measure.mounted(disk, kind.split()[0], OPTIONS.get(kind, 'noatime')))
    run('sync')
    data_before = btrfs_data(mount_point) if kind.startswith('btrfs') else 0
    others_before = charged_to_others([], below.device)
    unit = lab.unit_name()
    lasting(t, unit, WRITER, mount_point / 'file', SIZE, properties=[accounting] if '=' in accounting else [])
    run('sync')
    size = SIZE
    if kind == 'btrfs compressed':
        size = btrfs_data(mount_point) - data_before
        check(0.3 * SIZE < size < 0.9 * SIZE, f'{size} of {SIZE} bytes are left after compression')

    with contextlib.suppress(AssertionError):
        wait_for(lambda: charged(unit, below.device)[0] >= SHARE * size, 10)
    total, methods = charged(unit, below.device)
    others = {k: n - others_before.get(k, 0) for k, n in charged_to_others([unit], below.device).items()
              if n != others_before.get(k, 0)}
    what = f'{size} bytes of data; charged {total} by {methods}; to others {others}'
    diagnose(what)
    check(SHARE * size <= total, f'less than {SHARE:.0%}: {what}')
    check(total <= 1.05 * size + (1 << 20), f'more than was written: {what}')
    equal(sum(methods.values()), total, 'bytes by method')


def test_overwriter_of_pages_that_another_has_read(t):
    disk = t.enter(disks.null_blk(size=128, memory_backed=1))
    mount_point = t.enter(disks.mounted(disk))
    path = mount_point / 'file'
    run('dd', 'if=/dev/zero', f'of={path}', 'bs=1M', f'count={SIZE >> 20}', 'conv=fsync')
    pathlib.Path('/proc/sys/vm/drop_caches').write_text('3')
    reader, writer = lab.unit_name('reader'), lab.unit_name('writer')
    lasting(t, reader, READER, path)
    lasting(t, writer, WRITER, path, SIZE)
    run('sync')
    with contextlib.suppress(AssertionError):
        wait_for(lambda: sum(charged(u, disk.device)[0] for u in (reader, writer)) >= SHARE * SIZE, 10)
    (by_reader, how), (by_writer, _) = charged(reader, disk.device), charged(writer, disk.device)
    what = (f'{SIZE} bytes overwritten: charged to who had read them {by_reader} by {how}, to the writer {by_writer}, '
            f'to others {charged_to_others([reader, writer], disk.device)}')
    diagnose(what)
    check(by_reader + by_writer >= SHARE * SIZE, f'less than {SHARE:.0%} is charged to the two: {what}')
    # The limit that the manual names: a page belongs to who first brought it into memory.
    check(by_reader >= SHARE * SIZE and how.get('page', 0) >= SHARE * SIZE, f'not as the limit says: {what}')


def test_dirty_tracking(t):
    conf = pathlib.Path('/etc/iolat/iolatd.conf.d/lab.conf')
    conf.parent.mkdir(parents=True, exist_ok=True)
    conf.write_text('[Daemon]\nDirtyTracking=yes\n')
    t.defer(lab.restart_iolatd)
    t.defer(conf.unlink)
    lab.restart_iolatd()
    wait_for(lambda: run('iolatctl', 'probes', check=False).returncode == 0, 30, 'an answer of iolatd')
    disk = t.enter(disks.null_blk(size=128, memory_backed=1))
    mount_point = t.enter(disks.mounted(disk))
    path = mount_point / 'file'
    run('dd', 'if=/dev/zero', f'of={path}', 'bs=1M', f'count={SIZE >> 20}', 'conv=fsync')
    pathlib.Path('/proc/sys/vm/drop_caches').write_text('3')
    reader, writer = lab.unit_name('reader'), lab.unit_name('writer')
    lasting(t, reader, READER, path)
    lasting(t, writer, WRITER, path, SIZE)
    run('sync')
    with contextlib.suppress(AssertionError):
        wait_for(lambda: charged(writer, disk.device)[0] >= SHARE * SIZE, 10)
    total, methods = charged(writer, disk.device)
    check(total >= SHARE * SIZE and methods.get('dirtier', 0) >= SHARE * SIZE,
          f'the writer is charged {total} by {methods} of {SIZE}; to the reader {charged(reader, disk.device)}')


if __name__ == '__main__':
    lab.main()
