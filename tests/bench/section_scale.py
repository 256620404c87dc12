# SPDX-License-Identifier: LGPL-2.1-or-later
"""How what the daemon takes grows with the number of services, and whether ten thousand of them, of which some are
born and some die all the time, are all seen."""

import contextlib

import bench
from bench import Budget, nbytes, number
from disk import bench_disk
from harness import Test, wait_for
from world import Units, Watched, active_units, counted, queries

COUNTS = (10, 100, 1000, 10000)
RATE_MAX = 1000  # operations a second of all services together
BIRTHS_PER_SEC = 100
OPS_OF_SHORT_LIFE = 1
LOOK_SEC = 10  # between two listings


def grow(disk, n, seconds, times):
    """One number of services, seen by a daemon of its own."""
    test = Test(f'{n} units')
    with test.stack:
        watched, units = Watched(test), Units(test, disk)
        watched.start()
        result = active_units(watched, units, disk, n, min(n, RATE_MAX), seconds)
        result['queries'] = queries(watched.daemon, f'{units.base}-7.service', times)
        return result


class Seen:
    """Units that the daemon has named so far: those that are gone for long are put together."""

    def __init__(self, watched, units, disk):
        self.watched, self.units, self.disk, self.names = watched, units, disk, set()

    def look(self):
        self.names |= set(counted(self.watched.daemon, f'{self.units.base}-short*', ('fdatasync',), self.disk.device))
        return len(self.names)


def total(watched, units, disk):
    """What was counted for all that have ever been there."""
    rows = watched.daemon.rows(op='fdatasync', phase='total', device=disk.device)
    return sum(r['count'] for r in rows if r['unit'].startswith(units.base) or r['unit'] == '(exited)')


def churn(disk, n, seconds):
    """n services that stay, and others that are born and die all the time."""
    test = Test('churn')
    with test.stack:
        watched, units = Watched(test), Units(test, disk)
        watched.start()
        units.ask('make', n)
        units.ask('touch', n, 0)  # each has synced once
        seen, born, result = Seen(watched, units, disk), seconds * BIRTHS_PER_SEC, {'units': n}
        before = watched.resident()
        with watched.observed(result):
            units.tell('live', born, OPS_OF_SHORT_LIFE, BIRTHS_PER_SEC)
            while not units.has_answered(LOOK_SEC):
                seen.look()
            result['birthsPerSec'] = born / (units.answer()['nsec'] / 1e9)
        with contextlib.suppress(AssertionError):
            wait_for(lambda: seen.look() >= born and total(watched, units, disk) >= n + born * OPS_OF_SHORT_LIFE, 20)
        kept = counted(watched.daemon, f'{units.base}-[0-9]*', ('fdatasync',), disk.device)
        result |= {'born': born, 'bornAndNamed': len(seen.names), 'unitsNamed': len(kept),
                   'operationsLost': n + born * OPS_OF_SHORT_LIFE - total(watched, units, disk),
                   'losses': watched.daemon.losses(), 'residentBytesBefore': before}
        return result


def measure(test, options):
    disk, described = bench_disk(test)
    counts = options.pick(COUNTS, COUNTS[:3])
    growth = []
    for n in counts:
        bench.progress(f'{n} units')
        growth.append(grow(disk, n, options.pick(20, 3), options.pick(50, 5)))
    bench.progress(f'{COUNTS[-1]} units, and {BIRTHS_PER_SEC} births and deaths a second')
    churned = churn(disk, COUNTS[-1], options.pick(60, 10))
    result = {'disk': described, 'growth': growth, 'churn': churned}
    result['budgets'] = [b.json() for b in budgets_of(result)]
    return result


def budgets_of(result):
    c, last = result['churn'], result['growth'][-1]
    return [Budget(f'{last["units"]} units: without a name', last['units'] - last['unitsNamed'], 0),
            Budget(f'{last["units"]} units: operations lost', last['operationsLost'], 0),
            Budget(f'{c["units"]} units and {c["born"]} short-lived: without a name',
                   c['units'] - c['unitsNamed'] + c['born'] - c['bornAndNamed'], 0),
            Budget(f'{c["units"]} units and {c["born"]} short-lived: operations lost', c['operationsLost'], 0)]


def text(result):
    columns = [f'{g["units"]} units' for g in result['growth']]
    rows = [['operations a second', *(number(g['operationsPerSec']) for g in result['growth'])],
            ['RSS', *(nbytes(g['residentBytes']) for g in result['growth'])],
            ['CPU', *(f'{number(g["cpuPercent"])} %' for g in result['growth'])],
            ['wakeups a second', *(number(g['wakeupsPerSec']) for g in result['growth'])],
            ['kernel memory of maps', *(nbytes(g['mapBytes']) for g in result['growth'])],
            ['rows of a listing', *(f'{g["queries"]["rows"]:,}' for g in result['growth'])]]
    for key, what in (('page', 'a page of 1000 rows'), ('list', 'iolatctl list'), ('status', 'iolatctl status'),
                      ('statusUnit', 'iolatctl status UNIT')):
        rows.append([f'{what}, p50 / p99 ms', *(f'{number(g["queries"][key]["p50MSec"])} / '
                                                f'{number(g["queries"][key]["p99MSec"])}' for g in result['growth'])])
    rows += [['units named', *(str(g['unitsNamed']) for g in result['growth'])],
             ['operations lost', *(str(g['operationsLost']) for g in result['growth'])]]
    c = result['churn']
    notes = [f'{c["units"]} units, {number(c["birthsPerSec"])} births and deaths a second for {number(c["seconds"])} '
             f's: {c["unitsNamed"]} and {c["bornAndNamed"]} of {c["born"]} named, {c["operationsLost"]} operations '
             f'lost, CPU {number(c["cpuPercent"])} %, RSS {nbytes(c["residentBytesBefore"])} -> '
             f'{nbytes(c["residentBytes"])}.']
    for g in (*result['growth'], c):
        if g['losses']:
            notes.append(f'Losses with {g["units"]} units: {g["losses"]}')
    return bench.table('Growth', ('', *columns), rows, notes) + '\n' + bench.budget_table(result['budgets'])
