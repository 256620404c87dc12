# SPDX-License-Identifier: LGPL-2.1-or-later
"""Changes the metadata of a file system at a steady rate: makes files or directories. Says "ready", waits for a line,
works until the next one comes, and says how many it made."""

import os
import select
import sys
import time

BURST_MAX = 100  # what it is late by is made up for in parts, so that it can be told to stop

kind, directory, rate = sys.argv[1], sys.argv[2], float(sys.argv[3])
make = {'file': lambda path: os.close(os.open(path, os.O_CREAT | os.O_WRONLY)), 'directory': os.mkdir}[kind]
os.makedirs(directory, exist_ok=True)
print('ready', flush=True)
sys.stdin.readline()
began, n = time.monotonic(), 0
while not select.select([sys.stdin], [], [], 0.001)[0]:
    for _ in range(min(int((time.monotonic() - began) * rate) - n, BURST_MAX)):
        make(f'{directory}/{n}')
        n += 1
print(n, flush=True)
