/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "key-table.h"

enum {
        INDEX_MIN = 16, /* a power of two */
        NOWHERE = 0,    /* in the index; else 1 + number of the element */
};

struct KeyTable {
        unsigned char *elements; /* key, values */
        size_t element_size;
        size_t n_values;
        size_t n;
        size_t n_allocated;
        size_t n_max;
        uint32_t *index; /* open addressing, at most half full */
        size_t index_size;
};

int key_table_new(KeyTable **ret, size_t n_values, size_t n_max) {
        KeyTable *t;

        if (n_values == 0 || n_values > KEY_TABLE_VALUES_MAX || n_max >= UINT32_MAX)
                return -EINVAL;
        t = calloc(1, sizeof(*t));
        if (!t)
                return -ENOMEM;
        t->n_values = n_values;
        t->element_size = KEY_TABLE_KEY_SIZE + n_values * sizeof(uint64_t);
        t->n_max = n_max;
        *ret = t;

        return 0;
}

KeyTable *key_table_free(KeyTable *t) {
        if (!t)
                return NULL;
        free(t->elements);
        free(t->index);
        free(t);

        return NULL;
}

static unsigned char *element(const KeyTable *t, size_t i) {
        return t->elements + i * t->element_size;
}

static uint64_t *element_values(unsigned char *e) {
        return (uint64_t *) (e + KEY_TABLE_KEY_SIZE);
}

/* Where the key is in the index, or where it would have to be put. */
static size_t position(const KeyTable *t, const void *key) {
        size_t mask = t->index_size - 1, i = hash_bytes(key, KEY_TABLE_KEY_SIZE) & mask;

        while (t->index[i] != NOWHERE && memcmp(element(t, t->index[i] - 1), key, KEY_TABLE_KEY_SIZE) != 0)
                i = (i + 1) & mask;

        return i;
}

static void index_all(KeyTable *t) {
        if (!t->index)
                return;
        memset(t->index, 0, t->index_size * sizeof(t->index[0]));
        for (size_t i = 0; i < t->n; i++)
                t->index[position(t, element(t, i))] = (uint32_t) i + 1;
}

static int reserve(KeyTable *t) {
        size_t n = MIN(MAX(t->n_allocated * 2, (size_t) INDEX_MIN / 2), t->n_max), size = t->index_size ?: INDEX_MIN;
        unsigned char *elements;
        uint32_t *index;

        if (t->n < t->n_allocated)
                return 0;
        if (t->n >= t->n_max)
                return -ENOSPC;
        while (size < 2 * n)
                size *= 2;
        index = calloc(size, sizeof(index[0]));
        if (!index)
                return -ENOMEM;
        elements = reallocarray(t->elements, n, t->element_size);
        if (!elements) {
                free(index);
                return -ENOMEM;
        }
        t->elements = elements;
        t->n_allocated = n;
        free(t->index);
        t->index = index;
        t->index_size = size;
        index_all(t);

        return 0;
}

uint64_t *key_table_find(const KeyTable *t, const void *key) {
        uint32_t i = t->n > 0 ? t->index[position(t, key)] : NOWHERE;

        return i == NOWHERE ? NULL : element_values(element(t, i - 1));
}

int key_table_get(KeyTable *t, const void *key, uint64_t **ret) {
        uint64_t *values = key_table_find(t, key);
        unsigned char *e;
        int r;

        if (values) {
                *ret = values;
                return 0;
        }
        r = reserve(t);
        if (r < 0)
                return r;
        e = element(t, t->n);
        memcpy(e, key, KEY_TABLE_KEY_SIZE);
        memset(e + KEY_TABLE_KEY_SIZE, 0, t->n_values * sizeof(uint64_t));
        t->index[position(t, key)] = (uint32_t) ++t->n;
        *ret = element_values(e);

        return 1;
}

size_t key_table_size(const KeyTable *t) {
        return t->n;
}

const void *key_table_at(const KeyTable *t, size_t i, uint64_t **ret_values) {
        unsigned char *e = element(t, i);

        if (ret_values)
                *ret_values = element_values(e);

        return e;
}

void key_table_clear(KeyTable *t) {
        t->n = 0;
        index_all(t);
}

void key_table_filter(KeyTable *t, key_table_filter_callback keep, void *userdata) {
        size_t n = 0;

        for (size_t i = 0; i < t->n; i++) {
                unsigned char *e = element(t, i);

                if (!keep(e, element_values(e), userdata))
                        continue;
                if (n != i)
                        memcpy(element(t, n), e, t->element_size);
                n++;
        }
        t->n = n;
        index_all(t);
}
