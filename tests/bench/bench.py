# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the sections of the benchmark share: how long to measure, how to say it."""

import contextlib
import json
import os
import pathlib
import platform
import select
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'native'))

from harness import BUILD, check, start, stop  # noqa: E402

TOOLS = BUILD / 'tests/bench'
CLOSE_SEC = 30


class Options:
    def __init__(self, quick=False, rounds=None):
        self.quick = quick
        self.rounds_wanted = rounds

    def rounds(self, normal, quick):
        return self.rounds_wanted or self.pick(normal, quick)

    def pick(self, normal, quick):
        return quick if self.quick else normal


class Talker:
    """A tool of the benchmark that is told on its input, a line each, what to do, and answers so."""

    def __init__(self, *args, text='', starter=start):
        """The text is what it is told before it is ready."""
        self.process = starter(*args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.process.stdin.write(text)
        self.process.stdin.flush()
        hello = self.line()
        check(hello.startswith('ready'), f'{args[0]} said {hello!r}')

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise AssertionError(f'{self.process.args[0]} has ended: {self.process.stderr.read().strip()}')
        return line.rstrip('\n')

    def tell(self, *words):
        self.process.stdin.write(' '.join(str(w) for w in words) + '\n')
        self.process.stdin.flush()

    def has_answered(self, timeout):
        return bool(select.select([self.process.stdout], [], [], timeout)[0])

    def answer(self):
        return json.loads(self.line())

    def ask(self, *words):
        self.tell(*words)
        return self.answer()

    def close(self):
        """It ends with its input."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(CLOSE_SEC)
        if self.process.poll() is None:
            stop(self.process)


def progress(text):
    print(text, file=sys.stderr, flush=True)


def median(values):
    return statistics.median(values) if values else None


def spread(values):
    """Median and the middle half: with few values, lowest and highest."""
    if not values:
        return None
    values = sorted(values)
    low, high = values[0], values[-1]
    if len(values) >= 4:
        low, _, high = statistics.quantiles(values, n=4, method='inclusive')
    return {'median': median(values), 'low': low, 'high': high, 'rounds': len(values)}


def percentile(values, percent):
    """Nearest rank."""
    values = sorted(values)
    return values[max(0, -(-len(values) * percent // 100) - 1)]


def number(value, digits=3):
    """With that many digits that count."""
    if value is None:
        return '-'
    if value == 0:
        return '0'
    size = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    return f'{value:,.{max(0, digits - size)}f}'


def with_spread(s):
    if s is None:
        return '-'
    return f'{number(s["median"])} ({number(s["low"])}..{number(s["high"])})'


def nbytes(value):
    if value is None:
        return '-'
    for unit in ('B', 'K', 'M'):
        if value < 1024:
            break
        value /= 1024
    else:
        unit = 'G'
    return f'{number(value)}{unit}'


def table(title, columns, rows, notes=(), left=(0,)):
    """Columns of numbers are flush right, but for those of the given indices."""
    cells = [[str(c) for c in columns]] + [['' if c is None else str(c) for c in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    lines = [title]
    for row in cells:
        line = '  '.join(c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths)))
        lines.append(f'  {line.rstrip()}')
    lines += [f'  {n}' for n in notes]
    return '\n'.join(lines) + '\n'


class Budget:
    """A limit that iolat sets itself, and whether it was kept. What could not be measured was not kept."""

    def __init__(self, what, value, limit, unit='', note=None):
        self.what, self.value, self.limit, self.unit, self.note = what, value, limit, unit, note

    @property
    def met(self):
        return self.value is not None and self.limit is not None and self.value <= self.limit

    def json(self):
        return {'what': self.what, 'value': self.value, 'limit': self.limit, 'unit': self.unit, 'met': self.met,
                'note': self.note}

    def row(self):
        if self.value is None or self.limit is None:
            return [self.what, '-', '-', f'not measured: {self.note or "unknown"}']
        value, limit = (f'{number(v)} {self.unit}'.rstrip() for v in (self.value, self.limit))
        return [self.what, value, f'<= {limit}', 'met' if self.met else 'MISSED']


def budget_table(dictionaries):
    budgets = [Budget(*(d[k] for k in ('what', 'value', 'limit', 'unit', 'note'))) for d in dictionaries]
    return table('Budgets', ('', 'measured', 'budget', ''), [b.row() for b in budgets], left=(0, 3))


def cpu_model():
    for line in pathlib.Path('/proc/cpuinfo').read_text().splitlines():
        if line.startswith(('model name', 'CPU part')):
            return line.partition(':')[2].strip()
    return platform.machine()


def machine():
    return {'kernel': platform.release(), 'machine': platform.machine(), 'cpu': cpu_model(),
            'cpus': len(os.sched_getaffinity(0)), 'load': os.getloadavg()[0],
            'memoryBytes': os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')}
