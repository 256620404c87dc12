/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "format.h"
#include "json.h"
#include "log.h"
#include "names.h"
#include "pager.h"
#include "query.h"
#include "range.h"
#include "table.h"
#include "text.h"

/* Without phases selected, an operation's row is always its total and a request's row always the device. */
static const Column list_columns[] = {
        { "UNIT", NULL, COLUMN_SHRINK },
        { "OP", NULL },
        { "ORIGIN", NULL },
        { "DEVICE", NULL },
        { "COUNT", NULL, COLUMN_RIGHT },
        { "ERRORS", NULL, COLUMN_RIGHT },
        { "P50", NULL, COLUMN_RIGHT },
        { "P99", NULL, COLUMN_RIGHT },
        { "MAX", NULL, COLUMN_RIGHT },
};

static const Column list_phase_columns[] = {
        { "UNIT", NULL, COLUMN_SHRINK },
        { "OP", NULL },
        { "ORIGIN", NULL },
        { "PHASE", NULL },
        { "DEVICE", NULL },
        { "COUNT", NULL, COLUMN_RIGHT },
        { "ERRORS", NULL, COLUMN_RIGHT },
        { "P50", NULL, COLUMN_RIGHT },
        { "P99", NULL, COLUMN_RIGHT },
        { "MAX", NULL, COLUMN_RIGHT },
};

static const Column list_all_columns[] = {
        { "UNIT", NULL, COLUMN_SHRINK },
        { "USER-UNIT", NULL, COLUMN_SHRINK },
        { "OP", NULL },
        { "ORIGIN", NULL },
        { "ASYNC", NULL },
        { "PHASE", NULL },
        { "DEVICE", NULL },
        { "MOUNT", NULL, COLUMN_SHRINK },
        { "COUNT", NULL, COLUMN_RIGHT },
        { "ERRORS", NULL, COLUMN_RIGHT },
        { "BYTES", NULL, COLUMN_RIGHT },
        { "SUM", NULL, COLUMN_RIGHT },
        { "P50", NULL, COLUMN_RIGHT },
        { "P90", NULL, COLUMN_RIGHT },
        { "P99", NULL, COLUMN_RIGHT },
        { "MAX", NULL, COLUMN_RIGHT },
};

/* What one unit did on one disk. */
typedef struct DeviceSum {
        uint64_t requests[_RQ_KIND_MAX];
        uint64_t bytes[_RQ_KIND_MAX];
        uint64_t empty_flushes;
        uint64_t queue_p99_ns;
        uint64_t device_p99_ns;
        double in_flight;
        bool has_in_flight;
        const Row *dirty_age; /* the one with the largest 99th percentile */
} DeviceSum;

static const Column device_columns[] = {
        { "DEVICE", "device" },
        { "UNIT", "unit", COLUMN_SHRINK },
        { "READS", "reads", COLUMN_RIGHT },
        { "WRITES", "writes", COLUMN_RIGHT },
        { "DISCARDS", "discards", COLUMN_RIGHT },
        { "FLUSHES", "flushes", COLUMN_RIGHT },
        { "EMPTY", "emptyFlushes", COLUMN_RIGHT },
        { "READ", "readBytes", COLUMN_RIGHT },
        { "WRITTEN", "writeBytes", COLUMN_RIGHT },
        { "DISCARDED", "discardBytes", COLUMN_RIGHT },
        { "Q-P99", NULL, COLUMN_RIGHT },
        { "D-P99", NULL, COLUMN_RIGHT },
        { "IN-FLIGHT", "inFlight", COLUMN_RIGHT },
        { "DIRTY-P50", "dirtyAgeP50NSec", COLUMN_RIGHT },
        { "DIRTY-P99", "dirtyAgeP99NSec", COLUMN_RIGHT },
        { "DIRTY-MAX", "dirtyAgeMaxNSec", COLUMN_RIGHT },
};

static void add_number(Table *t, bool present, uint64_t n, void (*add)(Table *t, uint64_t n)) {
        if (present)
                add(t, n);
        else
                table_add_empty(t);
}

