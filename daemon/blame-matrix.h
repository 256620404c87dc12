/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "abi.h"
#include "util.h"

/* Who made whom wait: a matrix victim x culprit x phase x step x device x weight -> nanoseconds, since the daemon
 * started. Knows nothing of maps. */

enum {
        BLAME_ROWS_MAX = 8192,
        BLAME_QUEUE = _PHASE_MAX, /* in place of a phase: part `queue` of the victim's own requests */
};

/* By what a wait was divided among the culprits. */
enum blame_weight {
        BLAME_BY_REQUESTED_BLOCKS, /* how many blocks their handles of the transaction could have changed */
        BLAME_BY_HANDLES,          /* how many handles of the transaction they closed */
        BLAME_BY_LATE_HANDLE,      /* how long their handles held up the commit */
        BLAME_BY_ORDERED_WAIT,     /* how long the commit waited for the data of their files */
        BLAME_BY_TRANSACTIONS,     /* the journal is to blame, and who filled it is not known */
        BLAME_BY_BUSY_TIME,        /* how long the device had their requests */
        BLAME_BY_WRITTEN_BYTES,
        BLAME_BY_LOCK_HOLDER,      /* the one who held the lock */
        BLAME_BY_FAST_COMMIT,      /* the one who ran the fast commit */
        _BLAME_BY_MAX,
};

typedef struct BlameRow {
        const char *victim; /* names of units; belong to the matrix in callbacks */
        const char *culprit;
        uint32_t dev;     /* of the filesystem; with BLAME_QUEUE of the disk; 0: none */
        uint8_t phase;    /* enum phase or BLAME_QUEUE */
        uint8_t step;     /* enum journal_step or BLAME_NO_STEP */
        uint8_t weight;   /* enum blame_weight */
        bool estimated;
        uint64_t ns;
} BlameRow;

typedef int (*blame_callback)(const BlameRow *row, void *userdata);

typedef struct Blame Blame;

/* When there are more than rows_max rows the culprits of the smallest are put together as "(others)"; if that is not
 * enough so are their victims, then their devices. What they add up to never changes. */
int blame_new(Blame **ret, size_t rows_max);
Blame *blame_free(Blame *b);
DEFINE_CLEANUP_FUNC(Blame, blame_free)

/* Adds to a row. */
int blame_add(Blame *b, const BlameRow *row);

/* Called for each addition, as it was added; one at most. */
void blame_set_listener(Blame *b, blame_callback callback, void *userdata);

/* All rows in no particular order. Ends when the callback returns non-zero, and returns that. */
int blame_foreach(Blame *b, blame_callback callback, void *userdata);

/* What was added to each row since the last call of this. */
int blame_take_window(Blame *b, blame_callback callback, void *userdata);

size_t blame_size(const Blame *b);

const char *blame_weight_to_string(int weight);
const char *blame_phase_to_string(int phase); /* also of BLAME_QUEUE */
