/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "abi.h"
#include "util.h"

/* How many requests were with a device at a time, on average over the last seconds: the time that they spent there,
 * divided by the time that has passed (Little's law). A request counts when it completes. Knows nothing of maps. */

enum {
        IN_FLIGHT_TICKS = 10,      /* that the average is of */
        IN_FLIGHT_KEYS_MAX = 16384, /* with completions within that time */
};

#define IN_FLIGHT_STALE_NS (5 * NSEC_PER_SEC) /* nothing is known if the last tick is longer ago */

typedef struct InFlight InFlight;

int in_flight_new(InFlight **ret);
InFlight *in_flight_free(InFlight *f);
DEFINE_CLEANUP_FUNC(InFlight, in_flight_free)

/* What has completed since the last tick. */
int in_flight_add(InFlight *f, const struct changed_rq *difference);

/* All of it was added. Not to be called when it could not be read: the next tick is of a longer time then. */
void in_flight_tick(InFlight *f, uint64_t now_ns);

/* The length of the time that is known about, 0 if that is none. */
uint64_t in_flight_span_ns(const InFlight *f, uint64_t now_ns);

/* How long the device had requests of that key in that time, all together. */
uint64_t in_flight_device_ns(const InFlight *f, const struct rq_key *key);
