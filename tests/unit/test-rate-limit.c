/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "rate-limit.h"

static void test_burst(void **state) {
        RateLimit l = { .interval_ns = 10 * NSEC_PER_SEC, .burst = 5 };

        for (unsigned i = 0; i < 5; i++)
                assert_true(rate_limit_allow(&l, 100));
        assert_false(rate_limit_allow(&l, 100));
        assert_false(rate_limit_allow(&l, 101));
        assert_int_equal(rate_limit_take_suppressed(&l), 2);
        assert_int_equal(rate_limit_take_suppressed(&l), 0);
}

static void test_refill(void **state) {
        RateLimit l = { .interval_ns = 10 * NSEC_PER_SEC, .burst = 5 };
        uint64_t now = NSEC_PER_SEC;
        unsigned n = 0;

        while (rate_limit_allow(&l, now))
                assert_true(++n <= 5);
        assert_int_equal(n, 5);

        /* One token takes a fifth of the interval, whether it is asked for often or not. */
        assert_false(rate_limit_allow(&l, now + 2 * NSEC_PER_SEC - 1));
        assert_true(rate_limit_allow(&l, now + 2 * NSEC_PER_SEC));
        assert_false(rate_limit_allow(&l, now + 2 * NSEC_PER_SEC));

        /* Never more than the burst. */
        now += 3600 * NSEC_PER_SEC;
        for (n = 0; rate_limit_allow(&l, now); n++)
                assert_true(n < 5);
        assert_int_equal(n, 5);
}

static void test_long_run(void **state) {
        RateLimit l = { .interval_ns = 3 * NSEC_PER_SEC, .burst = 7 };
        uint64_t allowed = 0, asked = 0;

        /* A thousand intervals: a burst more than the rate at most, and no less than the rate but for rounding. */
        for (uint64_t t = 0; t < 3000 * NSEC_PER_SEC; t += 10 * NSEC_PER_MSEC, asked++)
                allowed += rate_limit_allow(&l, t);
        assert_true(allowed <= 7000 + 7);
        assert_true(allowed >= 7000 - 7);
        assert_int_equal(rate_limit_take_suppressed(&l), asked - allowed);
}

static void test_unlimited(void **state) {
        RateLimit none = {}, no_interval = { .burst = 1 }, no_burst = { .interval_ns = 1 };

        for (unsigned i = 0; i < 1000; i++) {
                assert_true(rate_limit_allow(&none, i));
                assert_true(rate_limit_allow(&no_interval, i));
                assert_true(rate_limit_allow(&no_burst, i));
        }
        assert_int_equal(rate_limit_take_suppressed(&none), 0);
}

static void test_time_goes_back(void **state) {
        RateLimit l = { .interval_ns = NSEC_PER_SEC, .burst = 1 };

        assert_true(rate_limit_allow(&l, 10 * NSEC_PER_SEC));
        assert_false(rate_limit_allow(&l, 5 * NSEC_PER_SEC));
        assert_false(rate_limit_allow(&l, 7 * NSEC_PER_SEC));
        assert_true(rate_limit_allow(&l, 11 * NSEC_PER_SEC));
        assert_true(rate_limit_allow(&l, UINT64_MAX));
}

static void test_changed_parameters(void **state) {
        RateLimit l = { .interval_ns = 100 * NSEC_PER_SEC, .burst = 1 };

        assert_true(rate_limit_allow(&l, 0));
        l.level_ns = 99 * NSEC_PER_SEC;
        l.interval_ns = NSEC_PER_SEC; /* what is left is cut to the new size */
        assert_true(rate_limit_allow(&l, 0));
        assert_false(rate_limit_allow(&l, 0));

        l.interval_ns = 3; /* more tokens than nanoseconds */
        l.burst = 10;
        assert_true(rate_limit_allow(&l, NSEC_PER_SEC));
        assert_true(rate_limit_allow(&l, NSEC_PER_SEC));
        assert_true(rate_limit_allow(&l, NSEC_PER_SEC));
        assert_false(rate_limit_allow(&l, NSEC_PER_SEC));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_burst),
                cmocka_unit_test(test_refill),
                cmocka_unit_test(test_long_run),
                cmocka_unit_test(test_unlimited),
                cmocka_unit_test(test_time_goes_back),
                cmocka_unit_test(test_changed_parameters),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
