/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus-trace.h"
#include "log.h"
#include "manager.h"
#include "rate-limit.h"
#include "trace.h"

typedef struct TraceClient {
        Trace *trace;
        BusContext *context;
        sd_bus *bus;
        char *sender; /* NULL: a peer, who is at the other end */
        sd_bus_slot *gone;
        sd_bus_slot *check;
        char *unit[TRACES_PER_CLIENT];
        uint64_t min_ns[TRACES_PER_CLIENT];
        size_t n;
        RateLimit rate;
        uint64_t lost;
        uint64_t ring_lost_before;
} TraceClient;

struct Trace {
        Thresholds *thresholds;
        TraceClient *clients[TRACES_MAX]; /* NULL: free */
        size_t n;                         /* traces of all of them */
        uint64_t ring_lost;
};

int trace_new(Trace **ret, Thresholds *thresholds) {
        Trace *t = calloc(1, sizeof(*t));

        if (!t)
                return -ENOMEM;
        t->thresholds = thresholds;
        *ret = t;

        return 0;
}

/* Tells the programs what is wanted now. */
static int apply(Trace *t) {
        ThresholdTrace wanted[TRACES_MAX];
        size_t n = 0;
        int r;

        for (size_t i = 0; i < TRACES_MAX; i++)
                for (size_t k = 0; t->clients[i] && k < t->clients[i]->n; k++)
                        wanted[n++] = (ThresholdTrace){ t->clients[i]->unit[k], t->clients[i]->min_ns[k] };
        r = thresholds_set_traces(t->thresholds, wanted, n);

        return r < 0 ? r : thresholds_apply(t->thresholds);
}

static void client_free(TraceClient *c) {
        Trace *t = c->trace;

        for (size_t i = 0; i < TRACES_MAX; i++)
                if (t->clients[i] == c)
                        t->clients[i] = NULL;
        t->n -= c->n;
        c->context->n_traces -= c->n;
        for (size_t i = 0; i < c->n; i++)
                free(c->unit[i]);
        sd_bus_slot_unref(c->gone);
        sd_bus_slot_unref(c->check);
        free(c->sender);
        free(c);
}

static void client_end(TraceClient *c) {
        Trace *t = c->trace;
        int r;

        client_free(c);
        r = apply(t);
        if (r < 0)
                log_debug_errno(r, "Cannot tell the programs that a trace has ended, trying again later: %m");
}

Trace *trace_free(Trace *t) {
        if (!t)
                return NULL;
        for (size_t i = 0; i < TRACES_MAX; i++)
                if (t->clients[i])
                        client_free(t->clients[i]);
        free(t);

        return NULL;
}

static int on_owner_changed(sd_bus_message *m, void *userdata, sd_bus_error *reterr_error) {
        const char *name, *old, *new;

        if (sd_bus_message_read(m, "sss", &name, &old, &new) >= 0 && *new == 0)
                client_end(userdata);

        return 0;
}

static int on_watched(sd_bus_message *m, void *userdata, sd_bus_error *reterr_error) {
        if (sd_bus_message_is_method_error(m, NULL))
                client_end(userdata); /* rather than to send to nobody for good */

        return 0;
}

static int on_checked(sd_bus_message *m, void *userdata, sd_bus_error *reterr_error) {
        if (sd_bus_message_is_method_error(m, NULL))
                client_end(userdata);

        return 0;
}

/* So that it is noticed when the client leaves the bus, or if it has left already: the broker handles the two requests
 * in this order. sd_bus_track would wait for the answer to the second one. */
static int watch_client(TraceClient *c) {
        char match[256];
        int r;

        if (snprintf(match, sizeof(match),
                     "type='signal',sender='org.freedesktop.DBus',path='/org/freedesktop/DBus',"
                     "interface='org.freedesktop.DBus',member='NameOwnerChanged',arg0='%s'",
                     c->sender) >= (int) sizeof(match))
                return -EINVAL;
        r = sd_bus_add_match_async(c->bus, &c->gone, match, on_owner_changed, on_watched, c);
        if (r < 0)
                return r;

        return sd_bus_call_method_async(c->bus, &c->check, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                        "org.freedesktop.DBus", "GetNameOwner", on_checked, c, "s", c->sender);
}

static TraceClient *find_client(Trace *t, BusContext *context, const char *sender) {
        for (size_t i = 0; i < TRACES_MAX; i++) {
                TraceClient *c = t->clients[i];

                if (c && c->context == context && streq(strempty(c->sender), strempty(sender)))
                        return c;
        }

        return NULL;
}

