/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "summary-fold.h"
#include "test.h"

static void test_needed(void **state) {
        const FoldUnit units[] = { { "a", 3 }, { "b", 4 } };

        assert_false(fold_needed(units, 2, 7));
        assert_true(fold_needed(units, 2, 6));
        assert_false(fold_needed(NULL, 0, 0));
}

static void test_heaviest_stay(void **state) {
        FoldUnit units[] = { { "a", 2, 10 }, { "b", 2, 30 }, { "c", 2, 20 }, { "d", 2, 20 } };
        size_t folded;

        assert_int_equal(fold_choose(units, 4, 5, &folded), 0);
        assert_int_equal(folded, 2);
        assert_false(units[1].folded);
        assert_false(units[2].folded); /* before d, which weighs the same */
        assert_true(units[0].folded && units[3].folded);
}

static void test_small_one_takes_what_is_left(void **state) {
        FoldUnit units[] = { { "large", 9, 30 }, { "first", 4, 40 }, { "small", 1, 1 } };
        size_t folded;

        assert_int_equal(fold_choose(units, 3, 5, &folded), 0);
        assert_int_equal(folded, 1);
        assert_true(units[0].folded);
        assert_false(units[1].folded || units[2].folded);
}

static void test_others_are_folded_but_not_counted(void **state) {
        FoldUnit units[] = { { "(others)", 1, 100 }, { "a", 1, 1 } };
        size_t folded;

        assert_int_equal(fold_choose(units, 2, 10, &folded), 0);
        assert_int_equal(folded, 0);
        assert_true(units[0].folded);
        assert_false(units[1].folded);
}

static void test_random_units_fit(void **state) {
        uint64_t random = 7;

        for (int round = 0; round < 500; round++) {
                FoldUnit units[40];
                size_t n = test_random(&random) % 40, max = test_random(&random) % 100, folded, rows = 0, marked = 0;

                for (size_t i = 0; i < n; i++)
                        units[i] = (FoldUnit){ "u", 1 + test_random(&random) % 9, test_random(&random) % 5 };
                assert_int_equal(fold_choose(units, n, max, &folded), 0);
                for (size_t i = 0; i < n; i++) {
                        rows += units[i].folded ? 0 : units[i].rows;
                        marked += units[i].folded;
                }
                assert_true(rows <= max);
                assert_int_equal(marked, folded);
                for (size_t i = 0; i < n; i++) /* nobody was left out who would have fitted */
                        assert_true(!units[i].folded || rows + units[i].rows > max);
        }
}

DEFINE_TEST_MAIN(cmocka_unit_test(test_needed),
                 cmocka_unit_test(test_heaviest_stay),
                 cmocka_unit_test(test_small_one_takes_what_is_left),
                 cmocka_unit_test(test_others_are_folded_but_not_counted),
                 cmocka_unit_test(test_random_units_fit))
