#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-*
# timeout: 400
# long
"""What hangs is told while it hangs, with the phase that it hangs in, and again when it has ended; also when it is the
file system of iolatd's own files that hangs."""

import json
import os
import pathlib
import queue
import signal
import subprocess
import threading
import time

import disks
import lab
import measure
from harness import check, diagnose, run, start, stop, wait_for

SUSPEND_SEC = 10
FREEZE_SEC = 30
NOTICE_SEC = 6  # two seconds after the threshold, and what emulation adds to that
PHASES = ('data', 'journal', 'flush', 'io', 'admission')

setup = lab.Rig


class Follower:
    """Lines of `iolatctl stalls --follow`, with when they came."""

    def __init__(self, t, unit):
        self.lines = queue.Queue()
        self.process = start('iolatctl', 'stalls', unit, '--follow', '--json=short', stdout=subprocess.PIPE, text=True)
        t.defer(stop, self.process)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put((time.monotonic(), json.loads(line)))

    def next(self, state, timeout):
        deadline = time.monotonic() + timeout
        seen = []
        while time.monotonic() < deadline:
            try:
                when, stall = self.lines.get(timeout=0.2)
            except queue.Empty:
                continue
            seen.append(stall)
            if stall['state'] == state:
                return when, stall
        raise AssertionError(f'no stall {state} within {timeout} s, but {seen}')


def suspended(t):
    disk = t.enter(disks.dm_linear(t.enter(disks.virtio())))
    mount_point = t.enter(disks.mounted(disk))
    (mount_point / 'file').write_bytes(b'x' * 4096)
    run('sync')
    return disk, mount_point


def test_suspended_device(t):
    disk, mount_point = suspended(t)
    unit = lab.unit_name('victim')
    follower = Follower(t, unit)
    time.sleep(1)
    run('dmsetup', 'suspend', '--nolockfs', disk.node)
    began = time.monotonic()
    load = lab.start_workload(unit, 'fsync', mount_point / 'file', count=1, write=4096)
    try:
        when, hanging = follower.next('in-progress', SUSPEND_SEC)
        diagnose(f'told after {when - began:.1f} s: {hanging}')
        check(when - began < NOTICE_SEC, f'told only after {when - began:.1f} s')
        check(hanging['phase'] in PHASES, f'hangs in the wrong phase: {hanging}')
        check(0 < hanging['totalNSec'] < (when - began + 1) * measure.SEC, f'how long is wrong: {hanging}')
        rest = began + SUSPEND_SEC - time.monotonic()
        time.sleep(max(0, rest))
        check(load.process.poll() is None, 'it did not hang')
    finally:
        run('dmsetup', 'resume', disk.node)
    _, done = follower.next('done', 20)
    diagnose(f'then: {done}')
    seen = json.loads(load.finish().splitlines()[-1])
    check(done['id'] == hanging['id'], f'another one: {done}')
    check(abs(done['totalNSec'] - seen['sumNSec']) <= 0.05 * seen['sumNSec'], f'the caller saw {seen["sumNSec"]}: {done}')
    phases = {k: v for k, v in done['phases'].items() if k != 'runqueue'}
    check(sum(phases.values()) == done['totalNSec'], f'the phases do not sum to the total: {done}')
    check(sum(phases.get(p, 0) for p in PHASES) >= 0.9 * done['totalNSec'], f'not explained: {done}')
    check(done['file'].endswith('file') and done['comm'] == 'iolat-workload', f'who it was: {done}')
    same = [s for s in lab.query('stalls', unit) if s['id'] == done['id']]
    check(len(same) == 1 and same[0]['state'] == 'done', f'listed otherwise: {same}')


def test_killed_in_the_middle(t):
    disk, mount_point = suspended(t)
    unit = lab.unit_name('victim')
    run('dmsetup', 'suspend', '--nolockfs', disk.node)
    try:
        lab.start_workload(unit, 'fsync', mount_point / 'file', count=1, write=4096)
        wait_for(lambda: [s for s in lab.query('stalls', unit) if s['state'] == 'in-progress'], 15, 'stall in progress')
        run('systemctl', 'kill', '--signal=KILL', unit)
    finally:
        run('dmsetup', 'resume', disk.node)
    wait_for(lambda: not [s for s in lab.query('stalls', unit) if s['state'] == 'in-progress'], 15, 'end of the entry')


def test_frozen_root(t):
    """Nothing here may write to a disk while it is frozen."""
    unit = lab.unit_name('victim')
    path = pathlib.Path('/var/tmp/iolat-lab-frozen')
    t.defer(path.unlink, True)
    query = ('iolatctl', 'probes', '--json=short')
    os.environ['PYTHONDONTWRITEBYTECODE'] = '1'

    def slowest(n):
        longest = 0
        for _ in range(n):
            began = time.monotonic()
            run(*query)
            longest = max(longest, time.monotonic() - began)
            time.sleep(0.5)
        return longest

    usual = slowest(5)
    follower = Follower(t, unit)
    load = lab.start_workload(unit, 'osync', path, count=1000, rate=5)
    time.sleep(2)
    run('fsfreeze', '--freeze', '/')
    began = time.monotonic()
    try:
        when, hanging = follower.next('in-progress', 15)
        frozen = slowest(20)
        time.sleep(max(0, began + FREEZE_SEC - time.monotonic()))
        last = slowest(3)
    finally:
        run('fsfreeze', '--unfreeze', '/')
    _, done = follower.next('done', 20)
    load.process.send_signal(signal.SIGTERM)
    load.stop()
    diagnose(f'a query took {usual:.3f} s before, {frozen:.3f} s and {last:.3f} s while frozen; {hanging}; {done}')
    check(max(frozen, last) < usual * 2 + 0.1, f'queries are slow: {frozen:.3f} s and {last:.3f} s instead of {usual:.3f} s')
    check(when - began < NOTICE_SEC, f'told only after {when - began:.1f} s')
    check(hanging['phase'] == 'freeze' and done['phase'] == 'freeze', f'the wrong phase: {hanging}, {done}')
    check(done['totalNSec'] > 0.9 * FREEZE_SEC * measure.SEC, f'too short: {done}')


if __name__ == '__main__':
    lab.main()
