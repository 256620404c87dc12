/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>

#include "costs.h"
#include "histogram.h"
#include "names.h"
#include "probe-cost.h"

#define RATE_FIRST_NS (NSEC_PER_SEC / 2)
#define RATE_INTERVAL_NS (5 * NSEC_PER_SEC - NSEC_PER_SEC / 2) /* the fifth tick may come a little early */
#define BIAS_INTERVAL_NS NSEC_PER_SEC

struct Costs {
        Maps *maps;
        uint64_t hits[_PROBE_MAX]; /* when the interval began that goes on */
        uint64_t began_ns;         /* 0: none yet */
        double rate[_PROBE_MAX];   /* in the one that ended last */
        bool has_rate;
        Bias bias[BIAS_MAX];
        size_t n_bias;
        uint64_t bias_ns; /* when that was computed, 0: never */
};

int costs_new(Costs **ret, Maps *maps) {
        Costs *c = calloc(1, sizeof(*c));

        if (!c)
                return -ENOMEM;
        c->maps = maps;
        *ret = c;

        return 0;
}

Costs *costs_free(Costs *c) {
        free(c);

        return NULL;
}

void costs_tick(Costs *c, uint64_t now) {
        uint64_t length = now - c->began_ns;

        if (c->began_ns != 0 && length < (c->has_rate ? RATE_INTERVAL_NS : RATE_FIRST_NS))
                return;
        for (uint32_t p = 0; p < _PROBE_MAX; p++) {
                uint64_t hits = maps_hits(c->maps, p);

                if (c->began_ns != 0) /* fewer: the map is a new one */
                        c->rate[p] = hits >= c->hits[p] ? (double) (hits - c->hits[p]) * NSEC_PER_SEC / length : 0;
                c->hits[p] = hits;
        }
        c->has_rate = c->began_ns != 0;
        c->began_ns = now;
}

/* The map is not there if the programs are of an older build; -EBADF then. */
static int open_costs(Costs *c, uint64_t *ret_build) {
        struct bpf_map_info info = {};
        uint32_t size = sizeof(info), key = 0;
        _cleanup_close_ int fd = -EBADF;
        struct meta meta;

        fd = maps_open_more(c->maps, "costs");
        if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size) < 0 || info.value_size != sizeof(struct probe_cost) ||
            bpf_map_lookup_elem(c->maps->meta, &key, &meta) < 0)
                return -EBADF;
        *ret_build = meta.build;

        return take_fd(&fd);
}

static bool read_cost(int fd, uint32_t index, uint64_t build, unsigned attached, struct probe_cost *ret) {
        return fd >= 0 && bpf_map_lookup_elem(fd, &index, ret) >= 0 && probe_cost_is_of(ret, build, attached);
}

void costs_get(Costs *c, enum probe probe, unsigned attached, ProbeCosts *ret) {
        _cleanup_close_ int fd = -EBADF;
        struct probe_cost cost;
        uint64_t build = 0;

        *ret = (ProbeCosts){ .has_rate = c->has_rate, .hits_per_sec = c->rate[probe] };
        fd = open_costs(c, &build);
        if (!read_cost(fd, probe, build, attached, &cost))
                return;
        ret->has_ns = true;
        ret->ns_per_hit = probe_cost_ns_per_hit(&cost);
        ret->sampled_hits = cost.hits;
}

bool costs_get_floor(Costs *c, double *ret_ns) {
        _cleanup_close_ int fd = -EBADF;
        struct probe_cost cost;
        uint64_t build = 0;

        fd = open_costs(c, &build);
        if (!read_cost(fd, COST_FLOOR, build, ATTACH_TP_BTF, &cost))
                return false;
        *ret_ns = probe_cost_ns_per_hit(&cost);

        return true;
}

/* --- bias --- */