static void add_row(Table *t, const Row *row, bool all, bool phase) {
        table_add_text(t, row->unit);
        if (all)
                table_add_text(t, row->user_unit);
        table_add_text(t, row->op);
        table_add_text(t, row->origin);
        if (all)
                table_add_text(t, row->async ? "yes" : "no");
        if (phase)
                table_add_text(t, row->phase);
        table_add_text(t, row->device);
        if (all)
                table_add_text(t, row->mount_point);
        add_number(t, ROW_HAS(row, count), row->count, table_add_count);
        add_number(t, ROW_HAS(row, errors), row->errors, table_add_count);
        if (all) {
                add_number(t, ROW_HAS(row, bytes), row->bytes, table_add_bytes);
                add_number(t, ROW_HAS(row, sum_ns), row->sum_ns, table_add_nsec);
        }
        add_number(t, ROW_HAS(row, p50_ns), row->p50_ns, table_add_nsec);
        if (all)
                add_number(t, ROW_HAS(row, p90_ns), row->p90_ns, table_add_nsec);
        add_number(t, ROW_HAS(row, p99_ns), row->p99_ns, table_add_nsec);
        add_number(t, ROW_HAS(row, max_ns), row->max_ns, table_add_nsec);
}

static int print_rows(const Rows *rows, const Options *o) {
        _cleanup_(table_freep) Table *t = NULL;

        t = o->all    ? table_new(list_all_columns, ELEMENTSOF(list_all_columns)) :
            o->phases ? table_new(list_phase_columns, ELEMENTSOF(list_phase_columns)) :
                        table_new(list_columns, ELEMENTSOF(list_columns));
        if (!t)
                return -ENOMEM;

        for (size_t i = 0; i < rows->n; i++) {
                const Row *row = &rows->items[i];

                if (row_is_uncounted(row))
                        continue;
                /* Not asked for phases: one line for each operation and kind of request is enough. */
                if (!o->all && !o->phases && !row_is_phase(row, "total") &&
                    !(row_is_request(row) && row_is_phase(row, "device")) && !(o->ops && row_is_dirty_age(row)))
                        continue;
                add_row(t, row, o->all, o->all || o->phases);
        }
        pager_open(o);

        return table_print(t, o, "rows");
}

static int print_rows_json(const Rows *rows, const Options *o) {
        JsonArray array = { .mode = o->output };
        int r;

        pager_open(o);
        for (size_t i = 0; i < rows->n; i++) {
                if (row_is_uncounted(&rows->items[i]))
                        continue;
                r = json_array_add(&array, row_to_json(&rows->items[i]));
                if (r < 0)
                        return r;
        }
        json_array_end(&array);

        return 0;
}

static int compare_by_device(const void *a, const void *b) {
        const Row *x = a, *y = b;

        return strcmp(strempty(x->device), strempty(y->device)) ?: row_compare(x, y);
}

static void device_sum_add(DeviceSum *s, const Row *row) {
        int kind = rq_kind_from_string(row->op);

        if (row_is_dirty_age(row) && (!s->dirty_age || row->p99_ns > s->dirty_age->p99_ns))
                s->dirty_age = row;
        if (row_is_phase(row, "queue"))
                s->queue_p99_ns = MAX(s->queue_p99_ns, row->p99_ns);
        if (kind < 0 || !row_is_phase(row, "device"))
                return;
        /* What was never issued has no time, but was completed, and the kernel's own statistics count it too. */
        s->requests[kind] += row->count + row->untimed;
        s->bytes[kind] += row->bytes;
        s->empty_flushes += row->untimed;
        s->device_p99_ns = MAX(s->device_p99_ns, row->p99_ns);
        s->has_in_flight = s->has_in_flight || ROW_HAS(row, in_flight);
        s->in_flight += row->in_flight;
}

/* Part of a row that is only about dirty data, as far as numbers of requests are concerned. */
static bool has_requests(const DeviceSum *s) {
        for (int i = 0; i < _RQ_KIND_MAX; i++)
                if (s->requests[i] > 0)
                        return true;

        return false;
}

