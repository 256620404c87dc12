/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fnmatch.h>

#include "cgroup-tree.h"
#include "histogram.h"
#include "manager.h"
#include "names.h"
#include "query-rows.h"
#include "unit-path.h"

enum { ROW_TOTAL, ROW_PHASE_0 }; /* rows of an operation; requests have one per part, dirty data just one */

static bool strv_has(char **v, const char *s) {
        if (!v || !*v)
                return true;
        for (; *v; v++)
                if (streq(*v, s))
                        return true;

        return false;
}

static bool unit_matches(char **patterns, const Series *s) {
        if (!patterns || !*patterns)
                return true;
        for (; *patterns; patterns++)
                if (fnmatch(*patterns, s->unit, FNM_NOESCAPE) == 0 ||
                    (s->user_unit && fnmatch(*patterns, s->user_unit, FNM_NOESCAPE) == 0))
                        return true;

        return false;
}

static const char *series_op_name(const Series *s) {
        return s->is_age ? OP_WRITEBACK : s->is_request ? rq_kind_to_string(s->op) : op_to_string(s->op);
}

/* What all rows of a series have in common. */
static Row series_row(Manager *m, const Series *s) {
        return (Row){
                .unit = s->unit,
                .user_unit = s->user_unit,
                .op = series_op_name(s),
                .dev = s->dev,
                .fs_type = s->is_request ? NULL : device_table_fs_type(m->devices, s->dev),
                .mount_point = s->is_request ? NULL : device_table_mount_point(m->devices, s->dev),
                .origin = s->is_request || s->origin != ORIGIN_SELF ? origin_to_string(s->origin) : NULL,
                .is_request = s->is_request,
                .async = s->async,
        };
}

static void row_set_full(Row *row, const struct hist_full *h) {
        row->count = h->count;
        row->sum_ns = h->sum_ns;
        row->max_ns = h->max_ns;
        row->p50_ns = hist_full_quantile(h, 0.5);
        row->p90_ns = hist_full_quantile(h, 0.9);
        row->p99_ns = hist_full_quantile(h, 0.99);
        row->full = h;
}

static void row_set_short(Row *row, const struct hist_short *h) {
        row->count = h->count;
        row->sum_ns = h->sum_ns;
        row->max_ns = h->max_ns;
        row->p50_ns = hist_short_quantile(h, 0.5);
        row->p90_ns = hist_short_quantile(h, 0.9);
        row->p99_ns = hist_short_quantile(h, 0.99);
        row->full = NULL;
        row->shorter = h;
}

static int hand_out_buckets(const unsigned long long *bucket, unsigned n, bucket_u64 (*upper)(unsigned),
                            bucket_callback callback, void *userdata) {
        int r;

        for (unsigned i = 0; i < n; i++) {
                if (!bucket[i])
                        continue;
                r = callback(upper(i), bucket[i], userdata);
                if (r < 0)
                        return r;
        }

        return 0;
}

int row_foreach_bucket(const Row *row, bucket_callback callback, void *userdata) {
        if (row->full)
                return hand_out_buckets(row->full->bucket, BUCKETS_FULL, bucket_full_upper, callback, userdata);

        return hand_out_buckets(row->shorter->bucket, BUCKETS_SHORT, bucket_short_upper, callback, userdata);
}

static int sink_row(RowSink *k, const Row *row, uint64_t id) {
        int r;

        if (id <= k->cursor || row->count + row->untimed == 0 || !strv_has(k->filter->phases, row->phase))
                return 0;
        if (k->left == 0) {
                k->more = true;
                return 0;
        }
        r = k->callback(row, k->userdata);
        if (r < 0)
                return r;
        k->last = id;
        k->left--;

        return 0;
}

int row_sink_op(Manager *m, RowSink *k, const Series *s, const struct op_value *v) {
        const char *source[SOURCE_NAMES_MAX];
        Row row = series_row(m, s);
        int r;

        row.phase = "total";
        row.errors = v->errors;
        sources_of_total(&m->sources, s->op, source);
        row.source = source;
        row_set_full(&row, &v->total);
        r = sink_row(k, &row, s->serial << CURSOR_SHIFT | ROW_TOTAL);
        for (int p = 0; p < _PHASE_MAX && r >= 0; p++) {
                row.phase = phase_to_string(p);
                row.errors = 0;
                sources_of_phase(&m->sources, p, source);
                row_set_short(&row, &v->phase[p]);
                r = sink_row(k, &row, s->serial << CURSOR_SHIFT | (ROW_PHASE_0 + p));
        }

        return r;
}

