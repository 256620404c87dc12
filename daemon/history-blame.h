/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Who made whom wait, within one window. */

#include "history-dict.h"

enum {
        BLAME_OPEN_MAX = 2048, /* different entries while a window is open */
        BLAME_KEPT_MAX = 256,  /* afterwards; the smallest are added up under "(others)" */
        BLAME_PHASE_MAX = 63,
        BLAME_STEP_MAX = 63,
        BLAME_WEIGHT_MAX = 63,
};

typedef struct BlameEntry {
        HistoryName *victim;
        HistoryName *culprit;
        uint32_t dev; /* 0: none */
        uint8_t phase;
        int8_t step; /* -1: none */
        uint8_t weight;
        bool estimated;
        uint64_t ns;
} BlameEntry;

typedef struct BlameSet {
        BlameEntry *entries;
        uint16_t *slots; /* open addressing: index into entries + 1 */
        size_t n;
        uint64_t n_dropped;
} BlameSet;

void blame_set_done(BlameSet *set);

/* Adds up what is about the same. Takes references to names. */
int blame_set_add(BlameSet *set, HistoryDict *d, const char *victim, const char *culprit, const BlameEntry *entry);

/* Reduces it to BLAME_KEPT_MAX entries, and writes them. The references go over to what is written. */
int blame_set_encode(BlameSet *set, HistoryDict *d, Buffer *b);

/* Reads one entry that was written here; false at the end. */
bool blame_next(Cursor *c, HistoryDict *d, BlameEntry *ret);

/* Adds what was written to a set. */
int blame_set_add_encoded(BlameSet *set, HistoryDict *d, const uint8_t *data, size_t size);

/* Gives back the references of what was written. */
void blame_forget(HistoryDict *d, const uint8_t *data, size_t size);
