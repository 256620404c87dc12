# SPDX-License-Identifier: LGPL-2.1-or-later
"""Where iolat says that time went, and what is wrong with that; file systems of every kind to try it on."""

import contextlib
import json
import os
import pathlib
import tempfile

import lab
from harness import check, diagnose, run, wait_for

MSEC = 1_000_000
SEC = 1_000_000_000
UNNAMED = ('other', 'fs')
WAITING_OPS = ('slowwrite', 'slowread', 'slowfault', 'meta')


def dirty_bytes(t, limit):
    """How many bytes may be dirty, until the end of the test."""
    for name, value in (('dirty_background', limit // 2), ('dirty', limit)):
        # Setting the one unsets the other, which then reads as 0 and could not be put back.
        ratio = pathlib.Path(f'/proc/sys/vm/{name}_ratio')
        t.defer(ratio.write_text, ratio.read_text())
        pathlib.Path(f'/proc/sys/vm/{name}_bytes').write_text(str(value))


def sums(unit, key='sumNSec', **wanted):
    """(op, phase) -> sum of a key over rows of the unit."""
    result = {}
    for r in lab.rows(unit, unit=unit, **wanted):
        if r[key] is not None:
            result[r['op'], r['phase']] = result.get((r['op'], r['phase']), 0) + r[key]
    return result


def parts(unit, op, **wanted):
    """phase -> nanoseconds, of the phases that make up the total; beside them the total and the run queue."""
    result = {phase: n for (o, phase), n in sums(unit, op=op, **wanted).items() if o == op}
    return result, result.pop('total', 0), result.pop('runqueue', 0)


def msec(nsec):
    return f'{nsec / MSEC:.1f} ms'


def show(phases):
    return ', '.join(f'{k} {msec(v)}' for k, v in sorted(phases.items(), key=lambda i: -i[1]))


def problems(unit, op, *named, caller=None, at_least=0.9, tolerance=0.05, other=0.05, **wanted):
    """Yields what is wrong: named phases should hold that share of the total, which the caller saw as well."""
    phases, total, runqueue = parts(unit, op, **wanted)
    what = f'{op}: total {msec(total)}, caller {msec(caller or 0)}, run queue {msec(runqueue)}: {show(phases)}'
    diagnose(what)
    if total == 0:
        yield f'no {op} of {unit}: {what}'
        return
    if caller is not None and abs(total - caller) > tolerance * caller:
        yield f'the total is not what the caller saw: {what}'
    if sum(phases.values()) != total:
        yield f'the phases do not sum to the total: {what}'
    if named and sum(phases.get(p, 0) for p in named) < at_least * total:
        yield f'less than {at_least:.0%} is {" or ".join(named)}: {what}'
    if other is not None and phases.get('other', 0) > other * total:
        yield f'more than {other:.0%} is other: {what}'


def device_share(unit, device, op='rq-write'):
    """Mean time of a request of the unit in the device, and how many there were."""
    rows = lab.rows(unit, unit=unit, op=op, phase='device', device=device)
    n = sum(r['count'] for r in rows)
    return (sum(r['sumNSec'] for r in rows) / n if n else 0), n


def is_function_tier():
    return any(r['probe'] == 'journal-wait' and r['attached'] for r in lab.probes())


def attached(*names):
    """Probes of these names that are attached."""
    return {r['probe'] for r in lab.probes() if r['probe'] in names and r['attached']}


def stalls(unit=None):
    """All recorded stalls, oldest first where iolatd says so; as dictionaries."""
    r = run('busctl', '--json=short', 'call', 'org.iolat1', '/org/iolat1', 'org.iolat1.Manager', 'ListStalls', 'tu',
            '0', '1000')
    found = [{k: v['data'] for k, v in row.items()} for row in json.loads(r.stdout)['data'][0]]
    return [s for s in found if unit is None or s.get('unit') == unit]


def super_device(path):
    """MAJOR:MINOR of the mounted file system, which for btrfs is not what stat() says."""
    found = None
    for line in pathlib.Path('/proc/self/mountinfo').read_text().splitlines():
        fields = line.split()
        if fields[4] == str(path):
            found = fields[2]
    check(found, f'{path} is no mount point')
    return found


MAKE = {
    'ext4': lambda node: run('mkfs.ext4', '-q', '-F', '-J', 'size=16', '-E', 'lazy_itable_init=0,lazy_journal_init=0',
                             node),
    'ext4 fast_commit': lambda node: run('mkfs.ext4', '-q', '-F', '-O', 'fast_commit', '-J', 'size=16', '-E',
                                         'lazy_itable_init=0,lazy_journal_init=0', node),
    'xfs': lambda node: run('mkfs.xfs', '-q', '-f', node),
    'btrfs': lambda node: run('mkfs.btrfs', '-q', '-f', '-m', 'single', node),
}
MODULES = {'ext4': 'ext4-sync', 'ext4 fast_commit': 'ext4-fast-commit', 'xfs': 'xfs-sync', 'btrfs': 'btrfs-sync'}


@contextlib.contextmanager
def mounted(disk, kind, options='noatime', fresh=True):
    """Like that of disks, for all kinds in MAKE."""
    if fresh:
        MAKE[kind](disk.node)
    with tempfile.TemporaryDirectory(prefix='mnt', dir='/run/iolat-lab') as directory:
        run('mount', '-t', kind.split()[0], '-o', options, disk.node, directory)
        try:
            yield pathlib.Path(directory)
        finally:
            wait_for(lambda: run('umount', directory, check=False).returncode == 0, 20, f'end of {directory}')


@contextlib.contextmanager
def overlay(directory):
    """An overlay whose layers lie in the directory."""
    for name in ('lower', 'upper', 'work'):
        os.makedirs(directory / name)
    with tempfile.TemporaryDirectory(prefix='ovl', dir='/run/iolat-lab') as mount_point:
        run('mount', '-t', 'overlay', 'overlay', '-o',
            f'lowerdir={directory}/lower,upperdir={directory}/upper,workdir={directory}/work', mount_point)
        try:
            yield pathlib.Path(mount_point)
        finally:
            run('umount', mount_point)


def wait_for_modules(*kinds, timeout=60):
    """Until the probes of these file systems are there, if this tier has them; returns what is."""
    names = [MODULES[k] for k in kinds if k in MODULES]
    if not is_function_tier():
        return set()
    wait_for(lambda: attached(*names) == set(names), timeout, f'probes {names}')
    return set(names)
