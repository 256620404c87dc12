/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What an exporter of metrics may ask of the daemon: all histograms at once, in the coarse form. */

#include "query.h"

enum {
        METRIC_HISTOGRAMS_MAX = _PHASE_MAX + 1, /* of one series: the phases and the total, or both parts */
};

typedef struct MetricHistogram {
        const char *phase;
        uint64_t sum_ns;
        uint64_t bucket[BUCKETS_SHORT];
} MetricHistogram;

/* One series: what its rows in List() have in common, and their histograms. */
typedef struct MetricSeries {
        const char *unit;
        const char *op;     /* or kind of request */
        const char *origin; /* NULL for operations of origin "self" */
        uint32_t dev;
        uint64_t errors;
        uint64_t bytes; /* requests only */
        MetricHistogram histograms[METRIC_HISTOGRAMS_MAX]; /* those that are not empty */
        size_t n_histograms;
} MetricSeries;

typedef int (*metric_callback)(const MetricSeries *series, void *userdata);

/* Calls back for at most limit series, beginning with the first one after cursor. *ret_next is the cursor for the
 * next page, 0 if there is none. */
int query_metrics(Manager *m, uint64_t cursor, uint32_t limit, metric_callback callback, void *userdata,
                  uint64_t *ret_next);

uint64_t query_max_series(Manager *m); /* MaxSeries= */
