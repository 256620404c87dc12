# SPDX-License-Identifier: LGPL-2.1-or-later
"""What cannot work ends with one sentence that says what to do; what comes in by the socket harms nobody."""

import os
import pathlib
import random
import shutil
import socket
import time

import harness
from harness import cases, check, equal, run
from product import CTL, IOLATD, PROBES, daemon
from rig import bpffs


def nobody(t):
    """How to run a program without privileges, also where / itself is closed to others."""
    root = t.directory('root')
    run('mount', '-t', 'tmpfs', '-o', 'mode=755', 'root', root)
    t.defer(run, 'umount', '-l', '-R', root)
    for path in pathlib.Path('/').iterdir():
        if path.is_symlink():
            (root / path.name).symlink_to(os.readlink(path))
        elif path.is_dir() and path.name != 'root':
            (root / path.name).mkdir()
            run('mount', '--rbind', path, root / path.name)
    return 'chroot', '--userspec=65534:65534', '--groups=', root


def one_sentence(r, *words):
    """The program failed and said why, in one line (and not by crashing)."""
    lines = [line for line in r.stderr.splitlines() if line]
    check(0 < r.returncode < 125, f'exit code {r.returncode}: {r.stderr}')
    equal(len(lines), 1, f'lines on stderr ({r.stderr})')
    for word in words:
        check(word.lower() in lines[0].lower(), f'{word} is not in: {lines[0]}')


def iolatd(t, bpffs_dir, *prefix, directory=None, **kwargs):
    directory = directory or t.directory('runtime')
    return run(*prefix, IOLATD, f'--runtime-dir={directory}', f'--state-dir={directory}', f'--bpffs={bpffs_dir}',
               '--no-bus', check=False, timeout=30, **kwargs)


def public_copy(t, program):
    """The build directory need not be open to others."""
    directory = t.directory('public')
    directory.chmod(0o755)
    os.chmod(os.environ['IOLAT_TEST_DIR'], 0o755)
    return shutil.copy(program, directory)


@cases('iolatd', 'iolat-probes load', 'iolat-probes unload')
def test_without_root(t, what):
    directory = t.enter(bpffs())
    program = public_copy(t, IOLATD if what == 'iolatd' else PROBES)
    if what == 'iolatd':
        runtime = t.directory('runtime')
        runtime.chmod(0o777)
        r = run(*nobody(t), program, f'--runtime-dir={runtime}', f'--bpffs={directory}', '--no-bus', check=False, timeout=30)
    else:
        run(PROBES, 'load', f'--bpffs={directory}')
        r = run(*nobody(t), program, what.split()[1], f'--bpffs={directory}', check=False, timeout=30)
    one_sentence(r)


def test_client_without_root(t):
    d = t.enter(daemon(t))
    os.chmod(os.environ['IOLAT_TEST_DIR'], 0o755)
    r = run(*nobody(t), public_copy(t, CTL), f'--socket={d.socket}', 'list', check=False)
    equal((r.returncode, r.stderr), (0, ''), 'exit code and errors of list without root')


@cases('plain directory', 'missing directory')
def test_no_bpffs(t, what):
    directory = t.directory('plain')
    if what == 'missing directory':
        directory = directory / 'missing'
    one_sentence(iolatd(t, directory), 'bpf')
    one_sentence(run(PROBES, 'load', f'--bpffs={directory}', check=False), 'bpf')


def test_no_btf(t):
    """The kernel's types cannot be read: /sys/kernel/btf is hidden by an empty directory."""
    directory = t.enter(bpffs())
    empty = t.directory('empty')
    hide = ('unshare', '--mount', 'sh', '-c', 'mount --bind "$0" /sys/kernel/btf && exec "$@"', empty)
    one_sentence(iolatd(t, directory, *hide), 'btf')
    one_sentence(run(*hide, PROBES, 'load', f'--bpffs={directory}', check=False), 'btf')


def test_second_instance(t):
    d = t.enter(daemon(t))
    one_sentence(iolatd(t, d.bpffs))
    check(isinstance(d.json('list'), list), 'the first instance does not serve any more')


def test_socket_in_use(t):
    d = t.enter(daemon(t))
    other = t.enter(bpffs())
    t.defer(run, PROBES, 'unload', f'--bpffs={other}')
    one_sentence(iolatd(t, other, directory=d.directory / 'run'))
    check(isinstance(d.json('list'), list), 'the first instance does not serve any more')


def test_stale_socket_is_replaced(t):
    d = t.enter(daemon(t))
    d.kill9()
    check(d.socket.exists(), 'the socket of a killed iolatd is gone')
    d.start()
    check(isinstance(d.json('list'), list), 'iolatd does not serve')


