/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "seen.h"
#include "test.h"

#define MSEC USEC_PER_MSEC
#define SEC USEC_PER_SEC

/* As somebody who may not know the thread sees it. */
static StallRow row(uint64_t id, uint64_t start_us, const char *unit, bool in_progress) {
        return (StallRow){
                .id = id,
                .start_us = start_us,
                .unit = (char *) unit,
                .op = (char *) "fsync",
                .state = (char *) (in_progress ? "in-progress" : "done"),
                .total_ns = 200 * NSEC_PER_MSEC,
        };
}

/* Which of the rows are news: a bit for each. */
static unsigned look(Seen *s, const StallRow *rows, size_t n) {
        unsigned news = 0;

        seen_begin(s);
        for (size_t i = 0; i < n; i++)
                if (seen_note(s, &rows[i]))
                        news |= 1U << i;
        seen_end(s);

        return news;
}

#define LOOK(s, ...) look(s, (const StallRow[]){ __VA_ARGS__ }, ELEMENTSOF(((const StallRow[]){ __VA_ARGS__ })))

static void test_once_and_at_its_end(void **state) {
        _cleanup_(seen_freep) Seen *s = NULL;

        assert_int_equal(seen_new(&s), 0);
        assert_int_equal(LOOK(s, row(1, 10 * SEC, "a.service", false), row(2, 11 * SEC, "a.service", true)), 3);
        assert_true(seen_any_in_progress(s));
        assert_int_equal(LOOK(s, row(1, 10 * SEC, "a.service", false), row(2, 11 * SEC, "a.service", true)), 0);
        assert_int_equal(LOOK(s, row(1, 10 * SEC, "a.service", false), row(2, 11 * SEC, "a.service", false)), 2);
        assert_false(seen_any_in_progress(s));
        assert_int_equal(LOOK(s, row(2, 11 * SEC, "a.service", false)), 0);

        /* Older, but the daemon has heard of it only now. */
        assert_int_equal(LOOK(s, row(3, 9 * SEC, "a.service", false)), 1);
}

static void test_gone(void **state) {
        _cleanup_(seen_freep) Seen *s = NULL;

        assert_int_equal(seen_new(&s), 0);
        assert_int_equal(LOOK(s, row(1, 10 * SEC, "a.service", true)), 1);
        assert_int_equal(look(s, NULL, 0), 0);
        assert_false(seen_any_in_progress(s));
}

static void test_restart(void **state) {
        _cleanup_(seen_freep) Seen *s = NULL;

        assert_int_equal(seen_new(&s), 0);
        assert_int_equal(LOOK(s, row(1, 10 * SEC, "a.service", false), row(2, 12 * SEC, "a.service", true),
                              row(3, 12 * SEC, "b.service", true)), 7);
        seen_restarted(s);

        /* Not found again yet, and still in progress as far as is known. */
        assert_int_equal(LOOK(s, row(1, 10 * SEC, "a.service", false)), 0);
        assert_true(seen_any_in_progress(s));

        /* Another number, and a start that was computed anew; the other one has ended meanwhile. */
        assert_int_equal(LOOK(s, row(1, 10 * SEC, "a.service", false), row(7, 12 * SEC + 300, "a.service", true),
                              row(8, 12 * SEC - 300, "b.service", false)), 4);
        assert_int_equal(LOOK(s, row(7, 12 * SEC + 300, "a.service", true), row(8, 12 * SEC - 300, "b.service", false)),
                         0);
        assert_int_equal(LOOK(s, row(7, 12 * SEC + 300, "a.service", false)), 1);
        assert_false(seen_any_in_progress(s));
}

static void test_restart_twice(void **state) {
        _cleanup_(seen_freep) Seen *s = NULL;

        assert_int_equal(seen_new(&s), 0);
        assert_int_equal(LOOK(s, row(1, 10 * SEC, "a.service", true)), 1);
        seen_restarted(s);
        assert_int_equal(look(s, NULL, 0), 0);
        seen_restarted(s);
        assert_int_equal(LOOK(s, row(2, 10 * SEC, "a.service", true)), 0);
        seen_restarted(s);
        assert_int_equal(LOOK(s, row(3, 10 * SEC, "a.service", false)), 1);
}

/* Two at the same time are two, whatever their numbers are now; and of another start, operation or unit is another. */
static void test_restart_with_alike(void **state) {
        _cleanup_(seen_freep) Seen *s = NULL;
        StallRow other;

        assert_int_equal(seen_new(&s), 0);
        assert_int_equal(LOOK(s, row(1, 10 * SEC, "a.service", true), row(2, 10 * SEC + 5, "a.service", true)), 3);
        seen_restarted(s);
        other = row(15, 10 * SEC, "a.service", true);
        other.op = (char *) "fdatasync";
        assert_int_equal(LOOK(s, row(11, 10 * SEC + 4, "a.service", true), row(12, 10 * SEC + 6, "a.service", true),
                              row(13, 10 * SEC + 7, "a.service", true), row(14, 10 * SEC + 5, "b.service", true),
                              other, row(16, 20 * SEC, "a.service", true)), 0x3c);
}

/* It was no longer in progress when the daemon came back, and what comes later is another. */
static void test_settled(void **state) {
        _cleanup_(seen_freep) Seen *s = NULL;

        assert_int_equal(seen_new(&s), 0);
        assert_int_equal(LOOK(s, row(1, 10 * SEC, "a.service", true)), 1);
        seen_restarted(s);
        assert_int_equal(look(s, NULL, 0), 0);
        seen_settled(s);
        assert_false(seen_any_in_progress(s));
        assert_int_equal(LOOK(s, row(2, 10 * SEC, "a.service", true)), 1);
}

/* The history remembers what the daemon had forgotten when we began to look. */
static void test_history(void **state) {
        _cleanup_(seen_freep) Seen *s = NULL;

        assert_int_equal(seen_new(&s), 0);
        assert_int_equal(LOOK(s, row(5, 10 * SEC, "a.service", false)), 1);
        seen_restarted(s);
        assert_int_equal(LOOK(s, row(1, 1 * SEC, "a.service", false), row(5, 10 * SEC, "a.service", false),
                              row(6, 10 * SEC + 100 * MSEC, "a.service", false)), 4);
        assert_int_equal(LOOK(s, row(1, 1 * SEC, "a.service", false), row(5, 10 * SEC, "a.service", false)), 0);
}

static void test_many(void **state) {
        _cleanup_(seen_freep) Seen *s = NULL;

        assert_int_equal(seen_new(&s), 0);
        for (uint64_t id = 1; id < 20000; id++)
                assert_int_equal(LOOK(s, row(id - 1, (id - 1) * SEC, "a.service", false),
                                      row(id, id * SEC, "a.service", false)), id == 1 ? 3 : 2);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_once_and_at_its_end),
                cmocka_unit_test(test_gone),
                cmocka_unit_test(test_restart),
                cmocka_unit_test(test_restart_twice),
                cmocka_unit_test(test_restart_with_alike),
                cmocka_unit_test(test_settled),
                cmocka_unit_test(test_history),
                cmocka_unit_test(test_many),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
