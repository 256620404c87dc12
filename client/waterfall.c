/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "term.h"
#include "text.h"
#include "waterfall.h"

static uint64_t end_of(const Span *s, uint64_t total_ns) {
        return MIN(s->end_ns, total_ns);
}

/* Outer ones, which begin at the same time and end later, come first. */
static int compare_lines(const void *a, const void *b) {
        const Span *x = ((const WaterfallLine *) a)->span, *y = ((const WaterfallLine *) b)->span;

        if (x->start_ns != y->start_ns)
                return x->start_ns < y->start_ns ? -1 : 1;
        if (x->end_ns != y->end_ns)
                return x->end_ns > y->end_ns ? -1 : 1;

        return x < y ? -1 : x > y; /* as they were */
}

static unsigned column(uint64_t ns, uint64_t total_ns, unsigned width) {
        return total_ns == 0 ? 0 : (unsigned) ((unsigned __int128) ns * width / total_ns);
}

static unsigned column_up(uint64_t ns, uint64_t total_ns, unsigned width) {
        return total_ns == 0 ? 0 : (unsigned) (((unsigned __int128) ns * width + total_ns - 1) / total_ns);
}

/* A bar covers each column that the span touches, so that the smallest is seen. */
static void place(WaterfallLine *l, uint64_t total_ns, unsigned width) {
        uint64_t end = end_of(l->span, total_ns);

        l->ns = end - l->span->start_ns;
        if (width == 0) {
                l->from = l->to = 0;
                return;
        }
        l->from = MIN(column(l->span->start_ns, total_ns, width), width - 1);
        l->to = MAX(column_up(end, total_ns, width), l->from + 1);
}

size_t waterfall_layout(const Span *spans, size_t n, uint64_t total_ns, unsigned width, WaterfallLine *lines) {
        uint64_t open_ends[WATERFALL_DEPTH_MAX]; /* of the spans around, outermost first */
        unsigned depth = 0;
        size_t k = 0;

        for (size_t i = 0; i < n; i++)
                if (spans[i].start_ns < spans[i].end_ns && spans[i].start_ns < total_ns)
                        lines[k++] = (WaterfallLine){ .span = &spans[i] };
        if (k > 0)
                qsort(lines, k, sizeof(WaterfallLine), compare_lines);

        for (size_t i = 0; i < k; i++) {
                const Span *s = lines[i].span;

                /* What has ended before, or ends before this one does, is not around it. */
                while (depth > 0 && (open_ends[depth - 1] <= s->start_ns || open_ends[depth - 1] < s->end_ns))
                        depth--;
                lines[i].depth = depth;
                if (depth < WATERFALL_DEPTH_MAX)
                        open_ends[depth++] = s->end_ns;
                place(&lines[i], total_ns, width);
        }

        return k;
}

char *waterfall_bar(const WaterfallLine *line, unsigned width) {
        const char *full = term_utf8() ? "█" : "#", *none = term_utf8() ? "·" : ".";
        _cleanup_free_ char *s = NULL;

        s = strdup("");
        if (!s)
                return NULL;
        for (unsigned i = 0; i < width; i++)
                if (text_append(&s, i >= line->from && i < line->to ? full : none) < 0)
                        return NULL;

        return TAKE_PTR(s);
}
