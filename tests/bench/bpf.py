# SPDX-License-Identifier: LGPL-2.1-or-later
"""The few things that the benchmark asks of bpf(2): what programs ran, what maps take, where links are attached."""

import ctypes
import os
import pathlib
import platform
import struct
from collections import namedtuple

SYS_BPF = {'x86_64': 321, 'aarch64': 280}[platform.machine()]
OBJ_GET, GET_FD_BY_ID, INFO_BY_FD, ENABLE_STATS = 7, 13, 15, 32
STATS_RUN_TIME = 0
ATTR_SIZE = 128
INFO_SIZE = 256
# linux/bpf.h: struct bpf_prog_info, struct bpf_link_info
INFO_ID, INFO_NAME, INFO_RUN_TIME, INFO_RUN_COUNT, INFO_MISSES = 4, 64, 192, 200, 208
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


def pinned_map_bytes(path):
    """What the kernel says that the pinned map takes."""
    fd = get_pinned(path)
    try:
        for line in pathlib.Path(f'/proc/self/fdinfo/{fd}').read_text().splitlines():
            if line.startswith('memlock:'):
                return int(line.split()[1])
        return None
    finally:
        os.close(fd)


class Statistics:
    """Run time and count of programs are kept while this is entered."""

    def __enter__(self):
        self.fd = bpf(ENABLE_STATS, struct.pack('<I', STATS_RUN_TIME))
        return self

    def __exit__(self, *args):
        os.close(self.fd)
