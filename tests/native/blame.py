# SPDX-License-Identifier: LGPL-2.1-or-later
"""Who made whom wait, as the bus tells it."""

import re

from harness import check, run

ENTRY = re.compile(r'string "(\w+)"\s+variant\s+(string|uint64|boolean)\s+(?:"([^"]*)"|(\S+))')
FOREVER = 2**64 - 1


def blame_rows(daemon, unit='', since=0, until=FOREVER):
    """Rows of GetBlame as dictionaries, the largest first."""
    reply = run('dbus-send', f'--peer=unix:path={daemon.socket}', '--print-reply', '--type=method_call', '/org/iolat1',
                'org.iolat1.Manager.GetBlame', f'string:{unit}', f'uint64:{since}', f'uint64:{until}').stdout
    parse = {'string': lambda quoted, plain: quoted, 'uint64': lambda quoted, plain: int(plain),
             'boolean': lambda quoted, plain: plain == 'true'}
    rows = []
    for text in reply.split('array [')[2:]:
        row = {key: parse[kind](quoted, plain) for key, kind, quoted, plain in ENTRY.findall(text)}
        rows.append({'step': None, 'device': None, 'mountPoint': None} | row)
    return rows


def blamed(rows, **wanted):
    """Culprit -> nanoseconds, of the rows where the keys have the wanted values."""
    result = {}
    for r in rows:
        if all(r[k] == v for k, v in wanted.items()):
            result[r['culprit']] = result.get(r['culprit'], 0) + r['sumNSec']
    return result


def share(rows, culprit, **wanted):
    """The culprit's part of what those rows blame on anybody."""
    by_culprit = blamed(rows, **wanted)
    check(by_culprit, f'nobody was blamed: {rows}')
    return by_culprit.get(culprit, 0) / sum(by_culprit.values())
