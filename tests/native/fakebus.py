# SPDX-License-Identifier: LGPL-2.1-or-later
"""A peer that speaks as much of D-Bus as iolatctl needs, and says what it is told to: a daemon that lies."""

import os
import pathlib
import socket
import struct
import threading

METHOD_RETURN = 2
REPLY_SERIAL, SIGNATURE = 5, 8


def align(data, n):
    return data + b'\0' * (-len(data) % n)


def string(s):
    b = s if isinstance(s, bytes) else s.encode()
    return struct.pack('<I', len(b)) + b + b'\0'


def signature(s):
    return bytes([len(s)]) + s.encode() + b'\0'


def append_variant(data, value):
    """Appends a value with the type that iolatd sends for such."""
    if isinstance(value, bool):
        return align(data + signature('b'), 4) + struct.pack('<I', value)
    if isinstance(value, int):
        return align(data + signature('t'), 8) + struct.pack('<Q', value)
    return align(data + signature('s'), 4) + string(value)


def append_dict(data, d):
    """a{sv}"""
    data = align(data, 4)
    at = len(data)
    data = align(data + b'\0' * 4, 8)
    begin = len(data)
    for key, value in d.items():
        data = append_variant(align(data, 8) + string(key), value)
    return data[:at] + struct.pack('<I', len(data) - begin) + data[at + 4:]


def listing(rows):
    """aa{sv}t"""
    data = b'\0' * 4
    for row in rows:
        data = append_dict(data, row)
    data = struct.pack('<I', len(data) - 4) + data[4:]
    return align(data, 8) + struct.pack('<Q', 0)


class FakeDaemon:
    """Answers GetAll with the properties, and List and ListBuckets with rows(), which is called each time."""

    def __init__(self, directory, properties, rows):
        self.properties, self.rows = properties, rows
        self.socket = pathlib.Path(directory) / 'fake-bus'
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.server.bind(str(self.socket))
        self.server.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.server.close()

    def accept(self):
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, connection.makefile('rb') as stream:
            try:
                self.authenticate(connection, stream)
                while header := stream.read(16):
                    self.answer(connection, stream, header)
            except (OSError, struct.error):
                pass

    @staticmethod
    def authenticate(connection, stream):
        stream.read(1)
        while (line := stream.readline().strip()) != b'BEGIN':
            if line.startswith(b'AUTH'):
                connection.sendall(b'OK ' + os.urandom(16).hex().encode() + b'\r\n')
            elif line.startswith(b'DATA'):
                connection.sendall(b'OK ' + os.urandom(16).hex().encode() + b'\r\n')
            elif line.startswith(b'NEGOTIATE'):
                connection.sendall(b'AGREE_UNIX_FD\r\n')

    def answer(self, connection, stream, header):
        _, _, _, _, n_body, serial, n_fields = struct.unpack('<cBBBIII', header)
        fields = stream.read(n_fields + -n_fields % 8)
        stream.read(n_body)
        if b'List\0' in fields or b'ListBuckets\0' in fields:
            kind, body = 'aa{sv}t', listing(self.rows())
        else:
            kind, body = 'a{sv}', append_dict(b'', self.properties)
        reply = struct.pack('<B', REPLY_SERIAL) + signature('u') + struct.pack('<I', serial)
        reply = align(reply, 8) + struct.pack('<B', SIGNATURE) + signature('g') + signature(kind)
        message = struct.pack('<cBBBIII', b'l', METHOD_RETURN, 1, 1, len(body), serial, len(reply))
        connection.sendall(align(message + reply, 8) + body)
