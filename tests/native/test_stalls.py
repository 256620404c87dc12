# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stalls: announced while they last, ended under the same id, and shown to root alone with all that they know. Single
operations for those who trace."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import time

import harness
from bus import BUS_CONFIG, Bus, BusError
from harness import cases, check, equal, run, skip, start, stop, wait_for
from product import IOLATD, PROBES, daemon
from rig import base_dir, bpffs, cgroup, ext4, finish, slow_ext4, start_workload, workload

RECORD_SEC = 0.1
TICK_SEC = 1.15  # with what the timer may be late
FOREVER = 2**64 - 1
ROOT_KEYS = {'pid', 'thread', 'comm', 'file'}
CPU_SHARE_MAX = 0.2
STORM_PER_SEC = 1700


class Rig:
    def __init__(self, t):
        self.daemon = t.enter(daemon(t))
        self.disk = t.enter(slow_ext4())


def setup(t):
    return Rig(t)


def connect(t, d=None):
    bus = Bus((d or t.rig.daemon).socket)
    t.defer(bus.close)
    return bus


def pages(bus):
    """All stalls, page by page."""
    found, since = {}, 0
    while True:
        page = bus.call('ListStalls', 'tu', since, 0)[0]
        new = [s for s in page if s['id'] not in found]
        found.update((s['id'], s) for s in page)
        if not new:
            return list(found.values())
        since = max(s['startRealtimeUSec'] for s in page)


def stalls(bus, unit=None):
    return [s for s in pages(bus) if unit in (None, s['unit'])]


def stall_of(bus, unit):
    found = stalls(bus, unit)
    check(len(found) <= 1, f'more than one stall: {found}')
    return found[0] if found else None


def signals_of(bus, unit, timeout):
    """The signals about a unit until that time is over."""
    deadline, found = time.monotonic() + timeout, []
    while (left := deadline - time.monotonic()) > 0:
        values = bus.signal('Stall', left)
        if values and values[0] == unit:
            found.append(values)
    return found


def hang(t, group, seconds, name='file'):
    """A sync that takes longer than that, because the backing store does; the caller has to let go."""
    t.rig.disk.delay(fsync=int(seconds * 1000))
    t.defer(t.rig.disk.delay)
    return start_workload('fsync', t.rig.disk.path(name), group, count=1, write=4096)


def wait_in_progress(t, bus, group):
    return wait_for(lambda: stall_of(bus, group.unit), 2 + RECORD_SEC + TICK_SEC, 'stall in progress')


def test_in_progress_and_then_done(t):
    bus, group = connect(t), t.enter(cgroup('a.service'))
    began, wall = time.monotonic(), time.time()
    process = hang(t, group, 2.5)
    values = wait_for(lambda: signals_of(bus, group.unit, 0.1), 5, 'signal')[0]
    took = time.monotonic() - began  # up to 0.1 s more than it was
    equal((values[1], values[4]), ('fsync', True), 'signal')
    check(took < 2 + RECORD_SEC + TICK_SEC + 0.1, f'announced only after {took:.2f} s')
    check(RECORD_SEC < values[3] / 1e9 <= took, f'{values[3]} ns of {took:.2f} s')

    first = stall_of(bus, group.unit)
    equal(first['state'], 'in-progress', 'state')
    equal((first['file'].rpartition('/')[2], first['comm']), ('file', 'iolat-workload'), 'file and comm')
    equal(first['pid'], process.pid, 'pid')
    check(os.path.exists(f'/proc/{process.pid}/task/{first["thread"]}'), 'no such thread')
    check(first['waitNSec'] <= first['totalNSec'], 'longer in the phase than in all')
    check(abs(first['startRealtimeUSec'] / 1e6 - wall) < 1, 'start')
    check(sum(first['phases'].values()) <= first['totalNSec'] * 1.01, f'phases: {first}')
    time.sleep(TICK_SEC)
    second = stall_of(bus, group.unit)
    equal((second['id'], second['state'], second['startRealtimeUSec']),
          (first['id'], 'in-progress', first['startRealtimeUSec']), 'one tick later')
    check(second['totalNSec'] - first['totalNSec'] > 0.8e9, 'it does not get longer')
    equal(second['phase'], 'journal', 'the phase that it is in')

    seen = finish(process)
    done = wait_for(lambda: (s := stall_of(bus, group.unit))['state'] != 'in-progress' and s, what='end')
    equal((done['id'], done['state'], done['startRealtimeUSec']), (first['id'], 'done', first['startRealtimeUSec']),
          'end')
    check(second['totalNSec'] < done['totalNSec'] <= seen['maxNSec'], 'total')
    check('waitNSec' not in done, 'waitNSec after the end')
    check(done['phases']['journal'] > 0.9 * done['totalNSec'], f'phases: {done}')
    check(done['requests']['count'] > 0 and done['requests']['bytes'] >= 4096, f'requests: {done}')
    equal([s[4] for s in signals_of(bus, group.unit, 2 * TICK_SEC)], [False], 'signals after the first one')


