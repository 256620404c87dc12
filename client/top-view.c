/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fnmatch.h>

#include "top-view.h"

const char *top_sort_to_string(TopSort sort) {
        static const char *const names[_TOP_SORT_MAX] = {
                [TOP_SORT_WAIT] = "wait",     [TOP_SORT_UNIT] = "unit",     [TOP_SORT_RATE] = "ops",
                [TOP_SORT_P99] = "p99",       [TOP_SORT_ERRORS] = "errors", [TOP_SORT_DEVICE] = "device",
        };

        return (unsigned) sort < _TOP_SORT_MAX ? names[sort] : "?";
}

static int compare_numbers(uint64_t a, uint64_t b) {
        return a > b ? -1 : a < b ? 1 : 0; /* the largest first */
}

/* "8:16" comes after "8:1", and before "10:0". */
static int compare_devices(const char *a, const char *b) {
        return strverscmp(strempty(a), strempty(b));
}

static int compare(const TopEntry *x, const TopEntry *y, const TopOrder *order) {
        int r = 0;

        switch (order->sort) {
        case TOP_SORT_UNIT:
                r = strcmp(strempty(x->row->unit), strempty(y->row->unit)) ?:
                        strcmp(strempty(x->row->user_unit), strempty(y->row->user_unit));
                break;
        case TOP_SORT_RATE:
                r = compare_numbers(x->delta.count, y->delta.count);
                break;
        case TOP_SORT_P99:
                r = compare_numbers(x->delta.p99_ns, y->delta.p99_ns);
                break;
        case TOP_SORT_ERRORS:
                r = compare_numbers(x->delta.errors, y->delta.errors) ?:
                        compare_numbers(x->row->errors, y->row->errors);
                break;
        case TOP_SORT_DEVICE:
                r = compare_devices(x->row->device, y->row->device);
                break;
        case TOP_SORT_WAIT:
        default:
                break;
        }
        if (r == 0)
                r = compare_numbers(x->delta.sum_ns, y->delta.sum_ns);
        if (r == 0)
                r = row_compare(x->row, y->row);

        return order->reverse ? -r : r;
}

static int compare_pointers(const void *a, const void *b, void *order) {
        return compare(*(const TopEntry *const *) a, *(const TopEntry *const *) b, order);
}

/* Requests come last, whatever the order. */
static int compare_in_detail(const void *a, const void *b, void *order) {
        const TopEntry *x = a, *y = b;

        return (int) row_is_request(x->row) - (int) row_is_request(y->row) ?: compare(x, y, order);
}

static bool name_matches(const char *pattern, bool is_glob, const char *name) {
        if (isempty(name))
                return false;

        return is_glob ? fnmatch(pattern, name, FNM_NOESCAPE) == 0 : strstr(name, pattern) != NULL;
}

int top_select(const TopModel *m, const TopOrder *order, const char *filter, const TopEntry ***ret, size_t *ret_n) {
        bool is_glob = filter && strpbrk(filter, "*?[");
        const TopEntry **list;
        size_t n = 0;

        list = calloc(MAX(m->n_entries, (size_t) 1), sizeof(TopEntry *));
        if (!list)
                return -ENOMEM;
        for (size_t i = 0; i < m->n_entries; i++) {
                const TopEntry *e = &m->entries[i];

                if (isempty(filter) || name_matches(filter, is_glob, e->row->unit) ||
                    name_matches(filter, is_glob, e->row->user_unit))
                        list[n++] = e;
        }
        qsort_r(list, n, sizeof(list[0]), compare_pointers, (void *) order);
        *ret = list;
        *ret_n = n;

        return 0;
}

void top_detail_clear(TopDetail *d) {
        free(d->entries);
        free(d->lines);
        *d = (TopDetail){};
}

/* The time on the queue of a CPU, which is no part of the sum, comes last. */
static int compare_phases(const void *a, const void *b) {
        const TopLine *x = a, *y = b;

        return (int) row_is_phase(x->phase, "runqueue") - (int) row_is_phase(y->phase, "runqueue") ?:
                compare_numbers(x->delta->sum_ns, y->delta->sum_ns) ?:
                row_compare(x->phase, y->phase);
}

static void add_lines(TopDetail *d, const TopEntry *e) {
        size_t first;

        d->lines[d->n_lines++] = (TopLine){ .entry = e, .delta = &e->delta };
        first = d->n_lines;
        for (size_t i = 0; i < e->n_rows; i++)
                if (!row_is_phase(&e->group[i], "total") && !row_is_uncounted(&e->group[i]))
                        d->lines[d->n_lines++] = (TopLine){ e, &e->group[i], &e->deltas[i] };
        qsort(d->lines + first, d->n_lines - first, sizeof(TopLine), compare_phases);
}

