#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: all
# timeout: 600
"""No operation is lost or counted twice when iolatd is killed or restarted, or new probes take over, under load."""

import pathlib
import time

import disks
import lab
from harness import cases, check, diagnose, equal, run, wait_for

ROUNDS = 3
THREADS = 4
DROP_IN = pathlib.Path('/run/systemd/system/iolat-probes.service.d/lab.conf')
RATE = 30  # operations a second of each thread


class Rig(lab.Rig):
    def __init__(self, t):
        super().__init__(t)
        self.disk = t.enter(disks.virtio() if lab.IS_VM else disks.loop())
        self.mount_point = t.enter(disks.mounted(self.disk))


setup = Rig


def show(what):
    return run('systemctl', 'show', '--value', f'--property={what}', 'iolatd.service').stdout.strip()


def is_answering():
    return run('iolatctl', 'probes', '--json=short', check=False).returncode == 0


def kill():
    pid = show('MainPID')
    run('systemctl', 'kill', '--signal=KILL', 'iolatd.service')
    wait_for(lambda: show('ActiveState') == 'active' and show('MainPID') not in ('0', pid), 60, 'a new iolatd')


def restart():
    lab.restart_iolatd()


def load():
    """As the unit does it, with no more privileges, but even though nothing is new."""
    DROP_IN.parent.mkdir(parents=True, exist_ok=True)
    command = '/usr/lib/iolat/iolat-probes load --force --bpffs=/tmp/bpf --symbols-from-stdin'
    DROP_IN.write_text(f'[Service]\nExecStart=\nExecStart={command}\n')
    try:
        run('systemctl', 'daemon-reload')
        run('systemctl', 'reset-failed', 'iolat-probes.service', check=False)
        run('systemctl', 'start', 'iolat-probes.service')
    finally:
        DROP_IN.unlink()
        DROP_IN.parent.rmdir()
        run('systemctl', 'daemon-reload')


WAYS = {'iolatd killed': kill, 'iolatd restarted': restart, 'probes loaded': load}


@cases(*WAYS)
def test_counts_are_exact(t, way):
    unit = lab.unit_name()
    path = t.directory(parent=t.rig.mount_point) / 'file'
    began = time.monotonic()
    WAYS[way]()
    seconds = (time.monotonic() - began + 1) * (ROUNDS + 1) * 2  # under load it takes longer
    before = lab.misses()

    load = lab.start_workload(unit, 'fsync', path, threads=THREADS, count=int(seconds * RATE), rate=RATE, write=4096,
                              pattern='append')
    for _ in range(ROUNDS):
        time.sleep(1)
        # Else systemd finds that this happens too often.
        run('systemctl', 'reset-failed', 'iolatd.service', check=False)
        WAYS[way]()
    check(load.process.poll() is None, 'the workload ended too soon')
    load.finish()

    wait_for(is_answering, 30, 'an answer of iolatd')
    diagnose(f'misses before {before}, after {lab.misses()}')
    lab.expect_counts(unit, {'fsync': THREADS * int(seconds * RATE)}, device=t.rig.disk.device)
    equal(show('ActiveState'), 'active', 'state of iolatd')


def test_stopped_daemon_misses_nothing(t):
    unit = lab.unit_name()
    path = t.directory(parent=t.rig.mount_point) / 'file'
    run('systemctl', 'reset-failed', 'iolatd.service', check=False)
    run('systemctl', 'stop', 'iolatd.service')
    try:
        lab.workload(unit, 'fdatasync', path, count=50, write=4096)
    finally:
        run('systemctl', 'start', 'iolatd.service')
    wait_for(is_answering, 30, 'an answer of iolatd')
    lab.expect_counts(unit, {'fdatasync': 50})


if __name__ == '__main__':
    lab.main()
