/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

/* When to look for operations that have not returned. Looking costs a walk over all threads, so it is done only if
 * the counter of operations in flight says that there are some. That counter drifts: an operation whose end the
 * kernel never showed stays in it for good. What is known to be drift is left out, but knowing too much would hide
 * an operation that hangs. Therefore a drift is learnt only from scans during which nothing at all happened, is
 * unlearnt as soon as the counter or one scan speaks against it, and is not trusted for longer than a while. */

enum {
        DRIFT_TICKS_ABOVE = 2,   /* ticks running that something has been in flight, before a scan */
        DRIFT_SCANS_AGREED = 3,  /* scans that have to find the same drift */
        DRIFT_TICKS_TRUSTED = 30, /* after which there is a scan although the drift explains the counter */
};

typedef struct Drift {
        int64_t known;
        int64_t candidate; /* what the last scans that counted have found */
        unsigned n_agreed;
        unsigned n_above;   /* ticks running that more than the known drift was in flight */
        unsigned n_trusted; /* ticks running that the drift alone explained the counter */
} Drift;

/* At each tick: whether the counter demands a scan. */
bool drift_tick(Drift *d, int64_t sum);

/* After a scan that was complete: what the counter said, and how many operations were come across. Only what is quiet
 * counts: no operation began or ended meanwhile. */
void drift_scanned(Drift *d, int64_t sum, uint64_t seen, bool quiet);
