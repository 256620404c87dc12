#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-*
# timeout: 300
"""Buffered writes of two units that kernel workers write back are charged to those units, by the owner of the pages,
with systemd's default settings (no I/O accounting)."""

import disks
import lab
from harness import cases, check, equal, run

SIZE = {'a': 24 << 20, 'b': 8 << 20}
SHARE = 0.99


setup = lab.Rig


def written(unit, device):
    """Bytes of data written for the unit: in all, by workers, and by the method that found the owner."""
    total = by_workers = 0
    methods = {}
    for r in lab.rows(unit, unit=unit, op='rq-write', phase='device', device=device):
        total += r['bytes']
        if r['origin'] == 'writeback':
            by_workers += r['bytes']
        for method, n in (r['ownedBy'] or {}).items():
            methods[method] = methods.get(method, 0) + n
    return total, by_workers, methods


@cases('written back by sync', 'written back in time')
def test_writeback_is_the_writers(t, how):
    equal(run('systemctl', 'show', '--value', '-p', 'DefaultIOAccounting').stdout.strip(), 'no',
          'default of IOAccounting=')
    disk = t.enter(disks.virtio())
    mount_point = t.enter(disks.mounted(disk))
    units = {name: lab.unit_name(name) for name in SIZE}
    writers = [lab.start_workload(units[name], 'write', mount_point / name, count=size >> 16, block=1 << 16,
                                  pattern='append')
               for name, size in SIZE.items()]
    for w in writers:
        w.finish()
    if how == 'written back by sync':
        run('sync')
    else:
        run('sysctl', '-q', '-w', 'vm.dirty_expire_centisecs=100', 'vm.dirty_writeback_centisecs=100')
        t.defer(run, 'sysctl', '-q', '-w', 'vm.dirty_expire_centisecs=3000', 'vm.dirty_writeback_centisecs=500')

    kernels_before = written('(kernel)', disk.device)
    lab.settled(lambda: [written(u, disk.device)[0] for u in units.values()])
    if how != 'written back by sync':
        lab.harness.wait_for(lambda: all(written(u, disk.device)[0] >= SHARE * SIZE[n] for n, u in units.items()), 30,
                             f'write-back ({[written(u, disk.device) for u in units.values()]}, (kernel) before '
                             f'{kernels_before}, now {written("(kernel)", disk.device)})')
    for name, unit in units.items():
        total, by_workers, methods = written(unit, disk.device)
        what = (f'{name} wrote {SIZE[name]} bytes; charged {total}, of these {by_workers} as write-back, by {methods}; '
                f'to (kernel) {written("(kernel)", disk.device)}')
        check(SHARE * SIZE[name] <= total <= SIZE[name] * 1.02, what)
        check(by_workers >= SHARE * SIZE[name], what)
        check(methods.get('page', 0) >= SHARE * SIZE[name], what)


if __name__ == '__main__':
    lab.main()
