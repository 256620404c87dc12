/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "metric-fold.h"
#include "query.h"

/* Everything that there is for Prometheus, folded to the limit that is configured for the daemon, see
 * metric_set_fold(). Logs its errors; those of query.h that are quiet do not occur. */
int query_metrics(Query *q, char *(*escape)(const char *s), MetricMemory *memory, MetricSet **ret);
