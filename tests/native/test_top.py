# SPDX-License-Identifier: LGPL-2.1-or-later
"""iolatctl top fills a terminal, obeys keys and signals, and leaves the terminal as it was."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import harness
from fakebus import FakeDaemon
from harness import RUN, cases, check, equal, skip, wait_for
from product import CTL, daemon
from rig import cgroup, ext4, slow_ext4, start_workload
from screen import Program

FSYNCS_PER_SEC = 200
DOWN = '\x1bOB'
ESCAPE = '\x1b'


class Rig:
    """Two units at work for as long as the tests run: one calls fsync often, the other writes directly and seldom."""

    def __init__(self, t):
        self.daemon = t.enter(daemon(t))
        self.disk = t.enter(ext4())
        self.often = t.enter(cgroup('often.service'))
        self.seldom = t.enter(cgroup('seldom.service'))
        for kind, group, rate, options in (('fsync', self.often, FSYNCS_PER_SEC, {'write': 4096}),
                                           ('dwrite', self.seldom, 20, {'prepare': '1M'})):
            process = start_workload(kind, self.disk.path(kind), group, count=rate * 600, rate=rate,
                                     pattern='overwrite', **({'prepare': '1M'} | options))
            t.defer(process.wait)
            t.defer(process.kill)
        wait_for(lambda: self.daemon.counts(self.often.unit) and self.daemon.counts(self.seldom.unit),
                 30, 'operations of both units')


def setup(t):
    linked = subprocess.run(['ldd', CTL], capture_output=True, text=True).stdout
    if 'libncursesw' not in linked:
        skip('built without ncursesw')
    return Rig(t)


def top(t, *args, **kwargs):
    """top on a terminal, with the rows of the rig and no others on its screen."""
    p = Program([CTL, f'--socket={t.rig.daemon.socket}', 'top', '-d', '500ms', *args], **kwargs)
    t.defer(p.close)
    t.reports.append(lambda: f'--- screen ---\n{p.text()}\n---')
    p.wait_for(lambda lines: lines[2].startswith('UNIT'), 'first screen')
    p.keys(f'/{RUN}\r')
    p.wait_for(lambda lines: row(t, lines, 'fsync') and row(t, lines, 'dwrite'), 'rows of both units')
    return p


def row(t, lines, op):
    """The line of that operation of the units of the rig, whose names may be cut."""
    prefix = t.rig.often.unit[:12]
    for line in lines:
        if line.startswith(prefix) and re.search(rf'\b{op}\b', line):
            return line
    return None


def order(t, lines):
    """Operations of the rig from the top; not on narrow screens."""
    prefix = RUN[:RUN.rindex('-') + 1]
    return [m[1] for line in lines if line.startswith(prefix) and (m := re.search(r'\b(fsync|dwrite)\b', line))]


def quit_top(p):
    p.keys('q')
    equal(p.wait(), 0, 'exit code after q')
    p.check_restored()


def test_first_screen(t):
    p = top(t)
    lines = p.emulator.text()
    check(os.uname().nodename[:10] in lines[0] and 'tier ' in lines[0] and 'every 500ms' in lines[0],
          f'header: {lines[0]}')
    check(re.search(r'units \d+  ops/s [\d.]+  wait/s [\d.]+%  errors 0', lines[1]), f'totals: {lines[1]}')
    for header in ('UNIT', 'OP', 'OPS/S', 'WAIT/S', 'MEAN', 'P99', 'ERR', 'PHASES', 'TREND'):
        check(header in lines[2].split(), f'no {header}: {lines[2]}')
    check(re.search(r'\? help .*[a-z] [a-z]{2,}', lines[23]), f'legend: {lines[23]}')
    check(p.emulator.alternate and p.emulator.colours and not p.emulator.cursor_visible, 'modes of the terminal')

    def settled(screen):
        m = re.search(r'fsync +([\d.]+) +([\d.]+)% +([\d.]+)([um]?s) ', row(t, screen, 'fsync') or '')
        return m and abs(float(m[1]) - FSYNCS_PER_SEC) < FSYNCS_PER_SEC / 4 and m
    m = p.wait_for(settled, 'rate of fsync')
    mean = float(m[3]) * {'us': 1e-6, 'ms': 1e-3, 's': 1}[m[4]]
    share = float(m[1]) * mean * 100
    check(abs(share - float(m[2])) < 0.05 * share + 0.1, f'share of {m[2]}% does not fit the mean: {m[0]}')
    quit_top(p)


def test_phase_bar_is_of_the_legend(t):
    p = top(t)
    lines = p.emulator.text()
    known = set(re.findall(r'(?<= )([a-zA-Z]) [a-z]{2,}', lines[23]))
    start = lines[2].index('PHASES')
    bar = row(t, lines, 'fsync')[start:].split()[0]
    check(len(bar) >= 8 and set(bar) <= known, f'bar {bar!r}, letters of the legend {known}')
    quit_top(p)


UNITS = {'us': 1e-6, 'ms': 1e-3, 's': 1}


def test_p99_is_of_the_interval(t):
    """A unit becomes slow, and fast again, and after two intervals nothing is left of what was before."""
    disk, group = t.enter(slow_ext4()), t.enter(cgroup('changes.service'))
    process = start_workload('fsync', disk.path('file'), group, count=10**6, rate=1000, write=4096, pattern='overwrite',
                             prepare='1M')
    t.defer(process.wait)
    t.defer(process.kill)
    wait_for(lambda: t.rig.daemon.counts(group.unit).get('fsync', 0) > 5000, 60, 'fast operations')
    p = Program([CTL, f'--socket={t.rig.daemon.socket}', 'top', '-d', '1s'])
    t.defer(p.close)
    t.reports.append(lambda: f'--- screen ---\n{p.text()}\n---')
    p.wait_for(lambda lines: lines[2].startswith('UNIT'), 'first screen')
    p.keys('/changes.service\r')

    def p99(lines):
        """In seconds; None if it is not shown."""
        end = lines[2].index(' P99 ') + len(' P99')
        shown = [line[:end].split()[-1] for line in lines[3:] if ' fsync ' in line]
        m = shown and re.fullmatch(r'([\d.]+)(us|ms|s)', shown[0])
        return float(m[1]) * UNITS[m[2]] if m else None
    p.wait_for(lambda lines: (p99(lines) or 1) < 0.02, 'fast')
    for delay, name, wanted in ((40, 'slow', lambda s: 0.075 < s < 0.2), (0, 'fast', lambda s: s < 0.02)):
        disk.delay(fsync=delay)
        began = time.monotonic()
        p.wait_for(lambda lines: p99(lines) and wanted(p99(lines)), f'{name} again', 8)
        took = time.monotonic() - began
        print(f'# {name} after {took:.1f} s: {p99(p.emulator.text()):.4f} s', flush=True)
        check(took < 2.5, f'{name} only after {took:.1f} s')  # that it ends, and is drawn, takes a moment
    quit_top(p)


def test_sort_and_reverse(t):
    p = top(t)
    for keys, wanted in (('n', ['fsync', 'dwrite']), ('r', ['dwrite', 'fsync']), ('r', ['fsync', 'dwrite']),
                         ('p', ['fsync', 'dwrite']), ('r', ['dwrite', 'fsync'])):
        p.keys(keys)
        p.wait_for(lambda lines, w=wanted: order(t, lines) == w, f'order after {keys!r}')
    p.wait_for('by unit (reverse)', 'name of the order')
    for key, name in (('t', 'wait'), ('l', 'p99'), ('e', 'errors'), ('d', 'device')):
        p.keys(key)
        p.wait_for(f'by {name}', f'name of the order after {key}')
    quit_top(p)


def selected(p):
    """Index of the line that is shown in reverse, below the header."""
    for y in range(3, p.emulator.lines):
        if 7 in p.emulator.looks.get((y, 0), ()):
            return y - 3
    return None


def test_selection_follows(t):
    p = top(t)
    p.keys('n')
    p.wait_for(lambda lines: order(t, lines) == ['fsync', 'dwrite'], 'order by rate')
    p.wait_for(lambda lines: selected(p) == 0, 'first line selected')
    p.keys(DOWN)
    p.wait_for(lambda lines: selected(p) is not None and ' dwrite ' in lines[3 + selected(p)], 'selection after Down')
    p.keys('r')
    p.wait_for(lambda lines: order(t, lines) == ['dwrite', 'fsync'], 'reversed order')
    p.wait_for(lambda lines: ' dwrite ' in lines[3 + selected(p)], 'selection after r')
    quit_top(p)


def test_drill_down(t):
    p = top(t)
    p.keys(f'/{t.rig.often.unit}\r')
    p.wait_for(lambda lines: order(t, lines) == ['fsync'], 'filtered list')
    p.keys('\r')
    p.wait_for(lambda lines: lines[1] == t.rig.often.unit and lines[2].startswith('OPERATION'), 'header of the unit')
    lines = p.wait_for(lambda lines: any(x.startswith('fsync ') for x in lines) and
                       any(x.startswith('rq-write') for x in lines) and lines, 'operations and requests')
    phases = {x.split()[1] for x in lines if re.match(r'  [a-zA-Z] [a-z]+ ', x)}
    known = {r['phase'] for r in t.rig.daemon.rows(t.rig.often.unit, unit=t.rig.often.unit)} - {'total'}
    check({'queue', 'device'} <= phases <= known and len(phases) > 3, f'phases {phases}, of list {known}')
    p.keys(ESCAPE)
    p.wait_for(lambda lines: lines[2].startswith('UNIT') and order(t, lines) == ['fsync'], 'back in the list')
    p.keys(ESCAPE)
    p.wait_for(lambda lines: len(order(t, lines)) == 2, 'without the filter')
    quit_top(p)


def test_filter(t):
    p = top(t, columns=120)
    p.keys('/*seldom.servicX')
    p.wait_for(lambda lines: lines[23] == '/*seldom.servicX', 'what is typed')
    p.keys('\x7fe\r')
    p.wait_for(lambda lines: order(t, lines) == ['dwrite'] and 'filter *seldom.service' in lines[1], 'filtered list')
    p.keys('/nothing\r')
    p.wait_for('Nothing that matches', 'empty list')
    p.keys('/\r')
    p.wait_for(lambda lines: len(order(t, lines)) == 2, 'without the filter')
    quit_top(p)


def test_other_keys(t):
    p = top(t)
    p.keys('?')
    p.wait_for('Any key goes back', 'help')
    p.keys('x')
    p.wait_for(lambda lines: lines[2].startswith('UNIT'), 'back from help')
    p.keys('+')
    p.wait_for('every 750ms', 'longer delay')
    p.keys('--')
    p.wait_for('every 250ms', 'shorter delay')
    p.keys('%')
    p.wait_for(lambda lines: re.search(r'wait/s [\d.]+(us|ms|s)', lines[1]), 'times')
    written = len(p.output)
    p.keys('\x0c')
    p.wait_for(lambda lines: b'UNIT ' in p.output[written:], 'everything drawn anew')
    quit_top(p)


def test_space_refreshes(t):
    p = Program([CTL, f'--socket={t.rig.daemon.socket}', 'top', '-d', '1h'])
    t.defer(p.close)
    p.wait_for('Waiting for the first interval', 'first screen')
    time.sleep(1)  # in which both units do something
    p.keys(f'/{RUN}\r ')
    p.wait_for(lambda lines: len(order(t, lines)) == 2, 'rows after Space')
    quit_top(p)


def test_resize(t):
    p = top(t)
    p.resize(40, 10)
    lines = p.wait_for(lambda lines: '? help' in lines[9] and row(t, lines, 'fsync') and lines, 'screen of 40x10')
    check('WAIT/S' in lines[2] and 'TREND' not in lines[2], f'columns: {lines[2]}')
    p.resize(160, 30)
    lines = p.wait_for(lambda lines: '? help' in lines[29] and row(t, lines, 'fsync') and lines, 'screen of 160x30')
    check('DEVICE' in lines[2] and t.rig.disk.device in row(t, lines, 'fsync'), f'device: {lines}')
    check(t.rig.often.unit in row(t, lines, 'fsync'), 'the name is cut, though there is room')
    p.resize(40, 5)
    p.wait_for(lambda lines: lines[0] == 'terminal too small', 'too small')
    p.resize(39, 24)
    p.wait_for(lambda lines: lines[0] == 'terminal too small', 'too narrow')
    p.resize(80, 24)
    p.wait_for(lambda lines: '? help' in lines[23] and 'TREND' in lines[2] and row(t, lines, 'fsync'), 'back at 80x24')
    quit_top(p)


@cases('NO_COLOR=1', 'SYSTEMD_COLORS=0', 'TERM=vt100')
def test_no_colours(t, setting):
    p = top(t, env=dict([setting.split('=')]))
    p.keys('nr')
    p.wait_for('(reverse)', 'order')
    quit_top(p)
    check(not p.emulator.colours, 'colours were set')


def test_ascii(t):
    p = top(t, env={'LC_ALL': 'C'})
    p.wait_for(lambda lines: re.search(r'[.,\-~+=*#]{2}$', row(t, lines, 'fsync') or ''), 'trend')
    quit_top(p)
    check(all(b < 0x80 for b in p.output), 'bytes that are not ASCII')


def test_dumb_terminal_gets_lines(t):
    p = Program([CTL, f'--socket={t.rig.daemon.socket}', 'top', '-n', '1'], columns=200,
                env={'TERM': 'dumb', 'COLUMNS': '200'})
    t.defer(p.close)
    equal(p.wait(), 0, 'exit code')
    check(b'\x1b' not in p.output and t.rig.often.unit.encode() in p.output, f'output: {p.output}')


def test_unknown_terminal_gets_lines(t):
    # newterm() itself loses what it has allocated before it failed.
    p = Program([CTL, f'--socket={t.rig.daemon.socket}', 'top', '-n', '1'], columns=200,
                env={'TERM': 'no-such-terminal', 'NO_COLOR': '1', 'COLUMNS': '200', 'ASAN_OPTIONS': 'detect_leaks=0'})
    t.defer(p.close)
    equal(p.wait(), 0, 'exit code')
    check(t.rig.often.unit.encode() in p.output, f'output: {p.output}')
    p.check_restored()


def test_iterations_end_it(t):
    p = top(t, '-n', '3')
    equal(p.wait(), 0, 'exit code')
    p.check_restored()


@cases('SIGINT', 'SIGTERM', 'SIGHUP', '^C')
def test_signals_restore(t, which):
    p = top(t)
    number = signal.SIGINT if which == '^C' else getattr(signal, which)
    if which == '^C':
        p.keys('\x03')
    else:
        p.process.send_signal(number)
    equal(p.wait(), -number, 'how it ended')
    p.check_restored()


# A shell with job control: the program runs in the foreground, in a process group of its own.
SHELL = """
import os, signal, sys
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def state_of(pid):
    return open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[0]


