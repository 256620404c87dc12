/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "test.h"
#include "text.h"
#include "waterfall.h"

enum {
        WIDTH = 10,
        TOTAL = 1000,
};

static Span span(const char *name, uint64_t start, uint64_t end) {
        return (Span){ .name = (char *) name, .start_ns = start, .end_ns = end };
}

static void check_line(const WaterfallLine *l, const char *name, unsigned depth, unsigned from, unsigned to,
                       uint64_t ns) {
        assert_string_equal(l->span->name, name);
        assert_int_equal(l->depth, depth);
        assert_int_equal(l->from, from);
        assert_int_equal(l->to, to);
        assert_int_equal(l->ns, ns);
}

static void test_sequence(void **state) {
        const Span spans[] = { span("journal", 300, 1000), span("data", 0, 300) };
        WaterfallLine lines[2];

        assert_int_equal(waterfall_layout(spans, 2, TOTAL, WIDTH, lines), 2);
        check_line(&lines[0], "data", 0, 0, 3, 300);
        check_line(&lines[1], "journal", 0, 3, 10, 700);
}

static void test_nested(void **state) {
        const Span spans[] = {
                span("innermost", 400, 500),
                span("inner", 300, 600),
                span("next", 600, 700), /* beside "inner", inside "outer" */
                span("outer", 300, 900),
                span("last", 900, 1000),
                span("overlaps", 850, 950), /* inside of nothing */
        };
        WaterfallLine lines[ELEMENTSOF(spans)];

        assert_int_equal(waterfall_layout(spans, ELEMENTSOF(spans), TOTAL, WIDTH, lines), ELEMENTSOF(spans));
        check_line(&lines[0], "outer", 0, 3, 9, 600);
        check_line(&lines[1], "inner", 1, 3, 6, 300);
        check_line(&lines[2], "innermost", 2, 4, 5, 100);
        check_line(&lines[3], "next", 1, 6, 7, 100);
        check_line(&lines[4], "overlaps", 0, 8, 10, 100);
        check_line(&lines[5], "last", 0, 9, 10, 100);
}

/* The smallest is seen, what lies outside is not. */
static void test_edges(void **state) {
        const Span spans[] = {
                span("tiny", 999, 1000),
                span("start", 0, 1),
                span("middle", 450, 451),
                span("beyond", 900, 5000),
                span("outside", 1000, 2000),
                span("empty", 500, 500),
                span("reversed", 600, 500),
                span("huge", 0, UINT64_MAX),
        };
        WaterfallLine lines[ELEMENTSOF(spans)];

        assert_int_equal(waterfall_layout(spans, ELEMENTSOF(spans), TOTAL, WIDTH, lines), 5);
        check_line(&lines[0], "huge", 0, 0, 10, 1000);
        check_line(&lines[1], "start", 1, 0, 1, 1);
        check_line(&lines[2], "middle", 1, 4, 5, 1);
        check_line(&lines[3], "beyond", 1, 9, 10, 100);
        check_line(&lines[4], "tiny", 2, 9, 10, 1);
}

static void test_nothing(void **state) {
        const Span one = span("data", 0, 10);
        WaterfallLine line;

        assert_int_equal(waterfall_layout(NULL, 0, TOTAL, WIDTH, NULL), 0);
        assert_int_equal(waterfall_layout(&one, 1, 0, WIDTH, &line), 0);
        assert_int_equal(waterfall_layout(&one, 1, TOTAL, 0, &line), 1);
        check_line(&line, "data", 0, 0, 0, 10);
}

/* Times of hours in nanoseconds do not overflow, and deep nesting ends somewhere. */
static void test_large(void **state) {
        enum { DEPTH = 100 };
        const uint64_t total = UINT64_MAX - 1;
        Span spans[DEPTH];
        WaterfallLine lines[DEPTH];

        for (size_t i = 0; i < DEPTH; i++)
                spans[i] = span("x", i, total - i);
        assert_int_equal(waterfall_layout(spans, DEPTH, total, 500, lines), DEPTH);
        for (size_t i = 0; i < DEPTH; i++) {
                assert_int_equal(lines[i].depth, MIN(i, (size_t) WATERFALL_DEPTH_MAX));
                assert_int_equal(lines[i].from, 0);
                assert_int_equal(lines[i].to, 500);
        }
}

static void test_random_spans(void **state) {
        uint64_t seed = 5;

        for (size_t round = 0; round < 5000; round++) {
                Span spans[20];
                WaterfallLine lines[20];
                uint64_t total = test_random(&seed) >> (round % 64);
                unsigned width = 1 + (unsigned) (test_random(&seed) % 200);
                size_t n;

                for (size_t i = 0; i < ELEMENTSOF(spans); i++)
                        spans[i] = span("x", test_random(&seed) >> (round % 64), test_random(&seed) >> (round % 64));
                n = waterfall_layout(spans, ELEMENTSOF(spans), total, width, lines);
                for (size_t i = 0; i < n; i++) {
                        assert_true(lines[i].from < lines[i].to);
                        assert_true(lines[i].to <= width);
                        assert_true(lines[i].ns > 0 && lines[i].ns <= total);
                        assert_true(lines[i].depth <= WATERFALL_DEPTH_MAX);
                        assert_true(i == 0 || lines[i - 1].span->start_ns <= lines[i].span->start_ns);
                }
        }
}

static void test_bar(void **state) {
        const Span one = span("data", 300, 600);
        _cleanup_free_ char *bar = NULL;
        WaterfallLine line;

        assert_int_equal(waterfall_layout(&one, 1, TOTAL, WIDTH, &line), 1);
        bar = waterfall_bar(&line, WIDTH);
        assert_string_equal(bar, "...###....");
}

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_sequence),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_random_spans),
        cmocka_unit_test(test_bar),
)
