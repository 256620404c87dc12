# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the daemon takes: memory, CPU time and wakeups, with nothing to do and with a thousand services at work; how
long it takes to answer."""

import shutil
import statistics
import time

import bench
from bench import Budget, nbytes, number
from disk import bench_disk
from harness import BUILD, run
from rig import base_dir
from world import Units, Watched, active_units, map_bytes, queries

BINARIES = ('daemon/iolatd', 'probes/iolat-probes', 'client/iolatctl', 'client/exporter/iolat-exporter')
ACTIVE = 1000

# What iolat allows itself.
CPU_PERCENT_MAX, WAKEUPS_MAX, RESIDENT_MAX, MAPS_MAX, PAGE_MSEC_MAX = 0.1, 2, 8 << 20, 48 << 20, 50
# Elements that each unit may have for that.
OPS_OF_BUDGET, REQUESTS_OF_BUDGET = 2, 6


def binary_sizes():
    """As they are installed: without debugging symbols, where that can be had."""
    result = {}
    for name in BINARIES:
        path = BUILD / name
        if not path.exists():
            continue
        stripped = base_dir() / 'stripped'
        if shutil.which('strip'):
            run('strip', '-o', stripped, path)
            path = stripped
        result[name.rpartition('/')[2]] = path.stat().st_size
    return result


def start_times(watched, times):
    """Seconds until it is ready: with the programs still to be loaded, and with those of an earlier one."""
    first, again = watched.start(), []
    for _ in range(times):
        watched.daemon.stop()
        again.append(watched.start())
    return {'loadingSec': first, 'againSec': statistics.median(again)}


def measure(test, options):
    seconds = options.pick(30, 5)
    disk, described = bench_disk(test)
    watched, units = Watched(test), Units(test, disk)
    started = start_times(watched, options.pick(9, 3))
    idle = {}
    time.sleep(2)
    bench.progress(f'idle for {seconds} s')
    with watched.observed(idle):
        time.sleep(seconds)
    empty_maps = map_bytes(watched.maps())
    bench.progress(f'{ACTIVE} units at work for {seconds} s')
    active = active_units(watched, units, disk, ACTIVE, ACTIVE, seconds)
    asked = queries(watched.daemon, f'{units.base}-7.service', options.pick(100, 20))
    result = {'disk': described, 'start': started, 'idle': idle, 'active': active, 'emptyMapBytes': empty_maps,
              'queries': asked, 'binaries': binary_sizes()}
    result['budgets'] = [b.json() for b in budgets_of(result)]
    return result


def full_map_bytes(active):
    """What the maps would take if each unit had as many operations and kinds of requests as the budget says."""
    total = active['mapBytes']
    if total is None:
        return None
    for name, wanted in ('ops', OPS_OF_BUDGET), ('rqs', REQUESTS_OF_BUDGET):
        m = active['maps'][name]
        total += max(0, wanted * active['units'] - m['entries']) * m['bytes'] / m['entries']
    return total


def mebibytes(size):
    return None if size is None else size / (1 << 20)


def budgets_of(result):
    idle, active = result['idle'], result['active']
    return [Budget('idle: CPU', idle['cpuPercent'], CPU_PERCENT_MAX, '%'),
            Budget('idle: wakeups', idle['wakeupsPerSec'], WAKEUPS_MAX, 'a second'),
            Budget('idle: RSS', mebibytes(idle['residentBytes']), RESIDENT_MAX >> 20, 'MiB'),
            Budget(f'{active["units"]} units of {OPS_OF_BUDGET} operations and {REQUESTS_OF_BUDGET} kinds of requests '
                   'each (extrapolated): memory of maps', mebibytes(full_map_bytes(active)), MAPS_MAX >> 20, 'MiB',
                   note='this kernel does not say what a hash takes'),
            Budget(f'{active["units"]} units: a page of 1000 rows, p99', result['queries']['page']['p99MSec'],
                   PAGE_MSEC_MAX, 'ms'),
            Budget(f'{active["units"]} units: operations lost', active['operationsLost'], 0),
            Budget(f'{active["units"]} units: units without a name', active['units'] - active['unitsNamed'], 0)]


def query_rows(asked):
    names = {'page': 'a page of 1000 rows over the bus', 'list': 'iolatctl list --json=short',
             'status': 'iolatctl status', 'statusUnit': 'iolatctl status UNIT'}
    return [[f'{what}, p50 / p99', '', f'{number(asked[k]["p50MSec"])} / {number(asked[k]["p99MSec"])} ms']
            for k, what in names.items()]


def text(result):
    idle, active = result['idle'], result['active']
    rows = [['RSS', nbytes(idle['residentBytes']), nbytes(active['residentBytes'])],
            ['CPU', f'{number(idle["cpuPercent"])} %', f'{number(active["cpuPercent"])} %'],
            ['wakeups a second', number(idle['wakeupsPerSec']), number(active['wakeupsPerSec'])],
            ['operations a second', '', number(active['operationsPerSec'])],
            ['kernel memory of maps', nbytes(result['emptyMapBytes']), nbytes(active['mapBytes'])],
            ['rows of a listing', '', f'{result["queries"]["rows"]:,}'],
            *query_rows(result['queries'])]
    largest = sorted(active['maps'].items(), key=lambda i: -(i[1]['bytes'] or 0))[:6]
    notes = [f'Ready after {number(result["start"]["loadingSec"] * 1e3)} ms with programs to be loaded, '
             f'{number(result["start"]["againSec"] * 1e3)} ms without (median).',
             'Largest maps: ' + ', '.join(f'{k} {nbytes(v["bytes"])}' for k, v in largest) + '.',
             'Programs: ' + ', '.join(f'{k} {nbytes(v)}' for k, v in result['binaries'].items()) + '.',
             f'{active["units"]} units: {active["unitsNamed"]} named, {active["operationsLost"]} operations lost'
             f'{"; losses: " + str(active["losses"]) if active["losses"] else ""}; {result["disk"]}.']
    return '\n'.join([bench.table('iolatd', ('', 'idle', f'{active["units"]} units'), rows, notes),
                      bench.budget_table(result['budgets'])])
