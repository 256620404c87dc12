# SPDX-License-Identifier: LGPL-2.1-or-later
"""The last day: windows, the file that keeps them, and disks that do not take it."""

import os
import pathlib
import re
import shutil
import struct
import time
import zlib

import harness
from harness import cases, check, equal, run, skip, wait_for
from product import daemon, settled
from rig import cgroup, ext4, slow_ext4, workload

HURRY = {'IOLAT_TEST_HURRY': '1'}  # windows of a second
TICK_SEC = 1
ALL = (0, 2 ** 64 - 1)
QUERY_MSEC = 100
RSS_MAX = 16 << 20
ENTRY = re.compile(r'dict entry\(\s+string "(\w+)"\s+variant\s+(string|uint64|boolean) (?:"([^"]*)"|(\S+))\s+\)')
SUMS = ('count', 'sumNSec', 'errors', 'bytes')
KEY = ('unit', 'op', 'phase', 'device', 'origin', 'async')


def list_range(d, unit, span=ALL, limit=0):
    """Rows, and the part of time that they are about."""
    cursor, rows = 0, []
    while True:
        reply = run('dbus-send', f'--peer=unix:path={d.socket}', '--print-reply', '/org/iolat1',
                    'org.iolat1.Manager.ListRange', f'array:string:{unit}', 'array:string:', 'array:string:',
                    f'uint64:{span[0]}', f'uint64:{span[1]}', f'uint64:{cursor}', f'uint32:{limit}').stdout
        for text in reply.split('\n      array [\n')[1:]:
            rows.append({k: s if kind == 'string' else int(v) if kind == 'uint64' else v == 'true'
                         for k, kind, s, v in ENTRY.findall(text)})
            rows[-1]['source'] = 'string "source"' in text
        cursor, first, last = (int(n) for n in re.findall(r'\n   uint64 (\d+)', reply)[-3:])
        if cursor == 0:
            return rows, first, last


def by_key(rows):
    result = {}
    for r in rows:
        key = tuple(r.get(k) for k in KEY)
        check(key not in result, f'two rows of {key}')
        result[key] = {k: r[k] for k in SUMS if r.get(k) is not None}
    return result


def growth(now, before):
    """What by_key() of the same unit has grown by."""
    result = {}
    for key, sums in now.items():
        grown = {k: v - before.get(key, {}).get(k, 0) for k, v in sums.items()}
        if any(grown.values()):
            result[key] = grown
    return result


def fsyncs(d, unit, span=ALL):
    rows, _, _ = list_range(d, unit, span)
    return sum(r['count'] for r in rows if r['op'] == 'fsync' and r['phase'] == 'total')


def settled_list(d, unit):
    return by_key(settled(lambda: d.rows(unit)))


def expect_all(d, unit, what):
    """The whole history of the unit is all that was ever counted for it."""
    def same():
        rows = list_range(d, unit)[0]
        return rows and by_key(rows) == by_key(d.rows(unit))
    time.sleep(0.2)  # a list may be a bit old
    try:
        wait_for(same, what=what)
    except AssertionError:
        equal(by_key(list_range(d, unit)[0]), by_key(d.rows(unit)), what)


def now_usec():
    return time.time_ns() // 1000


def warnings(d, *words):
    return [line for line in d.log.read_text(errors='replace').splitlines() if all(w in line for w in words)]


def make(t, config='', state=None, **kwargs):
    if not shutil.which('dbus-send'):
        skip('no dbus-send')
    d = t.enter(daemon(t, config, env=HURRY, started=False, **kwargs))
    if state:
        d.state = state
    return d


def started(t, **kwargs):
    d = make(t, **kwargs).start()
    return d, t.enter(ext4()), t.enter(cgroup('a.service'))


