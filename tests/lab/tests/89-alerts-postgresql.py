#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: container-trixie vm-sid
# timeout: 600
# long
"""PostgreSQL on a disk that is slow to flush, beside a unit that creates many files: what systemctl status and journalctl
show of PostgreSQL says that its commit has waited, where, and because of whom; once, and not without end."""

import json
import pathlib
import time

import disks
import lab
import measure
import postgresql
from harness import check, diagnose, equal, run, wait_for

UNITS = pathlib.Path('/run/systemd/system')
STALL, IN_PROGRESS, SUPPRESSED = ('20ecc9e4164647f982cc2c2a1d527d07', '75c6faa4e60c476c977de7c0d73c9db5',
                                  'd4ee86c89bce4d2fafc56d7a2e4dfe1e')
THRESHOLD_MSEC = 250
# A commit may flush twice. It takes less than the threshold that holds without a drop-in, which is a second.
FLUSH_MSEC = 300
STORM_SEC = 15
NOTICE_SEC = 2
INTERVAL_SEC = 30  # AlertIntervalSec=, and AlertBurst=
BURST = 5
LOADER = '''
import os, sys, time
n = 0
while True:
    directory = f'{sys.argv[1]}/{n}'
    os.mkdir(directory)
    for i in range(200):
        os.close(os.open(f'{directory}/{i}', os.O_CREAT | os.O_WRONLY))
    if n >= 10:
        os.system(f'rm -r {sys.argv[1]}/{n - 10}')
    n += 1
    time.sleep(0.02)
'''


class Rig(lab.Rig):
    def __init__(self, t):
        super().__init__(t)
        self.disk = t.enter(disks.slow_flush())
        self.mount_point = t.enter(disks.mounted(self.disk))
        self.cluster = postgresql.Cluster(self.mount_point)
        self.unit = lab.unit_name('postgresql')
        self.make_unit(t)
        # fsync and not fdatasync: its time stamps, too, and with them the journal.
        run('systemctl', 'start', self.unit)
        t.defer(run, 'systemctl', 'stop', self.unit)
        self.cluster.wait()
        self.cluster.sql('CREATE TABLE t (n integer); CHECKPOINT')

    def make_unit(self, t):
        directory = UNITS / f'{self.unit}.d'
        command = ' '.join(self.cluster.command('wal_sync_method=fsync', 'checkpoint_timeout=1h'))
        (UNITS / self.unit).write_text(f'[Service]\nType=notify\nUser=postgres\nExecStart={command}\n')
        directory.mkdir()
        (directory / '50-iolat.conf').write_text(f'[X-Iolat]\nFsyncAlertSec={THRESHOLD_MSEC}ms\n')
        t.defer(run, 'systemctl', 'daemon-reload')
        t.defer(run, 'rm', '-r', directory, UNITS / self.unit)
        run('systemctl', 'daemon-reload')
        time.sleep(4)  # it reads the unit files a second after systemd did

    def start_loader(self, t):
        unit = lab.unit_name('loader')
        directory = self.mount_point / unit
        directory.mkdir()
        t.defer(lab.Unit(unit, 'python3', '-c', LOADER, directory).stop)
        wait_for((directory / '12').exists, 60, 'files of the loader')
        return unit

    def entries(self, since, *message_ids):
        """What iolatd has written into the journal of PostgreSQL since then."""
        out = run('journalctl', '--no-pager', '-q', '-b', '-u', self.unit, '-o', 'json').stdout
        return [e for e in map(json.loads, out.splitlines())
                if e.get('MESSAGE_ID') in message_ids and int(e['__REALTIME_TIMESTAMP']) >= since * 1e6]

    def stalls(self, since):
        """Those of PostgreSQL that are long enough."""
        return [s for s in lab.query('stalls', self.unit, '-n', '1000')
                if s['startRealtimeUSec'] >= since * 1e6 and s['state'] == 'done' and
                s['totalNSec'] >= THRESHOLD_MSEC * measure.MSEC]


setup = Rig


