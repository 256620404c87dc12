#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-*
# timeout: 300
"""Buffered writes of two units that kernel workers write back are charged to those units, by the owner of the pages,
with systemd's default settings (no I/O accounting)."""

import contextlib
import pathlib

import disks
import lab
from harness import cases, check, diagnose, equal, run, wait_for

SIZE = {'a': 24 << 20, 'b': 8 << 20}
SHARE = 0.99

setup = lab.Rig


def written(unit, device):
    """Bytes of data written for the unit: in all, by threads of the kernel (flushers, and the journal's, which writes ordered
    data), and by the method that found the owner."""
    total = by_workers = 0
    methods = {}
    for r in lab.rows(unit, unit=unit, op='rq-write', phase='device', device=device):
        total += r['bytes']
        if r['origin'] in ('writeback', 'journal'):
            by_workers += r['bytes']
        for method, n in (r['ownedBy'] or {}).items():
            methods[method] = methods.get(method, 0) + n
    return total, by_workers, methods


def written_by_others(units, device):
    """unit -> bytes written to the disk since the start, other tests left out."""
    result = {}
    for r in lab.rows(op='rq-write', phase='device', device=device):
        if r['unit'] not in units and not r['unit'].startswith(('lab-', 'iolat-lab-')):
            result[r['unit']] = result.get(r['unit'], 0) + r['bytes']
    return result


def write_back_in_time(t):
    run('sysctl', '-q', '-w', 'vm.dirty_expire_centisecs=100', 'vm.dirty_writeback_centisecs=100')
    t.defer(run, 'sysctl', '-q', '-w', 'vm.dirty_expire_centisecs=3000', 'vm.dirty_writeback_centisecs=500')


def prepare(t):
    equal(run('systemctl', 'show', '--value', '--property=IOAccounting', 'system.slice').stdout.strip(), 'no',
          'IOAccounting= of system.slice')
    disk = t.enter(disks.virtio())
    return disk, t.enter(disks.mounted(disk))


def write_options(name):
    return {'count': SIZE[name] >> 16, 'block': 1 << 16, 'pattern': 'append'}


@cases('written back by sync', 'written back in time')
def test_writeback_is_the_writers(t, how):
    disk, mount_point = prepare(t)
    units = {name: lab.unit_name(name) for name in SIZE}
    if how == 'written back in time':
        write_back_in_time(t)
    for name, unit in units.items():
        t.defer(lab.start_lasting_workload(unit, 'write', mount_point / name, **write_options(name)).stop)
    if how == 'written back by sync':
        run('sync')

    with contextlib.suppress(AssertionError):
        wait_for(lambda: all(written(u, disk.device)[0] >= SHARE * SIZE[n] for n, u in units.items()), 30)
    for name, unit in units.items():
        total, by_workers, methods = written(unit, disk.device)
        what = (f'{name} wrote {SIZE[name]} bytes; charged {total}, of these {by_workers} as write-back, by {methods}; '
                f'to others {written_by_others(units.values(), disk.device)}')
        diagnose(what)
        check(SHARE * SIZE[name] <= total <= SIZE[name] * 1.02, what)
        check(by_workers >= SHARE * SIZE[name], what)
        check(methods.get('page', 0) >= SHARE * SIZE[name], what)


def test_writers_that_are_gone(t):
    """Where the kernel gives the pages of a cgroup that is gone to its parent, that is the slice."""
    disk, mount_point = prepare(t)
    unit = lab.unit_name('gone')
    slice_before = written('system.slice', disk.device)[0]
    lab.workload(unit, 'write', mount_point / 'gone', **write_options('a'))
    wait_for(lambda: not list(pathlib.Path('/sys/fs/cgroup/system.slice').glob(unit)), what='end of the cgroup')
    run('sync')

    def charged():
        return written(unit, disk.device)[0], written('system.slice', disk.device)[0] - slice_before

    lab.settled(charged)
    mine, of_slice = charged()
    what = (f'{SIZE["a"]} bytes written; charged to the unit {mine}, to its slice {of_slice}, '
            f'to others {written_by_others([unit], disk.device)}')
    diagnose(what)
    check(mine + of_slice >= SHARE * SIZE['a'], what)


if __name__ == '__main__':
    lab.main()
