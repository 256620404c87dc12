/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "manager.h"
#include "names.h"

typedef struct Collected {
        const char *unit; /* empty: all */
        BlameRow *rows;
        size_t n;
        size_t n_allocated;
} Collected;

static void collected_done(Collected *c) {
        free(c->rows);
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

/* Where the rows come from. What is kept is one sum over the life of this daemon, so all of it or nothing. */
static int foreach_in_span(Manager *m, uint64_t since_realtime_us, uint64_t until_realtime_us, blame_callback callback,
                           void *userdata) {
        if (until_realtime_us < m->started_realtime_us)
                return 0;

        return blame_foreach(blamer_matrix(m->blamer), callback, userdata);
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
                r = foreach_in_span(m, since_realtime_us, until_realtime_us, collect, &c);
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
