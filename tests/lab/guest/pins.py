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
GET_FD_BY_ID = {'progs': 13, 'maps': 14}
GET_NEXT_ID = {'progs': 11, 'maps': 12, 'links': 31}
NAME_AT = {'progs': 64, 'maps': 24}  # in struct bpf_prog_info, struct bpf_map_info

libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attributes):
    """What the call returns, and the attributes as it leaves them; None if there is no such object."""
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b'\0'), 128)
    r = libc.syscall(NR_BPF, command, buffer, 128)
    if r < 0 and ctypes.get_errno() != errno.ENOENT:
        raise OSError(ctypes.get_errno(), f'bpf({command})')
    return (r, buffer.raw) if r >= 0 else None


def info_of(fd):
    info = ctypes.create_string_buffer(256)
    bpf(BPF_OBJ_GET_INFO_BY_FD, struct.pack('<IIQ', fd, len(info), ctypes.addressof(info)))
    return info.raw


def pin_id(path):
    name = ctypes.create_string_buffer(os.fsencode(path))
    found = bpf(BPF_OBJ_GET, struct.pack('<QII', ctypes.addressof(name), 0, 0))
    check(found, f'{path} is no pin')
    try:
        return struct.unpack_from('<I', info_of(found[0]), 4)[0]
    finally:
        os.close(found[0])


def name_of(kind, number):
    """Of a program or map, as far as the kernel keeps it; of a link its number."""
    found = bpf(GET_FD_BY_ID[kind], struct.pack('<I', number)) if kind != 'links' else None
    if not found:
        return str(number)
    try:
        return info_of(found[0])[NAME_AT[kind]:NAME_AT[kind] + 16].split(b'\0')[0].decode()
    finally:
        os.close(found[0])


def describe(objects):
    return sorted(f'{kind[:-1]} {name_of(kind, number)}' for kind, number in objects)


def generations():
    """Names of directories with pins."""
    return sorted(p.name for p in PINS.glob('*') if p.name.removesuffix('-new').isdigit())


def pinned():
    """(kind, id) of all that is pinned."""
    return {(kind, pin_id(p)) for kind in GET_NEXT_ID for p in PINS.glob(f'*/{kind}/*')}


def is_present(kind, number):
    """Asked without taking a reference: a program array whose last one from user space goes for a second time, before a
    worker has emptied it after the first, is not freed (kernel/bpf/arraymap.c:prog_array_map_clear())."""
    found = bpf(GET_NEXT_ID[kind], struct.pack('<I', number - 1))
    return bool(found) and struct.unpack_from('<I', found[1], 4)[0] == number


def present(objects):
    """Those that the kernel still has."""
    return {(kind, number) for kind, number in objects if is_present(kind, number)}
