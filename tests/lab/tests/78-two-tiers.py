#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-*
# timeout: 500
"""Both tiers, loaded side by side, count the same on ext4; how the phases that one derives differ from those that the
other measures is printed."""

import json
import pathlib
import tempfile

import disks
import lab
import measure
from harness import cases, check, diagnose, equal, run, skip, start, stop, wait_for

IOLATD = '/usr/lib/iolat/iolatd'
N = 30


class Rig(lab.Rig):
    """A second iolatd, of the other tier, with what it needs to itself."""

    def __init__(self, t):
        super().__init__(t)
        if not measure.is_function_tier():
            skip('there is only one tier here')
        base = pathlib.Path(t.enter(tempfile.TemporaryDirectory(prefix='two-', dir='/run/iolat-lab')))
        for name in ('bpffs', 'run'):
            (base / name).mkdir()
        run('mount', '-t', 'bpf', 'bpf', base / 'bpffs')
        t.defer(run, 'umount', base / 'bpffs')
        self.socket = base / 'run/bus'
        self.log = open(base / 'log', 'w+')
        daemon = start(IOLATD, f'--bpffs={base / "bpffs"}', f'--runtime-dir={base / "run"}',
                       '--tier=tracepoint', '--no-bus', stderr=self.log)
        t.defer(self.end, daemon, base)
        wait_for(lambda: daemon.poll() is not None or self.answers(), 120, 'an answer of the second iolatd')
        if daemon.poll() is not None:
            self.log.seek(0)
            check(False, f'the second iolatd ended: {self.log.read()}')
        out = run('iolatctl', f'--socket={self.socket}', 'probes', '--json=short').stdout
        # Before 6.6 there are no tracepoints of direct I/O.
        self.sees_direct_io = any(r['probe'] == 'dio-begin' and (r['attached'] or '').startswith('tp_btf')
                                  for r in json.loads(out))
        self.disk = t.enter(disks.virtio())
        self.mount_point = t.enter(disks.mounted(self.disk))

    def end(self, daemon, base):
        stop(daemon)
        run('/usr/lib/iolat/iolat-probes', 'unload', f'--bpffs={base / "bpffs"}', check=False)

    def answers(self):
        return self.socket.exists() and run('iolatctl', f'--socket={self.socket}', 'probes', '--json=short',
                                            check=False).returncode == 0

    def other_rows(self, unit):
        out = run('iolatctl', f'--socket={self.socket}', 'list', unit, '--json=short').stdout
        return [r for r in json.loads(out) if r['unit'] == unit]


setup = Rig

WAYS = {
    'fsync': ('fsync', {'write': 4096, 'pattern': 'append'}),
    'clean fsync': ('fsync', {}),
    'fdatasync': ('fdatasync', {'write': 4096}),
    'msync': ('msync', {'write': 4096}),
    'O_SYNC': ('osync', {}),
    'O_DSYNC': ('odsync', {}),
    'RWF_DSYNC': ('rwf-dsync', {}),
    'direct O_DSYNC': ('odsync', {'direct': True}),
    'direct read': ('dread', {'prepare': '1M'}),
    'direct write': ('dwrite', {}),
    'io_uring fsync': ('fsync', {'engine': 'uring', 'write': 4096}),
    'io_uring O_SYNC': ('osync', {'engine': 'uring'}),
    'AIO fsync': ('fsync', {'engine': 'aio', 'write': 4096}),
    'directory fsync': ('fsync-dir', {'write': 1}),
    'four threads': ('fsync', {'threads': 4, 'write': 4096, 'pattern': 'append'}),
    '1 MB': ('fsync', {'write': '1M', 'pattern': 'append'}),
}


def counted(rows):
    """What both tiers see: (op, device) -> count."""
    result = {}
    for r in rows:
        if r['op'] in lab.SYNC_OPS and r['phase'] == 'total':
            result[r['op'], r['device']] = result.get((r['op'], r['device']), 0) + r['count']
    return result


def requests(rows):
    """(op, origin) -> count, bytes"""
    result = {}
    for r in rows:
        if r['op'].startswith('rq-') and r['phase'] == 'device':
            n, size = result.get((r['op'], r['origin']), (0, 0))
            result[r['op'], r['origin']] = n + r['count'], size + r['bytes']
    return result


def shares(rows):
    """phase -> percent of all totals"""
    phases = {}
    for r in rows:
        if r['op'] in lab.SYNC_OPS and r['phase'] != 'runqueue':
            phases[r['phase']] = phases.get(r['phase'], 0) + r['sumNSec']
    total = phases.pop('total', 0) or 1
    return {k: 100 * v / total for k, v in phases.items()}, total


@cases(*WAYS)
def test_same_counts(t, way):
    kind, options = WAYS[way]
    unit = lab.unit_name()
    directory = t.directory(parent=t.rig.mount_point)
    lab.workload(unit, kind, directory if kind == 'fsync-dir' else directory / 'file', count=N, **options)
    measured = lab.settled(lambda: counted(lab.rows(unit, unit=unit)))
    derived = lab.settled(lambda: counted(t.rig.other_rows(unit)))
    if not t.rig.sees_direct_io:
        measured = {k: n for k, n in measured.items() if k[0] not in ('dread', 'dwrite')}
    equal(derived, measured, f'counts of the tracepoint tier against the function tier ({lab.health()})')

    here, there = lab.rows(unit, unit=unit), t.rig.other_rows(unit)
    equal(requests(there), requests(here), 'requests of the tracepoint tier against the function tier')
    (a, total_a), (b, total_b) = shares(here), shares(there)
    diagnose(f'{way}: totals measured {measure.msec(total_a)}, derived {measure.msec(total_b)}; difference in percent '
             f'of the total: ' + ', '.join(f'{p} {b.get(p, 0) - a.get(p, 0):+.1f} (measured {a.get(p, 0):.1f})'
                                           for p in sorted(a.keys() | b.keys())))


if __name__ == '__main__':
    lab.main()
