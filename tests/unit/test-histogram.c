/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <math.h>

#include "histogram.h"
#include "test.h"

static const size_t sizes[] = { 1, 2, 140, 10000 };
static const double quantiles[] = { 0.001, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1 };

#define MSEC(x) ((uint64_t) ((x) * 1e6))

static uint64_t dist_constant(uint64_t *seed, size_t i) {
        return MSEC(7.3);
}

static uint64_t dist_uniform(uint64_t *seed, size_t i) {
        return 2000 + test_random(seed) % MSEC(50);
}

/* Six powers of ten, each as likely as the other. */
static uint64_t dist_log_uniform(uint64_t *seed, size_t i) {
        return (uint64_t) pow(10, 3.5 + (double) (test_random(seed) % 1000000) / 1e6 * 6);
}

/* A fast device and a slow one. */
static uint64_t dist_bimodal(uint64_t *seed, size_t i) {
        uint64_t r = test_random(seed);

        return r % 10 < 7 ? 90000 + r % 20000 : MSEC(8) + r % MSEC(4);
}

/* Healthy but for stalls of 2.2 and 4.5 s. */
static uint64_t dist_stalls(uint64_t *seed, size_t i) {
        if (i % 70 == 35)
                return MSEC(2200);
        if (i % 140 == 139)
                return MSEC(4500);

        return MSEC(1) + test_random(seed) % MSEC(2);
}

/* All values on upper edges, the hardest place for rounding. */
static uint64_t dist_edges(uint64_t *seed, size_t i) {
        return bucket_full_upper(1 + (unsigned) (test_random(seed) % (BUCKETS_FULL - 3)));
}

static uint64_t (*const distributions[])(uint64_t *seed, size_t i) = {
        dist_constant, dist_uniform, dist_log_uniform, dist_bimodal, dist_stalls, dist_edges,
};

static int compare(const void *a, const void *b) {
        const uint64_t *x = a, *y = b;

        return *x < *y ? -1 : *x > *y;
}

static void full_record(struct hist_full *h, uint64_t v) {
        h->count++;
        h->sum_ns += v;
        h->max_ns = MAX(h->max_ns, (unsigned long long) v);
        h->bucket[bucket_full(v)]++;
}

static void short_record(struct hist_short *h, uint64_t v) {
        h->count++;
        h->sum_ns += v;
        h->max_ns = MAX(h->max_ns, (unsigned long long) v);
        h->bucket[bucket_short(v)]++;
}

static void check_quantiles(const uint64_t *sorted, size_t n, const struct hist_full *f,
                            const struct hist_short *s) {
        for (size_t i = 0; i < ELEMENTSOF(quantiles); i++) {
                double q = quantiles[i];
                size_t rank = MIN(MAX((size_t) ceil(q * (double) n), (size_t) 1), n);
                uint64_t exact = sorted[rank - 1], got = hist_full_quantile(f, q);
                double error = fabs((double) got - (double) exact) / (double) exact;

                assert_true(error <= 0.0625);
                assert_true(got <= f->max_ns);

                /* One bucket per power of two: never more than half off, never above the maximum. */
                got = hist_short_quantile(s, q);
                assert_true(fabs((double) got - (double) exact) / (double) exact <= 0.5);
                assert_true(got <= s->max_ns);
        }
}

static void test_quantiles(void **state) {
        for (size_t d = 0; d < ELEMENTSOF(distributions); d++)
                for (size_t k = 0; k < ELEMENTSOF(sizes); k++) {
                        size_t n = sizes[k];
                        _cleanup_free_ uint64_t *values = calloc(n, sizeof(uint64_t));
                        struct hist_full f = {};
                        struct hist_short s = {};
                        uint64_t seed = 88172645463325252 + d;

                        assert_non_null(values);
                        for (size_t i = 0; i < n; i++) {
                                values[i] = distributions[d](&seed, i);
                                full_record(&f, values[i]);
                                short_record(&s, values[i]);
                        }
                        qsort(values, n, sizeof(uint64_t), compare);
                        assert_true(f.max_ns == values[n - 1]);
                        check_quantiles(values, n, &f, &s);
                }
}

