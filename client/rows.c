/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "rows.h"

/* The order is that of the JSON objects and part of the contract. */
static const Field row_fields[] = {
        { "unit", "unit", FIELD_STRING, offsetof(Row, unit) },
        { "userUnit", "userUnit", FIELD_STRING, offsetof(Row, user_unit) },
        { "op", "op", FIELD_STRING, offsetof(Row, op) },
        { "phase", "phase", FIELD_STRING, offsetof(Row, phase) },
        { "device", "device", FIELD_STRING, offsetof(Row, device) },
        { "fsType", "fsType", FIELD_STRING, offsetof(Row, fs_type) },
        { "mountPoint", "mountPoint", FIELD_STRING, offsetof(Row, mount_point) },
        { "origin", "origin", FIELD_STRING, offsetof(Row, origin) },
        { "async", "async", FIELD_BOOL, offsetof(Row, async) },
        { "count", "count", FIELD_NUMBER, offsetof(Row, count) },
        { "errors", "errors", FIELD_NUMBER, offsetof(Row, errors) },
        { "bytes", "bytes", FIELD_NUMBER, offsetof(Row, bytes) },
        { "sumNSec", "sumNSec", FIELD_NUMBER, offsetof(Row, sum_ns) },
        { "p50NSec", "p50NSec", FIELD_NUMBER, offsetof(Row, p50_ns) },
        { "p90NSec", "p90NSec", FIELD_NUMBER, offsetof(Row, p90_ns) },
        { "p99NSec", "p99NSec", FIELD_NUMBER, offsetof(Row, p99_ns) },
        { "maxNSec", "maxNSec", FIELD_NUMBER, offsetof(Row, max_ns) },
        { "ownedBy", "ownedBy", FIELD_PAIRS, offsetof(Row, owned_by) },
        { "source", "source", FIELD_STRINGS, offsetof(Row, source) },
        /* Only on the bus: --by=device counts with them. */
        { "untimed", NULL, FIELD_NUMBER, offsetof(Row, untimed) },
        { "inFlight", NULL, FIELD_DOUBLE, offsetof(Row, in_flight) },
        /* Only if they were asked for. */
        { "buckets", NULL, FIELD_BUCKETS, offsetof(Row, buckets) },
};
_Static_assert(ELEMENTSOF(row_fields) <= FIELDS_MAX, "one bit each");

enum {
        RANK_TOTAL = -1,
        RANK_PART = 100,
        RANK_UNKNOWN = 1000,
};

void row_clear(Row *row) {
        fields_clear(row_fields, ELEMENTSOF(row_fields), row);
}

void rows_clear(Rows *rows) {
        for (size_t i = 0; i < rows->n; i++)
                row_clear(&rows->items[i]);
        free(rows->items);
        *rows = (Rows){};
}

int rows_append(Rows *rows, sd_bus_message *m) {
        int r;

        r = sd_bus_message_enter_container(m, 'a', "a{sv}");
        if (r < 0)
                return r;

        while ((r = sd_bus_message_at_end(m, false)) == 0) {
                Row *row;

                if (rows->n >= ROWS_MAX)
                        return -E2BIG;
                if (rows->n >= rows->allocated) {
                        size_t n = MAX(rows->allocated * 2, (size_t) 64);
                        Row *items;

                        items = reallocarray(rows->items, n, sizeof(Row));
                        if (!items)
                                return -ENOMEM;
                        rows->items = items;
                        rows->allocated = n;
                }
                row = &rows->items[rows->n++];
                *row = (Row){};
                r = fields_decode(m, row_fields, ELEMENTSOF(row_fields), row, &row->present);
                if (r < 0)
                        return r;
        }
        if (r < 0)
                return r;

        return sd_bus_message_exit_container(m);
}

static int compare_strings(const char *a, const char *b) {
        return strcmp(strempty(a), strempty(b));
}

static int phase_rank(const char *phase) {
        int i;

        if (isempty(phase))
                return RANK_UNKNOWN;
        if (streq(phase, "total"))
                return RANK_TOTAL;
        i = phase_from_string(phase);
        if (i >= 0)
                return i;
        i = rq_part_from_string(phase);

        return i >= 0 ? RANK_PART + i : RANK_UNKNOWN;
}

static int op_rank(const char *op) {
        int i;

        if (isempty(op))
                return RANK_UNKNOWN;
        i = op_from_string(op);
        if (i >= 0)
                return i;
        i = rq_kind_from_string(op);

        return i >= 0 ? RANK_PART + i : RANK_UNKNOWN;
}

/* All of the key but the phase. */
static int group_compare(const Row *a, const Row *b) {
        return compare_strings(a->unit, b->unit) ?:
                compare_strings(a->user_unit, b->user_unit) ?:
                op_rank(a->op) - op_rank(b->op) ?:
                compare_strings(a->op, b->op) ?:
                compare_strings(a->device, b->device) ?:
                compare_strings(a->origin, b->origin) ?:
                (int) a->async - (int) b->async;
}

int row_compare(const Row *a, const Row *b) {
        return group_compare(a, b) ?:
                phase_rank(a->phase) - phase_rank(b->phase) ?:
                compare_strings(a->phase, b->phase);
}

static int compare_for_qsort(const void *a, const void *b) {
        return row_compare(a, b);
}

void rows_sort(Rows *rows) {
        if (rows->n > 0)
                qsort(rows->items, rows->n, sizeof(Row), compare_for_qsort);
}

bool row_same_group(const Row *a, const Row *b) {
        return group_compare(a, b) == 0;
}

size_t rows_group_end(const Rows *rows, size_t i) {
        size_t end = i + 1;

        while (end < rows->n && row_same_group(&rows->items[i], &rows->items[end]))
                end++;

        return end;
}

bool row_is_request(const Row *row) {
        return row->op && startswith(row->op, "rq-");
}

bool row_is_dirty_age(const Row *row) {
        return row->op && streq(row->op, OP_WRITEBACK) && row_is_phase(row, PHASE_DIRTY_AGE);
}

bool row_is_phase(const Row *row, const char *phase) {
        return row->phase && streq(row->phase, phase);
}

bool row_has(const Row *row, size_t offset) {
        return field_present(row_fields, ELEMENTSOF(row_fields), row->present, offset);
}

bool row_is_uncounted(const Row *row) {
        return ROW_HAS(row, count) && row->count == 0;
}

const Row *group_find(const Row *group, size_t n, const char *phase) {
        for (size_t i = 0; i < n; i++)
                if (row_is_phase(&group[i], phase))
                        return &group[i];

        return NULL;
}

size_t group_shares(const Row *group, size_t n, Share shares[static SHARES_MAX]) {
        const Row *total = group_find(group, n, "total");
        uint64_t sum = 0;
        Share *other = NULL;
        size_t k = 0;

        for (size_t i = 0; i < n && k < SHARES_MAX - 1; i++) {
                const Row *row = &group[i];

                if (row == total || !row->phase || streq(row->phase, "runqueue") || row->sum_ns == 0)
                        continue;
                shares[k] = (Share){ .name = row->phase, .value = row->sum_ns };
                if (streq(row->phase, "other"))
                        other = &shares[k];
                sum += row->sum_ns;
                k++;
        }
        if (total && total->sum_ns > sum) {
                if (other)
                        other->value += total->sum_ns - sum;
                else
                        shares[k++] = (Share){ .name = "other", .value = total->sum_ns - sum };
        }

        return k;
}

json_object *row_to_json(const Row *row) {
        return fields_to_json(row_fields, ELEMENTSOF(row_fields), row, row->present);
}
