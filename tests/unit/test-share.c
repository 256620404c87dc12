/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "share.h"
#include "test.h"

enum { N_MAX = 40 };

static void check(uint64_t total, const uint64_t *weights, size_t n) {
        unsigned __int128 sum = 0, parts = 0;
        uint64_t ret[N_MAX];

        shares_of(total, weights, n, ret);
        for (size_t i = 0; i < n; i++) {
                sum += weights[i];
                parts += ret[i];
        }
        assert_true(parts == (sum == 0 ? 0 : total));

        for (size_t i = 0; i < n && sum > 0; i++) {
                uint64_t floor = (uint64_t) ((unsigned __int128) total * weights[i] / sum);

                assert_true(ret[i] == floor || ret[i] == floor + 1);
                /* Whoever has no weight gets nothing. */
                assert_true(weights[i] > 0 || ret[i] == 0);
                for (size_t j = 0; j < n; j++) {
                        unsigned __int128 ri = (unsigned __int128) total * weights[i] % sum;
                        unsigned __int128 rj = (unsigned __int128) total * weights[j] % sum;
                        uint64_t fj = (uint64_t) ((unsigned __int128) total * weights[j] / sum);

                        /* Nobody with a smaller remainder is rounded up before one with a larger. */
                        if (ri > rj && ret[j] > fj)
                                assert_true(ret[i] > floor);
                        assert_true(weights[i] <= weights[j] || ret[i] + 1 >= ret[j]);
                }
        }
}

#define CHECK_SHARES(total, expected, ...)                                                          \
        do {                                                                                        \
                const uint64_t _w[] = { __VA_ARGS__ };                                              \
                uint64_t _ret[ELEMENTSOF(_w)];                                                      \
                                                                                                    \
                shares_of(total, _w, ELEMENTSOF(_w), _ret);                                         \
                assert_memory_equal(_ret, ((const uint64_t[ELEMENTSOF(_w)]) expected), sizeof(_w)); \
                check(total, _w, ELEMENTSOF(_w));                                                   \
        } while (false)
#define LIST(...) { __VA_ARGS__ }

static void test_small(void **state) {
        CHECK_SHARES(100, LIST(50, 30, 20), 5, 3, 2);
        CHECK_SHARES(10, LIST(4, 3, 3), 1, 1, 1);
        CHECK_SHARES(11, LIST(4, 4, 3), 1, 1, 1);
        CHECK_SHARES(1, LIST(1, 0, 0), 1, 1, 1);
        CHECK_SHARES(1, LIST(0, 1), 1, 2);
        CHECK_SHARES(7, LIST(7), 1);
        CHECK_SHARES(7, LIST(7), UINT64_MAX);
        CHECK_SHARES(7, LIST(0, 7, 0), 0, 3, 0);
        CHECK_SHARES(0, LIST(0, 0), 5, 6);
        CHECK_SHARES(9, LIST(0, 0), 0, 0);
        CHECK_SHARES(0, LIST(0), 0);
        shares_of(5, NULL, 0, NULL);
}

static void test_large(void **state) {
        CHECK_SHARES(UINT64_MAX, LIST(UINT64_MAX), UINT64_MAX);
        CHECK_SHARES(UINT64_MAX, LIST(UINT64_MAX / 3, UINT64_MAX / 3, UINT64_MAX / 3), 1, 1, 1);
        CHECK_SHARES(UINT64_MAX, LIST(UINT64_C(1) << 63, (UINT64_C(1) << 63) - 1), UINT64_MAX, UINT64_MAX);
        CHECK_SHARES(UINT64_MAX, LIST(UINT64_MAX - 1, 1), UINT64_MAX - 1, 1);
        CHECK_SHARES(2, LIST(1, 1, 0), UINT64_MAX, UINT64_MAX, UINT64_MAX);
}

static void test_random_weights(void **state) {
        uint64_t seed = 99;

        for (size_t k = 0; k < 4000; k++) {
                uint64_t weights[N_MAX], total = test_random(&seed) >> test_random(&seed) % 64;
                size_t n = 1 + test_random(&seed) % N_MAX;
                unsigned shift = (unsigned) (test_random(&seed) % 64);

                for (size_t i = 0; i < n; i++)
                        weights[i] = test_random(&seed) % 4 == 0 ? 0 : test_random(&seed) >> shift;
                check(total, weights, n);
        }
}

static void test_rest_to_largest(void **state) {
        uint64_t seed = 98, ret[N_MAX];

        shares_rest_to_largest(5, (const uint64_t[]){ 0, 0 }, 2, ret);
        assert_int_equal(ret[0] + ret[1], 0);
        shares_rest_to_largest(5, NULL, 0, ret);
        shares_rest_to_largest(10, (const uint64_t[]){ 1, 1, 1 }, 3, ret);
        assert_memory_equal(ret, ((const uint64_t[]){ 4, 3, 3 }), 3 * sizeof(uint64_t));
        for (size_t k = 0; k < 4000; k++) {
                uint64_t weights[N_MAX], total = test_random(&seed) >> test_random(&seed) % 64;
                size_t n = 1 + test_random(&seed) % N_MAX;
                unsigned __int128 sum = 0, parts = 0;
                size_t largest = 0;

                for (size_t i = 0; i < n; i++) {
                        weights[i] = test_random(&seed) % 4 == 0 ? 0 : test_random(&seed) >> test_random(&seed) % 64;
                        sum += weights[i];
                        if (weights[i] > weights[largest])
                                largest = i;
                }
                shares_rest_to_largest(total, weights, n, ret);
                for (size_t i = 0; i < n; i++) {
                        parts += ret[i];
                        if (sum > 0 && i != largest)
                                assert_true(ret[i] == (uint64_t) ((unsigned __int128) total * weights[i] / sum));
                }
                assert_true(parts == (sum == 0 ? 0 : total));
        }
}

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_random_weights),
        cmocka_unit_test(test_rest_to_largest),
)