/* Where the rows of a unit begin and end. */
static void find_unit(const Rows *rows, const char *unit, const char *user_unit, size_t *ret_begin, size_t *ret_end) {
        size_t i, end;

        for (i = 0; i < rows->n; i++)
                if (streq(strempty(rows->items[i].unit), strempty(unit)) &&
                    streq(strempty(rows->items[i].user_unit), strempty(user_unit)))
                        break;
        for (end = i; end < rows->n; end++)
                if (!streq(strempty(rows->items[end].unit), strempty(unit)) ||
                    !streq(strempty(rows->items[end].user_unit), strempty(user_unit)))
                        break;
        *ret_begin = i;
        *ret_end = end;
}

int top_detail(const TopModel *m, const TopOrder *order, const char *unit, const char *user_unit, TopDetail *ret) {
        TopDetail d = {};
        size_t begin, end, next;

        find_unit(&m->rows, unit, user_unit, &begin, &end);
        /* No more entries than rows; each has a line of its own and one a row. */
        d.entries = calloc(end - begin + 1, sizeof(TopEntry));
        d.lines = calloc(2 * (end - begin) + 1, sizeof(TopLine));
        if (!d.entries || !d.lines) {
                top_detail_clear(&d);
                return -ENOMEM;
        }

        for (size_t i = begin; i < end; i = next) {
                TopEntry *e = &d.entries[d.n_entries];
                const TopEntry *known;

                next = rows_group_end(&m->rows, i);
                if (!top_model_entry(m, i, e))
                        continue;
                known = top_model_find(m, e->row);
                if (known)
                        memcpy(e->history, known->history, sizeof(e->history));
                d.n_entries++;
        }
        qsort_r(d.entries, d.n_entries, sizeof(TopEntry), compare_in_detail, (void *) order);
        for (size_t i = 0; i < d.n_entries; i++)
                add_lines(&d, &d.entries[i]);
        *ret = d;

        return 0;
}

static void forget(TopSelection *s) {
        free(s->unit);
        free(s->user_unit);
        free(s->op);
        free(s->device);
        s->unit = s->user_unit = s->op = s->device = NULL;
}

void top_selection_clear(TopSelection *s) {
        forget(s);
        *s = (TopSelection){};
}

void top_selection_move(TopSelection *s, ptrdiff_t by, size_t n) {
        size_t last = n > 0 ? n - 1 : 0;

        if (by < 0)
                s->index -= MIN(s->index, (size_t) -by);
        else
                s->index = (size_t) by > last - MIN(s->index, last) ? last : s->index + (size_t) by;
        s->index = MIN(s->index, last);
        s->moved = s->index > 0;
}

static int copy(char **to, const char *s) {
        *to = s ? strdup(s) : NULL;

        return s && !*to ? -ENOMEM : 0;
}

int top_selection_follow(TopSelection *s, const TopEntry *e) {
        forget(s);
        if (!e || !s->moved)
                return 0;
        s->async = e->row->async;
        if (copy(&s->unit, e->row->unit) < 0 || copy(&s->user_unit, e->row->user_unit) < 0 ||
            copy(&s->op, e->row->op) < 0 || copy(&s->device, e->row->device) < 0) {
                forget(s);
                return -ENOMEM;
        }

        return 0;
}

void top_selection_find(TopSelection *s, const TopEntry *const *entries, size_t n) {
        if (!s->moved || !s->unit)
                return;
        for (size_t i = 0; i < n; i++) {
                const Row *row = entries[i]->row;

                if (row->async == s->async && streq(strempty(row->unit), s->unit) &&
                    streq(strempty(row->user_unit), strempty(s->user_unit)) &&
                    streq(strempty(row->op), strempty(s->op)) &&
                    streq(strempty(row->device), strempty(s->device))) {
                        s->index = i;
                        return;
                }
        }
}

void top_selection_scroll(TopSelection *s, size_t n, size_t height) {
        s->index = n == 0 ? 0 : MIN(s->index, n - 1);
        if (n == 0 || height == 0) {
                s->first = 0;
                return;
        }
        s->first = MIN(s->first, n - MIN(n, height)); /* no empty lines at the end that could be filled */
        if (s->index < s->first)
                s->first = s->index;
        else if (s->index >= s->first + height)
                s->first = s->index - height + 1;
}
