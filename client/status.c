/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <inttypes.h>

#include "blame-rows.h"
#include "format.h"
#include "json.h"
#include "log.h"
#include "pager.h"
#include "query.h"
#include "range.h"
#include "stall-text.h"
#include "status-unit.h"
#include "table.h"
#include "term.h"
#include "text.h"

enum {
        LARGEST_SHOWN = 10,
        BLAME_SHOWN = 5,
};

static const Column largest_columns[] = {
        { "UNIT", NULL, COLUMN_SHRINK },
        { "OP", NULL },
        { "ON", NULL, COLUMN_SHRINK },
        { "COUNT", NULL, COLUMN_RIGHT },
        { "ERRORS", NULL, COLUMN_RIGHT },
        { "WAIT", NULL, COLUMN_RIGHT },
        { "P50", NULL, COLUMN_RIGHT },
        { "P99", NULL, COLUMN_RIGHT },
        { "MAX", NULL, COLUMN_RIGHT },
};

static const Column blame_columns[] = {
        { "VICTIM", NULL, COLUMN_SHRINK },
        { "CULPRIT", NULL, COLUMN_SHRINK },
        { "PHASE", NULL },
        { "STEP", NULL },
        { "ON", NULL, COLUMN_SHRINK },
        { "TIME", NULL, COLUMN_RIGHT },
};

/* Everything that "status" shows. Pointers point into the rows. */
typedef struct Summary {
        ManagerInfo info;
        Rows rows;
        const Row **largest;
        size_t n_largest;
        BlameRows blame_rows;
        const BlameRow *blame[BLAME_SHOWN]; /* of others, not of the victims themselves */
        size_t n_blame;
        StallRows stalls;
        size_t n_in_progress;
        Range covered;
} Summary;

static void summary_clear(Summary *s) {
        manager_info_clear(&s->info);
        rows_clear(&s->rows);
        free(s->largest);
        blame_rows_clear(&s->blame_rows);
        stall_rows_clear(&s->stalls);
}

static int compare_by_wait(const void *a, const void *b) {
        const Row *x = *(const Row *const *) a, *y = *(const Row *const *) b;

        return x->sum_ns > y->sum_ns ? -1 : x->sum_ns < y->sum_ns ? 1 : row_compare(x, y);
}

/* The operations with the largest waits, pointing into rows. */
static int find_largest(const Rows *rows, const Row ***ret, size_t *ret_n) {
        _cleanup_free_ const Row **largest = NULL;
        size_t n = 0;

        largest = calloc(rows->n + 1, sizeof(Row *));
        if (!largest)
                return -ENOMEM;
        for (size_t i = 0; i < rows->n; i++)
                if (!row_is_request(&rows->items[i]) && row_is_phase(&rows->items[i], "total"))
                        largest[n++] = &rows->items[i];
        qsort(largest, n, sizeof(Row *), compare_by_wait);
        *ret = TAKE_PTR(largest);
        *ret_n = MIN(n, (size_t) LARGEST_SHOWN);

        return 0;
}

static int print_stalls(const Summary *s) {
        const StallRow *stall = stall_newest(&s->stalls, NULL);
        _cleanup_free_ char *sentence = NULL, *line = NULL;

        if (!stall)
                return 0;
        sentence = stall_sentence(stall);
        if (!sentence || asprintf(&line, "%zu in progress; newest %s: %s: %s", s->n_in_progress,
                                  FORMAT_SINCE(stall->start_us), stall->unit ?: "-", sentence) < 0)
                return -ENOMEM;

        return status_print_key("Stalls", line);
}

static int print_largest(const Summary *s, const Options *o) {
        _cleanup_(table_freep) Table *t = NULL;

        if (s->n_largest == 0) {
                printf("\nNo waits were measured %s.\n", o->has_range ? "in that time" : "so far");
                return 0;
        }
        t = table_new(largest_columns, ELEMENTSOF(largest_columns));
        if (!t)
                return -ENOMEM;
        printf("\n%sLargest waits:%s\n", term_bold(), term_normal());
        table_set_indent(t, 2);
        for (size_t i = 0; i < s->n_largest; i++) {
                const Row *row = s->largest[i];

                table_add_text(t, row->unit);
                table_add_text(t, row->op);
                table_add_text(t, row->mount_point ?: row->device);
                table_add_count(t, row->count);
                table_add_count(t, row->errors);
                table_add_nsec(t, row->sum_ns);
                table_add_nsec(t, row->p50_ns);
                table_add_nsec(t, row->p99_ns);
                table_add_nsec(t, row->max_ns);
        }

        return table_print(t, o, NULL);
}

