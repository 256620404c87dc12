#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-trixie vm-sid
# timeout: 500
# long
"""PostgreSQL commits beside a bulk loader on one ext4: one line of status says who made it wait, and where."""

import re
import time

import disks
import lab
import measure
import postgresql
from harness import check, diagnose, run

LOADER = '''
import os, sys
directory = sys.argv[1]
n = 0
while True:
    os.makedirs(f'{directory}/{n // 200}', exist_ok=True)
    with open(f'{directory}/{n // 200}/{n}', 'wb') as f:
        f.write(b'x' * 16384)
    n += 1
    if n % 2000 == 0:
        os.system(f'rm -r {directory}/{n // 200 - 10} && sync -f {directory}')
'''
BENCH_SEC = 15

setup = lab.Rig


def start_postgres(t, mount_point):
    """A cluster of its own, as a unit; returns both."""
    cluster = postgresql.Cluster(mount_point)
    unit = lab.unit_name('postgresql')
    server = lab.Unit(unit, '--property=User=postgres', '--property=Type=notify', *cluster.command())
    t.defer(server.stop)
    cluster.wait()
    cluster.create_bench()
    return unit, cluster


def bench(cluster):
    """Mean time of a transaction, in ms."""
    return float(re.search(r'latency average = ([\d.]+) ms', cluster.bench('-c', '2', '-N', '-T', BENCH_SEC))[1])


def mount(t):
    """On a disk that can be kept busy."""
    return t.enter(disks.mounted(t.enter(disks.null_blk(size=1024, memory_backed=1, mbps=20, hw_queue_depth=128))))


def test_commit_stall_is_explained(t):
    mount_point = mount(t)
    unit, cluster = start_postgres(t, mount_point)
    quiet = bench(cluster)
    before = {r['culprit'] for r in lab.query('blame', unit) if r['phase'] == 'journal'}
    check(not any('loader' in c for c in before), f'blamed before it was there: {before}')

    loader = lab.unit_name('loader')
    (mount_point / 'bulk').mkdir()
    u = lab.Unit(loader, 'python3', '-c', LOADER, mount_point / 'bulk')
    t.defer(u.stop)
    time.sleep(2)
    loaded = bench(cluster)
    time.sleep(3)
    status = run('iolatctl', 'status', unit).stdout
    diagnose(f'{quiet} ms a transaction alone, {loaded} ms beside the loader')
    diagnose(status)
    rows = [r for r in lab.query('blame', unit) if r['victim'] == unit and r['culprit'] != unit]
    diagnose('\n'.join(f"{r['culprit']} {r['phase']} {r['step']} {measure.msec(r['sumNSec'])}" for r in rows[:8]))
    check(loaded > quiet, 'the loader did not disturb')
    line = next((line for line in status.splitlines() if 'ulprit' in line), None)
    check(line and loader in line, f'status does not name {loader}: {line}')
    check(re.search(r'journal|data|io|queue', line), f'status does not say where: {line}')


if __name__ == '__main__':
    lab.main()
