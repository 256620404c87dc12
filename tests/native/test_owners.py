# SPDX-License-Identifier: LGPL-2.1-or-later
"""Who owns what others write: with DirtyTracking=, and the handles of a journal's transactions."""

import json

import harness
from harness import check, equal, run
from product import daemon, settled
from rig import cgroup, ext4, workload

CONFIG = '[Daemon]\nDirtyTracking=yes\n'
WRITES, BLOCK = 512, 16384


def writeback_rows(d, unit, disk):
    return [r for r in d.rows(op='rq-write', phase='device') if r['unit'] == unit and r['device'] == disk.device]


def test_writeback_is_charged_to_who_dirtied_last(t):
    d, disk = t.enter(daemon(t, config=CONFIG)), t.enter(ext4())
    a, b = t.enter(cgroup('a.service')), t.enter(cgroup('b.service'))
    disk.sync()
    workload('write', disk.path('a'), a, count=WRITES, block=str(BLOCK), pattern='append')
    workload('write', disk.path('b'), b, count=2 * WRITES, block=str(BLOCK), pattern='append')
    disk.sync()  # by the test's own process: the flusher submits

    for group, factor in ((a, 1), (b, 2)):
        rows = settled(lambda g=group: writeback_rows(d, g.unit, disk))
        total = sum(r['bytes'] for r in rows)
        owned = sum((r['ownedBy'] or {}).get('dirtier', 0) for r in rows)
        wanted = factor * WRITES * BLOCK
        check(wanted * 0.99 <= owned <= wanted, f'{owned} bytes by dirtier of {wanted} written: {rows}')
        equal(total, owned, f'bytes of {group.unit}')
        equal({r['origin'] for r in rows}, {'writeback'}, 'origins')


def test_overwriting_changes_the_owner(t):
    d, disk = t.enter(daemon(t, config=CONFIG)), t.enter(ext4())
    a, b = t.enter(cgroup('a.service')), t.enter(cgroup('b.service'))
    workload('write', disk.path('f'), a, count=WRITES, block=str(BLOCK), pattern='append')
    disk.sync()
    before = sum(r['bytes'] for r in settled(lambda: writeback_rows(d, a.unit, disk)))
    workload('dwrite', disk.path('other'), b, count=1)
    workload('write', disk.path('f'), b, count=WRITES, block=str(BLOCK), prepare=str(WRITES * BLOCK))
    disk.sync()
    rows = settled(lambda: [r for r in writeback_rows(d, b.unit, disk) if r['origin'] == 'writeback'])
    check(sum(r['bytes'] for r in rows) >= 0.99 * WRITES * BLOCK, f'bytes of who overwrote: {rows}')
    equal(sum(r['bytes'] for r in writeback_rows(d, a.unit, disk)), before, 'bytes of the first writer')


def handles(d, disk):
    """Handles, requested and dirtied blocks by owner, over the transactions of the file system."""
    generation = max(int(p.name) for p in (d.bpffs / 'iolat').iterdir() if p.name.isdigit())
    dump = json.loads(run('bpftool', '-j', 'map', 'dump', 'pinned',
                          d.bpffs / 'iolat' / str(generation) / 'maps' / 'handles').stdout)
    major, minor = map(int, disk.device.split(':'))
    result = {}
    for entry in dump:
        slot = entry.get('formatted', entry)['value']
        if slot['key']['dev'] != major << 20 | minor:
            continue
        sums = result.setdefault(slot['key']['owner'], [0, 0, 0])
        for i, field in enumerate(('handles', 'requested_blocks', 'dirtied_blocks')):
            sums[i] += slot['value'][field]
    return result


def test_handles_are_credited_to_their_owners(t):
    d, disk = t.enter(daemon(t)), t.enter(ext4())
    a, b = t.enter(cgroup('a.service')), t.enter(cgroup('b.service'))
    for group, n in ((a, 100), (b, 300)):
        run('sh', '-c', 'echo $$ > "$0/cgroup.procs" && mkdir "$1" && cd "$1" && for i in $(seq "$2"); do : > $i; done',
            group.path, disk.path(group.unit), n)
    disk.sync()
    owners = handles(d, disk)
    of_a, of_b = owners[a.path.stat().st_ino], owners[b.path.stat().st_ino]
    check(of_a[0] >= 100 and of_b[0] >= 300, f'handles of a and b: {of_a}, {of_b}')
    check(2.5 <= of_b[0] / of_a[0] <= 3.5, f'three times as many files: {of_a}, {of_b}')
    check(of_a[2] > 0 and of_b[2] > of_a[2], f'dirtied blocks: {of_a}, {of_b}')


if __name__ == '__main__':
    harness.main()
