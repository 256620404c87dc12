/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What cmocka wants to have seen before its own header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "util.h"

#define DEFINE_TEST_MAIN(...)                                                   \
        int main(void) {                                                        \
                const struct CMUnitTest tests[] = { __VA_ARGS__ };              \
                                                                                \
                return cmocka_run_group_tests(tests, NULL, NULL);               \
        }

/* A stream that reads a string. */
static inline _unused_ FILE *file_from_string(const char *s) {
        FILE *f = fmemopen((char *) s, strlen(s), "re");

        assert_non_null(f);
        return f;
}

/* A generator of the same numbers on each run. */
static inline _unused_ uint64_t test_random(uint64_t *state) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;

        return *state;
}
