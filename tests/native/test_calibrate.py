# SPDX-License-Identifier: LGPL-2.1-or-later
"""What measuring costs is measured, and told with what was measured."""

import contextlib
import ctypes
import itertools
import json
import os
import pathlib
import re
import signal
import time

import harness
from harness import cases, check, equal, libc, run, start, stop, wait_for
from product import PROBES, daemon
from rig import cgroup, ext4, start_workload, workload

MAIN_PROBES = ('sync-enter', 'sync-exit', 'data-written', 'flush', 'request-create', 'request-issue',
               'request-complete', 'commit-start', 'commit-locking', 'commit-flushing', 'commit-logging', 'commit-end',
               'handle-stats')
PROGRAMS = {  # of the tracepoint tier
    'sync-enter': 'sync_enter', 'sync-exit': 'sync_exit', 'data-written': 'writepages_result', 'flush': 'own_flush',
    'request-create': 'rq_create', 'request-issue': 'rq_issue', 'request-complete': 'rq_complete',
    'commit-start': 'commit_start', 'commit-locking': 'commit_locking', 'commit-flushing': 'commit_flushing',
    'commit-logging': 'commit_logging', 'commit-end': 'commit_end', 'handle-stats': 'handle_stats_stub',
    'dio-begin': 'dio_begin', 'dio-complete': 'dio_complete',
}
RATE = 1000

numbers = itertools.count(1)

INSIDE = [p for p in MAIN_PROBES if p not in ('sync-exit', 'handle-stats')]  # of the interval that is an fsync's total
OF_REQUESTS = ('flush', 'request-create', 'request-issue', 'request-complete')

SYS_BPF = {'x86_64': 321, 'aarch64': 280}[os.uname().machine]
BPF_OBJ_GET, BPF_OBJ_GET_INFO_BY_FD, BPF_ENABLE_STATS = 7, 15, 32
RUN_TIME_OFFSET = 192  # of run_time_ns and run_cnt in struct bpf_prog_info


def bpf(command, attr):
    r = libc.syscall(SYS_BPF, command, attr, len(attr))
    if r < 0:
        raise OSError(ctypes.get_errno(), f'bpf command {command}')
    return r


@contextlib.contextmanager
def pinned(path):
    name = ctypes.create_string_buffer(str(path).encode())
    fd = bpf(BPF_OBJ_GET, ctypes.create_string_buffer(ctypes.addressof(name).to_bytes(8, 'little') + bytes(8)))
    try:
        yield fd
    finally:
        os.close(fd)


def run_time(directory, program):
    """Run time in ns and number of runs of a pinned program, by our own reading."""
    info = ctypes.create_string_buffer(256)
    with pinned(directory / 'progs' / program) as fd:
        bpf(BPF_OBJ_GET_INFO_BY_FD, ctypes.create_string_buffer(
            fd.to_bytes(4, 'little') + len(info).to_bytes(4, 'little') +
            ctypes.addressof(info).to_bytes(8, 'little')))
    return tuple(int.from_bytes(info[o:o + 8], 'little') for o in (RUN_TIME_OFFSET, RUN_TIME_OFFSET + 8))


@contextlib.contextmanager
def statistics():
    fd = bpf(BPF_ENABLE_STATS, ctypes.create_string_buffer(4))
    try:
        yield
    finally:
        os.close(fd)


def generation(d):
    return next(p for p in (pathlib.Path(d.bpffs) / 'iolat').iterdir() if p.name.isdigit())


class Reading:
    """What the statistics say about the programs in between."""

    def __init__(self, d):
        self.directory = generation(d)
        self.before = self.read()

    def read(self):
        return {probe: run_time(self.directory, program) for probe, program in PROGRAMS.items()}

    def difference(self):
        now = self.read()
        return {p: (now[p][0] - b[0], now[p][1] - b[1]) for p, b in self.before.items()}


class Rig:
    def __init__(self, t):
        self.daemon = t.enter(daemon(t))
        if not any(p['probe'] == 'sync-enter' and p['attached'] for p in self.daemon.probes('probe')):
            harness.skip('written for the tracepoint tier')
        self.disk = t.enter(ext4())
        self.group = t.enter(cgroup('a.service'))


