# SPDX-License-Identifier: LGPL-2.1-or-later
"""A client of varlink that does what it is told, also what a library would not."""

import json
import socket

SECONDS = 20
INTERFACE = 'org.iolat.Manager'


class VarlinkError(Exception):
    def __init__(self, name, parameters):
        super().__init__(f'{name} {parameters}')
        self.name = name
        self.parameters = parameters


def request(method, parameters=None, more=False, interface=INTERFACE):
    message = {'method': f'{interface}.{method}', 'parameters': parameters or {}}
    if more:
        message['more'] = True
    return json.dumps(message).encode() + b'\0'


class Link:
    def __init__(self, path, receive_buffer=None):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(SECONDS)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(str(path))
        self.data = b''

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def receive(self):
        """The next reply: its parameters, and whether it is followed by another one. None: the connection is closed."""
        while b'\0' not in self.data:
            try:
                piece = self.socket.recv(1 << 20)
            except ConnectionResetError:
                return None
            if not piece:
                return None
            self.data += piece
        text, self.data = self.data.split(b'\0', 1)
        reply = json.loads(text)
        if 'error' in reply:
            raise VarlinkError(reply['error'], reply.get('parameters'))
        return reply.get('parameters'), reply.get('continues', False)

    def call(self, method, parameters=None, interface=INTERFACE):
        self.send(request(method, parameters, interface=interface))
        parameters, continues = self.receive()
        assert not continues, f'{method} goes on'
        return parameters

    def more(self, method, parameters=None, interface=INTERFACE):
        """All replies."""
        self.send(request(method, parameters, more=True, interface=interface))
        replies, continues = [], True
        while continues:
            parameters, continues = self.receive()
            replies.append(parameters)
        return replies
