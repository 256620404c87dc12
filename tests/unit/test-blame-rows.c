/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "blame-rows.h"
#include "test.h"

#define MSEC NSEC_PER_MSEC

static BlameRow row(const char *victim, const char *culprit, const char *phase, const char *step, uint64_t ns,
                    bool estimated) {
        return (BlameRow){
                .victim = (char *) victim,
                .culprit = (char *) culprit,
                .phase = (char *) phase,
                .step = (char *) step,
                .sum_ns = ns,
                .estimated = estimated,
        };
}

static void test_sort(void **state) {
        BlameRow items[] = {
                row("b.service", "a.service", "data", NULL, 100, true),
                row("a.service", "b.service", "journal", "log", 300, false),
                row("b.service", "c.service", "data", NULL, 500, true),
                row("a.service", "a.service", "journal", "log", 300, false),
        };
        BlameRows rows = { .items = items, .n = ELEMENTSOF(items) };

        blame_rows_sort(&rows);
        assert_string_equal(items[0].culprit, "c.service");
        assert_string_equal(items[1].culprit, "a.service");
        assert_string_equal(items[2].culprit, "b.service");
        assert_int_equal(items[0].victim_ns, 600);
        assert_int_equal(items[1].victim_ns, 600);
        assert_int_equal(items[3].sum_ns, 100);
        assert_int_equal(items[3].victim_ns, 600);

        items[0].sum_ns = items[3].sum_ns = UINT64_MAX;
        blame_rows_sort(&rows);
        assert_true(items[0].victim_ns == UINT64_MAX);

        blame_rows_sort(&(BlameRows){});
}

static void check(BlameRow *items, size_t n, const char *victim, const char *expected) {
        BlameRows rows = { .items = items, .n = n };
        _cleanup_free_ char *s = NULL;
        BlameTop top;

        if (!expected) {
                assert_false(blame_top(&rows, victim, &top));
                return;
        }
        assert_true(blame_top(&rows, victim, &top));
        s = blame_sentence(&top, victim);
        assert_non_null(s);
        assert_string_equal(s, expected);
}

/* The parts of one culprit are taken together. */
static void test_top(void **state) {
        BlameRow items[] = {
                row("db.service", "db.service", "journal", "record", 1500 * MSEC, false),
                row("db.service", "bulk.service", "journal", "locked", 1000 * MSEC, false),
                row("db.service", "bulk.service", "journal", "log", 800 * MSEC, false),
                row("db.service", "backup.service", "data", NULL, 700 * MSEC, true),
                row("web.service", "bulk.service", "throttle", NULL, 9000 * MSEC, true),
                row("idle.service", "bulk.service", "throttle", NULL, 0, true),
        };

        check(items, ELEMENTSOF(items), "db.service",
              "bulk.service made it wait 1.8s of 4s (most in journal, step locked)");
        check(items, ELEMENTSOF(items), "web.service", "bulk.service made it wait ~9s of 9s (throttle)");
        check(items, 1, "db.service", "it made itself wait 1.5s of 1.5s (journal, step record)");
        check(items, ELEMENTSOF(items), "idle.service", NULL);
        check(items, ELEMENTSOF(items), "no.service", NULL);
        check(items, 0, "db.service", NULL);
        check(items, 2, "bulk.service", NULL);

        /* An estimate of nothing makes no estimate. */
        items[2].sum_ns = 0;
        items[2].estimated = true;
        items[0].sum_ns = 0;
        check(items, 3, "db.service", "bulk.service made it wait 1s of 1s (journal, step locked)");
}

static void test_overflow(void **state) {
        BlameRow items[] = {
                row("a.service", "b.service", "data", NULL, UINT64_MAX, false),
                row("a.service", "b.service", "io", NULL, UINT64_MAX, false),
                {},
        };
        BlameRows rows = { .items = items, .n = ELEMENTSOF(items) };
        BlameTop top;

        assert_true(blame_top(&rows, "a.service", &top));
        assert_true(top.sum_ns == UINT64_MAX && top.victim_ns == UINT64_MAX);
        assert_true(top.has_more);
}

static void test_weights(void **state) {
        static const char *const weights[] = {
                "handles", "late-handle", "ordered-wait", "transactions", "busy-time", "written-bytes", "lock-holder",
        };

        for (size_t i = 0; i < ELEMENTSOF(weights); i++)
                assert_non_null(blame_weight_text(weights[i]));
        assert_null(blame_weight_text("nonsense"));
        assert_null(blame_weight_text(""));
}

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_sort),
        cmocka_unit_test(test_top),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_weights),
)
