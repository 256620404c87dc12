#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-*
# timeout: 700
# long
"""Who made it wait: the owners of the journal's transactions, of the commit before, of a handle that is held open, of
ordered data, of a lock, of a full queue and of too much dirty data are named, and nobody else is."""

import time

import disks
import lab
import measure
from harness import cases, check, diagnose, run, wait_for

CREATOR = '''
import os, sys, time
directory, rate = sys.argv[1], int(sys.argv[2])
os.mkdir(directory)
n, began = 0, time.monotonic()
while True:
    with open(f'{directory}/{n}', 'w') as f:
        f.write('x' * int(sys.argv[3]))
    n += 1
    time.sleep(max(0, began + n / rate - time.monotonic()))
'''
# Commits all the time, each with what it has made since the one before.
COMMITTER = '''
import os, sys
directory = os.open(sys.argv[1], os.O_RDONLY)
for n in range(1000000):
    for i in range(50):
        os.close(os.open(f'{sys.argv[1]}/{n}-{i}', os.O_CREAT | os.O_WRONLY))
    os.fsync(directory)
'''
SYNCS = 60
SYNC_RATE = 5

setup = lab.Rig


def creator(t, name, mount_point, rate, size=100):
    """A unit that makes that many files a second, of so many bytes."""
    unit = lab.unit_name(name)
    u = lab.Unit(unit, 'python3', '-c', CREATOR, mount_point / name, str(rate), str(size))
    t.defer(u.stop)
    wait_for(lambda: len(list((mount_point / name).glob('*'))) > 3, 20, 'first files')
    return unit


def blame(victim, **wanted):
    """culprit -> nanoseconds"""
    result = {}
    for r in lab.query('blame', victim):
        check(r['victim'] == victim, f'asked for {victim}: {r}')
        if all(r.get(k) == v for k, v in wanted.items()):
            result[r['culprit']] = result.get(r['culprit'], 0) + r['sumNSec']
    return result


def settled_blame(victim, **wanted):
    """Once it is complete: it is worked out a little later."""
    time.sleep(2.5)
    found = lab.settled(lambda: blame(victim, **wanted))
    diagnose(f'{victim} {wanted or ""}: {show(found)}')
    return found


def show(found):
    whole = sum(found.values()) or 1
    return ', '.join(f'{k} {measure.msec(v)} ({v / whole:.0%})' for k, v in sorted(found.items(), key=lambda i: -i[1]))


def sync_small(name, mount_point, count=SYNCS):
    """A unit that syncs small records; returns its name and how long it waited for the journal."""
    victim = lab.unit_name(name)
    lab.workload(victim, 'fsync', mount_point / name, count=count, rate=SYNC_RATE, write=512, pattern='append')
    return victim, measure.parts(victim, 'fsync')[0].get('journal', 0)


def journal_disk(t):
    disk = t.enter(disks.virtio())
    return t.enter(disks.mounted(t.enter(disks.dm_delay(disk, 5))))


def test_culprit_has_what_it_added(t):
    """A device that is slow enough for the data that a commit has to wait for."""
    disk = t.enter(disks.null_blk(size=512, memory_backed=1, mbps=20, hw_queue_depth=1024))
    mount_point = t.enter(disks.mounted(disk))
    alone, before = sync_small('alone', mount_point)
    found = settled_blame(alone, phase='journal')
    others = {c: n for c, n in found.items() if c not in (alone, '(kernel)')}
    check(sum(others.values()) <= 0.05 * sum(found.values()), f'somebody is blamed who did nothing: {show(found)}')

    culprit = creator(t, 'culprit', mount_point, 300, size=32768)
    victim, waited = sync_small('victim', mount_point)
    found = settled_blame(victim, phase='journal')
    added = waited - before
    diagnose(f'alone {measure.msec(before)}, disturbed {measure.msec(waited)}')
    check(added > 0, 'nothing was added')
    check(found.get(culprit, 0) >= 0.8 * added, f'the culprit added {measure.msec(added)}: {show(found)}')
    # What is left is the way from the end of the commit to running again.
    check(0.6 * waited <= sum(found.values()) <= 1.01 * waited, f'waited {measure.msec(waited)}: {show(found)}')


