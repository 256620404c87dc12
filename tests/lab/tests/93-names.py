#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: container-*
# timeout: 200
"""Units of every kind, and containers, have the names that systemd gives them; a unit that is restarted starts anew."""

import os
import pathlib
import pwd
import re
import time

import disks
import lab
from harness import cases, check, diagnose, equal, run, wait_for

UNITS = pathlib.Path('/run/systemd/system')
USER = 'iolat-lab'
# What this container cannot have: keyrings, controllers, and a writable /proc/sys.
PODMAN = '[containers]\nkeyring = false\npids_limit = 0\ndefault_sysctls = []\n'
STORAGE = '[storage]\ndriver = "vfs"\nrunroot = "/run/iolat-lab/run"\ngraphroot = "/run/iolat-lab/storage"\n'


class Rig(lab.Rig):
    def __init__(self, t):
        super().__init__(t)
        self.disk = t.enter(disks.loop())
        self.mount_point = t.enter(disks.mounted(self.disk))
        self.tree = self.make_tree(t)

    @staticmethod
    def make_tree(t):
        """The root directory of containers, but for /usr, which they share."""
        tree = t.directory(parent='/run/iolat-lab')
        tree.chmod(0o755)
        for name in ('usr', 'proc', 'sys', 'dev', 'run', 'tmp', 'etc', 'data'):
            (tree / name).mkdir()
        for name in ('bin', 'sbin', 'lib', 'lib64'):
            (tree / name).symlink_to(f'usr/{name}')
        return tree


setup = Rig


def syncs(t, count, path=None):
    return [str(a) for a in lab.workload_command('fsync', path or t.rig.mount_point / 'file', count=count, write=4096)]


def run_unit(name, command, *options):
    run('systemd-run', '--quiet', '--wait', '--collect', f'--unit={name}', *options, *command)


def expect(t, unit, count, user_unit=None):
    """The unit has that many syncs on this disk, and a status under its name. Returns that."""
    lab.expect_counts(unit, {'fsync': count}, device=t.rig.disk.device)
    rows = lab.rows(unit, unit=unit, op='fsync', phase='total')
    equal({r['userUnit'] for r in rows}, {user_unit}, f'user units of {unit}')
    status = run('iolatctl', 'status', unit).stdout
    equal(status.split()[1], unit, f'first line of the status of {unit}')
    return status


def unit_file(t, name, text):
    (UNITS / name).write_text(text)
    t.defer(run, 'systemctl', 'daemon-reload')
    t.defer((UNITS / name).unlink)
    run('systemctl', 'daemon-reload')


def lasting(command):
    """A service that goes on after that."""
    return f'[Service]\nExecStart=sh -c "{" ".join(command)} && exec sleep infinity"\n'


def test_template(t):
    base = lab.unit_name('t').removesuffix('.service')
    unit_file(t, f'{base}@.service', '[Unit]\nDescription=Instance %i of a template\n' + lasting(syncs(t, 4)))
    unit = f'{base}@of-a\\x2db.service'
    run('systemctl', 'start', unit)
    t.defer(run, 'systemctl', 'stop', unit)
    expect(t, unit, 4)
    # The manager is asked for it, and nobody waits for the answer.
    text = 'Instance of-a\\x2db of a template'
    status = wait_for(lambda: text in (s := run('iolatctl', 'status', unit).stdout) and s, 10, 'description')
    slice_name = run('systemctl', 'show', '--value', '--property=Slice', unit).stdout.strip()
    check(f'/{slice_name}/{unit}' in status, f'not in {slice_name}: {status}')
    equal(lab.rows(f'{base}@.service'), [], 'rows of the template itself')


NAMES = {'transient service': 'x', 'name with escapes': 'a\\x2db:c_d.e@f', 'name like a controller': 'io',
         'name with an underscore': '_x'}


@cases(*NAMES)
def test_service(t, which):
    # With a prefix of the test's some would not be special.
    name = NAMES[which]
    unit = f'{name}.service' if name in ('io', '_x') else lab.unit_name(name)
    run_unit(unit, syncs(t, 5))
    expect(t, unit, 5)


def test_slice(t):
    name = f'lab{os.getpid()}-outer-inner'
    unit = lab.unit_name()
    run_unit(unit, syncs(t, 6), f'--slice={name}.slice')
    expect(t, unit, 6)
    equal([r for r in lab.query('list', f'{name.split("-")[0]}*') if r['op'] == 'fsync'], [], 'rows of the slices')


def test_scope(t):
    unit = lab.unit_name('x').replace('.service', '.scope')
    run('systemd-run', '--quiet', '--scope', f'--unit={unit}', *syncs(t, 7))
    expect(t, unit, 7)


def test_delegated_subgroup(t):
    unit = lab.unit_name()
    script = ('d=/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/deep/deeper; mkdir -p $d; echo 0 >$d/cgroup.procs; '
              'exec "$@"')
    run_unit(unit, ['sh', '-c', script.replace('$', '$$'), 'sh', *syncs(t, 8)], '--property=Delegate=yes')
    expect(t, unit, 8)


