/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "abi.h"
#include "fields.h"

/* By how much a histogram grew between two looks at it. */

/* "total" and both parts of a request have all buckets, the phases one per power of two. */
bool phase_has_all_buckets(const char *phase);

typedef struct Growth {
        bool has_all_buckets;
        union {
                struct hist_full full;
                struct hist_short powers;
        };
} Growth;

/* Everything that is in there now. Then take away what was there before, as far as it is there. */
void growth_begin(Growth *g, const char *phase, const Buckets *now);
void growth_subtract(Growth *g, const Buckets *before);

/* 0 if it did not grow. No quantile is above max_ns, the largest of all times. */
uint64_t growth_quantile(const Growth *g, double q, uint64_t max_ns);
