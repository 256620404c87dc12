/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "metric-set.h"

/* What metric-set.c and metric-fold.c share with each other. */

typedef struct MetricText {
        char *s;
        uint32_t id;
} MetricText;

struct MetricSet {
        char *(*escape)(const char *s);
        void *tree; /* of MetricText, by the string */
        MetricText **texts;
        size_t n_texts, texts_allocated;
        MetricPoint *points;
        size_t n_points, points_allocated;
};

/* The number of a string that is harmless already. Takes it over in any case. */
int metric_set_intern(MetricSet *s, char *string, uint32_t *ret);

/* Time series of one point. */
uint64_t metric_cost(MetricFamily family);

/* Numbers that are too large stay at the largest one. */
static inline uint64_t metric_add(uint64_t a, uint64_t b) {
        return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}
