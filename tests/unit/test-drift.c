/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "drift.h"

static void test_idle_is_never_scanned(void **state) {
        Drift d = {};

        for (unsigned i = 0; i < 1000; i++)
                assert_false(drift_tick(&d, 0));
}

static void test_two_ticks_running(void **state) {
        Drift d = {};

        assert_false(drift_tick(&d, 1));
        assert_false(drift_tick(&d, 0));
        assert_false(drift_tick(&d, 1));
        assert_true(drift_tick(&d, 1));
        /* As long as it lasts, each time. */
        for (unsigned i = 0; i < 100; i++) {
                drift_scanned(&d, 1, 1, true);
                assert_true(drift_tick(&d, 1));
        }
}

/* A sum of which nothing can be found, over and over. */
static void learn(Drift *d, int64_t sum, uint64_t seen, unsigned times) {
        for (unsigned i = 0; i < times; i++)
                drift_scanned(d, sum, seen, true);
}

static void test_drift_is_learnt(void **state) {
        Drift d = {};

        (void) drift_tick(&d, 3);
        learn(&d, 3, 0, DRIFT_SCANS_AGREED - 1);
        assert_int_equal(d.known, 0);
        assert_true(drift_tick(&d, 3));
        learn(&d, 3, 0, 1);
        assert_int_equal(d.known, 3);

        /* Explained: no scan, but for the one now and then. */
        for (unsigned i = 1; i < DRIFT_TICKS_TRUSTED; i++)
                assert_false(drift_tick(&d, 3));
        assert_true(drift_tick(&d, 3));
        assert_false(drift_tick(&d, 3));

        /* One more than the drift is noticed as soon as without one. */
        assert_false(drift_tick(&d, 4));
        assert_true(drift_tick(&d, 4));
}

static void test_only_quiet_scans_teach(void **state) {
        Drift d = {};

        /* A thread that syncs all the time can be between two of them whenever it is looked for. */
        for (unsigned i = 0; i < 1000; i++)
                drift_scanned(&d, 1, 0, false);
        assert_int_equal(d.known, 0);
        assert_false(drift_tick(&d, 1));
        assert_true(drift_tick(&d, 1));
}

static void test_scans_that_disagree(void **state) {
        Drift d = {};

        for (unsigned i = 0; i < 100; i++) {
                drift_scanned(&d, 5, 3, true);
                drift_scanned(&d, 5, 3, true);
                drift_scanned(&d, 5, 2, true);
        }
        assert_int_equal(d.known, 0);
}

static void test_drift_is_unlearnt(void **state) {
        Drift d = {};

        learn(&d, 2, 0, DRIFT_SCANS_AGREED);
        assert_int_equal(d.known, 2);
        /* By the counter. */
        assert_false(drift_tick(&d, 1));
        assert_int_equal(d.known, 1);
        assert_false(drift_tick(&d, 2));
        assert_true(drift_tick(&d, 2));

        /* By a single scan: one of the two that were not found before hangs after all. */
        learn(&d, 2, 0, DRIFT_SCANS_AGREED);
        assert_int_equal(d.known, 2);
        assert_false(drift_tick(&d, 2));
        drift_scanned(&d, 2, 1, true);
        assert_int_equal(d.known, 1);
        assert_false(drift_tick(&d, 2));
        assert_true(drift_tick(&d, 2));
}

static void test_a_wrong_drift_does_not_hide_for_long(void **state) {
        Drift d = { .known = 1 }; /* however that came about */
        unsigned ticks = 0;

        while (!drift_tick(&d, 1))
                assert_true(++ticks <= DRIFT_TICKS_TRUSTED);
        drift_scanned(&d, 1, 1, true);
        assert_int_equal(d.known, 0);
        assert_false(drift_tick(&d, 1));
        assert_true(drift_tick(&d, 1));
}

static void test_counter_too_low(void **state) {
        Drift d = {};

        /* More were found than the counter says: from now on even a counter of 0 speaks of one. */
        drift_scanned(&d, 0, 1, true);
        assert_int_equal(d.known, -1);
        assert_false(drift_tick(&d, 0));
        assert_true(drift_tick(&d, 0));
        /* And it is taken back by the same rule as any other. */
        learn(&d, 0, 0, DRIFT_SCANS_AGREED);
        assert_false(drift_tick(&d, 0));
}

/* Whatever happens, an operation that hangs is scanned for within a minute, and again soon. */
static void test_random(void **state) {
        for (unsigned seed = 1; seed <= 200; seed++) {
                int64_t missed = 0, open = 0;
                Drift d = {};

                srand(seed);
                for (unsigned i = 0; i < 300; i++) {
                        open = rand() % 3;
                        missed += rand() % 10 == 0;
                        if (drift_tick(&d, open + missed)) {
                                bool quiet = rand() % 2;

                                drift_scanned(&d, open + missed, quiet ? (uint64_t) open : (uint64_t) (rand() % 3),
                                              quiet);
                        }
                        assert_true(d.known <= missed);
                }
                /* Now one hangs. */
                for (unsigned ticks = 0; !drift_tick(&d, missed + 1); ticks++)
                        assert_true(ticks < DRIFT_TICKS_ABOVE);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_idle_is_never_scanned),
                cmocka_unit_test(test_two_ticks_running),
                cmocka_unit_test(test_drift_is_learnt),
                cmocka_unit_test(test_only_quiet_scans_teach),
                cmocka_unit_test(test_scans_that_disagree),
                cmocka_unit_test(test_drift_is_unlearnt),
                cmocka_unit_test(test_a_wrong_drift_does_not_hide_for_long),
                cmocka_unit_test(test_counter_too_low),
                cmocka_unit_test(test_random),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
