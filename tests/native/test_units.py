# SPDX-License-Identifier: LGPL-2.1-or-later
"""Thresholds that units set for themselves, in [X-Iolat] of their own files."""

import collections
import copy
import os
import pathlib
import shutil
import signal
import subprocess
import time

import harness
from bus import BUS_CONFIG, METHOD_CALL, SIGNAL, Bus
from harness import SHM, check, equal, skip, start, stop, wait_for
from product import daemon
from rig import SLOWFS, base_dir, cgroup, ext4, slow_fs, workload

READ_SEC = 5
QUERY_SEC = 0.1
CONFIG = '[Stall]\nFsyncRecordSec=1h\nFsyncAlertSec=1h\n'


class Rig:
    def __init__(self, t):
        self.dirs = [base_dir() / 'etc', base_dir() / 'usr']
        self.daemon = t.enter(daemon(t, config=CONFIG, env={'IOLAT_TEST_UNIT_PATH': ':'.join(map(str, self.dirs))}))
        self.disk = t.enter(ext4())
        self.bus = Bus(self.daemon.socket)
        t.defer(self.bus.close)
        self.done = collections.Counter()

    def write(self, name, text, directory=0):
        path = self.dirs[directory] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def reload(self):
        self.daemon.process.send_signal(signal.SIGHUP)

    def warnings(self):
        return [line for line in self.daemon.log.read_text().splitlines() if any(str(d) in line for d in self.dirs)]

    def stalls(self, unit):
        return [s for s in self.bus.call('ListStalls', 'tu', 0, 0)[0] if s['unit'] == unit]

    def syncs(self, group, count=1):
        workload('fsync', self.disk.path('file'), group, count=count, write=4096)
        self.done[group.unit] += count

    def makes_stalls(self, group):
        before = len(self.stalls(group.unit))
        self.syncs(group)
        time.sleep(0.05)
        return len(self.stalls(group.unit)) > before


def setup(t):
    return Rig(t)


