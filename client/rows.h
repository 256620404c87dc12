/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "bar.h"
#include "fields.h"
#include "names.h"

/* One row of List(). Strings are NULL, numbers 0 where the daemon did not tell. */
typedef struct Row {
        char *unit;
        char *user_unit;
        char *op;
        char *phase;
        char *device;
        char *fs_type;
        char *mount_point;
        char *origin;
        bool async;
        uint64_t count;
        uint64_t errors;
        uint64_t bytes;
        uint64_t untimed;
        uint64_t sum_ns;
        uint64_t p50_ns;
        uint64_t p90_ns;
        uint64_t p99_ns;
        uint64_t max_ns;
        double in_flight;
        Pairs owned_by;
        Strings source;
        Buckets buckets;
        uint32_t present;
} Row;

typedef struct Rows {
        Row *items;
        size_t n;
        size_t allocated;
} Rows;

enum {
        ROWS_MAX = 1000000, /* altogether; more is not believed */
};

/* Reads aa{sv} and appends. -EBADMSG if that is not rows, -E2BIG if there are too many. */
int rows_append(Rows *rows, sd_bus_message *m);
void rows_clear(Rows *rows);
void row_clear(Row *row);

/* By unit, operations before requests, device, origin, and last the phase: "total" first. */
void rows_sort(Rows *rows);
int row_compare(const Row *a, const Row *b);

/* Rows that differ in the phase only are one operation, or one kind of request. Returns where the group that
 * begins at i ends; rows must be sorted. */
size_t rows_group_end(const Rows *rows, size_t i);
bool row_same_group(const Row *a, const Row *b);

bool row_is_request(const Row *row);
bool row_is_dirty_age(const Row *row); /* how old data was when it began to be written back: nobody waited */
bool row_is_phase(const Row *row, const char *phase);
bool row_has(const Row *row, size_t offset);
#define ROW_HAS(row, member) row_has(row, offsetof(Row, member))

/* Only there for what it says about requests without times: such a row is not shown. */
bool row_is_uncounted(const Row *row);

/* The row with that phase out of a group, or NULL. */
const Row *group_find(const Row *group, size_t n, const char *phase);

/* The phases of an operation and what they add up to, without "runqueue", which is not part of the sum. What is
 * missing to the total is added to "other". Returns how many there are. */
size_t group_shares(const Row *group, size_t n, Share shares[static SHARES_MAX]);

json_object *row_to_json(const Row *row);
