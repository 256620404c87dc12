# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is switched on while something is measured: nothing, programs that do nothing, iolat, other tools."""

import collections
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import bpf
from bench import TOOLS, Talker
from harness import start, stop, wait_for
from product import PROBES, daemon
from rig import base_dir, bpffs

TRACEFS = ('/sys/kernel/tracing', '/sys/kernel/debug/tracing')
READY_SEC = 30
SETTLED_SEC = 0.3

# How a program of iolat that is attached to a function is named after it, and what kind of attachment that is.
PREFIXES = {'fe_': 'fentry', 'fx_': 'fexit', 'kp_': 'kprobe', 'kr_': 'kretprobe', 'km_': 'kprobe.multi',
            'kx_': 'kretprobe.multi'}


class Missing(Exception):
    """The variant cannot be had on this machine."""


Point = collections.namedtuple('Point', 'program kind target')


def points_of(bpffs_dir):
    """Where iolat's programs are attached, those left out that run only when they are read."""
    generation = max((p for p in (bpffs_dir / 'iolat').iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
    shown = subprocess.run([PROBES, 'show', f'--bpffs={bpffs_dir}'], capture_output=True, text=True, check=True).stdout
    attached = set(re.findall(r'^\S+ +([a-z_.]+):(\S+)$', shown, re.MULTILINE))
    points = []
    for link in sorted((generation / 'links').iterdir()):
        name = re.sub(r'_twin\d+$', '', link.name)
        target = bpf.pinned_tracepoint(link)
        if target:
            points.append(Point(link.name, 'tp_btf', target))
        elif name[:3] in PREFIXES:
            points.append(Point(link.name, PREFIXES[name[:3]], name[3:]))
    here = {(p.kind, p.target) for p in points}
    for kind, target in attached:
        if kind != 'iter' and (kind, target) not in here and ({'fentry': 'fexit'}.get(kind), target) not in here:
            raise AssertionError(f'{kind}:{target} is said to be attached, but there is no link')
    return points


def unload(bpffs_dir):
    subprocess.run([PROBES, 'unload', f'--bpffs={bpffs_dir}'], check=True, stderr=subprocess.DEVNULL)


class Nothing:
    name = 'nothing'

    @contextlib.contextmanager
    def on(self):
        yield self

    def programs(self):
        """What is attached: id -> Point."""
        return {}


class Iolat:
    """The daemon, with all of its programs, as a user has it."""
    name = 'iolat'

    def __init__(self, test, config='', env=None):
        self.test, self.config, self.env = test, config, env

    @contextlib.contextmanager
    def on(self):
        with bpffs() as directory, daemon(self.test, self.config, self.env, bpffs_dir=directory) as d:
            self.daemon = d
            try:
                yield self
            finally:
                d.stop()
                unload(directory)
                self.test.reports.remove(d.report)

    def generation(self):
        numbers = [int(p.name) for p in (self.daemon.bpffs / 'iolat').iterdir() if p.name.isdigit()]
        return self.daemon.bpffs / 'iolat' / str(max(numbers))

    def points(self):
        return points_of(self.daemon.bpffs)

    def programs(self):
        progs = self.generation() / 'progs'
        return {bpf.pinned_program_id(progs / p.program): p for p in self.points()}


class Empty:
    """Programs of two instructions at the same points."""
    name = 'empty'

    def __init__(self, points):
        self.points = points

    @contextlib.contextmanager
    def on(self):
        self.tool = Talker(TOOLS / 'iolat-bench-empty',
                           text=''.join(f'{p.kind} {p.target}\n' for p in self.points) + '\n')
        try:
            yield self
        finally:
            self.tool.close()

    def programs(self):
        """The tool answers in the order in which it was told."""
        return {s['id']: p for s, p in zip(self.tool.ask('stats'), self.points)}


class Tool:
    """A tool that attaches programs, and prints on SIGINT what it has counted."""

    def __init__(self, name, command, expected, env=None):
        self.name, self.command, self.expected, self.env = name, command, expected, env

    def check_available(self):
        if not shutil.which(self.command[0]):
            raise Missing(f'{self.command[0]} is not installed (tests/install-missing bench)')

    def attached(self):
        """How many programs the tool has attached so far, by what it holds open."""
        n = 0
        for path in pathlib.Path(f'/proc/{self.process.pid}/fd').iterdir():
            with contextlib.suppress(OSError):
                n += os.readlink(path) in ('anon_inode:bpf_link', 'anon_inode:[perf_event]') or \
                    os.readlink(path).startswith('anon_inode:bpf-raw-tp')
        return n

    def wait_until_attached(self):
        since, last = time.monotonic(), 0

        def settled():
            nonlocal since, last
            if self.process.poll() is not None:
                raise Missing(f'ended with {self.process.returncode}: {self.complaint()}')
            n = self.attached()
            if n != last:
                since, last = time.monotonic(), n
            return n > 0 and time.monotonic() - since > SETTLED_SEC
        wait_for(settled, READY_SEC, f'programs of {self.name}')

    def complaint(self):
        lines = [line for line in self.output.read_text(errors='replace').splitlines() if line.strip()]
        return lines[-1] if lines else 'without a word'

    @contextlib.contextmanager
    def on(self):
        self.check_available()
        self.output = base_dir() / f'output-{self.name}'
        with open(self.output, 'wb') as out:
            self.process = start(*self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                 env=os.environ | (self.env or {}))
        try:
            self.wait_until_attached()
            yield self
        finally:
            stop(self.process, signal.SIGINT)
        if self.expected not in self.output.read_text(errors='replace'):
            raise Missing(f'it counted nothing: {self.complaint()}')

    def programs(self):
        result = {}
        for number in bpf.programs_of_process(self.process.pid):
            name = bpf.program(number).name
            result[number] = Point(name, 'tracepoint', name)
        return result


def biolatency():
    """Debian's package installs it in /usr/sbin under its own name, others with a prefix."""
    names = ('biolatency', 'biolatency-bpfcc', 'libbpf-biolatency')
    return Tool('biolatency', [next((n for n in names[::2] if shutil.which(n)), names[0])], '|')


SYNC_BY_EXT4 = '''
tracepoint:ext4:ext4_sync_file_enter { @enter[tid] = nsecs; }
tracepoint:ext4:ext4_sync_file_exit /@enter[tid]/ {
    @sync[cgroup] = hist(nsecs - @enter[tid]); delete(@enter[tid]);
}
'''
SYNC_BY_SYSCALL = '''
tracepoint:syscalls:sys_enter_fsync, tracepoint:syscalls:sys_enter_fdatasync { @enter[tid] = nsecs; }
tracepoint:syscalls:sys_exit_fsync, tracepoint:syscalls:sys_exit_fdatasync /@enter[tid]/ {
    @sync[cgroup] = hist(nsecs - @enter[tid]); delete(@enter[tid]);
}
'''
REQUESTS = '''
tracepoint:block:{created} {{
    @created[args->dev, args->sector] = nsecs; @owner[args->dev, args->sector] = cgroup;
}}
tracepoint:block:block_rq_issue /@created[args->dev, args->sector]/ {{
    @issued[args->dev, args->sector] = nsecs;
    @queue[@owner[args->dev, args->sector]] = hist(nsecs - @created[args->dev, args->sector]);
}}
tracepoint:block:block_rq_complete /@issued[args->dev, args->sector]/ {{
    @device[@owner[args->dev, args->sector]] = hist(nsecs - @issued[args->dev, args->sector]);
    delete(@created[args->dev, args->sector]); delete(@issued[args->dev, args->sector]);
    delete(@owner[args->dev, args->sector]);
}}
END {{ clear(@enter); clear(@created); clear(@issued); clear(@owner); }}
'''


def has_event(name):
    return any(pathlib.Path(t, 'events', name).exists() for t in TRACEFS)


def bpftrace(name, sync):
    """The same histograms as iolat's, per cgroup: totals of syncs, queue and device time of requests."""
    created = 'block_io_start' if has_event('block/block_io_start') else 'block_bio_queue'
    return Tool(name, ['bpftrace', '-e', sync + REQUESTS.format(created=created)], '@')


def all_variants(test):
    """In the order in which they are measured. iolat is loaded once, to see what it attaches to here."""
    iolat = Iolat(test)
    with iolat.on():
        points = iolat.points()
    return [Nothing(), Empty(points), iolat, biolatency(), bpftrace('bpftrace', SYNC_BY_EXT4),
            bpftrace('bpftrace-syscalls', SYNC_BY_SYSCALL)]
