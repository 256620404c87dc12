#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-*
# timeout: 120
"""A loop device on a file of an ext4 passes each sync on: the unit's own is counted once, and what the loop device's
worker does is the kernel's, of origin `loop`, so that sums can leave it out."""

import disks
import lab
from harness import check, diagnose, equal, run

N = 12

setup = lab.Rig


def test_not_doubled(t):
    below = t.enter(disks.null_blk(size=256, memory_backed=1))
    mount_point = t.enter(disks.mounted(below))
    image = mount_point / 'image'
    with open(image, 'wb') as f:
        f.truncate(64 << 20)
    node = run('losetup', '--find', '--show', image).stdout.strip()
    t.defer(run, 'losetup', '--detach', node)
    loop = disks.Disk(node)
    upper = t.enter(disks.mounted(loop))
    unit = lab.unit_name()
    lab.workload(unit, 'fsync', upper / 'file', count=N, write=4096, pattern='append')
    lab.expect_counts(unit, {'fsync': N})

    devices = (loop.device, below.device)
    rows = [r for r in lab.rows(phase='total') if r['op'] in lab.SYNC_OPS and r['device'] in devices]
    diagnose(str({(r['unit'], r['op'], r['device'], r['origin']): r['count'] for r in rows}))
    equal({r['device'] for r in rows if r['unit'] == unit}, {loop.device}, 'file systems of the unit')
    of_worker = [r for r in rows if r['device'] == below.device and r['origin'] == 'loop']
    check(sum(r['count'] for r in of_worker) >= N, f'the worker of the loop device synced {of_worker}')
    equal({r['unit'] for r in of_worker}, {'(kernel)'}, 'whose these are')
    mine = sum(r['count'] for r in rows if r['origin'] != 'loop' and r['unit'] in (unit, '(kernel)'))
    equal(mine, N, 'sum without what the loop device does')


if __name__ == '__main__':
    lab.main()
