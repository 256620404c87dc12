#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: container-*
# timeout: 200
"""A journal that does not read for half a minute, while every sync of a unit is one to tell of: the daemon answers as
always, and what the journal has missed is counted, and told of afterwards."""

import collections
import json
import os
import pathlib
import signal
import time

import bus
import disks
import lab
import varlink
from harness import check, diagnose, equal, run, wait_for

STOPPED_SEC = 30
RATE = 100
QUERY_SEC = 0.1
UNITS = pathlib.Path('/run/systemd/system')
CONFIG = pathlib.Path('/etc/iolat/iolatd.conf.d/lab.conf')
SUPPRESSED = 'd4ee86c89bce4d2fafc56d7a2e4dfe1e'

setup = lab.Rig


def every_sync_is_told_of(t, unit):
    directory = UNITS / f'{unit}.d'
    directory.mkdir(parents=True)
    (directory / '50-iolat.conf').write_text('[X-Iolat]\nFsyncAlertSec=1us\nFsyncRecordSec=1us\n')
    CONFIG.parent.mkdir(parents=True, exist_ok=True)
    CONFIG.write_text('[Stall]\nAlertBurst=1000\nAlertIntervalSec=1s\n')
    t.defer(run, 'systemctl', 'reload', 'iolatd')
    t.defer(run, 'systemctl', 'daemon-reload')
    t.defer(run, 'rm', '-r', directory, CONFIG)
    run('systemctl', 'daemon-reload')
    run('systemctl', 'reload', 'iolatd')
    time.sleep(4)  # it reads the unit files a second after systemd did


def entries(unit=None):
    """About the unit; without one, about what was left out of any."""
    of = ('-u', unit) if unit else (f'MESSAGE_ID={SUPPRESSED}',)
    out = run('journalctl', '--no-pager', '-q', '-b', *of, '-o', 'json').stdout
    return [e for e in map(json.loads, out.splitlines()) if e.get('SYSLOG_IDENTIFIER') == 'iolatd']


def left_out_of(found):
    return sum(int(e['IOLAT_SUPPRESSED']) for e in found if e['MESSAGE_ID'] == SUPPRESSED)


def start_load(t, unit, path):
    """Ready to begin, once the threshold is that of its control group: syncs of before are in the journal."""
    go = t.directory(parent='/run/iolat-lab') / 'go'
    first = lab.workload_command('fsync', path, count=1, write=4096)
    then = lab.workload_command('fsync', path, count=(STOPPED_SEC + 4) * RATE, rate=RATE, write=4096, barrier=True)
    load = lab.Unit(unit, 'sh', '-c',
                    f'until [ -e {go} ]; do {" ".join(first)}; sleep 0.2; done; exec {" ".join(then)}')
    wait_for(lambda: entries(unit), 20, 'an entry in the journal of the unit')
    go.touch()
    while load.process.stdout.readline() != 'ready\n':
        check(load.process.poll() is None, 'the workload ended')
    lab.settled(lambda: len(entries(unit)))
    return load


def release(load):
    load.process.stdin.write('\n')
    load.process.stdin.flush()


def stop_journal(t):
    pid = int(run('systemctl', 'show', '--value', '--property=MainPID', 'systemd-journald').stdout)
    os.kill(pid, signal.SIGSTOP)
    t.defer(os.kill, pid, signal.SIGCONT)
    return pid


def test_journal_that_does_not_read(t):
    mount_point = t.enter(disks.mounted(t.enter(disks.loop())))
    unit = lab.unit_name()
    every_sync_is_told_of(t, unit)
    peer, link = bus.Bus('/run/iolat/bus'), varlink.Link('/run/iolat/org.iolat.Manager')
    t.defer(peer.close)
    t.defer(link.close)
    queries = {'D-Bus': lambda: peer.call('List', 'asasastu', [], [], [], 0, 100),
               'varlink': lambda: link.more('List'),
               'stalls': lambda: peer.call('ListStalls', 'tu', 0, 50)}
    before = lab.losses()
    told_before = left_out_of(entries())

    load = start_load(t, unit, mount_point / 'file')
    begin = len(entries(unit))
    release(load)
    journal = stop_journal(t)
    began, took = time.monotonic(), collections.defaultdict(list)
    while time.monotonic() < began + STOPPED_SEC:
        for name, query in queries.items():
            asked = time.monotonic()
            query()
            took[name].append(time.monotonic() - asked)
        time.sleep(0.05)
    check(load.process.poll() is None, 'the workload ended too soon')
    os.kill(journal, signal.SIGCONT)
    # Others may use the machine, too: a few may have waited for a CPU.
    usual = {name: sorted(seconds)[len(seconds) * 95 // 100] for name, seconds in took.items()}
    diagnose(', '.join(f'{name}: {sec * 1000:.1f} ms, {max(took[name]) * 1000:.1f} ms at most'
                       for name, sec in usual.items()))
    check(max(usual.values()) < QUERY_SEC, f'a query takes {max(usual.values()) * 1000:.0f} ms')

    done = json.loads(load.finish().splitlines()[-1])['count']
    wait_for(lambda: any(e['MESSAGE_ID'] == SUPPRESSED for e in entries(unit)), 20, 'an entry about what was left out')
    lab.settled(lambda: len(entries(unit)))
    lost = {name: n - before.get(name, 0) for name, n in lab.losses().items() if n != before.get(name, 0)}
    found = entries(unit)[begin:]
    single = [e for e in found if e['MESSAGE_ID'] != SUPPRESSED]
    left_out = left_out_of(found)
    told = left_out_of(entries()) - told_before
    dropped = lost.get('alert-dropped', 0)
    diagnose(f'{len(single)} of {done} in the journal, {left_out} left out; of all units {dropped} dropped, {told} '
             f'told of as left out; losses {lost}')
    check(left_out > done / 3, 'hardly any was dropped, so this was no test')
    equal(told, dropped, 'alerts of all units that were dropped, as told in their journals')
    twice = len(single) + left_out - done  # also announced while they lasted, because a tick came upon them
    check(0 <= twice <= 0.02 * done, f'{len(single)} in the journal and {left_out} left out of {done}; losses {lost}')


if __name__ == '__main__':
    lab.main()
