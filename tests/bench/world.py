# SPDX-License-Identifier: LGPL-2.1-or-later
"""A daemon that is looked at from outside, and services for it to watch."""

import contextlib
import pathlib
import struct
import subprocess
import time

import bench
import bpf
from bench import TOOLS, Talker
from bus import METHOD_RETURN, Bus
from harness import check, equal, wait_for
from product import CTL, Daemon
from rig import bpffs, cgroup, unit_name
from variants import unload

PAGE_ROWS = 1000
REPLY_SERIAL = 5  # header field


class Units(Talker):
    """Services of one slice, which sync and read. Names of those that stay end in -N, of the others in -shortN."""

    def __init__(self, test, disk):
        keeper = test.enter(cgroup('keeper.service'))  # the slice is there as long as it is
        self.base = unit_name('many')
        self.path = keeper.path.parent
        super().__init__(TOOLS / 'iolat-bench-units', self.path, self.base, disk.path('units'))
        self.test = test
        test.defer(self.close)

    def close(self):
        super().close()
        for path in self.path.glob(f'{self.base}-*'):  # it was killed
            with contextlib.suppress(OSError):
                path.rmdir()


class Watched:
    """iolatd in a cgroup of its own, whose CPU time is that of its children, too."""

    def __init__(self, test, config='', env=None):
        self.group = test.enter(cgroup('iolatd.service'))
        self.daemon = Daemon(test.enter(bpffs()), config, env,
                             prefix=('sh', '-c', 'echo 0 >"$0/cgroup.procs" && exec "$@"', self.group.path))
        test.reports.append(self.daemon.report)
        test.defer(self.end)

    def start(self):
        """Seconds until it said that it is ready."""
        began = time.monotonic()
        self.daemon.start()
        return time.monotonic() - began

    def end(self):
        try:
            self.daemon.stop()
        finally:
            unload(self.daemon.bpffs)

    def resident(self):
        return self.daemon.resident_bytes()

    def cpu_seconds(self):
        for line in (self.group.path / 'cpu.stat').read_text().splitlines():
            if line.startswith('usage_usec'):
                return int(line.split()[1]) / 1e6
        raise AssertionError('no usage_usec in cpu.stat')

    def wakeups(self):
        status = pathlib.Path(f'/proc/{self.daemon.process.pid}/status').read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith('voluntary_ctxt_switches'))

    @contextlib.contextmanager
    def observed(self, result):
        """What the daemon took while this was entered."""
        cpu, wakeups, start = self.cpu_seconds(), self.wakeups(), time.monotonic()
        yield
        seconds = time.monotonic() - start
        result['seconds'] = seconds
        result['cpuPercent'] = 100 * (self.cpu_seconds() - cpu) / seconds
        result['wakeupsPerSec'] = (self.wakeups() - wakeups) / seconds
        result['residentBytes'] = self.resident()

    def maps(self):
        """Name -> bytes and elements of each pinned map."""
        generation = max((p for p in (self.daemon.bpffs / 'iolat').iterdir() if p.name.isdigit()),
                         key=lambda p: int(p.name))
        return {p.name: bpf.pinned_map(p) for p in sorted((generation / 'maps').iterdir())}


def map_bytes(maps):
    """Of all together, None if that of one is not known."""
    sizes = [m['bytes'] for m in maps.values()]
    return None if None in sizes else sum(sizes)


class TimedBus(Bus):
    """Says how long a reply took to arrive, without looking into it."""

    def timed(self, method, signature, *args):
        began = time.monotonic()
        serial = self.send_call(method, signature, *args)
        while True:
            self.wait_for_message()
            seconds = time.monotonic() - began
            kind, fields, values = self.take_message(0)
            if fields.get(REPLY_SERIAL) == serial:
                equal(kind, METHOD_RETURN, f'kind of the reply to {method}')
                return seconds, values

    def wait_for_message(self):
        while True:
            if len(self.buffer) >= 16:
                body, _, fields = struct.unpack('<III', self.buffer[4:16])
                if len(self.buffer) >= 16 + fields + -fields % 8 + body:
                    return
            data = self.socket.recv(1 << 20)
            check(data, 'the daemon has closed the connection')
            self.buffer += data


def page_times(daemon, passes):
    """Seconds of each page of a listing of everything, and the number of rows."""
    bus, seconds, rows = TimedBus(daemon.socket), [], 0
    try:
        for _ in range(passes):
            cursor, rows = 0, 0
            while True:
                took, values = bus.timed('List', 'asasastu', [], [], [], cursor, PAGE_ROWS)
                seconds.append(took)
                rows += len(values[0])
                cursor = values[1]
                if cursor == 0:
                    break
    finally:
        bus.close()
    return seconds, rows


def command_times(daemon, times, *args):
    """Seconds that the client took as a process."""
    seconds = []
    for _ in range(times):
        began = time.monotonic()
        subprocess.run([CTL, f'--socket={daemon.socket}', '--no-pager', *args], stdout=subprocess.DEVNULL, check=True)
        seconds.append(time.monotonic() - began)
    return seconds


def quantiles(seconds):
    return {'p50MSec': bench.percentile(seconds, 50) * 1e3, 'p99MSec': bench.percentile(seconds, 99) * 1e3,
            'samples': len(seconds)}


def queries(daemon, unit, times):
    """How long questions take. A listing is asked for in pages of that many rows."""
    pages, rows = page_times(daemon, max(1, times // 10))
    return {'rows': rows, 'page': quantiles(pages),
            'list': quantiles(command_times(daemon, times, 'list', '--json=short')),
            'status': quantiles(command_times(daemon, times, 'status')),
            'statusUnit': quantiles(command_times(daemon, times, 'status', unit))}


def counted(daemon, pattern, ops, device):
    """Unit -> operations that the daemon has counted."""
    result = {}
    for r in daemon.rows(pattern, phase='total', device=device):
        if r['op'] in ops:
            result[r['unit']] = result.get(r['unit'], 0) + r['count']
    return result


def active_units(watched, units, disk, n, rate, seconds):
    """Has n services work for so long, each at most once a second, and looks at the daemon meanwhile."""
    units.ask('make', n)
    first = units.ask('touch', 2 * n, 0)  # each has synced and read once
    result = {'units': n}
    with watched.observed(result):
        answer = units.ask('touch', int(rate * seconds), rate)
    result['operationsPerSec'] = answer['operations'] / (answer['nsec'] / 1e9)
    wanted = first['operations'] + answer['operations']

    def all_counted():
        got = counted(watched.daemon, f'{units.base}-*', ('fdatasync', 'dread'), disk.device)
        return (got,) if sum(got.values()) >= wanted else None
    with contextlib.suppress(AssertionError):
        wait_for(all_counted, 20)
    got = counted(watched.daemon, f'{units.base}-*', ('fdatasync', 'dread'), disk.device)
    result['unitsNamed'], result['operationsLost'] = len(got), wanted - sum(got.values())
    result['losses'] = watched.daemon.losses()
    result['maps'] = watched.maps()
    result['mapBytes'] = map_bytes(result['maps'])
    return result
