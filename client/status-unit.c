/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <inttypes.h>

#include "blame-rows.h"
#include "format.h"
#include "json.h"
#include "log.h"
#include "range.h"
#include "stall-text.h"
#include "status-unit.h"
#include "table.h"
#include "term.h"
#include "text.h"

enum {
        INDENT = 2,
        BAR_WIDTH = 24,
        OPERATION_RANGE_COLUMNS = 7, /* without those that compare */
        REQUEST_RANGE_COLUMNS = 8,
};

static const Column operation_columns[] = {
        { "OPERATION", NULL },
        { "ON", NULL, COLUMN_SHRINK },
        { "COUNT", NULL, COLUMN_RIGHT },
        { "P50", NULL, COLUMN_RIGHT },
        { "P99", NULL, COLUMN_RIGHT },
        { "MAX", NULL, COLUMN_RIGHT },
        { "ERRORS", NULL, COLUMN_RIGHT },
        { "TOTAL", NULL, COLUMN_RIGHT },
        { "T-P99", NULL, COLUMN_RIGHT },
        { "T-MAX", NULL, COLUMN_RIGHT },
};

static const Column request_columns[] = {
        { "REQUESTS", NULL },
        { "ORIGIN", NULL },
        { "DEVICE", NULL },
        { "COUNT", NULL, COLUMN_RIGHT },
        { "BYTES", NULL, COLUMN_RIGHT },
        { "Q-P99", NULL, COLUMN_RIGHT },
        { "D-P99", NULL, COLUMN_RIGHT },
        { "ERRORS", NULL, COLUMN_RIGHT },
        { "TOTAL", NULL, COLUMN_RIGHT },
        { "T-BYTES", NULL, COLUMN_RIGHT },
};

/* Rows that differ in the phase only. */
typedef struct Group {
        const Row *rows;
        size_t n;
} Group;

void unit_status_clear(UnitStatus *s) {
        unit_info_clear(&s->info);
        rows_clear(&s->current);
        rows_clear(&s->total);
        blame_rows_clear(&s->blame);
        stall_rows_clear(&s->stalls);
}

/* A user unit has the same rows as the user@.service around it, and is not what was asked for. */
static void keep_unit(Rows *rows, const char *unit) {
        size_t kept = 0;

        for (size_t i = 0; i < rows->n; i++) {
                Row row = rows->items[i];

                if (row.unit && streq(row.unit, unit))
                        rows->items[kept++] = row;
                else
                        row_clear(&rows->items[i]);
        }
        rows->n = kept;
}

static int get_range(Query *q, const Range *range, UnitStatus *s) {
        int r;

        s->has_range = true;
        r = query_rows_range(q, (char *[]){ s->info.name, NULL }, NULL, NULL, range, &s->total, &s->covered);

        return r == -ENOENT ? 0 : r;
}

static int get_all(Query *q, const char *path, UnitStatus *s) {
        int r;

        /* In this order, so that the sum of all is never behind its part. */
        r = query_unit_current(q, path, &s->current);
        if (r < 0)
                return r;

        return query_rows(q, (char *[]){ s->info.name, NULL }, NULL, NULL, &s->total);
}

static int get_info(Query *q, const char *path, const char *name, UnitInfo *ret) {
        if (path)
                return query_unit_info(q, path, ret);
        ret->name = strdup(name);

        return ret->name ? 0 : log_oom();
}

int unit_status_get(Query *q, const char *path, const char *name, const Range *range, UnitStatus *ret) {
        static const Range any = { .until_us = UINT64_MAX };
        _cleanup_(unit_status_clear) UnitStatus s = {};
        _cleanup_(manager_info_clear) ManagerInfo manager = {};
        int r;

        r = get_info(q, path, name, &s.info);
        if (r < 0)
                return r;
        r = query_manager(q, &manager);
        if (r < 0)
                return r;
        s.since_us = manager.since_us;
        r = range ? get_range(q, range, &s) : get_all(q, path, &s);
        if (r < 0)
                return r;
        keep_unit(&s.total, s.info.name);
        if (!path && s.total.n == 0 && range_is_covered(&s.covered))
                return -ENOENT;

        r = query_blame(q, s.info.name, range ?: &any, &s.blame);
        if (r < 0 && r != -ENOENT)
                return r;
        blame_rows_sort(&s.blame);
        r = query_stalls(q, range ?: &any, &s.stalls);
        if (r < 0)
                return r;
        *ret = s;
        s = (UnitStatus){};

        return 0;
}

