#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: vm-*
# timeout: 400
"""Every operation is counted although busy loops keep all CPUs and push the tasks that sync aside at any moment, also
in the middle of a program of iolat's where the kernel allows that."""

import os

import disks
import lab
from harness import check, diagnose

THREADS = 8
COUNT = 3000

setup = lab.Rig


def test_none_is_lost_among_busy_loops(t):
    disk = t.enter(disks.null_blk(size=256, memory_backed=1))
    mount_point = t.enter(disks.mounted(disk))
    spinners = lab.Unit(lab.unit_name('spin'), 'sh', '-c',
                        f'for i in $(seq {2 * os.cpu_count()}); do while :; do :; done & done; wait')
    t.defer(spinners.stop)
    unit = lab.unit_name()
    # Nothing dirty: as many operations as there can be, and little else.
    seen = lab.workload(unit, 'fsync', mount_point / 'file', threads=THREADS, count=COUNT)
    diagnose(f'{seen["count"]} operations in {(seen["endMonotonicNSec"] - seen["startMonotonicNSec"]) / 1e9:.1f} s; '
             f'{lab.health()}')
    check(seen['count'] == THREADS * COUNT, f'{seen}')
    lab.expect_counts(unit, {'fsync': THREADS * COUNT}, device=disk.device)


if __name__ == '__main__':
    lab.main()