def test_suspended_and_continued(t):
    p = Program([sys.executable, '-c', SHELL, CTL, f'--socket={t.rig.daemon.socket}', 'top', '-d', '500ms'])
    t.defer(p.close)
    p.wait_for(lambda lines: lines[2].startswith('UNIT'), 'first screen')
    p.keys(f'/{RUN}\r')
    p.wait_for(lambda lines: len(order(t, lines)) == 2, 'rows')
    child = int(open(f'/proc/{p.process.pid}/task/{p.process.pid}/children').read().split()[0])
    for sig in (signal.SIGTSTP, signal.SIGSTOP):
        os.kill(child, sig)
        wait_for(lambda: state_of(child) == 'T', 10, f'stopped by {sig}')
        p.read(0.2)
        if sig == signal.SIGTSTP:
            p.check_restored()
        p.emulator.cells = [[' '] * 80 for _ in range(24)]  # somebody else wrote here
        os.kill(child, signal.SIGCONT)
        p.wait_for(lambda lines: len(order(t, lines)) == 2 and p.emulator.alternate, f'screen after {sig}')
    p.keys('q')
    equal(p.wait(), 0, 'exit code')
    p.check_restored()


@cases('kill -9', 'SIGTERM')
def test_daemon_restarts(t, how):
    p = top(t)
    if how == 'kill -9':
        t.rig.daemon.kill9()
    else:
        t.rig.daemon.stop()
    try:
        p.wait_for('Cannot reach iolatd', 'message')
        p.keys('r')
        time.sleep(1)
        p.wait_for('Cannot reach iolatd', 'message, still')
    finally:
        t.rig.daemon.start()
    p.wait_for(lambda lines: 'units ' in lines[1] and len(order(t, lines)) == 2, 'rows again')
    quit_top(p)


