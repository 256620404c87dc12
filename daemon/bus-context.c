/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus-context.h"
#include "bus-log-control.h"
#include "bus-manager.h"
#include "bus-unit.h"
#include "trace.h"

#define UID_QUERY_TIMEOUT_USEC (5 * USEC_PER_SEC)

struct BusUidQuery {
        BusContext *context;
        sd_bus_message *call;
        sd_bus_slot *slot;
        bus_uid_callback callback;
        BusUidQuery *prev, *next;
};

static BusUidQuery *uid_query_free(BusUidQuery *q) {
        if (!q)
                return NULL;

        if (q->prev)
                q->prev->next = q->next;
        else if (q->context->queries == q)
                q->context->queries = q->next;
        if (q->next)
                q->next->prev = q->prev;
        q->context->n_queries--;

        sd_bus_slot_unref(q->slot);
        sd_bus_message_unref(q->call);
        free(q);
        return NULL;
}
DEFINE_CLEANUP_FUNC(BusUidQuery, uid_query_free)

void bus_context_done(BusContext *c) {
        while (c->queries)
                uid_query_free(c->queries);
        if (c->n_traces > 0)
                trace_forget(query_trace(c->manager), c);
}

static int uid_query_answered(sd_bus_message *answer, void *userdata, sd_bus_error *reterr_error) {
        _cleanup_(uid_query_freep) BusUidQuery *q = userdata;
        _cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;
        uint32_t uid = BUS_UID_INVALID;
        int r;

        if (sd_bus_message_is_method_error(answer, NULL) || sd_bus_message_read(answer, "u", &uid) < 0)
                uid = BUS_UID_INVALID;

        r = q->callback(q->call, q->context, uid, &error);
        if (r < 0 || sd_bus_error_is_set(&error))
                (void) sd_bus_reply_method_errno(q->call, r, &error);

        return 0;
}

int bus_call_with_uid(sd_bus_message *call, BusContext *c, bus_uid_callback callback, sd_bus_error *reterr_error) {
        _cleanup_(uid_query_freep) BusUidQuery *q = NULL;
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *ask = NULL;
        sd_bus *bus = sd_bus_message_get_bus(call);
        const char *sender = sd_bus_message_get_sender(call);
        int r;

        if (c->uid_known)
                return callback(call, c, c->uid, reterr_error);
        if (!sender || c->n_queries >= BUS_UID_QUERIES_MAX)
                return callback(call, c, BUS_UID_INVALID, reterr_error);

        q = calloc(1, sizeof(*q));
        if (!q)
                return -ENOMEM;
        q->context = c;
        q->callback = callback;
        q->call = sd_bus_message_ref(call);
        q->next = c->queries;
        if (q->next)
                q->next->prev = q;
        c->queries = q;
        c->n_queries++;

        r = sd_bus_message_new_method_call(bus, &ask, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                           "org.freedesktop.DBus", "GetConnectionUnixUser");
        if (r < 0)
                return r;
        r = sd_bus_message_append(ask, "s", sender);
        if (r < 0)
                return r;
        r = sd_bus_call_async(bus, &q->slot, ask, uid_query_answered, q, UID_QUERY_TIMEOUT_USEC);
        if (r < 0)
                return r;

        TAKE_PTR(q);
        return 1;
}

int bus_add_objects(sd_bus *bus, BusContext *c) {
        int r;

        r = bus_manager_add(bus, c);
        if (r < 0)
                return r;
        r = bus_unit_add(bus, c);
        if (r < 0)
                return r;

        return bus_log_control_add(bus, c);
}
