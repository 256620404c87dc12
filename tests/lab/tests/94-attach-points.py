#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-*
# timeout: 900
# long
"""The same fsyncs measured at tracepoints, at trampolines and at kprobes: what each way adds, and that what each reports
is what the program that calls fsync() sees itself."""

import json
import pathlib
import tempfile

import disks
import lab
import measure
from harness import cases, check, diagnose, run, skip, start, stop, wait_for

PROBES, IOLATD = '/usr/lib/iolat/iolat-probes', '/usr/lib/iolat/iolatd'
TIERS = ('tracepoint', 'function', 'kprobe')
N = 300
CALIBRATE_SEC = 4
DELAY_NSEC = 4 * measure.MSEC
# Of buckets an eighth of a power of two wide, and of a call around what is measured.
LOW, HIGH = 0.8, 1.1


class Iolat:
    """iolatd of one tier, with all that it needs to itself."""

    def __init__(self, t, tier):
        self.base = pathlib.Path(t.enter(tempfile.TemporaryDirectory(prefix='tier-', dir='/run/iolat-lab')))
        for name in ('bpffs', 'run', 'state'):
            (self.base / name).mkdir()
        run('mount', '-t', 'bpf', 'bpf', self.base / 'bpffs')
        t.defer(run, 'umount', self.base / 'bpffs')
        self.bpffs = f'--bpffs={self.base / "bpffs"}'
        t.defer(self.unload)
        self.socket = self.base / 'run/bus'
        daemon = start(IOLATD, self.bpffs, f'--runtime-dir={self.base / "run"}', f'--state-dir={self.base / "state"}',
                       f'--tier={tier}', '--no-bus')
        t.defer(stop, daemon)
        wait_for(lambda: daemon.poll() is not None or self.answers(), 120, 'an answer of iolatd')
        if daemon.poll() is not None:
            skip(f'this kernel does not have the {tier} tier')

    def unload(self):
        run(PROBES, 'unload', self.bpffs, check=False)

    def call(self, *args, check=True):
        return run('iolatctl', f'--socket={self.socket}', *args, '--json=short', check=check)

    def answers(self):
        return self.socket.exists() and self.call('probes', check=False).returncode == 0

    def probes(self):
        return {r['probe']: r for r in json.loads(self.call('probes').stdout) if r['kind'] == 'probe'}

    def rows(self, unit):
        return [r for r in json.loads(self.call('list', unit).stdout) if r['unit'] == unit]


class Rig:
    """The installed one is stopped meanwhile: each way is measured alone."""

    def __init__(self, t):
        run('systemctl', 'stop', 'iolatd.service')
        t.defer(run, 'systemctl', 'start', 'iolatd.service')
        run(PROBES, 'unload')
        self.disk = t.enter(disks.null_blk(size=256, memory_backed=1))
        self.slow = t.enter(disks.null_blk(size=256, memory_backed=1, irqmode=2, completion_nsec=DELAY_NSEC))
        self.fast_path = t.enter(disks.mounted(self.disk)) / 'file'
        self.slow_path = t.enter(disks.mounted(self.slow)) / 'file'


setup = Rig


def cost(iolat, path):
    """Hits and nanoseconds per fsync, by calibration."""
    load = lab.start_workload(lab.unit_name('load'), 'fsync', path, count=10**6, write=4096, pattern='append')
    try:
        run(PROBES, 'calibrate', f'--seconds={CALIBRATE_SEC}', iolat.bpffs)
    finally:
        load.stop()
    before = iolat.probes()
    lab.workload(lab.unit_name('cost'), 'fsync', path, count=N, write=4096, pattern='append')
    hits = ns = 0
    for name, after in iolat.probes().items():
        n = after['hits'] - before[name]['hits']
        if n >= N / 10:
            hits += n
            ns += n * (after['nsPerHit'] or 0)
    return hits / N, ns / N


@cases(*TIERS)
def test_attach_points(t, tier):
    if tier == 'kprobe' and not pathlib.Path('/sys/bus/event_source/devices/kprobe/type').exists():
        skip('this kernel has no kprobes')
    iolat = Iolat(t, tier)
    kinds = {r['attached'].partition(':')[0] for r in iolat.probes().values() if r['attached']}
    hits, ns = cost(iolat, t.rig.fast_path)
    check(hits > 5 and ns > 0, f'{hits} hits, {ns} ns')

    unit = lab.unit_name()
    seen = lab.workload(unit, 'fsync', t.rig.slow_path, count=N, write=4096, pattern='append')
    rows = lab.settled(lambda: iolat.rows(unit))
    total = [r for r in rows if r['op'] == 'fsync' and r['phase'] == 'total']
    check(len(total) == 1 and total[0]['count'] == N, f'fsyncs: {total}')
    total = total[0]
    journal = {r['phase']: r for r in rows if r['op'] == 'fsync'}.get('journal', {})
    requests = [r for r in rows if r['op'] == 'rq-write' and r['phase'] == 'device']
    device = max(requests, key=lambda r: r['count'], default={})
    diagnose(f'{tier} ({", ".join(sorted(kinds))}): {hits:.1f} hits, {ns:.0f} ns per fsync; p50 and p99: '
             f'fsync {measure.msec(total["p50NSec"])}, {measure.msec(total["p99NSec"])} '
             f'(the caller: {measure.msec(seen["p50NSec"])}, {measure.msec(seen["p99NSec"])}); '
             f'journal {measure.msec(journal.get("p50NSec", 0))}, {measure.msec(journal.get("p99NSec", 0))}; '
             f'request {measure.msec(device.get("p50NSec", 0))}, {measure.msec(device.get("p99NSec", 0))}')
    ratio = total['p50NSec'] / seen['p50NSec']
    check(LOW <= ratio <= HIGH, f'p50 {total["p50NSec"]} ns, of the caller {seen["p50NSec"]} ns')
    check(device.get('p50NSec', 0) >= LOW * DELAY_NSEC, f'a request of a disk that takes {DELAY_NSEC} ns: {device}')
    check(journal.get('p50NSec', 0) >= LOW * DELAY_NSEC, f'a wait for a commit: {journal}')


if __name__ == '__main__':
    lab.main()
