/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "growth.h"
#include "test.h"
#include "top-view.h"

enum {
        ROWS_IN_TEST = 64,
};

static void add(Rows *rows, const char *unit, const char *op, const char *phase, const char *device, uint64_t count,
                uint64_t sum_ns, uint64_t errors) {
        if (!rows->items) {
                rows->items = calloc(ROWS_IN_TEST, sizeof(Row));
                assert_non_null(rows->items);
        }
        assert_true(rows->n < ROWS_IN_TEST);
        rows->items[rows->n++] = (Row){
                .unit = strdup(unit),
                .op = strdup(op),
                .phase = strdup(phase),
                .device = strdup(device),
                .count = count,
                .sum_ns = sum_ns,
                .errors = errors,
                .present = UINT32_MAX,
        };
}

/* Of the row that was added last. */
static void add_bucket(Rows *rows, uint64_t ns, uint64_t count) {
        Row *row = &rows->items[rows->n - 1];

        row->buckets.items = reallocarray(row->buckets.items, row->buckets.n + 1, sizeof(Bucket));
        assert_non_null(row->buckets.items);
        row->buckets.items[row->buckets.n++] = (Bucket){ bucket_full_upper(bucket_full(ns)), count };
        row->max_ns = MAX(row->max_ns, ns);
}

static Row *last(Rows *rows) {
        return &rows->items[rows->n - 1];
}

static void update(TopModel *m, Rows *rows, uint64_t at_s) {
        rows_sort(rows);
        assert_int_equal(top_model_update(m, rows, at_s * NSEC_PER_SEC), 0);
        assert_int_equal(rows->n, 0);
}

static const TopEntry *find(const TopModel *m, const char *unit, const char *op) {
        for (size_t i = 0; i < m->n_entries; i++)
                if (streq(m->entries[i].row->unit, unit) && streq(m->entries[i].row->op, op))
                        return &m->entries[i];

        return NULL;
}

static void test_differences(void **state) {
        _cleanup_(top_model_clear) TopModel m = {};
        const TopEntry *e;
        Rows rows = {};

        add(&rows, "a.service", "fsync", "total", "8:1", 100, 1000, 1);
        add(&rows, "a.service", "fsync", "journal", "8:1", 90, 600, 0);
        add(&rows, "a.service", "fsync", "data", "8:1", 80, 300, 0);
        add(&rows, "idle.service", "fsync", "total", "8:1", 5, 50, 0);
        update(&m, &rows, 10);
        assert_int_equal(m.n_entries, 0); /* what was before nobody knows */
        assert_int_equal(m.interval_ns, 0);
        assert_true(top_per_second(&m, 5) == 0);

        add(&rows, "a.service", "fsync", "total", "8:1", 110, 1200, 3);
        add(&rows, "a.service", "fsync", "journal", "8:1", 95, 650, 0);
        add(&rows, "a.service", "fsync", "data", "8:1", 85, 400, 0);
        add(&rows, "idle.service", "fsync", "total", "8:1", 5, 50, 0);
        add(&rows, "new.service", "sync", "total", "8:1", 2, 20, 0);
        /* Nobody waited. */
        add(&rows, "a.service", OP_WRITEBACK, PHASE_DIRTY_AGE, "8:1", 7, 70, 0);
        add(&rows, "dirty.service", OP_WRITEBACK, PHASE_DIRTY_AGE, "8:1", 7, 70, 0);
        update(&m, &rows, 12);
        assert_int_equal(m.n_entries, 2);
        assert_int_equal(m.interval_ns, 2 * NSEC_PER_SEC);
        assert_int_equal(top_model_units(&m), 3);

        e = find(&m, "a.service", "fsync");
        assert_non_null(e);
        assert_int_equal(e->delta.count, 10);
        assert_int_equal(e->delta.errors, 2);
        assert_int_equal(e->delta.sum_ns, 200);
        assert_true(top_per_second(&m, e->delta.count) == 5);
        assert_int_equal(e->history[0], 20);
        assert_int_equal(e->n_shares, 3); /* of the interval; what is missing is "other" */
        assert_string_equal(e->shares[0].name, "data");
        assert_int_equal(e->shares[0].value, 100);
        assert_int_equal(e->shares[1].value + e->shares[2].value, 100);

        e = find(&m, "new.service", "sync");
        assert_non_null(e);
        assert_int_equal(e->delta.count, 2);
        assert_int_equal(top_model_sum(&m).count, 12);
        assert_int_equal(top_model_sum(&m).sum_ns, 220);
}

