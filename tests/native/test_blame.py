# SPDX-License-Identifier: LGPL-2.1-or-later
"""Who made it wait. The tests use journals of ext4, whose steps every tier sees, and direct I/O."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import harness
from blame import blame_rows, blamed, share
from harness import SHM, cases, check, equal, run, skip, wait_for
from product import PROBES, daemon, settled
from rig import Disk, cgroup, ext4, finish, numbers, release, slow_ext4, start_workload, workload

CHANGER = pathlib.Path(__file__).with_name('changer.py')


class Rig:
    def __init__(self, t):
        self.daemon = t.enter(daemon(t))


def setup(t):
    return Rig(t)


class Changer:
    """Makes files in a cgroup of its own, at a rate."""

    def __init__(self, t, disk, rate, kind='file'):
        self.group = t.enter(cgroup('culprit.service'))
        self.unit = self.group.unit
        self.process = self.group.start(sys.executable, CHANGER, kind, disk.path(f'd{next(numbers)}'), rate,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        equal(self.process.stdout.readline(), 'ready\n', 'what the changer says')

    def tell(self):
        self.process.stdin.write('\n')
        self.process.stdin.flush()

    def end(self):
        self.tell()
        return int(self.process.communicate(timeout=30)[0])


def counted_journal(d, unit):
    return sum(r['sumNSec'] for r in d.rows(unit, unit=unit, op='fsync', phase='journal'))


def journal_steps(d, unit):
    """As the unit's object tells them: what was waited for, whoever was to blame."""
    path = run('dbus-send', f'--peer=unix:path={d.socket}', '--print-reply', '/org/iolat1',
               'org.iolat1.Manager.GetUnit', f'string:{unit}').stdout.split('"')[1]
    reply = run('dbus-send', f'--peer=unix:path={d.socket}', '--print-reply', path,
                'org.freedesktop.DBus.Properties.Get', 'string:org.iolat1.Unit', 'string:JournalSteps').stdout
    return {step: int(ns) for step, ns in re.findall(r'string "(\w+)"\s+uint64 (\d+)', reply)}


def blame_of(d, unit):
    """Once all waits have been taken out of the maps."""
    def steps():
        by_step = {}
        for r in blame_rows(d, unit):
            if r['step']:
                by_step[r['step']] = by_step.get(r['step'], 0) + r['sumNSec']
        return by_step
    wait_for(lambda: d.rows(unit, unit=unit), 5, f'{unit} is known')
    try:
        wait_for(lambda: steps() == journal_steps(d, unit), 5)
    except AssertionError:
        nobody = [r for r in blame_rows(d) if r['victim'].startswith('(')]
        raise AssertionError(f'{steps()} is blamed of the waits {journal_steps(d, unit)}; losses: {d.losses()}; '
                             f'owners without a unit: {nobody}') from None
    return blame_rows(d, unit)


def victim(t, disk, count=80, rate=20):
    """fsyncs for some seconds. Returns the unit."""
    group = t.enter(cgroup('victim.service'))
    workload('fsync', disk.path(f'f{next(numbers)}'), group, count=count, rate=rate, write=4096, pattern='append')
    return group.unit


def beside(t, disk, *changers, **options):
    for c in changers:
        c.tell()
    unit = victim(t, disk, **options)
    made = [c.end() for c in changers]
    return unit, made


def journal_blame(rows, unit, **wanted):
    return blamed(rows, victim=unit, phase='journal', **wanted)


def test_alone(t):
    d, disk = t.rig.daemon, t.enter(ext4())
    unit = victim(t, disk, count=300, rate=0)
    rows = blame_of(d, unit)
    journal = blamed(rows, victim=unit, phase='journal')
    total = sum(journal.values())
    check(total > 0, f'nobody was blamed: {rows}')
    for culprit, ns in journal.items():
        check(culprit in (unit, '(kernel)') or ns <= total * 0.05, f'{culprit} is blamed for {ns} of {total}: {rows}')
    check(journal.get(unit, 0) >= total * 0.8, f'blamed on itself: {journal}')
    for r in rows:
        equal(r['victim'], unit, 'victim')
        equal(r['estimated'], r['phase'] != 'journal', f'estimated of {r}')
        if r['phase'] == 'journal':
            equal((r['device'], r['mountPoint']), (disk.device, str(disk.mount_point)), 'filesystem')
    equal([r['sumNSec'] for r in rows], sorted((r['sumNSec'] for r in rows), reverse=True), 'order')


