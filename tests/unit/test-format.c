/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "format.h"
#include "test.h"

static void test_nsec(void **state) {
        static const struct {
                uint64_t ns;
                const char *text;
        } table[] = {
                { 0, "0" },
                { 1, "1ns" },
                { 512, "512ns" },
                { NSEC_PER_USEC, "1us" },
                { 1234567, "1.235ms" },
                { 20 * NSEC_PER_MSEC, "20ms" },
                { NSEC_PER_SEC, "1s" },
                { 62 * NSEC_PER_SEC, "1min 2s" },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                assert_string_equal(FORMAT_NSEC(table[i].ns), table[i].text);
        /* Whatever the number, it fits and says something. */
        for (unsigned k = 0; k < 64; k++)
                assert_in_range(strlen(FORMAT_NSEC(1ULL << k)), 1, 20);
        assert_true(strlen(FORMAT_NSEC(UINT64_MAX)) > 0);
}

static void test_bytes(void **state) {
        assert_string_equal(FORMAT_BYTES(0), "0B");
        assert_string_equal(FORMAT_BYTES(1023), "1023B");
        assert_string_equal(FORMAT_BYTES(1024), "1K");
        assert_string_equal(FORMAT_BYTES(1258291), "1.1M");
        assert_true(strlen(FORMAT_BYTES(UINT64_MAX)) > 0);
}

static void test_percent(void **state) {
        assert_int_equal(percent(0, 0), 0);
        assert_int_equal(percent(1, 3), 33);
        assert_int_equal(percent(2, 3), 67);
        assert_int_equal(percent(UINT64_MAX, UINT64_MAX), 100);
}

static void test_parse_nsec(void **state) {
        uint64_t ns;

        assert_int_equal(parse_nsec("2", &ns), 0);
        assert_int_equal(ns, 2 * NSEC_PER_SEC);
        assert_int_equal(parse_nsec("1.5s", &ns), 0);
        assert_int_equal(ns, 1500 * NSEC_PER_MSEC);
        assert_int_equal(parse_nsec("500ms", &ns), 0);
        assert_int_equal(ns, 500 * NSEC_PER_MSEC);
        assert_int_equal(parse_nsec("1min", &ns), 0);
        assert_int_equal(ns, 60 * NSEC_PER_SEC);
        assert_int_equal(parse_nsec("", &ns), -EINVAL);
        assert_int_equal(parse_nsec("soon", &ns), -EINVAL);
        assert_int_equal(parse_nsec("-1", &ns), -EINVAL);
        assert_int_equal(parse_nsec("99999999999999999999s", &ns), -ERANGE);
}

static void test_parse_count(void **state) {
        uint64_t n;

        assert_int_equal(parse_count("17", 100, &n), 0);
        assert_int_equal(n, 17);
        assert_int_equal(parse_count("101", 100, &n), -ERANGE);
        assert_int_equal(parse_count("-1", 100, &n), -EINVAL);
        assert_int_equal(parse_count("1x", 100, &n), -EINVAL);
        assert_int_equal(parse_count("", 100, &n), -EINVAL);
}

static void test_parse_device(void **state) {
        assert_int_equal(parse_device("8:1"), 0);
        assert_int_equal(parse_device("254:1048575"), 0);
        assert_true(parse_device("8") < 0);
        assert_true(parse_device("8:1:2") < 0);
        assert_true(parse_device("sda") < 0);
        assert_true(parse_device("") < 0);
}

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_nsec),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_percent),
        cmocka_unit_test(test_parse_nsec),
        cmocka_unit_test(test_parse_count),
        cmocka_unit_test(test_parse_device),
)