def test_stopped_daemon_does_not_stop_the_keys(t):
    p = top(t)
    t.rig.daemon.process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(1)
        p.keys('?')
        p.wait_for('Any key goes back', 'help', 2)
        p.keys('x')
        p.wait_for('Cannot reach iolatd', 'message')
    finally:
        t.rig.daemon.process.send_signal(signal.SIGCONT)
    p.wait_for(lambda lines: 'units ' in lines[1] and len(order(t, lines)) == 2, 'rows again')
    quit_top(p)


def test_no_daemon_at_the_start(t):
    p = Program([CTL, f'--socket={t.directory()}/none', 'top'])
    t.defer(p.close)
    equal(p.wait(), 1, 'exit code')
    check(b'Is iolatd running' in p.output and not p.emulator.alternate, f'output: {p.output}')


def test_terminal_goes_away(t):
    p = top(t)
    os.close(p.theirs)
    os.close(p.ours)
    wait_for(lambda: p.process.poll() is not None, 10, 'end of top')


def lie(t, names, **properties):
    """A daemon whose units have these names, and each of which has waited a millisecond more whenever asked."""
    calls = []

    def rows():
        calls.append(None)
        return [{'unit': name, 'op': 'fsync', 'phase': phase, 'device': device, 'async': False, 'errors': 0,
                 'count': len(calls), 'sumNSec': len(calls) * 1000000, 'p99NSec': 1000000}
                for name, device in names for phase in ('total', f'journal{name}')]
    fake = FakeDaemon(t.directory(), {'Version': '1', 'Tier': 'function', 'Degraded': False, 'Lost': 0} | properties,
                      rows)
    t.defer(fake.close)
    return fake


