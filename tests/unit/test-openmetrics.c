/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <inttypes.h>

#include "metric-fold.h"
#include "openmetrics.h"
#include "test.h"

static char *written(const MetricSet *s, MetricFormat format) {
        char *text = NULL;
        size_t size;
        FILE *f;

        f = open_memstream(&text, &size);
        assert_non_null(f);
        openmetrics_write(s, format, f);
        assert_int_equal(fclose(f), 0);
        assert_int_equal(strlen(text), size);

        return text;
}

static void check_seconds(uint64_t ns, const char *wanted) {
        char buf[METRIC_SECONDS_MAX];

        assert_string_equal(metric_format_seconds(buf, ns), wanted);
}

static void test_seconds(void **state) {
        uint64_t seed = 3;

        check_seconds(0, "0");
        check_seconds(1, "1e-09");
        check_seconds(10, "1e-08");
        check_seconds(1024, "1.024e-06");
        check_seconds(99999, "9.9999e-05");
        check_seconds(100000, "0.0001");
        check_seconds(131072, "0.000131072");
        check_seconds(NSEC_PER_SEC, "1");
        check_seconds(1500000000, "1.5");
        check_seconds(UINT64_C(1) << 36, "68.719476736");
        check_seconds(UINT64_MAX, "18446744073.709551615");

        /* Every number is read as what it was. */
        for (size_t i = 0; i < 100000; i++) {
                uint64_t ns = test_random(&seed) >> (14 + test_random(&seed) % 50);
                char buf[METRIC_SECONDS_MAX], *end;
                double d;

                d = strtod(metric_format_seconds(buf, ns), &end);
                assert_int_equal(*end, 0);
                assert_true((uint64_t) (d * 1e9 + 0.5) == ns);
        }
}

static void add(MetricSet *s, MetricFamily family, const char *a, const char *b, const char *c, uint64_t value) {
        assert_int_equal(metric_set_add(s, family, (const char *[]){ a, b, c }, value, NULL, 0), 0);
}

static void test_text(void **state) {
        _cleanup_(metric_set_freep) MetricSet *s = metric_set_new(metric_text_clean);
        _cleanup_free_ char *text = NULL, *open = NULL;

        add(s, METRIC_OPERATION_ERRORS, "a\\x2d\"b\n.service", "fsync", NULL, 3);
        add(s, METRIC_BLAMED_SECONDS, "a", "b", "journal", 1500000000);
        add(s, METRIC_LOST, "op-map-full", NULL, NULL, UINT64_MAX);
        add(s, METRIC_BUILD_INFO, "1.2.3", "function", NULL, 1);
        assert_int_equal(metric_set_fold(s, 1000, NULL), 0);

        text = written(s, METRIC_FORMAT_PROMETHEUS);
        assert_string_equal(text,
                            "# HELP iolat_operation_errors_total Operations that failed.\n"
                            "# TYPE iolat_operation_errors_total counter\n"
                            "iolat_operation_errors_total{unit=\"a\\\\x2d\\\"b\\n.service\",op=\"fsync\","
                            "device=\"\"} 3\n"
                            "# HELP iolat_blamed_seconds_total Time that the victim waited because of the culprit; "
                            "estimated in all phases but journal.\n"
                            "# TYPE iolat_blamed_seconds_total counter\n"
                            "iolat_blamed_seconds_total{victim=\"a\",culprit=\"b\",phase=\"journal\"} 1.5\n"
                            "# HELP iolat_lost_total Events that could not be counted.\n"
                            "# TYPE iolat_lost_total counter\n"
                            "iolat_lost_total{reason=\"op-map-full\"} 18446744073709551615\n"
                            "# HELP iolat_folded_units Units whose numbers are added up under \"(others)\", because of "
                            "MaxSeries=.\n"
                            "# TYPE iolat_folded_units gauge\n"
                            "iolat_folded_units 0\n"
                            "# HELP iolat_build_info Version of iolatd, and the tier that it measures with.\n"
                            "# TYPE iolat_build_info gauge\n"
                            "iolat_build_info{version=\"1.2.3\",tier=\"function\"} 1\n");

        open = written(s, METRIC_FORMAT_OPENMETRICS);
        assert_non_null(strstr(open, "# TYPE iolat_operation_errors counter\niolat_operation_errors_total{"));
        assert_non_null(strstr(open, "# TYPE iolat_blamed_seconds counter\n# UNIT iolat_blamed_seconds seconds\n"));
        assert_non_null(strstr(open, "# TYPE iolat_build info\niolat_build_info{"));
        assert_non_null(strstr(open, "under \\\"(others)\\\", because"));
        assert_string_equal(open + strlen(open) - strlen("\n# EOF\n"), "\n# EOF\n");
        assert_null(strstr(text, "# EOF"));
        assert_null(strstr(text, "# UNIT"));
}

/* Each edge is a power of two of ns and an edge of the buckets that are counted in; a value on the edge belongs
 * below it; the counts are cumulative. */
static void test_histogram(void **state) {
        _cleanup_(metric_set_freep) MetricSet *s = metric_set_new(metric_text_clean);
        _cleanup_free_ char *text = NULL;
        uint64_t buckets[METRIC_BUCKETS] = {}, total = 0;
        char *line, *rest;
        unsigned i = 0;

        for (unsigned k = BUCKET_MIN_LOG2; k <= BUCKET_MAX_LOG2; k++)
                for (uint64_t d = 0; d <= 1; d++)
                        buckets[bucket_short((UINT64_C(1) << k) + d)] += 1 + d * 2; /* one at the edge, three above */
        assert_int_equal(metric_set_add(s, METRIC_REQUEST_SECONDS,
                                        (const char *[]){ "a.service", "rq-write", "device", "8:0" }, 123456789,
                                        buckets, METRIC_BUCKETS), 0);
        metric_set_merge(s);
        text = written(s, METRIC_FORMAT_PROMETHEUS);

#define LABELS "unit=\"a.service\",kind=\"rq-write\",part=\"device\",device=\"8:0\""
        rest = text;
        while ((line = strsep(&rest, "\n")) && *line) {
                const char *value = startswith(line, "iolat_request_seconds_bucket{" LABELS ",le=\"");
                char wanted[64];

                if (!value)
                        continue;
                if (i == METRIC_BUCKETS - 1)
                        (void) snprintf(wanted, sizeof(wanted), "+Inf\"} %" PRIu64, total += 3);
                else {
                        unsigned k = BUCKET_MIN_LOG2 + i;
                        char *end;

                        assert_true(strtod(value, &end) == (double) (UINT64_C(1) << k) / 1e9);
                        assert_true(bucket_full_upper(bucket_full(UINT64_C(1) << k)) == UINT64_C(1) << k);
                        total += i == 0 ? 1 : 4;
                        (void) snprintf(wanted, sizeof(wanted), "\"} %" PRIu64, total);
                        value = end;
                }
                assert_string_equal(value, wanted);
                i++;
                if (i == METRIC_BUCKETS)
                        break;
        }
        assert_int_equal(i, METRIC_BUCKETS);
        assert_string_equal(strsep(&rest, "\n"), "iolat_request_seconds_sum{" LABELS "} 0.123456789");
        (void) snprintf(text, 200, "iolat_request_seconds_count{" LABELS "} %" PRIu64, total);
        assert_string_equal(strsep(&rest, "\n"), text);
        assert_string_equal(rest, "");
}

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_seconds),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_histogram),
)
