# SPDX-License-Identifier: LGPL-2.1-or-later
"""iolat-exporter as systemd would start it, and Prometheus that scrapes it."""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import socket
import subprocess
import urllib.parse

from harness import BUILD, check, equal, skip, start, stop, wait_for

EXPORTER = BUILD / 'client/exporter/iolat-exporter'


def need_exporter():
    if not EXPORTER.exists():
        skip('built without libmicrohttpd')


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class Exporter:
    """Listens from the start; the process is given the socket as systemd gives it."""

    def __init__(self, daemon_socket, log, *args):
        self.log = log
        self.args = [f'--socket={daemon_socket}', *args]
        self.listener = socket.socket()
        self.listener.bind(('127.0.0.1', 0))
        self.listener.listen(64)
        self.port = self.listener.getsockname()[1]
        self.process = None

    def start(self):
        number = self.listener.fileno()
        script = f'exec 3<&{number} && LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'
        with open(self.log, 'ab') as log:
            self.process = start('bash', '-c', script, 'bash', EXPORTER, *self.args, pass_fds=(number,), stdout=log,
                                 stderr=log)
        return self

    def report(self):
        return f'--- log of iolat-exporter ---\n{pathlib.Path(self.log).read_text(errors="replace")[-4000:]}---'

    def request(self, method='GET', path='/metrics', headers=None, timeout=30):
        """Status, headers, body."""
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=timeout)
        try:
            c.request(method, path, headers=headers or {})
            r = c.getresponse()
            return r.status, {k.lower(): v for k, v in r.getheaders()}, r.read().decode()
        finally:
            c.close()

    def metrics(self, **headers):
        status, _, body = self.request(headers=headers)
        equal(status, 200, 'status of GET /metrics')
        return body

    def connect(self):
        return socket.create_connection(('127.0.0.1', self.port), timeout=30)


@contextlib.contextmanager
def exporter(test, daemon_socket, *args):
    need_exporter()
    e = Exporter(daemon_socket, test.directory('exporter') / 'log', *args)
    test.reports.append(e.report)
    try:
        yield e.start()
    finally:
        if e.process.poll() is None:
            stop(e.process)
        e.listener.close()


class Prometheus:
    def __init__(self, test, target):
        if not shutil.which('prometheus'):
            skip('no prometheus')
        directory = test.directory('prometheus')
        self.port = free_port()
        self.log = directory / 'log'
        config = directory / 'prometheus.yml'
        config.write_text('global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n- job_name: iolat\n'
                          f'  static_configs: [{{targets: ["{target}"]}}]\n')
        with open(self.log, 'wb') as log:
            process = start('prometheus', f'--config.file={config}', f'--storage.tsdb.path={directory / "data"}',
                            f'--web.listen-address=127.0.0.1:{self.port}', stdout=log, stderr=subprocess.STDOUT,
                            env=os.environ | {'GOMAXPROCS': '1'})
        test.defer(stop, process)
        test.reports.append(self.report)
        wait_for(self.ready, 60, 'Prometheus')

    def report(self):
        return f'--- log of Prometheus ---\n{self.log.read_text(errors="replace")[-3000:]}---'

    def get(self, path):
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=10)
        try:
            c.request('GET', path)
            r = c.getresponse()
            return r.status, r.read()
        finally:
            c.close()

    def ready(self):
        try:
            return self.get('/-/ready')[0] == 200
        except OSError:
            return False

    def query(self, expression):
        """The value of the only series that the expression gives, None if there is none."""
        status, body = self.get('/api/v1/query?' + urllib.parse.urlencode({'query': expression}))
        equal(status, 200, f'status of query {expression}: {body}')
        result = json.loads(body)['data']['result']
        check(len(result) <= 1, f'several series: {result}')
        return float(result[0]['value'][1]) if result else None
