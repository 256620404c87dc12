# SPDX-License-Identifier: LGPL-2.1-or-later
"""What was counted of a disk is what the kernel's own statistics of that disk say."""

import fcntl
import os
import struct

import harness
from harness import cases, check, run
from product import daemon, settled
from rig import ext4, workload

BLKDISCARD = 0x1277
BLKZEROOUT = 0x127f
COLUMNS = {'reads': 'reads', 'writes': 'writes', 'discards': 'discards', 'flushes': 'flushes'}
SECTORS = {'readBytes': 'readSectors', 'writeBytes': 'writeSectors', 'discardBytes': 'discardSectors'}
TRIES = 5


class Rig:
    def __init__(self, t):
        self.daemon = t.enter(daemon(t))


def setup(t):
    return Rig(t)


def counted(d, disk):
    """What iolat has of the disk, over all owners, in the units of /sys/block/*/stat."""
    rows = [r for r in d.json('list', '--by=device') if r['device'] == disk.device]
    result = {k: sum(r[k] or 0 for r in rows) for k in COLUMNS}
    result |= {v: sum(r[k] or 0 for r in rows) // 512 for k, v in SECTORS.items()}
    return result


def statistics(disk):
    stat = disk.stat()
    return {k: stat[k] for k in [*COLUMNS.values(), *SECTORS.values()]}


def difference(after, before):
    return {k: after[k] - before[k] for k in after}


def fsyncs(t, disk):
    workload('fsync', disk.path('a'), count=400, write=4096, pattern='append')
    workload('fdatasync', disk.path('b'), count=400, write=4096, prepare='1M')
    workload('fsync', disk.path('b'), count=100)
    workload('fsync', disk.path('c'), count=10, write='8M')


def direct(t, disk):
    workload('dread', disk.path('a'), count=400, prepare='4M')
    workload('dwrite', disk.path('a'), count=400)
    workload('dwrite', disk.path('b'), count=8, block='8M')
    workload('odsync', disk.path('c'), count=200, direct=True)
    workload('dread', disk.path('a'), count=400, engine='uring', depth=8)
    workload('dwrite', disk.path('a'), count=400, engine='aio', depth=8)


def discards(t, disk):
    workload('fsync', disk.path('a'), count=1, prepare='32M')
    os.unlink(disk.path('a'))
    disk.sync()
    run('fstrim', disk.mount_point)


def raw(t, disk):
    """Past the file system, read-only meanwhile: in its last megabytes, which are unused."""
    run('mount', '-o', 'remount,ro', disk.mount_point)
    fd = os.open(disk.node, os.O_RDWR)
    try:
        size = os.lseek(fd, 0, os.SEEK_END)
        fcntl.ioctl(fd, BLKDISCARD, struct.pack('QQ', size - (4 << 20), 1 << 20))
        fcntl.ioctl(fd, BLKZEROOUT, struct.pack('QQ', size - (2 << 20), 1 << 20))
        os.fsync(fd)
    finally:
        os.close(fd)


def everything_at_once(t, disk):
    workload('fsync', disk.path('f'), threads=8, count=200, write=4096, pattern='append')
    workload('dwrite', disk.path('d'), threads=4, count=300, prepare='1M')


SCENARIOS = {f.__name__.replace('_', ' '): f for f in (fsyncs, direct, discards, raw, everything_at_once)}


@cases(*SCENARIOS)
def test_equal_to_the_kernels(t, name):
    d = t.rig.daemon
    history = []
    for _ in range(TRIES):
        with ext4() as disk:
            disk.sync()
            lost = d.lost()
            before = settled(lambda: (statistics(disk), counted(d, disk)))
            SCENARIOS[name](t, disk)
            if name != 'raw':
                disk.sync()
            after = settled(lambda: (statistics(disk), counted(d, disk)))
            kernel, ours = difference(after[0], before[0]), difference(after[1], before[1])
            check(kernel['writes'] + kernel['discards'] > 0, f'the scenario did nothing: {kernel}')
            if kernel == ours:
                return
            # A completion that no program was shown is noticed when the kernel uses the same request again.
            workload('dread', disk.path('recycle'), threads=64, count=100, prepare='64K')
            history.append(f'/sys has {kernel}, iolat {ours}, new losses {d.lost() - lost}')
            # Completions that the kernel did not show to any program are repeated, if they were noticed.
            check(d.lost() > lost, history[-1])
    raise AssertionError('never equal: ' + '; '.join(history))


if __name__ == '__main__':
    harness.main()