def fields_of(datagram):
    """Of an entry in the journal's native protocol."""
    fields = {}
    while datagram:
        line, _, datagram = datagram.partition(b'\n')
        name, equals, value = line.partition(b'=')
        if not equals:
            size = struct.unpack('<Q', datagram[:8])[0]
            value, datagram = datagram[8:8 + size], datagram[9 + size:]
        fields[name.decode()] = value.decode()
    return fields


def test_alerts_while_it_lasts_and_at_its_end(t):
    """What the journal gets, in whose place the test stands."""
    run('mount', '-t', 'tmpfs', 'run', '/run')
    t.defer(run, 'umount', '-l', '/run')
    os.makedirs('/run/systemd/journal')
    journal = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    t.defer(journal.close)
    journal.bind('/run/systemd/journal/socket')
    journal.settimeout(10)
    journal.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    d, group = t.enter(daemon(t)), t.enter(cgroup('a.service'))
    process = hang(t, group, 2)

    def entry():
        while True:
            data, ancillary, _, _ = journal.recvmsg(65536, 1024)
            fields, sender = fields_of(data), struct.unpack('<iii', ancillary[0][2])[0]
            if fields.get('IOLAT_UNIT') == group.unit and sender == d.process.pid: # there is another iolatd
                return fields
    first = entry()
    equal(first['MESSAGE_ID'], '75c6faa4e60c476c977de7c0d73c9db5', 'id while it lasts')
    check('has not returned for' in first['MESSAGE'], first['MESSAGE'])
    equal((first['IOLAT_PHASE'], first['IOLAT_OP'], first['PRIORITY']), ('journal', 'fsync', '4'), 'fields')
    check(0 < int(first['IOLAT_WAIT_USEC']) <= int(first['IOLAT_TOTAL_USEC']), 'times')
    last = entry()
    equal(last['MESSAGE_ID'], '20ecc9e4164647f982cc2c2a1d527d07', 'id at the end')
    check(int(last['IOLAT_TOTAL_USEC']) > int(first['IOLAT_TOTAL_USEC']) and 'IOLAT_WAIT_USEC' not in last, 'total')
    finish(process)
    equal([k for e in (first, last) for k, v in e.items() if 'file' in v.lower()], [], 'fields with the file\'s name')


def test_files_that_do_not_stall_are_not_announced(t):
    bus, group = connect(t), t.enter(cgroup('a.service'))
    seen = workload('fsync', t.rig.disk.path('file'), group, count=200, rate=100, write=4096)
    check(seen['maxNSec'] < RECORD_SEC * 1e9, 'the machine is too slow for this test')
    equal(stalls(bus, group.unit), [], 'stalls')