/* A sum in a span of time, of what was going on all the while, is an average. */
static void row_set_in_flight(Manager *m, const RowSink *k, const Series *s, Row *row) {
        uint64_t span_ns = k->span_ns, ns = row->sum_ns;

        if (!k->span_ns) {
                span_ns = in_flight_span_ns(m->in_flight, now_ns());
                ns = 0;
                for (size_t i = 0; i < s->n_owners; i++) {
                        struct rq_key key = series_rq_key(s, s->owners[i]);

                        if (!k->current || series_owner_is_current(m->series, s->owners[i]))
                                ns += in_flight_device_ns(m->in_flight, &key);
                }
        }
        row->has_in_flight = span_ns > 0;
        if (row->has_in_flight)
                row->in_flight = (double) ns / (double) span_ns;
}

int row_sink_rq(Manager *m, RowSink *k, const Series *s, const struct rq_value *v) {
        const char *source[SOURCE_NAMES_MAX];
        Row row = series_row(m, s);
        uint64_t owned[_OWNED_BY_MAX];
        int r;

        for (size_t i = 0; i < _OWNED_BY_MAX; i++)
                owned[i] = v->owned_bytes[i];
        row.bytes = v->bytes;
        row.errors = v->errors;
        row.owned_bytes = owned;

        row.phase = rq_part_to_string(RQ_PART_QUEUE);
        sources_of_request(&m->sources, RQ_PART_QUEUE, source);
        row.source = source;
        row_set_full(&row, &v->queue);
        r = sink_row(k, &row, s->serial << CURSOR_SHIFT | RQ_PART_QUEUE);
        if (r < 0)
                return r;

        row.phase = rq_part_to_string(RQ_PART_DEVICE);
        sources_of_request(&m->sources, RQ_PART_DEVICE, source);
        row.untimed = v->untimed;
        row_set_full(&row, &v->device);
        row_set_in_flight(m, k, s, &row);

        return sink_row(k, &row, s->serial << CURSOR_SHIFT | RQ_PART_DEVICE);
}

static int row_sink_age(Manager *m, RowSink *k, const Series *s, const struct age_value *v) {
        const char *source[SOURCE_NAMES_MAX];
        Row row = series_row(m, s);

        row.phase = PHASE_DIRTY_AGE;
        sources_of_age(&m->sources, source);
        row.source = source;
        row_set_short(&row, &v->age);

        return sink_row(k, &row, s->serial << CURSOR_SHIFT);
}

bool row_filter_matches(const RowFilter *filter, const Series *s) {
        return unit_matches(filter->units, s) && strv_has(filter->ops, series_op_name(s));
}

static int sink_series(Manager *m, RowSink *k, const Series *s) {
        struct op_value op;
        struct rq_value rq;
        struct age_value age;
        int r;

        if (!row_filter_matches(k->filter, s))
                return 0;
        if (s->is_age) {
                r = series_read_age(m->series, s, k->current, &age);
                return r < 0 ? r : row_sink_age(m, k, s, &age);
        }
        if (s->is_request) {
                r = series_read_rq(m->series, s, k->current, &rq);
                return r < 0 ? r : row_sink_rq(m, k, s, &rq);
        }
        r = series_read_op(m->series, s, k->current, &op);

        return r < 0 ? r : row_sink_op(m, k, s, &op);
}

int query_rows(Manager *m, const RowFilter *filter, uint64_t cursor, uint32_t limit, row_callback callback,
               void *userdata, uint64_t *ret_next) {
        static const RowFilter everything = {};
        RowSink k = {
                .filter = filter ?: &everything,
                .cursor = cursor,
                .left = limit,
                .callback = callback,
                .userdata = userdata,
        };
        Series *const *all;
        size_t n;
        int r;

        if (cursor == 0) { /* pages of one listing go through one state of things */
                r = manager_refresh(m);
                if (r < 0)
                        return r;
        }
        all = series_table_all(m->series, &n);
        for (size_t i = series_table_find(m->series, cursor >> CURSOR_SHIFT); i < n && !k.more; i++) {
                r = sink_series(m, &k, all[i]);
                if (r < 0)
                        return r;
        }
        *ret_next = k.more ? k.last : 0;

        return 0;
}

int query_unit_current_rows(Manager *m, const char *unit, row_callback callback, void *userdata) {
        static const RowFilter everything = {};
        RowSink k = {
                .filter = &everything,
                .left = UINT32_MAX,
                .current = true,
                .callback = callback,
                .userdata = userdata,
        };
        bool known = false;
        Series *const *all;
        size_t n;
        int r;

        r = manager_refresh(m);
        if (r < 0)
                return r;
        all = series_table_all(m->series, &n);
        for (size_t i = 0; i < n; i++) {
                if (!streq(all[i]->unit, unit))
                        continue;
                known = true;
                r = sink_series(m, &k, all[i]);
                if (r < 0)
                        return r;
        }

        return known ? 0 : -ENOENT;
}

