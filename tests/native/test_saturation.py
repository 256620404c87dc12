# SPDX-License-Identifier: LGPL-2.1-or-later
"""How many requests a disk has at a time, and how old dirty data is when it is written back."""

import time

import harness
from bus import Bus, BusError
from harness import check, equal, wait_for
from product import daemon, settled
from rig import ext4, release, slow_ext4, start_workload, workload

HURRY = {'IOLAT_TEST_HURRY': '1'}  # windows of the history are a second long
WINDOW_SEC = 10
DEPTH = 6
WRITE_MSEC = 4


class Rig:
    def __init__(self, t):
        self.daemon = t.enter(daemon(t, env=HURRY))
        self.bus = Bus(self.daemon.socket)
        t.defer(self.bus.close)

    def rows(self, disk, *wanted):
        rows, _ = self.bus.call('List', 'asasastu', [], *wanted, 0, 0)
        return [r for r in rows if r['device'] == disk.device]

    def rows_between(self, disk, since, until, *wanted):
        rows, _, first, last = self.bus.call('ListRange', 'asasastttu', [], *wanted, int(since * 1e6),
                                             int(until * 1e6), 0, 0)
        return [r for r in rows if r['device'] == disk.device], first / 1e6, last / 1e6


def setup(t):
    return Rig(t)


def in_flight(rows):
    return sum(r['inFlight'] for r in rows)


def near(got, wanted, what):
    print(f'# {what}: {got:.3f}, should be {wanted:.3f}', flush=True)
    check(wanted * 0.8 <= got <= wanted * 1.2, f'{what}: {got}, should be {wanted}')


def test_in_flight(t):
    """A workload that keeps so many direct writes in flight, each of which takes its time. It has a thread for each: of
    those that are submitted together the kernel makes one request."""
    rig, disk = t.rig, t.enter(slow_ext4())
    process = start_workload('dwrite', disk.path('f'), threads=DEPTH, count=10**8, prepare='4M',
                             barrier=True)
    t.defer(process.wait)
    t.defer(process.kill)
    disk.delay(write=WRITE_MSEC)
    release(process)
    time.sleep(1)
    before, began, since = disk.stat(), time.monotonic(), time.time()
    time.sleep(WINDOW_SEC + 1.5)  # ticks of the daemon are a second apart
    rows = rig.rows(disk, ['rq-write'], ['device'])
    after, ended, until = disk.stat(), time.monotonic(), time.time()
    kernel = (after['queueMSec'] - before['queueMSec']) / 1e3 / (ended - began)
    near(kernel, DEPTH, 'in flight by the kernel')
    near(in_flight(rows), DEPTH, 'in flight')
    near(in_flight(rows), kernel, 'in flight, beside the kernel')
    check(all('inFlight' not in r for r in rig.rows(disk, [], ['queue', 'total'])), 'other rows have it, too')
    by_device = [r for r in rig.daemon.json('list', '--by=device') if r['device'] == disk.device]
    near(sum(r['inFlight'] for r in by_device if r['inFlight'] is not None), DEPTH, 'in flight in the table')

    def covered():
        result = rig.rows_between(disk, since, until, ['rq-write'], ['device'])
        return result if result[2] >= until else None
    ranged, first, last = wait_for(covered, 5, 'history up to now')
    check(first <= since and last - first < WINDOW_SEC + 5, f'{first} to {last} are covered of {since} to {until}')
    near(in_flight(ranged), DEPTH, 'in flight in a span of time')

    # And then there are none. Those that were are forgotten one second after the other.
    process.kill()
    process.wait()
    disk.delay()
    time.sleep(WINDOW_SEC / 2)
    half = in_flight(rig.rows(disk, ['rq-write'], ['device']))
    check(0.2 * DEPTH < half < 0.8 * DEPTH, f'{half} in the middle of the window')
    wait_for(lambda: in_flight(rig.rows(disk, ['rq-write'], ['device'])) == 0, WINDOW_SEC, 'none in flight')
    check(rig.rows(disk, ['rq-write'], ['device']), 'no rows any more')


def ages(rig, disk):
    return rig.rows(disk, ['writeback'], ['dirty-age'])


def numbers_of(rows):
    return {(r['unit'], r.get('userUnit')): (r['count'], r['sumNSec'], r['maxNSec']) for r in rows}


def write_and_wait(disk, name, seconds):
    """A file that is dirty for so long, and then is written back. Returns bounds of its age in nanoseconds."""
    begins = time.monotonic_ns()
    with open(disk.path(name), 'wb') as f:
        f.write(b'x' * 65536)
    dirty = time.monotonic_ns()
    time.sleep(seconds)
    wakes = time.monotonic_ns()
    disk.sync()  # waits for the flusher, which does it
    return wakes - dirty, time.monotonic_ns() - begins