def test_longer_than_the_record_limit_only(t):
    """Of two that hang only the one above its limit is announced: a direct write has a limit of its own."""
    d = t.enter(daemon(t, config='[Stall]\nFsyncRecordSec=1h\nFsyncAlertSec=1h\nWriteRecordSec=100ms\n'))
    bus, syncer, writer = connect(t, d), t.enter(cgroup('sync.service')), t.enter(cgroup('write.service'))
    t.rig.disk.delay(fsync=4000, write=4000)
    t.defer(t.rig.disk.delay)
    processes = [start_workload('fsync', t.rig.disk.path('a'), syncer, count=1, write=4096),
                 start_workload('dwrite', t.rig.disk.path('b'), writer, count=1, block=4096)]
    found = wait_for(lambda: stall_of(bus, writer.unit), 4, 'stall of the direct write')
    equal((found['op'], found['state'], found['phase']), ('dwrite', 'in-progress', 'io'), 'stall')
    equal(stalls(bus, syncer.unit), [], 'stalls of the sync')
    t.rig.disk.delay()
    for p in processes:
        finish(p)


def test_killed_while_it_waits(t):
    """Nothing in progress stays behind, and nothing that was never there."""
    bus, group = connect(t), t.enter(cgroup('a.service'))
    process = hang(t, group, 4)
    first = wait_in_progress(t, bus, group)
    process.kill()
    time.sleep(TICK_SEC)
    equal(stall_of(bus, group.unit)['id'], first['id'], 'while the kernel still waits for the disk')
    process.wait()
    wait_for(lambda: not os.path.exists(f'/proc/{process.pid}'), 20, 'end of the process')
    wait_for(lambda: all(s['state'] != 'in-progress' for s in stalls(bus, group.unit)), 3 * TICK_SEC, 'no entry')
    left = stalls(bus, group.unit)
    check(all(s['id'] == first['id'] and s['state'] == 'done' for s in left), f'left behind: {left}')
    check(len(left) <= 1, f'left behind: {left}')


@cases('kill -9', 'SIGTERM')
def test_ended_while_no_daemon_was_there(t, how):
    """Those that were known before, and those that nobody has seen."""
    d = t.enter(daemon(t))
    bus, known, unknown = connect(t, d), t.enter(cgroup('known.service')), t.enter(cgroup('unknown.service'))
    process = hang(t, known, 2.5)
    first = wait_in_progress(t, bus, known)
    if how == 'kill -9':
        d.kill9()
    else:
        d.stop()
    totals = {known.unit: finish(process)['maxNSec']}
    t.rig.disk.delay(fsync=300)
    totals[unknown.unit] = workload('fsync', t.rig.disk.path('other'), unknown, count=1, write=4096)['maxNSec']
    t.rig.disk.delay()
    d.start()
    bus = connect(t, d)
    for unit, most in totals.items():
        found = wait_for(lambda: stall_of(bus, unit), what=f'stall of {unit}')
        equal((found['op'], found['state']), ('fsync', 'done'), 'stall')
        check(most * 0.9 < found['totalNSec'] <= most, f'{found["totalNSec"]} ns of {most}')
    found = stall_of(bus, known.unit)
    check(abs(found['startRealtimeUSec'] - first['startRealtimeUSec']) < 0.2e6, f'start: {first}, {found}')


def test_what_ended_before_there_were_thresholds(t):
    """While programs are loaded, and until the daemon comes, whose thresholds are others than those until then."""
    quick, slow, slower = (t.enter(cgroup(f'{name}.service')) for name in ('quick', 'slow', 'slower'))
    d = t.enter(daemon(t, config='[Stall]\nFsyncRecordSec=1s\n', started=False))
    process = start_workload('fsync', t.rig.disk.path('file'), quick, count=10**6, write=4096)
    t.defer(process.wait)
    t.defer(process.kill)
    run(PROBES, 'load', f'--bpffs={d.bpffs}')
    process.kill()
    process.wait()
    for group, msec in (slow, 150), (slower, 600):  # a commit takes two of these
        t.rig.disk.delay(fsync=msec)
        workload('fsync', t.rig.disk.path('file'), group, count=1, write=4096)
    t.rig.disk.delay()
    d.start()
    bus = connect(t, d)
    wait_for(lambda: stall_of(bus, slower.unit), what='what was longer than the threshold')
    equal([stalls(bus, g.unit) for g in (quick, slow)], [[], []], 'stalls of others')
    equal(d.losses().get('stall-ring-full', 0), 0, 'stalls that were lost')