static void add_device(Table *t, const Row *row, const DeviceSum *s) {
        const Row *age = s->dirty_age;
        bool requests = has_requests(s);

        table_add_text(t, row->device);
        table_add_text(t, row->unit);
        add_number(t, requests, s->requests[RQ_READ], table_add_count);
        add_number(t, requests, s->requests[RQ_WRITE], table_add_count);
        add_number(t, requests, s->requests[RQ_DISCARD], table_add_count);
        add_number(t, requests, s->requests[RQ_FLUSH], table_add_count);
        add_number(t, requests, s->empty_flushes, table_add_count);
        add_number(t, requests, s->bytes[RQ_READ], table_add_bytes);
        add_number(t, requests, s->bytes[RQ_WRITE], table_add_bytes);
        add_number(t, requests, s->bytes[RQ_DISCARD], table_add_bytes);
        add_number(t, s->queue_p99_ns > 0, s->queue_p99_ns, table_add_nsec);
        add_number(t, s->device_p99_ns > 0, s->device_p99_ns, table_add_nsec);
        if (s->has_in_flight)
                table_add_double(t, s->in_flight);
        else
                table_add_empty(t);
        add_number(t, age && ROW_HAS(age, p50_ns), age ? age->p50_ns : 0, table_add_nsec);
        add_number(t, age && ROW_HAS(age, p99_ns), age ? age->p99_ns : 0, table_add_nsec);
        add_number(t, age && ROW_HAS(age, max_ns), age ? age->max_ns : 0, table_add_nsec);
}

static int print_by_device(Rows *rows, const Options *o) {
        _cleanup_(table_freep) Table *t = NULL;
        size_t end;

        t = table_new(device_columns, ELEMENTSOF(device_columns));
        if (!t)
                return -ENOMEM;

        if (rows->n > 0)
                qsort(rows->items, rows->n, sizeof(Row), compare_by_device);
        for (size_t i = 0; i < rows->n; i = end) {
                const Row *first = &rows->items[i];
                DeviceSum sum = {};

                for (end = i; end < rows->n && streq(strempty(rows->items[end].device), strempty(first->device)) &&
                     streq(strempty(rows->items[end].unit), strempty(first->unit)); end++)
                        device_sum_add(&sum, &rows->items[end]);
                add_device(t, first, &sum);
        }
        pager_open(o);

        return table_print(t, o, "rows");
}

static void drop_operations(Rows *rows) {
        size_t kept = 0;

        for (size_t i = 0; i < rows->n; i++) {
                Row row = rows->items[i];

                if (row_is_request(&row) || row_is_dirty_age(&row))
                        rows->items[kept++] = row;
                else
                        row_clear(&rows->items[i]);
        }
        rows->n = kept;
}

static int print(Rows *rows, const Options *o) {
        if (o->by_device) {
                drop_operations(rows);
                return print_by_device(rows, o);
        }

        return o->output == OUTPUT_TABLE ? print_rows(rows, o) : print_rows_json(rows, o);
}

int verb_list(int argc, char **argv, const Options *o) {
        _cleanup_(query_freep) Query *q = NULL;
        _cleanup_(strv_freep) char **patterns = NULL;
        _cleanup_(rows_clear) Rows rows = {};
        char **phases = o->by_device ? NULL : o->phases;
        Range range, covered = {};
        int r;

        if (unit_names_mangle(argc - 1, argv + 1, &patterns) < 0)
                return log_oom();
        if (o->has_range) {
                r = range_from_options(o, &range);
                if (r < 0)
                        return r;
        }
        r = query_new(o, &q);
        if (r < 0)
                return r;
        r = o->has_range ? query_rows_range(q, patterns, o->ops, phases, &range, &rows, &covered) :
                           query_rows(q, patterns, o->ops, phases, &rows);
        if (r == -ENOENT)
                r = 0; /* no row, then */
        if (r < 0)
                return r;
        if (o->has_range && !range_is_covered(&covered))
                return range_log_nothing(q);

        if (print(&rows, o) < 0)
                return log_oom();
        if (o->has_range)
                range_print_covered(&range, &covered, o);

        return EXIT_SUCCESS;
}
