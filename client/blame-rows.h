/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "query.h"

/* Largest first. Also fills in the sums of the victims, of what their operations and of what their requests waited. */
void blame_rows_sort(BlameRows *rows);

/* What the rows say of the operations of one victim, and of the one who made them wait the longest. The strings belong to
 * the rows. */
typedef struct BlameTop {
        const char *culprit;
        uint64_t sum_ns;       /* by the culprit */
        uint64_t victim_ns;    /* by all of them */
        bool estimated;        /* some of sum_ns is */
        const BlameRow *row;   /* the largest part of sum_ns */
        bool has_more;         /* it is not the only one */
} BlameTop;

/* Another unit is preferred to the victim itself and to owners that are no units, if its part is a tenth at least.
 * Returns false if there is nothing of that victim. */
bool blame_top(const BlameRows *rows, const char *victim, BlameTop *ret);

/* "bulk.service made it wait 3.2s of 4s (journal, step locked)", "~3.2s" if that is estimated. Nothing in it is
 * escaped. NULL if out of memory. */
char *blame_sentence(const BlameTop *top, const char *victim);

/* What a weight means, in a few words. NULL if it is not known. */
const char *blame_weight_text(const char *weight);
