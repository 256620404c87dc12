# SPDX-License-Identifier: LGPL-2.1-or-later
"""The varlink socket: both interfaces, and clients that mean no good."""

import json
import os
import pathlib
import re
import shutil
import time

import harness
from bus import Bus
from harness import cases, check, equal, run, skip, wait_for
from product import IOLATD, daemon
from rig import cgroup, ext4, workload
from varlink import INTERFACE, Link, VarlinkError, request

METHODS = {'GetStatus', 'ListUnits', 'List', 'GetHistogram', 'ListStalls', 'GetBlame', 'ListProbes'}
METRICS = 'io.systemd.Metrics'
NOBODY = 65534
ROOT_KEYS = {'pid', 'thread', 'comm', 'file'}
REQUEST_MAX = 64 << 10
CONNECTIONS_PER_UID = 16
MEMORY_MAX = 8 << 20  # more than without hostile clients
MESSAGE_SEC = 5
HISTORY_SEC = 10
METRICS_MAX = 2000
QUIET_SEC = 1.1  # then as many are announced as are in a second
# Every sync is a stall.
CONFIG = '[Stall]\nFsyncRecordSec=1us\nFsyncAlertSec=1h\n'


class Rig:
    def __init__(self, t):
        self.daemon = t.enter(daemon(t, config=CONFIG))
        self.socket = self.daemon.directory / 'run/org.iolat.Manager'
        if not self.socket.exists():
            skip('built without varlink')
        self.disk = t.enter(ext4())
        self.group = t.enter(cgroup('a.service'))
        self.unit = self.group.unit
        self.sync(100)
        self.daemon.expect_counts(self.unit, {'fsync': 100})

    def sync(self, count, name='f'):
        workload('fsync', self.disk.path(name), self.group, count=count, write=4096, pattern='append')

    def link(self, t, **options):
        link = Link(self.socket, **options)
        t.defer(link.close)
        return link


def setup(t):
    return Rig(t)


def error_of(function, *args, **options):
    try:
        function(*args, **options)
    except VarlinkError as e:
        return e
    raise AssertionError('no error')


def test_introspection(t):
    link = t.rig.link(t)
    info = link.call('GetInfo', interface='org.varlink.service')
    equal((info['vendor'], info['product']), ('iolat', 'iolatd'), 'info')
    check({INTERFACE, METRICS} <= set(info['interfaces']), f'interfaces: {info}')
    for name in (INTERFACE, METRICS):
        text = link.call('GetInterfaceDescription', {'interface': name}, interface='org.varlink.service')['description']
        if shutil.which('varlinkctl'):
            run('varlinkctl', 'validate-idl', input=text)
        undocumented = [second for first, second in zip(text.splitlines(), text.splitlines()[1:])
                        if second.startswith(('method', 'type', 'error')) and not first.startswith('#')]
        equal(undocumented, [], 'without a comment')
        if name == INTERFACE:
            equal({line.split()[1].split('(')[0] for line in text.splitlines() if line.startswith('method')}, METHODS,
                  'methods')


def test_status(t):
    status = t.rig.link(t).call('GetStatus')
    bus = Bus(t.rig.daemon.socket)
    t.defer(bus.close)
    names = {'version': 'Version', 'tier': 'Tier', 'degraded': 'Degraded', 'sinceRealtimeUSec': 'Since'}
    for key, name in names.items():
        equal(status[key], bus.call('Get', 'ss', 'org.iolat1.Manager', name,
                                    interface='org.freedesktop.DBus.Properties')[0], key)
    check(0 < time.time() - status['sinceRealtimeUSec'] / 1e6 < 600, f'since: {status}')


def parse_idl(text):
    """Types, and replies of methods: name -> field -> type."""
    text = re.sub('#[^\n]*', '', text)
    types = re.findall(r'\btype (\w+)\s*\(([^()]*)\)', text)
    replies = re.findall(r'\bmethod (\w+)\s*\([^()]*\)\s*->\s*\(([^()]*)\)', text)
    return {name: dict((part.strip() for part in field.split(':')) for field in fields.split(',') if ':' in field)
            for name, fields in types + replies}


