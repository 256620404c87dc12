# SPDX-License-Identifier: LGPL-2.1-or-later
"""Clients of a socket, under users of their own: many that do nothing, some that do not read, one that asks."""

import json
import os
import socket
import time
import traceback

from harness import check
from bus import Bus
from varlink import Link, request


def become(uid):
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


class Child:
    """Does something with the socket under that user, says so, waits to be asked, and answers."""

    def __init__(self, path, uid, begin, end):
        ready, say = os.pipe()
        told, self.tell = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self.tell)
                # Other users may not walk all of the path, but need not if they are there already.
                os.chdir(os.path.dirname(path))
                if uid != 0:
                    become(uid)
                state = begin(os.path.basename(path))
                os.write(say, b'\n')
                if os.read(told, 1):
                    os.write(say, json.dumps(end(state)).encode())
            except Exception:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(say)
        os.close(told)
        self.answers = os.fdopen(ready, 'rb')

    def wait(self):
        check(self.answers.readline(), 'a client failed')

    def ask(self):
        os.write(self.tell, b'x')
        return json.loads(self.answers.read())

    def close(self):
        os.close(self.tell)
        self.answers.close()
        os.waitpid(self.pid, 0)


def is_open(s):
    """The other end has not hung up; what it has sent before does not matter."""
    s.setblocking(False)
    try:
        while s.recv(65536):
            pass
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def idle(path, uid, count, greeting=b''):
    """Connections that say no more than a greeting. The child's answer is how many are left."""
    def begin(name):
        opened = []
        for _ in range(count):
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(20)
            s.connect(name)
            try:
                s.sendall(greeting)
            except OSError:  # hung up on already
                pass
            opened.append(s)
        return opened
    return Child(path, uid, begin, lambda opened: sum(map(is_open, opened)))


def dbus_greeting(uid):
    return b'\0AUTH EXTERNAL ' + str(uid).encode().hex().encode() + b'\r\nBEGIN\r\n'


def ask_without_reading(s, send):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(0.5)
    try:
        while True:
            send()
    except OSError:
        pass


def deaf_on_dbus(path, uid):
    """Asks as long as that is taken, and does not read. The child's answer is whether it is still connected."""
    def begin(name):
        b = Bus(name)
        ask_without_reading(b.socket, lambda: b.send_call('List', 'asasastu', [], [], [], 0, 1000))
        return b
    return Child(path, uid, begin, lambda b: is_open(b.socket))


def deaf_on_varlink(path, uid):
    def begin(name):
        link = Link(name)
        ask_without_reading(link.socket, lambda: link.send(request('List', more=True) * 50))
        return link
    return Child(path, uid, begin, lambda link: is_open(link.socket))


def slowest(query, seconds):
    """How long the slowest query of a second took, in the middle one of all seconds: on a machine with more to do than
    it can there is always one that waits for a CPU."""
    longest = []
    for _ in range(seconds):
        longest.append(0)
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            began = time.monotonic()
            query()
            longest[-1] = max(longest[-1], time.monotonic() - began)
            time.sleep(0.02)
    return sorted(longest)[seconds // 2]


def asking_on_dbus(path, uid, seconds):
    """Is connected, and has asked once. The child's answer is how long its queries take, on that same connection."""
    def query(b):
        b.call('List', 'asasastu', [], [], [], 0, 100)

    def begin(name):
        b = Bus(name)
        query(b)
        return b
    return Child(path, uid, begin, lambda b: slowest(lambda: query(b), seconds))


def asking_on_varlink(path, uid, seconds):
    def begin(name):
        link = Link(name)
        link.call('ListUnits')
        return link
    return Child(path, uid, begin, lambda link: slowest(lambda: link.call('ListUnits'), seconds))
