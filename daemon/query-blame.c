/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "history-bridge.h"
#include "manager.h"
#include "names.h"

typedef struct Collected {
        const char *unit; /* empty: all */
        BlameRow *rows;
        size_t n;
        size_t n_allocated;
        Blame *sum; /* that the rows' names belong to, if it is not the daemon's own */
} Collected;

static void collected_done(Collected *c) {
        free(c->rows);
        blame_free(c->sum);
}

static int collect(const BlameRow *row, void *userdata) {
        Collected *c = userdata;

        if (!isempty(c->unit) && !streq(row->victim, c->unit))
                return 0;
        if (c->n >= c->n_allocated) {
                size_t n = MAX(c->n_allocated * 2, (size_t) 64);
                BlameRow *rows = reallocarray(c->rows, n, sizeof(rows[0]));

                if (!rows)
                        return -ENOMEM;
                c->rows = rows;
                c->n_allocated = n;
        }
        c->rows[c->n++] = *row;

        return 0;
}

static int compare_number(uint64_t a, uint64_t b) {
        return a < b ? -1 : a > b;
}

/* The largest first; among equals an order that is always the same. */
static int compare_rows(const void *a, const void *b) {
        const BlameRow *x = a, *y = b;
        int r;

        r = compare_number(y->ns, x->ns);
        if (r == 0)
                r = strcmp(x->victim, y->victim);
        if (r == 0)
                r = strcmp(x->culprit, y->culprit);
        if (r == 0)
                r = compare_number(x->phase, y->phase);
        if (r == 0)
                r = compare_number(x->step, y->step);
        if (r == 0)
                r = compare_number(x->dev, y->dev);

        return r == 0 ? compare_number(x->weight, y->weight) : r;
}

static int add_entry(const BlameEntry *e, void *userdata) {
        const BlameRow row = blame_row_of_entry(e);

        return blame_add(userdata, &row);
}

/* All of it is a sum that only grows while the daemon lives, as counters do; a part is put together of the windows of
 * the history. */
static int collect_span(Manager *m, uint64_t since_realtime_us, uint64_t until_realtime_us, Collected *c) {
        int r;

        if (since_realtime_us == 0 && until_realtime_us == UINT64_MAX)
                return blame_foreach(blamer_matrix(m->blamer), collect, c);

        r = blame_new(&c->sum, BLAME_ROWS_MAX);
        if (r >= 0)
                r = history_foreach_blame(m->history, since_realtime_us, until_realtime_us, add_entry, c->sum);
        if (r < 0)
                return r;

        return blame_foreach(c->sum, collect, c);
}

static BlamedRow blamed_row(Manager *m, const BlameRow *row) {
        return (BlamedRow){
                .victim = row->victim,
                .culprit = row->culprit,
                .phase = blame_phase_to_string(row->phase),
                .step = row->step == BLAME_NO_STEP ? NULL : journal_step_to_string(row->step),
                .dev = row->dev,
                .mount_point = row->phase == BLAME_QUEUE ? NULL : device_table_mount_point(m->devices, row->dev),
                .sum_ns = row->ns,
                .estimated = row->estimated,
                .weight = blame_weight_to_string(row->weight),
        };
}

int query_blame(Manager *m, const char *unit, uint64_t since_realtime_us, uint64_t until_realtime_us, uint32_t limit,
                blamed_callback callback, void *userdata) {
        _cleanup_(collected_done) Collected c = { .unit = unit };
        int r;

        r = manager_refresh(m);
        if (r >= 0)
                r = collect_span(m, since_realtime_us, until_realtime_us, &c);
        if (r < 0)
                return r;
        if (c.n > 1)
                qsort(c.rows, c.n, sizeof(c.rows[0]), compare_rows);
        for (size_t i = 0; i < c.n && i < limit; i++) {
                BlamedRow row = blamed_row(m, c.rows + i);

                r = callback(&row, userdata);
                if (r < 0)
                        return r;
        }

        return 0;
}
