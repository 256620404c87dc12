/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <sys/types.h>
#include <systemd/sd-bus.h>

#include "query.h"
#include "util.h"

enum {
        BUS_UID_QUERIES_MAX = 64, /* callers whose uid the broker is being asked for; more are unprivileged */
};

typedef struct BusUidQuery BusUidQuery;

/* The userdata of all objects on one connection: whom to ask, and who is at the other end. */
typedef struct BusContext BusContext;
struct BusContext {
        Manager *manager;
        bool uid_known; /* a peer, whose uid the kernel told; on a bus every message has its own sender */
        uid_t uid;
        BusUidQuery *queries;
        unsigned n_queries;
        unsigned n_traces; /* subscriptions to single operations */
        void (*flush)(BusContext *c); /* passes on what was sent outside of a reply; may end the connection */
};

#define BUS_UID_INVALID ((uid_t) -1)

/* Drops the questions still under way, and the traces. To be called before the connection is dropped, because they refer
 * to it. */
void bus_context_done(BusContext *c);

/* Adds every object of this program to a connection. The context must outlive it. */
int bus_add_objects(sd_bus *bus, BusContext *c);

/* Calls back with the uid of the sender, BUS_UID_INVALID if that cannot be told: at once for a peer, later on a
 * bus, since asking the broker and waiting for the answer would stop the daemon whenever the broker is stuck. The
 * callback has to reply to the call, or to return a negative errno or set the error, which is then sent for it.
 * Returns what a method handler returns. */
typedef int (*bus_uid_callback)(sd_bus_message *call, BusContext *c, uid_t uid, sd_bus_error *reterr_error);
int bus_call_with_uid(sd_bus_message *call, BusContext *c, bus_uid_callback callback, sd_bus_error *reterr_error);