def read_calls(pid):
    return int(dict(line.split(': ') for line in pathlib.Path(f'/proc/{pid}/io').read_text().splitlines())['syscr'])


def test_lost_ends(t):
    """A counter that operations are missing from is found out, and hides none that hangs."""
    need_bpftool()
    d = t.enter(daemon(t))
    bus, group = connect(t, d), t.enter(cgroup('a.service'))
    flights = next(d.bpffs.glob('iolat/*/maps/flights'))
    # On each CPU, as bpftool does it.
    run('bpftool', 'map', 'update', 'pinned', flights, 'key', 0, 0, 0, 0, 'value', 7, 0, 0, 0, 0, 0, 0, 0)

    def reads():
        """In two seconds."""
        before = read_calls(d.process.pid)
        time.sleep(2 * TICK_SEC)
        return read_calls(d.process.pid) - before
    counts = []
    with contextlib.suppress(AssertionError):  # never while other programs wait for disks all the time
        wait_for(lambda: counts.append(reads()) or min(counts) < max(counts) / 2, 30)
    began = time.monotonic()
    process = hang(t, group, 2.5)
    found = wait_in_progress(t, bus, group)
    print(f'# found after {time.monotonic() - began:.1f} s; reads: {counts}', flush=True)
    equal(found['state'], 'in-progress', 'state')
    finish(process)


@cases('aio', 'uring')
def test_asynchronous(t, engine):
    """Followed like others; of a process that is killed nothing stays behind."""
    bus = connect(t)
    for kill in False, True:
        group = t.enter(cgroup('a.service'))
        process = start_workload('dwrite', t.rig.disk.path('direct'), group, count=1, block=4096, engine=engine,
                                 prepare='64K', barrier=True)
        if process.stdout.readline() != 'ready\n':
            finish(process)  # says why
        t.rig.disk.delay(write=3500)
        t.defer(t.rig.disk.delay)
        process.stdin.write('\n')
        process.stdin.flush()
        found = wait_for(lambda: stall_of(bus, group.unit), 12, 'stall in progress')
        equal((found['op'], found['state'], found['phase']), ('dwrite', 'in-progress', 'io'), 'stall')
        check('requests' not in found, 'requests of an asynchronous operation')
        if kill:
            process.kill()
            process.wait()
        t.rig.disk.delay()
        if not kill:
            finish(process)
        wait_for(lambda: all(s['state'] == 'done' for s in stalls(bus, group.unit)), 15, 'end')
        check(all(s['id'] == found['id'] for s in stalls(bus, group.unit)), 'another id')


def test_more_than_are_followed(t):
    d, disk = t.enter(daemon(t)), t.enter(slow_ext4())
    bus, group = connect(t, d), t.enter(cgroup('a.service'))
    disk.delay(fsync=3000)
    process = start_workload('fsync', disk.path('file'), group, threads=600, count=1, write=4096)
    wait_for(lambda: len([s for s in pages(bus) if s['state'] == 'in-progress']) == 512, 5, '512 in progress')
    check(d.losses().get('in-progress-full', 0) >= 600 - 512, f'losses: {d.losses()}')
    disk.delay()
    equal(finish(process)['count'], 600, 'syncs')
    d.expect_counts(group.unit, {'fsync': 600})
    wait_for(lambda: {s['state'] for s in pages(bus)} == {'done'}, 5, 'no more in progress')


def test_failed_sync(t):
    bus, group = connect(t), t.enter(cgroup('a.service'))
    disk = t.enter(slow_ext4())
    workload('fsync', disk.path('file'), group, count=1, write=4096)
    disk.delay(error=5)
    workload('fsync', disk.path('file'), group, count=1, write=4096, ignore_errors=True)
    found = wait_for(lambda: [s for s in stalls(bus, group.unit) if s['state'] == 'failed'], what='failed sync')
    equal((found[0]['error'], found[0]['op']), ('EIO', 'fsync'), 'failed sync')


