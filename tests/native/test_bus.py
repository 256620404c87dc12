# SPDX-License-Identifier: LGPL-2.1-or-later
"""The D-Bus interface on the peer socket, and on a system bus of the test's own."""

import os
import pathlib
import shutil
import subprocess
import xml.etree.ElementTree

import harness
from bus import Bus
from harness import cases, check, equal, run, skip, start, stop, wait_for
from product import CTL, IOLATD, daemon
from rig import base_dir, bpffs, cgroup, ext4, workload

METHODS = {
    'ListUnits': ('', 'a(so)'), 'GetUnit': ('s', 'o'), 'GetUnitByPID': ('u', 'o'),
    'List': ('asasastu', 'aa{sv}t'), 'ListBuckets': ('asasastu', 'aa{sv}t'), 'GetHistogram': ('ssss', 'a(tt)'), 'ListStalls': ('tu', 'aa{sv}'),
    'ListRange': ('asasastttu', 'aa{sv}ttt'), 'GetBlame': ('stt', 'aa{sv}'), 'ListProbes': ('', 'aa{sv}'),
    'ListHistograms': ('tu', 'a(sssstta(stat))t'), 'ListBlindSpots': ('', 'a(ss)'),
    'Trace': ('st', ''),
}
PROPERTIES = {'Version': 's', 'Tier': 's', 'Degraded': 'b', 'Lost': 't', 'Since': 't', 'MaxSeries': 't',
              'HistorySince': 't'}
MANAGER = 'org.iolat1.Manager'


class Rig:
    def __init__(self, t):
        if not shutil.which('dbus-send'):
            skip('no dbus-send')
        self.daemon = t.enter(daemon(t))
        self.disk = t.enter(ext4())
        self.group = t.enter(cgroup('a.service'))
        self.unit = self.group.unit
        workload('fsync', self.disk.path('f'), self.group, count=100, write=4096, pattern='append')
        self.daemon.expect_counts(self.unit, {'fsync': 100})

    def call(self, method, *args, interface=MANAGER, path='/org/iolat1', ok=True):
        r = run('dbus-send', f'--peer=unix:path={self.daemon.socket}', '--print-reply', '--type=method_call', path,
                f'{interface}.{method}', *args, check=False)
        check((r.returncode == 0) == ok, f'{method}: exit code {r.returncode}: {r.stdout} {r.stderr}')
        return r.stdout if ok else r.stderr


def setup(t):
    return Rig(t)


def interface_of(rig, path, name):
    reply = rig.call('Introspect', interface='org.freedesktop.DBus.Introspectable', path=path)
    text = reply[reply.index('<node'):reply.rindex('>') + 1]
    found = xml.etree.ElementTree.fromstring(text).find(f'interface[@name="{name}"]')
    check(found is not None, f'no interface {name} at {path}')
    return found


def signature(member, direction, default):
    return ''.join(a.get('type') for a in member.findall('arg') if a.get('direction', default) == direction)


def test_members_to_the_letter(t):
    interface = interface_of(t.rig, '/org/iolat1', MANAGER)
    methods = {m.get('name'): (signature(m, 'in', 'in'), signature(m, 'out', 'in')) for m in interface.findall('method')}
    equal(methods, METHODS, 'methods')
    equal({p.get('name'): p.get('type') for p in interface.findall('property')}, PROPERTIES, 'properties')
    signals = {s.get('name'): signature(s, 'out', 'out') for s in interface.findall('signal')}
    equal(signals, {'Stall': 'ssstb', 'Operation': 'a{sv}'}, 'signals')


def test_unit_object(t):
    reply = t.rig.call('GetUnit', f'string:{t.rig.unit}')
    path = reply[reply.index('"') + 1:reply.rindex('"')]
    check(path.startswith('/org/iolat1/unit/'), f'path: {path}')
    interface_of(t.rig, path, 'org.iolat1.Unit')
    check(t.rig.unit in t.rig.call('ListUnits') and path in t.rig.call('ListUnits'), 'ListUnits has not the unit')


def test_unit_by_pid(t):
    process = t.rig.group.start('sleep', '60')
    t.defer(process.wait)
    t.defer(process.kill)
    wait_for(lambda: str(process.pid) in (t.rig.group.path / 'cgroup.procs').read_text(), what='process in its cgroup')
    check('/org/iolat1/unit/' in t.rig.call('GetUnitByPID', f'uint32:{process.pid}'), 'GetUnitByPID')


ERRORS = {
    'unknown unit': ('GetUnit', ['string:no-such.service'], 'org.iolat1.Error.NoSuchUnit'),
    'unknown process': ('GetUnitByPID', ['uint32:4194303'], 'org.iolat1.Error.NoSuchProcess'),
    'histogram of an unknown unit': ('GetHistogram', ['string:no-such.service', 'string:fsync', 'string:total', 'string:'],
                                     'org.iolat1.Error.NoSuchUnit'),
    'blame of a time that ends before it begins': ('GetBlame', ['string:', 'uint64:2', 'uint64:1'],
                                                   'org.iolat1.Error.BadRange'),
    'range that ends before it begins': ('ListRange', ['array:string:', 'array:string:', 'array:string:', 'uint64:2',
                                                       'uint64:1', 'uint64:0', 'uint32:0'],
                                         'org.iolat1.Error.BadRange'),
}


