/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <inttypes.h>

#include "format.h"
#include "json.h"
#include "log.h"
#include "pager.h"
#include "query.h"
#include "status-unit.h"
#include "table.h"
#include "term.h"
#include "text.h"

enum {
        LARGEST_SHOWN = 10,
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

static int print_summary(const ManagerInfo *info, const Row **largest, size_t n, const Options *o) {
        _cleanup_(table_freep) Table *t = NULL;
        _cleanup_free_ char *version = NULL, *tier = NULL;

        version = text_escape(strempty(info->version));
        tier = text_escape(info->tier ?: "-");
        t = table_new(largest_columns, ELEMENTSOF(largest_columns));
        if (!version || !tier || !t)
                return -ENOMEM;

        printf("%s%s%s iolatd %s\n", info->degraded ? term_yellow() : term_green(), status_dot(true),
               term_normal(), version);
        printf("%11s: %s\n", "Tier", tier);
        printf("%11s: %s\n", "Since", FORMAT_SINCE(info->since_us));
        printf("%11s: %zu\n", "Units", info->n_units);
        printf("%11s: %s%" PRIu64 "%s\n", "Lost", info->lost > 0 ? term_yellow() : "", info->lost,
               info->lost > 0 ? term_normal() : "");
        printf("%11s: %s\n", "Degraded", info->degraded ? "yes, see \"iolatctl probes\"" : "no");

        if (n == 0) {
                fputs("\nNo waits were measured so far.\n", stdout);
                return 0;
        }
        printf("\n%sLargest waits:%s\n", term_bold(), term_normal());
        table_set_indent(t, 2);
        for (size_t i = 0; i < n; i++) {
                const Row *row = largest[i];

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

static int print_summary_json(const ManagerInfo *info, const Row **largest, size_t n, const Options *o) {
        _cleanup_(json_putp) json_object *j = NULL, *array = NULL;

        j = json_object_new_object();
        array = json_object_new_array();
        if (!j || !array || json_add_string(j, "version", info->version) < 0 ||
            json_add_string(j, "tier", info->tier) < 0 ||
            json_add_new(j, "degraded", json_object_new_boolean(info->degraded)) < 0 ||
            json_add_new(j, "lost", json_object_new_uint64(info->lost)) < 0 ||
            json_add_new(j, "sinceRealtimeUSec", json_object_new_uint64(info->since_us)) < 0 ||
            json_add_new(j, "units", json_object_new_uint64(info->n_units)) < 0)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                _cleanup_(json_putp) json_object *row = NULL;

                row = row_to_json(largest[i]);
                if (!row || json_object_array_add(array, row) < 0)
                        return -ENOMEM;
                TAKE_PTR(row);
        }
        if (json_add(j, "largest", TAKE_PTR(array)) < 0)
                return -ENOMEM;

        return json_print(j, o->output);
}

static int show_summary(Query *q, const Options *o) {
        _cleanup_(manager_info_clear) ManagerInfo info = {};
        _cleanup_(rows_clear) Rows rows = {};
        _cleanup_free_ const Row **largest = NULL;
        char *total[] = { (char[]){ "total" }, NULL };
        size_t n;
        int r;

        r = query_manager(q, &info);
        if (r < 0)
                return r;
        r = query_rows(q, NULL, NULL, total, &rows);
        if (r < 0)
                return r;
        if (find_largest(&rows, &largest, &n) < 0)
                return log_oom();

        pager_open(o);
        r = o->output == OUTPUT_TABLE ? print_summary(&info, largest, n, o) :
                                        print_summary_json(&info, largest, n, o);

        return r < 0 ? log_oom() : EXIT_SUCCESS;
}

/* The bus path of what an argument names: a process or a unit. Returns > 0, an exit code, if there is none. */
static int find_unit(Query *q, const char *argument, char **ret) {
        _cleanup_free_ char *name = NULL;
        uint64_t pid;
        int r;

        r = parse_count(argument, UINT32_MAX, &pid);
        if (r == -ERANGE) {
                log_error("There is no process with such a number: %s.", argument);
                return EXIT_NO_SUCH_UNIT;
        }
        if (r >= 0) {
                r = query_process_path(q, (uint32_t) pid, ret);
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
        r = query_unit_path(q, name, ret);
        if (r == -ENOENT || r == -ESRCH)
                return query_log_no_unit(name);

        return r;
}

static int show_unit(Query *q, const char *argument, bool first, const Options *o) {
        _cleanup_(unit_status_clear) UnitStatus s = {};
        _cleanup_free_ char *path = NULL;
        int r;

        r = find_unit(q, argument, &path);
        if (r != 0)
                return r;
        r = unit_status_get(q, path, &s);
        if (r == -ENOENT || r == -ESRCH)
                return query_log_no_unit(argument);
        if (r < 0)
                return r;

        pager_open(o);
        if (o->output != OUTPUT_TABLE)
                r = unit_status_print_json(&s, o);
        else {
                if (!first)
                        fputs("\n", stdout);
                r = unit_status_print(&s, o);
        }

        return r < 0 ? log_oom() : EXIT_SUCCESS;
}

int verb_status(int argc, char **argv, const Options *o) {
        _cleanup_(query_freep) Query *q = NULL;
        int r, result = EXIT_SUCCESS;
        bool first = true;

        r = query_new(o, &q);
        if (r < 0)
                return r;
        if (argc <= 1) {
                r = show_summary(q, o);
                return r < 0 ? EXIT_FAILURE : r;
        }

        /* All are shown that can be. */
        for (int i = 1; i < argc; i++) {
                r = show_unit(q, argv[i], first, o);
                if (r == EXIT_SUCCESS)
                        first = false;
                else if (result != EXIT_FAILURE)
                        result = r < 0 ? EXIT_FAILURE : r;
        }

        return result;
}
