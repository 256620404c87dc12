# SPDX-License-Identifier: LGPL-2.1-or-later
"""Disks for tests, as context managers: loop, virtio, null_blk, scsi_debug, and dm-delay on top of one."""

import contextlib
import itertools
import os
import pathlib
import shutil
import tempfile

from harness import check, run, skip, start, stop, wait_for

from lab import IS_VM

STAT_FIELDS = ('reads', 'readMerges', 'readSectors', 'readMSec', 'writes', 'writeMerges', 'writeSectors',
               'writeMSec', 'inFlight', 'busyMSec', 'queueMSec', 'discards', 'discardMerges', 'discardSectors',
               'discardMSec', 'flushes', 'flushMSec')
NULLB = pathlib.Path('/sys/kernel/config/nullb')

numbers = itertools.count(1)


class Disk:
    def __init__(self, node):
        self.node = pathlib.Path(node)
        number = os.stat(node).st_rdev
        self.device = f'{os.major(number)}:{os.minor(number)}'
        self.sys = pathlib.Path(f'/sys/dev/block/{self.device}').resolve()

    def stat(self):
        return dict(zip(STAT_FIELDS, map(int, (self.sys / 'stat').read_text().split())))

    def set(self, name, value):
        (self.sys / 'queue' / name).write_text(str(value))


def need_module(name, *args):
    if run('modprobe', name, *args, check=False).returncode != 0:
        skip(f'no {name} here')


@contextlib.contextmanager
def loop(size=256 << 20):
    """On a file in memory. Gone with its last user."""
    with tempfile.NamedTemporaryFile(prefix='iolat-lab-', dir='/dev/shm') as f:
        f.truncate(size)
        node = run('losetup', '--find', '--show', f.name).stdout.strip()
        try:
            yield Disk(node)
        finally:
            run('losetup', '--detach', node)


@contextlib.contextmanager
def virtio():
    """The empty disk that a virtual machine has for tests."""
    if not IS_VM:
        skip('only in virtual machines')
    yield Disk('/dev/vdc')


@contextlib.contextmanager
def null_blk(**attributes):
    need_module('null_blk', 'nr_devices=0')
    before = set(os.listdir('/sys/block'))
    directory = NULLB / f'lab{next(numbers)}'
    directory.mkdir()
    try:
        for name, value in attributes.items():
            if not (directory / name).exists():
                skip(f'null_blk has no {name} here')
            (directory / name).write_text(str(value))
        (directory / 'power').write_text('1')
        new = set(os.listdir('/sys/block')) - before
        check(len(new) == 1, f'null_blk made {new}')
        node = pathlib.Path('/dev') / new.pop()
        wait_for(node.exists, what=str(node))
        yield Disk(node)
        run('udevadm', 'settle')
    finally:
        (directory / 'power').write_text('0')
        directory.rmdir()


@contextlib.contextmanager
def scsi_debug(**parameters):
    before = set(os.listdir('/sys/block'))
    need_module('scsi_debug', *(f'{k}={v}' for k, v in parameters.items()))
    try:
        new = wait_for(lambda: set(os.listdir('/sys/block')) - before, what='disk of scsi_debug')
        node = pathlib.Path('/dev') / sorted(new)[0]
        wait_for(node.exists, what=str(node))
        run('udevadm', 'settle')
        yield Disk(node)
        run('udevadm', 'settle')
    finally:
        # udev may still hold it.
        wait_for(lambda: run('modprobe', '-r', 'scsi_debug', check=False).returncode == 0, what='end of scsi_debug')


def scsi_debug_delay(nsec):
    """How long each request of the disk takes from now on."""
    pathlib.Path('/sys/bus/pseudo/drivers/scsi_debug/ndelay').write_text(str(nsec))


@contextlib.contextmanager
def dm_delay(disk, write_msec, read_msec=0):
    """Delays writes, and flushes with them; and reads."""
    need_module('dm_delay')
    name = f'lab{next(numbers)}'
    sectors = int((disk.sys / 'size').read_text())
    where = f'{disk.node} 0'
    run('dmsetup', 'create', name, '--table', f'0 {sectors} delay {where} {read_msec} {where} {write_msec}')
    try:
        yield Disk(pathlib.Path('/dev/mapper') / name)
    finally:
        run('dmsetup', 'remove', '--retry', name)


