/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "bus-context.h"
#include "owner.h"
#include "query.h"
#include "thresholds.h"

enum {
        TRACES_MAX = 16,        /* of all clients */
        TRACES_PER_CLIENT = 4,
        TRACE_RATE_MAX = 2000,  /* operations a second that one client is sent */
        TRACE_QUEUE_MAX = 32,   /* messages that a client does not take, before more are counted as lost */
};

/* Those who want to see single operations. */

int trace_new(Trace **ret, Thresholds *thresholds);
Trace *trace_free(Trace *t);
DEFINE_CLEANUP_FUNC(Trace, trace_free)

/* From now on the client is sent the operations of that unit ("": of all units) that take at least so long, until it
 * is gone; instead of what it asked for that unit before. UINT64_MAX: no more of that unit, for "" no more at all.
 * The client is a peer, or on a bus the one with the unique name of sender. Returns -ENOBUFS if there are too many. */
int trace_set(Trace *t, BusContext *c, sd_bus *bus, const char *sender, const char *unit, uint64_t min_ns);

/* The connection ends. */
void trace_forget(Trace *t, BusContext *c);

/* Sends the operation to those who want it. */
void trace_deliver(Trace *t, Manager *m, const Owner *o, const struct stall *record);

/* At each tick: how many records found no place in the ring, ever. */
void trace_set_ring_lost(Trace *t, uint64_t n);
