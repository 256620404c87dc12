/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <strings.h>

#include "accept.h"

#define SPACE " \t"

enum {
        QUALITY_MAX = 1000,
};

/* A part of the header, not terminated. */
typedef struct Word {
        const char *s;
        size_t n;
} Word;

/* Cuts the next word off, at a separator or at the end, without the space around it. False if there is none. */
static bool next_word(Word *rest, char separator, Word *ret) {
        const char *end;
        size_t n;

        if (!rest->s)
                return false;
        end = memchr(rest->s, separator, rest->n);
        n = end ? (size_t) (end - rest->s) : rest->n;
        *ret = (Word){ rest->s, n };
        *rest = end ? (Word){ end + 1, rest->n - n - 1 } : (Word){};

        while (ret->n > 0 && strchr(SPACE, ret->s[0])) {
                ret->s++;
                ret->n--;
        }
        while (ret->n > 0 && strchr(SPACE, ret->s[ret->n - 1]))
                ret->n--;

        return true;
}

static bool word_is(const Word *w, const char *s) {
        return w->n == strlen(s) && strncasecmp(w->s, s, w->n) == 0;
}

/* "0.75" in thousandths. What is no such number is as good as a refusal. */
static unsigned parse_quality(const Word *w) {
        unsigned q = 0, unit = QUALITY_MAX;

        for (size_t i = 0; i < w->n; i++) {
                if (i == 1) {
                        if (w->s[i] != '.')
                                return 0;
                        continue;
                }
                if (w->s[i] < '0' || w->s[i] > '9')
                        return 0;
                q += (unsigned) (w->s[i] - '0') * unit;
                unit /= 10;
        }

        return MIN(q, (unsigned) QUALITY_MAX);
}

static void consider(Word range, unsigned *open, unsigned *text) {
        Word type, parameter, name, version = {};
        unsigned q = QUALITY_MAX;

        if (!next_word(&range, ';', &type))
                return;
        while (next_word(&range, ';', &parameter)) {
                if (!next_word(&parameter, '=', &name) || !parameter.s)
                        continue;
                if (word_is(&name, "q"))
                        q = next_word(&parameter, ';', &name) ? parse_quality(&name) : 0;
                else if (word_is(&name, "version")) {
                        (void) next_word(&parameter, ';', &version);
                        if (version.n >= 2 && version.s[0] == '"' && version.s[version.n - 1] == '"')
                                version = (Word){ version.s + 1, version.n - 2 };
                }
        }

        if (word_is(&type, "application/openmetrics-text") && (!version.s || word_is(&version, "1.0.0")))
                *open = MAX(*open, q);
        else if (word_is(&type, "text/plain") || word_is(&type, "text/*") || word_is(&type, "*/*"))
                *text = MAX(*text, q);
}

MetricFormat accept_negotiate(const char *accept) {
        Word rest = { accept, accept ? strlen(accept) : 0 }, range;
        unsigned open = 0, text = 0;

        while (next_word(&rest, ',', &range))
                consider(range, &open, &text);

        return open > 0 && open >= text ? METRIC_FORMAT_OPENMETRICS : METRIC_FORMAT_PROMETHEUS;
}