def test_steps_to_the_nanosecond(t):
    """What is blamed on all culprits together is what was waited."""
    d, disk = t.rig.daemon, t.enter(ext4())
    changers = [Changer(t, disk, rate) for rate in (37, 211, 503)]
    unit, _ = beside(t, disk, *changers, count=500, rate=200)
    rows = blame_of(d, unit)
    steps = journal_steps(d, unit)
    for step, ns in steps.items():
        equal(sum(blamed(rows, phase='journal', step=step).values()), ns, f'blame of step {step}')
    check(sum(steps.values()) <= counted_journal(d, unit), f'{steps} of {counted_journal(d, unit)} ns in the journal')


def test_culprit_of_the_excess(t):
    """Of the wait that the culprit adds it is blamed for four fifths at least."""
    d, disk = t.rig.daemon, t.enter(slow_ext4())
    disk.delay(write=2)
    alone = victim(t, disk)
    blame_of(d, alone)
    culprit = Changer(t, disk, 1500, 'directory')
    unit, _ = beside(t, disk, culprit)
    rows = blame_of(d, unit)
    before, after = counted_journal(d, alone), counted_journal(d, unit)
    check(after > before * 1.3, f'the culprit has no effect: {before} ns without, {after} with it')
    got = journal_blame(rows, unit).get(culprit.unit, 0)
    print(f'# {before / 1e6:.1f} ms alone, {after / 1e6:.1f} beside, {got / 1e6:.1f} blamed', flush=True)
    check(got >= (after - before) * 0.8, f'{got} ns blamed of {after} - {before}: {rows}')


def ratio(t, rate_a, rate_b):
    """Share of the first of two culprits in what is blamed on both, and in what they made."""
    d, disk = t.rig.daemon, t.enter(ext4())
    a, b = Changer(t, disk, rate_a), Changer(t, disk, rate_b)
    unit, made = beside(t, disk, a, b)
    # Not by late handles, which are measured: one of them may have waited for a CPU.
    sums = journal_blame(blame_of(d, unit), unit, weight='requested-blocks')
    check(sums.get(a.unit, 0) + sums.get(b.unit, 0) > 0, f'nobody is blamed: {sums}')
    got = sums.get(a.unit, 0) / (sums.get(a.unit, 0) + sums.get(b.unit, 0))
    print(f'# {made[0]}:{made[1]} made, share {got:.3f} of {sums}', flush=True)
    return got, sums, a.unit, unit


def test_ten_to_one(t):
    got, sums, a, unit = ratio(t, 1000, 100)
    check(got >= 0.75, f'{got}')
    total = sum(sums.values())
    check(sums[a] >= total * 0.75, f'{sums[a]} of {total}')


def mkfs_and_mount(t, node):
    run('mkfs.ext4', '-q', '-F', '-J', 'size=16', '-E', 'lazy_itable_init=0,lazy_journal_init=0', node)
    mount_point = t.directory('mnt')
    run('mount', '-t', 'ext4', node, mount_point)
    return Disk(node, mount_point)


def test_journal_made_anew(t):
    """A new file system on the same device counts its transactions from 1 again: nobody is blamed for the old ones."""
    d, image = t.rig.daemon, t.directory('image', SHM) / 'image'
    with open(image, 'wb') as f:
        f.truncate(256 << 20)
    node = run('losetup', '--find', '--show', image).stdout.strip()
    t.defer(run, 'losetup', '--detach', node)
    seen = []
    for _ in range(2):
        disk = mkfs_and_mount(t, node)
        try:
            culprit = Changer(t, disk, 300)
            unit, _ = beside(t, disk, culprit, count=40)
        finally:
            run('umount', disk.mount_point)
        rows = journal_blame(blame_of(d, unit), unit)
        check(culprit.unit in rows, f'the culprit is not blamed: {rows}')
        check(not set(seen) & set(rows), f'those on the device before are blamed: {rows}')
        seen += [unit, culprit.unit]


def test_one_to_one(t):
    got, *_ = ratio(t, 500, 500)
    check(0.35 <= got <= 0.65, f'{got}')


def test_three_to_one_is_ranked_first(t):
    got, sums, a, unit = ratio(t, 900, 300)
    equal(max(sums, key=sums.get), a, f'the largest of {sums}')


# Commits all the time, each with what it has made since the one before.
COMMITTER = '''
import os, sys
directory = os.open(sys.argv[1], os.O_RDONLY)
for n in range(1000000):
    for i in range(50):
        os.close(os.open(f'{sys.argv[1]}/{n}-{i}', os.O_CREAT | os.O_WRONLY))
    os.fsync(directory)
'''


