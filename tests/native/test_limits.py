# SPDX-License-Identifier: LGPL-2.1-or-later
"""What does not fit is counted as lost, and said."""

import contextlib

import clients
import harness
from harness import cases, check, equal
from product import IOLATD, daemon, settled
from rig import cgroup, ext4, finish, release, start_workload, workload

SMALL = {'IOLAT_TEST_MAP_ENTRIES': '16'}
UNITS = 32
PEER_CONNECTIONS_MAX = 128
QUERY_SEC = 0.1
MEMORY_MAX = 16 << 20


def crowd(t, disk, kind, **options):
    """64 threads in 32 cgroups. Returns cgroups and what they did together."""
    groups = [t.enter(cgroup(f'{n}.service')) for n in range(UNITS)]
    processes = [start_workload(kind, disk.path(f'{kind}{n}'), g, threads=2, count=50, barrier=True, **options)
                 for n, g in enumerate(groups)]
    release(*processes)
    return groups, sum(finish(p)['count'] for p in processes)


@cases('fsync', 'dwrite')
def test_full_maps(t, kind):
    d, disk = t.enter(daemon(t, env=SMALL)), t.enter(ext4())
    options = {'write': 4096, 'pattern': 'append'} if kind == 'fsync' else {'prepare': '64K'}
    groups, done = crowd(t, disk, kind, **options)
    # The rest of the machine goes on doing I/O, and losing it: wait for our own operations only.
    settled(lambda: [r['count'] for r in d.rows(op=kind, phase='total') if r['device'] == disk.device])
    losses = d.losses()
    check(losses, 'nothing was counted as lost')
    units = {g.unit for g in groups}
    rows = [r for r in d.rows(op=kind, phase='total') if r['unit'] in units or r['unit'].startswith('(')]
    counted = sum(r['count'] for r in rows if r['device'] == disk.device)
    check(counted <= done, f'{counted} of {done} counted')
    check(any(p['state'] == 'degraded' for p in d.probes()), f'probes does not say degraded (losses: {losses})')
    lost = losses.get('op-map-full', 0) + losses.get('inflight-dio-full', 0) + losses.get('task-storage', 0)
    check(counted + lost >= done, f'{counted} counted and {lost} lost of {done} (losses: {losses})')
    equal(d.process.poll(), None, 'exit code of iolatd')
    d.kill9()
    d.start()
    check(d.lost() >= sum(losses.values()), 'losses were forgotten by a restart')


def test_nothing_lost_by_default(t):
    d, disk = t.enter(daemon(t)), t.enter(ext4())
    groups, done = crowd(t, disk, 'fsync', write=4096, pattern='append')
    units = {g.unit for g in groups}

    def counted():
        return sum(r['count'] for r in d.rows(op='fsync', phase='total') if r['unit'] in units)
    with contextlib.suppress(AssertionError):
        harness.wait_for(lambda: counted() == done, what='counted')
    equal(counted(), done, 'fsyncs of all units')
    # Completions that this kernel shows to no program (softirq) may be noticed as missed.
    equal({k: v for k, v in d.losses().items() if k != 'completion-missed'}, {}, 'losses')


def test_paging(t):
    """More rows than one reply holds."""
    d, disk = t.enter(daemon(t)), t.enter(ext4())
    units = set()
    for n in range(400):
        with cgroup(f'{n}.service') as group:
            units.add(group.unit)
            workload('fsync', disk.path('file'), group, write=4096)
    settled(lambda: sorted(r['unit'] for r in d.rows(op='fsync', phase='total') if r['unit'] in units))
    rows = d.json('list')
    check(len(rows) > 1000, f'only {len(rows)} rows')
    equal({r['unit'] for r in rows if r['op'] == 'fsync' and r['phase'] == 'total'} & units, units, 'units listed')
    keys = [(r['unit'], r['userUnit'], r['op'], r['phase'], r['device'], r['origin'], r['async']) for r in rows]
    equal(len(keys), len(set(keys)), 'number of rows by key')


USERS, EACH = 20, 50


def test_thousand_idle_connections(t):
    """And two that do not read: others do not wait, and the daemon needs little more memory."""
    d = t.enter(daemon(t))
    before = d.resident_bytes()

    def begin(*children):
        for c in children:
            t.defer(c.close)
        for c in children:
            c.wait()
        return children
    asking = begin(clients.asking_on_dbus(d.socket, 0, 5), clients.asking_on_dbus(d.socket, 30001, 5))
    idle = begin(*(clients.idle(d.socket, 20000 + n, EACH, clients.dbus_greeting(20000 + n)) for n in range(USERS)))
    begin(*(clients.deaf_on_dbus(d.socket, 30000) for _ in range(2)))
    seconds = [c.ask() for c in asking]
    grown = d.resident_bytes() - before
    left = sum(c.ask() for c in idle)
    harness.diagnose(f'{left} of {USERS * EACH} connections are left, a query took up to {max(seconds) * 1000:.1f} ms, '
                     f'{grown >> 10} KiB more')
    check(0 < left <= PEER_CONNECTIONS_MAX, f'{left} connections are left')
    check(max(seconds) < QUERY_SEC, f'a query took {max(seconds) * 1000:.0f} ms')
    if b'__asan_init' not in IOLATD.read_bytes():  # it keeps what was freed
        check(grown < MEMORY_MAX, f'{grown >> 10} KiB more')


if __name__ == '__main__':
    harness.main()