def test_windows_are_the_growth(t):
    d, disk, group = started(t)
    workload('fsync', disk.path('f'), group, count=100, write=4096, pattern='append')
    workload('dwrite', disk.path('d'), group, count=30, prepare='64K')
    expect_all(d, group.unit, 'history of the first burst')
    rows, first, edge = list_range(d, group.unit)
    check(0 < first < edge <= now_usec(), f'covers {first} to {edge}')
    check(all(r['source'] for r in rows), 'rows without a source')
    listed = {tuple(r.get(k) for k in KEY): r for r in d.rows(group.unit)}
    for r in rows:
        like = listed[tuple(r.get(k) for k in KEY)]
        equal({k: r.get(k) for k in ('p50NSec', 'p90NSec', 'p99NSec', 'fsType', 'mountPoint')},
              {k: like.get(k) for k in ('p50NSec', 'p90NSec', 'p99NSec', 'fsType', 'mountPoint')}, 'row as in List()')
        check(like['maxNSec'] / 1.01 <= r['maxNSec'] <= like['maxNSec'], f'maximum {r["maxNSec"]} of {like}')

    before = settled_list(d, group.unit)
    expect_all(d, group.unit, 'history that has settled')
    edge = list_range(d, group.unit)[2]
    time.sleep(2 * TICK_SEC)
    workload('fsync', disk.path('f'), group, count=70, write=4096, pattern='append')
    expect_all(d, group.unit, 'history of both bursts')
    after = settled_list(d, group.unit)
    expect_all(d, group.unit, 'history of both bursts, settled')
    equal(by_key(list_range(d, group.unit, (edge, ALL[1]))[0]), growth(after, before), 'growth since the first burst')
    equal(by_key(list_range(d, group.unit, (0, edge))[0]), before, 'history up to the end of the first burst')
    equal(by_key(list_range(d, group.unit, limit=3)[0]), after, 'history by pages of three rows')
    equal(list_range(d, group.unit, (1, 2)), ([], 0, 0), 'history of 1970')


def test_merged_windows_stay_the_same(t):
    """With windows of a second, those older than 15 seconds are put together."""
    d, disk, group = started(t)
    for _ in range(22):
        workload('fsync', disk.path('f'), group, count=20, write=4096)
        time.sleep(TICK_SEC)
    expect_all(d, group.unit, 'history')
    d.kill9()
    d.start()
    expect_all(d, group.unit, 'history after a restart')


@cases('kill -9', 'SIGTERM')
def test_restart(t, how):
    d, disk, group = started(t)
    workload('fsync', disk.path('f'), group, count=100, write=4096, pattern='append')
    before = settled_list(d, group.unit)
    expect_all(d, group.unit, 'history before')
    edge = list_range(d, group.unit)[2]
    if how == 'SIGTERM':
        workload('fsync', disk.path('g'), group, count=11, write=4096)  # in no window yet
        d.stop()
    else:
        wait_for(lambda: (d.state / 'history').exists(), what='state file')
        time.sleep(2 * TICK_SEC)
        d.kill9()
    workload('fsync', disk.path('f'), group, count=50, write=4096, pattern='append')  # nobody is there
    d.start()
    expect_all(d, group.unit, 'history after the restart')
    equal(by_key(list_range(d, group.unit, (0, edge))[0]), before, 'history of the time before the restart')
    since = int(run('dbus-send', f'--peer=unix:path={d.socket}', '--print-reply', '/org/iolat1',
                    'org.freedesktop.DBus.Properties.Get', 'string:org.iolat1.Manager',
                    'string:HistorySince').stdout.split()[-1])
    check(0 < since < edge, f'HistorySince is {since}, edge {edge}')
    equal(warnings(d, 'history'), [], 'warnings about the history')


