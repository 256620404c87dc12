# SPDX-License-Identifier: LGPL-2.1-or-later
"""Metrics: what iolatctl prints, what the exporter serves, and what a real Prometheus makes of it."""

import concurrent.futures
import contextlib
import math
import re
import shutil
import signal
import socket
import sys
import time

import harness
from exporter import EXPORTER, Prometheus, exporter, free_port, need_exporter
from harness import BUILD, cases, check, equal, run, skip, start, stop, wait_for
from product import daemon, settled
from rig import cgroup, ext4, workload

OPEN = 'application/openmetrics-text; version=1.0.0; charset=utf-8'
TEXT = 'text/plain; version=0.0.4; charset=utf-8'
PROMETHEUS_ACCEPT = ('application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,'
                     'text/plain;version=0.0.4;q=0.5,*/*;q=0.1')
EDGES = [2 ** k for k in range(10, 37)]
SAMPLE = re.compile(r'(\w+)(?:\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
UNESCAPED = {'\\\\': '\\', '\\"': '"', '\\n': '\n'}
REQUEST_SEC, CONNECTIONS = 5, 32


class Rig:
    def __init__(self, t):
        self.daemon = t.enter(daemon(t))
        self.disk = t.enter(ext4())
        self.group = t.enter(cgroup('odd\\x2dname.service'))
        self.unit = self.group.unit
        workload('fsync', self.disk.path('f'), self.group, count=200, write=4096, pattern='append')
        workload('dwrite', self.disk.path('d'), self.group, count=100, prepare='1M')
        self.daemon.expect_counts(self.unit, {'fsync': 200, 'dwrite': 100})


def setup(t):
    return Rig(t)


def parse(text):
    """[(name, labels, value as text)] of every sample."""
    samples = []
    for line in text.splitlines():
        if line.startswith('#'):
            continue
        m = SAMPLE.fullmatch(line)
        check(m, f'not a sample: {line}')
        labels = {k: re.sub(r'\\.', lambda e: UNESCAPED[e[0]], v) for k, v in LABEL.findall(m[2] or '')}
        samples.append((m[1], labels, m[3]))
    return samples


def values(samples, name, **labels):
    return [float(v) for n, l, v in samples if n == name and all(l.get(k) == w for k, w in labels.items())]


def test_promtool(t):
    if not shutil.which('promtool'):
        skip('no promtool')
    text = t.rig.daemon.text('metrics')
    r = run('promtool', 'check', 'metrics', input=text)
    equal((r.stdout, r.stderr), ('', ''), 'complaints of promtool')
    check(t.rig.unit.replace('\\', '\\\\') in text, 'the unit is not there')


@cases('text', 'OpenMetrics')
def test_strict_parser(t, what):
    sys.path.append('/usr/lib/python3/dist-packages')  # if this is not Debian's Python
    try:
        from prometheus_client import parser
        from prometheus_client.openmetrics import parser as open_parser
    except ImportError:
        skip('no python3-prometheus-client')
    if what == 'text':
        families = list(parser.text_string_to_metric_families(t.rig.daemon.text('metrics')))
    else:
        e = t.enter(exporter(t, t.rig.daemon.socket))
        families = list(open_parser.text_string_to_metric_families(e.metrics(Accept=OPEN)))
    types = {f.name: f.type for f in families}
    equal(types['iolat_operation_seconds'], 'histogram', 'type')
    units = {s.labels['unit'] for f in families if f.name == 'iolat_operation_seconds' for s in f.samples}
    check(t.rig.unit in units, f'{t.rig.unit} is not among {units}')


def check_histogram(samples, name, labels):
    buckets = [(l['le'], int(v)) for n, l, v in samples
               if n == f'{name}_bucket' and {k: w for k, w in l.items() if k != 'le'} == labels]
    equal([round(float(le) * 1e9) for le, _ in buckets[:-1]], EDGES, f'edges of {labels}')
    equal([float(le) for le, _ in buckets[:-1]], [e / 1e9 for e in EDGES], 'edges as numbers')
    equal(buckets[-1][0], '+Inf', 'last edge')
    counts = [n for _, n in buckets]
    equal(counts, sorted(counts), 'cumulative counts')
    equal([counts[-1]], values(samples, f'{name}_count', **labels), 'count')
    return buckets


def test_same_as_list(t):
    """Sums and counts are those of List(), to the nanosecond, and the buckets those of GetHistogram()."""
    d, unit = t.rig.daemon, t.rig.unit
    rows = settled(lambda: d.rows(unit, unit=unit))
    samples = parse(d.text('metrics'))
    check([r for r in rows if r['op'] == 'fsync'], 'no rows')
    for key in {(r['op'], r['phase'], r['device']) for r in rows}:
        of_key = [r for r in rows if (r['op'], r['phase'], r['device']) == key]
        request = key[0].startswith('rq-')
        name = 'iolat_request_seconds' if request else 'iolat_operation_seconds'
        labels = dict(zip(('unit', 'kind', 'part', 'device') if request else ('unit', 'op', 'phase', 'device'),
                          (unit, *key)))
        buckets = check_histogram(samples, name, labels)
        equal(buckets[-1][1], sum(r['count'] for r in of_key), f'count of {labels}')
        total = [v for n, l, v in samples if n == f'{name}_sum' and l == labels]
        equal([round(float(v) * 1e9) for v in total], [sum(r['sumNSec'] for r in of_key)], f'sum of {labels}')
        if request and key[1] == 'device' and key[0] != 'rq-flush':
            equal(values(samples, 'iolat_request_bytes_total', unit=unit, kind=key[0], device=key[2]),
                  [sum(r['bytes'] for r in of_key)], f'bytes of {labels}')
        if key[1] == 'total':
            equal(values(samples, 'iolat_operation_errors_total', unit=unit, op=key[0], device=key[2]),
                  [sum(r['errors'] for r in of_key)], f'errors of {labels}')


def test_other_families(t):
    samples = parse(t.rig.daemon.text('metrics'))
    lost = {l['reason']: float(v) for n, l, v in samples if n == 'iolat_lost_total'}
    equal(lost, {r['probe']: r['hits'] for r in t.rig.daemon.probes('loss')}, 'iolat_lost_total')
    info = [l for n, l, v in samples if n == 'iolat_build_info']
    equal([set(i) for i in info], [{'version', 'tier'}], 'labels of iolat_build_info')
    check(re.fullmatch(r'\d+\.\d+\.\d+', info[0]['version']), f'version: {info}')
    equal(values(samples, 'iolat_folded_units'), [0], 'iolat_folded_units')
    keys = [(n, *sorted(l.items())) for n, l, _ in samples]
    equal(len(keys), len(set(keys)), 'distinct series')


def test_no_json(t):
    r = t.rig.daemon.call('metrics', '--json=short', check=False)
    check(r.returncode == 1 and r.stdout == '' and r.stderr, f'{r}')


def unit_weights(d, units):
    """How much each waited; other units of the host may be larger."""
    weights = dict.fromkeys(units, 0)
    for r in d.json('list'):
        if r['unit'] in units and r['phase'] in ('total', 'device'):
            weights[r['unit']] += r['sumNSec']
    return weights


def test_folding(t):
    """Many units, few series: the sum over all of them stays what it was, and the smallest ones are folded."""
    d, disk = t.enter(daemon(t, config='[Metrics]\nMaxSeries=3000\n')), t.enter(ext4())
    groups = [t.enter(cgroup(f'{n}.service')) for n in range(20)]
    for n, group in enumerate(groups):
        workload('fsync', disk.path(f'f{n}'), group, count=300 if n == 7 else 5, write=4096)
        d.expect_counts(group.unit, {'fsync': 300 if n == 7 else 5})
    weights = settled(lambda: unit_weights(d, {g.unit for g in groups}))
    samples = parse(d.text('metrics'))
    check(1500 < len(samples) <= 3000, f'{len(samples)} series')
    folded = values(samples, 'iolat_folded_units')[0]
    check(folded >= 5, f'{folded} units were folded')
    shown = {l['unit'] for _, l, _ in samples if 'unit' in l}
    of_shown = [w for u, w in weights.items() if u in shown]
    of_folded = [w for u, w in weights.items() if u not in shown]
    check(of_folded and min(of_shown, default=math.inf) >= max(of_folded), f'shown {of_shown}, folded {of_folded}')
    counts = values(samples, 'iolat_operation_seconds_count', op='fsync', phase='total', device=disk.device)
    equal(sum(counts), 300 + 19 * 5, 'fsyncs of all')
    check_histogram(samples, 'iolat_operation_seconds',
                    {'unit': '(others)', 'op': 'fsync', 'phase': 'total', 'device': disk.device})


@cases(f'{TEXT} for */*', f'{TEXT} for text/plain', f'{OPEN} for {PROMETHEUS_ACCEPT}', f'{OPEN} for {OPEN}',
       f'{TEXT} for {OPEN};q=0.1, text/plain', f'{TEXT} for ,;,q=;;==,/')
def test_negotiation(t, what):
    expected, accept = what.split(' for ', 1)
    e = t.enter(exporter(t, t.rig.daemon.socket))
    status, headers, body = e.request(headers={'Accept': accept})
    equal((status, headers['content-type']), (200, expected), 'status and type')
    equal(body.endswith('# EOF\n'), expected == OPEN, 'ends with # EOF')
    equal('# TYPE iolat_lost counter\n' in body, expected == OPEN, 'names of counters without _total')
    check(parse(body), 'no samples')


def test_pages(t):
    e = t.enter(exporter(t, t.rig.daemon.socket))
    status, headers, body = e.request(path='/')
    check(status == 200 and headers['content-type'].startswith('text/html') and 'href="metrics"' in body, f'/: {body}')
    equal(e.request(path='/nonsense')[0], 404, 'status of /nonsense')
    equal(e.request(path='/metrics?x=1')[0], 200, 'status of /metrics?x=1')
    for method in ('POST', 'PUT', 'DELETE', 'NONSENSE'):
        status, headers, _ = e.request(method)
        equal((status, headers.get('allow')), (405, 'GET, HEAD'), f'status of {method}')
    status, headers, body = e.request('HEAD')
    check(status == 200 and body == '' and int(headers['content-length']) > 1000, f'HEAD: {status} {headers} {body}')
    equal(stop(e.process), 0, 'exit code after SIGTERM')


GARBAGE = {
    'binary': b'\0\xff\xfe\x80' * 1000 + b'\r\n\r\n', 'no HTTP': b'hello\r\n\r\n', 'empty lines': b'\r\n' * 5000,
    'endless line': b'GET /' + b'a' * 200000, 'endless headers': b'GET / HTTP/1.1\r\n' + b'A: b\r\n' * 20000,
    'a lot of body': b'POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n' + b'x' * 100000,
    'bad length': b'GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n', 'nothing': b'',
    'TLS': bytes.fromhex('16030100c8010000c40303') + b'\x55' * 200,
}


@cases(*GARBAGE)
def test_garbage(t, what):
    e = t.enter(exporter(t, t.rig.daemon.socket))
    with e.connect() as s:
        with contextlib.suppress(OSError):  # closed while we send
            s.sendall(GARBAGE[what])
            s.shutdown(socket.SHUT_WR)
        reply = b''
        with contextlib.suppress(OSError):
            while data := s.recv(65536):
                reply += data
    check(not reply or re.match(rb'HTTP/1\.[01] [45]\d\d ', reply), f'{what}: {reply[:200]}')
    equal(e.request()[0], 200, 'status of the next request')


def trickle(e):
    """Sends a request so slowly that it never ends. Returns after how long it was cut off."""
    began = time.monotonic()
    with contextlib.suppress(OSError), e.connect() as s:
        s.sendall(b'GET /metrics HTTP/1.1\r\n')
        s.settimeout(0.5)
        while time.monotonic() - began < 60:
            s.sendall(b'X')
            with contextlib.suppress(TimeoutError):
                if not s.recv(1):
                    break
    return time.monotonic() - began


def test_slow_clients(t):
    """More of them than can be connected at once. They are cut off, and an honest client gets through."""
    e = t.enter(exporter(t, t.rig.daemon.socket))
    with concurrent.futures.ThreadPoolExecutor(CONNECTIONS + 8) as pool:
        slow = [pool.submit(trickle, e) for _ in range(CONNECTIONS + 8)]
        time.sleep(0.5)
        began = time.monotonic()
        equal(e.request()[0], 200, 'status of an honest request')
        waited = time.monotonic() - began
        times = [f.result() for f in slow]
    check(waited < 2 * REQUEST_SEC + 3, f'the honest client waited for {waited:.1f} s')
    check(max(times) < 3 * REQUEST_SEC, f'the slowest was cut off after {max(times):.1f} s')
    check(min(times) > REQUEST_SEC - 1, f'one was cut off after {min(times):.1f} s')


def test_many_clients(t):
    e = t.enter(exporter(t, t.rig.daemon.socket))
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        equal({s for s, _, _ in pool.map(lambda _: e.request(timeout=60), range(300))}, {200}, 'states')


def test_daemon_that_goes_away(t):
    d = t.enter(daemon(t))
    e = t.enter(exporter(t, d.socket))
    equal(e.request()[0], 200, 'status')
    d.stop()
    time.sleep(1.1)  # what was read just now is served again
    status, _, body = e.request()
    check(status == 503 and 'iolatd' in body, f'without a daemon: {status} {body}')
    check('Cannot reach iolatd' in e.report(), 'the log does not say why')
    d.start()
    equal(e.request()[0], 200, 'status with a new daemon')


def test_idle_exit(t):
    e = t.enter(exporter(t, t.rig.daemon.socket, '--exit-idle-time=1s'))
    equal(e.request()[0], 200, 'status')
    equal(e.process.wait(20), 0, 'exit code')
    with concurrent.futures.ThreadPoolExecutor(1) as pool:  # who comes in between waits, as for systemd
        waiting = pool.submit(e.request)
        time.sleep(0.2)
        e.start()
        equal(waiting.result()[0], 200, 'status of who had to wait')


def test_no_socket(t):
    need_exporter()
    r = run(EXPORTER, check=False)
    check(r.returncode == 1 and 'iolat-exporter.socket' in r.stderr, f'{r}')
    equal(run(EXPORTER, '--nonsense', check=False).returncode, 1, 'exit code')
    check('--exit-idle-time=' in run(EXPORTER, '--help').stdout, '--help')


def test_hardening(t):
    need_exporter()
    if not shutil.which('systemd-analyze'):
        skip('no systemd-analyze')
    r = run('systemd-analyze', 'security', '--offline=true', '--no-pager', '--threshold=10',
            BUILD / 'units/iolat-exporter.service', check=False)
    exposure = re.search(r'exposure level for \S+: (\d+\.\d+)', r.stdout)
    check(exposure and float(exposure[1]) <= 1.0 and r.returncode == 0, f'{r.stdout} {r.stderr}')


def test_socket_activation(t):
    need_exporter()
    if not shutil.which('systemd-socket-activate'):
        skip('no systemd-socket-activate')
    port = free_port()
    log = open(t.directory() / 'log', 'ab')
    t.defer(log.close)
    process = start('systemd-socket-activate', f'--listen=127.0.0.1:{port}', EXPORTER,
                    f'--socket={t.rig.daemon.socket}', stdout=log, stderr=log)
    t.defer(stop, process)

    def status():
        with contextlib.suppress(OSError):
            with socket.create_connection(('127.0.0.1', port), timeout=20) as s:
                s.sendall(b'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n')
                return s.recv(64)
    check(wait_for(status, 20, 'socket').startswith(b'HTTP/1.1 200 '), 'status')
    equal(stop(process, signal.SIGTERM), 0, 'exit code')


def test_prometheus(t):
    """Two scrapes, and between them fsyncs: Prometheus' quantile lies in the bucket of the one that List() has."""
    d, disk = t.rig.daemon, t.rig.disk
    group = t.enter(cgroup('db.service'))
    workload('fsync', disk.path('p'), group, count=200, write=4096, pattern='append')
    e = t.enter(exporter(t, d.socket))
    p = Prometheus(t, f'127.0.0.1:{e.port}')
    labels = f'{{unit="{group.unit}",op="fsync",phase="total"}}'
    wait_for(lambda: p.query(f'iolat_operation_seconds_count{labels}') == 200, 30, 'first scrape')

    workload('fsync', disk.path('p'), group, count=300, write=4096, pattern='append')
    wait_for(lambda: p.query(f'iolat_operation_seconds_count{labels}') == 500, 30, 'second scrape')
    row = d.rows(group.unit, op='fsync', phase='total')[0]
    for q, key in ((0.5, 'p50NSec'), (0.9, 'p90NSec'), (0.99, 'p99NSec')):
        got = p.query(f'histogram_quantile({q}, iolat_operation_seconds_bucket{labels})') * 1e9
        upper = 2 ** math.ceil(math.log2(row[key]))
        check(upper / 2 <= got * 1.000001 and got <= upper * 1.000001,
              f'{key} is {row[key]}, Prometheus says {got}, which is not in ({upper / 2}, {upper}]')
    recent = wait_for(lambda: p.query(f'histogram_quantile(0.5, rate(iolat_operation_seconds_bucket{labels}[1m]))'),
                      10, 'rate')
    check(0 < recent * 1e9 <= 2 * row['maxNSec'], f'quantile of the rate: {recent}')
    equal(p.query(f'sum(iolat_operation_seconds_sum{labels})'), row['sumNSec'] / 1e9, 'sum')
    equal(p.query('up'), 1, 'up')
    odd = t.rig.unit.replace('\\', '\\\\')
    equal(p.query(f'iolat_operation_seconds_count{{unit="{odd}",op="fsync",phase="total"}}'), 200,
          'fsyncs of a unit with a backslash')


if __name__ == '__main__':
    harness.main()