/* One round in which the unit has done so much. */
static void once(TopModel *m, uint64_t at_s, uint64_t count, uint64_t sum_ns) {
        Rows rows = {};

        add(&rows, "a.service", "fsync", "total", "8:1", count, sum_ns, 0);
        update(m, &rows, at_s);
}

static void test_history(void **state) {
        _cleanup_(top_model_clear) TopModel m = {};
        uint64_t at = 3;

        once(&m, 1, 1, 100);
        once(&m, 2, 2, 107);
        once(&m, 3, 4, 127);
        assert_int_equal(m.entries[0].history[0], 10);
        assert_int_equal(m.entries[0].history[1], 7);

        /* What has nothing to do any more stays for as long as its history lasts. */
        for (size_t i = 0; i < TOP_HISTORY - 1; i++) {
                once(&m, ++at, 4, 127);
                assert_int_equal(m.n_entries, 1);
                assert_int_equal(m.entries[0].delta.count, 0);
                assert_int_equal(m.entries[0].history[0], 0);
        }
        assert_int_equal(m.entries[0].history[TOP_HISTORY - 1], 10);
        once(&m, ++at, 4, 127);
        assert_int_equal(m.n_entries, 0);

        /* An operation of no time at all is one nevertheless. */
        once(&m, ++at, 5, 127);
        assert_int_equal(m.n_entries, 1);
        assert_int_equal(m.entries[0].history[0], 1);
}

static void test_counters_that_begin_anew(void **state) {
        _cleanup_(top_model_clear) TopModel m = {};

        once(&m, 1, 1000, 100000);
        once(&m, 2, 3, 60);
        assert_int_equal(m.n_entries, 1);
        assert_int_equal(m.entries[0].delta.count, 3);
        assert_int_equal(m.entries[0].delta.sum_ns, 60);
        assert_int_equal(top_whole_per_second(&m, 7), 7);
        m.interval_ns = 1;
        assert_true(top_whole_per_second(&m, UINT64_MAX) == UINT64_MAX);
}

/* As hist_full_quantile(): off by at most half a bucket. */
static void assert_about(uint64_t ns, uint64_t wanted) {
        assert_true(ns >= wanted - wanted / 16 && ns <= wanted + wanted / 16);
}

static void test_p99_of_the_interval(void **state) {
        _cleanup_(top_model_clear) TopModel m = {};
        Rows rows = {};

        add(&rows, "a.service", "fsync", "total", "8:1", 1000, 1, 0);
        add_bucket(&rows, 100000, 1000);
        update(&m, &rows, 1);

        /* One of a hundred in this interval, but not of all. */
        add(&rows, "a.service", "fsync", "total", "8:1", 1010, 2, 0);
        add_bucket(&rows, 100000, 1000);
        add_bucket(&rows, 50000000, 10);
        update(&m, &rows, 2);
        assert_about(m.entries[0].delta.p99_ns, 50000000);

        /* Fast again, which the sum does not show for long. */
        add(&rows, "a.service", "fsync", "total", "8:1", 1110, 3, 0);
        add_bucket(&rows, 100000, 1099);
        add_bucket(&rows, 50000000, 11);
        update(&m, &rows, 3);
        assert_about(m.entries[0].delta.p99_ns, 100000);

        /* Nothing happened. */
        add(&rows, "a.service", "fsync", "total", "8:1", 1110, 3, 0);
        add_bucket(&rows, 100000, 1099);
        add_bucket(&rows, 50000000, 11);
        update(&m, &rows, 4);
        assert_int_equal(m.entries[0].delta.p99_ns, 0);

        /* Began anew. */
        add(&rows, "a.service", "fsync", "total", "8:1", 5, 1, 0);
        add_bucket(&rows, 2000000, 5);
        update(&m, &rows, 5);
        assert_about(m.entries[0].delta.p99_ns, 2000000);

        /* Somebody who does not tell. */
        add(&rows, "a.service", "fsync", "total", "8:1", 6, 2, 0);
        update(&m, &rows, 6);
        assert_int_equal(m.entries[0].delta.count, 1);
        assert_int_equal(m.entries[0].delta.p99_ns, 0);
}

