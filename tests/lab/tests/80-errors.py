#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-*
# timeout: 300
"""A sync that fails is counted as an error in its row, and leaves a stall record of its own kind."""

import contextlib
import json
import pathlib
import time

import disks
import lab
import measure
from harness import cases, check, diagnose, equal, run, skip, wait_for

N = 3

FILLER = '''
import errno, json, os, sys
fd, errors, n = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), [], 0
for n in range(1, 9):
    try:
        os.write(fd, bytes(8 << 20))
    except OSError:
        n -= 1
        break
    try:
        os.fsync(fd)
    except OSError as e:
        errors.append(errno.errorcode[e.errno])
print(json.dumps({'count': n, 'errors': errors}))
'''

setup = lab.Rig


class Mapped:
    """A dm device whose table can be changed while it is in use."""

    def __init__(self, below):
        self.name = f'lab-error-{time.monotonic_ns()}'
        self.below = below
        self.sectors = int((below.sys / 'size').read_text())
        run('dmsetup', 'create', self.name, '--table', self.linear())
        self.disk = disks.Disk(pathlib.Path('/dev/mapper') / self.name)

    def linear(self):
        return f'0 {self.sectors} linear {self.below.node} 0'

    def become(self, table):
        # Without a flush: that could fail already, or write what the test wants to see fail.
        run('dmsetup', 'suspend', '--noflush', '--nolockfs', self.name)
        run('dmsetup', 'load', self.name, '--table', table)
        run('dmsetup', 'resume', self.name)


@contextlib.contextmanager
def mapped(below):
    m = Mapped(below)
    try:
        yield m
    finally:
        run('dmsetup', 'remove', '--retry', m.name)


def flakey(m):
    disks.need_module('dm_flakey')
    return f'0 {m.sectors} flakey {m.below.node} 0 0 60 1 error_writes'


def error(m):
    return f'0 {m.sectors} error'


def check_errors(unit, op, seen, *codes):
    """seen: what the workload counted itself; codes: of each error, or of all."""
    check(seen['errors'] > 0, f'nothing failed: {seen}')
    wait_for(lambda: sum(r['count'] for r in lab.rows(unit, unit=unit, op=op, phase='total')) >= seen['count'], 10,
             f'{seen["count"]} operations')
    rows = lab.rows(unit, unit=unit, op=op, phase='total')
    equal((sum(r['count'] for r in rows), sum(r['errors'] for r in rows)), (seen['count'], seen['errors']),
          'operations and errors')
    found = measure.stalls(unit)
    diagnose(f'{seen["errors"]} errors; stalls {[(s.get("op"), s.get("state"), s.get("error")) for s in found]}')
    failed = [s for s in found if s.get('state') == 'failed']
    equal(len(failed), seen['errors'], 'stall records of failed operations')
    codes = codes * len(failed) if len(codes) == 1 else codes
    equal(sorted(s['error'] for s in failed), sorted(codes), 'errors of the stall records')
    for s in failed:
        equal(s['op'], op, 'operation of a stall record')
        check(s['totalNSec'] > 0 and s['unit'] == unit, f'a stall record: {s}')


TABLES = {'dm-flakey': flakey, 'dm-error': error}


@cases(*(f'{kind}, {table}' for kind in ('ext4', 'xfs', 'btrfs') for table in TABLES))
def test_failing_device(t, case):
    kind, _, table = case.partition(', ')
    m = t.enter(mapped(t.enter(disks.null_blk(size=400, memory_backed=1))))
    mount_point = t.enter(measure.mounted(m.disk, kind))
    if not kind.startswith('ext4'):
        measure.wait_for_modules(kind, timeout=120)
        if lab.is_blind('other filesystems'):
            skip('named as a blind spot')
    unit = lab.unit_name()
    path = mount_point / 'file'
    run('dd', 'if=/dev/zero', f'of={path}', 'bs=64K', 'count=1', 'conv=fsync')
    m.become(TABLES[table](m))
    try:
        # The file is there already: only its data is written, again and again.
        seen = lab.workload(unit, 'fdatasync', path, count=N, write=4096, ignore_errors=True)
    finally:
        m.become(m.linear())
    check_errors(unit, 'fdatasync', seen, 'EIO')
    requests = lab.rows(op='rq-write', device=m.disk.device, phase='device')
    equal(requests, [], 'requests of a dm device, which has none')


