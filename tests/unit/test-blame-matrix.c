/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "blame-matrix.h"
#include "names.h"
#include "test.h"

typedef struct Sum {
        const char *victim, *culprit; /* NULL: any */
        uint64_t ns;
        size_t n;
} Sum;

static int add_up(const BlameRow *row, void *userdata) {
        Sum *s = userdata;

        if ((s->victim && !streq(row->victim, s->victim)) || (s->culprit && !streq(row->culprit, s->culprit)))
                return 0;
        s->ns += row->ns;
        s->n++;

        return 0;
}

static Sum sum_of(Blame *b, const char *victim, const char *culprit) {
        Sum s = { victim, culprit };

        assert_int_equal(blame_foreach(b, add_up, &s), 0);
        return s;
}

static Sum window_of(Blame *b) {
        Sum s = {};

        assert_int_equal(blame_take_window(b, add_up, &s), 0);
        return s;
}

static BlameRow row(const char *victim, const char *culprit, uint64_t ns) {
        return (BlameRow){ .victim = victim, .culprit = culprit, .dev = 1, .phase = PHASE_JOURNAL, .step = STEP_LOG,
                           .ns = ns };
}

static void test_rows(void **state) {
        _cleanup_(blame_freep) Blame *b = NULL;
        char name[] = "a.service";
        BlameRow r = row(name, "b.service", 5);

        assert_int_equal(blame_new(&b, BLAME_ROWS_MAX), 0);
        assert_int_equal(blame_add(b, &r), 0);
        name[0] = 'x'; /* it has a copy */
        r.victim = "a.service";
        assert_int_equal(blame_add(b, &r), 0);
        assert_int_equal(blame_size(b), 1);
        r.step = STEP_RECORD;
        assert_int_equal(blame_add(b, &r), 0);
        r.estimated = true;
        assert_int_equal(blame_add(b, &r), 0);
        r.dev = 2;
        assert_int_equal(blame_add(b, &r), 0);
        r.phase = BLAME_QUEUE;
        r.step = BLAME_NO_STEP;
        assert_int_equal(blame_add(b, &r), 0);
        r.ns = 0;
        r.culprit = "c.service";
        assert_int_equal(blame_add(b, &r), 0);
        assert_int_equal(blame_size(b), 5);
        assert_int_equal(sum_of(b, "a.service", "b.service").ns, 30);
        assert_int_equal(sum_of(b, "b.service", NULL).n, 0);
        assert_int_equal(sum_of(b, NULL, "c.service").n, 0);
}

static void test_nonsense(void **state) {
        _cleanup_(blame_freep) Blame *b = NULL;
        BlameRow r = row("a", "b", 1);

        assert_int_equal(blame_new(&b, 10), 0);
        r.phase = BLAME_QUEUE + 1;
        assert_int_equal(blame_add(b, &r), -EINVAL);
        r = row("a", "b", 1);
        r.step = _STEP_MAX;
        assert_int_equal(blame_add(b, &r), -EINVAL);
        r = row("a", "b", 1);
        r.weight = _BLAME_BY_MAX;
        assert_int_equal(blame_add(b, &r), -EINVAL);
        assert_int_equal(blame_size(b), 0);
}

static void test_window(void **state) {
        _cleanup_(blame_freep) Blame *b = NULL;
        BlameRow r = row("a", "b", 7), q = row("a", "c", 9);

        assert_int_equal(blame_new(&b, 10), 0);
        assert_int_equal(blame_add(b, &r), 0);
        assert_int_equal(blame_add(b, &q), 0);
        assert_int_equal(window_of(b).ns, 16);
        assert_int_equal(window_of(b).n, 0);
        assert_int_equal(blame_add(b, &r), 0);
        assert_int_equal(window_of(b).ns, 7);
        assert_int_equal(sum_of(b, NULL, NULL).ns, 23);
}

static void test_listener(void **state) {
        _cleanup_(blame_freep) Blame *b = NULL;
        BlameRow r = row("a", "b", 7);
        Sum s = {};

        assert_int_equal(blame_new(&b, 10), 0);
        blame_set_listener(b, add_up, &s);
        for (unsigned i = 0; i < 3; i++)
                assert_int_equal(blame_add(b, &r), 0);
        assert_int_equal(s.ns, 21);
        assert_int_equal(s.n, 3);
}

/* The largest keep their names, the others' sum stays. */
static void test_culprits_fold(void **state) {
        enum { ROWS = 64, CULPRITS = 1000 };
        _cleanup_(blame_freep) Blame *b = NULL;
        BlameRow large = row("a", "large", UINT32_MAX);
        uint64_t total = large.ns, taken = 0;

        assert_int_equal(blame_new(&b, ROWS), 0);
        assert_int_equal(blame_add(b, &large), 0);
        for (unsigned i = 0; i < CULPRITS; i++) {
                char name[16];
                BlameRow r = row("a", name, 1 + i % 5);

                snprintf(name, sizeof(name), "c%u", i);
                assert_int_equal(blame_add(b, &r), 0);
                total += r.ns;
                assert_true(blame_size(b) <= ROWS);
                if (i % 100 == 0)
                        taken += window_of(b).ns;
        }
        assert_int_equal(sum_of(b, "a", NULL).ns, total);
        assert_int_equal(sum_of(b, "a", "large").ns, UINT32_MAX);
        assert_true(sum_of(b, "a", UNIT_OTHERS).ns > (total - UINT32_MAX) / 2);
        assert_int_equal(sum_of(b, "a", UNIT_OTHERS).n, 1);
        assert_int_equal(taken + window_of(b).ns, total);
}

static void test_victims_and_devices_fold(void **state) {
        enum { ROWS = 32, N = 2000 };
        _cleanup_(blame_freep) Blame *b = NULL;
        uint64_t total = 0;

        assert_int_equal(blame_new(&b, ROWS), 0);
        for (unsigned i = 0; i < N; i++) {
                char victim[16], culprit[16];
                BlameRow r = row(victim, culprit, 3);

                snprintf(victim, sizeof(victim), "v%u", i);
                snprintf(culprit, sizeof(culprit), "c%u", i);
                r.dev = i;
                assert_int_equal(blame_add(b, &r), 0);
                total += r.ns;
                assert_true(blame_size(b) <= ROWS);
        }
        assert_int_equal(sum_of(b, NULL, NULL).ns, total);
        assert_true(sum_of(b, UNIT_OTHERS, UNIT_OTHERS).ns > 0);
}

static void test_words(void **state) {
        for (int i = 0; i < _BLAME_BY_MAX; i++)
                assert_non_null(blame_weight_to_string(i));
        assert_null(blame_weight_to_string(_BLAME_BY_MAX));
        assert_null(blame_weight_to_string(-1));
        assert_string_equal(blame_phase_to_string(BLAME_QUEUE), "queue");
        assert_string_equal(blame_phase_to_string(PHASE_DATA), "data");
        assert_null(blame_phase_to_string(BLAME_QUEUE + 1));
}

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_listener),
        cmocka_unit_test(test_culprits_fold),
        cmocka_unit_test(test_victims_and_devices_fold),
        cmocka_unit_test(test_words),
)
