/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* How numbers become rows, for all queries that have rows. */

#include "query.h"
#include "series.h"

/* A row's cursor: the number of its series, and which of its rows it is. */
enum { CURSOR_SHIFT = 6, CURSOR_ROW_MAX = (1 << CURSOR_SHIFT) - 1 };

typedef struct RowSink {
        const RowFilter *filter;
        uint64_t cursor; /* rows up to this one are not wanted */
        uint64_t last;   /* of the rows that were handed out */
        uint32_t left;   /* how many more are wanted */
        bool more;       /* there was at least one too many */
        bool current;
        uint64_t span_ns; /* of a query about a span of time: how long it is; else 0 */
        row_callback callback;
        void *userdata;
} RowSink;

bool row_filter_matches(const RowFilter *filter, const Series *s);

/* Hand out the rows of a series with these numbers that are wanted. */
int row_sink_op(Manager *m, RowSink *k, const Series *s, const struct op_value *v);
int row_sink_rq(Manager *m, RowSink *k, const Series *s, const struct rq_value *v);
