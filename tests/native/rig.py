# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the tests need of the machine: file systems with a journal, slow devices, cgroups, a bpffs, workloads."""

import contextlib
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from harness import (BUILD, RUN, SHM, Skip, cgroup_root, check, remove_cgroup, run, skip, start, stop, wait_for)

WORKLOAD = BUILD / 'tests/native/iolat-workload'
SLOWFS = BUILD / 'tests/native/iolat-slowfs'
NOT_AVAILABLE = 77

STAT_FIELDS = ('reads', 'readMerges', 'readSectors', 'readMSec', 'writes', 'writeMerges', 'writeSectors',
               'writeMSec', 'inFlight', 'busyMSec', 'queueMSec', 'discards', 'discardMerges', 'discardSectors',
               'discardMSec', 'flushes', 'flushMSec')

numbers = itertools.count(1)


def base_dir():
    return pathlib.Path(os.environ['IOLAT_TEST_DIR'])


class Disk:
    """An ext4 with a journal on a loop device. The backing file is in memory unless told otherwise."""

    def __init__(self, image, mount_point):
        self.image = image
        self.mount_point = mount_point
        number = os.stat(mount_point).st_dev
        self.device = f'{os.major(number)}:{os.minor(number)}'
        self.sys = pathlib.Path(f'/sys/dev/block/{self.device}').resolve()
        self.node = pathlib.Path('/dev') / self.sys.name

    def path(self, name):
        return self.mount_point / name

    def stat(self):
        return dict(zip(STAT_FIELDS, map(int, (self.sys / 'stat').read_text().split())))

    def sync(self):
        run('sync', '-f', self.mount_point)


@contextlib.contextmanager
def mounted(image, mount_point):
    """Mounts on a loop device that goes away with the mount."""
    mount_point.mkdir()
    try:
        run('mount', '-t', 'ext4', '-o', 'loop,noatime', image, mount_point)
        try:
            disk = Disk(image, mount_point)
            iostats = disk.sys / 'queue/iostats'
            before = iostats.read_text()
            if before.strip() != '1': # /sys may be read-only
                iostats.write_text('1')
            yield disk
            if before.strip() != '1':
                iostats.write_text(before)
        finally:
            run('umount', '-l', mount_point)
    finally:
        mount_point.rmdir()


def make_ext4(image, size):
    with open(image, 'wb') as f:
        f.truncate(size)
    run('mkfs.ext4', '-q', '-F', '-J', 'size=16', '-E', 'lazy_itable_init=0,lazy_journal_init=0', image)


@contextlib.contextmanager
def ext4(size=256 << 20, on_disk=False):
    where = base_dir() if on_disk or not SHM.is_dir() else SHM
    directory = pathlib.Path(tempfile.mkdtemp(prefix=f'{RUN}-image-', dir=where))
    try:
        make_ext4(directory / 'image', size)
        with mounted(directory / 'image', base_dir() / f'mnt{next(numbers)}') as disk:
            yield disk
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class SlowDisk(Disk):
    control = None

    def delay(self, read=0, write=0, fsync=0, error=0):
        """Milliseconds, and an errno, of each operation on the backing store from now on."""
        self.control.write_text(f'read={read} write={write} fsync={fsync} error={error}\n')