def clean(t):
    """The unit files of a test go with it."""
    def remove():
        for directory in t.rig.dirs:
            for path in sorted(directory.rglob('*'), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
    t.defer(remove)


def test_of_one_unit_and_not_of_another(t):
    rig = t.rig
    clean(t)
    one, other = t.enter(cgroup('a.service')), t.enter(cgroup('b.service'))
    rig.write(f'{one.unit}.d/10.conf', '[Unit]\nDescription=x\n[X-Iolat]\nFsyncRecordSec=1us\n')
    rig.reload()
    wait_for(lambda: rig.makes_stalls(one), READ_SEC, 'stalls of the unit')
    check(not rig.makes_stalls(other), 'stalls of the other unit')
    equal(rig.warnings(), [], 'warnings')

    # In a file that hides that one: not any more. The other one by its main file.
    rig.dirs[1].mkdir(exist_ok=True)
    (rig.dirs[1] / f'{one.unit}.d').mkdir()
    os.rename(rig.dirs[0] / f'{one.unit}.d/10.conf', rig.dirs[1] / f'{one.unit}.d/10.conf')
    (rig.dirs[0] / f'{one.unit}.d/10.conf').symlink_to('/dev/null')
    rig.write(other.unit, '[Service]\nExecStart=/bin/true\n[X-Iolat]\nFsyncRecordSec=1us\n', 1)
    rig.reload()
    wait_for(lambda: rig.makes_stalls(other), READ_SEC, 'stalls of the other unit')
    check(not rig.makes_stalls(one), 'stalls of the unit')


def test_first_operation(t):
    """Also of a control group that has done nothing before."""
    rig = t.rig
    clean(t)
    group, known = t.enter(cgroup('quiet.service')), t.enter(cgroup('known.service'))
    for g in group, known:
        rig.write(g.unit, '[X-Iolat]\nFsyncRecordSec=1us\n')
    rig.reload()
    wait_for(lambda: rig.makes_stalls(known), READ_SEC, 'stalls')
    check(rig.makes_stalls(group), 'no stall at the first operation')


def test_template(t):
    rig = t.rig
    clean(t)
    group = t.enter(cgroup('a@x.service'))
    rig.write(group.unit.replace('@x.', '@.') + '.d/1.conf', '[X-Iolat]\nFsyncRecordSec=1us\n')
    rig.reload()
    wait_for(lambda: rig.makes_stalls(group), READ_SEC, 'stalls of the instance')


def test_bad_lines_warn_once(t):
    rig = t.rig
    clean(t)
    group = t.enter(cgroup('a.service'))
    path = rig.write(group.unit, '[Service]\nbad\n[X-Iolat]\nFsyncAlertSec=soon\nnothing\nFsyncRecordSec=1us\n')
    before = len(rig.warnings())
    rig.reload()
    wait_for(lambda: rig.makes_stalls(group), READ_SEC, 'stalls')
    found = rig.warnings()[before:]
    equal([line.partition(f'{path}:')[2] for line in found],
          ['4: FsyncAlertSec=soon is not a valid time span, ignoring.',
           '5: Neither a section header nor an assignment, ignoring.'], 'warnings')


def test_reload_loses_nothing(t):
    rig = t.rig
    clean(t)
    group = t.enter(cgroup('a.service'))
    rig.write(group.unit, '[X-Iolat]\nFsyncRecordSec=1us\n')
    rig.reload()
    wait_for(lambda: rig.makes_stalls(group), READ_SEC, 'stalls')
    before, since = len(rig.stalls(group.unit)), rig.done[group.unit]
    for _ in range(20):
        rig.reload()
        rig.syncs(group, 5)
    rig.daemon.expect_counts(group.unit, {'fsync': rig.done[group.unit]})
    equal(len(rig.stalls(group.unit)) - before, rig.done[group.unit] - since, 'stalls, while all was read again')


def test_set_back(t):
    rig = t.rig
    clean(t)
    group = t.enter(cgroup('a.service'))
    path = rig.write(group.unit, '[X-Iolat]\nFsyncRecordSec=1us\n')
    rig.reload()
    wait_for(lambda: rig.makes_stalls(group), READ_SEC, 'stalls')
    path.unlink()
    rig.reload()
    wait_for(lambda: not rig.makes_stalls(group), READ_SEC, 'no stalls')


def children(d):
    return pathlib.Path(f'/proc/{d.process.pid}/task/{d.process.pid}/children').read_text().split()


def test_disk_that_hangs(t):
    """The daemon answers, says so once, keeps what was read before, and reads again later."""
    if not SLOWFS.exists() or not os.path.exists('/dev/fuse'):
        skip('no slow file system')
    units, backing, control = base_dir() / 'units', t.directory('backing', parent=SHM), base_dir() / 'control-units'
    units.mkdir()
    (backing / 'image').write_text('[X-Iolat]\nFsyncRecordSec=1s\n')
    control.write_text('\n')
    front = t.enter(slow_fs(backing, control))
    d = t.enter(daemon(t, config=CONFIG, env={'IOLAT_TEST_UNIT_PATH': str(units), 'IOLAT_TEST_HURRY': '1'}))
    rig = copy.copy(t.rig)
    rig.dirs, rig.daemon, rig.bus = [units], d, Bus(d.socket)
    t.defer(rig.bus.close)
    group = t.enter(cgroup('a.service'))
    path = rig.write(group.unit, '[X-Iolat]\nFsyncRecordSec=1us\n')
    rig.reload()
    wait_for(lambda: rig.makes_stalls(group), READ_SEC, 'stalls')

    control.write_text('read=6000\n')
    t.defer(control.write_text, '\n')
    (units / 'slow.service').symlink_to(front / 'image')
    path.unlink()
    rig.reload()
    seen, longest, deadline = 0, 0, time.monotonic() + 5
    while time.monotonic() < deadline:
        seen += bool(children(d))
        began = time.monotonic()
        rig.bus.call('ListStalls', 'tu', 0, 1)
        longest = max(longest, time.monotonic() - began)
        time.sleep(0.01)
    check(seen > 10, 'no child was seen')
    check(longest < QUERY_SEC, f'a query took {longest * 1000:.0f} ms')
    check(rig.makes_stalls(group), 'what was read before does not count any more')
    wait_for(lambda: 'Cannot read the unit files' in d.log.read_text(), what='warning')
    control.write_text('\n')
    wait_for(lambda: not rig.makes_stalls(group), 20, 'what is in the files now')
    equal(d.log.read_text().count('Cannot read the unit files'), 1, 'warnings')


class FakeManager:
    """Has the service manager's name on a system bus of the test's own."""

    DBUS = {'interface': 'org.freedesktop.DBus', 'path': '/org/freedesktop/DBus', 'destination': 'org.freedesktop.DBus'}
    MANAGER = {'interface': 'org.freedesktop.systemd1.Manager', 'path': '/org/freedesktop/systemd1'}

    def __init__(self, t):
        directory = t.directory('bus')
        self.socket, config = directory / 'socket', directory / 'conf'
        config.write_text(BUS_CONFIG.format(path=self.socket))
        bus = start('dbus-daemon', f'--config-file={config}', '--nofork', stderr=subprocess.DEVNULL)
        t.defer(stop, bus)
        wait_for(self.socket.exists, what='bus')
        self.bus = Bus(self.socket, hello=True)
        t.defer(self.bus.close)

    def appear(self):
        equal(self.bus.call('RequestName', 'su', 'org.freedesktop.systemd1', 0, **self.DBUS), [1], 'name')

    def wait_for_call(self, member):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            message = self.bus.take_message(1)
            if message and message[0] == METHOD_CALL and message[1].get(3) == member:
                return
        check(False, f'nobody called {member}()')

    def reloading(self, active):
        self.bus.send_call('Reloading', 'b', active, kind=SIGNAL, **self.MANAGER)


def test_manager_reloads(t):
    """Without being told by anybody else."""
    if not shutil.which('dbus-daemon'):
        skip('no dbus-daemon')
    rig = copy.copy(t.rig)
    rig.dirs = [base_dir() / 'reloaded']
    manager = FakeManager(t)
    env = {'IOLAT_TEST_UNIT_PATH': str(rig.dirs[0]), 'DBUS_SYSTEM_BUS_ADDRESS': f'unix:path={manager.socket}'}
    d = rig.daemon = t.enter(daemon(t, config=CONFIG, env=env, started=False))
    usual = d.args()
    d.args = lambda: [a for a in usual if a != '--no-bus']
    d.start()
    rig.bus = Bus(d.socket)
    t.defer(rig.bus.close)
    group = t.enter(cgroup('a.service'))
    rig.syncs(group)
    time.sleep(1)
    manager.appear()  # only now, so that nobody was there who could be asked to tell
    manager.wait_for_call('Subscribe')
    path = rig.write(group.unit, '[X-Iolat]\nbad\nFsyncRecordSec=1us\n')
    manager.reloading(True)
    time.sleep(2)
    check(not rig.makes_stalls(group), 'the files were read although nothing was reloaded')
    for _ in range(3):
        manager.reloading(False)
    wait_for(lambda: rig.makes_stalls(group), READ_SEC, 'stalls')
    manager.reloading(False)
    time.sleep(2)
    equal([line.partition(f'{path}:')[1] for line in rig.warnings()].count(f'{path}:'), 1, 'warnings')
    path.unlink()
    manager.reloading(False)
    wait_for(lambda: not rig.makes_stalls(group), READ_SEC, 'no stalls')


if __name__ == '__main__':
    harness.main()
