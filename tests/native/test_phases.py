# SPDX-License-Identifier: LGPL-2.1-or-later
"""The phases sum to the total, and name what made an operation wait."""

import pathlib
import time

import harness
from harness import cases, check, equal, run, skip, wait_for
from product import daemon, row_value, settled
from rig import cgroup, ext4, finish, slow_ext4, start_workload, workload

DELAY_MSEC = 200
UNEXPLAINED = ('other', 'fs')


class Rig:
    def __init__(self, t):
        self.daemon = t.enter(daemon(t))
        self.disk = t.enter(ext4())


def setup(t):
    return Rig(t)


def phases(d, unit, op):
    """phase -> nanoseconds, but for the run queue, which is not part of the sum; total among them."""
    result = {}
    for r in d.rows(unit, op=op):
        if r['phase'] != 'runqueue':
            result[r['phase']] = result.get(r['phase'], 0) + r['sumNSec']
    return result


def check_sum(parts, what):
    equal(sum(v for k, v in parts.items() if k != 'total'), parts['total'], f'{what}: sum of the phases')


def named(parts):
    return sum(v for k, v in parts.items() if k not in ('total', *UNEXPLAINED))


@cases('fsync', 'fdatasync', 'msync', 'osync', 'odsync', 'dread', 'dwrite', 'fsync of four threads',
       'fsync with nothing dirty', 'fsync of many megabytes')
def test_sum_is_total(t, way):
    d = t.rig.daemon
    kind = way.split()[0]
    options = {'count': 500, 'write': 4096} if kind in ('fsync', 'fdatasync', 'msync') else {'count': 500, 'prepare': '1M'}
    if 'threads' in way:
        options |= {'threads': 4, 'pattern': 'append'}
    if 'nothing' in way:
        options['write'] = 0
    if 'megabytes' in way:
        options |= {'write': '4M', 'count': 20}
    group = t.enter(cgroup('a.service'))
    seen = workload(kind, t.directory(parent=t.rig.disk.mount_point) / 'file', group, **options)
    op = 'syncwrite' if kind in ('osync', 'odsync') else kind
    d.expect_counts(group.unit, {op: seen['count']})
    check_sum(phases(d, group.unit, op), way)


def test_append_and_fsync(t):
    d = t.rig.daemon
    group = t.enter(cgroup('a.service'))
    workload('fsync', t.rig.disk.path('append'), group, count=3000, write=4096, pattern='append')
    d.expect_counts(group.unit, {'fsync': 3000})
    parts = phases(d, group.unit, 'fsync')
    check_sum(parts, 'append and fsync')
    check(parts.get('journal', 0) > 0, f'no journal phase: {parts}')
    check(parts.get('data', 0) > 0, f'no data phase: {parts}')
    rest = parts['total'] - parts['journal'] - parts['data']
    check(rest < 0.4 * parts['total'], f'more than 40 % is neither journal nor data: {parts}')


@cases('flush, append', 'write, append', 'flush, overwrite', 'write, overwrite', 'write, direct')
def test_injected_delay(t, where):
    """Most of what a slow backing store adds is under a name."""
    d = t.rig.daemon
    what, pattern = where.split(', ')
    disk = t.enter(slow_ext4())
    if pattern == 'direct':
        kind, op, options = 'dwrite', 'dwrite', {'prepare': '1M'}
    elif pattern == 'overwrite':
        kind, op, options = 'fdatasync', 'fdatasync', {'prepare': '1M', 'write': 4096}
    else:
        kind, op, options = 'fsync', 'fsync', {'write': 4096, 'pattern': 'append'}
    fast, slow = t.enter(cgroup('fast.service')), t.enter(cgroup('slow.service'))
    workload(kind, disk.path('fast'), fast, count=5, **options)

    process = start_workload(kind, disk.path('slow'), slow, count=5, barrier=True, **options)
    check(process.stdout.readline() == 'ready\n', 'the workload is not ready')
    disk.delay(**{'fsync' if what == 'flush' else 'write': DELAY_MSEC})
    process.stdin.write('\n')
    process.stdin.flush()
    seen = finish(process)
    disk.delay()

    d.expect_counts(slow.unit, {op: 5})
    before, after = phases(d, fast.unit, op), phases(d, slow.unit, op)
    check_sum(after, where)
    check(seen['sumNSec'] >= 5 * DELAY_MSEC * 10**6, f'the delay did not work: {seen}')
    added = after['total'] - before['total']
    check(added >= 0.95 * 5 * DELAY_MSEC * 10**6, f'only {added} ns were added')
    named_added = named(after) - named(before)
    check(named_added >= 0.9 * added, f'named phases hold {named_added} of {added} ns: {after}')
    check(after.get('other', 0) <= 0.05 * after['total'], f'more than 5 % is unexplained: {after}')


