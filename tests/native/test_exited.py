# SPDX-License-Identifier: LGPL-2.1-or-later
"""Units that are gone keep their numbers: one sum per unit, and of too many units the oldest in (exited)."""

import json
import struct
import time

import harness
from bus import Bus
from harness import check, equal, run, wait_for
from product import daemon
from rig import cgroup, ext4, workload

HURRY = {'IOLAT_TEST_HURRY': '1'}
FEW = '[Daemon]\nMaxUnits=16\n'
SHORT_BUCKETS = 28
BUCKET_OF_A_SECOND = 20


def keys(d, name, disk):
    """Owner ids of the elements of a map that are of the disk's file system or of the disk."""
    generation = max(int(p.name) for p in (d.bpffs / 'iolat').iterdir() if p.name.isdigit())
    dump = json.loads(run('bpftool', '-j', 'map', 'dump', 'pinned',
                          d.bpffs / 'iolat' / str(generation) / 'maps' / name).stdout)
    major, minor = map(int, disk.device.split(':'))
    entries = [e.get('formatted', e)['key'] for e in dump]
    return [k['owner'] for k in entries if k['dev'] == major << 20 | minor]


def is_folded(owner):
    return owner >= 1 << 63


def run_of(unit, disk, count):
    """One run of a service: a cgroup of that name that syncs and is removed."""
    with cgroup(unit) as group:
        workload('fsync', disk.path('f'), group, count=count, write=4096)
        return group.unit, group.path.stat().st_ino


def fsyncs(d, disk):
    rows = d.rows(op='fsync', phase='total')
    return {r['unit']: r['count'] for r in rows if r['device'] == disk.device}


def test_runs_of_a_unit_become_one(t):
    d, disk = t.enter(daemon(t, env=HURRY)), t.enter(ext4())
    ids, name = set(), None
    t.enter(cgroup('keeps-the-slice.service'))
    with cgroup('a.service') as group:
        name = group.unit
    for n in range(5):
        path = group.path
        path.mkdir()
        try:
            workload('fsync', disk.path('f'), group, count=10 + n, write=4096)
            ids.add(path.stat().st_ino)
        finally:
            path.rmdir()
    equal(len(ids), 5, 'cgroups')
    wanted = sum(10 + n for n in range(5))
    wait_for(lambda: fsyncs(d, disk).get(name) == wanted, 10, 'fsyncs of all runs')  # answers are up to 0.1 s old
    wait_for(lambda: not ids & set(keys(d, 'ops', disk)), 30, 'elements of the runs that are gone')
    equal(len([o for o in keys(d, 'ops', disk) if is_folded(o)]), 1, 'elements of the unit')
    equal(fsyncs(d, disk)[name], wanted, 'fsyncs of all runs, after')
    total = [r for r in d.rows(name, op='fsync') if r['device'] == disk.device]
    sums = {r['phase']: r['sumNSec'] for r in total}
    equal(sum(v for k, v in sums.items() if k not in ('total', 'runqueue')), sums['total'], 'sum of the phases')


def add_dirty_age(d, owner, disk, ns):
    """As the program would, where the memory controller names owners: a host whose controller does not has none."""
    generation = max(int(p.name) for p in (d.bpffs / 'iolat').iterdir() if p.name.isdigit())
    major, minor = map(int, disk.device.split(':'))
    key = struct.pack('<QII', owner, major << 20 | minor, 0)
    buckets = [0] * SHORT_BUCKETS
    buckets[BUCKET_OF_A_SECOND] = 2
    value = struct.pack(f'<Q3Q{SHORT_BUCKETS}Q', 0, 2, ns, ns, *buckets)
    run('bpftool', 'map', 'update', 'pinned', d.bpffs / 'iolat' / str(generation) / 'maps' / 'ages',
        'key', 'hex', *(f'{b:02x}' for b in key), 'value', 'hex', *(f'{b:02x}' for b in value))


def dirty_ages(d, unit, disk):
    return [(r['count'], r['sumNSec'], r['maxNSec']) for r in d.rows(unit, unit=unit, op='writeback', phase='dirty-age')
            if r['device'] == disk.device]