def setup(t):
    return Rig(t)


def calibrate(d, seconds=2, **kwargs):
    return run(PROBES, 'calibrate', f'--bpffs={d.bpffs}', f'--seconds={seconds}', **kwargs)


@contextlib.contextmanager
def load(rig, kind='fsync', **options):
    """A file is appended to and synced, or read, meanwhile."""
    options = options or {'write': 4096, 'pattern': 'append'}
    path = rig.disk.path(f'load{next(numbers)}')
    p = start_workload(kind, path, rig.group, count=1000000, rate=RATE, **options)
    try:
        time.sleep(0.3)
        yield
        equal(p.poll(), None, 'exit code of the load')
    finally:
        stop(p, signal.SIGKILL)
        path.unlink()


def costs(d):
    return {p['probe']: p for p in d.probes('probe')}


def bias(d, op, phase='total'):
    return next((r for r in d.probes('bias') if r['probe'] == op and r['phase'] == phase), None)


def statistics_are_on(t):
    reading = Reading(t.rig.daemon)
    workload('fsync', t.rig.disk.path('any'), t.rig.group, count=50, write=4096)
    return any(grown != (0, 0) for grown in reading.difference().values())


def sysctl():
    return pathlib.Path('/proc/sys/kernel/bpf_stats_enabled').read_text().strip()


def expect_off_before(t):
    """Nobody else on this machine has them on."""
    try:
        wait_for(lambda: sysctl() == '0' and not statistics_are_on(t), 20)
    except AssertionError:
        harness.skip('somebody else has statistics on')


def expect_off(t, what):
    if sysctl() != '0': # which the product never writes
        harness.skip('somebody else has statistics on')
    check(not statistics_are_on(t), f'statistics are on after {what}')


def test_before_any_calibration(t):
    d = t.rig.daemon
    for p in d.probes('probe'):
        equal((p['nsPerHit'], p['cpuShare'], p['sampledHits']), (None, None, None), f'costs of {p["probe"]}')
    equal(d.probes('floor') + d.probes('bias'), [], 'rows of what nobody has measured')


def test_figures(t):
    """They are about what our own reading of the same statistics, at another time, gives."""
    d, rig = t.rig.daemon, t.rig
    with load(rig):
        calibrate(d)
        with statistics():
            reading = Reading(d)
            time.sleep(1.5)
            own = reading.difference()
    got = costs(d)
    for probe in MAIN_PROBES:
        ns, runs = own[probe]
        check(runs > 10, f'{probe} ran {runs} times only')
        check(got[probe]['nsPerHit'], f'{probe} has no figure')
        check(got[probe]['sampledHits'] >= 10, f'{probe}: {got[probe]}')
        if probe == 'flush':  # runs for each bio, but not each is a hit
            continue
        ratio = got[probe]['nsPerHit'] / (ns / runs)
        check(1 / 3 < ratio < 3, f'{probe}: {got[probe]["nsPerHit"]} ns, by our own reading {ns / runs:.0f}')
    floor, = d.probes('floor')
    check(5 < floor['nsPerHit'] < min(got[p]['nsPerHit'] for p in MAIN_PROBES), f'floor: {floor}')
    check(re.search(r'sync-enter .*\d+ ns a hit', run(PROBES, 'show', f'--bpffs={d.bpffs}').stdout), 'not shown')


def test_statistics_are_off(t):
    expect_off_before(t)
    calibrate(t.rig.daemon, 1)
    expect_off(t, 'a calibration')


def test_killed(t):
    d = t.rig.daemon
    expect_off_before(t)
    before = {p: c['nsPerHit'] for p, c in costs(d).items()}
    p = start(PROBES, 'calibrate', f'--bpffs={d.bpffs}', '--seconds=30')
    wait_for(lambda: statistics_are_on(t), what='statistics')
    stop(p, signal.SIGKILL)
    expect_off(t, 'a calibration that was killed')
    equal({p: c['nsPerHit'] for p, c in costs(d).items()}, before, 'figures after a calibration that was killed')