def test_hostile_names(t):
    """What the bus says is not sent to the terminal as it is. (The emulation fails at control characters.)"""
    name = 'a\x1b[31m\x1b]0;x\x07\x9b1m\u202e\n\u4e16\u754c\u0301' + '\u4e16' * 90 + '.service'
    fake = lie(t, [(name, '\x1b[2J'), ('\u4e16' * 300, '8:1'), ('', '8:1')], Tier='\x1b[31mtier\n', Lost=7,
               Degraded=True)
    p = Program([CTL, f'--socket={fake.socket}', 'top', '-d', '100ms'], columns=200, env={'NO_COLOR': '1'})
    t.defer(p.close)
    t.reports.append(lambda: f'--- screen ---\n{p.text()}\n---')
    shown = 'a\\x1b[31m\\x1b]0;x\\x07\\xc2\\x9b1m\\xe2\\x80\\xae\\x0a\u4e16\u754c'
    lines = p.wait_for(lambda lines: any(shown in x for x in lines) and lines, 'escaped name')
    check('tier \\x1b[31mtier\\x0a' in lines[0] and 'lost 7' in lines[0] and 'DEGRADED' in lines[0],
          f'header: {lines[0]}')
    for columns in (80, 81, 82, 83, 84, 40, 41):
        p.resize(columns, 24)
        p.wait_for(lambda lines: any(x.startswith('a\\x1b[31m') for x in lines) and '? help' in lines[23],
                   f'row at {columns} columns')
        for line in p.emulator.text()[3:23]:
            at = p.emulator.text()[2].index('OP')
            check(not line or 'fsync' in line, f'{columns} columns: {line}')
            if 'fsync' in line:
                cells = next(c for c in p.emulator.cells if ''.join(c).rstrip() == line)
                equal(''.join(cells[at:at + 5]), 'fsync', f'what is in the column OP with {columns} columns')
    p.resize(200, 24)
    p.keys('/31m\r\r')
    p.wait_for(lambda lines: shown in lines[1] and lines[2].startswith('OPERATION'), 'detail')
    quit_top(p)
    check(not p.emulator.colours, 'a name could set a colour')


