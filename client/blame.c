/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "blame-rows.h"
#include "format.h"
#include "json.h"
#include "log.h"
#include "pager.h"
#include "range.h"
#include "table.h"
#include "term.h"
#include "text.h"

enum {
        PLACES_MAX = 8, /* phases and steps that a weight is said to apply to */
};

static const Column columns[] = {
        { "VICTIM", NULL, COLUMN_SHRINK },
        { "CULPRIT", NULL, COLUMN_SHRINK },
        { "PHASE", NULL },
        { "STEP", NULL },
        { "DEVICE", NULL },
        { "TIME", NULL, COLUMN_RIGHT },
        { "SHARE", NULL, COLUMN_RIGHT },
        /* With --all */
        { "MOUNT", NULL, COLUMN_SHRINK },
        { "WEIGHT", NULL },
};

enum {
        N_ALL_COLUMNS = 2,
};

/* Our own text, with a mark if it is no measurement. */
static void add_marked(Table *t, bool estimated, const char *text) {
        char *s;

        if (asprintf(&s, "%s%s", estimated ? "~" : "", text) < 0)
                s = NULL;
        table_add_drawing(t, s);
}

static void add_row(Table *t, const BlameRow *row, const Options *o) {
        char share[FORMAT_MAX];

        snprintf(share, sizeof(share), "%u%%", percent(row->sum_ns, row->victim_ns));

        table_add_text(t, row->victim);
        table_add_text(t, row->culprit);
        table_add_text(t, row->phase);
        table_add_text(t, row->step);
        table_add_text(t, row->device);
        add_marked(t, row->estimated, FORMAT_NSEC(row->sum_ns));
        add_marked(t, row->estimated, share);
        if (!o->all)
                return;
        table_add_text(t, row->mount_point);
        table_add_text(t, row->weight);
}

static bool same_place(const BlameRow *a, const BlameRow *b) {
        return streq(a->phase, b->phase) && streq(strempty(a->step), strempty(b->step));
}

static bool same_weight(const BlameRow *a, const BlameRow *b) {
        return a->weight && b->weight && streq(a->weight, b->weight);
}

/* "  journal log, journal record: log blocks by handles" for the weight of the i-th row, if none before had it. */
static int print_weight(const BlameRows *rows, size_t i) {
        const BlameRow *places[PLACES_MAX];
        _cleanup_free_ char *weight = NULL;
        const char *text;
        size_t n = 0;

        for (size_t k = 0; k < i; k++)
                if (same_weight(&rows->items[k], &rows->items[i]))
                        return 0;
        weight = text_escape(rows->items[i].weight);
        if (!weight)
                return -ENOMEM;

        fputs("  ", stdout);
        for (size_t k = i; k < rows->n && n < PLACES_MAX; k++) {
                const BlameRow *row = &rows->items[k];
                _cleanup_free_ char *phase = NULL, *step = NULL;
                bool known = !same_weight(row, &rows->items[i]);

                for (size_t p = 0; p < n && !known; p++)
                        known = same_place(places[p], row);
                if (known)
                        continue;
                phase = text_escape(row->phase);
                step = text_escape(strempty(row->step));
                if (!phase || !step)
                        return -ENOMEM;
                printf("%s%s%s%s", n > 0 ? ", " : "", phase, isempty(step) ? "" : " ", step);
                places[n++] = row;
        }
        text = blame_weight_text(rows->items[i].weight);
        printf(": %s%s%s\n", weight, text ? ", " : "", strempty(text));

        return 0;
}

static int print_weights(const BlameRows *rows) {
        bool any = false, estimated = false;
        int r;

        for (size_t i = 0; i < rows->n; i++) {
                estimated = estimated || rows->items[i].estimated;
                if (!rows->items[i].weight)
                        continue;
                if (!any)
                        puts("Time was divided by:");
                any = true;
                r = print_weight(rows, i);
                if (r < 0)
                        return r;
        }
        if (estimated)
                puts("~ is estimated; where it is not, who it was is known, and the rule says how much.");

        return 0;
}

