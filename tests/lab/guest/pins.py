# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is pinned, and whether the kernel still has it when it is not any more."""

import ctypes
import errno
import os
import pathlib
import platform
import struct

from harness import check

PINS = pathlib.Path('/sys/fs/bpf/iolat')
NR_BPF = {'x86_64': 321, 'aarch64': 280}[platform.machine()]
BPF_OBJ_GET, BPF_OBJ_GET_INFO_BY_FD = 7, 15
GET_FD_BY_ID = {'progs': 13, 'maps': 14, 'links': 30}

libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attributes):
    """A file descriptor, or 0; None if there is no such object."""
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b'\0'), 128)
    r = libc.syscall(NR_BPF, command, buffer, 128)
    if r < 0 and ctypes.get_errno() != errno.ENOENT:
        raise OSError(ctypes.get_errno(), f'bpf({command})')
    return r if r >= 0 else None


def pin_id(path):
    name = ctypes.create_string_buffer(os.fsencode(path))
    info = ctypes.create_string_buffer(256)
    fd = bpf(BPF_OBJ_GET, struct.pack('<QII', ctypes.addressof(name), 0, 0))
    check(fd is not None, f'{path} is no pin')
    try:
        bpf(BPF_OBJ_GET_INFO_BY_FD, struct.pack('<IIQ', fd, len(info), ctypes.addressof(info)))
    finally:
        os.close(fd)
    return struct.unpack_from('<I', info.raw, 4)[0]


def generations():
    """Names of directories with pins."""
    return sorted(p.name for p in PINS.glob('*') if p.name.removesuffix('-new').isdigit())


def pinned():
    """(kind, id) of all that is pinned."""
    return {(kind, pin_id(p)) for kind in GET_FD_BY_ID for p in PINS.glob(f'*/{kind}/*')}


def present(objects):
    """Those that the kernel still has."""
    found = set()
    for kind, number in objects:
        fd = bpf(GET_FD_BY_ID[kind], struct.pack('<I', number))
        if fd is not None:
            os.close(fd)
            found.add((kind, number))
    return found
