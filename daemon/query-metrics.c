/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "histogram.h"
#include "manager.h"
#include "names.h"
#include "query-metrics.h"

/* The next histogram to be filled; it counts only if metric_add() is called. */
static MetricHistogram *metric_next(MetricSeries *s, const char *phase, uint64_t sum_ns) {
        MetricHistogram *h = &s->histograms[s->n_histograms];

        *h = (MetricHistogram){ .phase = phase, .sum_ns = sum_ns };

        return h;
}

/* Whether there is something in it is told by the buckets, which can be ahead of the count while the kernel is
 * counting. */
static void metric_add(MetricSeries *s) {
        const MetricHistogram *h = &s->histograms[s->n_histograms];

        for (size_t i = 0; i < BUCKETS_SHORT; i++)
                if (h->bucket[i] > 0) {
                        s->n_histograms++;
                        return;
                }
}

static void metric_add_full(MetricSeries *s, const char *phase, const struct hist_full *h) {
        MetricHistogram *to = metric_next(s, phase, h->sum_ns);

        hist_full_coarsen(h, to->bucket);
        metric_add(s);
}

static void metric_add_short(MetricSeries *s, const char *phase, const struct hist_short *h) {
        MetricHistogram *to = metric_next(s, phase, h->sum_ns);

        for (size_t i = 0; i < BUCKETS_SHORT; i++)
                to->bucket[i] = h->bucket[i];
        metric_add(s);
}

static int read_op(Manager *m, const Series *s, MetricSeries *ret) {
        struct op_value v;
        int r;

        r = series_read_op(m->series, s, false, &v);
        if (r < 0)
                return r;
        ret->op = op_to_string(s->op);
        ret->origin = s->origin != ORIGIN_SELF ? origin_to_string(s->origin) : NULL;
        ret->errors = v.errors;
        metric_add_full(ret, "total", &v.total);
        for (int p = 0; p < _PHASE_MAX; p++)
                metric_add_short(ret, phase_to_string(p), &v.phase[p]);

        return 0;
}

static int read_rq(Manager *m, const Series *s, MetricSeries *ret) {
        struct rq_value v;
        int r;

        r = series_read_rq(m->series, s, false, &v);
        if (r < 0)
                return r;
        ret->op = rq_kind_to_string(s->op);
        ret->origin = origin_to_string(s->origin);
        ret->errors = v.errors;
        ret->bytes = v.bytes;
        metric_add_full(ret, rq_part_to_string(RQ_PART_QUEUE), &v.queue);
        metric_add_full(ret, rq_part_to_string(RQ_PART_DEVICE), &v.device);

        return 0;
}

int query_metrics(Manager *m, uint64_t cursor, uint32_t limit, metric_callback callback, void *userdata,
                  uint64_t *ret_next) {
        Series *const *all;
        uint64_t last = cursor;
        size_t n, i;
        int r;

        if (cursor == 0) { /* pages of one listing go through one state of things */
                r = manager_refresh(m);
                if (r < 0)
                        return r;
        }
        all = series_table_all(m->series, &n);
        for (i = series_table_find(m->series, cursor == UINT64_MAX ? cursor : cursor + 1); i < n && limit > 0; i++) {
                MetricSeries s = { .unit = all[i]->unit, .dev = all[i]->dev };

                last = all[i]->serial;
                if (all[i]->is_age)
                        continue;
                r = all[i]->is_request ? read_rq(m, all[i], &s) : read_op(m, all[i], &s);
                if (r < 0)
                        return r;
                if (s.n_histograms == 0 && s.errors == 0 && s.bytes == 0)
                        continue;
                r = callback(&s, userdata);
                if (r < 0)
                        return r;
                limit--;
        }
        *ret_next = i < n ? last : 0;

        return 0;
}

uint64_t query_max_series(Manager *m) {
        return m->config.max_series;
}
