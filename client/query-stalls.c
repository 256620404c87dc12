/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "bus-names.h"
#include "log.h"
#include "query-internal.h"

enum {
        PAGE_ROWS = 256,  /* the daemon gives no more at once */
        PAGES_MAX = 1000,
        N_OPERATION_FIELDS = 3,
};

/* The order is that of the JSON objects and part of the contract. */
static const Field stall_fields[] = {
        { "id", "id", FIELD_NUMBER, offsetof(StallRow, id) },
        { "startRealtimeUSec", "startRealtimeUSec", FIELD_NUMBER, offsetof(StallRow, start_us) },
        { "unit", "unit", FIELD_STRING, offsetof(StallRow, unit) },
        { "op", "op", FIELD_STRING, offsetof(StallRow, op) },
        { "state", "state", FIELD_STRING, offsetof(StallRow, state) },
        { "error", "error", FIELD_STRING, offsetof(StallRow, error) },
        { "totalNSec", "totalNSec", FIELD_NUMBER, offsetof(StallRow, total_ns) },
        { "phase", "phase", FIELD_STRING, offsetof(StallRow, phase) },
        { "phases", "phases", FIELD_PAIRS, offsetof(StallRow, phases) },
        { "steps", "steps", FIELD_PAIRS, offsetof(StallRow, steps) },
        { "requests", "requests", FIELD_PAIRS, offsetof(StallRow, requests) },
        { "device", "device", FIELD_STRING, offsetof(StallRow, device) },
        { "mountPoint", "mountPoint", FIELD_STRING, offsetof(StallRow, mount_point) },
        { "transaction", "transaction", FIELD_UINT32, offsetof(StallRow, transaction) },
        { "owners", "owners", FIELD_SHARES, offsetof(StallRow, owners) },
        { "waitNSec", "waitNSec", FIELD_NUMBER, offsetof(StallRow, wait_ns) },
        { "file", "file", FIELD_STRING, offsetof(StallRow, file) },
        { "pid", "pid", FIELD_INT32, offsetof(StallRow, pid) },
        { "comm", "comm", FIELD_STRING, offsetof(StallRow, comm) },
        { "thread", "thread", FIELD_INT32, offsetof(StallRow, thread) },
        /* Of operations only */
        { "spans", "spans", FIELD_PHASE_SPANS, offsetof(StallRow, spans) },
        { "journal", "journal", FIELD_STEP_SPANS, offsetof(StallRow, journal) },
        { "lost", "lost", FIELD_NUMBER, offsetof(StallRow, lost) },
};
_Static_assert(ELEMENTSOF(stall_fields) <= FIELDS_MAX, "one bit each");

#define N_STALL_FIELDS (ELEMENTSOF(stall_fields) - N_OPERATION_FIELDS)

void stall_row_clear(StallRow *row) {
        fields_clear(stall_fields, ELEMENTSOF(stall_fields), row);
}

void stall_rows_clear(StallRows *rows) {
        for (size_t i = 0; i < rows->n; i++)
                stall_row_clear(&rows->items[i]);
        free(rows->items);
        *rows = (StallRows){};
}

bool stall_row_has(const StallRow *row, size_t offset) {
        return field_present(stall_fields, ELEMENTSOF(stall_fields), row->present, offset);
}

bool stall_is_in_progress(const StallRow *row) {
        return row->state && streq(row->state, "in-progress");
}

static json_object *to_json(const StallRow *row, size_t n_fields) {
        static const char *const private_keys[] = { "file", "pid", "comm", "thread" };
        json_object *j = fields_to_json(stall_fields, n_fields, row, row->present);

        /* Who may not know them does not see that they exist. */
        if (j && !STALL_HAS(row, file) && !STALL_HAS(row, pid) && !STALL_HAS(row, comm) && !STALL_HAS(row, thread))
                for (size_t i = 0; i < ELEMENTSOF(private_keys); i++)
                        json_object_object_del(j, private_keys[i]);

        return j;
}

json_object *stall_row_to_json(const StallRow *row) {
        return to_json(row, N_STALL_FIELDS);
}

json_object *operation_to_json(const StallRow *row) {
        return to_json(row, ELEMENTSOF(stall_fields));
}

/* Whether it is this one: numbers begin anew with each start of the daemon. */
static bool same_stall(const StallRow *a, const StallRow *b) {
        return a->id == b->id && a->start_us == b->start_us;
}

