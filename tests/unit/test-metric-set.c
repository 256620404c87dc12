/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "metric-fold.h"
#include "names.h"
#include "test.h"

static void add(MetricSet *s, const char *unit, const char *op, const char *phase, const char *device, uint64_t sum,
                uint64_t n) {
        assert_int_equal(metric_set_add(s, METRIC_OPERATION_SECONDS, (const char *[]){ unit, op, phase, device }, sum,
                                        (uint64_t[]){ 0, n }, 2), 0);
}

static void blame(MetricSet *s, const char *victim, const char *culprit, const char *phase, uint64_t ns) {
        assert_int_equal(metric_set_add(s, METRIC_BLAMED_SECONDS, (const char *[]){ victim, culprit, phase }, ns,
                                        NULL, 0), 0);
}

static MetricSet *new_set(void) {
        MetricSet *s = metric_set_new(metric_text_clean);

        assert_non_null(s);
        return s;
}

/* The point with these labels, NULL if there is none; there must not be two. */
static const MetricPoint *find(const MetricSet *s, MetricFamily family, const char *a, const char *b, const char *c) {
        const char *labels[] = { a, b, c };
        const MetricPoint *points, *found = NULL;
        size_t n;

        points = metric_set_points(s, &n);
        for (size_t i = 0; i < n; i++) {
                bool same = points[i].family == family;

                for (size_t k = 0; k < ELEMENTSOF(labels) && same; k++)
                        same = !labels[k] || streq(metric_set_text(s, points[i].labels[k]), labels[k]);
                if (!same)
                        continue;
                assert_null(found);
                found = &points[i];
        }

        return found;
}

static uint64_t sum_of(const MetricSet *s, MetricFamily family) {
        const MetricPoint *points;
        uint64_t sum = 0;
        size_t n;

        points = metric_set_points(s, &n);
        for (size_t i = 0; i < n; i++)
                if (points[i].family == family)
                        sum += points[i].value;

        return sum;
}

static void test_merge(void **state) {
        _cleanup_(metric_set_freep) MetricSet *s = new_set();
        const MetricPoint *p;
        size_t n;

        add(s, "b.service", "fsync", "total", "8:1", 10, 1);
        add(s, "a.service", "fsync", "total", "8:1", 5, 2);
        add(s, "b.service", "fsync", "total", "8:1", 7, 3);
        add(s, "b.service", "fsync", "total", "8:2", 1, 1);
        metric_set_merge(s);
        (void) metric_set_points(s, &n);
        assert_int_equal(n, 3);
        p = metric_set_points(s, &n);
        assert_string_equal(metric_set_text(s, p[0].labels[0]), "a.service");
        assert_int_equal(p[1].value, 17);
        assert_int_equal(p[1].buckets[1], 4);
        assert_int_equal(p[1].buckets[0], 0);
        assert_int_equal(metric_set_count(s), 3 * METRIC_HISTOGRAM_COST);

        /* What does not fit into the numbers is no small number. */
        add(s, "a.service", "fsync", "total", "8:1", UINT64_MAX, UINT64_MAX);
        metric_set_merge(s);
        p = find(s, METRIC_OPERATION_SECONDS, "a.service", NULL, NULL);
        assert_true(p->value == UINT64_MAX && p->buckets[1] == UINT64_MAX);
}

static void test_hostile(void **state) {
        _cleanup_(metric_set_freep) MetricSet *s = new_set();
        _cleanup_free_ char *clean = NULL, *longest = NULL;
        uint64_t buckets[METRIC_BUCKETS + 1] = {};
        const char *labels[] = { "a.service", "fsync", "total", "" };

        assert_int_equal(metric_set_add(s, METRIC_OPERATION_SECONDS, labels, 1, buckets, METRIC_BUCKETS + 1),
                         -EBADMSG);
        assert_int_equal(metric_set_add(s, METRIC_OPERATION_SECONDS, labels, 1, buckets, METRIC_BUCKETS), 0);
        longest = malloc(METRIC_TEXT_MAX + 2);
        memset(longest, 'x', METRIC_TEXT_MAX + 1);
        longest[METRIC_TEXT_MAX + 1] = 0;
        labels[0] = longest;
        assert_int_equal(metric_set_add(s, METRIC_OPERATION_SECONDS, labels, 1, buckets, 1), -EBADMSG);

        clean = metric_text_clean("a\r\033[1m\x7f\t\"\\\nb\xc3\xa4");
        assert_string_equal(clean, "a\\x0d\\x1b[1m\\x7f\\x09\"\\\nb\xc3\xa4");
}

/* Names that are the same when they have been made harmless are one series. */
static void test_clean_before_merge(void **state) {
        _cleanup_(metric_set_freep) MetricSet *s = new_set();
        size_t n;

        add(s, "a\033.service", "fsync", "total", "", 1, 1);
        add(s, "a\\x1b.service", "fsync", "total", "", 1, 1);
        metric_set_merge(s);
        (void) metric_set_points(s, &n);
        assert_int_equal(n, 1);
}

