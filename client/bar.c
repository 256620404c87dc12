/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bar.h"
#include "format.h"
#include "names.h"
#include "term.h"
#include "text.h"

enum {
        EIGHTHS = 8,
        BAR_WIDTH_MAX = 512,
};

static int compare_shares(const void *a, const void *b) {
        const Share *x = a, *y = b;

        return x->value > y->value ? -1 : x->value < y->value ? 1 : strcmp(x->name, y->name);
}

void shares_sort(Share *shares, size_t n) {
        if (n > 0)
                qsort(shares, n, sizeof(Share), compare_shares);
}

char share_letter(const char *name) {
        static const char phases[_PHASE_MAX] = {
                [PHASE_DATA] = 'd',    [PHASE_IO] = 'i',     [PHASE_THROTTLE] = 't', [PHASE_JOURNAL] = 'j',
                [PHASE_ADMISSION] = 'a', [PHASE_FLUSH] = 'f', [PHASE_LOCK] = 'l',    [PHASE_FREEZE] = 'z',
                [PHASE_RECLAIM] = 'r', [PHASE_FS] = 's',     [PHASE_OTHER] = 'o',    [PHASE_RUNQUEUE] = 'c',
        };
        static const char parts[_RQ_PART_MAX] = { [RQ_PART_QUEUE] = 'q', [RQ_PART_DEVICE] = 'D' };
        int i;

        i = phase_from_string(name);
        if (i >= 0)
                return phases[i];
        i = rq_part_from_string(name);

        return i >= 0 ? parts[i] : '?';
}

size_t share_colour(const char *name) {
        int i;

        i = phase_from_string(name);
        if (i < 0)
                i = rq_part_from_string(name);

        return i >= 0 ? (size_t) i : SIZE_MAX;
}

/* An unknown part gets a colour by its place. */
static const char *part_colour(const Share *share, size_t i) {
        size_t colour = share_colour(share->name);

        return term_palette(colour == SIZE_MAX ? i : colour);
}

static int append_repeated(char **s, const char *what, size_t n) {
        int r = 0;

        for (size_t i = 0; i < n && r >= 0; i++)
                r = text_append(s, what);

        return r;
}

char *bar_fill(uint64_t value, uint64_t max, unsigned width) {
        static const char *const parts[EIGHTHS] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
        _cleanup_free_ char *s = NULL;
        unsigned eighths;

        width = MIN(width, (unsigned) BAR_WIDTH_MAX);
        eighths = max == 0 ? 0 : (unsigned) ((double) MIN(value, max) / (double) max * width * EIGHTHS + 0.5);
        if (value > 0)
                eighths = MAX(eighths, 1U); /* one is not none */

        s = strdup("");
        if (!s)
                return NULL;
        if (!term_utf8()) {
                if (append_repeated(&s, "#", (eighths + EIGHTHS - 1) / EIGHTHS) < 0)
                        return NULL;
        } else if (append_repeated(&s, "█", eighths / EIGHTHS) < 0 ||
                   text_append(&s, parts[eighths % EIGHTHS]) < 0)
                return NULL;

        return TAKE_PTR(s);
}

/* What the i-th part is drawn with: the parts must be told apart without colours, too. */
static const char *part_symbol(size_t i) {
        static const char *const blocks[] = { "█", "▓", "▒", "░", "▞", "▖" };
        static const char *const letters[] = { "#", "=", "-", ":", "+", "." };

        return term_utf8() ? blocks[i % ELEMENTSOF(blocks)] : letters[i % ELEMENTSOF(letters)];
}

static uint64_t shares_sum(const Share *shares, size_t n) {
        uint64_t sum = 0;

        for (size_t i = 0; i < n; i++)
                sum += shares[i].value;

        return sum;
}

char *bar_shares(const Share *shares, size_t n, unsigned width) {
        _cleanup_free_ char *bar = NULL, *legend = NULL;
        uint64_t sum = shares_sum(shares, n), seen = 0;
        unsigned drawn = 0;

        bar = strdup("[");
        legend = strdup("");
        if (!bar || !legend)
                return NULL;

        width = MIN(width, (unsigned) BAR_WIDTH_MAX);
        for (size_t i = 0; i < n; i++) {
                _cleanup_free_ char *name = NULL;
                unsigned end;

                seen += shares[i].value;
                end = sum == 0 ? 0 : (unsigned) ((double) MIN(seen, sum) / (double) sum * width + 0.5);
                if (text_append(&bar, part_colour(&shares[i], i)) < 0 ||
                    append_repeated(&bar, part_symbol(i), end - MIN(end, drawn)) < 0)
                        return NULL;
                drawn = MAX(drawn, end);

                if (percent(shares[i].value, sum) == 0)
                        continue;
                name = text_escape(shares[i].name);
                if (!name || text_appendf(&legend, " %s%s%s %s %u%%", part_colour(&shares[i], i),
                                          part_symbol(i), term_normal(), name, percent(shares[i].value, sum)) < 0)
                        return NULL;
        }
        if (text_appendf(&bar, "%s]%s", term_normal(), legend) < 0)
                return NULL;

        return TAKE_PTR(bar);
}

char *shares_text(const Share *shares, size_t n, size_t max) {
        _cleanup_free_ char *s = NULL;
        uint64_t sum = shares_sum(shares, n);

        s = strdup("");
        if (!s)
                return NULL;
        for (size_t i = 0; i < n && i < max; i++) {
                _cleanup_free_ char *name = NULL;

                if (percent(shares[i].value, sum) == 0)
                        break;
                name = text_escape(shares[i].name);
                if (!name || text_appendf(&s, "%s%s %u%%", i > 0 ? " " : "", name,
                                          percent(shares[i].value, sum)) < 0)
                        return NULL;
        }

        return TAKE_PTR(s);
}
