# SPDX-License-Identifier: LGPL-2.1-or-later
"""iolatctl keeps its contracts: JSON to the letter, exit codes, and no ioctl."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import threading
import time

import harness
from harness import cases, check, equal, run, skip
from product import CTL, daemon, settled
from rig import cgroup, ext4, workload

ROW_KEYS = ['unit', 'userUnit', 'op', 'phase', 'device', 'fsType', 'mountPoint', 'origin', 'async', 'count', 'errors',
            'bytes', 'sumNSec', 'p50NSec', 'p90NSec', 'p99NSec', 'maxNSec', 'ownedBy', 'source']
DEVICE_KEYS = ['device', 'unit', 'reads', 'writes', 'discards', 'flushes', 'emptyFlushes', 'readBytes', 'writeBytes',
               'discardBytes', 'inFlight', 'dirtyAgeP50NSec', 'dirtyAgeP99NSec', 'dirtyAgeMaxNSec']
STALL_KEYS = ['id', 'startRealtimeUSec', 'unit', 'op', 'state', 'error', 'totalNSec', 'phase', 'phases', 'steps',
              'requests', 'device', 'mountPoint', 'transaction', 'owners', 'waitNSec']
STALL_ROOT_KEYS = ['file', 'pid', 'comm', 'thread']
OPERATION_KEYS = ['spans', 'journal', 'lost']
BLAME_KEYS = ['victim', 'culprit', 'phase', 'step', 'device', 'sumNSec', 'estimated', 'weight']
PROBE_KEYS = ['probe', 'attached', 'reason', 'state', 'hits', 'misses', 'nsPerHit']
ALL_PHASES = ('total', 'data', 'io', 'throttle', 'journal', 'admission', 'flush', 'lock', 'freeze', 'reclaim', 'fs',
              'other', 'runqueue', 'queue', 'device', 'dirty-age')


class Rig:
    def __init__(self, t):
        self.daemon = t.enter(daemon(t))
        self.disk = t.enter(ext4())
        self.group = t.enter(cgroup('a.service'))
        self.unit = self.group.unit
        workload('fsync', self.disk.path('f'), self.group, count=100, write=4096, pattern='append')
        workload('dwrite', self.disk.path('d'), self.group, count=100, prepare='1M')
        self.daemon.expect_counts(self.unit, {'fsync': 100, 'dwrite': 100})


def setup(t):
    return Rig(t)


def verbs(rig):
    return {
        'list': ['list'], 'list of a unit': ['list', rig.unit], 'list by device': ['list', '--by=device'],
        'list as JSON': ['list', '--json=short'], 'list as pretty JSON': ['list', '--json=pretty'],
        'status': ['status'], 'status of a unit': ['status', rig.unit], 'status of nothing': ['status', 'no.service'],
        'histogram': ['histogram', rig.unit], 'top': ['top', '-n', '1'], 'probes': ['probes'], 'help': ['--help'],
        'version': ['--version'], 'metrics': ['metrics'], 'bad verb': ['nonsense'],
        'stalls': ['stalls'], 'stalls of a unit': ['stalls', rig.unit, '-n', '1'],
        'stalls as JSON': ['stalls', '--json=short'], 'blame': ['blame'], 'blame of a unit': ['blame', rig.unit, '-a'],
        'blame as JSON': ['blame', '--json=pretty'], 'list of a time': ['list', '--since=-1h'],
        'status of a time': ['status', '--since=-1h', '--until=now'], 'follow': ['stalls', '--follow'],
        'follow as JSON': ['stalls', '-f', '--json=short'], 'trace': ['trace'],
        'trace of a unit': ['trace', rig.unit, '--min=1ms', '--json=short'],
    }


VERBS = ('list', 'list of a unit', 'list by device', 'list as JSON', 'list as pretty JSON', 'status',
         'status of a unit', 'status of nothing', 'histogram', 'top', 'probes', 'metrics', 'help', 'version', 'bad verb', 'stalls',
         'stalls of a unit', 'stalls as JSON', 'blame', 'blame of a unit', 'blame as JSON', 'list of a time',
         'status of a time', 'follow', 'follow as JSON', 'trace', 'trace of a unit')
ENDLESS = ('follow', 'follow as JSON', 'trace', 'trace of a unit')  # these may also print nothing


def trace(t, args, stdout, endless):
    """Lines of strace that show an ioctl. What the client starts (a pager) is not followed; what does not end, and
    starts none, is interrupted."""
    log = t.directory() / 'strace'
    interrupt = ['-f', 'timeout', '--preserve-status', '-s', 'INT', '1'] if endless else []
    r = subprocess.run(['strace', '-qq', '-o', log, '-e', 'trace=ioctl', *interrupt, CTL,
                        f'--socket={t.rig.daemon.socket}', *args],
                       stdin=subprocess.DEVNULL, stdout=stdout, stderr=stdout, timeout=60,
                       env=os.environ | {'PAGER': 'cat', 'SYSTEMD_PAGER': 'cat', 'TERM': 'xterm',
                                         'ASAN_OPTIONS': 'detect_leaks=0'})  # which cannot be traced
    check(r.returncode in (0, 1, 4), f'exit code {r.returncode}')
    return re.findall(r'.*ioctl\(.*', log.read_text())


@cases(*VERBS)
def test_no_ioctl(t, verb):
    if not shutil.which('strace'):
        skip('no strace')
    args = verbs(t.rig)[verb]
    endless = verb in ENDLESS
    equal(trace(t, args, subprocess.DEVNULL, endless), [], 'ioctls, /dev/null')
    equal(trace(t, args, subprocess.PIPE, endless), [], 'ioctls, pipe')

    ours, theirs = pty.openpty()
    t.defer(os.close, ours)
    seen = []

    def drain():
        try:
            while data := os.read(ours, 65536):
                seen.append(data)
        except OSError:  # the other side is closed
            pass
    reader = threading.Thread(target=drain)
    reader.start()
    try:
        equal(trace(t, args, theirs, endless), [], 'ioctls, pseudo terminal')
    finally:
        os.close(theirs)
        reader.join(10)
    check(seen or endless, 'nothing was printed on the terminal')


def pairs(text):
    """Parsed JSON whose objects are lists of pairs, in the order in which they were printed."""
    return json.loads(text, object_pairs_hook=lambda p: p)


def test_keys_of_list(t):
    text = t.rig.daemon.text('list', '--json=short')
    rows = pairs(text)
    check(rows, 'no rows')
    for row in rows:
        equal([k for k, _ in row], ROW_KEYS, 'keys of a row')
    equal(text.count('\n'), 1, 'lines of --json=short')
    equal(json.loads(t.rig.daemon.text('list', t.rig.unit, '--json=pretty')), t.rig.daemon.json('list', t.rig.unit),
          '--json=pretty')
    equal(json.loads(t.rig.daemon.text('list', t.rig.unit, '-j')), t.rig.daemon.json('list', t.rig.unit), '-j')


def check_types(row):
    integers = ('count', 'errors', 'sumNSec', 'p50NSec', 'p90NSec', 'p99NSec', 'maxNSec')
    check(all(type(row[k]) is int and row[k] >= 0 for k in integers), f'a number is none: {row}')
    check(type(row['async']) is bool and type(row['source']) is list and row['source'], f'async or source: {row}')
    check(re.fullmatch(r'\d+:\d+', row['device']), f'device: {row}')
    check(row['phase'] in ALL_PHASES, f'phase: {row}')
    check(row['count'] > 0, f'a row without a count: {row}')
    check(row['p50NSec'] <= row['p90NSec'] <= row['p99NSec'] <= row['maxNSec'] <= row['sumNSec'], f'percentiles: {row}')
    if row['op'].startswith('rq-'):
        check(row['phase'] in ('queue', 'device') and type(row['bytes']) is int, f'request: {row}')
        check(row['op'] == 'rq-flush' or sum(row['ownedBy'].values()) == row['bytes'], f'ownedBy: {row}')
        check(row['origin'] in ('self', 'writeback', 'journal', 'loop', 'other'), f'origin: {row}')
    else:
        check(row['bytes'] is None and row['ownedBy'] is None, f'operation with bytes: {row}')


def test_types_of_list(t):
    rows = t.rig.daemon.json('list')
    for row in rows:
        check_types(row)
    keys = [(r['unit'], r['userUnit'], r['op'], r['phase'], r['device'], r['origin'], r['async']) for r in rows]
    equal(len(set(keys)), len(keys), 'number of distinct keys')
    of_disk = [r for r in rows if r['unit'] == t.rig.unit and not r['op'].startswith('rq-')]
    equal({(r['fsType'], r['mountPoint']) for r in of_disk}, {('ext4', str(t.rig.disk.mount_point))}, 'file system')


def test_keys_of_the_others(t):
    d = t.rig.daemon
    for row in pairs(d.text('list', '--by=device', '--json=short')):
        equal([k for k, _ in row], DEVICE_KEYS, 'keys of list --by=device')
    rows = pairs(d.text('probes', '--json=short'))
    for row in rows:
        equal([k for k, _ in row][:len(PROBE_KEYS)], PROBE_KEYS, 'first keys of probes')
    kinds = {dict(row)['kind'] for row in rows}
    equal(kinds, {'probe', 'loss', 'blind'}, 'kinds of rows of probes')
    states = {dict(row)['state'] for row in rows}
    check(states <= {'ok', 'degraded', 'absent'}, f'states of probes: {states}')
    histogram = d.json('histogram', t.rig.unit)
    equal(list(histogram), ['unit', 'op', 'phase', 'device', 'buckets'], 'keys of histogram')
    equal([list(b) for b in histogram['buckets'][:1]], [['upperNSec', 'count']], 'keys of a bucket')


def test_patterns(t):
    d, unit = t.rig.daemon, t.rig.unit
    prefix = unit.removesuffix('a.service')
    equal({r['unit'] for r in d.json('list', f'{prefix}*')}, {unit}, 'units that match')
    equal(d.json('list', 'no-such-unit-*'), [], 'rows of a pattern that matches nothing')
    check(unit in d.text('list', f'{prefix}?.service'), 'the unit is not in the table')


def test_legend(t):
    d, unit = t.rig.daemon, t.rig.unit
    full, bare = d.text('list', unit), d.text('list', unit, '--no-legend')
    check('UNIT' in full.splitlines()[0] and 'listed' in full.splitlines()[-1], f'no legend: {full}')
    check('UNIT' not in bare and 'listed' not in bare and unit in bare, f'a legend: {bare}')
    check('\x1b' not in full, 'escape sequences in a pipe')


@cases('status no-such.service', 'histogram no-such.service')
def test_unknown_unit(t, command):
    r = t.rig.daemon.call(*command.split(), check=False)
    equal(r.returncode, 4, f'exit code ({r.stderr})')
    check('no-such.service' in r.stderr, f'the unit is not named: {r.stderr}')


@cases('nonsense', 'list --nonsense', 'list --json=nonsense', 'list --by=nonsense', 'histogram', 'top -n nonsense',
       'top -n 0', 'status \x01', 'list --since=nonsense', 'list --since=-1h --until=-2h', 'top --since=-1h',
       'list --follow', 'stalls -n -1', 'stalls -f --until=now', 'trace --min=nonsense', 'trace a b', 'trace a*')
def test_wrong_arguments(t, command):
    r = t.rig.daemon.call(*command.split(), check=False)
    check(r.returncode in (1, 4), f'exit code {r.returncode}')
    check(r.stderr.strip() and r.stdout == '', f'output: {r.stdout}, errors: {r.stderr}')


def test_help_and_version(t):
    for option in ('--help', '--version'):
        r = run(CTL, option)
        check('iolat' in r.stdout and r.stderr == '', f'{option}: {r.stdout} {r.stderr}')


def test_status_by_pid(t):
    process = t.rig.group.start('sleep', '60')
    t.defer(process.wait)
    t.defer(process.kill)
    harness.wait_for(lambda: str(process.pid) in (t.rig.group.path / 'cgroup.procs').read_text(), what='process in its cgroup')
    check(t.rig.unit in t.rig.daemon.text('status', str(process.pid)), 'status of a process does not show its unit')


def has_history(t):
    """Whether the daemon answers what lies in a time."""
    r = t.rig.daemon.call('list', '--since=-1h', check=False)
    return 'older than iolatctl' not in r.stderr


def test_keys_of_stalls(t):
    for row in pairs(t.rig.daemon.text('stalls', '--json=short')):
        equal([k for k, _ in row], STALL_KEYS + STALL_ROOT_KEYS, 'keys of a stall')


def test_keys_of_blame(t):
    if not has_history(t):
        skip('this daemon keeps no history')
    for row in pairs(t.rig.daemon.text('blame', '--json=short')):
        equal([k for k, _ in row], BLAME_KEYS, 'keys of a row of blame')


def test_lines_of_blame(t):
    """The largest rows are left, with the shares that they have of all, and the footer counts them."""
    d, unit = t.rig.daemon, t.rig.unit
    harness.wait_for(lambda: len(d.json('blame', unit)) > 1, what='something to leave out')
    rows = settled(lambda: d.json('blame', unit))
    equal(d.json('blame', unit, '-n', '1'), rows[:1], 'the largest')
    equal(d.json('blame', unit, '--lines=0'), [], 'no rows at all')
    full, lines = d.text('blame', unit).splitlines(), d.text('blame', unit, '-n1').splitlines()
    equal(lines[1].split()[-2:], full[1].split()[-2:], 'time and share')
    check(lines[3].startswith('1 rows listed'), f'footer: {lines}')
    check(len(d.json('blame', '-n', '1')) == 1, 'of all victims')


@cases('status', 'list', 'histogram a.service', 'probes', 'metrics')
def test_lines_are_refused(t, command):
    r = t.rig.daemon.call(*command.split(), '-n', '1', check=False)
    equal((r.returncode, r.stdout, r.stderr),
          (1, '', f'--lines= and --iterations= cannot be used with "{command.split()[0]}".\n'), 'result')


def test_times(t):
    d = t.rig.daemon
    if not has_history(t):
        skip('this daemon keeps no history')
    r = d.call('list', '--until=@1', check=False)
    check(r.returncode == 1 and r.stderr.count('\n') == 1 and not r.stdout, f'a time before all: {r}')
    r = d.call('status', t.rig.unit, '--until=@1', check=False)
    check(r.returncode == 1 and r.stderr.count('\n') == 1 and not r.stdout, f'a time before all: {r}')

    def counted():
        r = d.call('list', t.rig.unit, '--since=-1h', '--json=short', check=False)
        rows = json.loads(r.stdout) if r.returncode == 0 else []
        return {row['op']: row['count'] for row in rows if row['phase'] == 'total'}
    harness.wait_for(lambda: counted().items() >= {'fsync': 100, 'dwrite': 100}.items(), timeout=120, what='the history')
    text = d.text('list', t.rig.unit, '--since=-1h')
    check('Covers ' in text and 'asked for was ' in text, f'what is covered: {text}')
    check('Covers ' in d.text('status', t.rig.unit, '--since=-1h'), 'what is covered, status')
    check('Covers ' not in d.text('list', t.rig.unit, '--since=-1h', '--no-legend'), 'a legend')


def test_trace(t):
    """Each operation comes as one line, with spans inside of it, and the end is clean."""
    d = t.rig.daemon
    args = [CTL, f'--socket={d.socket}', 'trace', t.rig.unit, '--json=short', '-n', '5']
    p = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    t.defer(p.wait)
    t.defer(p.kill)
    deadline = time.monotonic() + 20
    while p.poll() is None and time.monotonic() < deadline:
        workload('fsync', t.rig.disk.path('t'), t.rig.group, count=10, write=4096, pattern='append')
    out, err = p.communicate(timeout=10)
    if 'older than iolatctl' in err:
        skip('this daemon does not trace')
    equal((p.returncode, err), (0, ''), 'end of trace')
    rows = [pairs(line) for line in out.splitlines()]
    equal(len(rows), 5, 'operations')
    for row in rows:
        equal([k for k, _ in row], STALL_KEYS + STALL_ROOT_KEYS + OPERATION_KEYS, 'keys of an operation')
        op = dict(row)
        equal((op['unit'], op['op']), (t.rig.unit, 'fsync'), 'operation')
        for span in map(dict, op['spans']):
            check(0 <= span['startNSec'] <= span['endNSec'] <= op['totalNSec'], f'span: {op}')


def test_follow_ends(t):
    """An interrupt, and a reader that goes away, end it without a word and without waiting for more."""
    args = [CTL, f'--socket={t.rig.daemon.socket}', 'stalls', '--follow']
    p = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    t.defer(p.kill)
    time.sleep(0.5)
    check(p.poll() is None, 'it did not go on')
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=10)
    equal((p.returncode, err), (0, ''), 'after an interrupt')

    p = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    t.defer(p.kill)
    p.stdout.close()
    equal((p.wait(10), p.stderr.read()), (0, ''), 'after the reader has gone')


def test_closed_output(t):
    """What is cut off by head(1) is no error worth a message, a full disk is."""
    command = f'"{CTL}" --socket="{t.rig.daemon.socket}" list --json=short'
    r = run('sh', '-c', f'{command} | head -c 1 >/dev/null')
    equal(r.stderr, '', 'errors')
    r = run('sh', '-c', f'{command} >/dev/full', check=False)
    check(r.returncode == 1 and r.stderr.strip(), f'a full disk: exit code {r.returncode}, {r.stderr}')


def test_top(t):
    r = t.rig.daemon.call('top', '-n', '2', '-d', '1', timeout=30)
    check(r.stdout.strip(), 'top printed nothing')


if __name__ == '__main__':
    harness.main()