def as_nobody(t, function):
    """What a process of another user gets that sees the daemon's directory only: / may be closed to others."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.chroot(t.rig.daemon.socket.parent)
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            os.write(write, json.dumps(function()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, 'rb') as f:
        data = f.read()
    os.waitpid(pid, 0)
    return json.loads(data)


def test_others_than_root(t):
    bus, group = connect(t), t.enter(cgroup('a.service'))
    process = hang(t, group, 1)
    wait_in_progress(t, bus, group)
    finish(process)

    def ask():
        other = Bus('/bus')
        try:
            other.call('Trace', 'st', '', 0)
            refused = 'not refused'
        except BusError as e:
            refused = e.name
        return {'stalls': stalls(other, group.unit), 'trace': refused}
    got = as_nobody(t, ask)
    equal(len(got['stalls']), 1, 'stalls')
    equal(set(got['stalls'][0]) & ROOT_KEYS, set(), 'keys for root only')
    equal(set(stall_of(bus, group.unit)) & ROOT_KEYS, ROOT_KEYS, 'keys for root')
    equal(got['trace'], 'org.freedesktop.DBus.Error.AccessDenied', 'trace')


def test_hostile_names(t):
    bus, group = connect(t), t.enter(cgroup('a.service'))
    name = b'\xff\n\x1b[31m' + b'n' * 100
    path = f'{t.rig.disk.mount_point}/{os.fsdecode(name)}'
    bus.call('Trace', 'st', group.unit, 0)
    group.run('python3', '-c', 'import os, sys\nf = os.open(os.fsencode(sys.argv[1]), os.O_CREAT | os.O_WRONLY)\n'
              'open("/proc/self/comm", "wb").write(b"\\xfe\\n")\nos.write(f, b"x"); os.fsync(f)', path)
    got = bus.signal('Operation')[0]
    check(got['file'].startswith('/\\xff\n\x1b[31mn'), f'file: {got["file"]!r}')
    equal(got['comm'], '\\xfe\n', 'comm')


# --- trace ---

def settings(d):
    """sync_record, write_record, trace, owner_floor"""
    r = run('bpftool', '--json', 'map', 'dump', 'pinned', next(d.bpffs.glob('iolat/*/maps/settings')))
    value = bytes(int(b, 16) for b in json.loads(r.stdout)[0]['value'])
    return struct.unpack('<QQQQ', value[:32])


def owner_settings(d):
    r = run('bpftool', '--json', 'map', 'dump', 'pinned', next(d.bpffs.glob('iolat/*/maps/owner_settings')))
    return len(json.loads(r.stdout))


def need_bpftool():
    if not shutil.which('bpftool'):
        skip('no bpftool')


def check_operation(op):
    total = op['totalNSec']
    for key in 'spans', 'journal':
        for name, begin, end in op[key]:
            check(name and 0 <= begin < end <= total, f'{key}: {name} {begin}..{end} of {total}')


def test_trace_of_all(t):
    """Among what the rest of the machine does, which may be more than is sent."""
    bus, group = connect(t), t.enter(cgroup('a.service'))
    bus.call('Trace', 'st', '', 0)

    def own_operation():
        workload('fsync', t.rig.disk.path('file'), group, count=20, write=4096, pattern='append')
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline and (operation := bus.signal('Operation', 0.2)):
            check_operation(operation[0])
            if operation[0]['unit'] == group.unit:
                return True
        return False
    wait_for(own_operation, 20, 'operation of a unit')
    equal(stalls(bus, group.unit), [], 'an operation that is only traced is no stall')


def test_operation(t):
    bus, group = connect(t), t.enter(cgroup('a.service'))
    bus.call('Trace', 'st', group.unit, 0)
    seen = workload('fsync', t.rig.disk.path('file'), group, count=20, write=4096, pattern='append')
    operations = [bus.signal('Operation')[0] for _ in range(20)]
    for op in operations:
        check_operation(op)
        equal((op['unit'], op['op'], op['state'], op['comm'], 'id' in op),
              (group.unit, 'fsync', 'done', 'iolat-workload', False), 'operation')
        check(op['totalNSec'] <= seen['maxNSec'], 'total')
    check(any(name == 'record' for op in operations for name, _, _ in op['journal']), 'no step of the journal')
    equal(bus.signal('Operation', 0.2), None, 'more than there were')


def test_trace_of_a_unit(t):
    need_bpftool()
    d, bus = t.rig.daemon, connect(t)
    group, other = t.enter(cgroup('a.service')), t.enter(cgroup('b.service'))
    workload('fsync', t.rig.disk.path('file'), group, count=1)
    bus.call('Trace', 'st', group.unit, 0)
    for g in group, other:
        workload('fsync', t.rig.disk.path('file'), g, count=5, write=4096)
    units = set()
    while operation := bus.signal('Operation', 1):
        units.add(operation[0]['unit'])
        check_operation(operation[0])
    equal(units, {group.unit}, 'units traced')


def test_settings_follow_the_trace(t):
    need_bpftool()
    d, bus, group = t.rig.daemon, connect(t), t.enter(cgroup('a.service'))
    before = settings(d)
    equal(before, (100_000_000, before[1], FOREVER, FOREVER), 'settings when nobody traces')
    bus.call('Trace', 'st', '', 5_000_000)
    equal(settings(d)[2], 5_000_000, 'limit of all units')
    second = connect(t)
    second.call('Trace', 'st', '', 1000)
    equal(settings(d)[2], 1000, 'lowest limit of two')
    second.close()
    wait_for(lambda: settings(d)[2] == 5_000_000, what='limit of the first one')
    bus.call('Trace', 'st', '', FOREVER)
    equal(settings(d), before, 'settings after the end')

    workload('fsync', t.rig.disk.path('file'), group, count=1)
    d.json('list', group.unit)
    bus.call('Trace', 'st', group.unit, 77)
    equal((owner_settings(d), settings(d)[2:]), (1, (FOREVER, 77)), 'settings of one unit')
    time.sleep(TICK_SEC)
    equal(settings(d)[3], 77, 'settings after a tick')
    bus.close()
    wait_for(lambda: owner_settings(d) == 0, what='no settings of units')
    equal(settings(d), before, 'settings after the connection')


def test_settings_of_a_daemon_that_was_killed(t):
    need_bpftool()
    d = t.enter(daemon(t))
    bus, group = connect(t, d), t.enter(cgroup('a.service'))
    workload('fsync', t.rig.disk.path('file'), group, count=1)
    d.json('list', group.unit)
    bus.call('Trace', 'st', group.unit, 0)
    bus.call('Trace', 'st', '', 0)
    equal(owner_settings(d), 1, 'settings of units')
    d.kill9()
    d.start()
    equal((owner_settings(d), settings(d)[2:]), (0, (FOREVER, FOREVER)), 'settings after a restart')


def test_limits_of_traces(t):
    clients = [connect(t) for _ in range(4)]
    for n, bus in enumerate(clients):
        for k in range(4):
            bus.call('Trace', 'st', f'{n}-{k}.service', 0)
        bus.call('Trace', 'st', f'{n}-0.service', 5)  # instead
        try:
            bus.call('Trace', 'st', 'fifth.service', 0)
            check(False, 'a fifth trace of one client')
        except BusError as e:
            equal(e.name, 'org.iolat1.Error.TooMany', 'error')
    other = connect(t)
    try:
        other.call('Trace', 'st', '', 0)
        check(False, 'a 17th trace')
    except BusError as e:
        equal(e.name, 'org.iolat1.Error.TooMany', 'error')
    clients[0].close()
    wait_for(lambda: try_trace(other), what='room for another one')
    other.call('Trace', 'st', '', FOREVER)
    try:
        other.call('Trace', 'st', 'x' * 300, 0)
        check(False, 'a name of 300 bytes')
    except BusError as e:
        equal(e.name, 'org.iolat1.Error.BadRange', 'error')


def try_trace(bus, destination=None, unit=''):
    try:
        bus.call('Trace', 'st', unit, 0, destination=destination)
        return True
    except BusError:
        return False


def test_subscriber_that_does_not_read(t):
    d, group = t.rig.daemon, t.enter(cgroup('a.service'))
    stuck = connect(t)
    stuck.call('Trace', 'st', '', 0)
    before = d.resident_bytes()
    longest = 0
    process = start_workload('dread', t.rig.disk.path('file'), group, threads=2, count=20000, rate=4000, block=4096,
                             prepare='1M')
    while process.poll() is None:
        began = time.monotonic()
        d.json('list', group.unit)
        longest = max(longest, time.monotonic() - began)
        time.sleep(0.1)
    finish(process)
    check(longest < 1, f'a query took {longest:.2f} s')
    check(d.resident_bytes() - before < 4 << 20, 'memory for somebody who does not read')
    # What was sent is there, and the first one that is sent now says how many were not.
    stuck.call('Trace', 'st', '', FOREVER)
    while operation := stuck.signal('Operation', 0.5):
        check_operation(operation[0])
    stuck.call('Trace', 'st', '', 0)
    workload('fsync', t.rig.disk.path('file'), group, count=1, write=4096)
    check(stuck.signal('Operation'), 'nothing is sent any more')


def test_slow_subscriber_is_told_what_it_missed(t):
    d, group, bus = t.rig.daemon, t.enter(cgroup('a.service')), connect(t)
    bus.call('Trace', 'st', group.unit, 0)
    workload('dread', t.rig.disk.path('file'), group, count=5000, block=4096, prepare='1M')
    n = lost = 0
    while operation := bus.signal('Operation', 0.5):
        n += 1
    workload('fsync', t.rig.disk.path('file'), group, count=1, write=4096)
    time.sleep(TICK_SEC)
    workload('fsync', t.rig.disk.path('file'), group, count=1, write=4096)
    while operation := bus.signal('Operation', 0.5):
        n, lost = n + 1, operation[0]['lost']
    check(lost > 0 and n < 5002, f'{n} got, {lost} lost')
    check(n + lost >= 5000 - 1, f'{n} got and {lost} lost of 5002')
    d.expect_counts(group.unit, {'dread': 5000, 'fsync': 2})


class OnBus:
    """iolatd on a system bus of the test's own."""

    def __init__(self, t):
        directory = t.directory('bus')
        self.socket, config = directory / 'socket', directory / 'conf'
        config.write_text(BUS_CONFIG.format(path=self.socket))
        bus = start('dbus-daemon', f'--config-file={config}', '--nofork', stderr=subprocess.DEVNULL)
        t.defer(stop, bus)
        wait_for(self.socket.exists, what='bus')
        runtime = directory / 'run'
        runtime.mkdir()
        self.bpffs = t.enter(bpffs())
        process = start(IOLATD, f'--runtime-dir={runtime}', f'--bpffs={self.bpffs}', '--config=/dev/null',
                        env=os.environ | {'DBUS_SYSTEM_BUS_ADDRESS': f'unix:path={self.socket}'})
        t.defer(stop, process)

    def connect(self, t):
        bus = Bus(self.socket, hello=True)
        t.defer(bus.close)
        return bus


