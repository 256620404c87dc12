# SPDX-License-Identifier: LGPL-2.1-or-later
"""An operation that took too long becomes an entry in the journal, under its unit."""

import json
import os
import pathlib
import subprocess

import harness
from harness import check, equal, run, skip, start, stop, wait_for
from product import daemon
from rig import cgroup, ext4, finish, slow_ext4, start_workload, workload

JOURNALD = pathlib.Path('/lib/systemd/systemd-journald')
CONFIG = '[Stall]\nFsyncRecordSec=50ms\nFsyncAlertSec=150ms\nAlertBurst=100\n'
MESSAGE_ID_STALL = '20ecc9e4164647f982cc2c2a1d527d07'
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
        process = start(JOURNALD, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        t.defer(stop, process)
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
    process = start_workload('fsync', disk.path('file'), group, count=count, write=4096, ignore_errors=True, barrier=True)
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
    entries = wait_for(lambda: alerts(t, unit), what=f'alert in journalctl -u {unit}')
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


if __name__ == '__main__':
    harness.main()
