# SPDX-License-Identifier: LGPL-2.1-or-later
"""The file system that is measured on, and the workload on it."""

import contextlib
import os
import pathlib
import shutil

from bench import TOOLS, Talker
from harness import run, wait_for
from rig import Disk, base_dir, cgroup, ext4

SIZE_MB = 512
NULL_BLK = pathlib.Path('/sys/module/null_blk')
MKFS = ('mkfs.ext4', '-q', '-F', '-J', 'size=16', '-E', 'lazy_itable_init=0,lazy_journal_init=0')


class NoDevice(Exception):
    pass


@contextlib.contextmanager
def null_blk():
    """A disk in memory without the thread that stands behind a loop device."""
    loaded = NULL_BLK.exists()
    if not loaded and not shutil.which('modprobe'):
        raise NoDevice
    if not loaded and run('modprobe', 'null_blk', 'nr_devices=0', check=False).returncode != 0:
        raise NoDevice
    config = base_dir() / 'config'
    config.mkdir()
    run('mount', '-t', 'configfs', 'none', config)
    device = config / 'nullb' / f'iolat{os.getpid()}'
    try:
        device.mkdir()
        try:
            for name, value in {'size': SIZE_MB, 'memory_backed': 1, 'power': 1}.items():
                (device / name).write_text(str(value))
            index = (device / 'index').read_text().strip()
            nodes = pathlib.Path('/dev', device.name), pathlib.Path(f'/dev/nullb{index}')
            yield wait_for(lambda: next((n for n in nodes if n.exists()), None), what='the null_blk device')
            (device / 'power').write_text('0')
        finally:
            device.rmdir()
    finally:
        run('umount', config)
        if not loaded:
            run('modprobe', '-r', 'null_blk', check=False)


@contextlib.contextmanager
def ext4_on_null_blk():
    with null_blk() as node:
        run(*MKFS, node)
        where = base_dir() / 'null'
        where.mkdir()
        run('mount', '-t', 'ext4', '-o', 'noatime', node, where)
        try:
            yield Disk(node, where)
        finally:
            run('umount', where)


def bench_disk(test):
    """The ext4 and a description of what it is on."""
    try:
        return test.enter(ext4_on_null_blk()), 'ext4 on null_blk, in memory'
    except NoDevice:
        return test.enter(ext4(SIZE_MB << 20)), 'ext4 on a loop device over tmpfs'


class Ops(Talker):
    """Does operations of one kind at a time, on one CPU, as the process of a service. Answers are in nanoseconds an
    operation."""

    def __init__(self, test, disk):
        cpu = max(os.sched_getaffinity(0))
        group = test.enter(cgroup('bench.service'))
        super().__init__(TOOLS / 'iolat-bench-ops', f'--cpu={cpu}', test.directory(parent=disk.mount_point), disk.node,
                         starter=group.start)
        test.defer(self.close)

    def run(self, op, msec, count=None):
        return self.ask(op, msec, *([count] if count else []))
