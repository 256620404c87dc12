/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "blame-journal.h"

/* Takes out of the maps what the programs noted for blame, and reads who was in which transaction. */

typedef int (*wait_callback)(const WaitEntry *wait, void *userdata);

/* All waits that are there are removed from the map; the caller frees the array. Bounded: if they come faster than
 * that the next call has the rest. */
int blame_maps_take_waits(int fd, WaitEntry **ret, size_t *ret_n);

/* Waits for somebody whom the programs know; removed likewise. */
typedef struct KnownBlame {
        struct blame_key key;
        uint64_t ns;
} KnownBlame;
int blame_maps_take_known(int fd, KnownBlame **ret, size_t *ret_n);

/* Handles of the transactions that wanted() is true for; the caller frees the array, which is sorted. */
typedef bool (*handle_wanted_callback)(const struct handle_key *key, void *userdata);
int blame_maps_read_handles(int fd, handle_wanted_callback wanted, void *userdata, HandleEntry **ret, size_t *ret_n);
