/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

/* A token bucket: it holds burst tokens, and refills evenly within interval_ns. To be embedded where one of a kind
 * (one unit's alerts) is limited. Starts full; all zero, or either parameter zero, means no limit. */
typedef struct RateLimit {
        uint64_t interval_ns;
        unsigned burst;
        bool used;          /* last_ns is set */
        uint64_t last_ns;   /* when level_ns was computed */
        uint64_t level_ns;  /* content, in the time that it takes to refill: interval_ns when full */
        uint64_t suppressed; /* refused since the last rate_limit_take_suppressed() */
} RateLimit;

/* Takes a token if there is one, else counts. The time may be of any clock; if it goes back, nothing refills. */
bool rate_limit_allow(RateLimit *l, uint64_t now_ns);

/* How many were refused; starts counting anew. */
uint64_t rate_limit_take_suppressed(RateLimit *l);
