/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "blame-journal.h"
#include "test.h"

enum { DEV = 7, VICTIM = 1, A = 10, B = 20, PARTS_MAX = 512 };

typedef struct Parts {
        OwnerBlame part[PARTS_MAX];
        size_t n;
} Parts;

static int take(const OwnerBlame *b, void *userdata) {
        Parts *p = userdata;

        assert_true(p->n < PARTS_MAX);
        assert_int_equal(b->phase, PHASE_JOURNAL);
        assert_false(b->estimated);
        assert_int_equal(b->victim, VICTIM);
        assert_true(b->ns > 0);
        p->part[p->n++] = *b;

        return 0;
}

static uint64_t part_of(const Parts *p, int step, uint64_t culprit, int weight) {
        uint64_t ns = 0;

        for (size_t i = 0; i < p->n; i++)
                if (p->part[i].step == step && p->part[i].culprit == culprit && p->part[i].weight == weight)
                        ns += p->part[i].ns;

        return ns;
}

static uint64_t step_sum(const Parts *p, int step) {
        uint64_t ns = 0;

        for (size_t i = 0; i < p->n; i++)
                if (p->part[i].step == step)
                        ns += p->part[i].ns;

        return ns;
}

static HandleEntry handle(uint32_t tid, uint64_t owner, uint64_t requested) {
        return (HandleEntry){
                .key = { DEV, tid, owner },
                .value = { .handles = 1, .requested_blocks = requested, .dirtied_blocks = 1 },
        };
}

static void blame(uint32_t tid, int step, uint64_t ns, HandleEntry *handles, size_t n, Parts *ret) {
        WaitEntry wait = { .key = { .owner = VICTIM, .dev = DEV, .tid = tid } };

        wait.value.step_ns[step] = ns;
        ret->n = 0;
        n = handle_entries_sort(handles, n);
        assert_int_equal(blame_journal_wait(&wait, handles, n, take, ret), 0);
        assert_int_equal(step_sum(ret, step), ns);
}

static void test_who_is_in_the_transaction(void **state) {
        HandleEntry h[] = { handle(5, A, 60), handle(5, B, 300), handle(6, A, 1), handle(4, B, 1), handle(5, A, 40) };
        Parts p;

        h[3].key.dev = DEV + 1;
        for (int step = STEP_LOG; step <= STEP_CHECKPOINT; step++) {
                blame(5, step, 1000, h, ELEMENTSOF(h), &p);
                assert_int_equal(part_of(&p, step, A, BLAME_BY_REQUESTED_BLOCKS), 250);
                assert_int_equal(part_of(&p, step, B, BLAME_BY_REQUESTED_BLOCKS), 750);
        }
        blame(6, STEP_PREVIOUS, 1000, h, ELEMENTSOF(h), &p);
        assert_int_equal(part_of(&p, STEP_PREVIOUS, B, BLAME_BY_REQUESTED_BLOCKS), 750);
        blame(6, STEP_LOG, 1000, h, ELEMENTSOF(h), &p);
        assert_int_equal(part_of(&p, STEP_LOG, A, BLAME_BY_REQUESTED_BLOCKS), 1000);
        /* Before it there is one of another device only. */
        blame(5, STEP_PREVIOUS, 1000, h, ELEMENTSOF(h), &p);
        assert_int_equal(part_of(&p, STEP_PREVIOUS, OWNER_KERNEL, BLAME_BY_TRANSACTIONS), 1000);
}

static void test_no_blocks_requested(void **state) {
        HandleEntry h[] = { handle(5, A, 0), handle(5, B, 0) };
        OwnerWeight w[BLAME_CULPRITS_MAX];
        Parts p;

        h[0].value.handles = 4;
        blame(5, STEP_LOG, 10, h, ELEMENTSOF(h), &p);
        assert_int_equal(part_of(&p, STEP_LOG, A, BLAME_BY_HANDLES), 8);
        assert_int_equal(part_of(&p, STEP_LOG, B, BLAME_BY_HANDLES), 2);
        assert_int_equal(transaction_owners(h, ELEMENTSOF(h), DEV, 5, w), 2);
        assert_int_equal(w[0].owner, A);
        h[1].value.requested_blocks = 1;
        blame(5, STEP_LOG, 10, h, ELEMENTSOF(h), &p);
        assert_int_equal(part_of(&p, STEP_LOG, B, BLAME_BY_REQUESTED_BLOCKS), 10);
}

