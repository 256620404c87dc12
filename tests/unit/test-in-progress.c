/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "in-progress.h"

#define SEC NSEC_PER_SEC

static struct stall sync_of(int thread, uint64_t start, uint64_t end) {
        return (struct stall){
                .end_ns = end,
                .total_ns = end - start,
                .owner = 7,
                .op = OP_FSYNC,
                .pid = 100,
                .thread = thread,
                .wait_phase = PHASE_JOURNAL,
                .wait_ns = (end - start) / 2,
        };
}

static struct stall async_of(int thread, uint64_t start, uint64_t end, uint64_t ino) {
        struct stall s = sync_of(thread, start, end);

        s.async = 1;
        s.op = OP_DWRITE;
        s.ino = ino;

        return s;
}

/* One scan that finds these. Returns how many are new. */
static unsigned scan(InProgressTable *t, const struct stall *found, size_t n, bool complete) {
        static uint64_t id = 0;
        unsigned n_new = 0;

        in_progress_begin(t);
        for (size_t i = 0; i < n; i++) {
                InProgress *p;

                if (in_progress_find(t, &found[i]))
                        continue;
                assert_int_equal(in_progress_add(t, ++id, 1000, "a.service", &found[i], &p), 0);
                n_new++;
        }
        in_progress_end(t, complete);

        return n_new;
}

static void test_is_new_once(void **state) {
        _cleanup_(in_progress_table_freep) InProgressTable *t = NULL;
        uint64_t id = 0;

        assert_int_equal(in_progress_table_new(&t), 0);
        for (unsigned i = 2; i < 10; i++) {
                struct stall s = sync_of(1, SEC, i * SEC);

                assert_int_equal(scan(t, &s, 1, true), i == 2);
                assert_int_equal(in_progress_count(t), 1);
                if (i == 2)
                        id = in_progress_get(t, 0)->entry.id;
                assert_int_equal(in_progress_get(t, 0)->entry.id, id);
                assert_int_equal(in_progress_get(t, 0)->entry.record.total_ns, (i - 1) * SEC);
                assert_int_equal(in_progress_get(t, 0)->entry.record.wait_ns, (i - 1) * SEC / 2);
                assert_true(in_progress_get(t, 0)->entry.in_progress);
        }
        assert_null(in_progress_get(t, 1));
}

static void test_final_record(void **state) {
        _cleanup_(in_progress_table_freep) InProgressTable *t = NULL;
        struct stall found[] = { sync_of(1, SEC, 3 * SEC), sync_of(2, SEC, 3 * SEC) };
        struct stall last = sync_of(2, SEC + NSEC_PER_MSEC, 5 * SEC), other = sync_of(3, SEC, 5 * SEC),
                     next = sync_of(1, 5 * SEC, 9 * SEC);
        InProgress *p;

        assert_int_equal(in_progress_table_new(&t), 0);
        assert_int_equal(scan(t, found, 2, true), 2);
        assert_null(in_progress_match(t, &other)); /* another thread */
        assert_null(in_progress_match(t, &next));  /* the same thread's next one */
        p = in_progress_match(t, &last);
        assert_non_null(p);
        assert_int_equal(p->entry.record.thread, 2);
        in_progress_remove(t, p);
        assert_int_equal(in_progress_count(t), 1);
        assert_null(in_progress_match(t, &last));
        assert_int_equal(in_progress_get(t, 0)->entry.record.thread, 1);
}

static void test_asynchronous(void **state) {
        _cleanup_(in_progress_table_freep) InProgressTable *t = NULL;
        /* Two of one thread at almost the same time, and the same in another file. */
        struct stall found[] = { async_of(1, SEC, 3 * SEC, 5), async_of(1, SEC + 1, 3 * SEC, 5),
                                 async_of(1, SEC, 3 * SEC, 6) };
        /* A worker has taken it over. */
        struct stall last = async_of(9, SEC + 1, 4 * SEC, 5), waited_for = sync_of(1, SEC, 4 * SEC);
        InProgress *p;

        assert_int_equal(in_progress_table_new(&t), 0);
        assert_int_equal(scan(t, found, 3, true), 3);
        assert_null(in_progress_match(t, &waited_for));
        p = in_progress_match(t, &last);
        assert_non_null(p);
        assert_int_equal(p->start_ns, SEC + 1);
        in_progress_remove(t, p);
        assert_null(in_progress_match(t, &last));
        assert_int_equal(in_progress_count(t), 2);
}

