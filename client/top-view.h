/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "top-model.h"

/* What of the model is looked at, in which order, and which line is selected. Pure. */

typedef enum TopSort {
        TOP_SORT_WAIT,
        TOP_SORT_UNIT,
        TOP_SORT_RATE,
        TOP_SORT_P99,
        TOP_SORT_ERRORS,
        TOP_SORT_DEVICE,
        _TOP_SORT_MAX,
} TopSort;

/* Names come from the first, numbers from the largest. */
typedef struct TopOrder {
        TopSort sort;
        bool reverse;
} TopOrder;

const char *top_sort_to_string(TopSort sort);

/* The entries whose unit, or unit inside "user@.service", matches the filter: a pattern of glob(7), or without any
 * wildcard a part of the name. NULL or "": all. */
int top_select(const TopModel *m, const TopOrder *order, const char *filter, const TopEntry ***ret, size_t *ret_n);

/* All that is known of one unit: its operations and requests, each with its phases below it. */
typedef struct TopLine {
        const TopEntry *entry;
        const Row *phase; /* NULL: the line of the entry itself */
        const TopDelta *delta;
} TopLine;

typedef struct TopDetail {
        TopEntry *entries;
        size_t n_entries;
        TopLine *lines;
        size_t n_lines;
} TopDetail;

int top_detail(const TopModel *m, const TopOrder *order, const char *unit, const char *user_unit, TopDetail *ret);
void top_detail_clear(TopDetail *d);

/* The selected line of a list that is longer than the screen. The first line stays selected, whatever is there,
 * until somebody moves; then it is an entry that is followed wherever it goes. */
typedef struct TopSelection {
        size_t index;
        size_t first; /* line at the top of the screen */
        bool moved;
        char *unit, *user_unit, *op, *device;
        bool async;
} TopSelection;

void top_selection_clear(TopSelection *s);
void top_selection_move(TopSelection *s, ptrdiff_t by, size_t n);
int top_selection_follow(TopSelection *s, const TopEntry *e); /* NULL: nothing to follow */
void top_selection_find(TopSelection *s, const TopEntry *const *entries, size_t n);

/* Makes the selected one of n lines visible where height of them fit. */
void top_selection_scroll(TopSelection *s, size_t n, size_t height);