/* Phases have a bucket for each power of two. */
static void test_p99_of_a_phase(void **state) {
        Bucket now[] = { { 1 << 20, 100 }, { 1 << 30, 5 } }, before[] = { { 1 << 20, 10 }, { 1 << 30, 5 } };
        Growth g;

        growth_begin(&g, "journal", &(Buckets){ now, ELEMENTSOF(now) });
        assert_int_equal(growth_quantile(&g, 0.99, UINT64_MAX), (1 << 29) + (1 << 28));
        assert_int_equal(growth_quantile(&g, 0.99, 600000000), 600000000);
        growth_subtract(&g, &(Buckets){ before, ELEMENTSOF(before) });
        assert_int_equal(growth_quantile(&g, 0.99, UINT64_MAX), (1 << 19) + (1 << 18));
        growth_subtract(&g, &(Buckets){ now, ELEMENTSOF(now) });
        assert_int_equal(growth_quantile(&g, 0.99, UINT64_MAX), 0);
}

static void test_exited_units_are_no_burst(void **state) {
        _cleanup_(top_model_clear) TopModel m = {};
        const TopEntry *e;
        Rows rows = {};

        add(&rows, "(exited)", "fsync", "total", "8:1", 500, 5000, 7);
        add(&rows, "gone.service", "fsync", "total", "8:1", 1000, 90000, 5);
        add(&rows, "gone.service", "sync", "total", "8:1", 10, 900, 0);
        update(&m, &rows, 1);

        /* Both were added, the one to a row that was there, the other to a new one; two more were done. */
        add(&rows, "(exited)", "fsync", "total", "8:1", 1502, 95030, 12);
        add(&rows, "(exited)", "sync", "total", "8:1", 10, 900, 0);
        update(&m, &rows, 2);
        assert_null(find(&m, "(exited)", "sync"));
        e = find(&m, "(exited)", "fsync");
        assert_non_null(e);
        assert_int_equal(e->delta.count, 2);
        assert_int_equal(e->delta.sum_ns, 30);
        assert_int_equal(e->delta.errors, 0);
}

static void expect_order(const TopModel *m, TopSort sort, bool reverse, const char *filter, const char *wanted) {
        _cleanup_free_ const TopEntry **list = NULL;
        TopOrder order = { sort, reverse };
        char got[ROWS_IN_TEST] = "";
        size_t n;

        assert_int_equal(top_select(m, &order, filter, &list, &n), 0);
        for (size_t i = 0; i < n; i++)
                strncat(got, list[i]->row->unit, 1);
        assert_string_equal(got, wanted);
}

static void fill_three(TopModel *m) {
        Rows rows = {};

        add(&rows, "z.service", "fsync", "total", "8:1", 0, 0, 0);
        update(m, &rows, 1);
        add(&rows, "a.service", "fsync", "total", "8:16", 100, 1000, 0);
        add_bucket(&rows, 5000, 1);
        add(&rows, "b.service", "fsync", "total", "8:2", 10, 3000, 2);
        add_bucket(&rows, 100000, 1);
        add(&rows, "c.timer", "fsync", "total", "8:2", 50, 2000, 0);
        add_bucket(&rows, 50000, 1);
        last(&rows)->user_unit = strdup("inner.service");
        update(m, &rows, 2);
}

