/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <time.h>

#include "format.h"
#include "json.h"
#include "log.h"
#include "query.h"
#include "table.h"
#include "term.h"

enum {
        GROUP_MAX = 64,     /* phases of one operation */
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
        { "ALL-P99", "p99NSec", COLUMN_RIGHT },
        { NULL, "phases" },
        { "PHASES", NULL, COLUMN_SHRINK },
};

/* What an operation did since the last look. The strings belong to the rows. */
typedef struct Entry {
        const Row *total;
        uint64_t count;
        uint64_t errors;
        uint64_t sum_ns;
        Share shares[SHARES_MAX];
        size_t n_shares;
} Entry;

static void wait_ns(uint64_t ns) {
        struct timespec ts = { .tv_sec = (time_t) (ns / NSEC_PER_SEC), .tv_nsec = (long) (ns % NSEC_PER_SEC) };

        while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
                ;
}

static int compare_rows(const void *a, const void *b) {
        return row_compare(a, b);
}

/* Subtracts what was there before. Counters only grow, but a unit that is gone may have been added to another
 * row. */
static void subtract(Row *row, const Rows *before) {
        const Row *old;

        old = before->n > 0 ? bsearch(row, before->items, before->n, sizeof(Row), compare_rows) : NULL;
        if (!old)
                return;
        row->count -= MIN(row->count, old->count);
        row->errors -= MIN(row->errors, old->errors);
        row->sum_ns -= MIN(row->sum_ns, old->sum_ns);
}

static void entry_fill(Entry *e, const Row *group, size_t n, const Rows *before) {
        Row changed[GROUP_MAX];
        const Row *total;

        *e = (Entry){};
        n = MIN(n, (size_t) GROUP_MAX);
        for (size_t i = 0; i < n; i++) {
                changed[i] = group[i]; /* borrows the strings */
                subtract(&changed[i], before);
        }
        total = group_find(changed, n, "total");
        if (!total)
                return;
        e->total = group_find(group, n, "total");
        e->count = total->count;
        e->errors = total->errors;
        e->sum_ns = total->sum_ns;
        e->n_shares = group_shares(changed, n, e->shares);
        shares_sort(e->shares, e->n_shares);
}

static int compare_entries(const void *a, const void *b) {
        const Entry *x = a, *y = b;

        return x->sum_ns > y->sum_ns ? -1 : x->sum_ns < y->sum_ns ? 1 : row_compare(x->total, y->total);
}

static int collect(const Rows *before, const Rows *after, Entry **ret, size_t *ret_n) {
        _cleanup_free_ Entry *entries = NULL;
        size_t n = 0, allocated = 0, end;

        for (size_t i = 0; i < after->n; i = end) {
                Entry e;

                end = rows_group_end(after, i);
                if (row_is_request(&after->items[i]))
                        continue;
                entry_fill(&e, &after->items[i], end - i, before);
                if (e.count == 0)
                        continue;
                if (n >= allocated) {
                        Entry *more;

                        allocated = MAX(allocated * 2, (size_t) 32);
                        more = reallocarray(TAKE_PTR(entries), allocated, sizeof(Entry));
                        if (!more)
                                return -ENOMEM;
                        entries = more;
                }
                entries[n++] = e;
        }
        if (n > 0)
                qsort(entries, n, sizeof(Entry), compare_entries);
        *ret = TAKE_PTR(entries);
        *ret_n = n;

        return 0;
}

static json_object *phases_to_json(const Entry *e) {
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

static void add_entry(Table *t, const Entry *e, uint64_t interval_ns) {
        double per_second = (double) e->count * (double) NSEC_PER_SEC / (double) MAX(interval_ns, (uint64_t) 1);
        char *rate = NULL;

        if (asprintf(&rate, per_second < 10 ? "%.1f" : "%.0f", per_second) < 0)
                rate = NULL;

        table_add_text(t, e->total->unit);
        table_add_text(t, e->total->user_unit);
        table_add_text(t, e->total->op);
        table_add_text(t, e->total->device);
        table_add_json(t, json_object_new_boolean(e->total->async));
        table_add_nsec(t, interval_ns);
        table_add_count(t, e->count);
        table_add_drawing(t, rate);
        table_add_count(t, e->errors);
        table_add_nsec(t, e->sum_ns);
        table_add_drawing(t, strdup(FORMAT_NSEC(e->sum_ns / e->count)));
        table_add_nsec(t, e->total->p99_ns);
        table_add_json(t, phases_to_json(e));
        table_add_drawing(t, shares_text(e->shares, e->n_shares, SHARES_SHOWN));
}

static int show(const Entry *entries, size_t n, uint64_t interval_ns, const Options *o) {
        _cleanup_(table_freep) Table *t = NULL;

        t = table_new(columns, ELEMENTSOF(columns));
        if (!t)
                return -ENOMEM;
        if (o->output == OUTPUT_TABLE && term_is_terminal()) {
                term_clear();
                n = MIN(n, (size_t) MAX(term_lines(), LINES_BESIDE + 1U) - LINES_BESIDE);
                if (o->legend)
                        printf("Waits of the last %s\n\n", FORMAT_NSEC(interval_ns));
        }
        for (size_t i = 0; i < n; i++)
                add_entry(t, &entries[i], interval_ns);

        return table_print(t, o, term_is_terminal() ? NULL : "operations");
}

static int iterate(Query *q, Rows *before, uint64_t *since_ns, const Options *o) {
        _cleanup_(rows_clear) Rows after = {};
        _cleanup_free_ Entry *entries = NULL;
        uint64_t now;
        size_t n;
        int r;

        wait_ns(o->delay_ns);
        r = query_rows(q, NULL, o->ops, NULL, &after);
        if (r < 0)
                return r;
        now = now_ns();
        if (collect(before, &after, &entries, &n) < 0 || show(entries, n, now - *since_ns, o) < 0)
                return log_oom();
        *since_ns = now;

        /* The entries, which borrow from these rows, are not needed any more. */
        rows_clear(before);
        *before = after;
        after = (Rows){};

        return 0;
}

int verb_top(int argc, char **argv, const Options *o) {
        _cleanup_(query_freep) Query *q = NULL;
        _cleanup_(rows_clear) Rows before = {};
        uint64_t iterations = o->lines, since_ns;
        int r;

        if (iterations == 0) {
                log_error("The number of iterations must be a number above 0.");
                return -EINVAL;
        }
        if (iterations == UINT64_MAX && !term_is_terminal())
                iterations = 1;
        r = query_new(o, &q);
        if (r < 0)
                return r;
        r = query_rows(q, NULL, o->ops, NULL, &before);
        if (r < 0)
                return r;
        since_ns = now_ns();

        for (uint64_t i = 0; i < iterations; i++) {
                r = iterate(q, &before, &since_ns, o);
                if (r < 0)
                        return r;
                /* Nobody reads any more, or the disk is full: what it was is told at the exit. */
                if (fflush(stdout) != 0)
                        break;
        }

        return EXIT_SUCCESS;
}