static void read_probes(Costs *c, BiasInput *in) {
        _cleanup_close_ int fd = -EBADF;
        uint64_t build = 0;

        fd = open_costs(c, &build);
        for (uint32_t i = 0; i < _PROBE_MAX; i++) {
                BiasProbe *p = &in->probe[i];
                struct probe_info info;
                struct probe_cost cost;
                double hits;

                p->hits = maps_hits(c->maps, i);
                if (bpf_map_lookup_elem(c->maps->probe_infos, &i, &info) < 0)
                        continue;
                p->is_function = info.attached != ATTACH_TP_BTF;
                p->known = info.attached && read_cost(fd, i, build, info.attached, &cost);
                if (!p->known)
                        continue;
                hits = (double) cost.hits;
                p->enter_ns = (double) cost.enter_ns / hits;
                p->exit_ns = (double) cost.exit_ns / hits;
                p->twin_ns = (double) cost.twin_ns / hits;
                p->run_ns = probe_cost_ns_per_hit(&cost) * hits / (double) cost.runs;
        }
}

/* Sums of all units. */
typedef struct Totals {
        BiasInput in;
        struct hist_full op[_OP_MAX];
        struct hist_full queue[_RQ_KIND_MAX];
        struct hist_full device[_RQ_KIND_MAX];
} Totals;

/* Whether its journal, or that of what lies below it, is jbd2's. One that is not mounted any more may have been. */
static bool has_jbd2(const char *fs_type) {
        return !fs_type || startswith(fs_type, "ext") || streq(fs_type, "ocfs2") || streq(fs_type, "overlay");
}

static void add_op(Totals *t, const Series *s, const struct op_value *v, const char *fs_type) {
        BiasOp *op = &t->in.op[s->op];

        op->everything += v->total.count;
        for (size_t p = 0; p < _PHASE_MAX; p++)
                op->everything_in_phase[p] += v->phase[p].count;
        if (s->origin == ORIGIN_LOOP)
                return;
        op->count += v->total.count;
        op->requests += v->requests;
        for (size_t p = 0; p < _PHASE_MAX; p++)
                op->in_phase[p] += v->phase[p].count;
        if (has_jbd2(fs_type))
                op->in_commit += v->phase[PHASE_JOURNAL].count;
        hist_full_add(&t->op[s->op], &v->total);
}

static void add_rq(Totals *t, const Series *s, const struct rq_value *v) {
        t->in.rq[s->op].count += v->device.count;
        if (s->origin == ORIGIN_JOURNAL)
                t->in.journal_requests += v->device.count + v->untimed;
        hist_full_add(&t->queue[s->op], &v->queue);
        hist_full_add(&t->device[s->op], &v->device);
}

static int add_series(Totals *t, SeriesTable *table, const Series *s, fs_type_callback fs_type, void *userdata) {
        struct op_value op;
        struct rq_value rq;
        int r;

        if (s->is_age)
                return 0;
        if (s->is_request) {
                r = series_read_rq(table, s, false, &rq);
                if (r >= 0)
                        add_rq(t, s, &rq);
                return r;
        }
        r = series_read_op(table, s, false, &op);
        if (r >= 0)
                add_op(t, s, &op, fs_type(s->dev, userdata));

        return r;
}

static int compute(Costs *c, SeriesTable *table, fs_type_callback fs_type, void *userdata) {
        _cleanup_free_ Totals *t = calloc(1, sizeof(*t));
        Series *const *all;
        size_t n;
        int r;

        if (!t)
                return -ENOMEM;
        all = series_table_all(table, &n);
        for (size_t i = 0; i < n; i++) {
                r = add_series(t, table, all[i], fs_type, userdata);
                if (r < 0)
                        return r;
        }
        for (size_t o = 0; o < _OP_MAX; o++)
                t->in.op[o].p50_ns = hist_full_quantile(&t->op[o], 0.5);
        for (size_t k = 0; k < _RQ_KIND_MAX; k++) {
                t->in.rq[k].p50_queue_ns = hist_full_quantile(&t->queue[k], 0.5);
                t->in.rq[k].p50_device_ns = hist_full_quantile(&t->device[k], 0.5);
        }
        read_probes(c, &t->in);
        c->n_bias = bias_compute(&t->in, c->bias);

        return 0;
}

int costs_bias(Costs *c, SeriesTable *series, fs_type_callback fs_type, void *userdata, const Bias **ret,
               size_t *ret_n) {
        uint64_t now = now_ns();
        int r;

        if (c->bias_ns == 0 || now >= c->bias_ns + BIAS_INTERVAL_NS) {
                r = compute(c, series, fs_type, userdata);
                if (r < 0)
                        return r;
                c->bias_ns = now;
        }
        *ret = c->bias;
        *ret_n = c->n_bias;

        return 0;
}