@cases('10:1', '1:1', '3:1')
def test_two_culprits(t, case):
    more, less = map(int, case.split(':'))
    mount_point = journal_disk(t)
    first, second = creator(t, 'first', mount_point, 12 * more), creator(t, 'second', mount_point, 12 * less)
    victim, _ = sync_small('victim', mount_point)
    found = settled_blame(victim, phase='journal')
    both = {u: found.get(u, 0) for u in (first, second)}
    share = both[first] / (sum(both.values()) or 1)
    what = f'{case}: the first has {share:.0%}'
    diagnose(what)
    low, high = {'10:1': (0.75, 1), '1:1': (0.35, 0.65), '3:1': (0.5, 1)}[case]
    check(low <= share <= high, what)


def test_commit_before(t):
    """A sync that comes while another's commit is under way waits for that first: step "previous"."""
    mount_point = t.enter(disks.mounted(t.enter(disks.dm_delay(t.enter(disks.virtio()), 100))))
    for name in 'culprit', 'victim':
        (mount_point / name).mkdir()
    culprit, victim = lab.unit_name('culprit'), lab.unit_name('victim')
    load = lab.Unit(culprit, 'python3', '-c', COMMITTER, mount_point / 'culprit')
    t.defer(load.stop)
    wait_for(lambda: lab.counts(culprit).get('fsync', 0) > 3, 60, 'commits')
    lab.workload(victim, 'fsync-dir', mount_point / 'victim', count=20, rate=2, write=1)
    found = settled_blame(victim, phase='journal', step='previous')
    whole = sum(settled_blame(victim, phase='journal').values())
    check(sum(found.values()) > 0.1 * whole, f'of {measure.msec(whole)} it hardly waited for the commit before')
    check(found.get(culprit, 0) >= 0.8 * sum(found.values()), f'the commit before was that of {culprit}: {show(found)}')


def test_handle_that_is_held(t):
    """Removing a file reads its extent tree with a handle open; reading takes long."""
    disk = t.enter(disks.virtio())
    below = t.enter(disks.dm_delay(disk, 1, read_msec=400))
    mount_point = t.enter(disks.mounted(below))
    huge = mount_point / 'huge'
    with open(huge, 'wb') as f:
        for i in range(4000):
            f.seek(i * 8192)
            f.write(b'x')
    run('sync')
    victim = lab.unit_name('victim')
    run('umount', mount_point)
    run('mount', '-t', 'ext4', '-o', 'noatime', below.node, mount_point)
    # What the victim needs must be in memory, or its own handles are open for long.
    lab.workload(lab.unit_name('before'), 'fsync', mount_point / 'small', count=4, write=4096, pattern='append')
    culprit = lab.unit_name('culprit')
    load = lab.Unit(culprit, 'sh', '-c', f'for i in 1 2 3; do rm -f {huge}; done')
    lab.workload(victim, 'fsync', mount_point / 'small', count=8, rate=2, write=512, pattern='overwrite')
    load.finish()
    found = settled_blame(victim, phase='journal', step='locked')
    check(found.get(culprit, 0) >= 0.8 * sum(found.values()) and found.get(culprit, 0) > 200 * measure.MSEC,
          f'the handle was open for long: {show(found)}')


def test_ordered_data(t):
    disk = t.enter(disks.null_blk(size=256, memory_backed=1, mbps=20, hw_queue_depth=1024))
    mount_point = t.enter(disks.mounted(disk, options='noatime,dioread_lock'))
    (mount_point / 'directory').mkdir()
    run('sync')
    big, victim = lab.unit_name('big'), lab.unit_name('victim')
    load = lab.start_workload(big, 'fsync', mount_point / 'big', count=1, write='64M', pattern='append')
    deadline = time.monotonic() + 60
    while not any(r['bytes'] for r in lab.rows(big, unit=big, op='rq-write')) and time.monotonic() < deadline:
        time.sleep(0.1)
    lab.workload(victim, 'fsync-dir', mount_point / 'directory', count=1, write=1)
    load.finish()
    found = settled_blame(victim, phase='journal', step='flushing')
    check(found.get(big, 0) >= 0.8 * sum(found.values()) and found.get(big, 0) > 500 * measure.MSEC,
          f'the data was of {big}: {show(found)}')


