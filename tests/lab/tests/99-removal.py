#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: all
# timeout: 400
"""What is there after iolat was installed, enabled, started, restarted, upgraded, stopped, disabled and removed, and
what is not: pins, programs and maps, files, sockets, users. The last test, for iolat is away meanwhile."""

import pathlib
import shutil
import tarfile
import time
import urllib.request

import disks
import lab
import pins
from harness import check, diagnose, equal, run, wait_for

SYSTEM_DIRS = ('/etc', '/run', '/usr', '/var', '/tmp', '/dev/shm', '/sys/fs/bpf')
STATE = pathlib.Path('/var/lib/iolat')
PAYLOAD = next(p for p in (pathlib.Path('/iolat-lab.tar'), pathlib.Path('/dev/vdb')) if p.exists())
PROBES = '/usr/lib/iolat/iolat-probes'


class Rig:
    def __init__(self, t):
        t.reports.append(lambda: run('journalctl', '--no-pager', '-q', '-b', '-n', '40', '-u', 'iolat*').stdout)
        with tarfile.open(PAYLOAD) as archive:
            names = ['/' + m.name.removeprefix('./') for m in archive if not m.isdir()]
        self.files = [pathlib.Path(n) for n in names if not is_of_the_lab(n)]
        t.defer(install)
        if not pathlib.Path(PROBES).exists():  # of an attempt that was broken off
            install()


setup = Rig


def is_of_the_lab(name):
    words = ('/iolat-lab', ':iolat-lab', '/iolat-test-', '/iolat-workload', '/iolat-slowfs')
    return any(word in name for word in words)


def install():
    """As a package does it, and the administrator then enables it."""
    run('tar', '-x', '-C', '/', '-f', PAYLOAD)
    tell_the_system()
    run('systemctl', '--quiet', 'enable', '--now', 'iolatd.service')


def tell_the_system():
    run('systemctl', 'daemon-reload')
    run('systemctl', 'reload', 'dbus.service')
    run('journalctl', '--update-catalog')
    if lab.IS_VM:
        run('udevadm', 'control', '--reload')


def traces(rig):
    """Files whose names are iolat's, but for those that were installed, the configuration, which is made by others than
    iolat, and what belongs to these tests."""
    installed = set(map(str, rig.files))
    found = set()
    for top in SYSTEM_DIRS:
        out = run('find', top, '-xdev', '(', '-path', '/usr/lib/iolat-lab', '-o', '-path', '/run/iolat-lab', '-o',
                  '-path', '/etc/iolat', ')', '-prune', '-o', '-iname', '*iolat*', '-print', check=False).stdout
        found |= {n for n in out.splitlines() if not is_of_the_lab(n) and n not in installed}
    # Directories of what was installed.
    return found - {str(p) for f in rig.files for p in f.parents}


def state(unit):
    return run('systemctl', 'show', '--value', '--property=ActiveState', unit).stdout.strip()


def wait_for_end(*units):
    wait_for(lambda: all(state(u) == 'inactive' for u in units), 30, f'end of {units}')


def wait_for_their_end(objects):
    try:
        wait_for(lambda: not pins.present(objects), 20)
    except AssertionError:
        check(False, f'still there: {pins.describe(pins.present(objects))}')


def test_life(t):
    run('systemctl', 'start', 'iolatd.service')
    wait_for(lambda: run('iolatctl', 'probes', check=False).returncode == 0, 30, 'an answer of iolatd')
    loaded = pins.pinned()
    kinds = {kind for kind, _ in loaded}
    equal(kinds, {'progs', 'maps', 'links'}, 'kinds of pins')
    equal(pins.present(loaded), loaded, 'programs, maps and links of the pins')
    equal(len(pins.generations()), 1, f'generations: {pins.generations()}')
    diagnose(f'{len(loaded)} pins; {sorted(traces(t.rig))}')

    # A restart leaves them as they are.
    lab.restart_iolatd()
    equal(pins.pinned(), loaded, 'pins after a restart')

    # An upgrade leaves one generation, and nothing of the one before but the maps that both share.
    run(PROBES, 'load', '--force', timeout=200)
    lab.restart_iolatd()
    upgraded = pins.pinned()
    equal(len(pins.generations()), 1, f'generations after an upgrade: {pins.generations()}')
    gone = {o for o in loaded - upgraded}
    check(gone and {kind for kind, _ in gone} >= {'progs', 'links'}, 'the upgrade was none')
    wait_for_their_end(gone)

    # Stopped, it goes on counting; nobody can connect.
    run('systemctl', 'stop', 'iolatd.service')
    wait_for_end('iolatd.service', 'iolat-probes.service', 'iolat-calibrate.service', 'iolatd-report.socket')
    equal(pins.pinned(), upgraded, 'pins after a stop')
    left = {n for n in traces(t.rig) if n.startswith(('/run', '/tmp', '/var/tmp', '/dev/shm'))}
    equal(left, set(), 'files that last no longer than the daemon')


