/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "histogram.h"
#include "manager.h"
#include "names.h"
#include "query-summary.h"
#include "summary-fold.h"

/* Sums up what belongs into one row. */
typedef struct Sum {
        uint64_t count;
        uint64_t errors;
        uint64_t bytes;
        struct hist_full times;
} Sum;

static int compare_series(const void *a, const void *b) {
        const Series *x = *(const Series *const *) a, *y = *(const Series *const *) b;
        int r;

        r = strcmp(x->unit, y->unit);
        if (r == 0)
                r = (x->is_request > y->is_request) - (x->is_request < y->is_request);
        if (r == 0)
                r = (x->op > y->op) - (x->op < y->op);
        if (r == 0 && x->is_request)
                r = (x->dev > y->dev) - (x->dev < y->dev);

        return r;
}

static int add_series(Manager *m, const Series *s, Sum *sum) {
        struct op_value op;
        struct rq_value rq;
        int r;

        if (!s->is_request) {
                r = series_read_op(m->series, s, false, &op);
                if (r < 0)
                        return r;
                sum->count += op.total.count;
                sum->errors += op.errors;
                hist_full_add(&sum->times, &op.total);
                return 0;
        }
        r = series_read_rq(m->series, s, false, &rq);
        if (r < 0)
                return r;
        sum->count += rq.device.count + rq.untimed;
        sum->errors += rq.errors;
        sum->bytes += rq.bytes;
        hist_full_add(&sum->times, &rq.device);

        return 0;
}

static void add_sum(Sum *to, const Sum *sum) {
        to->count += sum->count;
        to->errors += sum->errors;
        to->bytes += sum->bytes;
        hist_full_add(&to->times, &sum->times);
}

static int add_row(Summary *to, size_t max, const char *unit, bool is_request, int op, uint32_t dev, const Sum *sum) {
        SummaryRow *row;

        if (sum->count == 0 && sum->errors == 0)
                return 0;
        if (to->n >= max)
                return -ENOBUFS;
        row = &to->rows[to->n];
        *row = (SummaryRow){
                .unit = strdup(unit),
                .op = is_request ? rq_kind_to_string(op) : op_to_string(op),
                .is_request = is_request,
                .dev = dev,
                .count = sum->count,
                .errors = sum->errors,
                .bytes = sum->bytes,
                .timed = sum->times.count,
                .sum_ns = sum->times.sum_ns,
                .p50_ns = hist_full_quantile(&sum->times, 0.5),
                .p99_ns = hist_full_quantile(&sum->times, 0.99),
                .max_ns = sum->times.max_ns,
        };
        if (!row->unit)
                return -ENOMEM;
        to->n++;

        return 0;
}

typedef struct SortedSeries {
        const Series **all;
        size_t n;
        FoldUnit *units; /* in the same order */
        size_t n_units;
} SortedSeries;

static void sorted_series_done(SortedSeries *s) {
        free(s->all);
        free(s->units);
}

static int sort_series(Manager *m, SortedSeries *ret) {
        Series *const *all;
        size_t n;

        all = series_table_all(m->series, &n);
        ret->all = calloc(n + 1, sizeof(ret->all[0]));
        ret->units = calloc(n + 1, sizeof(ret->units[0]));
        if (!ret->all || !ret->units)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                if (all[i]->is_request || all[i]->origin != ORIGIN_LOOP)
                        ret->all[ret->n++] = all[i];
        qsort(ret->all, ret->n, sizeof(ret->all[0]), compare_series);

        /* A unit's rows are counted as if none of them was empty. */
        for (size_t i = 0; i < ret->n; i++) {
                if (i == 0 || !streq(ret->all[i]->unit, ret->all[i - 1]->unit))
                        ret->units[ret->n_units++] = (FoldUnit){ .name = ret->all[i]->unit };
                else if (compare_series(&ret->all[i], &ret->all[i - 1]) == 0)
                        continue;
                ret->units[ret->n_units - 1].rows++;
        }

        return 0;
}

/* How long each unit has waited. */
static int weigh(Manager *m, SortedSeries *s) {
        FoldUnit *unit = s->units;

        for (size_t i = 0; i < s->n; i++) {
                Sum sum = {};
                int r;

                if (i > 0 && !streq(s->all[i]->unit, s->all[i - 1]->unit))
                        unit++;
                r = add_series(m, s->all[i], &sum);
                if (r < 0)
                        return r;
                unit->weight += sum.times.sum_ns;
        }

        return 0;
}

static int sum_up(Manager *m, const SortedSeries *s, size_t max, Sum others[static SUMMARY_ROWS_OF_OTHERS],
                  Summary *ret) {
        const FoldUnit *unit = s->units;
        int r;

        for (size_t i = 0, end; i < s->n; i = end) {
                const Series *first = s->all[i];
                Sum sum = {};

                if (i > 0 && !streq(first->unit, s->all[i - 1]->unit))
                        unit++;
                for (end = i; end < s->n && compare_series(&s->all[end], &first) == 0; end++) {
                        r = add_series(m, s->all[end], &sum);
                        if (r < 0)
                                return r;
                }
                if (unit->folded) {
                        add_sum(&others[first->is_request ? _OP_MAX + first->op : first->op], &sum);
                        continue;
                }
                r = add_row(ret, max, first->unit, first->is_request, first->op, first->is_request ? first->dev : 0,
                            &sum);
                if (r < 0)
                        return r;
        }

        return 0;
}

int query_summary(Manager *m, size_t max, Summary *ret) {
        _cleanup_(sorted_series_done) SortedSeries s = {};
        _cleanup_free_ Sum *others = NULL;
        int r;

        *ret = (Summary){};
        r = manager_refresh(m);
        if (r >= 0)
                r = sort_series(m, &s);
        if (r < 0)
                return r;
        others = calloc(SUMMARY_ROWS_OF_OTHERS, sizeof(others[0]));
        ret->rows = calloc(max, sizeof(ret->rows[0]));
        if (!others || !ret->rows)
                r = -ENOMEM;
        if (r >= 0 && fold_needed(s.units, s.n_units, max)) {
                r = weigh(m, &s);
                if (r >= 0)
                        r = fold_choose(s.units, s.n_units, max - SUMMARY_ROWS_OF_OTHERS, &ret->n_folded);
        }
        if (r >= 0)
                r = sum_up(m, &s, max, others, ret);
        for (int i = 0; i < SUMMARY_ROWS_OF_OTHERS && r >= 0; i++)
                r = add_row(ret, max, UNIT_OTHERS, i >= _OP_MAX, i >= _OP_MAX ? i - _OP_MAX : i, 0, &others[i]);
        if (r < 0)
                summary_done(ret);

        return r;
}

void summary_done(Summary *s) {
        for (size_t i = 0; i < s->n; i++)
                free(s->rows[i].unit);
        free(s->rows);
        *s = (Summary){};
}