def test_user_unit(t):
    run('useradd', '--create-home', '--home-dir', f'/run/iolat-lab/home-{USER}', USER)
    t.defer(run, 'userdel', '--remove', USER)
    uid = pwd.getpwnam(USER).pw_uid
    run('loginctl', 'enable-linger', USER)

    def end():
        run('loginctl', 'disable-linger', USER)
        run('systemctl', 'stop', f'user@{uid}.service')
    t.defer(end)
    wait_for(lambda: pathlib.Path(f'/run/user/{uid}/bus').exists(), 30, 'manager of the user')
    directory = t.directory(parent=t.rig.mount_point)
    os.chown(directory, uid, uid)
    t.rig.mount_point.chmod(0o755)
    inner = lab.unit_name('inner')
    run('setpriv', f'--reuid={uid}', f'--regid={uid}', '--clear-groups', 'env', f'XDG_RUNTIME_DIR=/run/user/{uid}',
        'systemd-run', '--user', '--quiet', '--wait', f'--unit={inner}', *syncs(t, 9, directory / 'file'), cwd='/')
    status = expect(t, f'user@{uid}.service', 9, user_unit=inner)
    check(inner in status, f'the status does not show the inner unit: {status}')


def nspawn(t, *options):
    return ['systemd-nspawn', '--quiet', f'--directory={t.rig.tree}', '--bind-ro=/usr',
            f'--bind={t.rig.mount_point}:/data', *options]


def test_nspawn_with_a_scope(t):
    machine = f'lab-{os.getpid()}'
    run(*nspawn(t, f'--machine={machine}'), *syncs(t, 10, '/data/file'))
    expect(t, f'machine-{machine.replace("-", chr(92) + "x2d")}.scope', 10)


def test_nspawn_in_a_service(t):
    unit = lab.unit_name('nspawn')
    run_unit(unit, [*nspawn(t, '--keep-unit', '--register=no'), *syncs(t, 11, '/data/file')], '--property=Delegate=yes')
    expect(t, unit, 11)


def podman(t, *options):
    for name, text in ('CONTAINERS_CONF', PODMAN), ('CONTAINERS_STORAGE_CONF', STORAGE):
        path = pathlib.Path('/run/iolat-lab') / name
        path.write_text(text)
        os.environ[name] = str(path)
    return ['podman', '--log-level=error', 'run', '--rm', '--network=none', '--volume=/usr:/usr:ro',
            f'--volume={t.rig.mount_point}:/data', *options, '--rootfs', t.rig.tree]


def test_podman(t):
    before = {r['unit'] for r in lab.query('list', 'libpod-*')}
    cid = pathlib.Path(t.directory(parent='/run/iolat-lab')) / 'id'
    run(*podman(t, f'--cidfile={cid}'), *syncs(t, 12, '/data/file'))
    found = wait_for(lambda: {r['unit'] for r in lab.query('list', 'libpod-*') if r['op'] == 'fsync'} - before, 20,
                     'a unit of podman')
    diagnose(f'{found}')
    check(len(found) == 1 and re.fullmatch(r'libpod-[0-9a-f]{64}\.scope', min(found)), f'units: {found}')
    expect(t, min(found), 12)


def test_podman_in_a_service(t):
    unit = lab.unit_name('podman')
    command = podman(t, '--cgroups=split')
    names = [f'--setenv={n}={os.environ[n]}' for n in ('CONTAINERS_CONF', 'CONTAINERS_STORAGE_CONF')]
    run_unit(unit, [*command, *syncs(t, 13, '/data/file')], *names, '--property=Delegate=yes')
    expect(t, unit, 13)


def now_and_ever(unit):
    status = lab.query('status', unit)
    return tuple(sum(r['count'] for r in status[key] if (r['op'], r['phase']) == ('fsync', 'total'))
                 for key in ('current', 'total'))


def test_restart(t):
    """The status is of the present invocation, beside the sum of all; a daemon-reload is none of its business."""
    unit = lab.unit_name('restarted')
    unit_file(t, unit, lasting(syncs(t, 3)))
    t.defer(run, 'systemctl', 'stop', unit)
    run('systemctl', 'start', unit)
    expect(t, unit, 3)
    equal(now_and_ever(unit), (3, 3), 'syncs at first')
    run('systemctl', 'daemon-reload')
    time.sleep(2)
    equal(now_and_ever(unit), (3, 3), 'syncs after a daemon-reload')
    run('systemctl', 'restart', unit)
    expect(t, unit, 6)
    equal(now_and_ever(unit), (3, 6), 'syncs after a restart')
    invocation = run('systemctl', 'show', '--value', '--property=InvocationID', unit).stdout.strip()
    check(invocation in run('iolatctl', 'status', unit).stdout, 'the status has another invocation')


if __name__ == '__main__':
    lab.main()