def check_type(value, wanted, types, where):
    bases = {'string': str, 'bool': bool, 'int': int, 'float': (float, int), 'object': dict}
    if wanted.startswith('?'):
        if value is not None:
            check_type(value, wanted[1:], types, where)
    elif wanted.startswith('[]'):
        check(isinstance(value, list), f'{where}: {value} is no array')
        for item in value:
            check_type(item, wanted[2:], types, where)
    elif wanted.startswith('[string]'):
        check(isinstance(value, dict), f'{where}: {value} is no map')
        for item in value.values():
            check_type(item, wanted[8:], types, where)
    elif wanted in bases:
        check(isinstance(value, bases[wanted]) and isinstance(value, bool) == (wanted == 'bool'),
              f'{where}: {value!r} is no {wanted}')
    else:
        fields = types[wanted]
        check(set(value) <= set(fields), f'{where}: {set(value) - set(fields)} are not in the description')
        for name, type_ in fields.items():
            check_type(value.get(name), type_, types, f'{where}.{name}')


def test_replies_are_as_described(t):
    """The library says nothing if they are not."""
    link = t.rig.link(t)
    text = link.call('GetInterfaceDescription', {'interface': INTERFACE}, interface='org.varlink.service')
    types = parse_idl(text['description'])
    equal(METHODS - set(types), set(), 'methods without a reply')
    for method in ('List', 'ListStalls'):
        for reply in link.more(method):
            check_type(reply, method, types, method)
    for method in ('GetStatus', 'ListUnits', 'GetBlame', 'ListProbes'):
        check_type(link.call(method), method, types, method)
    check_type(link.call('GetHistogram', {'unit': t.rig.unit, 'op': 'fsync'}), 'GetHistogram', types, 'GetHistogram')


def without_nulls(row):
    return {key: value for key, value in row.items() if value is not None}


def test_list_as_on_the_bus(t):
    rows = [without_nulls(r['row']) for r in t.rig.link(t).more('List', {'patterns': [t.rig.unit]})]
    expected = [without_nulls(r) for r in t.rig.daemon.json('list', t.rig.unit)]

    def key(row):
        return row['op'], row['phase'], row.get('device', ''), row.get('origin', '')

    equal(sorted(map(key, rows)), sorted(map(key, expected)), 'rows')
    by_key = {key(r): r for r in expected}
    for row in rows:
        if not row['op'].startswith('rq-'):  # those may still come in
            row.pop('untimed', None)
            equal(row, {k: v for k, v in by_key[key(row)].items() if k in row}, 'row')
    fsync = [r['row'] for r in t.rig.link(t).more('List', {'patterns': [t.rig.unit], 'ops': ['fsync'],
                                                         'phases': ['total']})]
    equal([r['count'] for r in fsync], [100], 'count of syncs')


def test_list_of_a_range(t):
    now = int(time.time() * 1e6)
    link = t.rig.link(t)

    def replies_since():
        try:
            return link.more('List', {'sinceRealtimeUSec': now - 600_000_000, 'patterns': [t.rig.unit]})
        except VarlinkError as e:
            equal(e.name, f'{INTERFACE}.NoEntries', 'error')
            return None

    replies = wait_for(replies_since, HISTORY_SEC + 5, 'rows of the history')
    rows = [r['row'] for r in replies]
    covered = {(r.get('firstRealtimeUSec'), r.get('lastRealtimeUSec')) for r in replies}
    equal(len(covered), 1, f'spans of time in the replies: {covered}')
    (first, last), = covered
    since = link.call('GetStatus')['historySinceRealtimeUSec']
    check(since <= first < last <= time.time() * 1e6 and first < now, f'{first} to {last}, history since {since}')
    check(all('firstRealtimeUSec' not in r or r['firstRealtimeUSec'] is None for r in link.more('List')),
          'a span of time of what is not from the history')
    check(sum(r['count'] for r in rows if (r['op'], r['phase']) == ('fsync', 'total')) >= 100, f'syncs: {rows}')
    equal(error_of(link.more, 'List', {'sinceRealtimeUSec': 1, 'untilRealtimeUSec': 2}).name, f'{INTERFACE}.NoEntries',
          'before there was anything')


