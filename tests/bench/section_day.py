# SPDX-License-Identifier: LGPL-2.1-or-later
"""A day of services that come and go, a minute in a second: IOLAT_TEST_HURRY has the daemon put together after a
second what it otherwise does after a minute. Memory must not grow, and no operation may be lost."""

import contextlib
import time

import bench
from bench import Budget, nbytes, number
from disk import bench_disk
from harness import wait_for
from world import Units, Watched, map_bytes

HURRY = {'IOLAT_TEST_HURRY': '1'}
# Limits that are reached within the first hours, so that what follows shows whether they hold.
CONFIG = '[Daemon]\nMaxUnits=256\nHistoryMaxBytes=512K\n'
KEPT_UNITS = 256
SECONDS_OF_A_MINUTE = 1
MINUTES, OPERATIONS, UNITS = 24 * 60, 1000000, 5000
QUICK_MINUTES, QUICK_OPERATIONS, QUICK_UNITS = 40, 40000, 800
WARM_UP = 0.35  # of the day
SLICES = 48     # of the day, after each of which it is looked at
GROWTH_MAX = 0.05
SETTLE_SEC = 30
# Maps of what is in flight, or what the daemon takes out: nothing may stay in there. Others are bounded by their
# size (structures that the kernel uses again) or by the number of units that are kept.
TRANSIENT = ('dios', 'completing', 'held_bios', 'held_ops', 'waits', 'blames')
OF_UNITS = ('ops', 'rqs', 'names')
SHOWN = (*OF_UNITS, 'inflight_rqs')


def rows_of_day(daemon, units, disk, op):
    rows = daemon.rows(op=op, phase='total', device=disk.device)
    return [r for r in rows if r['unit'].startswith(units.base) or r['unit'] == '(exited)']


def measure(test, options):
    disk, described = bench_disk(test)
    watched, units = Watched(test, CONFIG, HURRY), Units(test, disk)
    watched.start()
    minutes, operations, n_units = options.pick((MINUTES, OPERATIONS, UNITS),
                                                (QUICK_MINUTES, QUICK_OPERATIONS, QUICK_UNITS))
    seconds = minutes * SECONDS_OF_A_MINUTE
    slices = min(SLICES, seconds // 2)
    of_unit, of_slice = operations // n_units, -(-n_units // slices)
    before, samples, done, lived = watched.maps(), [], 0, 0
    began = time.monotonic()
    for n in range(slices):
        answer = units.ask('live', of_slice, of_unit, max(1, round(of_slice * slices / seconds)))
        done, lived = done + answer['operations'], answer['lived']
        time.sleep(max(0, began + (n + 1) * seconds / slices - time.monotonic()))
        maps = watched.maps()
        samples.append({'minute': (time.monotonic() - began) / SECONDS_OF_A_MINUTE, 'residentBytes': watched.resident(),
                        'mapBytes': map_bytes(maps), 'maps': maps, 'cpuSeconds': watched.cpu_seconds()})
        if n % 8 == 0:
            bench.progress(f'minute {samples[-1]["minute"]:.0f} of {minutes}: RSS {nbytes(watched.resident())}')

    syncs = (of_unit + 1) // 2 * lived

    def counts():
        return (sum(r['count'] for r in rows_of_day(watched.daemon, units, disk, 'fdatasync')),
                sum(r['count'] for r in rows_of_day(watched.daemon, units, disk, 'dread')))
    with contextlib.suppress(AssertionError):
        wait_for(lambda: counts() == (syncs, done - syncs), SETTLE_SEC)
    after = watched.maps()
    deadline = time.monotonic() + SETTLE_SEC
    while left_behind(before, after) and time.monotonic() < deadline:  # the rest of the machine goes on
        time.sleep(0.2)
        after = watched.maps()
    got = counts()
    result = {'disk': described, 'minutes': minutes, 'seconds': seconds, 'operations': done, 'units': lived,
              'syncs': {'done': syncs, 'counted': got[0]}, 'reads': {'done': done - syncs, 'counted': got[1]},
              'losses': watched.daemon.losses(), 'samples': samples, 'before': before, 'after': after}
    result['leftBehind'] = left_behind(before, result['after'])
    result['residentGrowth'] = growth([s['residentBytes'] for s in samples])
    result['mapGrowth'] = growth([s['mapBytes'] for s in samples])
    result['budgets'] = [b.json() for b in budgets_of(result)]
    return result


def growth(values):
    """From the first half of what follows the warm-up to the second, as a fraction."""
    values = values[int(len(values) * WARM_UP):]
    if None in values:
        return None
    first, second = values[:len(values) // 2], values[len(values) // 2:]
    return bench.median(second) / bench.median(first) - 1


def left_behind(before, after):
    """Map -> elements that are more than there should be."""
    result = {}
    for name in TRANSIENT:
        if after[name]['entries'] > before[name]['entries']:
            result[name] = after[name]['entries'] - before[name]['entries']
    for name in OF_UNITS:
        # Two kinds of either for each unit that is kept apart, and (exited); the rest of the machine has some, too.
        limit = 2 * (KEPT_UNITS + 1) + 2 * before[name]['entries'] + 64
        if after[name]['entries'] > limit:
            result[name] = after[name]['entries'] - limit
    return result


def budgets_of(result):
    lost = sum(abs(result[k]['done'] - result[k]['counted']) for k in ('syncs', 'reads'))
    return [Budget('operations lost, or counted twice', lost, 0),
            Budget('growth of RSS after warm-up', 100 * result['residentGrowth'], 100 * GROWTH_MAX, '%'),
            Budget('growth of the maps after warm-up',
                   None if result['mapGrowth'] is None else 100 * result['mapGrowth'], 100 * GROWTH_MAX, '%',
                   note='this kernel does not say what a hash takes'),
            Budget('elements left behind in maps', sum(result['leftBehind'].values()), 0)]


def text(result):
    shown = result['samples'][::max(1, len(result['samples']) // 12)]
    if shown[-1] is not result['samples'][-1]:
        shown.append(result['samples'][-1])
    rows = [[f'{s["minute"] / 60:.1f}', nbytes(s['residentBytes']), nbytes(s['mapBytes']),
             *(str(s['maps'][m]['entries']) for m in SHOWN), number(s['cpuSeconds'])] for s in shown]
    notes = [f'{result["operations"]:,} operations of {result["units"]:,} services in {result["minutes"] / 60:.1f} '
             f'simulated hours ({result["seconds"]} s); {result["disk"]}.']
    for what in 'syncs', 'reads':
        notes.append(f'{what}: {result[what]["done"]:,} done, {result[what]["counted"]:,} counted.')
    if result['leftBehind']:
        notes.append(f'Left behind in maps: {result["leftBehind"]}')
    if result['losses']:
        notes.append(f'Losses: {result["losses"]}')
    return '\n'.join([bench.table('A day', ('hour', 'RSS', 'maps', *SHOWN, 'CPU s'), rows, notes),
                      bench.budget_table(result['budgets'])])
