#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-*
# timeout: 600
"""What was counted of a disk is what the kernel's own statistics of that disk say, column by column."""

import fcntl
import os
import struct

import disks
import lab
from harness import cases, check, equal, run, skip

BLKDISCARD = 0x1277
BLKZEROOUT = 0x127f
COLUMNS = ('reads', 'writes', 'discards', 'flushes')
SECTORS = {'readBytes': 'readSectors', 'writeBytes': 'writeSectors', 'discardBytes': 'discardSectors'}

DISKS = {
    'null_blk': lambda: disks.null_blk(size=256, memory_backed=1, discard=1),
    'null_blk with a cache': lambda: disks.null_blk(size=256, memory_backed=1, discard=1, cache_size=64),
    'null_blk with FUA': lambda: disks.null_blk(size=256, memory_backed=1, cache_size=64, fua=1),
    'scsi_debug': lambda: disks.scsi_debug(dev_size_mb=256, lbpu=1, delay=0),
    'virtio': disks.virtio,
}


setup = lab.Rig


def counted(disk):
    """What iolat has of the disk, over all owners, in the units of /sys/block/*/stat."""
    rows = [r for r in lab.query('list', '--by=device') if r['device'] == disk.device]
    result = {k: sum(r[k] or 0 for r in rows) for k in COLUMNS}
    return result | {v: sum(r[k] or 0 for r in rows) // 512 for k, v in SECTORS.items()}


def statistics(disk):
    stat = disk.stat()
    return {k: stat[k] for k in (*COLUMNS, *SECTORS.values())}


def file_system(t, disk, mount_point):
    def go(kind, name, **options):
        lab.workload(lab.unit_name(), kind, mount_point / name, **options)

    go('fsync', 'a', count=40, write=4096, pattern='append')
    go('fdatasync', 'b', count=40, write=4096, prepare='1M')
    go('fsync', 'b', count=20)
    go('fsync', 'c', count=2, write='8M')
    go('dread', 'a', count=20, prepare='4M')
    go('dwrite', 'd', count=4, block='8M')
    go('odsync', 'e', count=20, direct=True, prepare='1M')
    go('dwrite', 'f', count=40, engine='aio', depth=8, prepare='1M')
    go('fsync', 'g', count=20, threads=4, write=4096, pattern='append')
    os.unlink(mount_point / 'c')
    run('sync', '-f', mount_point)
    run('fstrim', mount_point, check=False)
    run('sync', '-f', mount_point)


def raw(disk):
    fd = os.open(disk.node, os.O_RDWR)
    try:
        for request in (BLKDISCARD, BLKZEROOUT):
            try:
                fcntl.ioctl(fd, request, struct.pack('QQ', 8 << 20, 1 << 20))
            except OSError:
                pass  # not every disk can discard
        os.fsync(fd)
    finally:
        os.close(fd)


@cases(*DISKS)
def test_equal_to_the_kernels(t, name):
    disk = t.enter(DISKS[name]())
    if int((disk.sys / 'queue/iostats').read_text()) == 0:
        disk.set('iostats', 1)
    run('udevadm', 'settle')
    before = lab.settled(lambda: (statistics(disk), counted(disk)))
    with disks.mounted(disk) as mount_point:
        file_system(t, disk, mount_point)
    raw(disk)
    run('udevadm', 'settle')
    after = lab.settled(lambda: (statistics(disk), counted(disk)))

    kernel, ours = ({k: after[i][k] - before[i][k] for k in after[i]} for i in (0, 1))
    check(kernel['reads'] > 20 and kernel['writes'] > 200, f'the workload did too little: {kernel}')
    equal(ours, kernel, f'requests of {name} ({lab.health()})')


if __name__ == '__main__':
    lab.main()
