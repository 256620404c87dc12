/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <locale.h>

#include "test.h"
#include "text.h"

static void check_escape(const char *s, const char *wanted) {
        _cleanup_free_ char *t = text_escape(s);

        assert_non_null(t);
        assert_string_equal(t, wanted);
}

static void test_escape(void **state) {
        check_escape("", "");
        check_escape("postgresql@15-main.service", "postgresql@15-main.service");
        check_escape("a\nb\tc", "a\\x0ab\\x09c");
        check_escape("\033[31mred", "\\x1b[31mred");
        check_escape("\x7f", "\\x7f");
        check_escape("\xff\xfe", "\\xff\\xfe");
        check_escape("\xe2\x80\xae", "\\xe2\\x80\\xae"); /* turns the direction of what follows */
}

/* No byte that does something to a terminal gets through, whatever there is. */
static void test_escape_random(void **state) {
        uint64_t seed = 1;

        for (unsigned i = 0; i < 2000; i++) {
                _cleanup_free_ char *t = NULL;
                char s[64];
                size_t n = test_random(&seed) % sizeof(s);

                for (size_t k = 0; k < n; k++)
                        s[k] = (char) (1 + test_random(&seed) % 255);
                s[n] = 0;
                t = text_escape(s);
                assert_non_null(t);
                for (const char *p = t; *p; p++)
                        assert_true((unsigned char) *p >= ' ' && *p != 0x7f);
        }
}

static void test_utf8(void **state) {
        _cleanup_free_ char *good = text_make_utf8("Gr\xc3\xb6\xc3\x9f" "e");
        _cleanup_free_ char *bad = text_make_utf8("a\xff" "b");

        assert_string_equal(good, "Gr\xc3\xb6\xc3\x9f" "e");
        assert_string_equal(bad, "a\xef\xbf\xbd" "b");
}

static void test_ellipsize(void **state) {
        for (size_t width = 1; width < 20; width++) {
                _cleanup_free_ char *t = text_ellipsize("iolat-demo.service", width);

                assert_non_null(t);
                assert_true(text_width(t) <= width);
        }
        {
                _cleanup_free_ char *t = text_ellipsize("short", 10);

                assert_string_equal(t, "short");
        }
}

static void test_append(void **state) {
        _cleanup_free_ char *s = NULL;

        assert_int_equal(text_append(&s, "a"), 0);
        assert_int_equal(text_appendf(&s, "%d-%s", 17, "b"), 0);
        assert_string_equal(s, "a17-b");
}

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_escape),
        cmocka_unit_test(test_escape_random),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_ellipsize),
        cmocka_unit_test(test_append),
)
