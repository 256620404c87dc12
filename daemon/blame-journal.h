/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "blame-matrix.h"

/* Divides the time that was waited for a journal's transactions among those who were in them. Knows nothing of maps;
 * whoever waits or is to blame is an owner id. */

enum {
        BLAME_CULPRITS_MAX = 64, /* of one wait; the smallest are OWNER_OTHERS together */
};

/* In place of an owner id, which the kernel never gives. */
#define OWNER_OTHERS UINT64_MAX

typedef struct HandleEntry {
        struct handle_key key;
        struct handle_value value;
} HandleEntry;

typedef struct WaitEntry {
        struct wait_key key;
        struct wait_value value;
} WaitEntry;

typedef struct OwnerWeight {
        uint64_t owner;
        uint64_t weight;
} OwnerWeight;

/* A part of somebody's wait that is blamed on somebody. */
typedef struct OwnerBlame {
        uint64_t victim;
        uint64_t culprit;
        uint32_t dev;
        uint8_t phase; /* the rest as in BlameRow */
        uint8_t step;
        uint8_t weight;
        bool estimated;
        uint64_t ns;
} OwnerBlame;

typedef int (*owner_blame_callback)(const OwnerBlame *b, void *userdata);

/* Hands out a wait of b->ns in parts that add up to it, one for each culprit that has a weight; nothing if none has
 * any. */
int blame_divide(const OwnerBlame *b, const OwnerWeight *culprits, size_t n, owner_blame_callback callback,
                 void *userdata);

/* Puts the largest first, and all but the n_max - 1 largest together if there are more than n_max. Returns how many
 * are left. */
size_t owner_weights_sort(OwnerWeight *w, size_t n, size_t n_max);

/* Sorts by device, transaction and owner, for the functions below, and adds up what tasks of an owner did. Returns how
 * many are left. */
size_t handle_entries_sort(HandleEntry *handles, size_t n);

/* Who was in the transaction: at most BLAME_CULPRITS_MAX, the largest first. Returns how many. */
size_t transaction_owners(const HandleEntry *handles, size_t n_handles, uint32_t dev, uint32_t tid,
                          OwnerWeight ret[static BLAME_CULPRITS_MAX]);

/* Divides all steps of a wait. */
int blame_journal_wait(const WaitEntry *wait, const HandleEntry *handles, size_t n_handles,
                       owner_blame_callback callback, void *userdata);