@cases(*ERRORS)
def test_error(t, what):
    method, args, error = ERRORS[what]
    check(error in t.rig.call(method, *args, ok=False), f'{what}: not {error}')


@cases('ListStalls', 'GetBlame', 'ListProbes', 'ListBlindSpots')
def test_answers(t, method):
    args = {'ListStalls': ['uint64:0', 'uint32:100'], 'GetBlame': [f'string:{t.rig.unit}', 'uint64:0', 'uint64:18446744073709551615']}
    check('array [' in t.rig.call(method, *args.get(method, [])), f'{method} returns no array')


def test_list_and_cursor(t):
    """Page after page of one row each is the same as all at once."""
    cursor, units = 0, 0
    for _ in range(1000):
        reply = t.rig.call('List', f'array:string:{t.rig.unit}', 'array:string:', 'array:string:', f'uint64:{cursor}',
                           'uint32:1')
        units += reply.count('string "unit"')
        cursor = int(reply.split()[-1])
        if cursor == 0:
            break
    equal(units, len(t.rig.daemon.json('list', t.rig.unit)), 'rows of all pages')


def test_buckets(t):
    """Rows as in List(), and all that was counted in ascending buckets, which are those of GetHistogram()."""
    bus = Bus(t.rig.daemon.socket)
    t.defer(bus.close)
    wanted = [t.rig.unit], [], [], 0, 0
    rows, plain = (bus.call(method, 'asasastu', *wanted)[0] for method in ('ListBuckets', 'List'))
    check('total' in {r['phase'] for r in rows} and len(rows) > 4, f'rows: {rows}')
    for r in rows:
        buckets = r.pop('buckets')
        equal(sum(count for _, count in buckets), r['count'], f'operations in the buckets of {r}')
        edges = [upper for upper, _ in buckets]
        check(all(edges) and edges == sorted(set(edges)) and min(c for _, c in buckets) > 0, f'buckets: {buckets}')
        if not r['op'].startswith('rq-'):  # of which there are several origins
            equal(bus.call('GetHistogram', 'ssss', r['unit'], r['op'], r['phase'], r['device'])[0], buckets, 'buckets')
        r.pop('inFlight', None)
    for r in plain:
        r.pop('inFlight', None)
    equal(rows, plain, 'rows of List()')
    page, cursor = bus.call('ListBuckets', 'asasastu', [t.rig.unit], ['fsync'], ['total', 'journal'], 0, 1)
    check(len(page) == 1 and cursor > 0 and 'buckets' in page[0], f'page: {page}')


def test_policy(t):
    """Everybody may call everything on the system bus, but for what is refused to all but root anyway."""
    policy = POLICY.read_text()
    equal([m for m in METHODS if f'send_member="{m}"' not in policy], ['Trace'], 'methods that are for root only')


# As strict as a distribution's system bus: without our own policy nobody could own or call the name.
BUS_CONFIG = '''<busconfig><type>system</type><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><deny own="*"/><deny send_type="method_call"/><allow send_type="signal"/>
<allow send_requested_reply="true" send_type="method_return"/><allow send_requested_reply="true" send_type="error"/>
<allow receive_type="method_call"/><allow receive_type="method_return"/><allow receive_type="error"/>
<allow receive_type="signal"/><allow send_destination="org.freedesktop.DBus"/></policy>
<include>{policy}</include></busconfig>'''
POLICY = pathlib.Path(__file__).parents[2] / 'units/org.iolat1.conf'


def test_system_bus(t):
    """The name on a bus that comes and goes. The peer socket works all the time."""
    if not shutil.which('dbus-daemon') or not shutil.which('busctl'):
        skip('no dbus-daemon or no busctl')
    directory = t.directory('bus')
    address, config = f'unix:path={directory}/socket', directory / 'conf'
    config.write_text(BUS_CONFIG.format(path=directory / 'socket', policy=POLICY))
    env = os.environ | {'DBUS_SYSTEM_BUS_ADDRESS': address}
    bus = start('dbus-daemon', f'--config-file={config}', '--nofork', stderr=subprocess.DEVNULL)
    t.defer(stop, bus)
    wait_for(lambda: (directory / 'socket').exists(), what='bus')

    runtime = base_dir() / 'bus-run'
    runtime.mkdir()
    log = open(base_dir() / 'bus-log', 'ab')
    t.defer(log.close)
    process = start(IOLATD, f'--runtime-dir={runtime}', f'--state-dir={runtime}', f'--bpffs={t.enter(bpffs())}',
                    '--config=/dev/null', env=env, stdout=log, stderr=log)
    t.defer(stop, process)

    def version():
        return run('busctl', '--system', 'get-property', 'org.iolat1', '/org/iolat1', MANAGER, 'Version', env=env,
                   check=False).stdout
    check(wait_for(version, 30, 'name on the bus').startswith('s "'), 'Version')
    equal(run(CTL, f'--socket={runtime}/bus', 'list').returncode, 0, 'list by the peer socket')


if __name__ == '__main__':
    harness.main()
