/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "growth.h"
#include "names.h"
#include "top-model.h"

enum {
        GROUP_MAX = 64, /* rows of one operation */
};

void top_model_clear(TopModel *m) {
        rows_clear(&m->rows);
        free(m->deltas);
        free(m->entries);
        *m = (TopModel){};
}

static int compare_rows(const void *a, const void *b) {
        return row_compare(a, b);
}

static Row *rows_find(const Rows *rows, const Row *row) {
        return rows->n > 0 ? bsearch(row, rows->items, rows->n, sizeof(Row), compare_rows) : NULL;
}

static bool is_exited(const Row *row) {
        return row->unit && streq(row->unit, UNIT_EXITED);
}

/* Of what a row has more than another. */
static uint64_t p99(const Row *row, const Row *before) {
        Growth g;

        growth_begin(&g, row->phase, &row->buckets);
        if (before)
                growth_subtract(&g, &before->buckets);

        return growth_quantile(&g, 0.99, ROW_HAS(row, max_ns) ? row->max_ns : UINT64_MAX);
}

/* Counters only grow, so that one which is smaller than it was began anew. */
static TopDelta row_delta(const Row *row, const Row *before) {
        bool anew = !before || row->count < before->count || row->sum_ns < before->sum_ns;

        if (anew)
                return (TopDelta){ row->count, row->errors, row->bytes, row->sum_ns, p99(row, NULL) };

        return (TopDelta){
                row->count - before->count,
                row->errors - MIN(row->errors, before->errors),
                row->bytes - MIN(row->bytes, before->bytes),
                row->sum_ns - before->sum_ns,
                row->count > before->count ? p99(row, before) : 0,
        };
}

/* Units that are too many and gone are added to those of "(exited)": that is nothing that happened now. */
static void take_back(const Rows *after, const Rows *before, TopDelta *deltas) {
        for (size_t i = 0; i < before->n; i++) {
                const Row *gone = &before->items[i], *to;
                Row key = *gone;
                TopDelta *d;

                if (is_exited(gone) || rows_find(after, gone))
                        continue;
                key.unit = (char *) UNIT_EXITED;
                key.user_unit = NULL;
                to = rows_find(after, &key);
                if (!to)
                        continue;
                d = &deltas[to - after->items];
                d->count -= MIN(d->count, gone->count);
                d->errors -= MIN(d->errors, gone->errors);
                d->bytes -= MIN(d->bytes, gone->bytes);
                d->sum_ns -= MIN(d->sum_ns, gone->sum_ns);
                d->p99_ns = 0; /* what is that of a few of them? */
        }
}

static TopDelta *differences(const Rows *after, const Rows *before) {
        TopDelta *deltas;
        bool exited = false;

        deltas = calloc(MAX(after->n, (size_t) 1), sizeof(TopDelta));
        if (!deltas)
                return NULL;
        for (size_t i = 0; i < after->n; i++) {
                deltas[i] = row_delta(&after->items[i], rows_find(before, &after->items[i]));
                exited = exited || is_exited(&after->items[i]);
        }
        if (exited)
                take_back(after, before, deltas);

        return deltas;
}

static void fill_shares(TopEntry *e) {
        Row changed[GROUP_MAX];

        for (size_t i = 0; i < e->n_rows; i++) {
                changed[i] = e->group[i]; /* borrows the strings */
                changed[i].count = e->deltas[i].count;
                changed[i].sum_ns = e->deltas[i].sum_ns;
        }
        e->n_shares = group_shares(changed, e->n_rows, e->shares);
        shares_sort(e->shares, e->n_shares);
}

static bool entry_fill(const Row *group, const TopDelta *deltas, size_t n, TopEntry *e) {
        *e = (TopEntry){ .group = group, .deltas = deltas, .n_rows = MIN(n, (size_t) GROUP_MAX) };

        if (!row_is_request(group)) {
                e->row = group_find(group, e->n_rows, "total");
                if (!e->row || e->row->count == 0)
                        return false;
                e->delta = deltas[e->row - group];
        } else {
                e->row = group_find(group, e->n_rows, "device");
                if (!e->row || row_is_uncounted(e->row))
                        return false;
                e->delta = deltas[e->row - group];
                e->delta.sum_ns = 0;
                for (size_t i = 0; i < e->n_rows; i++)
                        e->delta.sum_ns += deltas[i].sum_ns;
        }
        fill_shares(e);

        return true;
}

