/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "blame-matrix.h"
#include "history.h"

/* Between the matrix of blame and the windows of the history. */

BlameRow blame_row_of_entry(const BlameEntry *e);

/* Has every addition to the matrix noted in the history, until one of them is freed. */
void history_listen(History *h, Blame *matrix);

/* Adds to the matrix what the history has of the time before that, without noting it again. */
int history_seed(History *h, Blame *matrix, uint64_t before_us);
