/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "alert-limits.h"
#include "test.h"

#define SEC NSEC_PER_SEC

static const AlertRate rate = { .burst = 5, .interval_ns = 30 * NSEC_PER_SEC };
static const AlertSubject stall = { .total_ns = SEC, .op = 1, .phase = 2, .dev = 3 };
static const AlertSubject failure = { .failed = true, .total_ns = 5 };

static unsigned n_reports;
static char last_unit[64];
static Suppressed last;
static bool taken = true;

static bool on_report(const char *unit, const Suppressed *s, void *userdata) {
        n_reports++;
        snprintf(last_unit, sizeof(last_unit), "%s", unit ?: "-");
        last = *s;

        return taken;
}

static int setup(void **state) {
        n_reports = 0;
        taken = true;

        return alert_limits_new((AlertLimits **) state);
}

static int teardown(void **state) {
        alert_limits_free(*state);

        return 0;
}

static bool allow(AlertLimits *l, const char *unit, const AlertSubject *about, uint64_t now) {
        return alert_limits_allow(l, unit, about, now, rate);
}

static unsigned report(AlertLimits *l, uint64_t now) {
        unsigned before = n_reports;

        alert_limits_report(l, now, rate, on_report, NULL);

        return n_reports - before;
}

static void use_up(AlertLimits *l, const char *unit, uint64_t now) {
        for (unsigned i = 0; i < rate.burst; i++)
                assert_true(allow(l, unit, &stall, now));
}

static void test_room_again(void **state) {
        AlertSubject longer = stall;
        AlertLimits *l = *state;

        longer.total_ns = 2 * SEC;
        longer.op = 7;
        use_up(l, "a.service", SEC);
        assert_int_equal(report(l, SEC), 0);
        assert_false(allow(l, "a.service", &stall, 2 * SEC));
        assert_false(allow(l, "a.service", &longer, 2 * SEC));
        assert_false(allow(l, "a.service", &stall, 3 * SEC));
        assert_int_equal(report(l, 6 * SEC), 0);
        assert_int_equal(report(l, 7 * SEC), 1); /* a fifth of the interval after the burst */
        assert_string_equal(last_unit, "a.service");
        assert_int_equal(last.n, 3);
        assert_int_equal(last.n_failed, 0);
        assert_int_equal(last.since_ns, 2 * SEC);
        assert_int_equal(last.worst.total_ns, 2 * SEC);
        assert_int_equal(last.worst.op, 7);
        /* The report took the room, and is not repeated. */
        assert_false(allow(l, "a.service", &stall, 7 * SEC));
        assert_int_equal(report(l, 12 * SEC), 0);
        assert_int_equal(report(l, 13 * SEC), 1);
        assert_int_equal(last.n, 1);
        assert_int_equal(report(l, 100 * SEC), 0);
}

/* In a storm the alerts take each room at once, and there is a report for each interval. */
static void test_storm(void **state) {
        AlertLimits *l = *state;
        uint64_t n_allowed = 0, n_left_out = 0, n_asked = 0;

        for (uint64_t t = SEC; t < 601 * SEC; t += SEC / 100, n_asked++) {
                if (t % SEC == SEC / 2 && report(l, t))
                        n_left_out += last.n;
                n_allowed += allow(l, "a.service", &stall, t);
        }
        assert_in_range(n_reports, 19, 21);
        assert_in_range(n_allowed + n_reports, 100, 130);
        while (report(l, 700 * SEC))
                n_left_out += last.n;
        assert_int_equal(n_allowed + n_left_out, n_asked);
}

static void test_failures_apart(void **state) {
        AlertLimits *l = *state;

        use_up(l, "a.service", SEC);
        assert_false(allow(l, "a.service", &stall, SEC));
        for (unsigned i = 0; i < rate.burst; i++)
                assert_true(allow(l, "a.service", &failure, SEC));
        assert_false(allow(l, "a.service", &failure, SEC));
        assert_false(allow(l, "a.service", &stall, SEC));
        assert_int_equal(report(l, 100 * SEC), 1);
        assert_int_equal(last.n, 3);
        assert_int_equal(last.n_failed, 1);
        assert_true(last.worst.failed);
        assert_int_equal(last.worst.total_ns, 5);
}

static void test_not_taken(void **state) {
        AlertLimits *l = *state;

        alert_limits_note(l, "a.service", &stall, SEC);
        taken = false;
        for (unsigned i = 0; i < 20; i++)
                assert_int_equal(report(l, SEC), 1);
        taken = true;
        assert_int_equal(report(l, SEC), 1);
        assert_int_equal(last.n, 1);
        assert_int_equal(report(l, SEC), 0);
}

static void test_many_units(void **state) {
        AlertLimits *l = *state;
        char name[32];

        for (unsigned i = 0; i < ALERT_LIMIT_UNITS_MAX; i++) {
                snprintf(name, sizeof(name), "%u.service", i);
                assert_true(allow(l, name, &stall, SEC));
        }
        /* The others share one. */
        use_up(l, "x.service", 2 * SEC);
        assert_false(allow(l, "y.service", &stall, 2 * SEC));
        assert_true(allow(l, "1.service", &stall, 2 * SEC));
        assert_int_equal(report(l, 8 * SEC), 1);
        assert_string_equal(last_unit, "-");
        /* Until the first have been quiet for an interval. */
        use_up(l, "x.service", 40 * SEC);
        use_up(l, "y.service", 40 * SEC);
        assert_false(allow(l, "x.service", &stall, 40 * SEC));
        assert_int_equal(report(l, 46 * SEC), 1);
        assert_string_equal(last_unit, "x.service");
}

#define WITH_LIMITS(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

DEFINE_TEST_MAIN(WITH_LIMITS(test_room_again), WITH_LIMITS(test_storm), WITH_LIMITS(test_failures_apart),
                 WITH_LIMITS(test_not_taken), WITH_LIMITS(test_many_units))