def test_dirty_ages_become_one(t):
    d, disk = t.enter(daemon(t, env=HURRY)), t.enter(ext4())
    t.enter(cgroup('keeps-the-slice.service'))
    with cgroup('a.service') as group:
        pass
    for n in (1, 2, 3):
        group.path.mkdir()
        try:
            owner = group.path.stat().st_ino
            workload('fsync', disk.path('f'), group, count=1, write=4096)
            add_dirty_age(d, owner, disk, n * 10**9)
        finally:
            group.path.rmdir()
        # Killed at some point of the move.
        time.sleep(1.1)
        d.kill9()
        d.start()
        wait_for(lambda o=owner: o not in keys(d, 'ages', disk), 30, 'dirty age of the run that is gone')
    equal(len([o for o in keys(d, 'ages', disk) if is_folded(o)]), 1, 'elements of the unit')
    wait_for(lambda: dirty_ages(d, group.unit, disk) == [(6, 6 * 10**9, 3 * 10**9)], 5, 'dirty ages of all runs')


def test_listing_while_moving(t):
    """What moves between two pages of a listing is not missing in the second one."""
    d, disk = t.enter(daemon(t, env=HURRY)), t.enter(ext4())
    bus = Bus(d.socket)
    t.defer(bus.close)
    units, owners = {}, set()
    for n in range(6):
        unit, owner = run_of(f'{n}.service', disk, 3)
        units[unit] = 3
        owners.add(owner)

    def page(cursor, limit):
        rows, cursor = bus.call('List', 'asasastu', [], ['fsync'], ['total'], cursor, limit)
        return [r for r in rows if r['device'] == disk.device], cursor

    time.sleep(0.15)  # answers are up to 0.1 s old
    first, cursor = page(0, 1)
    check(cursor != 0, 'all rows in one page')
    check(owners & set(keys(d, 'ops', disk)), 'too slow: moved already')
    wait_for(lambda: not owners & set(keys(d, 'ops', disk)), 30, 'everything moved')
    rest, cursor = page(cursor, 1000)
    equal(cursor, 0, 'cursor after the last page')
    got = {r['unit']: r['count'] for r in first + rest}
    equal({u: got.get(u) for u in units}, units, 'fsyncs by unit')


def test_killed_while_moving(t):
    d, disk = t.enter(daemon(t, env=HURRY)), t.enter(ext4())
    units = {}
    for n in range(60):
        unit, _ = run_of(f'{n}.service', disk, 3)
        units[unit] = 3
    for n in range(12):
        time.sleep(0.15)
        d.kill9()
        d.start()
    wait_for(lambda: all(is_folded(o) or o <= 1 for o in keys(d, 'ops', disk)), 30, 'everything moved')
    got = fsyncs(d, disk)
    equal({u: got.get(u) for u in units}, units, 'fsyncs by unit')


def test_too_many_units(t):
    d, disk = t.enter(daemon(t, config=FEW, env=HURRY)), t.enter(ext4())
    count = 0
    for n in range(60):
        run_of(f'{n}.service', disk, 2)
        count += 2
    wait_for(lambda: len(set(keys(d, 'ops', disk))) <= 17, 40, 'few units left')
    got = fsyncs(d, disk)
    check(got.get('(exited)', 0) >= 2 * (60 - 16), f'few in (exited): {got}')
    own = {u: c for u, c in got.items() if u.startswith(('iolat-test', '(exited)'))}
    equal(sum(own.values()), count, 'fsyncs of all units')


def test_too_many_units_while_more_come(t):
    """On a machine where some unit always has just ended, older ones go to (exited) all the same."""
    d, disk = t.enter(daemon(t, config=FEW, env=HURRY)), t.enter(ext4())
    t.enter(cgroup('keeps-the-slice.service'))
    for n in range(160):
        run_of(f'{n}.service', disk, 2)
        time.sleep(0.03)
    # Those of the last second and the sixteen, and what the machine does by itself.
    left = len(set(keys(d, 'ops', disk)))
    check(left <= 80, f'{left} units are kept apart')
    wait_for(lambda: sum(c for u, c in fsyncs(d, disk).items() if u.startswith(('iolat-test', '(exited)'))) == 320, 10,
             'fsyncs of all units')


if __name__ == '__main__':
    harness.main()
