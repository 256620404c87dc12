/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <iconv.h>

#include "fuzz.h"
#include "text-escape.h"

/* Names of cgroups, files and processes, on their way to the bus and the journal. The first byte says how much room
 * there is. */

enum { SIZE_MAX_TESTED = 1024 };

/* By somebody else's rules. */
static bool is_utf8(char *s) {
        static iconv_t converter = NULL;
        static char out[4 * SIZE_MAX_TESTED + 16];
        size_t n = strlen(s), room = sizeof(out);
        char *to = out;

        if (!converter) {
                converter = iconv_open("UTF-32LE", "UTF-8");
                fuzz_check(converter != (iconv_t) -1);
        }
        iconv(converter, NULL, NULL, NULL, NULL);

        return iconv(converter, &s, &n, &to, &room) != (size_t) -1;
}

static void check(const char *s, bool controls, size_t size) {
        _cleanup_free_ char *buf = malloc(size), *copy = NULL, *again = malloc(size);
        const char *e;

        fuzz_check(buf && again);
        e = text_escape(s, controls, buf, size);
        fuzz_check(e == s || e == buf);
        fuzz_check(strlen(e) < size);
        copy = strdup(e);
        fuzz_check(copy && is_utf8(copy));
        for (const char *p = e; controls && *p; p++)
                fuzz_check((unsigned char) *p >= 0x20 && *p != 0x7f);
        /* What is good stays as it is. */
        fuzz_check(text_escape(e, controls, again, size) == e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *s = NULL;
        size_t room;

        if (size == 0)
                return 0;
        room = (size_t) data[0] * 4 + 1;
        s = fuzz_string(data + 1, size - 1);
        check(s, /* controls= */ false, room);
        check(s, /* controls= */ true, room);

        return 0;
}