static void test_journal_made_anew(void **state) {
        HandleEntry h[] = { handle(5, A, 100), handle(5, B, 1), handle(5, OWNER_KERNEL, 7) };
        Parts p;

        h[0].value.started = 1000;
        h[1].value.started = 2000;
        h[2].value.started = 1000;
        blame(5, STEP_LOG, 10, h, ELEMENTSOF(h), &p);
        assert_int_equal(p.n, 1);
        assert_int_equal(part_of(&p, STEP_LOG, B, BLAME_BY_REQUESTED_BLOCKS), 10);
}

static void test_tid_wraps(void **state) {
        HandleEntry h[] = { handle(UINT32_MAX, A, 1), handle(0, B, 1) };
        Parts p;

        blame(0, STEP_PREVIOUS, 10, h, ELEMENTSOF(h), &p);
        assert_int_equal(part_of(&p, STEP_PREVIOUS, A, BLAME_BY_REQUESTED_BLOCKS), 10);
}

static void test_late_handles(void **state) {
        HandleEntry h[] = { handle(5, A, 1000), handle(5, B, 1) };
        Parts p;

        blame(5, STEP_LOCKED, 1001, h, ELEMENTSOF(h), &p);
        assert_int_equal(part_of(&p, STEP_LOCKED, A, BLAME_BY_REQUESTED_BLOCKS), 1000);
        assert_int_equal(part_of(&p, STEP_LOCKED, B, BLAME_BY_REQUESTED_BLOCKS), 1);
        h[1].value.late_ns = 5;
        blame(5, STEP_LOCKED, 1001, h, ELEMENTSOF(h), &p);
        assert_int_equal(part_of(&p, STEP_LOCKED, B, BLAME_BY_LATE_HANDLE), 1001);
        /* Only for that step. */
        blame(5, STEP_LOG, 1001, h, ELEMENTSOF(h), &p);
        assert_int_equal(part_of(&p, STEP_LOG, A, BLAME_BY_REQUESTED_BLOCKS), 1000);
}

static void test_ordered_data(void **state) {
        HandleEntry h[] = { handle(5, A, 1000), handle(5, B, 0) };
        Parts p;

        blame(5, STEP_FLUSHING, 77, h, ELEMENTSOF(h), &p);
        assert_int_equal(part_of(&p, STEP_FLUSHING, OWNER_KERNEL, BLAME_BY_TRANSACTIONS), 77);
        h[1].value.ordered_ns = 1;
        blame(5, STEP_FLUSHING, 77, h, ELEMENTSOF(h), &p);
        assert_int_equal(part_of(&p, STEP_FLUSHING, B, BLAME_BY_ORDERED_WAIT), 77);
}

static void test_kernel_threads(void **state) {
        HandleEntry h[] = { handle(5, OWNER_KERNEL, 1000), handle(5, B, 1), handle(6, OWNER_KERNEL, 3) };
        Parts p;

        blame(5, STEP_LOG, 10, h, ELEMENTSOF(h), &p);
        assert_int_equal(part_of(&p, STEP_LOG, B, BLAME_BY_REQUESTED_BLOCKS), 10);
        blame(6, STEP_LOG, 10, h, ELEMENTSOF(h), &p);
        assert_int_equal(part_of(&p, STEP_LOG, OWNER_KERNEL, BLAME_BY_REQUESTED_BLOCKS), 10);
}

static void test_rest_goes_to_the_largest(void **state) {
        HandleEntry h[] = { handle(5, A, 1), handle(5, B, 2), handle(5, 30, 1), handle(5, 40, 1) };
        Parts p;

        blame(5, STEP_LOG, 4, h, ELEMENTSOF(h), &p);
        assert_int_equal(part_of(&p, STEP_LOG, B, BLAME_BY_REQUESTED_BLOCKS), 4); /* all others round to 0 */
        blame(5, STEP_LOG, 9, h, ELEMENTSOF(h), &p);
        assert_int_equal(part_of(&p, STEP_LOG, A, BLAME_BY_REQUESTED_BLOCKS), 1);
        assert_int_equal(part_of(&p, STEP_LOG, B, BLAME_BY_REQUESTED_BLOCKS), 6);
        blame(5, STEP_LOG, UINT64_MAX, h, ELEMENTSOF(h), &p);
}

