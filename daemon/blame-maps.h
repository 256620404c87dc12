/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "blame-journal.h"
#include "maps.h"

/* Takes out of the maps what the programs noted for blame, and reads who was in which transaction. The caller frees all
 * arrays. */

/* Where the ring of waits was at the last reading. */
typedef struct WaitRing {
        uint64_t head;
} WaitRing;

typedef struct WaitSlots {
        struct wait_slot *slots; /* number 1 + tail + i in slots[i], or it was not written (yet) */
        size_t n;
        uint64_t tail;
        uint64_t settled; /* those before it were there at the reading before, so nobody is still writing them */
} WaitSlots;

/* All waits that were noted and not taken; then makes the place of the settled ones free. The caller frees slots. */
int blame_maps_read_waits(const Maps *m, WaitRing *ring, WaitSlots *ret);
int blame_maps_take_waits(const Maps *m, const WaitSlots *read);

/* Waits for somebody whom the programs know. These keys come again and again, so all of them are removed at once. */
typedef struct KnownBlame {
        struct blame_key key;
        uint64_t ns;
} KnownBlame;
int blame_maps_take_known(int fd, KnownBlame **ret, size_t *ret_n);

/* Handles of the transactions that wanted() is true for; the caller frees the array, which is sorted. */
typedef bool (*handle_wanted_callback)(const struct handle_key *key, void *userdata);
int blame_maps_read_handles(int fd, handle_wanted_callback wanted, void *userdata, HandleEntry **ret, size_t *ret_n);