def test_trace_on_the_system_bus(t):
    need_bpftool()
    if not shutil.which('dbus-daemon'):
        skip('no dbus-daemon')
    d, group, other = OnBus(t), t.enter(cgroup('a.service')), t.enter(cgroup('b.service'))
    first, second = d.connect(t), d.connect(t)
    wait_for(lambda: try_trace(first, 'org.iolat1', group.unit), 30, 'name on the bus')
    second.call('Trace', 'st', other.unit, 1000, destination='org.iolat1')
    equal(settings(d)[2:], (FOREVER, 0), 'settings')
    for g in group, other:
        workload('fsync', t.rig.disk.path('file'), g, count=5, write=4096)
    for bus, g in (first, group), (second, other):
        for _ in range(5):
            equal(bus.signal('Operation')[0]['unit'], g.unit, 'unit')
        equal(bus.signal('Operation', 0.3), None, 'more')
    first.close()
    wait_for(lambda: settings(d)[3] == 1000, what='end of the first trace')
    second.call('Trace', 'st', '', FOREVER, destination='org.iolat1')
    equal(settings(d)[2:], (FOREVER, FOREVER), 'settings after the end')

    # One that leaves while it is still being asked who it is.
    third = d.connect(t)
    third.send_call('Trace', 'st', '', 0, destination='org.iolat1')
    third.close()
    fourth = d.connect(t)
    fourth.call('ListProbes', destination='org.iolat1')
    wait_for(lambda: settings(d)[2:] == (FOREVER, FOREVER), what='end of the trace of one that has left')


