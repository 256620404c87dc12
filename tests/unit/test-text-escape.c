/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "text-escape.h"

static void test_unchanged(void **state) {
        static const char *const good[] = { "", "db.service", "/mnt/\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "a\tb\n" };
        char buf[64];

        for (size_t i = 0; i < ELEMENTSOF(good); i++)
                assert_ptr_equal(text_escape(good[i], false, buf, sizeof(buf)), good[i]);
}

static void test_bad_bytes(void **state) {
        static const struct {
                const char *in, *out;
        } cases[] = {
                { "a\xff" "b", "a\\xffb" },
                { "\xc3", "\\xc3" },                       /* cut off */
                { "\xe2\x82", "\\xe2\\x82" },
                { "\xc0\x80", "\\xc0\\x80" },               /* overlong */
                { "\xe0\x80\x80", "\\xe0\\x80\\x80" },
                { "\xed\xa0\x80", "\\xed\\xa0\\x80" },       /* surrogate */
                { "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" }, /* beyond Unicode */
                { "\xef\xbf\xbf", "\\xef\\xbf\\xbf" },       /* no character */
                { "\xf8\x88\x80\x80\x80", "\\xf8\\x88\\x80\\x80\\x80" },
        };
        char buf[64];

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                assert_string_equal(text_escape(cases[i].in, false, buf, sizeof(buf)), cases[i].out);
}

static void test_controls(void **state) {
        char buf[64];

        assert_string_equal(text_escape("a\n\x1b[31m\x7f\xc2\x9b" "b\xc2\xa0", true, buf, sizeof(buf)),
                            "a\\x0a\\x1b[31m\\x7f\\xc2\\x9bb\xc2\xa0");
}

static void test_bounds(void **state) {
        char buf[8];

        assert_string_equal(text_escape("1234567", false, buf, sizeof(buf)), "1234567");
        assert_string_equal(text_escape("12345678", false, buf, sizeof(buf)), "1234567");
        assert_string_equal(text_escape("123456\xc3\xa4", false, buf, sizeof(buf)), "123456"); /* no half character */
        assert_string_equal(text_escape("1234\xff", false, buf, sizeof(buf)), "1234");
        assert_string_equal(text_escape("123\xff", false, buf, sizeof(buf)), "123\\xff");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_unchanged),
                cmocka_unit_test(test_bad_bytes),
                cmocka_unit_test(test_controls),
                cmocka_unit_test(test_bounds),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
