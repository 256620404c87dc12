#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-*
# timeout: 300
# long
"""Reads and page faults that find nothing in the page cache of a slow disk: `slowread` and `slowfault`, in phase `io`,
as long as the caller saw them."""

import json
import pathlib

import disks
import lab
import measure
from harness import cases, check, diagnose, run, skip

DELAY_NSEC = 50_000_000
N = 20

# Both touch every 16th page and say how long that took; the rest of the program is in memory by then.
READER = '''
import json, mmap, os, sys, time
path, how, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
fd = os.open(path, os.O_RDONLY)
memory = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
memory.madvise(mmap.MADV_RANDOM)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
clock, took = time.monotonic_ns, []
for i in range(n):
    at = i * 65536
    began = clock()
    if how == 'fault':
        memory[at]
    else:
        os.pread(fd, 4096, at)
    took.append(clock() - began)
print(json.dumps({'sumNSec': sum(took), 'minNSec': min(took), 'count': len(took)}))
'''

setup = lab.Rig


def measured(t, path, how, **properties):
    unit = lab.unit_name(how)
    run('sync')
    pathlib.Path('/proc/sys/vm/drop_caches').write_text('3')
    seen = json.loads(lab.Unit(unit, 'python3', '-c', READER, path, how, N).finish())
    check(seen['minNSec'] > 0.9 * DELAY_NSEC, f'there was no delay: {seen}')
    return unit, seen


@cases('ext4', 'xfs', 'btrfs')
def test_cold(t, kind):
    disk = t.enter(disks.scsi_debug(dev_size_mb=400, delay=0))
    mount_point = t.enter(measure.mounted(disk, kind))
    measure.wait_for_modules(kind)
    path = mount_point / 'file'
    run('dd', 'if=/dev/urandom', f'of={path}', 'bs=64K', f'count={N}', 'conv=fsync')
    problems = []
    disks.scsi_debug_delay(DELAY_NSEC)
    try:
        for how, op in (('read', 'slowread'), ('fault', 'slowfault')):
            unit, seen = measured(t, path, how)
            if lab.is_blind('slow'):
                if not measure.is_function_tier():
                    skip('slow reads and faults are named as a blind spot')
            device = measure.super_device(mount_point)
            # What the call does between its waits is not in its total.
            problems += measure.problems(unit, op, 'io', caller=seen['sumNSec'], tolerance=0.1, device=device)
            rows = lab.rows(unit, unit=unit, op=op, phase='total')
            found = {r['device']: r['count'] for r in rows}
            diagnose(f'{op} by device: {found}, the file system is {device}')
            if not N <= found.get(device, 0) <= 2 * N:
                problems.append(f'{op} was counted {found}, should be {N} times on {device}')
    finally:
        disks.scsi_debug_delay(0)
    check(not problems, '\n'.join(problems))


if __name__ == '__main__':
    lab.main()
