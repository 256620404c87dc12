/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "metric-set.h"

/* Keeps the number of time series to a limit. No system call in here. */

/* Which units were shown and which were folded when a limit was applied before. */
typedef struct MetricMemory {
        char **shown; /* sorted */
        size_t n_shown;
        char **folded;
        size_t n_folded;
} MetricMemory;

void metric_memory_clear(MetricMemory *m);

/* Merges, then adds up the numbers of the smallest units under "(others)", so that there are at most so many time
 * series, and adds the point that says how many units that are. Owners in parentheses stay what they are.
 *
 * A counter must not go down. So with a memory (NULL: none) a unit that was folded is not shown again, and one that
 * was shown is folded only if there is no other way. */
int metric_set_fold(MetricSet *s, uint64_t max_series, MetricMemory *memory);
