/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "exporter/accept.h"
#include "fuzz.h"

/* A header of HTTP. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *s = fuzz_string(data, size);
        MetricFormat format = accept_negotiate(s);

        fuzz_check(format == METRIC_FORMAT_PROMETHEUS || format == METRIC_FORMAT_OPENMETRICS);
        /* Nobody gets what they did not ask for. */
        fuzz_check(format == METRIC_FORMAT_PROMETHEUS || strcasestr(s, "application/openmetrics-text"));

        return 0;
}
