/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "blame-rows.h"
#include "format.h"

enum { OTHER_COUNTS = 10 }; /* another unit is worth telling from that part of the wait on */

static uint64_t add_saturated(uint64_t a, uint64_t b) {
        return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static int compare_rows(const void *a, const void *b) {
        const BlameRow *x = a, *y = b;

        return x->sum_ns > y->sum_ns ? -1 : x->sum_ns < y->sum_ns ? 1 :
                strcmp(strempty(x->victim), strempty(y->victim)) ?:
                strcmp(strempty(x->culprit), strempty(y->culprit)) ?:
                strcmp(strempty(x->phase), strempty(y->phase)) ?:
                strcmp(strempty(x->step), strempty(y->step)) ?:
                strcmp(strempty(x->device), strempty(y->device));
}

/* The victim's operations wait while its requests are queued: the two are not to be added up. */
static bool is_of_requests(const BlameRow *row) {
        return streq(strempty(row->phase), "queue");
}

static int compare_victims(const void *a, const void *b) {
        const BlameRow *x = a, *y = b;

        return strcmp(strempty(x->victim), strempty(y->victim)) ?: is_of_requests(x) - is_of_requests(y);
}

void blame_rows_sort(BlameRows *rows) {
        size_t end;

        if (rows->n == 0)
                return;

        qsort(rows->items, rows->n, sizeof(BlameRow), compare_victims);
        for (size_t i = 0; i < rows->n; i = end) {
                uint64_t sum = 0;

                for (end = i; end < rows->n && compare_victims(&rows->items[i], &rows->items[end]) == 0; end++)
                        sum = add_saturated(sum, rows->items[end].sum_ns);
                for (size_t k = i; k < end; k++)
                        rows->items[k].victim_ns = sum;
        }

        qsort(rows->items, rows->n, sizeof(BlameRow), compare_rows);
}

static bool is_of(const BlameRow *row, const char *victim) {
        return row->victim && row->culprit && streq(row->victim, victim) && !is_of_requests(row);
}

static uint64_t victim_sum(const BlameRows *rows, const char *victim) {
        uint64_t sum = 0;

        for (size_t i = 0; i < rows->n; i++)
                if (is_of(&rows->items[i], victim))
                        sum = add_saturated(sum, rows->items[i].sum_ns);

        return sum;
}

/* All that the culprit of that row did to the victim. */
static BlameTop add_up(const BlameRows *rows, const BlameRow *of) {
        BlameTop top = { .culprit = of->culprit, .row = of };

        for (size_t i = 0; i < rows->n; i++) {
                const BlameRow *row = &rows->items[i];

                if (!is_of(row, of->victim) || !streq(row->culprit, of->culprit))
                        continue;
                top.sum_ns = add_saturated(top.sum_ns, row->sum_ns);
                top.estimated = top.estimated || (row->estimated && row->sum_ns > 0);
                top.has_more = top.has_more || (row != of && row->sum_ns > 0);
                if (row->sum_ns > top.row->sum_ns)
                        top.row = row;
        }

        return top;
}

/* Another unit, by a name that only units have. */
static bool is_somebody_else(const char *culprit, const char *victim) {
        return !streq(culprit, victim) && culprit[0] != '(';
}

bool blame_top(const BlameRows *rows, const char *victim, BlameTop *ret) {
        BlameTop best = {}, other = {};

        for (size_t i = 0; i < rows->n; i++) {
                BlameTop top;

                if (!is_of(&rows->items[i], victim) || rows->items[i].sum_ns == 0)
                        continue;
                if (best.culprit && streq(best.culprit, rows->items[i].culprit))
                        continue;
                top = add_up(rows, &rows->items[i]);
                if (top.sum_ns > best.sum_ns)
                        best = top;
                if (top.sum_ns > other.sum_ns && is_somebody_else(top.culprit, victim))
                        other = top;
        }
        if (!best.culprit)
                return false;
        best.victim_ns = other.victim_ns = victim_sum(rows, victim);
        if (other.culprit && other.sum_ns >= best.victim_ns / OTHER_COUNTS)
                best = other;
        *ret = best;

        return true;
}

char *blame_sentence(const BlameTop *top, const char *victim) {
        bool itself = streq(top->culprit, victim);
        char *s;

        if (asprintf(&s, "%s made %s wait %s%s of %s (%s%s%s%s)", itself ? "it" : top->culprit,
                     itself ? "itself" : "it", top->estimated ? "~" : "", FORMAT_NSEC(top->sum_ns),
                     FORMAT_NSEC(top->victim_ns), top->has_more ? "most in " : "", top->row->phase ?: "?",
                     top->row->step ? ", step " : "", strempty(top->row->step)) < 0)
                return NULL;

        return s;
}

const char *blame_weight_text(const char *weight) {
        static const struct {
                const char *weight, *text;
        } texts[] = {
                { "requested-blocks", "log blocks by how many the handles of each could have changed" },
                { "handles", "log blocks by how many handles each had in the transaction" },
                { "late-handle", "who still had a handle open when the commit locked, by time" },
                { "ordered-wait", "whose ordered data the commit waited for, by time" },
                { "transactions", "the journal, of which is not known who filled it" },
                { "fast-commit", "who ran the fast commit" },
                { "busy-time", "shares of the time the device was busy, second by second" },
                { "written-bytes", "shares of the bytes written to the device" },
                { "lock-holder", "who held the lock" },
        };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++)
                if (streq(texts[i].weight, weight))
                        return texts[i].text;

        return NULL;
}