static void test_killed(void **state) {
        _cleanup_(in_progress_table_freep) InProgressTable *t = NULL;
        struct stall s = sync_of(1, SEC, 3 * SEC);

        assert_int_equal(in_progress_table_new(&t), 0);
        assert_int_equal(scan(t, &s, 1, true), 1);
        for (unsigned i = 0; i < IN_PROGRESS_MISSES_MAX; i++) {
                assert_int_equal(scan(t, NULL, 0, true), 0);
                assert_int_equal(in_progress_count(t), 1);
        }
        assert_int_equal(scan(t, NULL, 0, true), 0);
        assert_int_equal(in_progress_count(t), 0);
}

static void test_found_again(void **state) {
        _cleanup_(in_progress_table_freep) InProgressTable *t = NULL;
        struct stall s = sync_of(1, SEC, 3 * SEC);

        assert_int_equal(in_progress_table_new(&t), 0);
        assert_int_equal(scan(t, &s, 1, true), 1);
        for (unsigned i = 0; i < 10; i++) {
                assert_int_equal(scan(t, NULL, 0, true), 0);
                assert_int_equal(scan(t, NULL, 0, true), 0);
                assert_int_equal(scan(t, &s, 1, true), 0);
        }
        assert_int_equal(in_progress_count(t), 1);
}

/* A scan that was cut short says nothing of those that it did not come to. */
static void test_incomplete_scans(void **state) {
        _cleanup_(in_progress_table_freep) InProgressTable *t = NULL;
        struct stall s = sync_of(1, SEC, 3 * SEC);

        assert_int_equal(in_progress_table_new(&t), 0);
        assert_int_equal(scan(t, &s, 1, true), 1);
        for (unsigned i = 0; i < 10; i++)
                (void) scan(t, NULL, 0, false);
        assert_int_equal(in_progress_count(t), 1);
}

static void test_too_many(void **state) {
        _cleanup_(in_progress_table_freep) InProgressTable *t = NULL;
        InProgress *p;

        assert_int_equal(in_progress_table_new(&t), 0);
        for (int n = 0; n < 5; n++) {
                in_progress_begin(t);
                for (int i = 0; i < IN_PROGRESS_MAX + 10 + n; i++) {
                        struct stall s = sync_of(i + 1, SEC, (3 + n) * SEC);

                        if (i < IN_PROGRESS_MAX && n > 0)
                                assert_non_null(in_progress_find(t, &s));
                        else
                                assert_int_equal(in_progress_add(t, i + 1, 0, "a.service", &s, &p),
                                                 i < IN_PROGRESS_MAX ? 0 : -ENOBUFS);
                }
                in_progress_end(t, true);
                assert_int_equal(in_progress_count(t), IN_PROGRESS_MAX);
                assert_int_equal(in_progress_dropped(t), 10 + n);
        }
}

static void test_unterminated_names(void **state) {
        _cleanup_(in_progress_table_freep) InProgressTable *t = NULL;
        struct stall s = sync_of(1, SEC, 3 * SEC);
        const struct stall *kept;
        InProgress *p;

        memset(s.comm, 'c', sizeof(s.comm));
        memset(s.file_parent, 'p', sizeof(s.file_parent));
        memset(s.file_name, 'n', sizeof(s.file_name));
        assert_int_equal(in_progress_table_new(&t), 0);
        assert_int_equal(in_progress_add(t, 1, 0, "a.service", &s, &p), 0);
        kept = &p->entry.record;
        assert_int_equal(strnlen(kept->comm, COMM_LEN), COMM_LEN - 1);
        assert_int_equal(strnlen(kept->file_parent, FILE_PARENT_LEN), FILE_PARENT_LEN - 1);
        assert_int_equal(strnlen(kept->file_name, FILE_NAME_LEN), FILE_NAME_LEN - 1);
}

static void test_owners(void **state) {
        StallOwner some[STALL_OWNERS_MAX + 1], one = { (char *) "b.service", 1 };
        StallEntry e = {};

        for (size_t i = 0; i < ELEMENTSOF(some); i++)
                some[i] = (StallOwner){ (char *) "a.service", 0.1 };
        assert_int_equal(stall_entry_set_owners(&e, some, ELEMENTSOF(some)), 0);
        assert_int_equal(e.n_owners, STALL_OWNERS_MAX);
        assert_int_equal(stall_entry_set_owners(&e, &one, 1), 0);
        assert_int_equal(e.n_owners, 1);
        assert_string_equal(e.owners[0].unit, "b.service");
        assert_true(e.owners[0].unit != one.unit);
        stall_entry_done(&e);
        assert_int_equal(e.n_owners, 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_is_new_once),   cmocka_unit_test(test_final_record),
                cmocka_unit_test(test_asynchronous),  cmocka_unit_test(test_killed),
                cmocka_unit_test(test_found_again),   cmocka_unit_test(test_incomplete_scans),
                cmocka_unit_test(test_too_many),      cmocka_unit_test(test_unterminated_names),
                cmocka_unit_test(test_owners),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