static int add_client(Trace *t, BusContext *context, sd_bus *bus, const char *sender, TraceClient **ret) {
        TraceClient *c;
        size_t i;
        int r;

        for (i = 0; i < TRACES_MAX && t->clients[i]; i++)
                ;
        if (i >= TRACES_MAX)
                return -ENOBUFS;
        c = calloc(1, sizeof(*c));
        if (!c)
                return -ENOMEM;
        *c = (TraceClient){
                .trace = t,
                .context = context,
                .bus = bus,
                .rate = { .interval_ns = NSEC_PER_SEC, .burst = TRACE_RATE_MAX },
                .ring_lost_before = t->ring_lost,
        };
        t->clients[i] = c;
        if (!context->uid_known) {
                c->sender = strdup(strempty(sender));
                r = c->sender ? watch_client(c) : -ENOMEM;
                if (r < 0) {
                        client_free(c);
                        return r;
                }
        }
        *ret = c;

        return 0;
}

static void remove_unit(TraceClient *c, size_t i) {
        free(c->unit[i]);
        c->n--;
        c->unit[i] = c->unit[c->n];
        c->min_ns[i] = c->min_ns[c->n];
        c->trace->n--;
        c->context->n_traces--;
}

static int add_unit(TraceClient *c, const char *unit, uint64_t min_ns) {
        char *copy;

        if (c->n >= TRACES_PER_CLIENT || c->trace->n >= TRACES_MAX)
                return -ENOBUFS;
        copy = strdup(unit);
        if (!copy)
                return -ENOMEM;
        c->unit[c->n] = copy;
        c->min_ns[c->n++] = min_ns;
        c->trace->n++;
        c->context->n_traces++;

        return 0;
}

static int set_unit(TraceClient *c, const char *unit, uint64_t min_ns) {
        for (size_t i = c->n; i > 0; i--)
                if (streq(c->unit[i - 1], unit) || (min_ns == UINT64_MAX && !*unit))
                        remove_unit(c, i - 1);

        return min_ns == UINT64_MAX ? 0 : add_unit(c, unit, min_ns);
}

int trace_set(Trace *t, BusContext *context, sd_bus *bus, const char *sender, const char *unit, uint64_t min_ns) {
        TraceClient *c;
        int r, k;

        if (context->uid_known)
                sender = NULL;
        c = find_client(t, context, sender);
        if (!c && min_ns == UINT64_MAX)
                return 0;
        if (!c) {
                r = add_client(t, context, bus, sender, &c);
                if (r < 0)
                        return r;
        }
        r = set_unit(c, unit, min_ns);
        if (c->n == 0)
                client_free(c);
        k = apply(t);

        return r < 0 ? r : k;
}

void trace_forget(Trace *t, BusContext *context) {
        bool found = false;

        for (size_t i = 0; i < TRACES_MAX; i++)
                if (t->clients[i] && t->clients[i]->context == context) {
                        client_free(t->clients[i]);
                        found = true;
                }
        if (found)
                (void) apply(t);
}

static bool client_wants(const TraceClient *c, const Owner *o, const struct stall *record) {
        for (size_t i = 0; i < c->n; i++)
                if (record->total_ns >= c->min_ns[i] &&
                    (!*c->unit[i] || streq(c->unit[i], o->unit) || (o->user_unit && streq(c->unit[i], o->user_unit))))
                        return true;

        return false;
}

/* Whether it takes what it is sent; what it does not take is kept for it only within limits. */
static bool client_keeps_up(TraceClient *c, uint64_t now) {
        uint64_t queued;

        return sd_bus_get_n_queued_write(c->bus, &queued) >= 0 && queued < TRACE_QUEUE_MAX &&
               rate_limit_allow(&c->rate, now);
}

void trace_deliver(Trace *t, Manager *m, const Owner *o, const struct stall *record) {
        StallEntry entry = {};
        StallRow row;
        uint64_t now;

        if (t->n == 0)
                return;
        now = now_ns();
        for (size_t i = 0; i < TRACES_MAX; i++) {
                TraceClient *c = t->clients[i];
                BusContext *context;

                if (!c || !client_wants(c, o, record))
                        continue;
                if (!client_keeps_up(c, now)) {
                        c->lost++;
                        continue;
                }
                if (!entry.unit) {
                        entry.unit = o->unit; /* borrowed */
                        entry.start_realtime_us = stall_start_realtime_us(record);
                        stall_entry_set_record(&entry, record);
                        row = stall_row(m, &entry);
                }
                if (bus_trace_send(c->bus, c->sender, &row, c->lost + t->ring_lost - c->ring_lost_before) < 0)
                        c->lost++;
                context = c->context;
                if (context->flush)
                        context->flush(context); /* may end the connection, and the client with it */
        }
}

void trace_set_ring_lost(Trace *t, uint64_t n) {
        t->ring_lost = n;
}