def test_limit(t):
    equal(len(t.rig.link(t).more('List', {'limit': 2})), 2, 'rows')


def test_units(t):
    units = t.rig.link(t).call('ListUnits')['units']
    check(t.rig.unit in units, f'not in {units}')
    equal(units, sorted(units), 'order')


def test_histogram(t):
    buckets = t.rig.link(t).call('GetHistogram', {'unit': t.rig.unit, 'op': 'fsync'})['buckets']
    equal(sum(b['count'] for b in buckets), 100, 'sum of the buckets')
    edges = [b['upperNSec'] for b in buckets]
    equal(edges, sorted(edges), 'edges')


def test_blame_and_probes(t):
    link = t.rig.link(t)
    probes = link.call('ListProbes')['probes']
    equal(sorted((p['kind'], p['probe']) for p in probes),
          sorted((p['kind'], p['probe']) for p in t.rig.daemon.json('probes')), 'probes')
    rows = link.call('GetBlame', {'unit': t.rig.unit})['rows']
    check(all(r['victim'] == t.rig.unit and r['sumNSec'] > 0 for r in rows), f'blame: {rows}')
    sums = [r['sumNSec'] for r in rows]
    equal(sums, sorted(sums, reverse=True), 'order of the blame')


INVALID = 'org.varlink.service.InvalidParameter'
ERRORS = {
    'no such operation': ('List', {'ops': ['eat']}, INVALID),
    'no such phase': ('List', {'phases': ['moon']}, INVALID),
    'too many patterns': ('List', {'patterns': ['a'] * 65}, INVALID),
    'pattern too long': ('List', {'patterns': ['a' * 257]}, INVALID),
    'not strings': ('List', {'patterns': [1]}, INVALID),
    'negative': ('List', {'limit': -1}, INVALID),
    'end before beginning': ('List', {'sinceRealtimeUSec': 2, 'untilRealtimeUSec': 1}, INVALID),
    'unknown parameter': ('List', {'nonsense': 1}, INVALID),
    'nothing that matches': ('List', {'patterns': ['no-such.service']}, f'{INTERFACE}.NoEntries'),
    'no such unit': ('GetHistogram', {'unit': 'no-such\n\x7f', 'op': 'fsync'}, f'{INTERFACE}.NoSuchUnit'),
    'no such device': ('GetHistogram', {'unit': None, 'op': 'fsync', 'device': 'x'}, INVALID),
    'blame of no such unit': ('GetBlame', {'unit': 'no-such.service'}, f'{INTERFACE}.NoSuchUnit'),
    'stalls of the future': ('ListStalls', {'sinceRealtimeUSec': 1 << 62}, f'{INTERFACE}.NoEntries'),
    'no such method': ('Eat', {}, 'org.varlink.service.MethodNotFound'),
}


@cases(*ERRORS)
def test_error(t, what):
    method, parameters, name = ERRORS[what]
    if parameters.get('unit', '') is None:
        parameters = parameters | {'unit': t.rig.unit}
    link = t.rig.link(t)
    equal(error_of(link.more if method.startswith('List') else link.call, method, parameters).name, name, 'error')
    equal(link.call('GetStatus')['version'] != '', True, 'the connection goes on')


def test_more_is_required(t):
    for method in ('List', 'ListStalls'):
        equal(error_of(t.rig.link(t).call, method).name, 'org.varlink.service.ExpectedMore', method)