static void test_stalls_are_seen(void **state) {
        struct hist_full f = {};
        uint64_t p;

        for (size_t i = 0; i < 98; i++)
                full_record(&f, MSEC(1));
        full_record(&f, MSEC(2200));
        full_record(&f, MSEC(4500));

        assert_true(hist_full_quantile(&f, 0.98) < MSEC(1.0625));
        p = hist_full_quantile(&f, 0.99);
        assert_true(p >= MSEC(2200 * 0.9375) && p <= MSEC(2200 * 1.0625));
        p = hist_full_quantile(&f, 1);
        assert_true(p >= MSEC(4500 * 0.9375) && p <= MSEC(4500));
}

static void test_ends(void **state) {
        struct hist_full f = {};
        struct hist_short s = {};

        assert_int_equal(hist_full_quantile(&f, 0.5), 0);
        assert_int_equal(hist_short_quantile(&s, 0.5), 0);

        /* Beyond the range only the maximum is known. */
        full_record(&f, 200 * NSEC_PER_SEC);
        short_record(&s, 200 * NSEC_PER_SEC);
        assert_true(hist_full_quantile(&f, 0.5) == 200 * NSEC_PER_SEC);
        assert_true(hist_short_quantile(&s, 0.5) == 200 * NSEC_PER_SEC);

        f = (struct hist_full) {};
        full_record(&f, 3);
        assert_int_equal(hist_full_quantile(&f, 0.5), 3);

        /* The kernel counts while user space reads: the buckets alone decide. */
        f = (struct hist_full) { .count = 100, .max_ns = 5000 };
        f.bucket[bucket_full(5000)] = 1;
        assert_true(hist_full_quantile(&f, 0.99) <= 5000);
        assert_true(hist_full_quantile(&f, 0.99) > 0);
}

static void test_add(void **state) {
        struct hist_full a = {}, b = {}, both = {};
        struct hist_short sa = {}, sb = {}, sboth = {};
        uint64_t seed = 7;

        for (size_t i = 0; i < 5000; i++) {
                uint64_t v = dist_log_uniform(&seed, i);

                full_record(i % 3 == 0 ? &a : &b, v);
                short_record(i % 3 == 0 ? &sa : &sb, v);
                full_record(&both, v);
                short_record(&sboth, v);
        }

        hist_full_add(&a, &b);
        assert_memory_equal(&a, &both, sizeof(both));
        hist_short_add(&sa, &sb);
        assert_memory_equal(&sa, &sboth, sizeof(sboth));

        /* Nothing added changes nothing. */
        b = (struct hist_full) {};
        hist_full_add(&a, &b);
        assert_memory_equal(&a, &both, sizeof(both));
        hist_full_add(&b, &a);
        assert_memory_equal(&b, &both, sizeof(both));
}

/* What is counted in the full form and coarsened is what the short form would have counted. */
static void test_coarsen(void **state) {
        struct hist_full f = {};
        struct hist_short s = {};
        uint64_t coarse[BUCKETS_SHORT];
        uint64_t seed = 11;

        for (size_t i = 0; i < 5000; i++) {
                uint64_t v = dist_log_uniform(&seed, i);

                full_record(&f, v);
                short_record(&s, v);
        }
        for (unsigned k = 0; k <= BUCKET_MAX_LOG2 + 1; k++)
                for (int d = -1; d <= 1; d++) {
                        full_record(&f, (UINT64_C(1) << k) + d);
                        short_record(&s, (UINT64_C(1) << k) + d);
                }

        hist_full_coarsen(&f, coarse);
        for (size_t i = 0; i < BUCKETS_SHORT; i++)
                assert_int_equal(coarse[i], s.bucket[i]);
}

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_quantiles),
        cmocka_unit_test(test_stalls_are_seen),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_add),
        cmocka_unit_test(test_coarsen),
)
