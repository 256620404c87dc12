# SPDX-License-Identifier: LGPL-2.1-or-later
"""The percentiles are those that the caller saw."""

import json
import shutil
import time

import harness
from harness import cases, check, equal, skip
from product import daemon, row_value
from rig import cgroup, ext4, slow_ext4, workload

BUCKET = 0.125
CALL_NSEC = 3000  # entering and leaving the system call, and looking at the clock


class Rig:
    def __init__(self, t):
        self.daemon = t.enter(daemon(t))
        self.disk = t.enter(ext4())


def setup(t):
    return Rig(t)


def near(got, seen, what):
    allowed = BUCKET * max(got, seen) + CALL_NSEC
    check(abs(got - seen) <= allowed, f'{what}: iolat says {got} ns, the caller saw {seen} ns, more than {allowed:.0f} apart')


def total(d, unit, op):
    rows = d.rows(unit, op=op, phase='total')
    equal(len(rows), 1, f'rows of {op} of {unit}')
    return rows[0]


def within_tries(tries, function):
    """The caller can be preempted between its clock and the call, which moves p99 of few samples."""
    for n in range(tries):
        try:
            return function()
        except AssertionError:
            if n == tries - 1:
                raise
    return None


def test_percentiles_of_fio(t):
    if not shutil.which('fio'):
        skip('no fio')
    d = t.rig.daemon

    def once():
        group = t.enter(cgroup('a.service'))
        path = t.directory(parent=t.rig.disk.mount_point)
        r = group.run('fio', '--name=f', f'--directory={path}', '--rw=write', '--bs=4k', '--size=12m', '--fsync=1',
                      '--create_fsync=0', '--percentile_list=50:99', '--output-format=json', cwd=path)
        sync = json.loads(r.stdout)['jobs'][0]['sync']
        d.expect_counts(group.unit, {'fsync': sync['total_ios']})
        row = total(d, group.unit, 'fsync')
        near(row['p50NSec'], sync['lat_ns']['percentile']['50.000000'], 'p50')
        near(row['p99NSec'], sync['lat_ns']['percentile']['99.000000'], 'p99')
        check(row['maxNSec'] <= sync['lat_ns']['max'], 'max is above what fio saw')
    within_tries(3, once)


@cases('fsync', 'fdatasync', 'odsync', 'dread', 'dwrite')
def test_percentiles_of_own_workload(t, kind):
    d = t.rig.daemon
    op = {'odsync': 'syncwrite'}.get(kind, kind)
    options = {'prepare': '4M'} if kind in ('dread', 'dwrite') else {}
    if kind in ('fsync', 'fdatasync'):
        options = {'write': 4096, 'pattern': 'append'}

    def once():
        group = t.enter(cgroup('a.service'))
        seen = workload(kind, t.directory(parent=t.rig.disk.mount_point) / 'file', group, count=3000, **options)
        d.expect_counts(group.unit, {op: 3000})
        row = total(d, group.unit, op)
        check(row['p50NSec'] <= row['p90NSec'] <= row['p99NSec'] <= row['maxNSec'], 'percentiles are out of order')
        check(row['maxNSec'] <= seen['maxNSec'], 'max is above what the caller saw')
        check(row['sumNSec'] <= seen['sumNSec'], 'sum is above what the caller saw')
        near(row['p50NSec'], seen['p50NSec'], 'p50')
        near(row['p99NSec'], seen['p99NSec'], 'p99')
    within_tries(3, once)


def test_nothing_is_above_wall_clock(t):
    d = t.rig.daemon
    disk = t.enter(slow_ext4())
    group = t.enter(cgroup('a.service'))
    began = time.monotonic_ns()
    disk.delay(fsync=100)
    seen = workload('fsync', disk.path('file'), group, threads=4, count=3, write=4096)
    disk.delay()
    d.expect_counts(group.unit, {'fsync': 12})
    wall = time.monotonic_ns() - began
    for r in d.json('list', group.unit):
        check(r['maxNSec'] <= wall, f'{r["op"]} {r["phase"]}: max {r["maxNSec"]} ns in a test of {wall} ns')
    check(row_value(d.rows(group.unit, op='fsync', phase='total')) <= seen['sumNSec'], 'sum is above the callers\' own')


def test_histogram_has_every_operation(t):
    d = t.rig.daemon
    group = t.enter(cgroup('a.service'))
    workload('fsync', t.rig.disk.path('histogram'), group, count=300, write=4096)
    d.expect_counts(group.unit, {'fsync': 300})
    histogram = d.json('histogram', group.unit)
    equal(sum(b['count'] for b in histogram['buckets']), 300, 'operations in the buckets')
    edges = [b['upperNSec'] for b in histogram['buckets']]
    equal(edges, sorted(set(edges)), 'bucket edges')


if __name__ == '__main__':
    harness.main()
