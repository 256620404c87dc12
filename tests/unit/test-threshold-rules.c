/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "threshold-rules.h"

#define MS NSEC_PER_MSEC

static void setup_rules(ThresholdRules *r) {
        threshold_rules_init(r);
        r->sync_ns = 100 * MS;
        r->write_ns = 200 * MS;
}

static void expect(const ThresholdRules *r, const char *unit, const char *user_unit, bool said, uint64_t sync_ns,
                   uint64_t write_ns, uint64_t trace_ns) {
        struct owner_settings s;

        assert_int_equal(threshold_rules_get(r, unit, user_unit, &s), said);
        assert_int_equal(s.sync_record_ns, sync_ns);
        assert_int_equal(s.write_record_ns, write_ns);
        assert_int_equal(s.trace_ns, trace_ns);
}

static void test_units(void **state) {
        _cleanup_(threshold_rules_done) ThresholdRules r;

        setup_rules(&r);
        assert_false(threshold_rules_any(&r));
        expect(&r, "a.service", NULL, false, 100 * MS, 200 * MS, UINT64_MAX);
        assert_int_equal(threshold_rules_set_unit(&r, "a.service", MS, THRESHOLD_GENERAL), 0);
        assert_true(threshold_rules_any(&r));
        expect(&r, "a.service", NULL, true, MS, 200 * MS, UINT64_MAX);
        expect(&r, "b.service", NULL, false, 100 * MS, 200 * MS, UINT64_MAX);
        /* The unit of a user's manager is another one of the same name. */
        assert_int_equal(threshold_rules_set_unit(&r, "app.service", 5 * MS, 6 * MS), 0);
        expect(&r, "a.service", "app.service", true, MS, 200 * MS, UINT64_MAX);
        expect(&r, "b.service", "app.service", false, 100 * MS, 200 * MS, UINT64_MAX);
        /* Set again, and forgotten. */
        assert_int_equal(threshold_rules_set_unit(&r, "a.service", UINT64_MAX, 7 * MS), 0);
        expect(&r, "a.service", NULL, true, UINT64_MAX, 7 * MS, UINT64_MAX);
        assert_int_equal(threshold_rules_set_unit(&r, "a.service", THRESHOLD_GENERAL, THRESHOLD_GENERAL), 0);
        assert_int_equal(threshold_rules_set_unit(&r, "app.service", THRESHOLD_GENERAL, THRESHOLD_GENERAL), 0);
        assert_false(threshold_rules_any(&r));
}

static void test_patterns(void **state) {
        _cleanup_(threshold_rules_done) ThresholdRules r;

        setup_rules(&r);
        assert_int_equal(threshold_rules_set_unit(&r, "db@*.service", MS, MS), 0);
        assert_int_equal(threshold_rules_set_unit(&r, "*.service", 2 * MS, 2 * MS), 0);
        assert_int_equal(threshold_rules_set_unit(&r, "db@1.service", 3 * MS, 3 * MS), 0);
        expect(&r, "db@1.service", NULL, true, 3 * MS, 3 * MS, UINT64_MAX);
        expect(&r, "db@2.service", NULL, true, MS, MS, UINT64_MAX);
        expect(&r, "web.service", NULL, true, 2 * MS, 2 * MS, UINT64_MAX);
        expect(&r, "web.scope", NULL, false, 100 * MS, 200 * MS, UINT64_MAX);
        assert_int_equal(threshold_rules_set_unit(&r, "db@*.service", THRESHOLD_GENERAL, THRESHOLD_GENERAL), 0);
        expect(&r, "db@2.service", NULL, true, 2 * MS, 2 * MS, UINT64_MAX);
        /* Backslashes belong to names. */
        assert_int_equal(threshold_rules_set_unit(&r, "x\\x2d*.scope", MS, MS), 0);
        expect(&r, "x\\x2dy.scope", NULL, true, MS, MS, UINT64_MAX);
}

static void test_traces(void **state) {
        _cleanup_(threshold_rules_done) ThresholdRules r;
        const ThresholdTrace traces[] = { { "a.service", 5 }, { "a.service", 3 }, { "", 9 }, { "", 7 } };

        setup_rules(&r);
        assert_int_equal(threshold_rules_set_traces(&r, traces, 4), 0);
        assert_int_equal(r.trace_all_ns, 7);
        expect(&r, "a.service", NULL, true, 100 * MS, 200 * MS, 3);
        expect(&r, "b.service", "a.service", true, 100 * MS, 200 * MS, 3);
        expect(&r, "b.service", NULL, false, 100 * MS, 200 * MS, 7);
        /* Only of all units: nothing is said about one. */
        assert_int_equal(threshold_rules_set_traces(&r, traces + 2, 1), 0);
        assert_false(threshold_rules_any(&r));
        assert_int_equal(threshold_rules_set_traces(&r, NULL, 0), 0);
        assert_int_equal(r.trace_all_ns, UINT64_MAX);
}

static void test_limits(void **state) {
        _cleanup_(threshold_rules_done) ThresholdRules r;
        char name[64];

        setup_rules(&r);
        for (int i = 0; i <= THRESHOLD_UNITS_MAX; i++) {
                snprintf(name, sizeof(name), "u%d.service", i);
                assert_int_equal(threshold_rules_set_unit(&r, name, MS, MS), i < THRESHOLD_UNITS_MAX ? 0 : -ENOBUFS);
        }
        for (int i = 0; i <= THRESHOLD_PATTERNS_MAX; i++) {
                snprintf(name, sizeof(name), "p%d*.service", i);
                assert_int_equal(threshold_rules_set_unit(&r, name, MS, MS),
                                 i < THRESHOLD_PATTERNS_MAX ? 0 : -ENOBUFS);
        }
        expect(&r, "p63x.service", NULL, true, MS, MS, UINT64_MAX);
}

static void test_floor(void **state) {
        _cleanup_(threshold_rules_done) ThresholdRules r;
        const struct owner_settings own[] = { { 900 * MS, 800 * MS, UINT64_MAX }, { 50 * MS, 60 * MS, 70 * MS },
                                              { 50 * MS, 60 * MS, 3 } };

        setup_rules(&r);
        assert_int_equal(threshold_rules_floor(&r, own, 0), UINT64_MAX);
        /* From the general limit on a unit with a higher one has to be looked up. */
        assert_int_equal(threshold_rules_floor(&r, own, 1), 100 * MS);
        assert_int_equal(threshold_rules_floor(&r, own, 2), 50 * MS);
        assert_int_equal(threshold_rules_floor(&r, own, 3), 3);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_units),  cmocka_unit_test(test_patterns), cmocka_unit_test(test_traces),
                cmocka_unit_test(test_limits), cmocka_unit_test(test_floor),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
