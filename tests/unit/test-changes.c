/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "changes.h"
#include "test.h"

/* Without pins there is nothing to read, but the differences can be looked at. */
static Changes *new_changes(Maps *maps) {
        Changes *c = NULL;

        *maps = MAPS_NULL;
        maps->bpffs = "/nonexistent";
        assert_int_equal(changes_new(&c, maps), 0);
        return c;
}

static struct changed_op op(uint64_t owner, uint64_t count) {
        struct changed_op o = { .key = { .owner = owner, .dev = 1 }, .count = count, .sum_ns = count * 100 };

        o.phase_ns[PHASE_OTHER] = count * 7;
        return o;
}

static void test_first_seen_is_where_to_count_from(void **state) {
        _cleanup_(changes_freep) Changes *c = NULL;
        struct changed_op now = op(5, 10), d;
        Maps maps;

        c = new_changes(&maps);
        assert_int_equal(changes_note_op(c, &now, &d), 0);
        assert_int_equal(changes_note_op(c, &now, &d), 0);
        now = op(5, 13);
        assert_int_equal(changes_note_op(c, &now, &d), 1);
        assert_int_equal(d.key.owner, 5);
        assert_int_equal(d.count, 3);
        assert_int_equal(d.sum_ns, 300);
        assert_int_equal(d.phase_ns[PHASE_OTHER], 21);
        assert_int_equal(changes_note_op(c, &now, &d), 0);
}

static void test_made_again(void **state) {
        _cleanup_(changes_freep) Changes *c = NULL;
        struct changed_op now = op(5, 10), d;
        Maps maps;

        c = new_changes(&maps);
        assert_int_equal(changes_note_op(c, &now, &d), 0);
        now = op(5, 4);
        assert_int_equal(changes_note_op(c, &now, &d), 1);
        assert_int_equal(d.count, 4);
        assert_int_equal(d.sum_ns, 400);
}

static void test_folded_are_not_new(void **state) {
        _cleanup_(changes_freep) Changes *c = NULL;
        struct changed_op now = op(5 | OWNER_FOLDED, 10), d;
        struct changed_rq rq = { .key = { .owner = 5 | OWNER_FOLDED }, .count = 1 }, e;
        Maps maps;

        c = new_changes(&maps);
        for (unsigned i = 1; i < 3; i++) {
                now = op(5 | OWNER_FOLDED, 10 * i);
                assert_int_equal(changes_note_op(c, &now, &d), 0);
                rq.count = i;
                assert_int_equal(changes_note_rq(c, &rq, &e), 0);
        }
}

static void test_requests(void **state) {
        _cleanup_(changes_freep) Changes *c = NULL;
        struct changed_rq now = { .key = { .owner = 1, .dev = 2 }, .count = 1, .queue_ns = 2, .device_ns = 3 }, d;
        Maps maps;

        c = new_changes(&maps);
        assert_int_equal(changes_note_rq(c, &now, &d), 0);
        now.count++;
        now.queue_ns += 5;
        now.device_ns += 6;
        now.bytes += 4096;
        assert_int_equal(changes_note_rq(c, &now, &d), 1);
        assert_int_equal(d.count, 1);
        assert_int_equal(d.queue_ns, 5);
        assert_int_equal(d.device_ns, 6);
        assert_int_equal(d.bytes, 4096);
        /* Another kind is another counter. */
        now.key.kind = RQ_WRITE;
        assert_int_equal(changes_note_rq(c, &now, &d), 0);
}

static void test_no_iterator(void **state) {
        _cleanup_(changes_freep) Changes *c = NULL;
        Maps maps;
        size_t n;

        c = new_changes(&maps);
        assert_int_equal(changes_start(c), -ENOENT);
        assert_int_equal(changes_read(c), -ENOENT);
        assert_false(changes_complete(c));
        (void) changes_ops(c, &n);
        assert_int_equal(n, 0);
        (void) changes_rqs(c, &n);
        assert_int_equal(n, 0);
}

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_first_seen_is_where_to_count_from),
        cmocka_unit_test(test_made_again),
        cmocka_unit_test(test_folded_are_not_new),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_no_iterator),
)
