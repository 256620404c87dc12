#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: container-* vm-sid
# timeout: 200
"""No verb of iolatctl makes an ioctl call, with the libraries of this system; top on a terminal may."""

import os
import pty
import re
import subprocess
import threading

import disks
import lab
from harness import cases, check, equal

VERBS = {
    'status': ['status'], 'status of a unit': ['status', None], 'list': ['list'],
    'list as JSON': ['list', '--json=pretty'], 'list by device': ['list', '--by=device'],
    'list of a time': ['list', '--since=-1h'], 'histogram': ['histogram', None], 'top': ['top', '-b', '-n', '1'],
    'stalls': ['stalls'], 'follow': ['stalls', '--follow'], 'blame': ['blame'], 'trace': ['trace'],
    'probes': ['probes'], 'metrics': ['metrics'], 'help': ['--help'], 'no such verb': ['nonsense'],
    'no such unit': ['status', 'no-such.service'], 'no such machine': ['list', '--machine=no-such'],
}
ENDLESS = ('follow', 'trace')
ENVIRONMENT = {'PAGER': 'cat', 'SYSTEMD_PAGER': 'cat', 'TERM': 'xterm'}


class Rig(lab.Rig):
    def __init__(self, t):
        super().__init__(t)
        mount_point = t.enter(disks.mounted(t.enter(disks.virtio() if lab.IS_VM else disks.loop())))
        self.unit = lab.unit_name()
        lab.workload(self.unit, 'fsync', mount_point / 'file', count=10, write=4096)
        lab.expect_counts(self.unit, {'fsync': 10})


setup = Rig


def ioctls(t, args, stdout, endless):
    """As strace shows them; what the client starts is not followed."""
    log = t.directory(parent='/run/iolat-lab') / 'strace'
    limit = ['-f', 'timeout', '--preserve-status', '-s', 'INT', '3'] if endless else []
    r = subprocess.run(['strace', '-qq', '-o', log, '-e', 'trace=ioctl,execve', *limit, 'iolatctl', *args],
                       stdin=subprocess.DEVNULL, stdout=stdout, stderr=stdout, timeout=90, env=os.environ | ENVIRONMENT)
    check(r.returncode in (0, 1, 4), f'exit code {r.returncode}')
    text = log.read_text()
    check('execve(' in text and 'iolatctl' in text, f'strace shows nothing: {text}')
    return re.findall(r'.*ioctl\(.*', text)


@cases(*VERBS)
def test_no_ioctl(t, verb):
    args = [t.rig.unit if a is None else a for a in VERBS[verb]]
    endless = verb in ENDLESS
    equal(ioctls(t, args, subprocess.DEVNULL, endless), [], 'ioctls, /dev/null')
    equal(ioctls(t, args, subprocess.PIPE, endless), [], 'ioctls, pipe')

    ours, theirs = pty.openpty()
    seen = []

    def drain():
        try:
            while data := os.read(ours, 65536):
                seen.append(data)
        except OSError:  # the other side is closed
            pass
    reader = threading.Thread(target=drain)
    reader.start()
    try:
        equal(ioctls(t, args, theirs, endless), [], 'ioctls, pseudo terminal')
    finally:
        os.close(theirs)
        reader.join(10)
        os.close(ours)
    check(seen or endless, 'nothing was printed on the terminal')


if __name__ == '__main__':
    lab.main()
