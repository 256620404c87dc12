/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bucket.h"
#include "test.h"

/* Checks the definition of both forms at one value: lower < v <= upper. */
static void check_value(uint64_t v) {
        unsigned f = bucket_full(v), s = bucket_short(v);

        assert_in_range(f, 0, BUCKETS_FULL - 1);
        assert_in_range(s, 0, BUCKETS_SHORT - 1);

        assert_true(v <= bucket_full_upper(f));
        assert_true(f == 0 || v > bucket_full_upper(f - 1));
        assert_true(v <= bucket_short_upper(s));
        assert_true(s == 0 || v > bucket_short_upper(s - 1));

        /* A short bucket is the union of full ones. */
        if (f == 0)
                assert_int_equal(s, 0);
        else if (f == BUCKETS_FULL - 1)
                assert_int_equal(s, BUCKETS_SHORT - 1);
        else
                assert_int_equal(s, 1 + (f - 1) / BUCKET_STEPS);
}

static void test_powers_of_two(void **state) {
        check_value(0);
        for (unsigned k = 0; k <= 63; k++) {
                uint64_t p = UINT64_C(1) << k;

                check_value(p - 1);
                check_value(p);
                check_value(p + 1);
        }
        check_value(UINT64_MAX);
}

static void test_ends(void **state) {
        uint64_t min = UINT64_C(1) << BUCKET_MIN_LOG2, max = UINT64_C(1) << BUCKET_MAX_LOG2;

        assert_int_equal(bucket_full(0), 0);
        assert_int_equal(bucket_full(min), 0);
        assert_int_equal(bucket_full(min + 1), 1);
        assert_int_equal(bucket_full(max), BUCKETS_FULL - 2);
        assert_int_equal(bucket_full(max + 1), BUCKETS_FULL - 1);
        assert_int_equal(bucket_full(UINT64_MAX), BUCKETS_FULL - 1);

        assert_int_equal(bucket_short(0), 0);
        assert_int_equal(bucket_short(min), 0);
        assert_int_equal(bucket_short(min + 1), 1);
        assert_int_equal(bucket_short(max), BUCKETS_SHORT - 2);
        assert_int_equal(bucket_short(max + 1), BUCKETS_SHORT - 1);
        assert_int_equal(bucket_short(UINT64_MAX), BUCKETS_SHORT - 1);

        assert_true(bucket_full_upper(BUCKETS_FULL - 2) == max);
        assert_true(bucket_full_upper(BUCKETS_FULL - 1) == UINT64_MAX);
        assert_true(bucket_short_upper(BUCKETS_SHORT - 2) == max);
        assert_true(bucket_short_upper(BUCKETS_SHORT - 1) == UINT64_MAX);
}

static void test_edges_inclusive(void **state) {
        for (unsigned i = 0; i < BUCKETS_FULL - 1; i++) {
                uint64_t upper = bucket_full_upper(i);

                assert_true(i == 0 || upper > bucket_full_upper(i - 1));
                assert_int_equal(bucket_full(upper - 1), i);
                assert_int_equal(bucket_full(upper), i);
                assert_int_equal(bucket_full(upper + 1), i + 1);
                check_value(upper);
                check_value(upper + 1);
        }
        for (unsigned i = 0; i < BUCKETS_SHORT - 1; i++) {
                uint64_t upper = bucket_short_upper(i);

                assert_int_equal(bucket_short(upper), i);
                assert_int_equal(bucket_short(upper + 1), i + 1);
                /* Each is an edge of the full form too, so that it may be an "le" of the metrics. */
                assert_true(bucket_full_upper(bucket_full(upper)) == upper);
        }
}

/* The promise of the design: no bucket is wider than an eighth of its lower edge. */
static void test_width(void **state) {
        for (unsigned i = 1; i < BUCKETS_FULL - 1; i++) {
                uint64_t lower = bucket_full_upper(i - 1), upper = bucket_full_upper(i);

                assert_true((upper - lower) * BUCKET_STEPS <= lower);
        }
}

static void test_monotone(void **state) {
        uint64_t seed = 1, last = 0;
        unsigned f = 0, s = 0;

        /* Steps of up to 1/64 of the value visit every bucket of the range. */
        for (uint64_t v = 0; v < UINT64_C(1) << 40; v += 1 + test_random(&seed) % (v / 64 + 1)) {
                assert_true(v >= last);
                assert_true(bucket_full(v) >= f && bucket_full(v) <= f + 1);
                assert_true(bucket_short(v) >= s && bucket_short(v) <= s + 1);
                check_value(v);
                f = bucket_full(v);
                s = bucket_short(v);
                last = v;
        }
        assert_int_equal(f, BUCKETS_FULL - 1);
        assert_int_equal(s, BUCKETS_SHORT - 1);
}

static void test_log2(void **state) {
        for (unsigned k = 0; k <= 63; k++) {
                uint64_t p = UINT64_C(1) << k;

                assert_int_equal(bucket_log2(p), k);
                assert_int_equal(bucket_log2(p | (p - 1)), k);
        }
}

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_powers_of_two),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_edges_inclusive),
        cmocka_unit_test(test_width),
        cmocka_unit_test(test_monotone),
        cmocka_unit_test(test_log2),
)
