/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "test.h"
#include "timespan.h"

#define DAY (UINT64_C(86400) * NSEC_PER_SEC)
#define YEAR (UINT64_C(31557600) * NSEC_PER_SEC)

static void test_good(void **state) {
        static const struct {
                const char *text;
                uint64_t ns;
        } vectors[] = {
                { "0", 0 },
                { "5", 5 * NSEC_PER_SEC },
                { "5s", 5 * NSEC_PER_SEC },
                { " 5 s ", 5 * NSEC_PER_SEC },
                { "1s 500ms", 1500 * NSEC_PER_MSEC },
                { "1s500ms", 1500 * NSEC_PER_MSEC },
                { "500ms 1s", 1500 * NSEC_PER_MSEC },
                { "1 500ms", 1500 * NSEC_PER_MSEC },
                { "1.5s", 1500 * NSEC_PER_MSEC },
                { "1.5", 1500 * NSEC_PER_MSEC },
                { ".5s", 500 * NSEC_PER_MSEC },
                { "1.s", NSEC_PER_SEC },
                { "2min", 120 * NSEC_PER_SEC },
                { "2m", 120 * NSEC_PER_SEC },
                { "1min 20s", 80 * NSEC_PER_SEC },
                { "1h30min", 5400 * NSEC_PER_SEC },
                { "2hr", 7200 * NSEC_PER_SEC },
                { "2 hours", 7200 * NSEC_PER_SEC },
                { "55s500ms", 55500 * NSEC_PER_MSEC },
                { "300ms20s 5day", 5 * DAY + 20300 * NSEC_PER_MSEC },
                { "1d", DAY },
                { "1day", DAY },
                { "3days", 3 * DAY },
                { "1w", 7 * DAY },
                { "2weeks", 14 * DAY },
                { "1M", YEAR / 12 },
                { "1month", YEAR / 12 },
                { "12months", YEAR },
                { "1y", YEAR },
                { "2 years", 2 * YEAR },
                { "100ms", 100 * NSEC_PER_MSEC },
                { "100msec", 100 * NSEC_PER_MSEC },
                { "7us", 7000 },
                { "7usec", 7000 },
                { "7\xc2\xb5s", 7000 },
                { "7\xce\xbcs", 7000 },
                { "7ns", 7 },
                { "7nsec", 7 },
                { "0.000000001s", 1 },
                { "0.0000000019s", 1 },
                { "0.00000000099999s", 0 },
                { "0.333333333333333333333333333333s", 333333333 },
                { "2 second 1seconds 1sec", 4 * NSEC_PER_SEC },
                { "infinity", TIMESPAN_INFINITY },
                { " infinity ", TIMESPAN_INFINITY },
                { "18446744073709551614ns", UINT64_MAX - 1 },
        };

        for (size_t i = 0; i < ELEMENTSOF(vectors); i++) {
                uint64_t ns = 1;

                assert_int_equal(timespan_parse(vectors[i].text, &ns), 0);
                assert_true(ns == vectors[i].ns);
        }
}

static void test_bad(void **state) {
        static const struct {
                const char *text;
                int error;
        } vectors[] = {
                { "", -EINVAL },
                { " ", -EINVAL },
                { "s", -EINVAL },
                { "ms", -EINVAL },
                { ".", -EINVAL },
                { ".s", -EINVAL },
                { "abc", -EINVAL },
                { "5x", -EINVAL },
                { "5 x", -EINVAL },
                { "5sx", -EINVAL },
                { "5S", -EINVAL },
                { "5MS", -EINVAL },
                { "5s x", -EINVAL },
                { "5s infinity", -EINVAL },
                { "infinity 5s", -EINVAL },
                { "infinitys", -EINVAL },
                { "Infinity", -EINVAL },
                { "1.5.5s", -EINVAL },
                { "1..5s", -EINVAL },
                { "1s-5s", -EINVAL },
                { "1-5", -EINVAL },
                { "+5s", -EINVAL },
                { "--5s", -EINVAL },
                { "5s,", -EINVAL },
                { "0x10", -EINVAL },
                { "1e3", -EINVAL },
                { "1s\xff", -EINVAL },
                { "-5s", -ERANGE },
                { "-0", -ERANGE },
                { "18446744073709551615ns", -ERANGE },
                { "18446744073709551616ns", -ERANGE },
                { "99999999999999999999999999999999", -ERANGE },
                { "18446744073709551615s", -ERANGE },
                { "18446744073s 18446744073s", -ERANGE },
                { "18446744073709551614ns 1ns", -ERANGE },
                { "600y", -ERANGE },
        };

        for (size_t i = 0; i < ELEMENTSOF(vectors); i++) {
                uint64_t ns = 4711;

                assert_int_equal(timespan_parse(vectors[i].text, &ns), vectors[i].error);
                assert_true(ns == 4711);
        }
}

static void check_format(uint64_t ns, const char *expected) {
        char buf[TIMESPAN_FORMAT_MAX];
        uint64_t again;

        assert_ptr_equal(timespan_format(ns, buf, sizeof(buf)), buf);
        if (expected)
                assert_string_equal(buf, expected);
        assert_true(strlen(buf) + 1 < sizeof(buf));
        assert_int_equal(timespan_parse(buf, &again), 0);
        assert_true(again == ns);
}

static void test_format(void **state) {
        uint64_t seed = 3;

        check_format(0, "0");
        check_format(1, "1ns");
        check_format(1500 * NSEC_PER_MSEC, "1s 500ms");
        check_format(100 * NSEC_PER_MSEC, "100ms");
        check_format(90 * NSEC_PER_SEC, "1min 30s");
        check_format(DAY, "1d");
        check_format(YEAR / 12, "1month");
        check_format(TIMESPAN_INFINITY, "infinity");
        check_format(TIMESPAN_INFINITY - 1, NULL);
        for (size_t i = 0; i < 20000; i++)
                check_format(test_random(&seed) >> (i % 64), NULL);
}

static void test_format_cut_off(void **state) {
        char buf[16];

        for (size_t size = 1; size <= sizeof(buf); size++) {
                memset(buf, 'x', sizeof(buf));
                timespan_format(TIMESPAN_INFINITY - 1, buf, size);
                assert_true(strnlen(buf, size) < size);
                assert_true(size == sizeof(buf) || buf[size] == 'x');
        }
        buf[0] = 'x';
        timespan_format(1, buf, 0);
        assert_int_equal(buf[0], 'x');
}

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_format_cut_off),
)
