/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "names.h"
#include "test.h"
#include "text.h"
#include "top-text.h"

static void check_nsec(uint64_t ns, const char *wanted) {
        assert_string_equal(top_format_nsec((char[FORMAT_MAX]){}, ns), wanted);
}

static void test_nsec(void **state) {
        char buf[FORMAT_MAX];

        check_nsec(0, "0");
        check_nsec(999, "999ns");
        check_nsec(1000, "1.00us");
        check_nsec(9995, "10.0us");
        check_nsec(45600, "45.6us");
        check_nsec(999499, "999us");
        check_nsec(999500, "1.00ms");
        check_nsec(1234567, "1.23ms");
        check_nsec(59900000000, "59.9s");
        check_nsec(99940000000, "99.9s");
        check_nsec(100000000000, "2min");
        check_nsec(3600 * NSEC_PER_SEC, "60min");
        check_nsec(2 * 3600 * NSEC_PER_SEC, "2.00h");
        check_nsec(10 * 86400 * NSEC_PER_SEC, "10.0d");
        for (uint64_t ns = 1; ns < UINT64_MAX / 3; ns = ns * 3 / 2 + 1) {
                if (ns >= (uint64_t) 99999 * 86400 * NSEC_PER_SEC)
                        break;
                assert_true(strlen(top_format_nsec(buf, ns)) <= 6);
        }
}

static void test_rate_and_share(void **state) {
        char buf[FORMAT_MAX];

        assert_string_equal(top_format_rate(buf, 0), "0");
        assert_string_equal(top_format_rate(buf, 0.5), "0.50");
        assert_string_equal(top_format_rate(buf, 9.996), "10.0");
        assert_string_equal(top_format_rate(buf, 123.4), "123");
        assert_string_equal(top_format_rate(buf, 99999), "99999");
        assert_string_equal(top_format_rate(buf, 100000), "100k");
        assert_string_equal(top_format_rate(buf, 5e9), "5000M");
        assert_string_equal(top_format_share(buf, 0), "0");
        assert_string_equal(top_format_share(buf, 0.0012), "0.12%");
        assert_string_equal(top_format_share(buf, 0.5), "50.0%");
        assert_string_equal(top_format_share(buf, 12.34), "1234%");
}

static void check_bar(const Share *shares, size_t n, size_t width, const char *wanted) {
        size_t cells[64];
        char got[64] = "";

        top_bar(shares, n, width, cells);
        for (size_t i = 0; i < width; i++)
                got[i] = cells[i] < n ? share_letter(shares[cells[i]].name) : ' ';
        assert_string_equal(got, wanted);
}

static void test_bar(void **state) {
        static const Share shares[] = { { "journal", 50 }, { "data", 30 }, { "other", 20 } };
        static const Share huge[] = { { "journal", UINT64_MAX }, { "data", UINT64_MAX } };
        static const Share none[] = { { "journal", 0 } };

        check_bar(shares, 3, 10, "jjjjjdddoo");
        check_bar(shares, 3, 1, "j");
        check_bar(shares, 3, 0, "");
        check_bar(huge, 2, 4, "jjdd");
        check_bar(none, 1, 4, "    ");
        check_bar(NULL, 0, 3, "   ");
}

/* Letters and colours are there to tell phases apart. */
static void test_letters(void **state) {
        for (int i = 0; i < _PHASE_MAX; i++) {
                assert_true(share_letter(phase_to_string(i)) >= 'A');
                for (int k = 0; k < i; k++) {
                        assert_int_not_equal(share_letter(phase_to_string(i)), share_letter(phase_to_string(k)));
                        assert_int_not_equal(share_colour(phase_to_string(i)), share_colour(phase_to_string(k)));
                }
        }
        assert_int_not_equal(share_letter("queue"), share_letter("device"));
        assert_int_equal(share_letter("\033"), '?');
        assert_true(share_colour("nothing") == SIZE_MAX);
}

static void check_trend(const uint64_t *history, size_t n, size_t width, const char *wanted) {
        _cleanup_free_ char *s = top_trend(history, n, width);

        assert_non_null(s);
        assert_string_equal(s, wanted);
}

/* The locale is "C" here. */
static void test_trend(void **state) {
        check_trend((const uint64_t[]){ 80, 0, 40, 1 }, 4, 4, ".+ #"); /* the newest comes first, and stands last */
        check_trend((const uint64_t[]){ 80, 0, 40, 1 }, 4, 2, " #");
        check_trend((const uint64_t[]){ 80 }, 1, 3, "  #");
        check_trend((const uint64_t[]){ 0, 0 }, 2, 3, "   ");
        check_trend(NULL, 0, 0, "");
}

static void test_layout(void **state) {
        size_t widths[_TOP_COLUMN_MAX];

        for (unsigned detail = 0; detail < 2; detail++)
                for (size_t width = 1; width < 400; width++) {
                        size_t sum = 0, n = 0;

                        top_layout(detail, width, widths);
                        for (size_t c = 0; c < _TOP_COLUMN_MAX; c++) {
                                sum += widths[c];
                                n += widths[c] > 0;
                                if (widths[c] > 0 && c != TOP_NAME)
                                        assert_true(widths[c] >= strlen(top_column_header((TopColumn) c, detail)));
                        }
                        assert_true(widths[TOP_NAME] > 0);
                        assert_int_equal(sum + n - 1, width);
                }

        top_layout(false, 40, widths);
        assert_true(widths[TOP_OP] > 0 && widths[TOP_WAIT] > 0 && widths[TOP_NAME] >= 12);
        top_layout(false, 80, widths);
        assert_true(widths[TOP_PHASES] > 0 && widths[TOP_TREND] > 0 && widths[TOP_ERRORS] > 0 &&
                    widths[TOP_NAME] >= 20);
        top_layout(false, 120, widths);
        assert_true(widths[TOP_DEVICE] > 0);
        top_layout(true, 120, widths);
        assert_true(widths[TOP_BYTES] > 0 && widths[TOP_OP] == 0);
}

DEFINE_TEST_MAIN(cmocka_unit_test(test_nsec),
                 cmocka_unit_test(test_rate_and_share),
                 cmocka_unit_test(test_bar),
                 cmocka_unit_test(test_letters),
                 cmocka_unit_test(test_trend),
                 cmocka_unit_test(test_layout))
