/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "bucket.h"
#include "util.h"

/* Numbers for Prometheus: collected point by point, then merged. No system call in here. */

enum {
        METRIC_BUCKETS = BUCKETS_SHORT,
        METRIC_LABELS_MAX = 4,
        METRIC_HISTOGRAM_COST = METRIC_BUCKETS + 2, /* time series of one histogram: with _sum and _count */
        METRIC_POINTS_MAX = 1000000,                /* altogether; more is not believed */
        METRIC_TEXT_MAX = 4096,                     /* bytes of a label's value */
};

typedef enum MetricFamily {
        METRIC_OPERATION_SECONDS,
        METRIC_REQUEST_SECONDS,
        METRIC_OPERATION_ERRORS,
        METRIC_REQUEST_BYTES,
        METRIC_BLAMED_SECONDS,
        METRIC_LOST,
        METRIC_FOLDED_UNITS,
        METRIC_BUILD_INFO,
        _METRIC_FAMILY_MAX,
} MetricFamily;

typedef struct MetricDef {
        const char *name;   /* without "_total" and "_info" */
        const char *type;   /* as OpenMetrics has it */
        const char *unit;   /* NULL: none */
        const char *help;
        const char *labels[METRIC_LABELS_MAX]; /* the first ones are units, if there are any */
        unsigned n_units;
} MetricDef;

extern const MetricDef metric_defs[_METRIC_FAMILY_MAX];

unsigned metric_n_labels(MetricFamily family);

typedef struct MetricPoint {
        MetricFamily family;
        uint32_t labels[METRIC_LABELS_MAX]; /* for metric_set_text() */
        uint64_t value;                     /* in ns if the unit is seconds; the sum of a histogram */
        uint64_t *buckets;                  /* METRIC_BUCKETS counts, not cumulative; NULL if it is no histogram */
} MetricPoint;

typedef struct MetricSet MetricSet;

/* escape makes a string harmless, see metric_text_clean(); it returns NULL if out of memory. */
MetricSet *metric_set_new(char *(*escape)(const char *s));
MetricSet *metric_set_free(MetricSet *s);
DEFINE_CLEANUP_FUNC(MetricSet, metric_set_free)

/* A point of any family. Labels are in the order of the definition, NULL is the empty string. buckets may be fewer
 * than METRIC_BUCKETS, and NULL for what is no histogram. -EBADMSG if there are more, or a label is too long, -E2BIG
 * if there are too many points. */
int metric_set_add(MetricSet *s, MetricFamily family, const char *const *labels, uint64_t value,
                   const uint64_t *buckets, size_t n_buckets);

/* Sorts, and adds up points that have the same labels. */
void metric_set_merge(MetricSet *s);

const MetricPoint *metric_set_points(const MetricSet *s, size_t *ret_n);
const char *metric_set_text(const MetricSet *s, uint32_t label);
uint64_t metric_set_count(const MetricSet *s); /* of time series */

/* Control characters other than the newline, which the formats can express, become \xNN. */
char *metric_text_clean(const char *s);
