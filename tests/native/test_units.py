# SPDX-License-Identifier: LGPL-2.1-or-later
"""Thresholds that units set for themselves, in [X-Iolat] of their own files."""

import os
import pathlib
import signal
import time

import harness
from bus import Bus
from harness import check, equal, wait_for
from product import daemon
from rig import base_dir, cgroup, ext4, workload

READ_SEC = 5
CONFIG = '[Stall]\nFsyncRecordSec=1h\nFsyncAlertSec=1h\n'


class Rig:
    def __init__(self, t):
        self.dirs = [base_dir() / 'etc', base_dir() / 'usr']
        self.daemon = t.enter(daemon(t, config=CONFIG, env={'IOLAT_TEST_UNIT_PATH': ':'.join(map(str, self.dirs))}))
        self.disk = t.enter(ext4())
        self.bus = Bus(self.daemon.socket)
        t.defer(self.bus.close)

    def write(self, name, text, directory=0):
        path = self.dirs[directory] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def reload(self):
        self.daemon.process.send_signal(signal.SIGHUP)

    def warnings(self):
        return [line for line in self.daemon.log.read_text().splitlines() if str(base_dir()) in line]

    def stalls(self, unit):
        return [s for s in self.bus.call('ListStalls', 'tu', 0, 0)[0] if s['unit'] == unit]

    def syncs(self, group, count=1):
        workload('fsync', self.disk.path('file'), group, count=count, write=4096)

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
    before = len(rig.stalls(group.unit))
    count, since = 0, rig.daemon.counts(group.unit)['fsync']
    for n in range(20):
        rig.reload()
        rig.syncs(group, 5)
        count += 5
    rig.daemon.expect_counts(group.unit, {'fsync': since + count})
    equal(len(rig.stalls(group.unit)) - before, count, 'stalls, while all was read again and again')


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


def test_directory_that_hangs(t):
    """The daemon answers, and what was read before stays. A FUSE file system stands for the disk."""
    rig = t.rig
    clean(t)
    group = t.enter(cgroup('a.service'))
    rig.write(group.unit, '[X-Iolat]\nFsyncRecordSec=1us\n')
    rig.reload()
    wait_for(lambda: rig.makes_stalls(group), READ_SEC, 'stalls')
    child = pathlib.Path(f'/proc/{rig.daemon.process.pid}/task/{rig.daemon.process.pid}/children')
    # Many large files take a while to read; meanwhile everything goes on.
    for n in range(300):
        rig.write(f'big{n}.service', '# ' + 'x' * (1 << 19) + '\n[X-Iolat]\nFsyncRecordSec=1s\n')
    rig.reload()
    seen, longest, deadline = 0, 0, time.monotonic() + 2
    while time.monotonic() < deadline:
        seen += bool(child.read_text().strip())
        began = time.monotonic()
        rig.daemon.bus_call = rig.bus.call('ListStalls', 'tu', 0, 1)
        longest = max(longest, time.monotonic() - began)
    check(seen > 0, 'no child was seen')
    check(longest < 0.1, f'a query took {longest * 1000:.0f} ms')
    check(rig.makes_stalls(group), 'no stalls any more')


if __name__ == '__main__':
    harness.main()