def test_lock_holder(t):
    disk = t.enter(disks.null_blk(size=128, memory_backed=1, irqmode=2, completion_nsec=100 * measure.MSEC))
    disks.make(disk, small=True)
    mount_point = t.enter(disks.mounted(disk, fresh=False))
    (mount_point / 'file').touch()
    holder, victim = lab.unit_name('holder'), lab.unit_name('victim')
    load = lab.start_workload(holder, 'dwrite', mount_point / 'file', count=600, pattern='append')
    time.sleep(2)
    lab.workload(victim, 'write', mount_point / 'file', count=10, rate=4)
    load.stop()
    found = settled_blame(victim, phase='lock')
    check(found.get(holder, 0) >= 0.8 * sum(found.values()) and found.get(holder, 0) > 200 * measure.MSEC,
          f'{holder} had the lock: {show(found)}')


def test_full_queue(t):
    """Many direct writes of one unit keep the device busy; another one's have to wait for their turn."""
    disk = t.enter(disks.null_blk(size=128, memory_backed=1, irqmode=2, completion_nsec=20 * measure.MSEC,
                                  hw_queue_depth=4, submit_queues=1))
    mount_point = t.enter(disks.mounted(disk))
    culprit, victim = lab.unit_name('culprit'), lab.unit_name('victim')
    load = lab.start_workload(culprit, 'dwrite', mount_point / 'many', count=1000000, engine='uring', depth=32,
                              prepare='1M')
    time.sleep(2)
    lab.workload(victim, 'dwrite', mount_point / 'one', count=30, prepare='1M')
    load.stop()
    rows = [r for r in lab.query('blame', victim) if r['phase'] in ('queue', 'admission', 'io')]
    found = {}
    for phase in ('queue', 'admission', 'io'):
        for c, n in settled_blame(victim, phase=phase).items():
            found[c] = found.get(c, 0) + n
    check(all(r['estimated'] for r in rows), f'not marked as estimated: {rows}')
    # The victim has its share of the device as well.
    check(found.get(culprit, 0) >= 0.6 * sum(found.values()) > 0, f'{culprit} kept it busy: {show(found)}')


def test_held_back_by_another(t):
    """Both write to a slow disk, the one from many threads, and too much is dirty: each task gets the same part of what
    the disk can take, so the other one waits for it."""
    disk = t.enter(disks.null_blk(size=256, memory_backed=1, mbps=10))
    mount_point = t.enter(disks.mounted(disk))
    measure.dirty_bytes(t, 8 << 20)
    culprit, victim = lab.unit_name('culprit'), lab.unit_name('victim')
    load = lab.start_workload(culprit, 'write', mount_point / 'many', threads=6, count=480, block=1 << 16,
                              pattern='append')
    time.sleep(2)
    lab.workload(victim, 'write', mount_point / 'one', count=96, block=1 << 16, pattern='append')
    load.stop()
    found = settled_blame(victim, phase='throttle')
    waited = measure.parts(victim, 'slowwrite')[0].get('throttle', 0)
    check(waited > 0.3 * measure.SEC, f'held back for {measure.msec(waited)} only')
    check(0.9 * waited <= sum(found.values()) <= 1.01 * waited, f'waited {measure.msec(waited)}: {show(found)}')
    check(found.get(culprit, 0) >= 0.6 * sum(found.values()), f'{culprit} wrote most: {show(found)}')
    rows = [r for r in lab.query('blame', victim) if r['phase'] == 'throttle']
    check(all(r['estimated'] and r['weight'] == 'written-bytes' and r['device'] == disk.device for r in rows),
          f'not by the bytes written to {disk.device}: {rows}')


if __name__ == '__main__':
    lab.main()
