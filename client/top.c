/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <time.h>

#include "format.h"
#include "json.h"
#include "log.h"
#include "query.h"
#include "table.h"
#include "term.h"
#include "top-view.h"
#if HAVE_NCURSES
#include "top-screen.h"
#endif

enum {
        LINES_BESIDE = 4,   /* of the screen, that are not rows */
        SHARES_SHOWN = 3,
};

static const Column columns[] = {
        { "UNIT", "unit", COLUMN_SHRINK },
        { NULL, "userUnit" },
        { "OP", "op" },
        { "DEVICE", "device" },
        { NULL, "async" },
        { NULL, "intervalNSec" },
        { NULL, "count" },
        { "OPS/S", NULL, COLUMN_RIGHT },
        { "ERRORS", "errors", COLUMN_RIGHT },
        { "WAIT", "sumNSec", COLUMN_RIGHT },
        { "MEAN", NULL, COLUMN_RIGHT },
        { "P99", "p99NSec", COLUMN_RIGHT },
        { NULL, "phases" },
        { "PHASES", NULL, COLUMN_SHRINK },
};

static void wait_ns(uint64_t ns) {
        struct timespec ts = { .tv_sec = (time_t) (ns / NSEC_PER_SEC), .tv_nsec = (long) (ns % NSEC_PER_SEC) };

        while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
                ;
}

static json_object *phases_to_json(const TopEntry *e) {
        _cleanup_(json_putp) json_object *o = NULL;

        o = json_object_new_object();
        if (!o)
                return NULL;
        for (size_t i = 0; i < e->n_shares; i++) {
                _cleanup_(json_putp) json_object *name = NULL;

                name = json_string(e->shares[i].name);
                if (!name || json_add_new(o, json_object_get_string(name),
                                          json_object_new_uint64(e->shares[i].value)) < 0)
                        return NULL;
        }

        return TAKE_PTR(o);
}

static void add_entry(Table *t, const TopEntry *e, const TopModel *m) {
        double per_second = top_per_second(m, e->delta.count);
        char *rate = NULL;

        if (asprintf(&rate, per_second < 10 ? "%.1f" : "%.0f", per_second) < 0)
                rate = NULL;

        table_add_text(t, e->row->unit);
        table_add_text(t, e->row->user_unit);
        table_add_text(t, e->row->op);
        table_add_text(t, e->row->device);
        table_add_json(t, json_object_new_boolean(e->row->async));
        table_add_nsec(t, m->interval_ns);
        table_add_count(t, e->delta.count);
        table_add_drawing(t, rate);
        table_add_count(t, e->delta.errors);
        table_add_nsec(t, e->delta.sum_ns);
        table_add_drawing(t, strdup(FORMAT_NSEC(e->delta.sum_ns / e->delta.count)));
        if (e->delta.p99_ns > 0)
                table_add_nsec(t, e->delta.p99_ns);
        else
                table_add_empty(t);
        table_add_json(t, phases_to_json(e));
        table_add_drawing(t, shares_text(e->shares, e->n_shares, SHARES_SHOWN));
}

static int show(const TopModel *m, const Options *o) {
        static const TopOrder order = { .sort = TOP_SORT_WAIT };
        _cleanup_free_ const TopEntry **entries = NULL;
        _cleanup_(table_freep) Table *t = NULL;
        bool clear = o->output == OUTPUT_TABLE && term_is_terminal() && !o->batch;
        size_t n, n_max = SIZE_MAX;

        t = table_new(columns, ELEMENTSOF(columns));
        if (!t || top_select(m, &order, NULL, &entries, &n) < 0)
                return -ENOMEM;
        if (clear) {
                term_clear();
                n_max = MAX(term_lines(), LINES_BESIDE + 1U) - LINES_BESIDE;
                if (o->legend)
                        printf("Waits of the last %s\n\n", FORMAT_NSEC(m->interval_ns));
        }
        for (size_t i = 0; i < n && table_rows(t) < n_max; i++)
                if (entries[i]->delta.count > 0)
                        add_entry(t, entries[i], m);

        return table_print(t, o, clear ? NULL : "operations");
}

static int iterate(Query *q, TopModel *m, const Options *o) {
        _cleanup_(rows_clear) Rows rows = {};
        int r;

        r = query_rows_with_buckets(q, o->ops, &rows);
        if (r < 0)
                return r;
        if (top_model_update(m, &rows, now_ns()) < 0 || (m->interval_ns > 0 && show(m, o) < 0))
                return log_oom();

        return 0;
}

static int run_batch(Query *q, const Options *o) {
        _cleanup_(top_model_clear) TopModel m = {};
        uint64_t iterations = o->lines;
        int r;

        if (iterations == UINT64_MAX && !term_is_terminal())
                iterations = 1;
        r = iterate(q, &m, o);
        for (uint64_t i = 0; r >= 0 && i < iterations; i++) {
                wait_ns(o->delay_ns);
                r = iterate(q, &m, o);
                /* Nobody reads any more, or the disk is full: what it was is told at the exit. */
                if (fflush(stdout) != 0)
                        break;
        }

        return r < 0 ? r : EXIT_SUCCESS;
}

int verb_top(int argc, char **argv, const Options *o) {
        _cleanup_(query_freep) Query *q = NULL;
        int r;

        if (o->lines == 0) {
                log_error("The number of iterations must be above 0.");
                return -EINVAL;
        }
        r = query_new(o, &q);
        if (r < 0)
                return r;
#if HAVE_NCURSES
        if (!o->batch && o->output == OUTPUT_TABLE && term_is_interactive() && !term_is_dumb()) {
                r = top_screen_run(o, q);
                if (r != -EOPNOTSUPP) {
                        q = NULL; /* taken over */
                        return r;
                }
        }
#endif

        return run_batch(q, o);
}
