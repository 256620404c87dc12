#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-*
# timeout: 500
# long
"""What others do to a sync through the journal of their common ext4, and to a write through the lock of their common
file."""

import json
import time

import disks
import lab
import measure
from harness import cases, check, diagnose, run, skip

MBPS = 20
BIG_MB = 64

setup = lab.Rig


def steps_of(unit):
    """step -> nanoseconds"""
    def value(pair):
        return (pair[0], pair[1]) if isinstance(pair, list) else pair
    steps = lab.query('status', unit)
    steps = (steps[0] if isinstance(steps, list) else steps)['journalSteps']
    return dict(steps) if isinstance(steps, dict) else dict(map(value, steps))


def check_none(problems):
    problems = list(problems)
    check(not problems, '\n'.join(problems))


def sync_big_file(t, victim, kind, mount_point, **options):
    """One unit syncs a big dirty file; the victim syncs something small meanwhile. Both say what they saw."""
    big = lab.unit_name('big')
    load = lab.start_workload(big, 'fsync', mount_point / 'big', count=1, write=f'{BIG_MB}M', pattern='append')
    # While that is being written back.
    deadline = time.monotonic() + 60
    while not any(r['bytes'] for r in lab.rows(big, unit=big, op='rq-write')) and time.monotonic() < deadline:
        time.sleep(0.1)
    seen = lab.workload(victim, kind, mount_point / 'small' if kind == 'fsync' else mount_point, count=2, **options)
    return big, json.loads(load.finish().splitlines()[-1]), seen


@cases('file, ordered', 'directory, ordered', 'file', 'directory')
def test_big_file_and_small_sync(t, case):
    # Many requests at once, so that what takes long is the data and not the way into the queue.
    disk = t.enter(disks.null_blk(size=256, memory_backed=1, mbps=MBPS, hw_queue_depth=1024))
    what, _, ordered = case.partition(', ')
    # With dioread_nolock, the default, new blocks are only linked to their file when they are written, so that a
    # commit does not have to wait for them, but its log blocks wait behind them in the device's queue.
    mount_point = t.enter(disks.mounted(disk, options='noatime,dioread_lock' if ordered else 'noatime'))
    (mount_point / 'small').touch()
    run('sync')
    victim = lab.unit_name('victim')
    kind, options = ('fsync', {'write': 4096}) if what == 'file' else ('fsync-dir', {'write': 1})
    big, big_seen, seen = sync_big_file(t, victim, kind, mount_point, **options)

    check_none(measure.problems(big, 'fsync', 'data', 'admission', caller=big_seen['sumNSec']))
    phases, total, _ = measure.parts(victim, 'fsync')
    steps = steps_of(victim)
    text = f'total {measure.msec(total)}: {measure.show(phases)}; steps {measure.show(steps)}'
    diagnose(text)
    check(total > 0.1 * measure.SEC, f'the victim did not have to wait: {text}')
    check_none(measure.problems(victim, 'fsync', 'journal', *(['data', 'admission'] if kind == 'fsync' else []),
                                caller=seen['sumNSec']))
    if what == 'file' and phases.get('data', 0) > 0.5 * total:  # its own data waited in the device's queue behind the other
        return
    check(phases.get('journal', 0) >= 0.3 * total, f'not in the journal: {text}')
    greatest = max(steps, key=steps.get) if steps else None
    check(greatest in (('flushing',) if ordered else ('flushing', 'log', 'record', 'previous')), f'the wrong step: {text}')
    check(abs(sum(steps.values()) - phases['journal']) <= 0.1 * phases['journal'],
          f'the steps are not the journal phase: {text}')


def test_two_writers_of_one_file(t):
    """A direct write that makes a file longer keeps it locked until it is done."""
    disk = t.enter(disks.null_blk(size=128, memory_backed=1, irqmode=2, completion_nsec=100 * measure.MSEC))
    disks.make(disk, small=True)
    mount_point = t.enter(disks.mounted(disk, fresh=False))
    a, b = lab.unit_name('appender'), lab.unit_name('writer')
    (mount_point / 'file').write_bytes(bytes(1 << 20))
    run('sync')
    load = lab.start_workload(a, 'dwrite', mount_point / 'file', count=600, pattern='append')
    time.sleep(2)
    seen = lab.workload(b, 'write', mount_point / 'file', count=10, rate=4)
    load.stop()
    check(seen['sumNSec'] > 200 * measure.MSEC, f'nobody waited for the lock: {seen}')
    phases, total, _ = measure.parts(b, 'slowwrite')
    what = f'slowwrite {measure.msec(total)}, caller {measure.msec(seen["sumNSec"])}: {measure.show(phases)}'
    diagnose(what)
    if lab.is_blind('buffered'):
        skip(f'named as a blind spot: {what}')
    check(phases.get('lock', 0) >= 0.8 * seen['sumNSec'], f'not shown as lock: {what}')


def test_direct_writers_of_one_file(t):
    """Both are direct and long: what one waits for the other is lock, not I/O."""
    disk = t.enter(disks.null_blk(size=128, memory_backed=1, irqmode=2, completion_nsec=100 * measure.MSEC))
    disks.make(disk, small=True)
    mount_point = t.enter(disks.mounted(disk, fresh=False))
    (mount_point / 'file').touch()
    units = [lab.unit_name(n) for n in 'ab']
    loads = [lab.start_workload(u, 'dwrite', mount_point / 'file', count=15, pattern='append') for u in units]
    seen = sum(json.loads(load.finish().splitlines()[-1])['sumNSec'] for load in loads)
    held = io = 0
    for u in units:
        for (op, phase), nsec in measure.sums(u).items():
            if op in ('dwrite', 'slowwrite'):
                held += nsec if phase == 'lock' else 0
                io += nsec if phase == 'io' else 0
    what = f'callers {measure.msec(seen)}, lock {measure.msec(held)}, io {measure.msec(io)}'
    diagnose(what)
    check(seen > 1.5 * 30 * 100 * measure.MSEC, f'they did not wait for each other: {what}')
    if lab.is_blind('buffered'):
        skip(f'named as a blind spot: {what}')
    check(held >= 0.8 * (seen - 30 * 120 * measure.MSEC), f'not shown as lock: {what}')


def test_data_in_the_journal(t):
    disk = t.enter(disks.virtio())
    below = t.enter(disks.dm_delay(disk, 50))
    mount_point = t.enter(disks.mounted(below, options='noatime,data=journal'))
    run('dd', 'if=/dev/zero', f'of={mount_point / "first"}', 'bs=4K', 'count=1', 'conv=fsync')
    for op, kind, options in (('fsync', 'fsync', {'write': 4096, 'pattern': 'append'}),
                              ('fdatasync', 'fdatasync', {'write': 4096}), ('syncwrite', 'osync', {})):
        unit = lab.unit_name(op)
        seen = lab.workload(unit, kind, mount_point / kind, count=10, **options)
        lab.expect_counts(unit, {op: 10})
        check(seen['minNSec'] > 50 * measure.MSEC, f'there was no delay: {seen}')
        # The journal has the data, so writing the file out is journalling as well; what was journalled before may
        # still have to be flushed.
        check_none(measure.problems(unit, op, 'journal', 'data', 'flush', caller=seen['sumNSec']))
        phases, total, _ = measure.parts(unit, op)
        check(phases.get('journal', 0) > 0.4 * total, f'{op}: not in the journal: {measure.show(phases)}')


if __name__ == '__main__':
    lab.main()
