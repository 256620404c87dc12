/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "span.h"

static void expect(const Span *s, const char *name, uint64_t start, uint64_t end) {
        assert_string_equal(s->name, name);
        assert_int_equal(s->start_ns, start);
        assert_int_equal(s->end_ns, end);
}

static void test_phases(void **state) {
        struct stall s = {
                .end_ns = 2000,
                .total_ns = 1000,
                .n_intervals = 6,
                .interval = {
                        { .start_ns = 900, .end_ns = 1100, .phase = PHASE_LOCK },     /* began before */
                        { .start_ns = 1200, .end_ns = 1500, .phase = PHASE_DATA },
                        { .start_ns = 1300, .end_ns = 1400, .phase = PHASE_ADMISSION }, /* inside the one before */
                        { .start_ns = 1900, .end_ns = 2100, .phase = PHASE_FLUSH },   /* ends after */
                        { .start_ns = 2500, .end_ns = 2600, .phase = PHASE_IO },      /* outside */
                        { .start_ns = 1500, .end_ns = 1400, .phase = PHASE_IO },      /* turned around */
                },
        };
        Span got[INTERVALS_MAX];

        assert_int_equal(spans_of_phases(&s, got), 4);
        expect(&got[0], "lock", 0, 100);
        expect(&got[1], "data", 200, 500);
        expect(&got[2], "admission", 300, 400);
        expect(&got[3], "flush", 900, 1000);
}

static void test_bad_records(void **state) {
        struct stall s = { .end_ns = 2000, .total_ns = 1000, .n_intervals = UINT32_MAX };
        Span got[INTERVALS_MAX];

        for (int i = 0; i < INTERVALS_MAX; i++)
                s.interval[i] = (struct interval){ .start_ns = 1, .end_ns = UINT64_MAX,
                                                   .phase = i % 2 ? 1000 : UINT64_MAX };
        assert_int_equal(spans_of_phases(&s, got), 0);
        for (int i = 0; i < INTERVALS_MAX; i++)
                s.interval[i].phase = PHASE_IO;
        assert_int_equal(spans_of_phases(&s, got), INTERVALS_MAX);
        for (int i = 0; i < INTERVALS_MAX; i++)
                expect(&got[i], "io", 0, 1000);

        s.total_ns = 0;
        assert_int_equal(spans_of_phases(&s, got), 0);
        s.total_ns = UINT64_MAX; /* longer than the clock has run */
        assert_int_equal(spans_of_phases(&s, got), INTERVALS_MAX);
}

static void test_journal(void **state) {
        struct stall s = {
                .end_ns = 2000,
                .total_ns = 1000,
                .step_ns[STEP_PREVIOUS] = 150,
                .tx = { .tid = 5, .start_ns = 1200, .locking_ns = 1200, .flushing_ns = 1300, .logging_ns = 1400,
                        .data_wait_ns = 1450, .data_wait_end_ns = 1500, .record_ns = 1700, .end_ns = 2500 },
        };
        Span got[JOURNAL_SPANS_MAX];

        assert_int_equal(spans_of_journal(&s, got), 6);
        expect(&got[0], "previous", 50, 200);
        expect(&got[1], "locked", 200, 300);
        expect(&got[2], "flushing", 300, 400);
        expect(&got[3], "log", 400, 700);
        expect(&got[4], "flushing", 450, 500);
        expect(&got[5], "record", 700, 1000);

        /* A commit that was under way when the operation began. */
        s.tx.start_ns = 500;
        s.tx.flushing_ns = 600;
        s.tx.logging_ns = 1100;
        s.tx.data_wait_ns = s.tx.data_wait_end_ns = 0;
        s.step_ns[STEP_PREVIOUS] = 0;
        assert_int_equal(spans_of_journal(&s, got), 3);
        expect(&got[0], "flushing", 0, 100);
        expect(&got[1], "log", 100, 700);
        expect(&got[2], "record", 700, 1000);

        /* Nothing is made up for edges that were not seen. */
        s.tx = (struct tx){ .tid = 5, .start_ns = 1100, .end_ns = 1900 };
        assert_int_equal(spans_of_journal(&s, got), 0);
        s.tx = (struct tx){ .start_ns = 1100, .flushing_ns = 1200 };
        assert_int_equal(spans_of_journal(&s, got), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_phases),
                cmocka_unit_test(test_bad_records),
                cmocka_unit_test(test_journal),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
