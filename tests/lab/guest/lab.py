# SPDX-License-Identifier: LGPL-2.1-or-later
"""iolat as installed here, and units that do I/O; a test file ends with `lab.main()`. The rest is harness.py's."""

import itertools
import json
import os
import pathlib
import subprocess
import sys
import time

import harness
from harness import Skip, check, equal, run, start

IS_VM = os.environ.get('IOLAT_LAB_ENV', '').startswith('vm-')
NOT_AVAILABLE = 77
SETTLE_SEC = 20
SYNC_OPS = ('fsync', 'fdatasync', 'sync', 'syncfs', 'syncrange', 'msync', 'syncwrite', 'dread', 'dwrite')

numbers = itertools.count(1)


def query(*args):
    return json.loads(run('iolatctl', *args, '--json=short').stdout)


def rows(*patterns, **wanted):
    """Rows of list, where the keys have the wanted values."""
    return [r for r in query('list', *patterns) if all(r.get(k) == v for k, v in wanted.items())]


def probes(kind='probe'):
    return [r for r in query('probes') if r['kind'] == kind]


def sees_direct_io():
    return any(r['probe'].startswith('dio-') and r['attached'] for r in probes())


def is_blind(title):
    """There is a blind spot with such a title, or with a title that has it as its first word."""
    return any((r['probe'].lower() + ' ').startswith(title + ' ') for r in probes('blind'))


def misses():
    """Events that the kernel skipped, by probe."""
    return {r['probe']: r['misses'] for r in probes() if r['misses']}


def losses():
    return {r['probe']: r['hits'] for r in probes('loss') if r['hits']}


def health():
    return f'misses {misses()}, losses {losses()}'


def counts(unit, **wanted):
    """Operations of the unit that were synchronous or direct: op -> count, over all devices."""
    result = {}
    for r in rows(unit, unit=unit, phase='total', **wanted):
        if r['op'] in SYNC_OPS:
            result[r['op']] = result.get(r['op'], 0) + r['count']
    return result


def settled(function):
    """The value of function() once it is the same three times running."""
    last, same = function(), 0
    deadline = time.monotonic() + SETTLE_SEC
    while same < 2:
        time.sleep(0.2)
        value = function()
        same = same + 1 if value == last else 0
        last = value
        check(time.monotonic() < deadline, f'does not settle: {value}')
    return last


def expect_counts(unit, expected, **wanted):
    """The unit has these counts and no others. Waits for those that are still to come."""
    deadline = time.monotonic() + SETTLE_SEC
    while True:
        got = counts(unit, **wanted)
        late = all(got.get(op, 0) <= n for op, n in expected.items()) and got != expected
        if not late or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    equal(got, expected, f'operations of {unit} ({health()})')


class Rig:
    """What setup() of a test file returns if it has nothing more to say: iolatd's log is shown if a test fails."""

    def __init__(self, t):
        t.reports.append(journal_of_iolatd)


class Unit:
    """A transient service that runs a command, with the command's standard streams."""

    def __init__(self, name, *command):
        self.name = name
        self.process = start('systemd-run', '--quiet', '--wait', '--pipe', '--collect', f'--unit={name}', *command,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def stop(self):
        run('systemctl', 'stop', self.name)
        self.process.communicate(timeout=60)

    def finish(self, timeout=200):
        """Returns what the command wrote."""
        out, err = self.process.communicate(timeout=timeout)
        if self.process.returncode == NOT_AVAILABLE:
            raise Skip(err.strip())
        check(self.process.returncode == 0, f'{self.name} ended with {self.process.returncode}: {out} {err}')
        return out


def unit_name(name='a'):
    """A name that no other test here has used."""
    return f'lab-{os.getpid()}-{next(numbers)}-{name}.service'


def workload_command(kind, path, **options):
    """Options with underscores; True stands for one without an argument."""
    args = ['iolat-workload']
    for name, value in options.items():
        name = name.replace('_', '-')
        if value is True:
            args.append(f'--{name}')
        elif value not in (None, False):
            args.append(f'--{name}={value}')
    return [*args, kind, str(path)]


def start_workload(unit, kind, path, **options):
    """The unit's output is JSON."""
    return Unit(unit, *workload_command(kind, path, **options))


def start_lasting_workload(unit, kind, path, **options):
    """A unit that goes on after the workload has ended, which is when this returns."""
    u = Unit(unit, 'sh', '-c', '"$@" && exec sleep infinity', 'sh', *workload_command(kind, path, **options))
    check(u.process.stdout.readline().startswith('{'), f'the workload of {unit} failed')
    return u


def workload(unit, kind, path, **options):
    """Runs the workload to its end, returns what it counted itself."""
    return json.loads(start_workload(unit, kind, path, **options).finish().splitlines()[-1])


def restart_iolatd():
    run('systemctl', 'restart', 'iolatd.service')


def journal_of_iolatd():
    r = run('journalctl', '--no-pager', '-q', '-b', '-n', '20', '-u', 'iolatd', '-u', 'iolat-probes*', check=False)
    return f'--- iolatd ---\n{r.stdout}{health()}\n---'


def main():
    module = sys.modules['__main__']
    tests = list(harness.collect(module, sys.argv[1:]))
    base = pathlib.Path('/run/iolat-lab')
    base.mkdir(exist_ok=True)
    print(f'1..{len(tests)}', flush=True)
    sys.exit(1 if harness.run_all(module, tests) else 0)