def test_commit_before(t):
    """A sync that comes while another's commit is under way waits for that first, and blames it on the other."""
    d, disk = t.rig.daemon, t.enter(slow_ext4())
    culprit, group = t.enter(cgroup('culprit.service')), t.enter(cgroup('victim.service'))
    for name in 'culprit', 'victim':
        os.mkdir(disk.path(name))
    disk.delay(fsync=100)
    load = culprit.start(sys.executable, '-c', COMMITTER, disk.path('culprit'))
    t.defer(load.wait)
    t.defer(load.kill)
    wait_for(lambda: d.counts(culprit.unit).get('fsync', 0) > 3, what='commits')
    workload('fsync-dir', disk.path('victim'), group, count=15, rate=2, write=1)
    time.sleep(2.2)
    rows = settled(lambda: blame_rows(d, group.unit))
    found = blamed(rows, phase='journal', step='previous')
    print(f'# {found} of {blamed(rows, phase="journal")}', flush=True)
    check(sum(found.values()) > 0.2 * sum(blamed(rows, phase='journal').values()), f'it hardly waited for it: {rows}')
    check(found.get(culprit.unit, 0) >= 0.9 * sum(found.values()), f'the commit before was its: {found}')
    equal({r['weight'] for r in rows if r['step'] == 'previous'}, {'requested-blocks'}, 'weights')


def test_saturated_queue(t):
    """Another unit keeps the disk busy by direct I/O."""
    d, disk = t.rig.daemon, t.enter(ext4())
    culprit, group = t.enter(cgroup('culprit.service')), t.enter(cgroup('victim.service'))
    busy = start_workload('dwrite', disk.path('busy'), culprit, count=10**8, engine='aio', depth=64, block='64K',
                          prepare='32M', barrier=True)
    slow = start_workload('dread', disk.path('own'), group, count=600, rate=200, prepare='4M', barrier=True)
    for p in (busy, slow):
        equal(p.stdout.readline(), 'ready\n', 'what the workload says')
    disk.sync()  # what was prepared is not to be blamed
    time.sleep(2.2)
    for p in (busy, slow):
        p.stdin.write('\n')
        p.stdin.flush()
    finish(slow)
    check(busy.poll() is None, 'the culprit was done before the victim')
    busy.kill()
    busy.communicate()
    if not d.rows(group.unit, op='dread', phase='io'):
        skip('this kernel shows no direct reads')

    def io_rows():
        return blame_rows(d, group.unit)
    rows = settled(io_rows, 5)
    time.sleep(1.2)
    rows = settled(io_rows, 5)
    own = [r for r in rows if r['phase'] == 'io']
    check(all(r['estimated'] and r['weight'] == 'busy-time' and r['step'] is None for r in own), f'{own}')
    part = share(rows, culprit.unit, phase='io')
    waited = sum(r['sumNSec'] for r in d.rows(group.unit, op='dread', phase='io'))
    equal(sum(blamed(rows, phase='io').values()), waited, 'blamed of what was waited')
    check(part >= 0.8, f'{part} of io is blamed on the one who keeps the disk busy: {rows}')
    queue = [r for r in rows if r['phase'] == 'queue']
    check(queue and all(r['mountPoint'] is None and r['device'] == disk.device for r in queue), f'{queue}')


def test_kill_in_the_middle(t):
    """The rows begin anew, and what is noted meanwhile is blamed later."""
    d, disk = t.enter(daemon(t)), t.enter(ext4())
    group = t.enter(cgroup('victim.service'))
    before = victim(t, disk, count=50, rate=0)
    check(blame_of(d, before), 'nobody is blamed')
    process = start_workload('fsync', disk.path('f'), group, count=300, rate=100, write=4096, pattern='append',
                             barrier=True)
    release(process)
    time.sleep(0.5)
    d.kill9()
    time.sleep(0.5)
    d.start()
    equal([r for r in blame_rows(d, before)], [], 'rows of what was blamed by the daemon before')
    finish(process)
    rows = wait_for(lambda: blame_rows(d, group.unit), 5, 'blame after the restart')
    time.sleep(1.2)
    rows = settled(lambda: blame_rows(d, group.unit), 5)
    steps, got = journal_steps(d, group.unit), {}
    for r in rows:
        if r['step']:
            got[r['step']] = got.get(r['step'], 0) + r['sumNSec']
    check(0 < sum(got.values()) <= sum(steps.values()), f'{got} of {steps}')
    estimated = sum(blamed(rows, phase='data').values())
    counted = sum(r['sumNSec'] for r in d.rows(group.unit, op='fsync', phase='data'))
    check(estimated < counted, f'{estimated} of {counted} is estimated, though half was before the restart')
    equal(d.process.poll(), None, 'exit code of iolatd')


