# SPDX-License-Identifier: LGPL-2.1-or-later
"""The few things that the benchmark asks of bpf(2): what programs ran, what maps take, where links are attached."""

import ctypes
import os
import pathlib
import platform
import struct
from collections import namedtuple

SYS_BPF = {'x86_64': 321, 'aarch64': 280}[platform.machine()]
MAP_GET_NEXT_KEY, OBJ_GET, GET_FD_BY_ID, INFO_BY_FD, ENABLE_STATS = 4, 7, 13, 15, 32
STATS_RUN_TIME = 0
ATTR_SIZE = 128
PAGE = os.sysconf('SC_PAGE_SIZE')
INFO_SIZE = 256
# linux/bpf.h: struct bpf_prog_info, struct bpf_link_info
INFO_ID, INFO_NAME, INFO_RUN_TIME, INFO_RUN_COUNT, INFO_MISSES = 4, 64, 192, 200, 208
HASH, HASHES = 1, (1, 5, 9, 10)  # BPF_MAP_TYPE_*
LINK_TYPE_RAW_TRACEPOINT = 1
LINK_NAME, LINK_NAME_LEN = 16, 24

libc = ctypes.CDLL(None, use_errno=True)

Program = namedtuple('Program', 'id name runs ns misses')


def bpf(command, attr):
    attr = ctypes.create_string_buffer(attr, ATTR_SIZE)
    r = libc.syscall(SYS_BPF, command, attr, ATTR_SIZE)
    if r < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return r


def get_pinned(path):
    """A file descriptor of what is pinned there."""
    name = ctypes.create_string_buffer(bytes(path))
    return bpf(OBJ_GET, struct.pack('<QII', ctypes.addressof(name), 0, 0))


def info(fd, prefill=b''):
    data = ctypes.create_string_buffer(prefill, INFO_SIZE)
    bpf(INFO_BY_FD, struct.pack('<IIQ', fd, INFO_SIZE, ctypes.addressof(data)))
    return data.raw


def program_of_fd(fd):
    data = info(fd)
    number, = struct.unpack_from('<I', data, INFO_ID)
    ns, runs, misses = struct.unpack_from('<QQQ', data, INFO_RUN_TIME)
    return Program(number, data[INFO_NAME:INFO_NAME + 16].rstrip(b'\0').decode(), runs, ns, misses)


def program(number):
    """What the program of that id has run. The time and count grow only while statistics are on."""
    fd = bpf(GET_FD_BY_ID, struct.pack('<I', number))
    try:
        return program_of_fd(fd)
    finally:
        os.close(fd)


def pinned_program_id(path):
    fd = get_pinned(path)
    try:
        return program_of_fd(fd).id
    finally:
        os.close(fd)


def pinned_tracepoint(path):
    """The name of the tracepoint that the pinned link is attached to, None if it is another kind of link."""
    fd = get_pinned(path)
    name = ctypes.create_string_buffer(128)
    prefill = bytearray(INFO_SIZE)
    try:
        if struct.unpack_from('<I', info(fd))[0] != LINK_TYPE_RAW_TRACEPOINT:
            return None
        struct.pack_into('<QI', prefill, LINK_NAME, ctypes.addressof(name), len(name))
        info(fd, bytes(prefill))
        return name.value.decode()
    finally:
        os.close(fd)


def programs_of_process(pid):
    """Ids of the programs whose file descriptors, or whose links', a process holds."""
    ids = set()
    for path in pathlib.Path(f'/proc/{pid}/fdinfo').iterdir():
        try:
            text = path.read_text()
        except OSError:  # closed meanwhile
            continue
        ids |= {int(line.split()[1]) for line in text.splitlines() if line.startswith('prog_id:')}
    return ids


def entries_of_fd(fd, key_size):
    """How many elements a hash has; of those that are removed meanwhile some may be counted twice or not."""
    key, following, n = ctypes.create_string_buffer(key_size), ctypes.create_string_buffer(key_size), 0
    at = 0
    while True:
        try:
            bpf(MAP_GET_NEXT_KEY, struct.pack('<IIQQ', fd, 0, at, ctypes.addressof(following)))
        except FileNotFoundError:
            return n
        ctypes.memmove(key, following, key_size)
        at, n = ctypes.addressof(key), n + 1


def pinned_map(path):
    """What the pinned map takes, in bytes, and how many elements it has, None unless it is a hash. Before 6.4 the
    kernel says of a hash only how large it could become: then the bytes are None."""
    fd = get_pinned(path)
    try:
        kind, _, key_size, value_size, limit = struct.unpack_from('<5I', info(fd))
        lines = pathlib.Path(f'/proc/self/fdinfo/{fd}').read_text().splitlines()
        size = next((int(line.split()[1]) for line in lines if line.startswith('memlock:')), None)
        entries = entries_of_fd(fd, key_size) if kind in HASHES else None
        largest = limit * (-(-(key_size + value_size) // 8) * 8)
        if kind == HASH and size == -(-largest // PAGE) * PAGE:
            size = None
        return {'bytes': size, 'entries': entries}
    finally:
        os.close(fd)


class Statistics:
    """Run time and count of programs are kept while this is entered."""

    def __enter__(self):
        self.fd = bpf(ENABLE_STATS, struct.pack('<I', STATS_RUN_TIME))
        return self

    def __exit__(self, *args):
        os.close(self.fd)
