# SPDX-License-Identifier: LGPL-2.1-or-later
"""A program on a pseudo terminal, and what a terminal of the kind of xterm or vt100 would show of it."""

import codecs
import contextlib
import errno
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unicodedata

from harness import check, die_with_parent

CSI = re.compile(r'\x1b\[([<=>?]?)([\d;]*)([ -/]*)([@-~])')
OTHER = re.compile(r'\x1b(?:[()][\w]|[=>78MDEHc]|\][^\x07\x1b]*(?:\x07|\x1b\\))')
SGR_COLOURS = {*range(30, 40), *range(40, 50), *range(90, 98), *range(100, 108)}


class Emulator:
    """Cells, cursor and modes after all that was fed so far. Raises on a sequence that it does not know."""

    def __init__(self, columns, lines):
        self.decoder = codecs.getincrementaldecoder('utf-8')()
        self.pending = ''
        self.colours = False       # any SGR colour was ever set
        self.alternate = False     # screen
        self.cursor_visible = True
        self.x = self.y = 0
        self.cells = []
        self.attributes = frozenset()
        self.looks = {}            # (y, x) -> attributes of what is not plain
        self.last = ' '
        self.resize(columns, lines)

    def resize(self, columns, lines):
        self.columns, self.lines = columns, lines
        self.cells = [(row + [' '] * columns)[:columns] for row in (self.cells + [[] for _ in range(lines)])[:lines]]
        self.top, self.bottom = 0, lines - 1
        self.x, self.y = min(self.x, columns - 1), min(self.y, lines - 1)

    def text(self):
        return [''.join(row).rstrip() for row in self.cells]

    def feed(self, data):
        s = self.pending + self.decoder.decode(data)
        i = 0
        while i < len(s):
            if s[i] != '\x1b':
                self.put(s[i])
                i += 1
                continue
            if m := CSI.match(s, i):
                self.control(m[1], [int(n) if n else 0 for n in m[2].split(';')], m[4])
            elif m := OTHER.match(s, i):
                self.escape(m[0])
            elif len(s) - i < 64 and re.fullmatch(r'\x1b(\[[\d;?<=>]*)?[()\]]?', s[i:]):
                break  # incomplete
            else:
                raise AssertionError(f'unknown escape sequence: {s[i:i + 20]!r}')
            i = m.end()
        self.pending = s[i:]

    def scroll(self, n, top=None):
        top = self.top if top is None else top
        for _ in range(abs(n)):
            blank = [' '] * self.columns
            if n > 0:
                self.cells[top:self.bottom + 1] = self.cells[top + 1:self.bottom + 1] + [blank]
            else:
                self.cells[top:self.bottom + 1] = [blank] + self.cells[top:self.bottom]

    def put(self, c):
        if c == '\r':
            self.x = 0
        elif c == '\n':
            if self.y == self.bottom:
                self.scroll(1)
            else:
                self.y = min(self.y + 1, self.lines - 1)
        elif c == '\b':
            self.x = max(self.x - 1, 0)
        elif c == '\t':
            self.x = min(self.x // 8 * 8 + 8, self.columns - 1)
        elif c in '\x07\x0e\x0f':
            pass
        elif unicodedata.category(c)[0] == 'C':
            raise AssertionError(f'control character {c!r} sent to the terminal')
        elif unicodedata.combining(c):
            self.cells[self.y][max(self.x - 1, 0)] += c
        else:
            width = 2 if unicodedata.east_asian_width(c) in 'WF' else 1
            if self.x + width > self.columns:
                self.x, self.y = 0, min(self.y + 1, self.lines - 1)
            self.cells[self.y][self.x] = c
            self.looks[self.y, self.x] = self.attributes
            if width == 2:
                self.cells[self.y][self.x + 1] = ''
            self.x += width  # may stand behind the last column: the next character wraps
            self.last = c

    def blank(self, y, begin, end):
        self.cells[y][begin:end] = [' '] * (end - begin)
        for x in range(begin, end):
            self.looks[y, x] = self.attributes

    def escape(self, sequence):
        if sequence == '\x1bM':
            if self.y == self.top:
                self.scroll(-1)
            else:
                self.y = max(self.y - 1, 0)
        elif sequence == '\x1b7':
            self.saved = self.x, self.y
        elif sequence == '\x1b8':
            self.x, self.y = getattr(self, 'saved', (0, 0))

    def control(self, private, numbers, final):
        n = max(numbers[0], 1)
        x = min(self.x, self.columns - 1)
        if private == '?' and final in 'hl':
            for mode in numbers:
                if mode in (47, 1047, 1049):
                    self.alternate = final == 'h'
                elif mode == 25:
                    self.cursor_visible = final == 'h'
        elif private:
            pass
        elif final in 'Hf':
            self.y = min(n, self.lines) - 1
            self.x = min(max((numbers + [1])[1], 1), self.columns) - 1
        elif final == 'A':
            self.y = max(self.y - n, 0)
        elif final == 'B':
            self.y = min(self.y + n, self.lines - 1)
        elif final == 'C':
            self.x = min(x + n, self.columns - 1)
        elif final == 'D':
            self.x = max(x - n, 0)
        elif final in 'G`':
            self.x = min(n, self.columns) - 1
        elif final == 'd':
            self.y = min(n, self.lines) - 1
        elif final == 'J':
            for y in range(self.y + 1, self.lines) if numbers[0] == 0 else \
                    range(self.y) if numbers[0] == 1 else range(self.lines):
                self.blank(y, 0, self.columns)
            if numbers[0] < 2:
                self.blank(self.y, *((x, self.columns) if numbers[0] == 0 else (0, x + 1)))
        elif final == 'K':
            self.blank(self.y, *((x, self.columns), (0, x + 1), (0, self.columns))[numbers[0]])
        elif final == 'X':
            self.blank(self.y, x, min(x + n, self.columns))
        elif final == 'P':
            row = self.cells[self.y]
            self.cells[self.y] = (row[:x] + row[x + n:] + [' '] * n)[:self.columns]
        elif final == '@':
            row = self.cells[self.y]
            self.cells[self.y] = (row[:x] + [' '] * n + row[x:])[:self.columns]
        elif final in 'LM':
            self.scroll(n if final == 'M' else -n, self.y)
        elif final in 'ST':
            self.scroll(n if final == 'S' else -n)
        elif final == 'b':
            for _ in range(n):
                self.put(self.last)
        elif final == 'r':
            self.top = n - 1
            self.bottom = (numbers[1] if len(numbers) > 1 and numbers[1] else self.lines) - 1
            self.x = self.y = 0
        elif final == 'm':
            for k in numbers:
                self.colours = self.colours or (k in SGR_COLOURS and k not in (39, 49))
                self.attributes = frozenset() if k == 0 else self.attributes | {k}
        elif final not in 'hltc':
            raise AssertionError(f'unknown control sequence: {private}{numbers}{final}')


class Program:
    """Runs on a terminal of its own, of which it is the session's leader as a program of a shell would be."""

    def __init__(self, args, columns=80, lines=24, env=None, prefix=()):
        self.ours, self.theirs = pty.openpty()
        self.emulator = Emulator(columns, lines)
        self.output = b''
        self.set_size(columns, lines)
        self.modes = termios.tcgetattr(self.theirs)
        env = {k: v for k, v in os.environ.items() if k not in ('COLUMNS', 'LINES', 'NO_COLOR', 'SYSTEMD_COLORS')} | \
            {'TERM': 'xterm-256color', 'LC_ALL': 'C.UTF-8'} | (env or {})

        def prepare():
            die_with_parent()
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        self.process = subprocess.Popen([str(a) for a in args], stdin=self.theirs, stdout=self.theirs,
                                        stderr=self.theirs, env=env, preexec_fn=prepare)

    def set_size(self, columns, lines):
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack('HHHH', lines, columns, 0, 0))

    def resize(self, columns, lines):
        self.read(0.1)
        self.emulator.resize(columns, lines)
        self.set_size(columns, lines)

    def read(self, seconds=0.0):
        deadline = time.monotonic() + seconds
        while select.select([self.ours], [], [], max(deadline - time.monotonic(), 0))[0]:
            try:
                data = os.read(self.ours, 65536)
            except OSError as e:
                if e.errno == errno.EIO:
                    return
                raise
            self.output += data
            self.emulator.feed(data)

    def text(self):
        return '\n'.join(self.emulator.text())

    def keys(self, s):
        os.write(self.ours, s.encode())

    def wait_for(self, condition, what, timeout=15):
        """The condition is a text that is to be on the screen, or a function of its lines. Returns its value."""
        deadline = time.monotonic() + timeout
        while True:
            self.read(0.05)
            lines = self.emulator.text()
            value = condition(lines) if callable(condition) else condition in '\n'.join(lines)
            if value:
                return value
            check(self.process.poll() is None, f'{what}: ended with {self.process.returncode}\n{self.text()}')
            check(time.monotonic() < deadline, f'{what}: not so after {timeout} s\n{self.text()}')

    def wait(self, timeout=15):
        deadline = time.monotonic() + timeout
        while self.process.poll() is None:
            self.read(0.05)
            check(time.monotonic() < deadline, f'did not end within {timeout} s\n{self.text()}')
        self.read(0.1)
        return self.process.returncode

    def check_restored(self):
        now = termios.tcgetattr(self.theirs)
        names = ('input modes', 'output modes', 'control modes', 'local modes')
        for name, before, after in zip(names, self.modes, now):
            check(before == after, f'{name} were {before:o}, are {after:o}')
        check(not self.emulator.alternate, 'the alternate screen was left on')
        check(self.emulator.cursor_visible, 'the cursor was left invisible')

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        for fd in (self.ours, self.theirs):
            with contextlib.suppress(OSError):
                os.close(fd)
