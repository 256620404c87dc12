/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "bus-names.h"
#include "log.h"
#include "query-internal.h"
#include "query-metrics.h"

enum {
        PAGES_MAX = 100000, /* of ListHistograms() */
        MAX_SERIES_DEFAULT = 20000,
};

/* What an element of ListHistograms() has before its histograms. */
typedef struct Head {
        const char *unit;
        const char *op;
        const char *device;
        const char *origin;
        uint64_t errors;
        uint64_t bytes;
        bool is_request;
} Head;

static int read_histogram(sd_bus_message *m, const Head *h, MetricSet *set) {
        const char *phase;
        const void *buckets;
        uint64_t sum_ns;
        size_t size;
        int r;

        r = sd_bus_message_read(m, "st", &phase, &sum_ns);
        if (r < 0)
                return r;
        r = sd_bus_message_read_array(m, 't', &buckets, &size);
        if (r < 0)
                return r;
        if (size == 0)
                return 0;

        return metric_set_add(set, h->is_request ? METRIC_REQUEST_SECONDS : METRIC_OPERATION_SECONDS,
                              (const char *[]){ h->unit, h->op, phase, h->device }, sum_ns, buckets,
                              size / sizeof(uint64_t));
}

static int add_counters(const Head *h, MetricSet *set) {
        const char *labels[] = { h->unit, h->op, h->device };

        if (!h->is_request)
                return metric_set_add(set, METRIC_OPERATION_ERRORS, labels, h->errors, NULL, 0);
        if (streq(h->op, "rq-flush")) /* which moves no bytes */
                return 0;

        return metric_set_add(set, METRIC_REQUEST_BYTES, labels, h->bytes, NULL, 0);
}

static int read_series(sd_bus_message *m, MetricSet *set) {
        Head h;
        bool wanted;
        int r;

        r = sd_bus_message_read(m, "sssstt", &h.unit, &h.op, &h.device, &h.origin, &h.errors, &h.bytes);
        if (r < 0)
                return r;
        h.is_request = startswith(h.op, "rq-");
        /* The work of loop devices is the waiting of those who use them: it would be there twice in every sum. */
        wanted = h.is_request || !streq(h.origin, "loop");
        if (wanted) {
                r = add_counters(&h, set);
                if (r < 0)
                        return r;
        }

        r = sd_bus_message_enter_container(m, 'a', "(" BUS_METRIC_HISTOGRAM ")");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_enter_container(m, 'r', BUS_METRIC_HISTOGRAM)) > 0) {
                r = wanted ? read_histogram(m, &h, set) : sd_bus_message_skip(m, BUS_METRIC_HISTOGRAM);
                if (r < 0)
                        return r;
                r = sd_bus_message_exit_container(m);
                if (r < 0)
                        return r;
        }
        if (r < 0)
                return r;

        return sd_bus_message_exit_container(m);
}

static int read_page(sd_bus_message *m, MetricSet *set, uint64_t *ret_next) {
        int r;

        r = sd_bus_message_enter_container(m, 'a', "(" BUS_METRIC_SERIES ")");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_enter_container(m, 'r', BUS_METRIC_SERIES)) > 0) {
                r = read_series(m, set);
                if (r < 0)
                        return r;
                r = sd_bus_message_exit_container(m);
                if (r < 0)
                        return r;
        }
        if (r < 0)
                return r;
        r = sd_bus_message_exit_container(m);
        if (r < 0)
                return r;

        return sd_bus_message_read(m, "t", ret_next);
}

static int add_histograms(Query *q, MetricSet *set) {
        uint64_t cursor = 0, next = 0;
        int r;

        for (size_t page = 0; page < PAGES_MAX; page++) {
                _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;

                r = query_call_simple(q, BUS_PATH, BUS_INTERFACE_MANAGER, "ListHistograms", &reply, "tu", cursor,
                                      UINT32_C(0));
                if (r < 0)
                        return r;
                r = read_page(reply, set, &next);
                if (r < 0)
                        return query_log_reply(r);
                if (next == 0)
                        return 0;
                if (next <= cursor)
                        break;
                cursor = next;
        }

        return query_log_reply(-EBADMSG);
}

static int add_blame(Query *q, MetricSet *set) {
        _cleanup_(blame_rows_clear) BlameRows rows = {};
        const Range everything = { .until_us = UINT64_MAX };
        int r;

        r = query_blame(q, "", &everything, &rows);
        for (size_t i = 0; i < rows.n && r >= 0; i++) {
                const BlameRow *row = rows.items + i;

                r = metric_set_add(set, METRIC_BLAMED_SECONDS, (const char *[]){ row->victim, row->culprit, row->phase },
                                   row->sum_ns, NULL, 0);
                if (r < 0)
                        return query_log_reply(r);
        }

        return r;
}

static int add_losses(Query *q, MetricSet *set) {
        _cleanup_(probe_rows_clear) ProbeRows probes = {};
        int r;

        r = query_probes(q, &probes);
        if (r < 0)
                return r;
        for (size_t i = 0; i < probes.n; i++) {
                const ProbeRow *row = &probes.items[i];

                if (!row->kind || !streq(row->kind, "loss"))
                        continue;
                r = metric_set_add(set, METRIC_LOST, (const char *[]){ row->probe }, row->hits, NULL, 0);
                if (r < 0)
                        return query_log_reply(r);
        }

        return 0;
}

static int add_build_info(Query *q, MetricSet *set, uint64_t *ret_max_series) {
        _cleanup_(manager_info_clear) ManagerInfo i = {};
        int r;

        r = query_manager_properties(q, &i);
        if (r < 0)
                return r;
        r = metric_set_add(set, METRIC_BUILD_INFO, (const char *[]){ i.version, i.tier }, 1, NULL, 0);
        if (r < 0)
                return query_log_reply(r);
        *ret_max_series = i.max_series > 0 ? i.max_series : MAX_SERIES_DEFAULT;

        return 0;
}

int query_metrics(Query *q, char *(*escape)(const char *s), MetricMemory *memory, MetricSet **ret) {
        _cleanup_(metric_set_freep) MetricSet *set = NULL;
        uint64_t max_series = 0;
        int r;

        set = metric_set_new(escape);
        if (!set)
                return log_oom();
        r = add_build_info(q, set, &max_series);
        if (r >= 0)
                r = add_histograms(q, set);
        if (r >= 0)
                r = add_blame(q, set);
        if (r >= 0)
                r = add_losses(q, set);
        if (r < 0)
                return r;
        r = metric_set_fold(set, max_series, memory);
        if (r < 0)
                return query_log_reply(r);
        *ret = TAKE_PTR(set);

        return 0;
}
