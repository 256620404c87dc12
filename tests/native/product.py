# SPDX-License-Identifier: LGPL-2.1-or-later
"""iolatd and iolatctl as the tests drive them."""

import contextlib
import itertools
import json
import os
import pathlib
import select
import signal
import socket
import time

from harness import BUILD, check, equal, run, start, stop, wait_for
from rig import base_dir, bpffs

IOLATD = BUILD / 'daemon/iolatd'
PROBES = BUILD / 'probes/iolat-probes'
CTL = BUILD / 'client/iolatctl'

START_SEC = 60
SETTLE_SEC = 10
SYNC_OPS = ('fsync', 'fdatasync', 'sync', 'syncfs', 'syncrange', 'msync', 'syncwrite', 'dread', 'dwrite')

numbers = itertools.count(1)


class Daemon:
    """iolatd with a runtime directory, a bpffs and a log of its own."""

    def __init__(self, bpffs_dir, config='', env=None, prefix=()):
        self.directory = base_dir() / f'iolatd{next(numbers)}'
        self.directory.mkdir()
        self.bpffs = bpffs_dir
        self.socket = self.directory / 'run/bus'
        self.state = self.directory / 'state'
        self.log = self.directory / 'log'
        self.config = self.directory / 'iolatd.conf'
        self.config.write_text(config)
        self.env = os.environ | (env or {})
        self.prefix = prefix
        self.process = None

    def args(self):
        return [*self.prefix, IOLATD, f'--runtime-dir={self.directory / "run"}', f'--bpffs={self.bpffs}',
                f'--config={self.config}', f'--state-dir={self.state}', '--no-bus']

    def start(self):
        """Returns once the daemon said that it is ready."""
        (self.directory / 'run').mkdir(exist_ok=True)
        notify = self.directory / 'notify'
        with contextlib.suppress(FileNotFoundError):
            notify.unlink()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s, open(self.log, 'ab') as log:
            s.bind(str(notify))
            self.process = start(*self.args(), stdout=log, stderr=log, env=self.env | {'NOTIFY_SOCKET': str(notify)})
            deadline = time.monotonic() + START_SEC
            while True:
                if select.select([s], [], [], 0.05)[0] and b'READY=1' in s.recv(4096):
                    break
                check(self.process.poll() is None, f'iolatd ended with {self.process.returncode} before it was ready')
                check(time.monotonic() < deadline, f'iolatd is not ready after {START_SEC} s')
        return self

    def stop(self):
        if self.process:
            code = stop(self.process)
            self.process = None
            equal(code, 0, 'exit code of iolatd after SIGTERM')

    def kill9(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = None

    def restart(self):
        self.stop()
        self.start()

    def report(self):
        return f'--- log of iolatd ---\n{self.log.read_text(errors="replace")[-4000:]}---'

    def resident_bytes(self):
        fields = pathlib.Path(f'/proc/{self.process.pid}/statm').read_text().split()
        return int(fields[1]) * os.sysconf('SC_PAGE_SIZE')

    def call(self, *args, check=True, **kwargs):
        return run(CTL, f'--socket={self.socket}', *args, check=check, **kwargs)

    def text(self, *args):
        return self.call(*args).stdout

    def json(self, *args):
        return json.loads(self.call(*args, '--json=short').stdout)

    def rows(self, *patterns, **wanted):
        """Rows of list, where the keys have the wanted values."""
        return [r for r in self.json('list', *patterns) if all(r[k] == v for k, v in wanted.items())]

    def probes(self, kind=None):
        return [r for r in self.json('probes') if kind in (None, r['kind'])]

    def lost(self):
        return sum(r['hits'] for r in self.probes('loss'))

    def losses(self):
        return {r['probe']: r['hits'] for r in self.probes('loss') if r['hits'] > 0}

    def counts(self, unit, **wanted):
        """Operations of the unit that were synchronous or direct: op -> count, over all devices."""
        result = {}
        for r in self.rows(unit, unit=unit, phase='total', **wanted):
            if r['op'] in SYNC_OPS:
                result[r['op']] = result.get(r['op'], 0) + r['count']
        return result

    def expect_counts(self, unit, expected, **wanted):
        """The unit has these counts and no others. Waits for those that are still to come."""
        deadline = time.monotonic() + SETTLE_SEC
        while True:
            got = self.counts(unit, **wanted)
            late = all(got.get(op, 0) <= n for op, n in expected.items()) and got != expected
            if not late or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        equal(got, expected, f'operations of {unit} (losses: {self.losses()})')

    def is_blind(self, *words):
        """One blind spot speaks of all these words."""
        return any(all(w in f'{r["probe"]} {r["reason"]}'.lower() for w in words) for r in self.probes('blind'))


@contextlib.contextmanager
def daemon(test, config='', env=None, started=True, bpffs_dir=None):
    """A Daemon of the test; its log is shown if the test fails. It is not stopped gracefully: use Daemon.stop()."""
    with contextlib.ExitStack() as stack:
        directory = bpffs_dir or stack.enter_context(bpffs())
        d = Daemon(directory, config, env)
        test.reports.append(d.report)
        try:
            if started:
                d.start()
            yield d
        finally:
            if d.process:
                d.process.kill()
                d.process.wait()
            if not bpffs_dir:
                run(PROBES, 'unload', f'--bpffs={directory}', check=False)


def row_value(rows, key='sumNSec'):
    return sum(r[key] for r in rows)


def settled(function, timeout=SETTLE_SEC):
    """Calls until two results running are equal; returns it."""
    last = [object()]

    def same():
        value = function()
        before, last[0] = last[0], value
        time.sleep(0.1)
        return [value] if value == before else None
    return wait_for(same, timeout, 'value that does not change')[0]
