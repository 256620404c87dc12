# SPDX-License-Identifier: LGPL-2.1-or-later
"""Nothing is lost or counted twice when iolatd dies, or when other probes take over."""

import os
import random
import signal
import subprocess
import time

import harness
from harness import cases, check, equal, run, skip, start
from product import PROBES, daemon
from rig import bpffs, cgroup, ext4, finish, release, start_workload, workload

LOADS = 20


def loaded(t, disk, a, b, seconds, rate):
    """Two workloads, of fsync and of direct writes, that last about that long. Returns them, running."""
    one = start_workload('fsync', disk.path('f'), a, threads=4, count=int(seconds * rate), rate=rate, write=4096,
                         pattern='overwrite', prepare='1M', barrier=True)
    two = start_workload('dwrite', disk.path('d'), b, threads=2, count=int(seconds * rate), rate=rate, prepare='1M',
                         barrier=True)
    release(one, two)
    return one, two


def check_exact(d, a, b, one, two):
    d.expect_counts(a.unit, {'fsync': finish(one)['count']})
    d.expect_counts(b.unit, {'dwrite': finish(two)['count']})


@cases('kill -9', 'SIGTERM')
def test_ended_and_restarted_five_times(t, how):
    d, disk = t.enter(daemon(t)), t.enter(ext4())
    a, b = t.enter(cgroup('a.service')), t.enter(cgroup('b.service'))
    one, two = loaded(t, disk, a, b, 6, 400)
    for _ in range(5):
        time.sleep(0.4)
        if how == 'kill -9':
            d.kill9()
        else:
            d.stop()
        time.sleep(0.4)
        d.start()
    check(one.poll() is None, 'the workload ended too soon')
    check_exact(d, a, b, one, two)


def test_pins_go_on_without_daemon(t):
    d, disk = t.enter(daemon(t)), t.enter(ext4())
    group = t.enter(cgroup('a.service'))
    d.stop()
    workload('fsync', disk.path('f'), group, count=500, write=4096)
    d.start()
    d.expect_counts(group.unit, {'fsync': 500})


def load(bpffs_dir, kill_after=None):
    """Loads a further generation; the loader may be killed in the middle. Returns whether it got to its end."""
    process = start(PROBES, 'load', '--force', f'--bpffs={bpffs_dir}', stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                    text=True)
    if kill_after is not None:
        time.sleep(kill_after)
        process.kill()
    out, _ = process.communicate(timeout=60)
    check(process.returncode in (0, -signal.SIGKILL), f'loader ended with {process.returncode}: {out}')
    return process.returncode == 0


@cases('to the end', 'and killed at any moment')
def test_probes_loaded_twenty_times(t, how):
    d, disk = t.enter(daemon(t)), t.enter(ext4())
    a, b = t.enter(cgroup('a.service')), t.enter(cgroup('b.service'))
    began = time.monotonic()
    load(d.bpffs)
    duration = time.monotonic() - began
    one, two = loaded(t, disk, a, b, LOADS * (duration + 0.1) + 2, 300)
    completed = 0
    for n in range(LOADS):
        kill = how != 'to the end' and n % 2 == 0
        completed += load(d.bpffs, random.uniform(0, duration * 1.1) if kill else None)
    check(completed >= LOADS // 2, f'only {completed} loads ended')
    check_exact(d, a, b, one, two)
    equal(sum(p['state'] == 'absent' for p in d.probes('probe')), 0, 'absent probes')


def test_loader_leaves_one_generation(t):
    directory = t.enter(bpffs())
    for _ in range(3):
        load(directory)
    for n in range(4):
        load(directory, 0.02 * (n + 1))
    load(directory)
    names = os.listdir(directory / 'iolat')
    check(not [n for n in names if n.endswith('-new')], f'half a generation is left: {names}')
    run(PROBES, 'unload', f'--bpffs={directory}')
    check(not os.path.exists(directory / 'iolat') or os.listdir(directory / 'iolat') == [],
          'pins are left after unload')


def test_two_loaders_at_once(t):
    directory = t.enter(bpffs())
    processes = [start(PROBES, 'load', f'--bpffs={directory}', stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                 for _ in range(4)]
    for p in processes:
        _, err = p.communicate(timeout=60)
        equal(p.returncode, 0, f'exit code of a loader ({err})')
    run(PROBES, 'unload', f'--bpffs={directory}')


HIDDEN = ['unshare', '--mount', 'sh', '-c', 'mount --bind /dev/null /proc/kallsyms && exec "$@"', 'sh']
FEW = ['setpriv', '--bounding-set=-all,+bpf,+perfmon,+sys_admin', '--inh-caps=-all']


def test_symbols_from_stdin(t):
    """As the unit does it: by a loader that could read them nowhere else, and would not be told addresses."""
    if not run('grep', '-m', '1', '[1-9a-f].* T', '/proc/kallsyms', check=False).stdout:
        skip('no addresses for anybody')
    directory = t.enter(bpffs())
    with open('/proc/kallsyms', encoding='ascii') as symbols:
        said = run(*HIDDEN, *FEW, PROBES, 'load', '--debug', '--symbols-from-stdin', f'--bpffs={directory}',
                   stdin=symbols).stderr
    check('tells addresses' in said, f'no addresses: {said}')
    run(PROBES, 'unload', f'--bpffs={directory}')
    run(*HIDDEN, PROBES, 'load', f'--bpffs={directory}')  # goes without
    run(PROBES, 'unload', f'--bpffs={directory}')


if __name__ == '__main__':
    harness.main()