const char *status_dot(bool alive) {
        if (!term_utf8())
                return "*";

        return alive ? "●" : "○";
}

static Group find_group(const Rows *rows, const Row *like) {
        for (size_t i = 0; i < rows->n; i++)
                if (row_same_group(&rows->items[i], like))
                        return (Group){ &rows->items[i], rows_group_end(rows, i) - i };

        return (Group){};
}

static void add_number(Table *t, bool present, uint64_t n, void (*add)(Table *t, uint64_t n)) {
        if (present)
                add(t, n);
        else
                table_add_empty(t);
}

static void add_operation_name(Table *t, const Row *row) {
        _cleanup_free_ char *name = NULL;

        if (asprintf(&name, "%s%s%s%s%s%s", strempty(row->user_unit), row->user_unit ? ": " : "",
                     strempty(row->op), row->async ? " async" : "", row->origin ? " " : "",
                     strempty(row->origin)) < 0)
                name = NULL;
        table_add_text(t, name ?: row->op);
}

static void add_place(Table *t, const Row *row) {
        _cleanup_free_ char *place = NULL;

        if (row->mount_point && row->device &&
            asprintf(&place, "%s (%s)", row->mount_point, row->device) < 0)
                place = NULL;
        table_add_text(t, place ?: row->mount_point ?: row->device);
}

/* Where the time went, as a bar. NULL if there is nothing to say, or out of memory: a bar is not worth a
 * failure. */
static char *phases_bar(Group g) {
        Share shares[SHARES_MAX];
        const Row *total = group_find(g.rows, g.n, "total"), *runqueue = group_find(g.rows, g.n, "runqueue");
        size_t n = group_shares(g.rows, g.n, shares);
        char *bar;

        if (n == 0)
                return NULL;
        shares_sort(shares, n);
        bar = bar_shares(shares, n, BAR_WIDTH);
        if (bar && total && runqueue && percent(runqueue->sum_ns, total->sum_ns) > 0)
                (void) text_appendf(&bar, " (runqueue %u%%)", percent(runqueue->sum_ns, total->sum_ns));

        return bar;
}

/* comparing: the present invocation beside all of them; else there is only one set of numbers, in total. */
static void add_operation(Table *t, Group total, Group current, bool comparing) {
        const Row *all = group_find(total.rows, total.n, "total"), *now = NULL;
        char *line;

        if (!all)
                return;
        if (!comparing)
                current = total;
        if (current.rows)
                now = group_find(current.rows, current.n, "total");

        add_operation_name(t, all);
        add_place(t, all);
        add_number(t, now, now ? now->count : 0, table_add_count);
        add_number(t, now, now ? now->p50_ns : 0, table_add_nsec);
        add_number(t, now, now ? now->p99_ns : 0, table_add_nsec);
        add_number(t, now, now ? now->max_ns : 0, table_add_nsec);
        add_number(t, now, now ? now->errors : 0, table_add_count);
        if (comparing) {
                table_add_count(t, all->count);
                table_add_nsec(t, all->p99_ns);
                table_add_nsec(t, all->max_ns);
        }

        line = phases_bar(now ? current : total);
        if (line)
                table_add_line(t, line);
        if (all->errors > 0 &&
            asprintf(&line, "%s%" PRIu64 " failed in total%s", term_red(), all->errors, term_normal()) >= 0)
                table_add_line(t, line);
}