class DelayedDisk(Disk):
    def __init__(self, node, set_delay):
        super().__init__(node)
        self.delay = set_delay  # milliseconds, of each flush from now on


@contextlib.contextmanager
def slow_flush_dm():
    need_module('dm_delay')
    with virtio() as below:
        name = f'lab{next(numbers)}'
        sectors = int((below.sys / 'size').read_text())

        def table(msec):
            where = f'{below.node} 0'
            return f'0 {sectors} delay {where} 0 {where} 0 {where} {msec}'

        def set_delay(msec):
            run('dmsetup', 'reload', name, '--table', table(msec))
            run('dmsetup', 'resume', '--nolockfs', name)

        run('dmsetup', 'create', name, '--table', table(0))
        try:
            yield DelayedDisk(pathlib.Path('/dev/mapper') / name, set_delay)
        finally:
            set_delay(0)
            run('dmsetup', 'remove', '--retry', name)


@contextlib.contextmanager
def slow_flush_loop(size):
    """On a file system of our own, that takes as long as it is told to sync."""
    if not shutil.which('iolat-slowfs'):
        skip('built without libfuse3')
    if not os.path.exists('/dev/fuse'):
        skip('no /dev/fuse')
    with tempfile.TemporaryDirectory(prefix='iolat-lab-', dir='/dev/shm') as base:
        backing, front, control = (pathlib.Path(base) / name for name in ('backing', 'front', 'control'))
        backing.mkdir()
        front.mkdir()
        control.write_text('\n')
        with open(backing / 'image', 'wb') as f:
            f.truncate(size)
        server = start('iolat-slowfs', backing, control, front)
        try:
            wait_for((front / 'image').exists, what='slow file system')
            node = run('losetup', '--find', '--show', front / 'image').stdout.strip()
            try:
                yield DelayedDisk(node, lambda msec: control.write_text(f'fsync={msec}\n'))
            finally:
                control.write_text('\n')
                run('losetup', '--detach', node)
                wait_for(lambda: node not in run('losetup', '--list').stdout, what='end of the loop device')
        finally:
            stop(server)


def slow_flush(size=512 << 20):
    """A disk that empties its cache as slowly as it is told: waits for it are the journal's, and syncs' own."""
    return slow_flush_dm() if IS_VM else slow_flush_loop(size)


@contextlib.contextmanager
def dm_linear(below):
    """One that can be suspended."""
    name = f'lab{next(numbers)}'
    sectors = int((below.sys / 'size').read_text())
    run('dmsetup', 'create', name, '--table', f'0 {sectors} linear {below.node} 0')
    try:
        yield Disk(pathlib.Path('/dev/mapper') / name)
    finally:
        run('dmsetup', 'resume', name)
        run('dmsetup', 'remove', '--retry', name)


def make(disk, kind='ext4', small=False):
    """Makes a file system; small: with little to write, where every write takes long."""
    arguments = {'ext4': ['-q', '-F', '-J', 'size=16', '-E', 'lazy_itable_init=0,lazy_journal_init=0'],
                 'xfs': ['-q', '-f'], 'btrfs': ['-q', '-f']}[kind]
    if small:
        check(kind == 'ext4', 'only ext4 can be small')
        arguments = ['-q', '-F', '-J', 'size=4', '-E', 'nodiscard', '-m', '0', '-I', '128', '-N', '64']
    run(f'mkfs.{kind}', *arguments, disk.node)


@contextlib.contextmanager
def mounted(disk, kind='ext4', options='noatime', fresh=True):
    """Yields the mount point of a file system that is made first, if it is to be fresh."""
    if fresh:
        make(disk, kind)
    with tempfile.TemporaryDirectory(prefix='mnt', dir='/run/iolat-lab') as directory:
        run('mount', '-t', kind, '-o', options, disk.node, directory)
        try:
            yield pathlib.Path(directory)
        finally:
            run('umount', directory)