static int print_blame(const Summary *s, const Options *o) {
        _cleanup_(table_freep) Table *t = NULL;
        bool estimated = false;
        int r;

        if (s->n_blame == 0)
                return 0;
        t = table_new(blame_columns, ELEMENTSOF(blame_columns));
        if (!t)
                return -ENOMEM;
        printf("\n%sLargest waits for others:%s\n", term_bold(), term_normal());
        table_set_indent(t, 2);
        for (size_t i = 0; i < s->n_blame; i++) {
                const BlameRow *row = s->blame[i];
                char *time;

                if (asprintf(&time, "%s%s", row->estimated ? "~" : "", FORMAT_NSEC(row->sum_ns)) < 0)
                        time = NULL;
                estimated = estimated || row->estimated;
                table_add_text(t, row->victim);
                table_add_text(t, row->culprit);
                table_add_text(t, row->phase);
                table_add_text(t, row->step);
                table_add_text(t, row->mount_point ?: row->device);
                table_add_drawing(t, time);
        }
        r = table_print(t, o, NULL);
        if (r >= 0 && estimated && o->legend)
                puts("  ~ is estimated.");

        return r;
}

static int print_summary(const Summary *s, const Range *range, const Options *o) {
        _cleanup_free_ char *version = NULL, *tier = NULL;
        const ManagerInfo *info = &s->info;
        int r;

        version = text_escape(strempty(info->version));
        tier = text_escape(info->tier ?: "-");
        if (!version || !tier)
                return -ENOMEM;

        printf("%s%s%s iolatd %s\n", info->degraded ? term_yellow() : term_green(), status_dot(true),
               term_normal(), version);
        printf("%11s: %s\n", "Tier", tier);
        printf("%11s: %s\n", "Since", FORMAT_SINCE(info->since_us));
        if (info->history_since_us > 0)
                printf("%11s: since %s\n", "History", FORMAT_SINCE(info->history_since_us));
        printf("%11s: %zu\n", "Units", info->n_units);
        printf("%11s: %s%" PRIu64 "%s\n", "Lost", info->lost > 0 ? term_yellow() : "", info->lost,
               info->lost > 0 ? term_normal() : "");
        printf("%11s: %s\n", "Degraded", info->degraded ? "yes, see \"iolatctl probes\"" : "no");
        r = print_stalls(s);
        if (r >= 0)
                r = print_largest(s, o);
        if (r >= 0)
                r = print_blame(s, o);
        if (r >= 0 && o->has_range) {
                fputs("\n", stdout);
                range_print_covered(range, &s->covered, o);
        }

        return r;
}

static int add_largest(json_object *o, const Summary *s) {
        _cleanup_(json_putp) json_object *array = NULL;

        array = json_object_new_array();
        if (!array)
                return -ENOMEM;
        for (size_t i = 0; i < s->n_largest; i++) {
                _cleanup_(json_putp) json_object *row = NULL;

                row = row_to_json(s->largest[i]);
                if (!row || json_object_array_add(array, row) < 0)
                        return -ENOMEM;
                TAKE_PTR(row);
        }

        return json_add(o, "largest", TAKE_PTR(array));
}

static int print_summary_json(const Summary *s, const Options *o) {
        _cleanup_(json_putp) json_object *j = NULL;
        const ManagerInfo *info = &s->info;

        j = json_object_new_object();
        if (!j || json_add_string(j, "version", info->version) < 0 ||
            json_add_string(j, "tier", info->tier) < 0 ||
            json_add_new(j, "degraded", json_object_new_boolean(info->degraded)) < 0 ||
            json_add_new(j, "lost", json_object_new_uint64(info->lost)) < 0 ||
            json_add_new(j, "sinceRealtimeUSec", json_object_new_uint64(info->since_us)) < 0 ||
            json_add_new(j, "units", json_object_new_uint64(info->n_units)) < 0 || add_largest(j, s) < 0 ||
            status_add_blame(j, s->blame, s->n_blame) < 0 ||
            json_add_new(j, "stallsInProgress", json_object_new_uint64(s->n_in_progress)) < 0 ||
            status_add_stall(j, stall_newest(&s->stalls, NULL)) < 0 || status_add_covered(j, &s->covered) < 0)
                return -ENOMEM;

        return json_print(j, o->output);
}

