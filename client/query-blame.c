/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "bus-names.h"
#include "log.h"
#include "query-internal.h"

/* The order is that of the JSON objects and part of the contract. */
static const Field blame_fields[] = {
        { "victim", "victim", FIELD_STRING, offsetof(BlameRow, victim) },
        { "culprit", "culprit", FIELD_STRING, offsetof(BlameRow, culprit) },
        { "phase", "phase", FIELD_STRING, offsetof(BlameRow, phase) },
        { "step", "step", FIELD_STRING, offsetof(BlameRow, step) },
        { "device", "device", FIELD_STRING, offsetof(BlameRow, device) },
        { "mountPoint", NULL, FIELD_STRING, offsetof(BlameRow, mount_point) },
        { "sumNSec", "sumNSec", FIELD_NUMBER, offsetof(BlameRow, sum_ns) },
        { "estimated", "estimated", FIELD_BOOL, offsetof(BlameRow, estimated) },
        { "weight", "weight", FIELD_STRING, offsetof(BlameRow, weight) },
};
_Static_assert(ELEMENTSOF(blame_fields) <= FIELDS_MAX, "one bit each");

void blame_row_clear(BlameRow *row) {
        fields_clear(blame_fields, ELEMENTSOF(blame_fields), row);
}

void blame_rows_clear(BlameRows *rows) {
        for (size_t i = 0; i < rows->n; i++)
                blame_row_clear(&rows->items[i]);
        free(rows->items);
        *rows = (BlameRows){};
}

json_object *blame_row_to_json(const BlameRow *row) {
        return fields_to_json(blame_fields, ELEMENTSOF(blame_fields), row, row->present);
}

static int read_rows(sd_bus_message *reply, BlameRows *rows) {
        int r;

        r = sd_bus_message_enter_container(reply, 'a', "a{sv}");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_at_end(reply, false)) == 0) {
                BlameRow *items, *row;

                if (rows->n >= BLAME_ROWS_MAX)
                        return -E2BIG;
                items = reallocarray(rows->items, rows->n + 1, sizeof(BlameRow));
                if (!items)
                        return -ENOMEM;
                rows->items = items;
                row = &items[rows->n++];
                *row = (BlameRow){};
                r = fields_decode(reply, blame_fields, ELEMENTSOF(blame_fields), row, &row->present);
                if (r < 0)
                        return r;
                /* Without these it is not known who is blamed for what. */
                if (!row->victim || !row->culprit || !row->phase)
                        blame_row_clear(&rows->items[--rows->n]);
        }

        return r;
}

int query_blame(Query *q, const char *unit, const Range *range, BlameRows *rows) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        int r;

        r = query_call_simple(q, BUS_PATH, BUS_INTERFACE_MANAGER, "GetBlame", &reply, "stt", unit, range->since_us,
                              range->until_us);
        if (r < 0)
                return r;
        r = read_rows(reply, rows);
        if (r < 0)
                return query_log_reply(r);

        return 0;
}
