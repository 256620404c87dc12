# SPDX-License-Identifier: LGPL-2.1-or-later
"""An operation that took too long becomes an entry in the journal, under its unit."""

import json
import os
import pathlib
import signal
import subprocess
import time

import harness
from bus import Bus
from harness import cgroup_root, check, equal, remove_cgroup, run, skip, start, stop, wait_for
from product import daemon
from rig import Cgroup, cgroup, ext4, finish, slow_ext4, start_workload, unit_name, workload

JOURNALD = pathlib.Path('/lib/systemd/systemd-journald')
CONFIG = '[Stall]\nFsyncRecordSec=50ms\nFsyncAlertSec=150ms\nAlertBurst=100\n'
MESSAGE_ID_STALL = '20ecc9e4164647f982cc2c2a1d527d07'
MESSAGE_ID_SUPPRESSED = 'd4ee86c89bce4d2fafc56d7a2e4dfe1e'
MESSAGE_ID_SYNC_FAILED = 'a198b927c2bb4594bfbe424a97d84cc2'


class Journal:
    """A journald of our own: /run and /var/log are hidden by empty file systems in the test's mount namespace."""

    def __init__(self, t):
        if not JOURNALD.exists():
            skip('no systemd-journald')
        for path in ('/run', '/var/log'):
            run('mount', '-t', 'tmpfs', 'tmpfs', path)
            t.defer(run, 'umount', '-l', path)
        os.makedirs('/run/systemd/journal')
        if not os.path.exists('/etc/machine-id') or not pathlib.Path('/etc/machine-id').read_text().strip():
            machine_id = pathlib.Path('/run/machine-id')
            machine_id.write_text('0123456789abcdef0123456789abcdef\n')
            if not os.path.exists('/etc/machine-id'):
                skip('no /etc/machine-id')
            run('mount', '--bind', machine_id, '/etc/machine-id')
            t.defer(run, 'umount', '-l', '/etc/machine-id')
        self.process = start(JOURNALD, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        t.defer(stop, self.process)
        wait_for(lambda: os.path.exists('/run/systemd/journal/socket'), what='socket of journald')

    def entries(self, *args):
        run('journalctl', '--sync', check=False)
        r = run('journalctl', '--quiet', '--no-pager', '--output=json', *args, check=False)
        return [json.loads(line) for line in r.stdout.splitlines()]


class Rig:
    def __init__(self, t):
        self.journal = Journal(t)
        self.daemon = t.enter(daemon(t, config=CONFIG))


def setup(t):
    return Rig(t)


def delayed(t, disk, count, **delay):
    group = t.enter(cgroup('a.service'))
    process = start_workload('fsync', disk.path('file'), group, count=count, write=4096, ignore_errors=True,
                             barrier=True)
    check(process.stdout.readline() == 'ready\n', 'the workload is not ready')
    disk.delay(**delay)
    process.stdin.write('\n')
    process.stdin.flush()
    seen = finish(process)
    disk.delay()
    return group.unit, seen


def alerts(t, unit):
    return [e for e in t.rig.journal.entries('-u', unit) if 'MESSAGE_ID' in e]


def test_slow_fsync(t):
    disk = t.enter(slow_ext4())
    unit, seen = delayed(t, disk, 1, fsync=200)
    check(seen['minNSec'] > 200 * 10**6, f'the delay did not work: {seen}')
    entries = wait_for(lambda: entries_of(t, unit, MESSAGE_ID_STALL), what=f'alert in journalctl -u {unit}')
    equal(len(entries), 1, 'entries')
    e = entries[0]
    print('# ' + json.dumps({k: v for k, v in e.items() if not k.startswith('_')}), flush=True)
    equal(e['OBJECT_SYSTEMD_UNIT'], unit, 'OBJECT_SYSTEMD_UNIT')
    equal(e['MESSAGE_ID'], MESSAGE_ID_STALL, 'MESSAGE_ID')
    check('fsync' in e['MESSAGE'], f'MESSAGE: {e["MESSAGE"]}')
    equal(e['SYSLOG_IDENTIFIER'], 'iolatd', 'SYSLOG_IDENTIFIER')
    check('PRIORITY' in e, 'no PRIORITY')
    own = {k: v for k, v in e.items() if k.startswith('IOLAT_')}
    equal(own.get('IOLAT_OP'), 'fsync', 'IOLAT_OP')
    equal(own.get('IOLAT_DEVICE'), disk.device, 'IOLAT_DEVICE')
    equal(own.get('IOLAT_MOUNT_POINT'), str(disk.mount_point), 'IOLAT_MOUNT_POINT')
    equal(own.get('IOLAT_PHASE'), 'journal', 'IOLAT_PHASE')
    total = int(own['IOLAT_TOTAL_USEC'])
    check(200 * 10**3 <= total <= seen['maxNSec'] / 1000, f'{total} us, the caller saw {seen["maxNSec"]} ns')
    parts = sum(int(v) for k, v in own.items() if k.startswith('IOLAT_PHASE_') and 'RUNQUEUE' not in k)
    check(abs(parts - total) <= 20, f'the phases sum to {parts} us of {total}')


def test_failed_fsync(t):
    """A failed fsync is an entry of its own kind, however fast it was."""
    disk = t.enter(slow_ext4())
    unit, seen = delayed(t, disk, 1, error=5)
    equal(seen['errors'], 1, 'fsyncs that failed')
    entries = wait_for(lambda: alerts(t, unit), what=f'entry in journalctl -u {unit}')
    equal(entries[0]['MESSAGE_ID'], MESSAGE_ID_SYNC_FAILED, 'MESSAGE_ID')
    equal(entries[0].get('IOLAT_ERROR'), 'EIO', 'IOLAT_ERROR')


def test_fast_fsyncs_are_not_alerted(t):
    disk = t.enter(ext4())
    group = t.enter(cgroup('a.service'))
    workload('fsync', disk.path('file'), group, count=200, write=4096)
    t.rig.daemon.expect_counts(group.unit, {'fsync': 200})
    equal(alerts(t, group.unit), [], 'entries')


def test_alert_without_journald_is_no_harm(t):
    """The journal's socket does not take anything any more: iolatd goes on."""
    d = t.rig.daemon
    disk = t.enter(slow_ext4())
    run('mount', '-t', 'tmpfs', 'tmpfs', '/run/systemd/journal')
    try:
        unit, _ = delayed(t, disk, 1, fsync=200)
        d.expect_counts(unit, {'fsync': 1})
    finally:
        run('umount', '-l', '/run/systemd/journal')
    unit, _ = delayed(t, disk, 1, fsync=200)
    wait_for(lambda: alerts(t, unit), what='alert after journald is back')


def entries_of(t, unit, message_id):
    return [e for e in alerts(t, unit) if e['MESSAGE_ID'] == message_id]


def test_culprit(t):
    """Another unit has nearly all of the transaction."""
    disk = t.enter(slow_ext4())
    hog = t.enter(cgroup('hog.service'))
    wait_for_file(t, disk, hog)
    disk.sync()
    hog.run('sh', '-c', f'mkdir {disk.path("dir")} && cd {disk.path("dir")} && for i in $(seq 300); do : >$i; done')
    unit, _ = delayed(t, disk, 1, fsync=200)
    e = wait_for(lambda: entries_of(t, unit, MESSAGE_ID_STALL), what=f'alert in journalctl -u {unit}')[0]
    equal((e['IOLAT_PHASE'], e.get('IOLAT_CULPRIT')), ('journal', hog.unit), f'phase and culprit of {e}')
    check(50 <= int(e['IOLAT_CULPRIT_SHARE']) <= 100, f'share: {e["IOLAT_CULPRIT_SHARE"]}')
    check(e['MESSAGE'].endswith(f', mostly because of {hog.unit}.'), f'MESSAGE: {e["MESSAGE"]}')
    equal(e['PRIORITY'], '4', 'PRIORITY')
    check(any(k.startswith('IOLAT_STEP_') for k in e), f'no step: {e}')

    # Alone it is its own culprit, which is not said.
    disk.sync()
    unit, _ = delayed(t, disk, 1, fsync=200)
    e = wait_for(lambda: entries_of(t, unit, MESSAGE_ID_STALL), what=f'alert in journalctl -u {unit}')[0]
    check('because' not in e['MESSAGE'], f'MESSAGE: {e["MESSAGE"]}')
    equal(e.get('IOLAT_CULPRIT'), unit, f'culprit of {e}')


def wait_for_file(t, disk, group):
    """The unit has a file, and is known."""
    group.run('dd', 'if=/dev/zero', f'of={disk.path("hog")}', 'bs=4096', 'count=1', 'conv=fsync')
    t.rig.daemon.expect_counts(group.unit, {'fsync': 1})


def test_failed_fsync_priority(t):
    disk = t.enter(slow_ext4())
    unit, _ = delayed(t, disk, 1, error=5)
    e = wait_for(lambda: alerts(t, unit), what=f'entry in journalctl -u {unit}')[0]
    equal(e['PRIORITY'], '3', 'PRIORITY')


def other_daemon(t, config, units=None):
    """One with another configuration; the alerts of the one that all share are about longer stalls."""
    path = t.directory('units')
    for name, text in (units or {}).items():
        (path / name).write_text(text)
    quiet = t.rig.daemon
    quiet.config.write_text('[Stall]\nFsyncAlertSec=1h\n')
    quiet.process.send_signal(signal.SIGHUP)
    d = t.enter(daemon(t, config=config, env={'IOLAT_TEST_UNIT_PATH': str(path)}))

    def back():
        quiet.config.write_text(CONFIG)
        quiet.process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
    t.defer(back)
    return d


def test_what_was_left_out(t):
    other_daemon(t, '[Stall]\nFsyncRecordSec=10ms\nFsyncAlertSec=20ms\nAlertBurst=2\nAlertIntervalSec=4s\n')
    disk = t.enter(slow_ext4())
    unit, seen = delayed(t, disk, 12, fsync=30)
    found = wait_for(lambda: entries_of(t, unit, MESSAGE_ID_SUPPRESSED), 8, 'entry about those that were left out')
    sent = [e for e in alerts(t, unit) if e['MESSAGE_ID'] != MESSAGE_ID_SUPPRESSED]
    check(2 <= len(sent) <= 4, f'{len(sent)} alerts')
    total = len(sent) + sum(int(e['IOLAT_SUPPRESSED']) for e in found)
    check(12 <= total <= 15, f'{total} alerts, with those left out')  # some also while they lasted
    print('# ' + found[0]['MESSAGE'], flush=True)
    worst = int(found[0]['IOLAT_TOTAL_USEC'])
    check(30_000 <= worst <= seen['maxNSec'] / 1000, f'worst: {worst} us')
    equal([found[0][k] for k in ('IOLAT_OP', 'PRIORITY', 'IOLAT_SUPPRESSED_FAILED')], ['fsync', '4', '0'], 'entry')
    equal(found[0]['OBJECT_SYSTEMD_UNIT'], unit, 'unit')

    # A sync that fails is told of all the same.
    unit, _ = delayed(t, disk, 6, fsync=30, error=5)
    wait_for(lambda: entries_of(t, unit, MESSAGE_ID_SYNC_FAILED), what='failed sync')


def test_unit_without_alerts(t):
    """Alert=no, and a threshold of its own; recorded all the same."""
    group, loud = t.enter(cgroup('quiet.service')), t.enter(cgroup('loud.service'))
    d = other_daemon(t, '[Stall]\nFsyncAlertSec=1h\n', {
        group.unit: '[X-Iolat]\nAlert=no\nFsyncRecordSec=20ms\nFsyncAlertSec=20ms\n',
        loud.unit: '[X-Iolat]\nFsyncAlertSec=20ms\n'})
    disk = t.enter(slow_ext4())
    time.sleep(0.5)
    disk.delay(fsync=50)
    for g in group, loud:
        workload('fsync', disk.path('file'), g, count=1, write=4096)
    disk.delay()
    wait_for(lambda: alerts(t, loud.unit), what='alert')
    equal(alerts(t, group.unit), [], 'alerts')
    check(any(s['unit'] == group.unit for s in d.json('stalls')), 'no record')


def test_ended_while_no_daemon_was_there(t):
    """It is alerted later, but not for a unit that wants no alerts, although that has to be read first."""
    group, loud = t.enter(cgroup('quiet.service')), t.enter(cgroup('loud.service'))
    d = other_daemon(t, '[Stall]\nFsyncRecordSec=50ms\nFsyncAlertSec=100ms\n',
                     {group.unit: '[X-Iolat]\nAlert=no\n'})
    disk = t.enter(slow_ext4())
    d.kill9()
    disk.delay(fsync=200)
    for g in group, loud:
        workload('fsync', disk.path('file'), g, count=1, write=4096)
    disk.delay()
    d.start()
    entries = wait_for(lambda: alerts(t, loud.unit), what='alert')
    equal([e['MESSAGE_ID'] for e in entries], [MESSAGE_ID_STALL], 'alerts')
    equal(alerts(t, group.unit), [], 'alerts of the other unit')
    check(any(s['unit'] == group.unit for s in d.json('stalls')), 'no record')


def test_journal_itself_is_not_alerted(t):
    disk, root = t.enter(slow_ext4()), cgroup_root()
    for name in 'systemd-journald.service', 'iolatd.service':
        path = root / f'{unit_name("x")}.slice' / name
        path.mkdir(parents=True)
        t.defer(path.parent.rmdir)
        t.defer(remove_cgroup, path)
        disk.delay(fsync=200)
        workload('fsync', disk.path('file'), Cgroup(path, name), count=1, write=4096)
        disk.delay()
        wait_for(lambda: any(s['unit'] == name for s in t.rig.daemon.json('stalls')), what='record')
    time.sleep(0.2)
    for name in 'systemd-journald.service', 'iolatd.service':
        equal(alerts(t, name), [], 'alerts')


def test_journald_that_does_not_read(t):
    """The daemon answers, and each alert is in the journal or counted as dropped."""
    group = t.enter(cgroup('a.service'))
    d = other_daemon(t, '[Stall]\nFsyncAlertSec=1h\nWriteAlertSec=1h\nAlertBurst=1000\nAlertIntervalSec=1s\n',
                     {group.unit: '[X-Iolat]\nWriteAlertSec=1us\n'})
    disk, bus = t.enter(ext4()), Bus(d.socket)
    t.defer(bus.close)

    def alerted():
        workload('dread', disk.path('file'), group, count=1, block=4096, prepare='1M')
        return alerts(t, group.unit)
    wait_for(alerted, what='alert')
    time.sleep(0.2)
    before, waits = len(alerts(t, group.unit)), all_waits(d, group.unit)

    os.kill(t.rig.journal.process.pid, signal.SIGSTOP)
    t.defer(os.kill, t.rig.journal.process.pid, signal.SIGCONT)
    process = start_workload('dread', disk.path('file'), group, count=3000, rate=700, block=4096)
    longest = 0
    while process.poll() is None:
        began = time.monotonic()
        bus.call('List', 'asasastu', [], [], [], 0, 100)
        longest = max(longest, time.monotonic() - began)
        time.sleep(0.02)
    finish(process)
    time.sleep(0.2)
    count = all_waits(d, group.unit) - waits
    check(count >= 3000, f'only {count} operations')
    check(longest < 0.1, f'a query took {longest * 1000:.0f} ms')
    dropped = d.losses().get('alert-dropped', 0)
    check(dropped > count / 2, f'only {dropped} dropped')
    os.kill(t.rig.journal.process.pid, signal.SIGCONT)
    found = wait_for(lambda: entries_of(t, group.unit, MESSAGE_ID_SUPPRESSED), 10, 'entry about what was left out')
    sent = len(alerts(t, group.unit)) - len(found) - before
    lost = d.losses().get('stall-ring-full', 0)
    print(f'# {sent} of {count} alerts were taken, {dropped} dropped; a query took {longest * 1000:.0f} ms', flush=True)
    twice = sent + dropped + lost - count  # also announced while they lasted, because a tick came upon them
    check(0 <= twice <= 20, f'{sent} alerts in the journal, {dropped} dropped, {lost} lost of {count}')
    equal(sum(int(e['IOLAT_SUPPRESSED']) for e in found), dropped, 'alerts told of as left out')


def all_waits(d, unit):
    """What is no sync."""
    return sum(r['count'] for r in d.rows(unit, unit=unit, phase='total') if 'sync' not in r['op'])


if __name__ == '__main__':
    harness.main()