def test_freeze(t):
    """A writer that runs into a frozen file system waits in `freeze`."""
    d, disk = t.rig.daemon, t.rig.disk
    group = t.enter(cgroup('a.service'))
    process = start_workload('write', disk.path('frozen'), group, count=600, rate=200)
    time.sleep(0.5)
    began = time.monotonic_ns()
    run('fsfreeze', '--freeze', disk.mount_point)
    try:
        time.sleep(2)
    finally:
        frozen = time.monotonic_ns() - began
        run('fsfreeze', '--unfreeze', disk.mount_point)
    finish(process)
    wall = time.monotonic_ns() - began
    rows = settled(lambda: d.rows(group.unit, op='slowwrite'))
    freeze = row_value([r for r in rows if r['phase'] == 'freeze'])
    check(freeze >= 0.9 * frozen, f'freeze has {freeze} of {frozen} ns: {rows}')
    for r in rows:
        check(r['maxNSec'] <= wall, f'{r["phase"]}: max {r["maxNSec"]} ns of {wall} ns')
    parts = phases(d, group.unit, 'slowwrite')
    check_sum(parts, 'slowwrite')
    check(parts.get('other', 0) <= 0.05 * parts['total'], f'more than 5 % is unexplained: {parts}')


def limit_dirty(t, disk, size):
    """The disk alone may have so many dirty bytes."""
    bdi = pathlib.Path('/sys/class/bdi') / disk.device
    if not (bdi / 'max_bytes').exists() or not (bdi / 'strict_limit').exists():
        skip('this kernel limits the dirty data of all disks together only')
    for name in 'strict_limit', 'max_ratio':  # which is another way to say max_bytes
        t.defer((bdi / name).write_text, (bdi / name).read_text())
    (bdi / 'strict_limit').write_text('1\n')
    (bdi / 'max_bytes').write_text(f'{size}\n')


def served(d, disk):
    """Writes that the disk, or one of the same number before it, has served: count, sum of their times."""
    rows = d.rows(op='rq-write', phase='device', device=disk.device)
    return sum(r['count'] for r in rows), sum(r['sumNSec'] for r in rows)


def test_held_back_above_the_disk(t):
    """A writer waits, though the disk is fast: too much of what it wrote is dirty. The disk is named all the same."""
    d, disk, group = t.rig.daemon, t.enter(ext4(512 << 20)), t.enter(cgroup('a.service'))
    limit_dirty(t, disk, 1 << 20)
    count, total = settled(lambda: served(d, disk))
    seen = workload('write', disk.path('stream'), group, count=4800, block='64K', pattern='append')
    rows = settled(lambda: d.rows(group.unit, op='slowwrite'))
    check(rows, f'nothing was held back: {seen}')
    equal({r['device'] for r in rows}, {disk.device}, 'devices')
    parts = phases(d, group.unit, 'slowwrite')
    print(f'# {seen["sumNSec"] / 1e9:.2f} s in write(2), held back {parts["total"] / 1e9:.2f} s', flush=True)
    check(parts['throttle'] >= 0.95 * parts['total'], f'phases: {parts}')
    check(0.2 * seen['sumNSec'] < parts['total'] <= 1.05 * seen['sumNSec'], f'{parts}, the caller: {seen}')
    waited = max(r['p50NSec'] for r in rows if r['phase'] == 'total')
    count, total = (after - before for after, before in zip(served(d, disk), (count, total)))
    check(count > 0 and total / count < waited, f'the disk itself is slow: {total} ns for {count}, waited {waited}')

    def blame():
        return [r for r in d.json('blame', group.unit) if r['phase'] == 'throttle']
    found = wait_for(blame, what='blame')
    equal({(r['device'], r['weight'], r['estimated']) for r in found}, {(disk.device, 'written-bytes', True)}, 'blame')


if __name__ == '__main__':
    harness.main()