@contextlib.contextmanager
def slow_fs(directory, control):
    """Mounts the slow file system in a mount namespace of its own, where the test's mounts are not: else a server
    killed together with the test would unmount, as the last one there, what it alone could serve."""
    front = base_dir() / f'slow{next(numbers)}'
    front.mkdir()
    server = start('nsenter', f'--mount={os.environ["IOLAT_TEST_OUTSIDE"]}', 'unshare', '--mount', SLOWFS, directory,
                   control, front, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        seen = pathlib.Path(f'/proc/{server.pid}/root{front}')
        wait_for(lambda: (seen / 'image').exists(), what='slow file system')
        yield seen
    finally:
        stop(server)
        front.rmdir()


@contextlib.contextmanager
def slow_ext4(size=128 << 20):
    """As ext4(), on a loop device over a file system of our own that takes as long as it is told."""
    if not SLOWFS.exists():
        skip('built without libfuse3')
    if not os.path.exists('/dev/fuse'):
        skip('no /dev/fuse')
    if subprocess.run(['nsenter', f'--mount={os.environ["IOLAT_TEST_OUTSIDE"]}', 'test', '-e', SLOWFS]).returncode != 0:
        skip('in a chroot, whose mount namespace cannot be entered again')
    directory = pathlib.Path(tempfile.mkdtemp(prefix=f'{RUN}-slow-', dir=SHM))
    control = base_dir() / f'control{next(numbers)}'
    control.write_text('\n')
    try:
        make_ext4(directory / 'image', size)
        with slow_fs(directory, control) as front, \
                mounted(front / 'image', base_dir() / f'mnt{next(numbers)}') as disk:
            disk.__class__ = SlowDisk
            disk.control = control
            try:
                yield disk
            finally:
                disk.delay()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class Cgroup:
    def __init__(self, path, unit):
        self.path = path
        self.unit = unit

    def run(self, *args, **kwargs):
        """Runs a program in here."""
        return run('sh', '-c', 'echo 0 >"$1/cgroup.procs" && shift && exec "$@"', 'sh', self.path, *args, **kwargs)

    def start(self, *args, **kwargs):
        return start('sh', '-c', 'echo 0 >"$1/cgroup.procs" && shift && exec "$@"', 'sh', self.path, *args, **kwargs)


def unit_name(name):
    """A name that no other run has."""
    return f'{RUN}-{next(numbers)}-{name}'


@contextlib.contextmanager
def cgroup(name='a.service', slice_name='system.slice'):
    """A cgroup where a system manager would have made it for a unit of that name (made unique)."""
    root = cgroup_root()
    if not root:
        skip('no cgroup2 mount')
    unit = unit_name(name)
    path = root / slice_name / unit
    for _ in range(20):
        path.parent.mkdir(exist_ok=True)
        try:
            path.mkdir()
            break
        except FileNotFoundError:  # another run removed the slice when it was empty
            continue
    try:
        yield Cgroup(path, unit)
    finally:
        remove_cgroup(path)
        with contextlib.suppress(OSError):
            path.parent.rmdir()


@contextlib.contextmanager
def bpffs():
    path = base_dir() / f'bpf{next(numbers)}'
    path.mkdir()
    try:
        run('mount', '-t', 'bpf', 'bpf', path)
        try:
            yield path
        finally:
            run('umount', '-l', path)
    finally:
        path.rmdir()


def workload_args(kind, path, group=None, **options):
    """Options with underscores; True stands for one without an argument."""
    args = [WORKLOAD]
    if group:
        args.append(f'--cgroup={group.path}')
    for name, value in options.items():
        name = name.replace('_', '-')
        if value is True:
            args.append(f'--{name}')
        elif value not in (None, False):
            args.append(f'--{name}={value}')
    return args + [kind, path]


def workload(kind, path, group=None, **options):
    """Runs the workload to its end, returns what it counted itself."""
    return finish(start_workload(kind, path, group, **options))


def start_workload(kind, path, group=None, **options):
    return start(*workload_args(kind, path, group, **options), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                 stderr=subprocess.PIPE, text=True)


def release(*processes):
    """Lets workloads that were started with barrier=True go, all at about the same time."""
    for p in processes:
        check(p.stdout.readline() == 'ready\n', f'workload is not ready: {p.stderr.read() if p.poll() else ""}')
    for p in processes:
        p.stdin.write('\n')
        p.stdin.flush()


def finish(process, timeout=120):
    out, err = process.communicate(timeout=timeout)
    if process.returncode == NOT_AVAILABLE:
        raise Skip(err.strip())
    check(process.returncode == 0, f'workload failed: {err}')
    return json.loads(out)