def test_rates(t):
    """hitsPerSec is of the last interval, and not changed by who asks; cpuShare is about what is measured."""
    d, rig = t.rig.daemon, t.rig
    with load(rig, 'dread', prepare='1M'):
        calibrate(d)
        with statistics():
            reading, began = Reading(d), time.monotonic()
            hits = costs(d)['dio-begin']['hits']
            seen, counted = set(), []
            while time.monotonic() < began + 11:
                now = costs(d)['dio-begin']
                seen.add(now['hitsPerSec'])
                counted.append((time.monotonic(), now['hits']))
                time.sleep(0.1)
            seconds = time.monotonic() - began
            own, got = reading.difference(), costs(d)
    check(2 <= len(seen) <= 4, f'rates seen in 11 s of asking 10 times a second: {seen}')
    rate = (got['dio-begin']['hits'] - hits) / seconds
    # Others may do some of it, and at another rate.
    rates = [(h2 - h1) / (t2 - t1) for (t1, h1), (t2, h2) in zip(counted, counted[45:])]
    check(min(rates) / 1.5 < got['dio-begin']['hitsPerSec'] < max(rates) * 1.5, f'{got["dio-begin"]}, counted {rates}')
    for probe in ('dio-begin', 'request-issue', 'request-complete'):
        share, c = own[probe][0] / 1e9 / seconds, got[probe]
        product = c['nsPerHit'] * c['hitsPerSec'] / 1e9
        check(abs(c['cpuShare'] - product) <= 0.01 * product, f'{c}, product {product}')
        if max(rates) < 1.3 * min(rates):
            check(share / 3 < c['cpuShare'] < share * 3, f'{probe}: {c["cpuShare"]}, measured {share}')

    def follows():
        before = costs(d)['dio-begin']['hits']
        time.sleep(1)
        now = costs(d)['dio-begin']
        others = now['hits'] - before
        return now['hitsPerSec'] < others * 3 + rate / 10
    wait_for(follows, 15, 'rate that falls when nothing happens')


def count(d, op, unit=None):
    return sum(r['count'] for r in d.rows(op=op, phase='total') if unit in (None, r['unit']))


def test_bias_of_fsync(t):
    """About the run time of the programs in between, divided by the number of fsyncs."""
    rig = t.rig
    with daemon(t) as d, load(rig):  # with nothing older in its sums
        for _ in range(4):
            calibrate(d)
            sampled = costs(d)['request-complete']['sampledHits']
            before, disk = count(d, 'fsync', rig.group.unit), rig.disk.stat()
            with statistics():
                reading = Reading(d)
                time.sleep(2)
                own = reading.difference()
            n = count(d, 'fsync', rig.group.unit) - before
            requests = sum(rig.disk.stat()[k] - disk[k] for k in ('writes', 'flushes'))
            others = max(own['sync-enter'][1] / n, own['commit-start'][1] / n, own['request-create'][1] / requests,
                         sampled / own['request-complete'][1])
            if others < 1.2:
                break
        else:
            harness.skip('others sync files and make requests all the time')
        b = bias(d, 'fsync')
        check(b, f'no row: {d.probes("bias")}')
        # Of requests those of this disk.
        expected = sum(own[p][0] / n if p not in OF_REQUESTS else own[p][0] / own[p][1] * requests / n for p in INSIDE)
        harness.diagnose(f'{b}; measured {expected:.0f} ns in each of {n} fsyncs, {requests} requests; ' +
                         ', '.join(f'{p} {own[p][0] / n:.0f} ns {own[p][1] / n:.2f}x' for p in own))
        check(expected / 2 < b['addedNSec'] < expected * 2, f'{b}, measured {expected}')
        check(b['p50NSec'] > 0 and abs(b['share'] - b['addedNSec'] / b['p50NSec']) < 0.001, f'share: {b}')
        text = d.text('probes')
        check(re.search(r"Measuring adds ~\d\S* \(\d\S*%\) to fsync's p50 of \d", text), text)
        check(re.search(r"to rq-write's p50 in the queue of \d", text), text)
        check('An empty program shows as' in text and 'of one CPU' in text, text)


