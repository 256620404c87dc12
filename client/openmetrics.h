/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "metric-set.h"

/* The text formats that Prometheus reads. */
typedef enum MetricFormat {
        METRIC_FORMAT_PROMETHEUS,  /* text, version 0.0.4 */
        METRIC_FORMAT_OPENMETRICS, /* version 1.0.0 */
        _METRIC_FORMAT_MAX,
} MetricFormat;

const char *metric_format_content_type(MetricFormat format);

/* Writes a merged set. Errors are those of the stream. */
void openmetrics_write(const MetricSet *s, MetricFormat format, FILE *f);

enum {
        METRIC_SECONDS_MAX = 32,
};

/* Nanoseconds as a number of seconds, exactly, however the locale writes numbers: "1.024e-06", "0.5". */
const char *metric_format_seconds(char buf[static METRIC_SECONDS_MAX], uint64_t ns);
