/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

enum {
        SHARES_MAX = 16, /* more parts than that are not told apart */
};

/* One part of a whole. The name is of unknown origin. */
typedef struct Share {
        const char *name;
        uint64_t value;
} Share;

void shares_sort(Share *shares, size_t n); /* largest first */

/* How a phase is told apart from the others wherever it is drawn: a letter, '?' for an unknown name, and a colour of
 * term_palette(), SIZE_MAX for an unknown name. */
char share_letter(const char *name);
size_t share_colour(const char *name);

/* A bar of so many columns, filled up to value of max. NULL if out of memory. */
char *bar_fill(uint64_t value, uint64_t max, unsigned width);

/* A bar made of the sorted parts, and which part is which: "[###==.] # journal 61% = data 30% . other 9%". The
 * smallest parts, below one percent, are left out of the legend. NULL if out of memory. */
char *bar_shares(const Share *shares, size_t n, unsigned width);

/* Only the legend's words: "journal 61% data 30%", at most max parts. NULL if out of memory. */
char *shares_text(const Share *shares, size_t n, size_t max);