def test_null_is_as_if_not_there(t):
    link = t.rig.link(t)
    parameters = dict.fromkeys(('patterns', 'ops', 'phases', 'sinceRealtimeUSec', 'untilRealtimeUSec', 'limit'))
    equal(len(link.more('List', parameters)), len(link.more('List')), 'rows')
    check(link.more('ListStalls', {'sinceRealtimeUSec': None, 'limit': None, 'follow': None}), 'stalls')


def as_nobody(path, function):
    """The result, as JSON, of a function of a link of another user's."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            os.write(write, json.dumps(function(Link(path))).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as f:
        text = f.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def reachable(t):
    """The socket under a path that every user may walk."""
    directory = pathlib.Path('/dev/shm') / f'{harness.RUN}-varlink'
    directory.mkdir(exist_ok=True)
    t.defer(shutil.rmtree, directory, True)
    directory.chmod(0o755)
    (directory / 's').touch()
    run('mount', '--bind', t.rig.socket, directory / 's')
    t.defer(run, 'umount', directory / 's')
    return directory / 's'


def test_stalls_and_what_root_sees(t):
    t.rig.sync(60)  # those of before may have been pushed out by others of this host
    mine = t.rig.link(t).more('ListStalls')
    check(len(mine) >= 60, f'{len(mine)} stalls')
    starts = [s['stall']['startRealtimeUSec'] for s in mine]
    equal(starts, sorted(starts), 'order')
    stall = [s['stall'] for s in mine if s['stall']['unit'] == t.rig.unit][-1]
    check(ROOT_KEYS <= set(stall), f'root misses {ROOT_KEYS - set(stall)}')
    equal((stall['op'], stall['comm'], stall['file'].split('/')[-1]), ('fsync', 'iolat-workload', 'f'), 'stall')
    check(abs(sum(v for k, v in stall['phases'].items() if k != 'runqueue') - stall['totalNSec']) < 1000,
          f'phases: {stall}')

    theirs = as_nobody(reachable(t), lambda link: link.more('ListStalls', {'limit': 50}))
    equal(len(theirs), 50, 'stalls for others')
    equal([s for s in theirs if ROOT_KEYS & set(s['stall'])], [], 'secrets')


def next_file(t, link):
    """Of the next stall of our unit; others of this host may come as well."""
    while True:
        reply, continues = link.receive()
        check(continues, 'it ends')
        if reply['stall']['unit'] == t.rig.unit:
            return reply['stall']['file'].split('/')[-1]


def test_follow(t):
    link = t.rig.link(t)
    link.send(request('ListStalls', {'follow': True, 'sinceRealtimeUSec': int(time.time() * 1e6)}, more=True))
    time.sleep(QUIET_SEC)
    t.rig.sync(3, 'followed')
    equal([next_file(t, link) for _ in range(3)], ['followed'] * 3, 'files')
    time.sleep(QUIET_SEC)
    t.rig.sync(1, 'later')
    equal(next_file(t, link), 'later', 'file')


def test_follow_after_what_there_is(t):
    link = t.rig.link(t)
    before = sum(s['stall']['unit'] == t.rig.unit for s in t.rig.link(t).more('ListStalls'))
    link.send(request('ListStalls', {'follow': True}, more=True))
    for _ in range(before):
        next_file(t, link)
    time.sleep(QUIET_SEC)
    t.rig.sync(1, 'after')
    equal(next_file(t, link), 'after', 'what came then')


def test_follower_that_does_not_read(t):
    """It is told how many it has missed; nothing waits for it."""
    link = t.rig.link(t)
    link.send(request('ListStalls', {'follow': True, 'sinceRealtimeUSec': int(time.time() * 1e6)}, more=True))
    time.sleep(0.2)
    count = 500  # far more than are announced in a second
    t.rig.sync(count, 'many')
    time.sleep(QUIET_SEC)
    t.rig.sync(1, 'last')
    seen, lost, last = 0, 0, False
    while not last:
        reply, _ = link.receive()
        seen += reply['stall']['unit'] == t.rig.unit
        lost += reply.get('lost') or 0
        last = reply['stall']['file'].endswith('last')
    check(lost > 0, 'none was lost, so this was no test')
    check(seen < count + 1 <= seen + lost, f'{seen} seen and {lost} lost of {count + 1}')  # others may sync as well


def test_metrics(t):
    link = t.rig.link(t)
    metrics = link.more('List', interface=METRICS)
    families = {d['name']: d['type'] for d in link.more('Describe', interface=METRICS)}
    check(len(metrics) < METRICS_MAX, f'{len(metrics)} metrics')
    equal({m['name'] for m in metrics} - set(families), set(), 'families without a description')
    check(all(n.startswith('org.iolat.') for n in families), f'names: {families}')
    equal(set(families.values()), {'counter', 'gauge'}, 'types')
    mine = {(m['name'].split('.')[-1]): m['value'] for m in metrics
            if m.get('object') == t.rig.unit and m['fields'] == {'op': 'fsync'}}
    row = [r for r in t.rig.daemon.json('list', t.rig.unit) if (r['op'], r['phase']) == ('fsync', 'total')][0]
    equal(mine, {'Operations': row['count'], 'OperationErrors': 0, 'OperationTimeNSec': row['sumNSec'],
                 'OperationP50NSec': row['p50NSec'], 'OperationP99NSec': row['p99NSec'],
                 'OperationMaxNSec': row['maxNSec']}, 'metrics of the unit')
    equal([m['value'] for m in metrics if m['name'].endswith('.UnitsInOthers')], [0], 'units in (others)')
    keys = [(m['name'], m.get('object'), json.dumps(m.get('fields'))) for m in metrics]
    equal(len(keys), len(set(keys)), 'metrics that are told apart')


def count_of_syncs(link):
    return sum(r['row']['count'] for r in link.more('List', {'ops': ['fsync'], 'phases': ['total']})
               if r['row'].get('origin') != 'loop')


def test_more_units_than_metrics(t):
    link = t.rig.link(t)
    for i in range(METRICS_MAX // 6):  # six each
        with cgroup(f'many{i}.service') as group:
            workload('fsync', t.rig.disk.path('many'), group, count=1, write=4096)
    wait_for(lambda: len(link.call('ListUnits')['units']) > METRICS_MAX // 6, what='all units to be known')
    before = count_of_syncs(link)
    metrics = link.more('List', interface=METRICS)
    after = count_of_syncs(link)
    check(len(metrics) < METRICS_MAX, f'{len(metrics)} metrics')
    folded = [m['value'] for m in metrics if m['name'] == 'org.iolat.UnitsInOthers'][0]
    named = {m['object'] for m in metrics if 'object' in m} - {'(others)'}
    units = set(link.call('ListUnits')['units'])
    check(folded > 0 and named < units, f'{folded} units are in (others)')
    check(len(units) - len(named) >= folded, f'{len(named)} units of {len(units)}, {folded} folded')
    syncs = [m for m in metrics if m['name'] == 'org.iolat.Operations' and m['fields'] == {'op': 'fsync'}]
    equal(len([m for m in syncs if m['object'] == '(others)']), 1, 'sums of others')
    check(before <= sum(m['value'] for m in syncs) <= after, f'sum of the syncs, of {before}')
    check(t.rig.unit in named, 'the one that waited longest is not there')


def test_many_in_one_go_and_in_pieces(t):
    """Where a request ends has nothing to do with how it comes."""
    link = t.rig.link(t)
    data = request('GetStatus') * 20
    for i in range(0, len(data), 7):
        link.send(data[i:i + 7])
    for _ in range(20):
        check(link.receive()[0]['version'], 'answer')


def is_closed(link, seconds=10):
    link.socket.settimeout(seconds)
    try:
        while link.receive():
            pass
    except VarlinkError:
        return False
    return True


def test_request_without_end(t):
    link = t.rig.link(t)
    try:
        for _ in range(64):
            link.send(b'x' * (REQUEST_MAX // 4))
    except (BrokenPipeError, ConnectionResetError):
        pass
    else:
        check(is_closed(link), 'not closed')


def test_request_that_is_not_finished(t):
    link = t.rig.link(t)
    link.send(request('GetStatus') + b'{')
    check(link.receive()[0]['version'], 'answer to what came before')
    began = time.monotonic()
    check(is_closed(link), 'not closed')
    took = time.monotonic() - began
    check(MESSAGE_SEC - 1 < took < MESSAGE_SEC + 2, f'closed after {took:.1f} s')


NONSENSE = {
    'no JSON': b'nonsense\0',
    'no object': b'[]\0',
    'no method': b'{"method":1}\0',
    'contradiction': b'{"method":"a.b.C","more":true,"oneway":true}\0',
    'no UTF-8': b'\xff\xfe\0',
    'empty': b'\0',
    'deep': b'[' * 60000 + b'\0',
}


@cases(*NONSENSE)
def test_nonsense(t, what):
    link = t.rig.link(t)
    link.send(NONSENSE[what])
    check(is_closed(link), 'not closed')
    check(t.rig.link(t).call('GetStatus'), 'the daemon goes on')


def test_half_closed(t):
    """A client that is done with asking still gets its answers."""
    link = t.rig.link(t)
    link.send(request('GetStatus') + request('List', more=True))
    link.socket.shutdown(1)
    check(link.receive()[0]['version'], 'first')
    rows, continues = 0, True
    while continues:
        _, continues = link.receive()
        rows += 1
    check(rows > 10, f'{rows} rows')


def test_client_that_does_not_read(t):
    """It holds no more than a reply, however much it asks for; and others are served."""
    before = t.rig.daemon.resident_bytes()
    greedy = [t.rig.link(t, receive_buffer=4096) for _ in range(CONNECTIONS_PER_UID - 1)]
    for link in greedy:
        link.socket.settimeout(0.2)
        try:
            while True:
                link.send(request('ListProbes') * 50)
        except TimeoutError:
            pass
    began = time.monotonic()
    check(t.rig.link(t).more('List'), 'others are not served')
    check(time.monotonic() - began < 1, f'others are served after {time.monotonic() - began:.1f} s')
    grown = t.rig.daemon.resident_bytes() - before
    if b'__asan_init' in IOLATD.read_bytes():
        return  # it keeps what was freed
    check(grown < MEMORY_MAX, f'{grown >> 20} MiB more')


def test_all_that_was_asked_is_answered(t):
    """In a row, without waiting for the answers, as long as they are taken."""
    link = t.rig.link(t)
    count = 300
    link.send(request('ListProbes') * count)
    for _ in range(count):
        check(link.receive()[0]['probes'], 'probes')


def test_too_many_connections(t):
    links = [t.rig.link(t) for _ in range(3 * CONNECTIONS_PER_UID)]
    check(links[-1].call('GetStatus'), 'the newest one')
    closed = 0
    for link in links:
        link.socket.setblocking(False)
        try:
            closed += link.socket.recv(1) == b''
        except BlockingIOError:
            pass
        except ConnectionResetError:
            closed += 1
    equal(len(links) - closed, CONNECTIONS_PER_UID, 'connections that are left')


def test_idle_daemon_keeps_no_connection(t):
    def descriptors():
        return len(os.listdir(f'/proc/{t.rig.daemon.process.pid}/fd'))

    before = wait_for(descriptors, what='descriptors')
    for _ in range(100):
        link = Link(t.rig.socket)
        link.send(request('ListStalls', {'follow': True}, more=True))
        link.close()
    wait_for(lambda: descriptors() <= before, what='all connections to be closed')


if __name__ == '__main__':
    harness.main()