def test_no_space_below(t):
    """A thin volume that is full says so only when data is written back."""
    disks.need_module('dm_thin_pool')
    meta, data = (t.enter(disks.null_blk(size=size, memory_backed=1)) for size in (8, 64))
    pool, thin = f'lab-pool-{time.monotonic_ns()}', f'lab-thin-{time.monotonic_ns()}'
    run('dmsetup', 'create', pool, '--table',
        f'0 {64 << 11} thin-pool {meta.node} {data.node} 128 0 1 error_if_no_space')
    t.defer(run, 'dmsetup', 'remove', '--retry', pool)
    run('dmsetup', 'message', pool, '0', 'create_thin 0')
    run('dmsetup', 'create', thin, '--table', f'0 {256 << 11} thin /dev/mapper/{pool} 0')
    t.defer(run, 'dmsetup', 'remove', '--retry', thin)
    disk = disks.Disk(pathlib.Path('/dev/mapper') / thin)
    mount_point = t.enter(measure.mounted(disk, 'ext4'))
    unit = lab.unit_name()
    # Which errors these are the kernel decides: the first one is ENOSPC, then the journal may have failed as well.
    said = json.loads(lab.Unit(unit, 'python3', '-c', FILLER, mount_point / 'file').finish())
    check('ENOSPC' in said['errors'] or 'EIO' in said['errors'], f'nothing failed: {said}')
    check_errors(unit, 'fsync', {'count': said['count'], 'errors': len(said['errors'])}, *said['errors'])


def test_direct_write_to_a_failing_device(t):
    if not lab.sees_direct_io():
        skip('this kernel shows no direct I/O')
    m = t.enter(mapped(t.enter(disks.null_blk(size=128, memory_backed=1))))
    mount_point = t.enter(measure.mounted(m.disk, 'ext4'))
    unit = lab.unit_name()
    path = mount_point / 'file'
    run('dd', 'if=/dev/zero', f'of={path}', 'bs=64K', 'count=1', 'conv=fsync')
    m.become(error(m))
    try:
        seen = lab.workload(unit, 'dwrite', path, count=N, ignore_errors=True)
    finally:
        m.become(m.linear())
    equal(seen['errors'], N, 'errors of the workload')
    rows = lab.rows(unit, unit=unit, op='dwrite', phase='total')
    equal((sum(r['count'] for r in rows), sum(r['errors'] for r in rows)), (N, N), 'operations and errors')


def test_journal_has_the_failure(t):
    """The record is in the journal as well, with its fields."""
    m = t.enter(mapped(t.enter(disks.null_blk(size=128, memory_backed=1))))
    mount_point = t.enter(measure.mounted(m.disk, 'ext4'))
    unit = lab.unit_name()
    path = mount_point / 'file'
    run('dd', 'if=/dev/zero', f'of={path}', 'bs=64K', 'count=1', 'conv=fsync')
    m.become(error(m))
    try:
        lab.workload(unit, 'fdatasync', path, count=1, write=4096, ignore_errors=True)
    finally:
        m.become(m.linear())

    def entries():
        out = run('journalctl', '-q', '-b', '-o', 'json', '-u', 'iolatd', check=False).stdout
        return [e for e in map(json.loads, out.splitlines()) if unit in str(e.get('MESSAGE'))]
    found = wait_for(entries, 15, f'an entry about {unit}')
    diagnose(str([e['MESSAGE'] for e in found]))
    check(any('EIO' in str(e.values()) or 'Input/output' in str(e.values()) for e in found), f'no error in {found}')


if __name__ == '__main__':
    lab.main()