# --- many ---

def cpu_seconds(pid):
    fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def test_storm(t):
    """Every operation is a stall: memory is bounded, what is lost is counted, and the daemon leaves the CPU alone."""
    config = ''.join(f'{key}=1us\n' for key in ('FsyncRecordSec', 'FsyncAlertSec', 'WriteRecordSec', 'WriteAlertSec'))
    d = t.enter(daemon(t, config='[Stall]\n' + config))
    disk, group, bus = t.enter(ext4()), t.enter(cgroup('a.service')), connect(t, d)
    workload('dread', disk.path('file'), group, count=2000, block=4096, prepare='1M')  # everything is in its place
    first = max(s['id'] for s in pages(bus))
    before, cpu, began = d.resident_bytes(), cpu_seconds(d.process.pid), time.monotonic()
    process = start_workload('dread', disk.path('file'), group, count=10 * STORM_PER_SEC, rate=STORM_PER_SEC,
                             block=4096)
    n_signals = 0
    while process.poll() is None:
        n_signals += len(signals_of(bus, group.unit, 0.2))
    seen, wall = finish(process), time.monotonic() - began
    share = (cpu_seconds(d.process.pid) - cpu) / wall
    rate = seen['count'] / wall
    print(f'# {rate:.0f} stalls a second take {share * 100:.1f} % of a CPU, '
          f'{(d.resident_bytes() - before) >> 10} KiB more', flush=True)
    check(rate > 0.8 * STORM_PER_SEC, f'only {rate:.0f} stalls a second')
    check(share < CPU_SHARE_MAX, f'{share * 100:.1f} % of a CPU')
    check(d.resident_bytes() - before < 4 << 20, 'memory')
    noted = max(s['id'] for s in pages(connect(t, d))) - first
    lost = d.losses().get('stall-ring-full', 0)
    check(noted + lost >= seen['count'], f'{noted} noted and {lost} lost of {seen["count"]}')
    check(0 < n_signals <= 100 * (wall + 2), f'{n_signals} signals in {wall:.0f} s')


def test_burst(t):
    """More at once than the ring holds: counted, and the daemon serves."""
    d = t.enter(daemon(t, config='[Stall]\nFsyncRecordSec=1us\nWriteRecordSec=1us\n'))
    disk, group, bus = t.enter(ext4()), t.enter(cgroup('a.service')), connect(t, d)
    seen = workload('dread', disk.path('file'), group, threads=4, count=10000, block=4096, prepare='1M')
    d.expect_counts(group.unit, {'dread': seen['count']})
    lost = d.losses().get('stall-ring-full', 0)
    newest = max(s['id'] for s in pages(bus))
    check(newest + lost >= seen['count'], f'{newest} noted and {lost} lost of {seen["count"]}')
    check(len(pages(bus)) <= 1024, 'too many are kept')


if __name__ == '__main__':
    harness.main()