static bool contains(const StallRows *rows, const StallRow *row) {
        for (size_t i = rows->n; i > 0; i--)
                if (same_stall(&rows->items[i - 1], row))
                        return true;

        return false;
}

static int add_row(StallRows *rows, StallRow *row) {
        StallRow *items;

        if (rows->n >= STALL_ROWS_MAX)
                return -E2BIG;
        items = reallocarray(rows->items, rows->n + 1, sizeof(StallRow));
        if (!items)
                return -ENOMEM;
        rows->items = items;
        items[rows->n++] = *row;
        *row = (StallRow){};

        return 0;
}

static int compare_starts(const void *a, const void *b) {
        uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

        return x < y ? -1 : x > y;
}

/* What one reply held. */
typedef struct Page {
        uint64_t starts[PAGE_ROWS];
        size_t n_rows;
        size_t n_new;
} Page;

static int read_page(sd_bus_message *reply, StallRows *rows, Page *page) {
        int r;

        r = sd_bus_message_enter_container(reply, 'a', "a{sv}");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_at_end(reply, false)) == 0) {
                _cleanup_(stall_row_clear) StallRow row = {};

                r = fields_decode(reply, stall_fields, N_STALL_FIELDS, &row, &row.present);
                if (r < 0)
                        return r;
                if (page->n_rows < PAGE_ROWS)
                        page->starts[page->n_rows] = row.start_us;
                page->n_rows++;
                if (contains(rows, &row))
                        continue;
                page->n_new++;
                r = add_row(rows, &row);
                if (r < 0)
                        return r;
        }

        return r;
}

static int query_page(Query *q, uint64_t since_us, StallRows *rows, Page *page) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        int r;

        r = query_call_simple(q, BUS_PATH, BUS_INTERFACE_MANAGER, "ListStalls", &reply, "tu", since_us, (uint32_t) 0);
        if (r < 0)
                return r;
        r = read_page(reply, rows, page);
        if (r < 0)
                return query_log_reply(r);

        return 0;
}

static int compare_rows(const void *a, const void *b) {
        const StallRow *x = a, *y = b;

        return x->start_us < y->start_us ? -1 : x->start_us > y->start_us ? 1 :
                x->id < y->id ? -1 : x->id > y->id;
}

static void drop_later(StallRows *rows, uint64_t until_us) {
        size_t kept = 0;

        for (size_t i = 0; i < rows->n; i++)
                if (rows->items[i].start_us <= until_us)
                        rows->items[kept++] = rows->items[i];
                else
                        stall_row_clear(&rows->items[i]);
        rows->n = kept;
}

int query_stalls(Query *q, const Range *range, StallRows *ret) {
        _cleanup_(stall_rows_clear) StallRows rows = {};
        uint64_t since = range->since_us;
        int r;

        /* They come in the order in which they were noted, by and large, and those that a page had no room for may
         * have begun before its last one. So the next page begins at a quarter of this one: what is missed then has
         * begun before that and was noted behind three quarters of a page of others. */
        for (size_t i = 0; i < PAGES_MAX; i++) {
                Page page = {};

                r = query_page(q, since, &rows, &page);
                if (r < 0)
                        return r;
                if (page.n_rows < PAGE_ROWS || page.n_new == 0)
                        break;
                qsort(page.starts, PAGE_ROWS, sizeof(page.starts[0]), compare_starts);
                since = page.starts[PAGE_ROWS / 4];
        }

        drop_later(&rows, range->until_us);
        if (rows.n > 0)
                qsort(rows.items, rows.n, sizeof(StallRow), compare_rows);
        *ret = rows;
        rows = (StallRows){};

        return 0;
}

int query_trace(Query *q, const char *unit, uint64_t min_ns) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;

        return query_call_simple(q, BUS_PATH, BUS_INTERFACE_MANAGER, "Trace", &reply, "st", unit, min_ns);
}

int operation_read(sd_bus_message *signal, StallRow *ret) {
        _cleanup_(stall_row_clear) StallRow row = {};
        int r;

        if (!sd_bus_message_has_signature(signal, "a{sv}"))
                return -EBADMSG;
        r = fields_decode(signal, stall_fields, ELEMENTSOF(stall_fields), &row, &row.present);
        if (r < 0)
                return r;
        *ret = row;
        row = (StallRow){};

        return 0;
}