def test_many_units(t):
    """The screen scrolls, the selection stays visible."""
    fake = lie(t, [(f'u{i:04}.service', '8:1') for i in range(1000)])
    p = Program([CTL, f'--socket={fake.socket}', 'top', '-d', '200ms'])
    t.defer(p.close)
    p.keys('p')
    p.wait_for(lambda lines: lines[3].startswith('u0000') and lines[22].startswith('u0019'), 'first page')
    for keys, first, last, at in (('\x1b[6~', 0, 19, 19), (DOWN, 1, 20, 20), ('\x1bOF', 980, 999, 999),
                                  ('\x1b[5~', 980, 999, 980), ('\x1bOA', 979, 998, 979), ('\x1bOH', 0, 19, 0)):
        p.keys(keys)
        p.wait_for(lambda lines: lines[3].startswith(f'u{first:04}') and lines[22].startswith(f'u{last:04}') and
                   selected(p) == at - first, f'page after {keys!r}')
    quit_top(p)


@cases('-b', '--batch', '--json=short')
def test_batch_has_no_ioctl(t, option):
    if not shutil.which('strace'):
        skip('no strace')
    log = t.directory() / 'strace'
    p = Program(['strace', '-qq', '-o', log, '-e', 'trace=ioctl', CTL, f'--socket={t.rig.daemon.socket}', 'top', option,
                 '-n1', '-d', '500ms'], columns=200, env={'COLUMNS': '200', 'ASAN_OPTIONS': 'detect_leaks=0'})
    t.defer(p.close)
    equal(p.wait(30), 0, 'exit code')
    check(t.rig.often.unit.encode() in p.output and not p.emulator.alternate, f'output: {p.output}')
    equal(re.findall(r'.*ioctl\(.*', log.read_text()), [], 'ioctls')


