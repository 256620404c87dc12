# SPDX-License-Identifier: LGPL-2.1-or-later
"""Units keep their names, however short they lived, and memory stays bounded."""

import os
import pathlib
import subprocess
import time

import harness
from harness import cases, check, cgroup_root, equal, wait_for
from product import daemon
from rig import cgroup, ext4, start_workload, unit_name, workload

MANY = 2000
GROWTH_MAX = 8 << 20


def short_life(disk, unit, n=1):
    """A cgroup that is there for as long as one process that does n fsyncs."""
    path = cgroup_root() / 'system.slice' / unit
    path.mkdir()
    try:
        with open(disk.path('short'), 'ab') as f:
            pid = os.fork()
            if pid == 0:
                try:
                    (path / 'cgroup.procs').write_text('0')
                    for _ in range(n):
                        f.write(b'x' * 4096)
                        f.flush()
                        os.fsync(f.fileno())
                finally:
                    os._exit(0)
            os.waitpid(pid, 0)
    finally:
        wait_for(lambda: remove(path), what=f'removal of {path}')


def remove(path):
    try:
        path.rmdir()
        return True
    except OSError:
        return False


@cases('with the daemon up', 'with the daemon down')
def test_short_life(t, how):
    d, disk = t.enter(daemon(t)), t.enter(ext4())
    t.enter(cgroup('keeps-the-slice.service'))
    unit = unit_name('short.service')
    if 'down' in how:
        d.stop()
    began = time.monotonic()
    short_life(disk, unit)
    lived = time.monotonic() - began
    if 'down' in how:
        d.start()
    d.expect_counts(unit, {'fsync': 1})
    print(f'# lived {lived * 1000:.1f} ms', flush=True)


def test_many_births_and_deaths(t):
    d, disk = t.enter(daemon(t)), t.enter(ext4())
    t.enter(cgroup('keeps-the-slice.service'))
    d.json('list')
    base = unit_name('')
    before = d.resident_bytes()
    expected = {}
    for n in range(MANY):
        unit = f'{base}{n}.service'
        if n % 20 == 0:
            short_life(disk, unit)
            expected[unit] = 1
        else:
            path = cgroup_root() / 'system.slice' / unit
            path.mkdir()
            path.rmdir()
    wait_for(lambda: total(d, base) == sum(expected.values()), what='all fsyncs counted')
    got = {r['unit']: r['count'] for r in d.rows(f'{base}*', op='fsync', phase='total')}
    equal(got, expected, 'units that did an fsync')
    unknown = d.rows(unit='(unknown)', op='fsync', device=disk.device)
    equal(unknown, [], 'fsyncs without a unit')
    growth = d.resident_bytes() - before
    check(growth < GROWTH_MAX, f'iolatd grew by {growth} bytes (losses: {d.losses()})')


def total(d, base):
    return sum(r['count'] for r in d.rows(f'{base}*', op='fsync', phase='total'))


def test_numbers_survive_recreation(t):
    """The same unit, started again in a new cgroup, goes on where it was; status knows the present invocation."""
    d, disk = t.enter(daemon(t)), t.enter(ext4())
    t.enter(cgroup('keeps-the-slice.service'))
    unit = unit_name('again.service')
    for _ in range(3):
        short_life(disk, unit, 4)
    d.expect_counts(unit, {'fsync': 12})
    path = cgroup_root() / 'system.slice' / unit
    path.mkdir()
    t.defer(harness.remove_cgroup, path)
    subprocess.run(['sh', '-c', 'echo 0 >"$0/cgroup.procs" && exec dd if=/dev/zero of="$1" bs=4k count=1 conv=fsync',
                    path, disk.path('again')], check=True, stderr=subprocess.DEVNULL)
    d.expect_counts(unit, {'fsync': 13})
    status = d.json('status', unit)
    current = [r['count'] for r in status['current'] if r['op'] == 'fsync' and r['phase'] == 'total']
    whole = [r['count'] for r in status['total'] if r['op'] == 'fsync' and r['phase'] == 'total']
    equal((current, whole), ([1], [13]), 'fsyncs of the present invocation and of all')


PATHS = {
    'system.slice/{u}.service/payload/deep': '{u}.service',
    'system.slice/system-{u}.slice/{u}@1.service': '{u}@1.service',
    'user.slice/user-1000.slice/user@1000.service/app.slice/{u}.service': 'user@1000.service',
    'machine.slice/{u}.scope/payload/init.scope': '{u}.scope',
    '{u}.slice': '{u}.slice',
}


@cases(*PATHS)
def test_unit_of_path(t, pattern):
    d, disk = t.enter(daemon(t)), t.enter(ext4())
    name = unit_name('x').replace('-', '_')
    root, path = cgroup_root(), cgroup_root() / pattern.format(u=name)
    made = []
    for parent in [*reversed(path.relative_to(root).parents), path.relative_to(root)]:
        if parent != pathlib.Path('.') and not (root / parent).exists():
            (root / parent).mkdir()
            made.append(root / parent)
            t.defer(remove, root / parent)

    class Group:
        pass
    Group.path = path
    workload('fsync', disk.path('file'), Group, count=7, write=4096)
    unit = PATHS[pattern].format(u=name)
    rows = wait_for(lambda: [r for r in d.rows(unit, op='fsync', phase='total', device=disk.device)], what=f'rows of {unit}')
    equal(sum(r['count'] for r in rows), 7, f'fsyncs of {unit}')
    if unit.startswith('user@'):
        equal({r['userUnit'] for r in rows}, {f'{name}.service'}, 'user unit')


def test_unit_that_is_older_than_the_daemon(t):
    d, disk = t.enter(daemon(t, started=False)), t.enter(ext4())
    group = t.enter(cgroup('old.service'))
    process = start_workload('fsync', disk.path('file'), group, count=50, write=4096, barrier=True)
    check(process.stdout.readline() == 'ready\n', 'the workload is not ready')
    d.start()
    process.stdin.write('\n')
    process.stdin.flush()
    harness.equal(process.wait(60), 0, 'exit code of the workload')
    d.expect_counts(group.unit, {'fsync': 50})


if __name__ == '__main__':
    harness.main()