def damage(path, how):
    data = bytearray(path.read_bytes())
    if how == 'torn':
        del data[-5:]
    elif how == 'flipped bit':
        data[len(data) // 2] ^= 1
    elif how == 'no header':
        data[0:4] = b'\0\0\0\0'
    elif how == 'garbage behind':
        data += b'\xff' * 300
    path.write_bytes(data)
    return bytes(data)


@cases('torn', 'flipped bit', 'no header', 'garbage behind')
def test_damaged_file(t, how):
    d, disk, group = started(t)
    for _ in range(3):
        workload('fsync', disk.path('f'), group, count=40, write=4096)
        expect_all(d, group.unit, 'history')
    edge = list_range(d, group.unit)[2]
    time.sleep(2 * TICK_SEC)
    d.kill9()
    (d.state / 'history.corrupt').write_text('an older one')
    data = damage(d.state / 'history', how)
    d.start()
    wait_for(lambda: (d.state / 'history.corrupt').read_bytes() == data, what='damaged file set aside')
    time.sleep(2 * TICK_SEC)  # it may have to find out from where to count
    got = fsyncs(d, group.unit, (0, edge))
    check(got == 120 if how in ('torn', 'garbage behind') else got <= 120, f'{got} of 120 are left')
    check(fsyncs(d, group.unit) <= 120, 'something is counted twice')
    edge = list_range(d, group.unit)[2]
    workload('fsync', disk.path('f'), group, count=17, write=4096)
    wait_for(lambda: fsyncs(d, group.unit, (edge, ALL[1])) == 17, what='new windows')
    time.sleep(2 * TICK_SEC)
    d.kill9()
    d.start()
    wait_for(lambda: fsyncs(d, group.unit, (edge, ALL[1])) == 17, what='new windows after a restart')
    equal(len(warnings(d, 'history')), 1, f'warnings ({warnings(d, "history")})')
    check(d.process.poll() is None, 'iolatd has ended')


@cases('missing', 'read-only', 'no directory')
def test_state_directory(t, what):
    directory = t.directory('state')
    if what == 'missing':
        directory = directory / 'no/such'
    elif what == 'read-only':
        run('mount', '-t', 'tmpfs', '-o', 'ro', 'none', directory)
        t.defer(run, 'umount', '-l', directory)
    else:
        directory = directory / 'file'
        directory.write_text('')
    d, disk, group = started(t, state=directory)
    for _ in range(2):
        workload('fsync', disk.path('f'), group, count=25, write=4096)
        expect_all(d, group.unit, 'history')
    time.sleep(5 * TICK_SEC)  # another attempt
    equal(len(warnings(d, str(directory))), 1, f'warnings ({warnings(d, str(directory))})')
    d.stop()


def test_made_if_it_is_not_there(t):
    d, disk, group = started(t)
    workload('fsync', disk.path('f'), group, count=25, write=4096)
    wait_for(lambda: (d.state / 'history').exists(), what='state file')
    equal((d.state / 'history').stat().st_mode & 0o777, 0o600, 'mode of the file')


def children(d):
    return [pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0]
            for pid in pathlib.Path(f'/proc/{d.process.pid}/task/{d.process.pid}/children').read_text().split()]


def slowest_query_msec(d, unit):
    """Time of the client program is part of it."""
    slowest = 0
    for _ in range(10):
        began = time.monotonic()
        d.call('list', unit, '--json=short')
        slowest = max(slowest, time.monotonic() - began)
    return slowest * 1000


def test_frozen_disk(t):
    frozen = t.enter(ext4(64 << 20))
    d, disk, group = started(t, state=frozen.path('state'))
    workload('fsync', disk.path('f'), group, count=30, write=4096)
    expect_all(d, group.unit, 'history')
    wait_for(lambda: (d.state / 'history').exists(), what='state file')
    limit = max(QUERY_MSEC, 3 * slowest_query_msec(d, group.unit))  # a build with sanitizers is slow
    run('fsfreeze', '-f', frozen.mount_point)

    def thaw():
        run('fsfreeze', '-u', frozen.mount_point, check=False)
    t.defer(thaw)
    for _ in range(6):
        workload('fsync', disk.path('f'), group, count=10, write=4096)
        time.sleep(TICK_SEC)
        check(len(children(d)) <= 1, f'children: {children(d)}')
        took = slowest_query_msec(d, group.unit)
        check(took < limit, f'a query took {took:.0f} ms')
        expect_all(d, group.unit, 'history while the disk is frozen')
    equal(children(d), ['D'], 'state of the child')
    check(len(warnings(d, str(d.state))) == 1, f'warnings: {warnings(d, str(d.state))}')
    thaw()
    workload('fsync', disk.path('f'), group, count=10, write=4096)
    wait_for(lambda: children(d) == [], what='end of the child')
    expect_all(d, group.unit, 'history afterwards')
    time.sleep(4 * TICK_SEC)
    d.kill9()
    d.start()
    expect_all(d, group.unit, 'history after the restart')


