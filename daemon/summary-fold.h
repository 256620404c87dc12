/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

/* Chooses the units that have rows of their own in a summary of limited length. Pure. */

typedef struct FoldUnit {
        const char *name;
        size_t rows;
        uint64_t weight;
        bool folded;
} FoldUnit;

/* There are more rows than that. */
bool fold_needed(const FoldUnit *units, size_t n, size_t max);

/* Marks those that have no place if there are at most max rows: the heaviest come first, among equals in the order of
 * their names. What is called "(others)" already is marked too, and not counted. */
int fold_choose(FoldUnit *units, size_t n, size_t max, size_t *ret_folded);