/* More than are kept apart: the smallest are (others), and nothing is missing. */
static void test_many_owners(void **state) {
        enum { N = 200 };
        HandleEntry h[N];
        uint64_t total = 0;
        Parts p;

        for (unsigned i = 0; i < N; i++) {
                h[i] = handle(5, 1000 + i, 1 + i);
                total += 1 + i;
        }
        blame(5, STEP_LOG, total, h, N, &p);
        assert_int_equal(p.n, BLAME_CULPRITS_MAX);
        assert_int_equal(part_of(&p, STEP_LOG, 1000 + N - 1, BLAME_BY_REQUESTED_BLOCKS), N);
        assert_true(part_of(&p, STEP_LOG, OWNER_OTHERS, BLAME_BY_REQUESTED_BLOCKS) > 0);
        assert_int_equal(part_of(&p, STEP_LOG, 1000, BLAME_BY_REQUESTED_BLOCKS), 0);
}

static void test_all_steps_at_once(void **state) {
        uint64_t seed = 5;

        for (unsigned k = 0; k < 500; k++) {
                WaitEntry wait = { .key = { .owner = VICTIM, .dev = DEV, .tid = 5 } };
                HandleEntry h[40];
                size_t n = test_random(&seed) % ELEMENTSOF(h);
                Parts p = {};

                for (size_t i = 0; i < n; i++) {
                        h[i] = handle(4 + test_random(&seed) % 2, test_random(&seed) % 12, test_random(&seed) % 100);
                        h[i].value.late_ns = test_random(&seed) % 3 ? 0 : test_random(&seed) >> 20;
                        h[i].value.ordered_ns = test_random(&seed) % 3 ? 0 : test_random(&seed) >> 20;
                }
                n = handle_entries_sort(h, n);
                for (int s = 0; s < _STEP_MAX; s++)
                        wait.value.step_ns[s] = test_random(&seed) >> test_random(&seed) % 64;
                assert_int_equal(blame_journal_wait(&wait, h, n, take, &p), 0);
                for (int s = 0; s < _STEP_MAX; s++)
                        assert_true(step_sum(&p, s) == wait.value.step_ns[s]);
        }
}

/* Each task of an owner notes its handles by itself; what was noted by who does not know when it began belongs to the newest. */
static void test_tasks_of_an_owner(void **state) {
        HandleEntry h[] = { handle(5, A, 3), handle(5, B, 10), handle(5, A, 4), handle(5, A, 100), handle(5, A, 5) };
        OwnerWeight w[BLAME_CULPRITS_MAX];
        size_t n;

        for (size_t i = 0; i < ELEMENTSOF(h); i++)
                h[i].value.started = 1000;
        h[3].value.started = 999;
        h[4].value.started = 0;
        n = handle_entries_sort(h, ELEMENTSOF(h));
        assert_int_equal(n, 4);
        assert_int_equal(transaction_owners(h, n, DEV, 5, w), 2);
        assert_int_equal(w[0].owner, A);
        assert_int_equal(w[0].weight, 12);
        assert_int_equal(w[1].owner, B);
        assert_int_equal(w[1].weight, 10);
}

static void test_transaction_owners(void **state) {
        HandleEntry h[] = { handle(5, A, 1), handle(5, B, 2), handle(5, OWNER_KERNEL, 9), handle(6, A, 7) };
        OwnerWeight w[BLAME_CULPRITS_MAX];
        size_t n = handle_entries_sort(h, ELEMENTSOF(h));

        assert_int_equal(transaction_owners(h, n, DEV, 5, w), 2);
        assert_int_equal(w[0].owner, B);
        assert_int_equal(w[0].weight, 2);
        assert_int_equal(w[1].owner, A);
        assert_int_equal(transaction_owners(h, n, DEV, 7, w), 0);
        assert_int_equal(transaction_owners(h, 0, DEV, 5, w), 0);
}

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_who_is_in_the_transaction),
        cmocka_unit_test(test_no_blocks_requested),
        cmocka_unit_test(test_journal_made_anew),
        cmocka_unit_test(test_tid_wraps),
        cmocka_unit_test(test_late_handles),
        cmocka_unit_test(test_ordered_data),
        cmocka_unit_test(test_kernel_threads),
        cmocka_unit_test(test_rest_goes_to_the_largest),
        cmocka_unit_test(test_many_owners),
        cmocka_unit_test(test_all_steps_at_once),
        cmocka_unit_test(test_tasks_of_an_owner),
        cmocka_unit_test(test_transaction_owners),
)