bool top_model_entry(const TopModel *m, size_t i, TopEntry *ret) {
        return entry_fill(&m->rows.items[i], &m->deltas[i], rows_group_end(&m->rows, i) - i, ret);
}

static int compare_entries(const void *a, const void *b) {
        const TopEntry *x = a, *y = b;

        return row_compare(x->row, y->row);
}

const TopEntry *top_model_find(const TopModel *m, const Row *row) {
        TopEntry key = { .row = row };

        return m->n_entries > 0 ? bsearch(&key, m->entries, m->n_entries, sizeof(TopEntry), compare_entries) : NULL;
}

/* Moves what was on, and says whether anything happened in the time that is remembered. */
static bool entry_remember(TopEntry *e, const TopEntry *before) {
        bool any = e->delta.count > 0;

        if (any)
                e->history[0] = MAX(e->delta.sum_ns / e->delta.count, (uint64_t) 1);
        for (size_t i = 1; before && i < TOP_HISTORY; i++) {
                e->history[i] = before->history[i - 1];
                any = any || e->history[i] > 0;
        }

        return any;
}

static int collect(const TopModel *m, const Rows *rows, const TopDelta *deltas, TopEntry **ret, size_t *ret_n) {
        _cleanup_free_ TopEntry *entries = NULL;
        size_t n = 0, allocated = 0, end;

        for (size_t i = 0; i < rows->n; i = end) {
                TopEntry e;

                end = rows_group_end(rows, i);
                if (row_is_request(&rows->items[i]) ||
                    !entry_fill(&rows->items[i], &deltas[i], end - i, &e) ||
                    !entry_remember(&e, top_model_find(m, e.row)))
                        continue;
                if (n >= allocated) {
                        TopEntry *more;

                        allocated = MAX(allocated * 2, (size_t) 32);
                        more = reallocarray(entries, allocated, sizeof(TopEntry));
                        if (!more)
                                return -ENOMEM;
                        entries = more;
                }
                entries[n++] = e;
        }
        *ret = TAKE_PTR(entries);
        *ret_n = n;

        return 0;
}

int top_model_update(TopModel *m, Rows *rows, uint64_t at_ns) {
        _cleanup_free_ TopDelta *deltas = NULL;
        TopEntry *entries = NULL;
        size_t n_entries = 0;
        bool first = m->at_ns == 0;

        deltas = first ? calloc(MAX(rows->n, (size_t) 1), sizeof(TopDelta)) : differences(rows, &m->rows);
        if (!deltas)
                return -ENOMEM;
        if (!first && collect(m, rows, deltas, &entries, &n_entries) < 0)
                return -ENOMEM;

        rows_clear(&m->rows);
        free(m->deltas);
        free(m->entries);
        *m = (TopModel){
                .rows = *rows,
                .deltas = TAKE_PTR(deltas),
                .entries = entries,
                .n_entries = n_entries,
                .at_ns = MAX(at_ns, (uint64_t) 1),
                .interval_ns = first ? 0 : MAX(at_ns - MIN(at_ns, m->at_ns), (uint64_t) 1),
        };
        *rows = (Rows){};

        return 0;
}

TopDelta top_model_sum(const TopModel *m) {
        TopDelta sum = {};

        for (size_t i = 0; i < m->n_entries; i++) {
                const TopDelta *d = &m->entries[i].delta;

                sum.count += d->count;
                sum.errors += d->errors;
                sum.sum_ns += d->sum_ns;
        }

        return sum;
}

size_t top_model_units(const TopModel *m) {
        const Row *last = NULL;
        size_t n = 0;

        for (size_t i = 0; i < m->rows.n; i++) {
                const Row *row = &m->rows.items[i];

                if (row_is_dirty_age(row) || (last && streq(strempty(row->unit), strempty(last->unit))))
                        continue;
                last = row;
                n++;
        }

        return n;
}

double top_per_second(const TopModel *m, uint64_t n) {
        return m->interval_ns == 0 ? 0 : (double) n * (double) NSEC_PER_SEC / (double) m->interval_ns;
}

uint64_t top_whole_per_second(const TopModel *m, uint64_t n) {
        double rate = top_per_second(m, n);

        return rate < (double) UINT64_MAX ? (uint64_t) rate : UINT64_MAX;
}