def test_exporter_leaves_nothing(t):
    run('systemctl', 'start', 'iolatd.service')
    run('systemctl', '--quiet', 'enable', '--now', 'iolat-exporter.socket')
    with urllib.request.urlopen('http://127.0.0.1:10482/metrics', timeout=30) as r:
        check('iolat_build_info' in r.read().decode(), 'no metrics')
    run('systemctl', '--quiet', 'disable', '--now', 'iolat-exporter.socket')
    run('systemctl', 'stop', 'iolat-exporter.service')
    wait_for_end('iolat-exporter.socket', 'iolat-exporter.service')
    equal({n for n in traces(t.rig) if 'exporter' in n}, set(), 'files of the exporter')
    equal(list(pathlib.Path('/run/systemd/dynamic-uid').glob('*iolat*')), [], 'users')


def test_removal(t):
    run('systemctl', 'start', 'iolatd.service')
    wait_for(lambda: run('iolatctl', 'probes', check=False).returncode == 0, 30, 'an answer of iolatd')
    unit = lab.unit_name()
    with_history(t, unit)
    loaded = pins.pinned()
    run('systemctl', '--quiet', 'disable', '--now', 'iolatd.service')
    wait_for_end('iolatd.service', 'iolat-calibrate.service')
    run(PROBES, 'unload')
    check(not pins.PINS.exists(), f'{pins.PINS} is there: {list(pins.PINS.glob("*"))}')
    wait_for_their_end(loaded)

    # Neither D-Bus nor a report starts what is not enabled.
    r = run('busctl', 'call', 'org.iolat1', '/org/iolat1', 'org.iolat1.Manager', 'ListUnits', check=False)
    check(r.returncode != 0, 'it was started by a call')
    equal(state('iolatd.service'), 'inactive', 'the daemon')

    for f in t.rig.files:
        f.unlink()
    shutil.rmtree('/usr/lib/iolat')
    tell_the_system()
    left = traces(t.rig)
    check(all(n == str(STATE) or n.startswith(f'{STATE}/') for n in left), f'files that are left: {sorted(left)}')
    diagnose(f'left: {sorted(left)}, with {sorted(p.name for p in STATE.glob("*"))}')
    extra = {p.name for p in STATE.glob('*')} - {'history', 'history.corrupt', 'history.new'}
    equal(extra, set(), 'state that is not in the manual')
    names = [f'{n}*' for n in ('iolatd', 'iolat-probes', 'iolat-calibrate', 'iolat-exporter', 'dbus-org.iolat1')]
    units = run('systemctl', 'list-units', '--all', '--plain', '--no-legend', *names).stdout.splitlines()
    # A module that came meanwhile is a device that goes on to want a unit which there is not any more.
    wanted = {u for u in units if u.startswith('iolat-probes@') and u.split()[1:4] == ['not-found', 'inactive', 'dead']}
    equal([u for u in units if u not in wanted], [], 'units that are loaded')

    # And again, with the history of before.
    install()
    wait_for(lambda: run('iolatctl', 'probes', check=False).returncode == 0, 30, 'an answer of iolatd')
    check(lab.rows(unit, '--since=-1h'), 'what was before is not in the history')


def with_history(t, unit):
    """Something that the daemon writes down when it ends."""
    mount_point = t.enter(disks.mounted(t.enter(disks.virtio() if lab.IS_VM else disks.loop())))
    lab.workload(unit, 'fsync', mount_point / 'file', count=5, write=4096)
    lab.expect_counts(unit, {'fsync': 5})
    time.sleep(12)  # until the window of the history that it is in has ended


if __name__ == '__main__':
    lab.main()
