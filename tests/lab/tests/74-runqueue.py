#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-*
# timeout: 300
# long
"""Without a CPU to run on a sync takes longer, and `runqueue` says so; the device is not what took longer."""

import json
import os
import pathlib

import disks
import lab
import measure
from harness import check, diagnose, run

DELAY_NSEC = 5_000_000
N = 40
SPINNERS_A_CPU = 4
AUTOGROUP = pathlib.Path('/proc/sys/kernel/sched_autogroup_enabled')

setup = lab.Rig


def measured(mount_point, name, disk):
    """Mean of an operation, what of it the run queue was, and of the device, per request."""
    unit = lab.unit_name(name)
    # Of that policy a task has the same priority, but does not push others aside when it wakes up.
    command = lab.workload_command('fdatasync', mount_point / 'file', count=N, write=4096)
    seen = json.loads(lab.Unit(unit, '--property=CPUSchedulingPolicy=batch', *command).finish())
    lab.expect_counts(unit, {'fdatasync': N})
    phases, total, runqueue = measure.parts(unit, 'fdatasync')
    device, _ = measure.device_share(unit, disk.device)
    diagnose(f'{name}: {measure.msec(total / N)} each, caller {measure.msec(seen["sumNSec"] / N)}, run queue '
             f'{measure.msec(runqueue / N)}, device {measure.msec(device)}: {measure.show(phases)}')
    return total / N, runqueue / N, device


def test_spinners(t):
    if AUTOGROUP.exists():
        t.defer(AUTOGROUP.write_text, AUTOGROUP.read_text())
        AUTOGROUP.write_text('0')
    disk = t.enter(disks.null_blk(size=128, memory_backed=1, irqmode=2, completion_nsec=DELAY_NSEC))
    disks.make(disk, small=True)
    mount_point = t.enter(disks.mounted(disk, fresh=False))
    # Overwritten and on the disk already, so that nothing but the caller's own data is waited for.
    run('dd', 'if=/dev/zero', f'of={mount_point / "file"}', 'bs=64K', 'count=1', 'conv=fsync')
    total, runqueue, device = measured(mount_point, 'alone', disk)
    spinners = lab.Unit(lab.unit_name('spin'), 'sh', '-c',
                        f'for i in $(seq {SPINNERS_A_CPU * os.cpu_count()}); do while :; do :; done & done; wait')
    t.defer(spinners.stop)
    busy_total, busy_runqueue, busy_device = measured(mount_point, 'busy', disk)

    added = busy_total - total
    check(added >= 0.2 * total, f'only {measure.msec(added)} more')
    # An emulated disk gets a little slower, too, when the emulator has more to do.
    check(busy_device < 2 * device, 'the device is not flat')
    check(busy_runqueue - runqueue >= 0.6 * (added - max(0, busy_device - device)),
          'the run queue does not explain what was added')


if __name__ == '__main__':
    lab.main()
