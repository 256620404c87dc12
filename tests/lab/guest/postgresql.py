# SPDX-License-Identifier: LGPL-2.1-or-later
"""Debian's PostgreSQL, with a cluster of its own on the file system of a test."""

import pathlib

from harness import check, run, wait_for

AS_POSTGRES = ('setpriv', '--reuid=postgres', '--regid=postgres', '--clear-groups')


class Cluster:
    def __init__(self, mount_point):
        found = sorted(pathlib.Path('/usr/lib/postgresql').glob('*/bin'))
        check(found, 'PostgreSQL is not installed')
        self.binaries = found[-1]
        self.data, self.sockets = mount_point / 'pg', mount_point / 'run'
        mount_point.chmod(0o755)
        for d in (self.data, self.sockets):
            d.mkdir()
            run('chown', 'postgres:', d)
        self.call('initdb', '--no-sync', '-D', self.data)

    def call(self, program, *args, **kwargs):
        return run(*AS_POSTGRES, self.binaries / program, *args, timeout=200, cwd='/', **kwargs)

    def command(self, *settings):
        """Of a service with Type=notify and User=postgres."""
        args = [self.binaries / 'postgres', '-D', self.data, '-k', self.sockets]
        for s in ('listen_addresses=', 'autovacuum=off', *settings):
            args += ['-c', s]
        return [str(a) for a in args]

    def wait(self):
        """Until it takes connections."""
        wait_for(lambda: self.call('pg_isready', '-h', self.sockets, check=False).returncode == 0, 60, 'PostgreSQL')

    def create_bench(self):
        self.call('createdb', '-h', self.sockets, 'bench')
        self.call('pgbench', '-h', self.sockets, '-q', '-i', '-s', '1', 'bench')

    def bench(self, *args):
        return self.call('pgbench', '-h', self.sockets, *args, 'bench').stdout

    def sql(self, text, database='postgres'):
        return self.call('psql', '-h', self.sockets, '-q', '-v', 'ON_ERROR_STOP=1', '-c', text, database).stdout