def test_batch_iterations(t):
    arrays = t.rig.daemon.text('top', '--json=short', '--iterations=2', '--delay=500ms').splitlines()
    equal(len(arrays), 2, 'lines')
    for array in arrays:
        rows = [r for r in json.loads(array) if r['unit'] == t.rig.often.unit and r['op'] == 'fsync']
        equal(len(rows), 1, 'rows of fsync')
        rate = rows[0]['count'] * 1e9 / rows[0]['intervalNSec']
        check(FSYNCS_PER_SEC / 2 < rate < FSYNCS_PER_SEC * 2, f'{rate} fsyncs per second')
        check(0 < rows[0]['p99NSec'] < 10**9, f'p99: {rows[0]}')
        check(abs(sum(rows[0]['phases'].values()) - rows[0]['sumNSec']) <= 0.01 * rows[0]['sumNSec'], f'sum: {rows[0]}')


@cases('-n0', '--iterations=0', '-bn0')
def test_no_iterations(t, option):
    """Refused by one sentence, and the screen is not touched."""
    p = Program([CTL, f'--socket={t.rig.daemon.socket}', 'top', option])
    t.defer(p.close)
    equal(p.wait(), 1, 'exit code')
    equal(p.output.decode().splitlines(), ['The number of iterations must be above 0.'], 'output')


if __name__ == '__main__':
    harness.main()
