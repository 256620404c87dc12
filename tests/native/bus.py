# SPDX-License-Identifier: LGPL-2.1-or-later
"""A D-Bus client of a few lines, for what command line tools cannot do: call, and then wait for signals."""

import os
import select
import socket
import struct
import time

METHOD_CALL, METHOD_RETURN, ERROR, SIGNAL = 1, 2, 3, 4
BASIC = {'y': 'B', 'b': 'I', 'n': 'h', 'q': 'H', 'i': 'i', 'u': 'I', 'x': 'q', 't': 'Q', 'd': 'd'}
ALIGNMENT = {'y': 1, 'b': 4, 'n': 2, 'q': 2, 'i': 4, 'u': 4, 'x': 8, 't': 8, 'd': 8, 's': 4, 'o': 4, 'g': 1, 'a': 4,
             'v': 1, '(': 8, '{': 8}

BUS_CONFIG = '''<busconfig><type>system</type><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_type="method_call"/><allow send_type="signal"/>
<allow send_requested_reply="true" send_type="method_return"/><allow send_requested_reply="true" send_type="error"/>
<allow receive_type="method_call"/><allow receive_type="method_return"/><allow receive_type="error"/>
<allow receive_type="signal"/></policy></busconfig>'''


class BusError(Exception):
    def __init__(self, name, text):
        super().__init__(f'{name}: {text}')
        self.name = name


def split(signature):
    """The first complete type, and the rest."""
    if signature[0] == 'a':
        element, rest = split(signature[1:])
        return 'a' + element, rest
    if signature[0] in '({':
        depth = 0
        for n, c in enumerate(signature):
            depth += (c in '({') - (c in ')}')
            if depth == 0:
                return signature[:n + 1], signature[n + 1:]
    return signature[0], signature[1:]


class Writer:
    def __init__(self):
        self.data = b''

    def align(self, n):
        self.data += b'\0' * (-len(self.data) % n)

    def put(self, signature, value):
        c = signature[0]
        self.align(ALIGNMENT[c])
        if c in BASIC:
            self.data += struct.pack('<' + BASIC[c], value)
        elif c in 'so':
            text = value.encode()
            self.data += struct.pack('<I', len(text)) + text + b'\0'
        elif c == 'g':
            self.data += bytes([len(value)]) + value.encode() + b'\0'
        elif c == 'v':
            self.put('g', value[0])
            self.put(*value)
        elif c == 'a':
            inner = Writer()
            inner.data = self.data + b'\0' * 4
            inner.align(ALIGNMENT[signature[1]])
            begin = len(inner.data)
            for v in value:
                inner.put(signature[1:], v)
            size = struct.pack('<I', len(inner.data) - begin)
            self.data = self.data + size + inner.data[len(self.data) + 4:]
        elif c == '(':
            rest = signature[1:-1]
            for v in value:
                first, rest = split(rest)
                self.put(first, v)
        else:
            raise ValueError(signature)


class Reader:
    def __init__(self, data, position=0):
        self.data, self.position = data, position

    def align(self, n):
        self.position += -self.position % n

    def take(self, n):
        self.position += n
        return self.data[self.position - n:self.position]

    def get(self, signature):
        c = signature[0]
        self.align(ALIGNMENT[c])
        if c in BASIC:
            value = struct.unpack('<' + BASIC[c], self.take(struct.calcsize('<' + BASIC[c])))[0]
            return bool(value) if c == 'b' else value
        if c in 'so':
            text = self.take(self.get('u')).decode()
            self.take(1)
            return text
        if c == 'g':
            text = self.take(self.get('y')).decode()
            self.take(1)
            return text
        if c == 'v':
            return self.get(self.get('g'))
        if c == 'a':
            size = self.get('u')
            self.align(ALIGNMENT[signature[1]])
            end, values = self.position + size, []
            while self.position < end:
                values.append(self.get(signature[1:]))
            return dict(values) if signature[1] == '{' else values
        return tuple(self.get_all(signature[1:-1]))

    def get_all(self, signature):
        values = []
        while signature:
            first, signature = split(signature)
            values.append(self.get(first))
        return values


class Bus:
    """A connection to a socket with a bus behind it, or to a peer."""

    def __init__(self, path, hello=False):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(str(path))
        self.socket.sendall(b'\0AUTH EXTERNAL ' + str(os.geteuid()).encode().hex().encode() + b'\r\nBEGIN\r\n')
        self.buffer, self.serial, self.signals = b'', 0, []
        while b'\r\n' not in self.buffer:
            self.buffer += self.socket.recv(4096)
        line, self.buffer = self.buffer.split(b'\r\n', 1)
        assert line.startswith(b'OK'), line
        if hello:
            self.name = self.call('Hello', interface='org.freedesktop.DBus', path='/org/freedesktop/DBus',
                                  destination='org.freedesktop.DBus')[0]

    def close(self):
        self.socket.close()

    def send_call(self, method, signature='', *args, interface='org.iolat1.Manager', path='/org/iolat1',
                  destination=None, kind=METHOD_CALL):
        self.serial += 1
        body, fields = Writer(), Writer()
        rest = signature
        for a in args:
            first, rest = split(rest)
            body.put(first, a)
        values = [(1, ('o', path)), (2, ('s', interface)), (3, ('s', method))]
        if destination:
            values.append((6, ('s', destination)))
        if signature:
            values.append((8, ('g', signature)))
        fields.data = struct.pack('<BBBBII', ord('l'), kind, 0, 1, len(body.data), self.serial)
        fields.put('a(yv)', values)
        fields.align(8)
        self.socket.sendall(fields.data + body.data)
        return self.serial

    def take_message(self, timeout):
        """Type, fields and values of the next message; None if there is none in that time."""
        deadline = time.monotonic() + timeout
        while True:
            if len(self.buffer) >= 16:
                body, _, fields = struct.unpack('<III', self.buffer[4:16])
                begin = 16 + fields + -fields % 8
                if len(self.buffer) >= begin + body:
                    break
            left = deadline - time.monotonic()
            if left < 0 or not select.select([self.socket], [], [], left)[0]:
                return None
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError('the other end has closed')
            self.buffer += data
        message, self.buffer = self.buffer[:begin + body], self.buffer[begin + body:]
        found = dict(Reader(message, 12).get('a(yv)'))
        return message[1], found, Reader(message[begin:]).get_all(found.get(8, ''))

    def call(self, method, signature='', *args, timeout=10, **kwargs):
        """The values of the reply. Signals that come meanwhile are kept."""
        serial = self.send_call(method, signature, *args, **kwargs)
        while True:
            message = self.take_message(timeout)
            if message is None:
                raise TimeoutError(f'no reply to {method}')
            kind, fields, values = message
            if kind == SIGNAL:
                self.signals.append((fields[3], values))
            elif fields.get(5) == serial:
                if kind == ERROR:
                    raise BusError(fields[4], values[0] if values else '')
                return values

    def signal(self, name, timeout=10):
        """The values of the next signal of that name, None if there is none in that time."""
        for n, (got, values) in enumerate(self.signals):
            if got == name:
                del self.signals[n]
                return values
        deadline = time.monotonic() + timeout
        while True:
            message = self.take_message(max(0, deadline - time.monotonic()))
            if message is None:
                return None
            if message[0] == SIGNAL and message[1][3] == name:
                return message[2]
            if message[0] == SIGNAL:
                self.signals.append((message[1][3], message[2]))
