/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdarg.h>
#include <wchar.h>

#include "term.h"
#include "text.h"

enum {
        ESCAPED_LEN = STRLEN("\\xNN"),
};

#define REPLACEMENT "\xef\xbf\xbd"

/* Length in bytes of the character that s begins with, 0 if that is not valid UTF-8. s must not be empty. */
static size_t utf8_decode(const char *s, uint32_t *ret) {
        const unsigned char *p = (const unsigned char *) s;
        uint32_t c, low;
        size_t n;

        if (p[0] < 0x80) {
                *ret = p[0];
                return 1;
        }
        if ((p[0] & 0xe0) == 0xc0) {
                n = 2;
                low = 0x80;
                c = p[0] & 0x1f;
        } else if ((p[0] & 0xf0) == 0xe0) {
                n = 3;
                low = 0x800;
                c = p[0] & 0x0f;
        } else if ((p[0] & 0xf8) == 0xf0) {
                n = 4;
                low = 0x10000;
                c = p[0] & 0x07;
        } else
                return 0;

        for (size_t i = 1; i < n; i++) {
                if ((p[i] & 0xc0) != 0x80)
                        return 0; /* this is also where a terminating NUL ends up */
                c = c << 6 | (p[i] & 0x3f);
        }
        if (c < low || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
                return 0;

        *ret = c;
        return n;
}

/* Characters that would let a string move the cursor, vanish, or reorder what stands around it. */
static bool is_unsafe(uint32_t c) {
        return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
                (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
                (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe0fff);
}

char *text_escape(const char *s) {
        static const char digits[] = "0123456789abcdef";
        char *escaped, *t;

        escaped = t = malloc(strlen(s) * ESCAPED_LEN + 1);
        if (!escaped)
                return NULL;

        while (*s) {
                uint32_t c;
                size_t n = utf8_decode(s, &c);

                if (n > 0 && !is_unsafe(c) && (n == 1 || (term_utf8() && wcwidth((wchar_t) c) >= 0))) {
                        t = mempcpy(t, s, n);
                        s += n;
                        continue;
                }
                for (n = MAX(n, (size_t) 1); n > 0; n--, s++) {
                        unsigned char b = (unsigned char) *s;

                        *t++ = '\\';
                        *t++ = 'x';
                        *t++ = digits[b >> 4];
                        *t++ = digits[b & 15];
                }
        }
        *t = 0;

        return escaped;
}

char *text_make_utf8(const char *s) {
        char *valid, *t;

        valid = t = malloc(strlen(s) * STRLEN(REPLACEMENT) + 1);
        if (!valid)
                return NULL;

        while (*s) {
                uint32_t c;
                size_t n = utf8_decode(s, &c);

                if (n > 0)
                        t = mempcpy(t, s, n);
                else {
                        t = mempcpy(t, REPLACEMENT, STRLEN(REPLACEMENT));
                        n = 1;
                }
                s += n;
        }
        *t = 0;

        return valid;
}

/* Bytes and columns of the next character. */
static size_t next_char(const char *s, size_t *ret_width) {
        uint32_t c;
        size_t n = utf8_decode(s, &c);
        int w;

        if (n <= 1) {
                *ret_width = 1;
                return 1;
        }
        w = wcwidth((wchar_t) c);
        *ret_width = w < 0 ? 1 : (size_t) w;

        return n;
}

size_t text_width(const char *s) {
        size_t width = 0, w;

        while (*s) {
                s += next_char(s, &w);
                width += w;
        }

        return width;
}

char *text_ellipsize(const char *s, size_t width) {
        const char *dots = term_utf8() ? "…" : "...", *end = s;
        size_t room, used = 0, w, n;
        char *cut;

        if (text_width(s) <= width)
                return strdup(s);

        room = width - MIN(width, text_width(dots));
        while (*end) {
                n = next_char(end, &w);
                if (used + w > room)
                        break;
                used += w;
                end += n;
        }
        /* Where not even the three dots fit, as many as do. */
        if (asprintf(&cut, "%.*s%.*s", (int) (end - s), s, (int) (room == 0 && !term_utf8() ? width : strlen(dots)),
                     dots) < 0)
                return NULL;

        return cut;
}

int text_append(char **s, const char *more) {
        size_t a = strlen(strempty(*s)), b = strlen(more);
        char *t;

        t = realloc(*s, a + b + 1);
        if (!t)
                return -ENOMEM;
        memcpy(t + a, more, b + 1);
        *s = t;

        return 0;
}

int text_appendf(char **s, const char *format, ...) {
        _cleanup_free_ char *t = NULL;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(&t, format, ap);
        va_end(ap);
        if (n < 0) {
                t = NULL; /* undefined after a failure */
                return -ENOMEM;
        }

        return text_append(s, t);
}

char **strv_free(char **list) {
        for (char **p = list; p && *p; p++)
                free(*p);
        free(list);

        return NULL;
}

bool strv_allows(char **list, const char *s) {
        for (char **p = list; p && *p; p++)
                if (s && streq(*p, s))
                        return true;

        return !list;
}