def test_new_generation(t):
    """The iterators of the new programs are found within two seconds, and go on from the same numbers."""
    d, disk = t.enter(daemon(t)), t.enter(ext4())
    group = t.enter(cgroup('victim.service'))
    workload('fsync', disk.path('f'), group, count=50, write=4096, pattern='append')
    run(PROBES, 'load', '--force', f'--bpffs={d.bpffs}')
    time.sleep(2.5)
    workload('fsync', disk.path('f'), group, count=50, write=4096, pattern='append')

    def data():
        return (sum(blamed(blame_rows(d, group.unit), phase='data').values()),
                sum(r['sumNSec'] for r in d.rows(group.unit, op='fsync', phase='data')))
    wait_for(lambda: data()[0] == data()[1] > 0, 5, 'blame of all data waits, before and after')
    check(blame_of(d, group.unit), 'nobody is blamed')


def ticks_of(lines):
    """What the daemon asks the kernel for in each tick, from the first iterator on."""
    tick = None
    for line in lines:
        if 'changed_ops' in line:
            tick = []
        if 'epoll_wait' in line and tick:
            yield tick
            tick = None
        if tick is not None:
            tick.append(line)


@cases('no', 'some')
def test_idle_with_thresholds_of_units(t, which):
    """A second in which nothing happens costs two readings of nothing and two looks into empty maps."""
    if not shutil.which('strace'):
        skip('no strace')
    units = t.directory('units')
    if which == 'some':
        (units / 'x.service').write_text('[X-Iolat]\nFsyncRecordSec=1s\n')
    d = t.enter(daemon(t, env={'IOLAT_TEST_UNIT_PATH': str(units)}))
    time.sleep(1)  # they are read
    out = d.directory / 'strace'
    run('timeout', '--signal=INT', '12', 'strace', '-q', '-o', out, '-p', d.process.pid, check=False)
    lines, idle = out.read_text().splitlines(), 0
    ops, rqs = (sum(line.startswith('openat') and name in line for line in lines)
                for name in ('changed_ops', 'changed_rqs'))
    check(8 <= rqs <= 14 and abs(ops - rqs) <= 1, f'operations were read {ops} times, requests {rqs}')
    for tick in ticks_of(lines):
        reads = [line for line in tick if line.startswith('read(')]
        if len(reads) != 2 or any('""' not in line for line in reads):
            continue  # the rest of the machine did something
        if any(line.startswith('bpf(') and 'ENOENT' not in line for line in tick):
            continue
        calls = [line.split('(')[0] for line in tick if not line.startswith(('timerfd', 'gettid'))]  # the event loop's
        equal(calls, ['openat', 'read', 'close', 'openat', 'read', 'close', 'bpf', 'bpf'], 'what an idle tick does')
        idle += 1
    if idle == 0:
        skip('the machine is never idle')


def test_full_map_of_waits_is_a_loss(t):
    d, disk = t.enter(daemon(t, env={'IOLAT_TEST_MAP_ENTRIES': '16'})), t.enter(ext4())
    groups = [t.enter(cgroup(f'{n}.service')) for n in range(40)]
    processes = [start_workload('fsync', disk.path(f'f{n}'), g, count=50, write=4096, pattern='append', barrier=True)
                 for n, g in enumerate(groups)]
    release(*processes)
    for p in processes:
        finish(p)
    check(d.losses().get('wait-map-full', 0) > 0, f'losses: {d.losses()}')
    wait_for(lambda: blame_rows(d), 10, 'blame for what did fit')
    equal(d.process.poll(), None, 'exit code of iolatd')


def waited(rows):
    sums = {}
    for r in rows:
        key = r['phase'], r['step'], r['device']
        sums[key] = sums.get(key, 0) + r['sumNSec']
    return sums


def test_time_that_ended_before_the_start(t):
    d, disk = t.rig.daemon, t.enter(ext4())
    since = int(time.time() * 10**6)
    unit = victim(t, disk, count=20, rate=0)
    blame_of(d, unit)
    equal(blame_rows(d, unit, 0, 1), [], 'rows of 1970')
    rows = settled(lambda: blame_rows(d, unit), 5)  # what is estimated can come a second after what is known
    # By what was waited for: small culprits of a window of the history, of other tests say, are (others).
    equal(waited(blame_rows(d, unit, since - 10**6)), waited(rows), 'waits')
    check(all(r['victim'] == unit for r in blame_rows(d, unit)), 'rows of other victims')
    check(any(r['victim'] == unit for r in blame_rows(d)), 'rows of all victims')


if __name__ == '__main__':
    harness.main()