static int compare_text(const void *a, const void *b) {
        return strcmp(*(const char *const *) a, *(const char *const *) b);
}

int query_units(Manager *m, unit_callback callback, void *userdata) {
        _cleanup_free_ const char **names = NULL;
        Series *const *all;
        size_t n;
        int r;

        r = manager_refresh(m);
        if (r < 0)
                return r;
        all = series_table_all(m->series, &n);
        names = calloc(n + 1, sizeof(names[0]));
        if (!names)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                names[i] = all[i]->unit;
        qsort(names, n, sizeof(names[0]), compare_text);
        for (size_t i = 0; i < n; i++) {
                if (i > 0 && streq(names[i], names[i - 1]))
                        continue;
                r = callback(names[i], userdata);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int parse_device(const char *s, uint32_t *ret) {
        unsigned major, minor;
        char rest;

        if (sscanf(s, "%u:%u%c", &major, &minor, &rest) != 2 || major > 0xfff || minor > 0xfffff)
                return -EINVAL;
        *ret = major << 20 | minor;

        return 0;
}

typedef struct HistogramQuery {
        const char *unit;
        int op; /* or kind of request */
        int phase; /* -1: total; or part of a request */
        bool is_request;
        bool is_age; /* of dirty data: op and phase are 0 */
        bool any_device;
        uint32_t dev;
} HistogramQuery;

static int histogram_query_parse(HistogramQuery *q, const char *op, const char *phase, const char *device) {
        int r;

        q->op = rq_kind_from_string(op);
        q->is_request = q->op >= 0;
        q->is_age = streq(op, OP_WRITEBACK) && streq(phase, PHASE_DIRTY_AGE);
        if (q->is_age)
                q->op = q->phase = 0;
        else if (q->is_request)
                q->phase = rq_part_from_string(phase);
        else {
                q->op = op_from_string(op);
                q->phase = streq(phase, "total") ? -1 : phase_from_string(phase);
        }
        if (q->op < 0 || (q->phase < 0 && !(q->phase == -1 && streq(phase, "total"))))
                return -EINVAL;
        q->any_device = isempty(device);
        if (!q->any_device) {
                r = parse_device(device, &q->dev);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int histogram_add(Manager *m, const HistogramQuery *q, const Series *s, struct hist_full *full,
                         struct hist_short *shorter) {
        int r;

        if (s->is_age) {
                struct age_value v;

                r = series_read_age(m->series, s, false, &v);
                if (r < 0)
                        return r;
                hist_short_add(shorter, &v.age);
        } else if (s->is_request) {
                struct rq_value v;

                r = series_read_rq(m->series, s, false, &v);
                if (r < 0)
                        return r;
                hist_full_add(full, q->phase == RQ_PART_QUEUE ? &v.queue : &v.device);
        } else {
                struct op_value v;

                r = series_read_op(m->series, s, false, &v);
                if (r < 0)
                        return r;
                if (q->phase < 0)
                        hist_full_add(full, &v.total);
                else
                        hist_short_add(shorter, &v.phase[q->phase]);
        }

        return 0;
}

int query_histogram(Manager *m, const char *unit, const char *op, const char *phase, const char *device,
                    bucket_callback callback, void *userdata) {
        HistogramQuery q = { .unit = unit };
        struct hist_full full = {};
        struct hist_short shorter = {};
        Series *const *all;
        size_t n;
        int r;

        r = histogram_query_parse(&q, op, phase, device);
        if (r < 0)
                return r;
        r = manager_refresh(m);
        if (r < 0)
                return r;
        all = series_table_all(m->series, &n);
        for (size_t i = 0; i < n; i++) {
                const Series *s = all[i];

                if (s->is_request != q.is_request || s->is_age != q.is_age || s->op != q.op || !streq(s->unit, unit) ||
                    (!q.any_device && s->dev != q.dev))
                        continue;
                r = histogram_add(m, &q, s, &full, &shorter);
                if (r < 0)
                        return r;
        }
        if (full.count + shorter.count == 0)
                return -ENOENT;

        return q.is_request || q.phase < 0 ?
                hand_out_buckets(full.bucket, BUCKETS_FULL, bucket_full_upper, callback, userdata) :
                hand_out_buckets(shorter.bucket, BUCKETS_SHORT, bucket_short_upper, callback, userdata);
}

int query_unit_by_pid(Manager *m, uint32_t pid, char **ret) {
        _cleanup_free_ char *path = NULL;
        int r;

        r = cgroup_of_pid(pid, &path);
        if (r < 0)
                return r;
        r = unit_path_decode(path, ret, NULL, NULL);

        return r == -EINVAL ? -ENOENT : r;
}
