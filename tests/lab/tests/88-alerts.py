#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-* container-*
# timeout: 200
"""A threshold in [X-Iolat] of a unit's drop-in, and the entries in the journal of the unit that waited; the exporter, as
systemd starts it."""

import json
import pathlib
import time
import urllib.request

import disks
import lab
from harness import check, diagnose, equal, run, wait_for

UNITS = pathlib.Path('/run/systemd/system')
PORT = 10482

setup = lab.Rig


def make_unit(t, name, command, settings):
    """A unit file with a drop-in, as an administrator writes them."""
    unit, directory = UNITS / name, UNITS / f'{name}.d'
    unit.write_text(f'[Service]\nExecStart={" ".join(map(str, command))}\n')
    t.defer(unit.unlink)
    if settings:
        directory.mkdir()
        (directory / '50-iolat.conf').write_text('[X-Iolat]\n' + '\n'.join(settings) + '\n')
        t.defer(run, 'rm', '-r', directory)
    t.defer(run, 'systemctl', 'daemon-reload')


def entries(unit):
    """What is in the journal about the unit, from iolatd."""
    out = run('journalctl', '--no-pager', '-q', '-b', '-u', unit, '-o', 'json').stdout
    return [e for e in map(json.loads, out.splitlines()) if e.get('SYSLOG_IDENTIFIER') == 'iolatd']


def test_thresholds_of_a_unit(t):
    disk = t.enter(disks.virtio() if lab.IS_VM else disks.loop())
    mount_point = t.enter(disks.mounted(disk))
    low, general = lab.unit_name('low'), lab.unit_name('general')
    for name, settings in ((low, ['FsyncAlertSec=1us', 'FsyncRecordSec=1us', 'Nonsense=1']), (general, [])):
        make_unit(t, name, ['/usr/bin/iolat-workload', '--count=40', '--rate=20', '--write=4096', 'fsync',
                            mount_point / name], settings)
    run('systemctl', 'daemon-reload')
    time.sleep(4)  # it reads the unit files a second after systemd did
    began = time.monotonic()
    run('systemctl', 'start', low, general)
    first = wait_for(lambda: entries(low), 20, 'an entry in the journal of the unit')[0]
    diagnose(f'after {time.monotonic() - began:.1f} s: {first}')
    check(first['IOLAT_OP'] == 'fsync' and 'fsync' in first['MESSAGE'], f'says something else: {first}')
    check(first['PRIORITY'] in '45', f'priority: {first}')
    wait_for(lambda: run('systemctl', 'is-active', low, general, check=False).stdout.count('inactive') == 2, 30, 'end')
    time.sleep(1)
    n = len(entries(low))
    check(1 <= n < 40, f'{n} entries for 40 calls are not limited')
    equal(entries(general), [], 'entries of a unit with the general threshold')
    check('fsync' in run('systemctl', 'status', low, check=False).stdout, 'systemctl status does not show it')
    explained = run('journalctl', '--no-pager', '-q', '-b', '-x', '-u', low).stdout
    check('░░' in explained or '-- ' in explained, 'no explanation in the catalog')
    warnings = run('journalctl', '--no-pager', '-q', '-b', '-u', 'iolatd').stdout.count('Nonsense')
    equal(warnings, 1, 'warnings of a line that is wrong')
    run('systemctl', 'service-log-level', 'iolatd', 'debug')
    equal(run('systemctl', 'service-log-level', 'iolatd').stdout.strip(), 'debug', 'log level')
    run('systemctl', 'service-log-level', 'iolatd', 'info')


def test_exporter(t):
    run('systemctl', 'start', 'iolat-exporter.socket')
    t.defer(run, 'systemctl', 'stop', 'iolat-exporter.socket', 'iolat-exporter.service')
    with urllib.request.urlopen(f'http://127.0.0.1:{PORT}/metrics', timeout=30) as r:
        text = r.read().decode()
    check('iolat_build_info' in text and 'iolat_operation_seconds_bucket' in text, f'no metrics: {text[:500]}')
    shown = run('systemctl', 'show', 'iolat-exporter.service', '--property=DynamicUser,ActiveState,UID').stdout
    check('DynamicUser=yes' in shown and 'ActiveState=active' in shown, f'not as its unit says: {shown}')
    for unit, limit in (('iolatd', 1.0), ('iolat-exporter', 1.0), ('iolat-probes', 1.5), ('iolat-probes@ext4', 1.5),
                        ('iolat-calibrate', 1.2)):
        out = run('systemd-analyze', 'security', '--no-pager', f'{unit}.service', check=False).stdout
        exposure = float(out.rstrip().splitlines()[-1].rpartition(': ')[2].split()[0])
        diagnose(f'{unit}: exposure {exposure}')
        check(exposure <= limit, f'exposure of {unit} is {exposure}')


if __name__ == '__main__':
    lab.main()