def test_dirty_age(t):
    rig, disk = t.rig, t.enter(ext4())
    d = rig.daemon
    disk.sync()
    before = numbers_of(settled(lambda: ages(rig, disk)))
    slack = 20 * 10**6  # two jiffies of the coarsest clock
    for seconds in (1.5, 3):
        least, most = write_and_wait(disk, f'f{seconds}', seconds)
        rows = settled(lambda: ages(rig, disk))
        grown = {k: v for k, v in numbers_of(rows).items() if before.get(k) != v}
        equal(len(grown), 1, f'owners whose dirty data was written: {rows}')
        (key, (count, total, longest)), = grown.items()
        old_count, old_sum, _ = before.get(key, (0, 0, 0))
        print(f'# {seconds} s: {count - old_count} times, {(total - old_sum) / 1e9:.3f} s, max {longest / 1e9:.3f} s, '
              f'between {least / 1e9:.3f} and {most / 1e9:.3f}; {key}', flush=True)
        check(count > old_count, 'count')
        check(least - slack <= longest <= most + slack, f'{longest} is not between {least} and {most}')
        check(least - slack <= total - old_sum, f'sum grew by {total - old_sum}, should by {least} at least')
        before = numbers_of(rows)
    workload('fsync', disk.path('synced'), count=5, write=65536, pattern='append')  # writes its data itself
    disk.sync()
    time.sleep(0.3)
    equal(numbers_of(ages(rig, disk)), before, 'dirty ages after fsyncs')
    row, = [r for r in rows if (r['unit'], r.get('userUnit')) == key]
    equal((row['op'], row['phase'], row['fsType'], row['mountPoint']),
          ('writeback', 'dirty-age', 'ext4', str(disk.mount_point)), 'keys')
    equal(row['source'], ['tp_btf:writeback_single_inode_start'], 'source')
    check(row['p50NSec'] <= row['p90NSec'] <= row['p99NSec'] <= row['maxNSec'], f'percentiles: {row}')
    check('bytes' not in row and 'inFlight' not in row, f'keys of requests: {row}')

    buckets, = rig.bus.call('GetHistogram', 'ssss', key[0], 'writeback', 'dirty-age', disk.device)
    equal(sum(n for _, n in buckets), row['count'], 'numbers in the histogram')
    check(any(edge >= least for edge, _ in buckets), f'{buckets}')
    for op, phase in (('writeback', 'total'), ('writeback', 'data'), ('fsync', 'dirty-age'), ('rq-read', 'dirty-age')):
        try:
            buckets = rig.bus.call('GetHistogram', 'ssss', key[0], op, phase, '')
        except BusError as e:
            equal(e.name, 'org.iolat1.Error.BadRange', f'error of {op}, {phase}')
        else:
            raise AssertionError(f'{op}, {phase}: {buckets}')


def test_nobody_waits_for_it(t):
    """It is shown by those who were asked for it, and is no operation of those who were not."""
    rig, disk = t.rig, t.enter(ext4())
    d = rig.daemon
    write_and_wait(disk, 'f', 1)
    row = wait_for(lambda: ages(rig, disk), 5, 'a row')[0]
    mine = [r for r in d.json('list') if r['device'] == disk.device]
    check([r for r in mine if r['op'] == 'writeback' and r['phase'] == 'dirty-age'], f'not in list as JSON: {mine}')
    for args, shown in ((['list'], False), (['list', '--op=writeback'], True), (['list', '--phase=dirty-age'], True),
                        (['list', '--all'], True), (['status'], False), (['status', row['unit']], False),
                        (['top', '-n', '1'], False), (['metrics'], False)):
        lines = [line for line in d.text(*args).splitlines() if disk.device in line or str(disk.mount_point) in line]
        check(any('writeback' in line and 'rq-' not in line for line in lines) == shown,
              f'{args} shows {lines}, should {"" if shown else "not "}show dirty data')
    equal([r for r in d.json('status')['largest'] if r['op'] == 'writeback'], [], 'largest waits')
    status = d.json('status', row['unit'])
    equal([r for r in status['total'] if r['op'] == 'writeback'], [], 'rows of status')
    by_device = [r for r in d.json('list', '--by=device') if r['device'] == disk.device and r['unit'] == row['unit']]
    equal([(r['dirtyAgeMaxNSec'], r['dirtyAgeP99NSec']) for r in by_device], [(row['maxNSec'], row['p99NSec'])],
          'in the table by device')
    text = d.text('histogram', row['unit'], '--op=writeback')
    check('dirty-age' in text, f'histogram: {text}')


if __name__ == '__main__':
    harness.main()