def test_garbage_in_configuration(t):
    d = t.enter(daemon(t, config='[Stall]\nFsyncAlertSec=never\nNonsense=1\n[\x01\nFsyncRecordSec=50ms\n'))
    check(isinstance(d.json('list'), list), 'iolatd does not serve')
    check('FsyncAlertSec' in d.log.read_text(), 'nothing is said about the bad value')


@cases('--no-such-option', '--tier=nonsense', 'argument')
def test_bad_arguments(t, argument):
    for program in (IOLATD, PROBES):
        r = run(program, argument, check=False, timeout=30)
        check(0 < r.returncode < 128 and r.stderr.strip(), f'{program.name} {argument}: {r.returncode}, {r.stderr}')


def connect(d):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(5)
    s.connect(str(d.socket))
    return s


def send_all_that_is_taken(s, data):
    try:
        s.sendall(data)
    except OSError:  # hung up on: right so
        pass


def check_serves(d):
    began = time.monotonic()
    check(isinstance(d.json('list'), list), 'iolatd does not serve any more')
    check(time.monotonic() - began < 5, 'iolatd serves, but slowly')
    equal(d.process.poll(), None, 'exit code of iolatd')


def test_megabyte_of_garbage(t):
    d = t.enter(daemon(t))
    for seed in range(10):
        with connect(d) as s:
            send_all_that_is_taken(s, random.Random(seed).randbytes(1 << 20))
        check_serves(d)


def test_garbage_after_handshake(t):
    d = t.enter(daemon(t))
    for seed in range(10):
        with connect(d) as s:
            send_all_that_is_taken(s, b'\0AUTH EXTERNAL 30\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n')
            send_all_that_is_taken(s, random.Random(seed).randbytes(1 << 20))
        check_serves(d)


def call_message():
    """org.freedesktop.DBus.Peer.Ping to /org/iolat1, little endian."""
    def field(code, signature, value):
        data = value.encode()
        return bytes([code, 1]) + signature.encode() + b'\0' + len(data).to_bytes(4, 'little') + data + b'\0'
    fields = b''
    for part in (field(1, 'o', '/org/iolat1'), field(2, 's', 'org.freedesktop.DBus.Peer'), field(3, 's', 'Ping')):
        fields += b'\0' * (-len(fields) % 8) + part
    head = b'l\1\0\1' + (0).to_bytes(4, 'little') + (1).to_bytes(4, 'little') + len(fields).to_bytes(4, 'little')
    return head + fields + b'\0' * (-len(fields) % 8)


def test_half_a_message(t):
    d = t.enter(daemon(t))
    message = call_message()
    kept = []
    for n in range(1, len(message), 7):
        s = connect(d)
        t.defer(s.close)
        send_all_that_is_taken(s, b'\0AUTH EXTERNAL 30\r\nBEGIN\r\n' + message[:n])
        kept.append(s)
    check_serves(d)
    for s in kept[::2]:
        s.close()
    check_serves(d)


def test_500_connections(t):
    d = t.enter(daemon(t))
    before = d.resident_bytes()
    opened = []
    for _ in range(500):
        s = socket.socket(socket.AF_UNIX)
        t.defer(s.close)
        s.settimeout(2)
        try:
            s.connect(str(d.socket))
        except OSError:  # full: as good as any other refusal
            continue
        opened.append(s)
    check(len(opened) > 10, f'only {len(opened)} connections')
    equal(d.process.poll(), None, 'exit code of iolatd')
    r = d.call('list', check=False, timeout=30)
    check(r.returncode in (0, 1) and (r.returncode == 0 or r.stderr.strip()), f'list among 500: {r.returncode}, {r.stderr}')
    for s in opened:
        s.close()
    harness.wait_for(lambda: d.call('list', check=False).returncode == 0, what='iolatd serves again')
    check_serves(d)
    check(d.resident_bytes() - before < 32 << 20, 'memory of 500 connections was not given back')


def test_client_without_daemon(t):
    r = run(CTL, f'--socket={t.directory()}/bus', 'list', check=False)
    one_sentence(r)


def test_client_of_a_silent_server(t):
    """Somebody else listens and never answers: the client gives up."""
    path = t.directory() / 'bus'
    s = socket.socket(socket.AF_UNIX)
    t.defer(s.close)
    s.bind(str(path))
    s.listen()
    one_sentence(run(CTL, f'--socket={path}', 'list', check=False, timeout=120))


def test_sigterm_is_quick(t):
    d = t.enter(daemon(t))
    with connect(d):
        began = time.monotonic()
        d.stop()
        check(time.monotonic() - began < 5, 'iolatd took long to end')
    check(not d.socket.exists(), 'the socket is left behind')


if __name__ == '__main__':
    harness.main()