static void add_request(Table *t, Group total, Group current, bool comparing) {
        const Row *all = group_find(total.rows, total.n, "device") ?: &total.rows[0], *now = NULL, *queue = NULL;

        if (!comparing)
                current = total;
        if (current.rows) {
                now = group_find(current.rows, current.n, "device") ?: &current.rows[0];
                queue = group_find(current.rows, current.n, "queue");
        }

        table_add_text(t, all->op);
        table_add_text(t, all->origin);
        table_add_text(t, all->device);
        add_number(t, now, now ? now->count + now->untimed : 0, table_add_count);
        add_number(t, now, now ? now->bytes : 0, table_add_bytes);
        add_number(t, queue, queue ? queue->p99_ns : 0, table_add_nsec);
        add_number(t, now && now->count > 0, now ? now->p99_ns : 0, table_add_nsec);
        add_number(t, now, now ? now->errors : 0, table_add_count);
        if (!comparing)
                return;
        table_add_count(t, all->count + all->untimed);
        table_add_bytes(t, all->bytes);
}

static int print_groups(const UnitStatus *s, const Options *o, bool requests) {
        _cleanup_(table_freep) Table *t = NULL;
        bool comparing = !s->has_range;
        size_t end;

        t = requests ? table_new(request_columns, comparing ? ELEMENTSOF(request_columns) : REQUEST_RANGE_COLUMNS) :
                       table_new(operation_columns,
                                 comparing ? ELEMENTSOF(operation_columns) : OPERATION_RANGE_COLUMNS);
        if (!t)
                return -ENOMEM;
        table_set_indent(t, INDENT);

        for (size_t i = 0; i < s->total.n; i = end) {
                const Row *first = &s->total.items[i];
                Group total;

                end = rows_group_end(&s->total, i);
                if (row_is_request(first) != requests)
                        continue;
                total = (Group){ first, end - i };
                if (requests)
                        add_request(t, total, find_group(&s->current, first), comparing);
                else
                        add_operation(t, total, find_group(&s->current, first), comparing);
        }
        if (table_rows(t) == 0)
                return 0;
        fputs("\n", stdout);

        return table_print(t, o, NULL);
}

int status_print_key(const char *key, const char *value) {
        _cleanup_free_ char *escaped = NULL;

        if (!value)
                return 0;
        escaped = text_escape(value);
        if (!escaped)
                return -ENOMEM;
        printf("%11s: %s\n", key, escaped);

        return 0;
}

static int print_journal_steps(const Pairs *steps) {
        bool any = false;

        for (size_t i = 0; i < steps->n; i++) {
                _cleanup_free_ char *name = NULL;

                if (steps->items[i].value == 0)
                        continue;
                name = text_escape(steps->items[i].name);
                if (!name)
                        return -ENOMEM;
                if (any)
                        fputs(", ", stdout);
                else
                        printf("%11s: ", "Journal");
                printf("%s %s", name, FORMAT_NSEC(steps->items[i].value));
                any = true;
        }
        if (any)
                fputs("\n", stdout);

        return 0;
}

static int print_title(const UnitInfo *info) {
        _cleanup_free_ char *name = NULL, *description = NULL;
        bool alive = info->control_group, titled;

        name = text_escape(info->name);
        description = text_escape(strempty(info->description));
        if (!name || !description)
                return -ENOMEM;
        titled = !isempty(description) && strcmp(description, name) != 0; /* the name itself says that there is none */
        printf("%s%s%s %s%s%s\n", alive ? term_green() : "", status_dot(alive), alive ? term_normal() : "", name,
               titled ? " - " : "", titled ? description : "");

        return 0;
}

static int print_culprit(const UnitStatus *s) {
        _cleanup_free_ char *sentence = NULL;
        BlameTop top;

        if (!blame_top(&s->blame, s->info.name, &top))
                return 0;
        sentence = blame_sentence(&top, s->info.name);

        return sentence ? status_print_key("Culprit", sentence) : -ENOMEM;
}

static int print_stall(const UnitStatus *s) {
        const StallRow *stall = stall_newest(&s->stalls, s->info.name);
        _cleanup_free_ char *sentence = NULL, *line = NULL;

        if (!stall)
                return 0;
        sentence = stall_sentence(stall);
        if (!sentence || asprintf(&line, "%s: %s", FORMAT_SINCE(stall->start_us), sentence) < 0)
                return -ENOMEM;

        return status_print_key("Last stall", line);
}