static void test_order(void **state) {
        _cleanup_(top_model_clear) TopModel m = {};

        fill_three(&m);
        expect_order(&m, TOP_SORT_WAIT, false, NULL, "bca");
        expect_order(&m, TOP_SORT_WAIT, true, NULL, "acb");
        expect_order(&m, TOP_SORT_UNIT, false, NULL, "abc");
        expect_order(&m, TOP_SORT_UNIT, true, NULL, "cba");
        expect_order(&m, TOP_SORT_RATE, false, NULL, "acb");
        expect_order(&m, TOP_SORT_P99, false, NULL, "bca");
        expect_order(&m, TOP_SORT_ERRORS, false, NULL, "bca");
        expect_order(&m, TOP_SORT_DEVICE, false, NULL, "bca"); /* 8:2 before 8:16 */
}

static void test_filter(void **state) {
        _cleanup_(top_model_clear) TopModel m = {};

        fill_three(&m);
        expect_order(&m, TOP_SORT_UNIT, false, "", "abc");
        expect_order(&m, TOP_SORT_UNIT, false, "service", "abc"); /* c by its inner unit */
        expect_order(&m, TOP_SORT_UNIT, false, "inner", "c");
        expect_order(&m, TOP_SORT_UNIT, false, "b.serv", "b");
        expect_order(&m, TOP_SORT_UNIT, false, "[ab].service", "ab");
        expect_order(&m, TOP_SORT_UNIT, false, "*.timer", "c");
        expect_order(&m, TOP_SORT_UNIT, false, "?", "");
        expect_order(&m, TOP_SORT_UNIT, false, "\\", "");
}

static void test_detail(void **state) {
        static const TopOrder order = { .sort = TOP_SORT_WAIT };
        static const char *const wanted[] = { "fsync", "journal", "data", "runqueue", "sync", "rq-write", "device",
                                              "queue" };
        _cleanup_(top_model_clear) TopModel m = {};
        TopDetail d = {};
        Rows rows = {};

        add(&rows, "a.service", "fsync", "total", "8:1", 1, 10, 0);
        update(&m, &rows, 1);
        add(&rows, "a.service", "fsync", "total", "8:1", 3, 1010, 0);
        add(&rows, "a.service", "fsync", "journal", "8:1", 2, 600, 0);
        add(&rows, "a.service", "fsync", "data", "8:1", 2, 400, 0);
        add(&rows, "a.service", "fsync", "runqueue", "8:1", 2, 900, 0);
        add(&rows, "a.service", "rq-write", "queue", "8:0", 4, 1000, 0);
        add(&rows, "a.service", "rq-write", "device", "8:0", 4, 7000, 0);
        last(&rows)->bytes = 4096;
        add(&rows, "a.service", "rq-read", "device", "8:0", 0, 0, 0); /* of which only the untimed ones were told */
        add(&rows, "a.service", "sync", "total", "8:1", 1, 100, 0);
        add(&rows, "b.service", "fsync", "total", "8:1", 3, 3000, 0);
        update(&m, &rows, 2);

        assert_int_equal(top_detail(&m, &order, "a.service", NULL, &d), 0);
        assert_int_equal(d.n_entries, 3);
        assert_int_equal(d.n_lines, ELEMENTSOF(wanted));
        for (size_t i = 0; i < d.n_lines; i++)
                assert_string_equal(d.lines[i].phase ? d.lines[i].phase->phase : d.lines[i].entry->row->op, wanted[i]);
        assert_int_equal(d.lines[0].delta->sum_ns, 1000);
        assert_int_equal(d.lines[0].entry->history[0], 500);
        assert_int_equal(d.lines[1].delta->sum_ns, 600);
        assert_int_equal(d.lines[5].delta->sum_ns, 8000); /* of both parts */
        assert_int_equal(d.lines[5].delta->count, 4);
        assert_int_equal(d.lines[5].delta->bytes, 4096);
        assert_int_equal(d.lines[5].entry->n_shares, 2);
        top_detail_clear(&d);

        assert_int_equal(top_detail(&m, &order, "none.service", NULL, &d), 0);
        assert_int_equal(d.n_lines, 0);
        top_detail_clear(&d);
        assert_int_equal(top_detail(&m, &order, "a.service", "inner.service", &d), 0);
        assert_int_equal(d.n_lines, 0);
        top_detail_clear(&d);
}

