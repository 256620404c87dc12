# SPDX-License-Identifier: LGPL-2.1-or-later
"""What shows stalls and operations as they come goes on when the daemon is started anew: nothing is shown twice, and
nothing is left out that the daemon knows."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time

import harness
from bus import BUS_CONFIG
from harness import cases, check, equal, skip, start, stop, wait_for
from product import CTL, daemon
from rig import cgroup, ext4, finish, slow_ext4, start_workload, workload

WENT_AWAY = 'iolatd has gone away, waiting for it to come back.\n'
HURRY = {'IOLAT_TEST_HURRY': '1'}  # the history is written every second
POLL_SEC = 5  # of the client
CALL_SEC = 10  # how long it waits for an answer


class Client:
    """iolatctl, and what it has printed so far."""

    def __init__(self, t, *args, env=None, place=None):
        args = [CTL, *(place or [f'--socket={t.rig.daemon.socket}']), *args]
        self.process = start(*args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=os.environ | (env or {}))
        t.defer(self.process.wait)
        t.defer(self.process.kill)
        self.lines, self.errors = [], []
        self.readers = [threading.Thread(target=lambda f=f, to=to: to.extend(iter(f.readline, '')), daemon=True)
                        for f, to in ((self.process.stdout, self.lines), (self.process.stderr, self.errors))]
        for r in self.readers:
            r.start()
        wait_for(lambda: self.process.poll() is not None or self.has_event_loop(), 30, 'connection')
        t.reports.append(lambda: '--- iolatctl ---\n' + ''.join(self.lines + self.errors) + '---')

    def has_event_loop(self):
        """It has connected before that."""
        fds = f'/proc/{self.process.pid}/fd'
        with contextlib.suppress(OSError):
            return any('signalfd' in os.readlink(f'{fds}/{fd}') for fd in os.listdir(fds))
        return False

    def rows(self, unit):
        return [r for r in map(json.loads, list(self.lines)) if r['unit'] == unit]

    def states(self, unit):
        return [r['state'] for r in self.rows(unit)]

    def went_away(self, times=1):
        """That is all that it ever has to say."""
        wait_for(lambda: len(self.errors) >= times, CALL_SEC + POLL_SEC + 5, 'message')
        equal(self.errors, [WENT_AWAY] * times, 'messages')

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(CALL_SEC + 5)
        for r in self.readers:
            r.join(10)
        equal(code, 0, 'exit code')


class Rig:
    def __init__(self, t):
        self.daemon = t.enter(daemon(t, env=HURRY))
        self.disk, self.slow = t.enter(ext4()), t.enter(slow_ext4())


def setup(t):
    return Rig(t)


def end(d, how):
    if how == 'kill -9':
        d.kill9()
    else:
        d.stop()


def stall(t, group):
    """One that is over in a moment."""
    t.rig.slow.delay(fsync=200)
    workload('fsync', t.rig.slow.path('file'), group, count=1, write=4096)
    t.rig.slow.delay()


def hang(t, group, seconds):
    """One that goes on, on a disk of its own."""
    disk = t.enter(slow_ext4())
    workload('fsync', disk.path('file'), count=1, write=4096)
    disk.delay(fsync=seconds * 500)  # a commit takes two
    return start_workload('fsync', disk.path('file'), group, count=1, write=4096)


@cases('kill -9', 'SIGTERM')
def test_stalls(t, how):
    d = t.rig.daemon
    before, hangs, ends, between, after = (t.enter(cgroup(f'{name}.service')) for name in
                                           ('before', 'hangs', 'ends', 'between', 'after'))
    stall(t, before)
    client = Client(t, 'stalls', '--follow', '--json=short')
    wait_for(lambda: client.states(before.unit) == ['done'], what='stall of before')
    long, short = hang(t, hangs, 16), hang(t, ends, 5)
    for g in hangs, ends:
        wait_for(lambda g=g: client.states(g.unit) == ['in-progress'], what='stall in progress')
    time.sleep(1.2)  # the history is written
    end(d, how)
    client.went_away()
    finish(short)
    stall(t, between)
    d.start()
    for g, states in (between, ['done']), (ends, ['in-progress', 'done']):
        wait_for(lambda g=g, states=states: client.states(g.unit) == states, POLL_SEC + 2, f'{states} of {g.unit}')
    stall(t, after)
    wait_for(lambda: client.states(after.unit) == ['done'], what='stall of after')
    equal(client.states(hangs.unit), ['in-progress'], 'states of what goes on')
    finish(long)
    wait_for(lambda: client.states(hangs.unit) == ['in-progress', 'done'], what='its end')
    time.sleep(POLL_SEC + 1)  # it looks again whether there is more
    for g, states in ((before, ['done']), (hangs, ['in-progress', 'done']), (ends, ['in-progress', 'done']),
                      (between, ['done']), (after, ['done'])):
        equal(client.states(g.unit), states, f'states of {g.unit}')
    client.interrupt()
    equal(client.errors, [WENT_AWAY], 'messages')


def test_stall_that_was_not_shown_before_the_end(t):
    """It comes out of the history, some time after the daemon is back."""
    d, group = t.rig.daemon, t.enter(cgroup('a.service'))
    client = Client(t, 'stalls', '-f', '--json=short')
    time.sleep(0.5)  # the first look
    client.process.send_signal(signal.SIGSTOP)
    stall(t, group)
    wait_for(lambda: any(s['unit'] == group.unit for s in d.json('stalls')), what='stall')
    d.stop()
    client.process.send_signal(signal.SIGCONT)
    client.went_away()
    equal(client.states(group.unit), [], 'what was shown')
    d.start()
    wait_for(lambda: client.states(group.unit) == ['done'], POLL_SEC + 5, 'stall of before')
    client.interrupt()


def test_again_and_again(t):
    """Said once each time, and the terminal's table goes on."""
    d, groups = t.rig.daemon, [t.enter(cgroup(f'{n}.service')) for n in range(3)]
    client = Client(t, 'stalls', '--follow')
    for n, group in enumerate(groups):
        end(d, 'kill -9')
        client.went_away(n + 1)
        d.start()
        stall(t, group)
        wait_for(lambda g=group: [line for line in client.lines if g.unit in line], POLL_SEC + 2, 'stall')
    equal([sum(g.unit in line for line in client.lines) for g in groups], [1, 1, 1], 'lines of each')
    check(sum(line.startswith('TIME') for line in client.lines) <= 1, 'more than one header')
    client.interrupt()