def test_p50_is_the_one_reported(t):
    rig = t.rig
    with daemon(t) as d:
        with load(rig, 'dread', prepare='1M'):
            calibrate(d)
        b = bias(d, 'dread')
        reported = [r['p50NSec'] for r in d.rows(op='dread', phase='total') if r['origin'] is None]
        check(min(reported) <= b['p50NSec'] <= max(reported), f'{b}, {reported}')


@cases('sync', 'uring', 'aio')
def test_bias_of_direct_io(t, engine):
    """One begin and one request for each, which are the same that request rows tell of."""
    rig = t.rig
    with daemon(t) as d:
        with load(rig, 'dread', prepare='1M', engine=engine):
            calibrate(d)
            c = costs(d)
        if count(d, 'dread') > 1.05 * count(d, 'dread', rig.group.unit):
            harness.skip('others do direct reads')
        b, queue = bias(d, 'dread'), bias(d, 'rq-read', 'queue')
        least = sum(c[p]['nsPerHit'] for p in ('dio-begin', 'request-create', 'request-issue', 'request-complete'))
        check(least * 0.9 < b['addedNSec'] < least * 1.5, f'{b}, one of each program {least}')
        check(abs(queue['addedNSec'] - c['request-issue']['nsPerHit']) <= 1, f'{queue}')
        check(not bias(d, 'write'), 'a row of what was not done')


def test_figures_last(t):
    """Over a restart of the daemon, a new generation, and a calibration without hits; but not over other programs."""
    d, rig = t.rig.daemon, t.rig
    with load(rig):
        calibrate(d)

    def figures():
        return {p: c['nsPerHit'] for p, c in costs(d).items() if p in MAIN_PROBES}
    before, added = figures(), bias(d, 'fsync')['addedNSec']
    check(all(before.values()), f'{before}')
    d.restart()
    equal(figures(), before, 'figures after a restart')
    again = bias(d, 'fsync')['addedNSec']
    check(added * 0.8 < again < added * 1.2, f'bias after a restart: {again}, was {added}')
    run(PROBES, 'load', '--force', f'--bpffs={d.bpffs}')
    equal(figures(), before, 'figures after a new generation')
    rig.disk.sync()
    time.sleep(0.5)
    reading = Reading(d)
    with statistics():
        calibrate(d, 1)
    rare = [p for p, (_, runs) in reading.difference().items() if runs < 10 and p in before]
    if not rare:
        harness.skip('others do everything all the time')
    equal({p: figures()[p] for p in rare}, {p: before[p] for p in rare}, 'figures after a second without hits')


def test_errors(t):
    d = t.rig.daemon
    for bad in ('0', '-1', '3601', '1s', ''):
        r = run(PROBES, 'calibrate', f'--bpffs={d.bpffs}', f'--seconds={bad}', check=False)
        check(r.returncode == 1 and '--seconds=' in r.stderr, f'--seconds={bad}: {r.returncode} {r.stderr}')
    r = run('setpriv', '--bounding-set=-all', '--inh-caps=-all', PROBES, 'calibrate', f'--bpffs={d.bpffs}',
            '--seconds=1', check=False)
    check(r.returncode == 1 and 'CAP_SYS_ADMIN' in r.stderr, f'without capabilities: {r.returncode} {r.stderr}')
    r = run('setpriv', '--bounding-set=-all,+sys_admin', '--inh-caps=-all', PROBES, 'calibrate',
            f'--bpffs={d.bpffs}', '--seconds=1', check=False)
    equal((r.returncode, r.stderr.count('\n')), (0, 1), f'with CAP_SYS_ADMIN alone: {r.stderr}')
    with daemon(t, started=False) as other:
        r = run(PROBES, 'calibrate', f'--bpffs={other.bpffs}', '--seconds=1', check=False)
        check(r.returncode == 1 and 'load' in r.stderr, f'nothing loaded: {r.returncode} {r.stderr}')


def test_json(t):
    keys = {tuple(r) for r in json.loads(t.rig.daemon.text('probes', '--json=short'))}
    equal(len(keys), 1, 'sets of keys')


if __name__ == '__main__':
    harness.main()
