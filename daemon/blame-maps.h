/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "blame-journal.h"

/* Takes out of the maps what the programs noted for blame, and reads who was in which transaction. The caller frees all
 * arrays. */

/* All waits that are there, one to be removed after the other. A program that has found an element adds to it whether
 * it was removed meanwhile or not, so only those should be removed that have been there for some time. */
int blame_maps_read_waits(int fd, WaitEntry **ret, size_t *ret_n);
int blame_maps_take_wait(int fd, WaitEntry *wait); /* its present value; -ENOENT if it is gone */

/* Waits for somebody whom the programs know. These keys come again and again, so all of them are removed at once. */
typedef struct KnownBlame {
        struct blame_key key;
        uint64_t ns;
} KnownBlame;
int blame_maps_take_known(int fd, KnownBlame **ret, size_t *ret_n);

/* Handles of the transactions that wanted() is true for; the caller frees the array, which is sorted. */
typedef bool (*handle_wanted_callback)(const struct handle_key *key, void *userdata);
int blame_maps_read_handles(int fd, handle_wanted_callback wanted, void *userdata, HandleEntry **ret, size_t *ret_n);
