/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "exporter/accept.h"
#include "test.h"

static void test_negotiation(void **state) {
        static const struct {
                const char *accept;
                MetricFormat format;
        } cases[] = {
                { NULL, METRIC_FORMAT_PROMETHEUS },
                { "", METRIC_FORMAT_PROMETHEUS },
                { "*/*", METRIC_FORMAT_PROMETHEUS },
                { "text/html, */*;q=0.8", METRIC_FORMAT_PROMETHEUS },
                { "application/openmetrics-text", METRIC_FORMAT_OPENMETRICS },
                { "Application/OpenMetrics-Text ; Version=1.0.0 ; charset=utf-8", METRIC_FORMAT_OPENMETRICS },
                { "application/openmetrics-text; version=\"1.0.0\"", METRIC_FORMAT_OPENMETRICS },
                { "application/openmetrics-text; version=0.0.1", METRIC_FORMAT_PROMETHEUS },
                { "application/openmetrics-text; version=2.0.0", METRIC_FORMAT_PROMETHEUS },
                { "application/openmetrics-text;q=0", METRIC_FORMAT_PROMETHEUS },
                { "application/openmetrics-text;q=0.5,text/plain;q=0.6", METRIC_FORMAT_PROMETHEUS },
                { "application/openmetrics-text;q=0.123,text/plain;q=0.122", METRIC_FORMAT_OPENMETRICS },
                { "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
                  "text/plain;version=0.0.4;q=0.5,*/*;q=0.1", METRIC_FORMAT_OPENMETRICS },
                { "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;q=0.4,*/*;q=0.2",
                  METRIC_FORMAT_OPENMETRICS },
                { "application/openmetrics-text;q=;,;;=;,=", METRIC_FORMAT_PROMETHEUS },
                { "application/openmetrics-text;q=x", METRIC_FORMAT_PROMETHEUS },
                { "xapplication/openmetrics-text", METRIC_FORMAT_PROMETHEUS },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                assert_int_equal(accept_negotiate(cases[i].accept), cases[i].format);
}

/* Whatever it is, there is an answer. */
static void test_random_text(void **state) {
        static const char *const pieces[] = { "application/openmetrics-text", "text/plain", ";", ",", "=", "q", "version",
                                              "1.0.0", "\"", " ", "0.5", "\xff", "*/*", "99999999999999999999" };
        uint64_t seed = 5;

        for (size_t i = 0; i < 20000; i++) {
                char text[1024] = "";

                for (size_t n = test_random(&seed) % 20; n > 0; n--)
                        strcat(text, pieces[test_random(&seed) % ELEMENTSOF(pieces)]);
                assert_in_range(accept_negotiate(text), 0, _METRIC_FORMAT_MAX - 1);
        }
}

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_negotiation),
        cmocka_unit_test(test_random_text),
)