def forget_cached(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def test_disk_that_hangs_at_the_start(t):
    """It goes on without the file, which is read when the disk is back."""
    slow = t.enter(slow_ext4())
    d, disk, group = started(t, state=slow.path('state'))
    workload('fsync', disk.path('f'), group, count=30, write=4096)
    expect_all(d, group.unit, 'history')
    edge = list_range(d, group.unit)[2]
    time.sleep(2 * TICK_SEC)
    d.kill9()
    forget_cached(d.state / 'history')
    forget_cached(slow.image)
    slow.delay(read=8000)
    d.start()
    workload('fsync', disk.path('f'), group, count=10, write=4096)
    wait_for(lambda: warnings(d, 'does not answer'), what='warning')
    slow.delay()
    workload('fsync', disk.path('f'), group, count=7, write=4096)
    wait_for(lambda: fsyncs(d, group.unit, (edge, ALL[1])) == 7, what='new windows')
    wait_for(lambda: fsyncs(d, group.unit, (0, edge)) == 30, 20, what='windows of the file')
    equal(len(warnings(d, str(d.state))), 1, 'warnings')
    time.sleep(3 * TICK_SEC)
    d.kill9()
    d.start()
    wait_for(lambda: fsyncs(d, group.unit) == 37, what='everything after another restart')


def test_exit_does_not_wait_for_a_frozen_disk(t):
    frozen = t.enter(ext4(64 << 20))
    d, disk, group = started(t, state=frozen.path('state'))
    workload('fsync', disk.path('f'), group, count=30, write=4096)
    wait_for(lambda: (d.state / 'history').exists(), what='state file')
    run('fsfreeze', '-f', frozen.mount_point)
    t.defer(lambda: run('fsfreeze', '-u', frozen.mount_point, check=False))
    workload('fsync', disk.path('f'), group, count=30, write=4096)
    began = time.monotonic()
    d.stop()
    check(time.monotonic() - began < 2, f'the exit took {time.monotonic() - began:.1f} s')


def stalls(d):
    reply = run('dbus-send', f'--peer=unix:path={d.socket}', '--print-reply', '/org/iolat1',
                'org.iolat1.Manager.ListStalls', 'uint64:0', 'uint32:0').stdout
    found = [dict((k, s or v) for k, _, s, v in ENTRY.findall(text)) for text in reply.split('\n      array [\n')[1:]]
    return [tuple(s[k] for k in ('id', 'startRealtimeUSec', 'unit', 'op', 'totalNSec', 'phase')) for s in found]


def test_stalls_survive(t):
    disk = t.enter(slow_ext4())
    d, group = make(t).start(), t.enter(cgroup('a.service'))
    disk.delay(fsync=200)
    workload('fsync', disk.path('f'), group, count=2, write=4096, pattern='append')
    before = wait_for(lambda: len(stalls(d)) == 2 and stalls(d), what='two stalls')
    time.sleep(3 * TICK_SEC)
    d.kill9()
    d.start()
    wait_for(lambda: stalls(d) == before, what=f'the same stalls after a restart ({before})')
    workload('fsync', disk.path('f'), group, count=1, write=4096, pattern='append')
    after = wait_for(lambda: len(stalls(d)) == 3 and stalls(d), what='one more')
    equal(after[:2], before, 'stalls of before')
    check(int(after[2][0]) > int(before[1][0]), f'numbers do not grow: {after}')


def test_cap(t):
    d = make(t, '[Daemon]\nHistoryMaxBytes=64K\n').start()
    disk = t.enter(ext4())
    groups = [t.enter(cgroup(f'{n}.service')) for n in range(30)]
    for n in range(12):
        for g in groups:
            workload('fsync', disk.path('f'), g, count=5, write=4096)
    time.sleep(3 * TICK_SEC)
    rows, first, last = list_range(d, '*')
    check(rows and last > first, 'no history is left')
    size = (d.state / 'history').stat().st_size
    check(size <= 256 << 10, f'the state file has {size} bytes')
    check(len(warnings(d, 'HistoryMaxBytes=')) <= 1, 'more than one warning')
    d.kill9()
    d.start()
    time.sleep(2 * TICK_SEC)
    check(list_range(d, '*')[0], 'no history is left after a restart')


# The state file as the daemon writes it, to have a day without having to wait for it.

def varint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7f | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def varints(*numbers):
    return b''.join(varint(n) for n in numbers)


def record(kind, *parts):
    contents = varint(kind) + b''.join(parts)
    return struct.pack('<II', len(contents), zlib.crc32(contents)) + contents


def text(s):
    return varint(len(s)) + s.encode()


NAME, SERIES, WINDOW, TICK = 1, 2, 3, 8
FSYNC = 0


def histogram(count, buckets):
    return varints(count, count * 1000000, 8000000, len(buckets)) + b''.join(varints(3, n) for n in buckets)


def day(units):
    """24 hours of 60 seconds in which every unit has synced 50 times."""
    head = b'iolathst' + struct.pack('<I', 1)
    out = [head, struct.pack('<I', zlib.crc32(head))]
    for n in range(1, units + 1):
        out.append(record(NAME, varint(n), text(f'made-up-{n}.service')))
    for n in range(1, units + 1):
        out.append(record(SERIES, varints(n, n, 0, 0, FSYNC, 0, 8 << 20)))
    now = now_usec()
    numbers = varints(0, 0) + histogram(50, [5] * 10) + varint(0b1011) + histogram(50, [10] * 5) * 3
    entries = b''.join(varints(n << 1, len(numbers)) + numbers for n in range(1, units + 1))
    for minute in range(24 * 60 - 1, 0, -1):
        end = now - minute * 60 * 1000000
        out.append(record(WINDOW, varints(end - 60 * 1000000, end, 1), entries))
    out.append(record(TICK, varint(now)))
    return b''.join(out), now


def test_full_history(t):
    """As much as HistoryMaxBytes= allows by default."""
    d = make(t)
    units = 60
    data, now = day(units)
    check(len(data) > 6 << 20, f'only {len(data)} bytes')
    d.state.mkdir()
    (d.state / 'history').write_bytes(data)
    d.start()
    disk, group = t.enter(ext4()), t.enter(cgroup('a.service'))
    rows = wait_for(lambda: list_range(d, 'made-up-*')[0], what='history')
    since = list_range(d, 'made-up-*')[1]
    hours = (now - since) / 3600e6
    check(hours > 12, f'only {hours} hours have fit')
    equal(len(rows), 4 * units, 'rows')
    equal({r['count'] for r in rows} <= {50 * n for n in range(24 * 60)}, True, f'counts: {rows[0]}')
    hour = list_range(d, 'made-up-7.service', (now - 3600 * 1000000, now))[0]
    check(59 * 50 <= hour[0]['count'] <= 60 * 50, f'count of an hour: {hour[0]["count"]}')
    began = time.monotonic()
    list_range(d, 'made-up-*')
    check(time.monotonic() - began < 1, f'a range took {time.monotonic() - began:.1f} s')

    workload('fsync', disk.path('f'), group, count=30, write=4096)
    expect_all(d, group.unit, 'history')
    time.sleep(3 * TICK_SEC)
    equal(warnings(d, 'history'), [], 'warnings')
    if 'IOLAT_TEST_SANITIZED' not in os.environ:  # whose own memory is many times that
        check(d.resident_bytes() <= RSS_MAX, f'{d.resident_bytes() >> 10} KiB resident')
    size = sum(f.stat().st_size for f in d.state.iterdir())
    check(size <= 32 << 20, f'{size} bytes on disk')


if __name__ == '__main__':
    harness.main()
