/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What a report of metrics may ask of the daemon: few numbers a unit, and not more than it can take. */

#include "query.h"

/* One operation of a unit, on all filesystems; or one kind of request on one disk, of all origins. What loop devices
 * do is left out of operations, because it has been counted above them. */
typedef struct SummaryRow {
        char *unit;
        const char *op; /* or kind of request */
        bool is_request;
        uint32_t dev;   /* requests only; 0 for those of "(others)", if there are any that have no row of their own */
        uint64_t count;
        uint64_t errors;
        uint64_t bytes; /* requests only */
        uint64_t timed; /* so many have been timed */
        uint64_t sum_ns; /* total of operations, device of requests */
        uint64_t p50_ns;
        uint64_t p99_ns;
        uint64_t max_ns;
} SummaryRow;

typedef struct Summary {
        SummaryRow *rows;
        size_t n;
        size_t n_folded; /* units that had no place, those with the smallest sum of times: they are in "(others)" */
} Summary;

enum { SUMMARY_ROWS_OF_OTHERS = _OP_MAX + _RQ_KIND_MAX };

/* At most max rows, which must be more than SUMMARY_ROWS_OF_OTHERS. */
int query_summary(Manager *m, size_t max, Summary *ret);
void summary_done(Summary *s);