static void test_no_fold(void **state) {
        _cleanup_(metric_set_freep) MetricSet *s = new_set();

        add(s, "a.service", "fsync", "total", "8:1", 10, 1);
        add(s, "b.service", "fsync", "total", "8:1", 10, 1);
        assert_int_equal(metric_set_fold(s, 2 * METRIC_HISTOGRAM_COST + 1, NULL), 0);
        assert_non_null(find(s, METRIC_OPERATION_SECONDS, "b.service", NULL, NULL));
        assert_null(find(s, METRIC_OPERATION_SECONDS, UNIT_OTHERS, NULL, NULL));
        assert_int_equal(find(s, METRIC_FOLDED_UNITS, NULL, NULL, NULL)->value, 0);
}

static void test_fold(void **state) {
        _cleanup_(metric_set_freep) MetricSet *s = new_set();
        const MetricPoint *p;

        add(s, "small.service", "fsync", "total", "8:1", 10, 1);
        add(s, "large.service", "fsync", "total", "8:1", 1000, 3);
        add(s, "tiny.service", "fsync", "total", "8:1", 5, 2);
        add(s, "tiny.service", "fsync", "data", "8:1", 100000, 2); /* a phase makes no unit larger */
        add(s, UNIT_KERNEL, "fsync", "total", "8:1", 1, 1);
        assert_int_equal(metric_set_fold(s, 5 * METRIC_HISTOGRAM_COST, NULL), 0);

        assert_int_equal(find(s, METRIC_FOLDED_UNITS, NULL, NULL, NULL)->value, 2);
        assert_int_equal(find(s, METRIC_OPERATION_SECONDS, "large.service", NULL, NULL)->value, 1000);
        assert_int_equal(find(s, METRIC_OPERATION_SECONDS, UNIT_KERNEL, NULL, NULL)->value, 1);
        assert_null(find(s, METRIC_OPERATION_SECONDS, "small.service", NULL, NULL));
        p = find(s, METRIC_OPERATION_SECONDS, UNIT_OTHERS, "fsync", "total");
        assert_int_equal(p->value, 15);
        assert_int_equal(p->buckets[1], 3);
        assert_int_equal(find(s, METRIC_OPERATION_SECONDS, UNIT_OTHERS, "fsync", "data")->value, 100000);
}

static void test_fold_blame(void **state) {
        _cleanup_(metric_set_freep) MetricSet *s = new_set();

        add(s, "large.service", "fsync", "total", "", 1000, 1);
        add(s, "a.service", "fsync", "total", "", 2, 1);
        add(s, "b.service", "fsync", "total", "", 1, 1);
        blame(s, "large.service", "a.service", "journal", 1);
        blame(s, "large.service", "b.service", "journal", 2);
        blame(s, "a.service", "large.service", "journal", 4);
        blame(s, "b.service", "large.service", "journal", 8);
        blame(s, "a.service", "b.service", "journal", 16);
        blame(s, "b.service", "b.service", "journal", 32);
        blame(s, "large.service", "large.service", "data", 64);
        assert_int_equal(metric_set_fold(s, (2 * METRIC_HISTOGRAM_COST + 5) * 8 / 7 + 1, NULL), 0);

        /* Two histograms, four that blame, and the number of folded units. */
        assert_int_equal(metric_set_count(s), 2 * METRIC_HISTOGRAM_COST + 5);
        assert_int_equal(find(s, METRIC_BLAMED_SECONDS, "large.service", UNIT_OTHERS, "journal")->value, 3);
        assert_int_equal(find(s, METRIC_BLAMED_SECONDS, UNIT_OTHERS, "large.service", "journal")->value, 12);
        assert_int_equal(find(s, METRIC_BLAMED_SECONDS, UNIT_OTHERS, UNIT_OTHERS, "journal")->value, 48);
        assert_int_equal(find(s, METRIC_BLAMED_SECONDS, "large.service", "large.service", "data")->value, 64);
}

/* A random set, the same for the same seed, every number of which grows with age. */
static MetricSet *random_set(uint64_t seed, unsigned n_units, unsigned age) {
        MetricSet *s = new_set();

        for (unsigned i = 0; i < 400; i++) {
                char unit[32], culprit[32], device[8];
                static const char *const phases[] = { "total", "data", "journal" };
                uint64_t x = test_random(&seed);

                snprintf(unit, sizeof(unit), "%u.service", (unsigned) (x % n_units));
                snprintf(culprit, sizeof(culprit), "%u.service", (unsigned) (x / 64 % n_units));
                snprintf(device, sizeof(device), "8:%u", (unsigned) (x / 4096 % 3));
                if (i % 2)
                        blame(s, i % 5 ? unit : UNIT_KERNEL, culprit, phases[x % 3], x % 1000 * age);
                else
                        add(s, i % 20 ? unit : UNIT_KERNEL, i % 3 ? "fsync" : "dread", phases[x / 8 % 3], device,
                            x % 100000 * age * (1 + x / 256 % (1 + age)), age);
        }

        return s;
}

