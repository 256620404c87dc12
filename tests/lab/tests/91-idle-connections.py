#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: container-*
# timeout: 200
"""A thousand connections that nobody uses, on each of the two sockets, and clients that ask and do not read, cost other
clients nothing: not time, not their connection, and the daemon little memory."""

import pathlib
import resource

import clients
import lab
from harness import cases, check, diagnose, run

USERS, EACH = 20, 50
FIRST_UID = 20000
DEAF_UID, DEAF = 30000, 2
ASKING_UID = 30001
QUERY_SEC = 0.1
SECONDS = 5
MEMORY_MAX = 16 << 20

SOCKETS = {
    'D-Bus': ('/run/iolat/bus', 128, clients.dbus_greeting, clients.deaf_on_dbus, clients.asking_on_dbus),
    'varlink': ('/run/iolat/org.iolat.Manager', 64, lambda uid: b'', clients.deaf_on_varlink,
                clients.asking_on_varlink),
}

setup = lab.Rig


def resident_bytes():
    pid = run('systemctl', 'show', '--value', '--property=MainPID', 'iolatd').stdout.strip()
    return int(pathlib.Path(f'/proc/{pid}/statm').read_text().split()[1]) * resource.getpagesize()


def begin(t, children):
    for c in children:
        t.defer(c.close)
    for c in children:
        c.wait()
    return children


@cases(*SOCKETS)
def test_idle_connections(t, kind):
    path, limit, greeting, deaf, asking = SOCKETS[kind]
    before = resident_bytes()
    asking = begin(t, [asking(path, uid, SECONDS) for uid in (0, ASKING_UID)])
    idle = begin(t, [clients.idle(path, FIRST_UID + n, EACH, greeting(FIRST_UID + n)) for n in range(USERS)])
    deaf = begin(t, [deaf(path, DEAF_UID) for _ in range(DEAF)])
    seconds = [c.ask() for c in asking]
    grown = resident_bytes() - before
    left = sum(c.ask() for c in idle)
    diagnose(f'{left} of {USERS * EACH} connections are left; root waits {seconds[0] * 1000:.1f} ms at most, another '
             f'user {seconds[1] * 1000:.1f} ms; {grown >> 10} KiB more')
    check(max(seconds) < QUERY_SEC, f'slow: {seconds}')
    check(0 < left <= limit, f'{left} connections are left')
    check(grown < MEMORY_MAX, f'{grown >> 20} MiB more')
    run('iolatctl', 'list')


def test_user_with_more_than_its_share(t):
    """Those of one user do not push out others'."""
    for path, _, greeting, _, asking in SOCKETS.values():
        modest = begin(t, [asking(path, ASKING_UID, 1)])[0]
        begin(t, [clients.idle(path, FIRST_UID, 1000, greeting(FIRST_UID))])
        check(modest.ask() < QUERY_SEC, 'slow')


if __name__ == '__main__':
    lab.main()