static void test_selection_follows(void **state) {
        _cleanup_(top_model_clear) TopModel m = {};
        _cleanup_(top_selection_clear) TopSelection s = {};
        _cleanup_free_ const TopEntry **list = NULL, **reversed = NULL;
        size_t n;

        fill_three(&m);
        assert_int_equal(top_select(&m, &(TopOrder){ TOP_SORT_WAIT, false }, NULL, &list, &n), 0);
        assert_int_equal(top_select(&m, &(TopOrder){ TOP_SORT_WAIT, true }, NULL, &reversed, &n), 0);

        top_selection_find(&s, reversed, n);
        assert_int_equal(s.index, 0); /* nobody has moved: it stays at the top */

        top_selection_move(&s, 2, n);
        assert_int_equal(top_selection_follow(&s, list[s.index]), 0);
        top_selection_find(&s, reversed, n);
        assert_int_equal(s.index, 0);
        top_selection_find(&s, list, n);
        assert_int_equal(s.index, 2);

        top_selection_move(&s, -2, n);
        assert_int_equal(top_selection_follow(&s, list[s.index]), 0);
        top_selection_find(&s, reversed, n);
        assert_int_equal(s.index, 0);
}

static void test_selection_scrolls(void **state) {
        _cleanup_(top_selection_clear) TopSelection s = {};

        top_selection_move(&s, 1, 0);
        assert_int_equal(s.index, 0);
        top_selection_move(&s, 12, 100);
        top_selection_scroll(&s, 100, 10);
        assert_int_equal(s.index, 12);
        assert_int_equal(s.first, 3);
        top_selection_move(&s, -5, 100);
        top_selection_scroll(&s, 100, 10);
        assert_int_equal(s.first, 3);
        top_selection_move(&s, -100, 100);
        top_selection_scroll(&s, 100, 10);
        assert_int_equal(s.first, 0);
        top_selection_move(&s, PTRDIFF_MAX, 100);
        top_selection_scroll(&s, 100, 10);
        assert_int_equal(s.index, 99);
        assert_int_equal(s.first, 90);
        top_selection_scroll(&s, 5, 10); /* the list has become shorter, */
        assert_int_equal(s.index, 4);
        assert_int_equal(s.first, 0);
        top_selection_scroll(&s, 5, 2); /* the screen, too */
        assert_int_equal(s.first, 3);
        top_selection_scroll(&s, 0, 10);
        assert_int_equal(s.index, 0);
        top_selection_scroll(&s, 5, 0);
        assert_int_equal(s.first, 0);
}

DEFINE_TEST_MAIN(cmocka_unit_test(test_differences),
                 cmocka_unit_test(test_history),
                 cmocka_unit_test(test_counters_that_begin_anew),
                 cmocka_unit_test(test_p99_of_the_interval),
        cmocka_unit_test(test_p99_of_a_phase),
        cmocka_unit_test(test_exited_units_are_no_burst),
                 cmocka_unit_test(test_order),
                 cmocka_unit_test(test_filter),
                 cmocka_unit_test(test_detail),
                 cmocka_unit_test(test_selection_follows),
                 cmocka_unit_test(test_selection_scrolls))