/* Nothing gets lost, and the numbers of time series that units are chosen by are those that come out. */
static void test_fold_random(void **state) {
        for (uint64_t seed = 1; seed < 60; seed++) {
                _cleanup_(metric_set_freep) MetricSet *whole = random_set(seed, 40, 1);
                uint64_t all, count;

                metric_set_merge(whole);
                all = metric_set_count(whole) + 1;
                for (uint64_t limit = 1000; limit < all + 500; limit += 700) {
                        _cleanup_(metric_set_freep) MetricSet *s = random_set(seed, 40, 1);

                        assert_int_equal(metric_set_fold(s, limit, NULL), 0);
                        count = metric_set_count(s);
                        assert_true(count <= limit);
                        assert_int_equal(find(s, METRIC_FOLDED_UNITS, NULL, NULL, NULL)->value == 0, limit >= all);
                        if (limit < all) {
                                _cleanup_(metric_set_freep) MetricSet *tight = random_set(seed, 40, 1);

                                /* The lowest limit, less the room that is left, which allows what just came out. */
                                assert_int_equal(metric_set_fold(tight, (count - 1) * 8 / 7 + 1, NULL), 0);
                                assert_int_equal(metric_set_count(tight), count);
                        }
                        assert_true(sum_of(s, METRIC_OPERATION_SECONDS) == sum_of(whole, METRIC_OPERATION_SECONDS));
                        assert_true(sum_of(s, METRIC_BLAMED_SECONDS) == sum_of(whole, METRIC_BLAMED_SECONDS));
                }
        }
}

/* Whatever grows how fast, no counter that is there goes down. */
static void test_memory(void **state) {
        for (uint64_t seed = 1; seed < 30; seed++) {
                _cleanup_(metric_memory_clear) MetricMemory memory = {};
                _cleanup_(metric_set_freep) MetricSet *before = NULL;

                for (unsigned age = 1; age < 6; age++) {
                        MetricSet *s = random_set(seed, 40, age);
                        const MetricPoint *points;
                        size_t n;

                        assert_int_equal(metric_set_fold(s, 3000, &memory), 0);
                        points = metric_set_points(s, &n);
                        assert_int_equal(find(s, METRIC_FOLDED_UNITS, NULL, NULL, NULL)->value, memory.n_folded);
                        for (size_t i = 0; before && i < n; i++) {
                                const MetricPoint *old;

                                if (points[i].family != METRIC_BLAMED_SECONDS)
                                        continue;
                                old = find(before, METRIC_BLAMED_SECONDS, metric_set_text(s, points[i].labels[0]),
                                           metric_set_text(s, points[i].labels[1]),
                                           metric_set_text(s, points[i].labels[2]));
                                assert_true(!old || old->value <= points[i].value);
                        }
                        metric_set_free(before);
                        before = s;
                }
        }
}

static void test_memory_of_new_units(void **state) {
        _cleanup_(metric_memory_clear) MetricMemory memory = {};

        for (unsigned round = 0; round < 3; round++) {
                _cleanup_(metric_set_freep) MetricSet *s = new_set();

                add(s, "a.service", "fsync", "total", "", 1000, 1);
                add(s, "b.service", "fsync", "total", "", 10, 1);
                add(s, "c.service", "fsync", "total", "", 5, 1);
                if (round > 0) /* a newcomer, and one that was folded, have become larger */
                        add(s, "new.service", "fsync", "total", "", 1000000, 1);
                if (round > 1)
                        add(s, "c.service", "fsync", "total", "", 1000000000, 1);
                assert_int_equal(metric_set_fold(s, 3 * METRIC_HISTOGRAM_COST + (round > 0 ? 0 : 1), &memory), 0);
                if (round == 0)
                        assert_int_equal(find(s, METRIC_FOLDED_UNITS, NULL, NULL, NULL)->value, 0);
                else {
                        assert_non_null(find(s, METRIC_OPERATION_SECONDS, "a.service", NULL, NULL));
                        assert_null(find(s, METRIC_OPERATION_SECONDS, "c.service", NULL, NULL));
                        assert_null(find(s, METRIC_OPERATION_SECONDS, "new.service", NULL, NULL));
                }
        }
}

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_clean_before_merge),
        cmocka_unit_test(test_no_fold),
        cmocka_unit_test(test_fold),
        cmocka_unit_test(test_fold_blame),
        cmocka_unit_test(test_fold_random),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_memory_of_new_units),
)
