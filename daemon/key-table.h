/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

/* A table from keys of 16 bytes, which is what the keys of most maps have, to a few numbers. It is bounded, and holds
 * its elements in one block of memory, so that walking through it is cheap. */

enum {
        KEY_TABLE_KEY_SIZE = 16,
        KEY_TABLE_VALUES_MAX = 16,
};

typedef struct KeyTable KeyTable;

/* n_values is the count of numbers under a key, n_max that of keys. */
int key_table_new(KeyTable **ret, size_t n_values, size_t n_max);
KeyTable *key_table_free(KeyTable *t);
DEFINE_CLEANUP_FUNC(KeyTable, key_table_free)

/* The numbers, NULL if the key is not there. All pointers are valid until a key is added or removed. */
uint64_t *key_table_find(const KeyTable *t, const void *key);

/* Finds the key or adds it with zeroes; returns 1 if it is new, else 0, -ENOSPC if there is no room for it, or
 * -ENOMEM. */
int key_table_get(KeyTable *t, const void *key, uint64_t **ret);

/* Elements by number, in the order in which they came. */
size_t key_table_size(const KeyTable *t);
const void *key_table_at(const KeyTable *t, size_t i, uint64_t **ret_values);

void key_table_clear(KeyTable *t);

/* Removes those for which keep() returns false. */
typedef bool (*key_table_filter_callback)(const void *key, uint64_t *values, void *userdata);
void key_table_filter(KeyTable *t, key_table_filter_callback keep, void *userdata);