static int print_rows(const BlameRows *rows, const Options *o) {
        _cleanup_(table_freep) Table *t = NULL;
        int r;

        t = table_new(columns, ELEMENTSOF(columns) - (o->all ? 0 : N_ALL_COLUMNS));
        if (!t)
                return -ENOMEM;
        for (size_t i = 0; i < rows->n; i++)
                add_row(t, &rows->items[i], o);
        r = table_print(t, o, "rows");
        if (r < 0 || !o->legend)
                return r;

        return print_weights(rows);
}

static int print_json(const BlameRows *rows, const Options *o) {
        JsonArray array = { .mode = o->output };
        int r;

        for (size_t i = 0; i < rows->n; i++) {
                r = json_array_add(&array, blame_row_to_json(&rows->items[i]));
                if (r < 0)
                        return r;
        }
        json_array_end(&array);

        return 0;
}

/* Whether it stands in the list before that place, too. */
static bool is_repeated(char **list, char **item) {
        for (char **p = list; p < item; p++)
                if (streq(*p, *item))
                        return true;

        return false;
}

/* Names are asked for one by one, so that the daemon can say that there is no such unit; patterns are matched
 * here. Returns an exit code > 0 if there is no such unit. */
static int get_rows(Query *q, char **names, const Range *range, BlameRows *rows) {
        bool has_pattern = false;
        int r;

        for (char **name = names; *name; name++) {
                has_pattern = has_pattern || unit_name_is_pattern(*name);
                if (unit_name_is_pattern(*name) || is_repeated(names, name))
                        continue;
                r = query_blame(q, *name, range, rows);
                if (r == -ENOENT || r == -ESRCH)
                        return query_log_no_unit(*name);
                if (r < 0)
                        return r;
        }
        if (*names && !has_pattern)
                return 0;

        blame_rows_clear(rows);
        r = query_blame(q, "", range, rows);

        return r == -ENOENT || r == -ESRCH ? 0 : r;
}

static void filter(BlameRows *rows, char **names, char **phases) {
        size_t kept = 0;

        for (size_t i = 0; i < rows->n; i++)
                if (unit_name_matches(names, rows->items[i].victim) && strv_allows(phases, rows->items[i].phase))
                        rows->items[kept++] = rows->items[i];
                else
                        blame_row_clear(&rows->items[i]);
        rows->n = kept;
}

/* What is left are the largest: the rows are sorted. The shares are still those of all. */
static void limit(BlameRows *rows, uint64_t lines) {
        while (rows->n > lines)
                blame_row_clear(&rows->items[--rows->n]);
}

int verb_blame(int argc, char **argv, const Options *o) {
        _cleanup_(query_freep) Query *q = NULL;
        _cleanup_(strv_freep) char **names = NULL;
        _cleanup_(blame_rows_clear) BlameRows rows = {};
        Range range, covered;
        int r;

        r = range_from_options(o, &range);
        if (r < 0)
                return r;
        if (unit_names_mangle(argc - 1, argv + 1, &names) < 0)
                return log_oom();
        r = query_new(o, &q);
        if (r < 0)
                return r;
        r = get_rows(q, names, &range, &rows);
        if (r != 0)
                return r;
        r = query_covered(q, &range, &covered);
        if (r < 0)
                return r;
        if (o->has_range && rows.n == 0 && !range_is_covered(&covered))
                return range_log_nothing(q);

        blame_rows_sort(&rows);
        filter(&rows, names, o->phases);
        limit(&rows, o->lines);
        pager_open(o);
        r = o->output == OUTPUT_TABLE ? print_rows(&rows, o) : print_json(&rows, o);
        if (r < 0)
                return log_oom();
        if (range_is_covered(&covered))
                range_print_covered(&range, &covered, o);

        return EXIT_SUCCESS;
}