int unit_status_print(const UnitStatus *s, const Options *o) {
        int r;

        r = print_title(&s->info);
        if (r >= 0)
                r = status_print_key("CGroup", s->info.control_group);
        if (r >= 0)
                r = status_print_key("Invocation", s->info.invocation_id);
        if (r >= 0 && !s->has_range)
                r = status_print_key("Since", FORMAT_SINCE(s->since_us));
        if (r >= 0)
                r = print_culprit(s);
        if (r >= 0)
                r = print_stall(s);
        /* These are counted, not kept by time. */
        if (r >= 0 && !s->has_range)
                r = print_journal_steps(&s->info.journal_steps);
        if (r >= 0)
                r = print_groups(s, o, false);
        if (r >= 0)
                r = print_groups(s, o, true);

        return r;
}

static int add_time(json_object *o, const char *key, bool known, uint64_t us) {
        return known ? json_add_new(o, key, json_object_new_uint64(us)) : json_add(o, key, NULL);
}

int status_add_covered(json_object *o, const Range *covered) {
        bool known = range_is_covered(covered);
        int r;

        r = add_time(o, "coveredSinceRealtimeUSec", known, covered->since_us);

        return r < 0 ? r : add_time(o, "coveredUntilRealtimeUSec", known, covered->until_us);
}

int status_add_stall(json_object *o, const StallRow *stall) {
        return stall ? json_add_new(o, "newestStall", stall_row_to_json(stall)) : json_add(o, "newestStall", NULL);
}

int status_add_blame(json_object *o, const BlameRow *const *rows, size_t n) {
        _cleanup_(json_putp) json_object *array = NULL;

        array = json_object_new_array();
        if (!array)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                _cleanup_(json_putp) json_object *row = NULL;

                row = blame_row_to_json(rows[i]);
                if (!row || json_object_array_add(array, row) < 0)
                        return -ENOMEM;
                TAKE_PTR(row);
        }

        return json_add(o, "blame", TAKE_PTR(array));
}

static int add_rows(json_object *o, const char *key, const Rows *rows) {
        _cleanup_(json_putp) json_object *array = NULL;

        array = json_object_new_array();
        if (!array)
                return -ENOMEM;
        for (size_t i = 0; i < rows->n; i++) {
                _cleanup_(json_putp) json_object *row = NULL;

                if (row_is_uncounted(&rows->items[i]) || row_is_dirty_age(&rows->items[i]))
                        continue;
                row = row_to_json(&rows->items[i]);
                if (!row || json_object_array_add(array, row) < 0)
                        return -ENOMEM;
                TAKE_PTR(row);
        }

        return json_add(o, key, TAKE_PTR(array));
}

int unit_status_print_json(const UnitStatus *s, const Options *o) {
        _cleanup_(json_putp) json_object *j = NULL;
        _cleanup_free_ const BlameRow **blame = NULL;

        blame = calloc(s->blame.n + 1, sizeof(BlameRow *));
        if (!blame)
                return -ENOMEM;
        for (size_t i = 0; i < s->blame.n; i++)
                blame[i] = &s->blame.items[i];

        j = json_object_new_object();
        if (!j || json_add_string(j, "unit", s->info.name) < 0 ||
            json_add_string(j, "controlGroup", s->info.control_group) < 0 ||
            json_add_string(j, "description", s->info.description) < 0 ||
            json_add_string(j, "invocationID", s->info.invocation_id) < 0 ||
            json_add_new(j, "journalSteps", json_pairs(&s->info.journal_steps)) < 0 ||
            add_rows(j, "current", &s->current) < 0 || add_rows(j, "total", &s->total) < 0 ||
            status_add_blame(j, blame, s->blame.n) < 0 ||
            status_add_stall(j, stall_newest(&s->stalls, s->info.name)) < 0 || status_add_covered(j, &s->covered) < 0)
                return -ENOMEM;

        return json_print(j, o->output);
}