def test_slow_commit(t):
    rig = t.rig
    loader = rig.start_loader(t)
    rig.disk.delay(FLUSH_MSEC)
    began = time.time()
    try:
        rig.cluster.sql('INSERT INTO t VALUES (1)')
        ended = time.time()
    finally:
        rig.disk.delay(0)
    first = wait_for(lambda: rig.entries(began, STALL), 20, 'an entry in the journal of the unit')[0]
    after = int(first['__REALTIME_TIMESTAMP']) / 1e6 - ended
    diagnose(f'{after:.3f} s after the end of a commit that took {ended - began:.3f} s: {first["MESSAGE"]}')
    check(after < NOTICE_SEC, f'told only after {after:.1f} s')
    equal((first['IOLAT_OP'], first['IOLAT_PHASE'], first.get('IOLAT_CULPRIT')), ('fsync', 'journal', loader),
          f'what is said: {first}')
    check(int(first['IOLAT_CULPRIT_SHARE']) >= 50, f'share: {first["IOLAT_CULPRIT_SHARE"]}')
    total, journal = int(first['IOLAT_TOTAL_USEC']), int(first['IOLAT_PHASE_JOURNAL_USEC'])
    check(FLUSH_MSEC * 1000 <= total <= (ended - began) * 1e6, f'took {total} us, with the client {ended - began} s')
    check(journal >= 0.9 * total, f'{journal} of {total} us waiting for the journal')

    # Once each, also a while later.
    time.sleep(3)
    stalls = rig.stalls(began)
    found, hanging = rig.entries(began, STALL), rig.entries(began, IN_PROGRESS)
    equal([e['IOLAT_TOTAL_USEC'] for e in found], [str(s['totalNSec'] // 1000) for s in stalls], 'stalls in the journal')
    check(len(hanging) <= len(stalls), f'{len(hanging)} entries about {len(stalls)} stalls while they lasted')

    status = run('systemctl', 'status', '--no-pager', '--full', rig.unit).stdout
    diagnose(status)
    check(f'because of {loader}' in status, 'systemctl status does not show it')
    explained = run('journalctl', '--no-pager', '-q', '-b', '-x', '-u', rig.unit).stdout
    check(f'{rig.unit} waited {total} us for storage' in explained and 'to a filesystem of its own' in explained,
          f'no explanation in the catalog: {explained[-3000:]}')


def test_storm(t):
    rig = t.rig
    time.sleep(INTERVAL_SEC)  # so that those before have no part in it
    began = time.time()
    rig.disk.delay(FLUSH_MSEC)
    script = t.directory(parent='/run/iolat-lab') / 'script'
    script.write_text('INSERT INTO t VALUES (1);\n')
    for path in (script, script.parent, script.parent.parent):
        path.chmod(0o755)
    try:
        rig.cluster.call('pgbench', '-n', '-h', rig.cluster.sockets, '-c', '4', '-T', STORM_SEC, '-f', script, 'postgres')
    finally:
        rig.disk.delay(0)
    stalls = rig.stalls(began)
    check(len(stalls) > 3 * BURST, f'{len(stalls)} stalls are no storm')
    wait_for(lambda: rig.entries(began, SUPPRESSED), INTERVAL_SEC + 10, 'an entry about those that were left out')
    time.sleep(2)
    seconds = time.time() - began
    single = rig.entries(began, STALL, IN_PROGRESS)
    left_out = rig.entries(began, SUPPRESSED)
    counted = sum(int(e['IOLAT_SUPPRESSED']) for e in left_out)
    diagnose(f'{len(stalls)} stalls in {seconds:.0f} s: {len(single)} entries, {counted} left out: '
             f'{left_out[0]["MESSAGE"]}')
    check(BURST <= len(single) <= BURST + BURST * seconds / INTERVAL_SEC + 1, f'{len(single)} single entries')
    check(len(left_out) <= seconds / INTERVAL_SEC + 1, f'{len(left_out)} entries about those that were left out')
    check(len(stalls) <= len(single) + counted, f'{len(single)} entries and {counted} left out of {len(stalls)}')


if __name__ == '__main__':
    lab.main()
