/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "log.h"
#include "openmetrics.h"
#include "options.h"
#include "pager.h"
#include "query-metrics.h"
#include "term.h"
#include "text.h"

int verb_metrics(int argc, char **argv, const Options *o) {
        _cleanup_(query_freep) Query *q = NULL;
        _cleanup_(metric_set_freep) MetricSet *set = NULL;
        int r;

        if (o->output != OUTPUT_TABLE) {
                log_error("Metrics are printed as Prometheus reads them, not as JSON.");
                return -EINVAL;
        }
        r = query_new(o, &q);
        if (r < 0)
                return r;
        r = query_metrics(q, term_is_terminal() ? text_escape : metric_text_clean, NULL, &set);
        if (r < 0)
                return r;

        pager_open(o);
        openmetrics_write(set, METRIC_FORMAT_PROMETHEUS, stdout);

        return EXIT_SUCCESS;
}
