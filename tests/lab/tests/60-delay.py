#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-*
# timeout: 600
"""Where a disk takes 200 ms more for a write, totals are what the caller saw, and the time is under a name."""

import disks
import lab
from harness import cases, check, run

DELAY_NSEC = 200_000_000
N = 6
UNNAMED = ('other', 'fs')

# Disk, and whether requests themselves are delayed there. A dm device is made of bios.
DISKS = {
    'dm-delay': (None, False),
    'null_blk': (lambda: disks.null_blk(size=128, memory_backed=1, irqmode=2, completion_nsec=DELAY_NSEC), True),
    'scsi_debug': (lambda: disks.scsi_debug(dev_size_mb=128, delay=0, ndelay=DELAY_NSEC), True),
}
# Operation: kind of workload, options, how many delays one has at least.
KINDS = {
    'fsync': ('fsync', {'write': 4096, 'pattern': 'append'}, 2),
    'fdatasync': ('fdatasync', {'write': 4096, 'prepare': '64K'}, 1),
    'syncwrite': ('odsync', {'prepare': '64K'}, 1),
    'dread': ('dread', {'prepare': '64K'}, 1),
}
MATRIX = [f'{disk}, {op}' for disk in DISKS for op in KINDS if (disk, op) != ('dm-delay', 'dread')]


setup = lab.Rig


def make_disk(t, name):
    if name != 'dm-delay':
        return t.enter(DISKS[name][0]())
    return t.enter(disks.dm_delay(t.enter(disks.virtio()), DELAY_NSEC // 1_000_000))


def parts_of(unit, op, device):
    """phase -> nanoseconds; total and runqueue among them."""
    result = {}
    for r in lab.rows(unit, unit=unit, op=op, device=device):
        result[r['phase']] = result.get(r['phase'], 0) + r['sumNSec']
    return result


@cases(*MATRIX)
def test_delay_is_named(t, case):
    name, op = case.split(', ')
    kind, options, n_delays = KINDS[op]
    if op == 'dread' and not lab.has_probe('dio-begin'):
        lab.harness.skip('this kernel shows no direct I/O')
    disk = make_disk(t, name)
    unit = lab.unit_name()
    # Making the file system there would take minutes.
    mount_point = t.enter(slowly_mounted(disk))
    options = dict(options)
    prepare = options.pop('prepare', None)
    if prepare:
        run('dd', 'if=/dev/zero', f'of={mount_point / "file"}', f'bs={prepare}', 'count=1', 'conv=fsync')
        run('sync', '-f', mount_point)
    seen = lab.workload(unit, kind, mount_point / 'file', count=N, **options)
    check(seen['minNSec'] > n_delays * DELAY_NSEC, f'there was no delay: {seen}')

    lab.expect_counts(unit, {op: N}, device=disk.device)
    parts = parts_of(unit, op, disk.device)
    total, runqueue = parts.pop('total'), parts.pop('runqueue', 0)
    what = f'{name} {op}: total {total} (caller {seen["sumNSec"]}), run queue {runqueue}, phases {parts}'
    lab.harness.diagnose(what)
    check(abs(total - seen['sumNSec']) < 0.05 * seen['sumNSec'], what)
    check(sum(parts.values()) == total, f'the phases do not sum to the total: {what}')
    named = sum(v for k, v in parts.items() if k not in UNNAMED)
    check(named >= 0.9 * total, f'not named: {what}')
    check(parts.get('other', 0) <= 0.05 * total, f'other: {what}')

    if DISKS[name][1]:
        check_requests(unit, disk)


def check_requests(unit, disk):
    """The delay is in the device's part of each request, not in the queue's."""
    n = device = 0
    for r in lab.rows(unit, unit=unit, phase='device', device=disk.device, origin='self'):
        if r['op'] in ('rq-read', 'rq-write'):
            n += r['count']
            device += r['sumNSec']
    check(n >= N, f'only {n} requests of the unit')
    check(device >= 0.9 * n * DELAY_NSEC, f'{n} requests took {device} ns in the device')


def slowly_mounted(disk):
    """ext4 with little to write: few groups, a small journal, nothing discarded or zeroed."""
    return disks.mounted(disk, mkfs=('-q', '-F', '-J', 'size=4', '-E', 'nodiscard', '-m', '0', '-I', '128', '-N', '64'))


if __name__ == '__main__':
    lab.main()
