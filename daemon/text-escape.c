/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "text-escape.h"

/* Length of the valid character at s, 0 if there is none. Non-characters (U+FDD0.., U+xxFFFE) count as invalid,
 * since some readers refuse them. */
static size_t utf8_length(const unsigned char *s) {
        static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
        uint32_t c;
        size_t n;

        if (s[0] < 0x80)
                return 1;
        if ((s[0] & 0xe0) == 0xc0) {
                n = 2;
                c = s[0] & 0x1f;
        } else if ((s[0] & 0xf0) == 0xe0) {
                n = 3;
                c = s[0] & 0x0f;
        } else if ((s[0] & 0xf8) == 0xf0) {
                n = 4;
                c = s[0] & 0x07;
        } else
                return 0;

        for (size_t i = 1; i < n; i++) {
                if ((s[i] & 0xc0) != 0x80) /* the final NUL is none either */
                        return 0;
                c = c << 6 | (s[i] & 0x3f);
        }
        if (c < smallest[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) || (c >= 0xfdd0 && c <= 0xfdef) ||
            (c & 0xfffe) == 0xfffe)
                return 0;

        return n;
}

static size_t good_length(const unsigned char *s, bool controls) {
        if (controls && (*s < 0x20 || *s == 0x7f || (*s == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0)))
                return 0;

        return utf8_length(s);
}

const char *text_escape(const char *s, bool controls, char *buf, size_t size) {
        const unsigned char *p = (const unsigned char *) s;
        size_t n, used = 0;

        while (*p) {
                n = good_length(p, controls);
                if (n == 0)
                        break;
                p += n;
        }
        if (!*p && (size_t) ((const char *) p - s) < size)
                return s;

        for (p = (const unsigned char *) s; *p; p += MAX(n, (size_t) 1)) {
                n = good_length(p, controls);
                if (used + (n > 0 ? n : STRLEN("\\xNN")) >= size)
                        break;
                if (n > 0) {
                        memcpy(buf + used, p, n);
                        used += n;
                } else
                        used += (size_t) snprintf(buf + used, size - used, "\\x%02x", *p);
        }
        buf[used] = 0;

        return buf;
}