static int get_summary(Query *q, const Range *range, bool has_range, Summary *s) {
        char *total[] = { (char[]){ "total" }, NULL };
        int r;

        r = query_manager(q, &s->info);
        if (r < 0)
                return r;
        r = has_range ? query_rows_range(q, NULL, NULL, total, range, &s->rows, &s->covered) :
                        query_rows(q, NULL, NULL, total, &s->rows);
        if (r < 0)
                return r;
        if (find_largest(&s->rows, &s->largest, &s->n_largest) < 0)
                return log_oom();

        r = query_blame(q, "", range, &s->blame_rows);
        if (r < 0)
                return r;
        blame_rows_sort(&s->blame_rows);
        for (size_t i = 0; i < s->blame_rows.n && s->n_blame < BLAME_SHOWN; i++) {
                const BlameRow *row = &s->blame_rows.items[i];

                if (!streq(row->victim, row->culprit) && row->sum_ns > 0)
                        s->blame[s->n_blame++] = row;
        }

        r = query_stalls(q, range, &s->stalls);
        if (r < 0)
                return r;
        for (size_t i = 0; i < s->stalls.n; i++)
                s->n_in_progress += stall_is_in_progress(&s->stalls.items[i]);

        return 0;
}

static int show_summary(Query *q, const Range *range, const Options *o) {
        _cleanup_(summary_clear) Summary s = {};
        int r;

        r = get_summary(q, range, o->has_range, &s);
        if (r < 0)
                return r;
        if (o->has_range && !range_is_covered(&s.covered))
                return range_log_nothing(q);

        pager_open(o);
        r = o->output == OUTPUT_TABLE ? print_summary(&s, range, o) : print_summary_json(&s, o);
        if (r < 0)
                return log_oom();
        if (o->output != OUTPUT_TABLE && o->has_range)
                range_print_covered(range, &s.covered, o);

        return EXIT_SUCCESS;
}

/* The bus path of what an argument names: a process or a unit, whose name is returned as well. Returns > 0, an exit
 * code, if there is none. */
static int find_unit(Query *q, const char *argument, char **ret_name, char **ret_path) {
        _cleanup_free_ char *name = NULL;
        uint64_t pid;
        int r;

        r = parse_count(argument, UINT32_MAX, &pid);
        if (r == -ERANGE) {
                log_error("There is no process with such a number: %s.", argument);
                return EXIT_NO_SUCH_UNIT;
        }
        if (r >= 0) {
                r = query_process_path(q, (uint32_t) pid, ret_path);
                if (r == -ENOENT || r == -ESRCH) {
                        log_error("Process %" PRIu64 " does not exist or belongs to no unit that was measured.",
                                  pid);
                        return EXIT_NO_SUCH_UNIT;
                }
                return r;
        }

        name = unit_name_mangle(argument);
        if (!name)
                return log_oom();
        r = query_unit_path(q, name, ret_path);
        *ret_name = TAKE_PTR(name);

        return r == -ESRCH ? -ENOENT : r;
}

static int show_unit(Query *q, const char *argument, bool first, const Range *range, const Options *o) {
        _cleanup_(unit_status_clear) UnitStatus s = {};
        _cleanup_free_ char *name = NULL, *path = NULL;
        int r;

        r = find_unit(q, argument, &name, &path);
        /* The history may know it all the same. */
        if (r == -ENOENT && name && o->has_range)
                r = 0;
        if (r == 0)
                r = unit_status_get(q, path, name, o->has_range ? range : NULL, &s);
        if (r == -ENOENT || r == -ESRCH)
                return query_log_no_unit(name ?: argument);
        if (r != 0)
                return r;
        if (o->has_range && !range_is_covered(&s.covered))
                return range_log_nothing(q);

        pager_open(o);
        if (o->output != OUTPUT_TABLE)
                r = unit_status_print_json(&s, o);
        else {
                if (!first)
                        fputs("\n", stdout);
                r = unit_status_print(&s, o);
        }
        if (r < 0)
                return log_oom();
        if (o->has_range) {
                if (o->output == OUTPUT_TABLE && o->legend)
                        fputs("\n", stdout);
                range_print_covered(range, &s.covered, o);
        }

        return EXIT_SUCCESS;
}

int verb_status(int argc, char **argv, const Options *o) {
        _cleanup_(query_freep) Query *q = NULL;
        Range range = { .until_us = UINT64_MAX };
        int r, result = EXIT_SUCCESS;
        bool first = true;

        if (o->has_range) {
                r = range_from_options(o, &range);
                if (r < 0)
                        return r;
        }
        r = query_new(o, &q);
        if (r < 0)
                return r;
        if (argc <= 1) {
                r = show_summary(q, &range, o);
                return r < 0 ? EXIT_FAILURE : r;
        }

        /* All are shown that can be. */
        for (int i = 1; i < argc; i++) {
                r = show_unit(q, argv[i], first, &range, o);
                if (r == EXIT_SUCCESS)
                        first = false;
                else if (result != EXIT_FAILURE)
                        result = r < 0 ? EXIT_FAILURE : r;
        }

        return result;
}