@cases('stalls --follow', 'trace')
def test_interrupt_while_it_is_away(t, command):
    d = t.rig.daemon
    client = Client(t, *command.split())
    d.stop()
    try:
        client.went_away()
        client.interrupt()
    finally:
        d.start()


def test_daemon_that_does_not_answer(t):
    """It is the same one afterwards, and what it knew has kept its number."""
    d, group, other = t.rig.daemon, t.enter(cgroup('a.service')), t.enter(cgroup('b.service'))
    process = hang(t, group, 25)
    client = Client(t, 'stalls', '--follow', '--json=short')
    wait_for(lambda: client.states(group.unit) == ['in-progress'], what='stall in progress')
    d.process.send_signal(signal.SIGSTOP)
    try:
        client.went_away()
    finally:
        d.process.send_signal(signal.SIGCONT)
    stall(t, other)
    wait_for(lambda: client.states(other.unit) == ['done'], CALL_SEC + 2, 'stall after that')
    finish(process)
    wait_for(lambda: client.states(group.unit) == ['in-progress', 'done'], what='end')
    equal(client.errors, [WENT_AWAY], 'messages')
    client.interrupt()


@cases('kill -9', 'SIGTERM')
def test_trace(t, how):
    d, group = t.rig.daemon, t.enter(cgroup('a.service'))

    def syncs(name, count=5):
        workload('fsync', t.rig.disk.path(name), group, count=count, write=4096)

    def files():
        return [r['file'].rpartition('/')[2] for r in client.rows(group.unit)]
    client = Client(t, 'trace', group.unit, '--json=short')
    wait_for(lambda: syncs('first', 1) or files(), what='trace')
    syncs('before')
    wait_for(lambda: files().count('before') == 5, what='operations of before')
    end(d, how)
    client.went_away()
    syncs('between')
    d.start()
    wait_for(lambda: syncs('back', 1) or 'back' in files(), what='trace again')
    syncs('after')
    wait_for(lambda: files().count('after') == 5, what='operations of after')
    time.sleep(0.5)
    got = files()
    equal((got.count('before'), got.count('after')), (5, 5), 'operations')
    check(got.count('between') <= 5, f'{got.count("between")} operations of 5')
    ids = [(r['startRealtimeUSec'], r['thread'], r['totalNSec']) for r in client.rows(group.unit)]
    equal(len(set(ids)), len(ids), 'distinct operations')
    client.interrupt()
    equal(client.errors, [WENT_AWAY], 'messages')


class Bus:
    """A system bus of the test's own, and an ssh that ends up there."""

    def __init__(self, t):
        if not shutil.which('dbus-daemon') or not shutil.which('systemd-stdio-bridge'):
            skip('no dbus-daemon or no systemd-stdio-bridge')
        directory = t.directory('bus')
        self.socket, config, ssh = directory / 'socket', directory / 'conf', directory / 'ssh'
        config.write_text(BUS_CONFIG.format(path=self.socket))
        ssh.write_text(f'#!/bin/sh\nexec systemd-stdio-bridge --bus-path=unix:path={self.socket}\n')
        ssh.chmod(0o755)
        self.process = start('dbus-daemon', f'--config-file={config}', '--nofork', stderr=subprocess.DEVNULL)
        t.defer(stop, self.process)
        wait_for(self.socket.exists, what='bus')
        self.env = {'DBUS_SYSTEM_BUS_ADDRESS': f'unix:path={self.socket}',
                    'PATH': f'{directory}:{os.environ["PATH"]}'}


def test_over_the_bus_of_a_host(t):
    """There the bus stays when the daemon goes. Without the bus there is no waiting."""
    bus, group = Bus(t), t.enter(cgroup('a.service'))
    d = t.enter(daemon(t, env=HURRY | bus.env, started=False))
    d.args = lambda: [a for a in type(d).args(d) if a != '--no-bus']
    d.start()
    process = hang(t, group, 6)
    wait_for(lambda: d.json('stalls'), what='stall')
    client = Client(t, 'stalls', '--follow', '--json=short', env=bus.env, place=['-H', 'host'])
    wait_for(lambda: client.states(group.unit) == ['in-progress'], what='stall in progress')
    d.kill9()
    client.went_away()
    d.start()
    finish(process)
    wait_for(lambda: client.states(group.unit) == ['in-progress', 'done'], what='end')
    equal(client.errors, [WENT_AWAY], 'messages')
    stop(bus.process)
    equal(client.process.wait(10), 1, 'exit code without a bus')
    wait_for(lambda: client.errors[1:] == ['The connection has ended.\n'], what='message')


if __name__ == '__main__':
    harness.main()
