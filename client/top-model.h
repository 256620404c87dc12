/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "rows.h"

/* What "top" shows, on a screen or line by line: the differences between two listings. Pure. */

enum {
        TOP_HISTORY = 32, /* intervals that are remembered */
};

/* How much a row grew in the last interval. */
typedef struct TopDelta {
        uint64_t count;
        uint64_t errors;
        uint64_t bytes;
        uint64_t sum_ns;
        uint64_t p99_ns; /* of the interval, 0: not known */
} TopDelta;

/* An operation of a unit on a file system, or one kind of its requests. What it points to belongs to the model and
 * is there until the next listing. */
typedef struct TopEntry {
        const Row *row;         /* its total, of requests the device's part */
        const Row *group;       /* all its rows */
        const TopDelta *deltas; /* of these */
        size_t n_rows;
        TopDelta delta;         /* the sum of a request has both of its parts */
        Share shares[SHARES_MAX]; /* of the interval, largest first */
        size_t n_shares;
        uint64_t history[TOP_HISTORY]; /* mean time of the intervals, newest first; 0: it did nothing */
} TopEntry;

typedef struct TopModel {
        Rows rows; /* the last listing */
        TopDelta *deltas; /* one a row */
        TopEntry *entries; /* operations that did something lately, in the order of the rows */
        size_t n_entries;
        uint64_t at_ns;
        uint64_t interval_ns; /* 0: there are no two listings yet */
} TopModel;

/* The next listing (sorted), which is taken over, and when it was made. -ENOMEM: the model is as it was. */
int top_model_update(TopModel *m, Rows *rows, uint64_t at_ns);
void top_model_clear(TopModel *m);

/* The group of rows that begins at i as an entry, without history. False if it is none to show. */
bool top_model_entry(const TopModel *m, size_t i, TopEntry *ret);
const TopEntry *top_model_find(const TopModel *m, const Row *row);

/* Sum over all operations in the interval, not over requests. */
TopDelta top_model_sum(const TopModel *m);
size_t top_model_units(const TopModel *m);

double top_per_second(const TopModel *m, uint64_t n);
uint64_t top_whole_per_second(const TopModel *m, uint64_t n); /* UINT64_MAX if it is more */
