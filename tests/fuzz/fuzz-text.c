/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <locale.h>
#include <wchar.h>
#include <wctype.h>

#include "fuzz.h"
#include "text.h"

/* Strings of unknown origin, on their way to a terminal. */

int LLVMFuzzerInitialize(int *argc, char ***argv) {
        fuzz_check(setlocale(LC_ALL, "C.UTF-8"));

        return 0;
}

static void check_printable(const char *s) {
        wchar_t text[4096];
        size_t n = mbstowcs(text, s, ELEMENTSOF(text));

        fuzz_check(n != (size_t) -1);
        for (size_t i = 0; i < MIN(n, ELEMENTSOF(text)); i++)
                fuzz_check(iswprint((wint_t) text[i]) && text[i] != 0x1b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *s = NULL, *escaped = NULL, *cut = NULL, *valid = NULL, *again = NULL;
        size_t width;

        if (size == 0)
                return 0;
        width = data[0];
        s = fuzz_string(data + 1, size - 1);

        escaped = text_escape(s);
        fuzz_check(escaped);
        check_printable(escaped);
        cut = text_ellipsize(escaped, width);
        fuzz_check(cut);
        check_printable(cut);
        fuzz_check(text_width(cut) <= MAX(width, (size_t) 1));

        valid = text_make_utf8(s);
        fuzz_check(valid);
        again = text_make_utf8(valid);
        fuzz_check(again && streq(again, valid));
        fuzz_check(mbstowcs(NULL, valid, 0) != (size_t) -1);

        return 0;
}
