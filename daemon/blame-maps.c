/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>

#include "blame-maps.h"
#include "maps.h"

enum {
        TAKE_MAX = 16384,    /* twice the size of the larger map */
        HANDLES_MAX = 16384, /* likewise */
        BATCH = 512,         /* elements read at once: must be more than are ever in one bucket */
};

/* An array that grows, of elements of any size. */
typedef struct Array {
        char *items;
        size_t size;
        size_t n;
        size_t n_allocated;
} Array;

static int array_add(Array *a, const void *item) {
        size_t n = MAX(a->n_allocated * 2, (size_t) 64);
        char *items;

        if (a->n >= a->n_allocated) {
                items = reallocarray(a->items, n, a->size);
                if (!items)
                        return -ENOMEM;
                a->items = items;
                a->n_allocated = n;
        }
        memcpy(a->items + a->n++ * a->size, item, a->size);

        return 0;
}

/* Each element is read and removed in one step, so what is added to it meanwhile is in it or in its successor. The
 * items are key and value as they are in the map. */
static int take_all(int fd, size_t key_size, Array *a) {
        char item[128], *value = item + key_size;
        int r;

        if (a->size > sizeof(item))
                return -EINVAL;
        for (unsigned i = 0; i < TAKE_MAX; i++) {
                if (bpf_map_get_next_key(fd, NULL, item) < 0)
                        return errno == ENOENT ? 0 : -errno;
                if (bpf_map_lookup_and_delete_elem(fd, item, value) < 0) {
                        if (errno == ENOENT)
                                continue;
                        return -errno;
                }
                r = array_add(a, item);
                if (r < 0)
                        return r;
        }

        return 0;
}
_Static_assert(sizeof(WaitEntry) == sizeof(struct wait_key) + sizeof(struct wait_value), "no gap");
_Static_assert(sizeof(KnownBlame) == sizeof(struct blame_key) + sizeof(uint64_t), "no gap");

/* On error what was taken so far is handed out all the same: it is in the map no more. */
int blame_maps_take_waits(int fd, WaitEntry **ret, size_t *ret_n) {
        Array a = { .size = sizeof(WaitEntry) };
        int r;

        r = take_all(fd, sizeof(struct wait_key), &a);
        *ret = (WaitEntry *) a.items;
        *ret_n = a.n;

        return r;
}

int blame_maps_take_known(int fd, KnownBlame **ret, size_t *ret_n) {
        Array a = { .size = sizeof(KnownBlame) };
        int r;

        r = take_all(fd, sizeof(struct blame_key), &a);
        *ret = (KnownBlame *) a.items;
        *ret_n = a.n;

        return r;
}

typedef struct HandleReader {
        int fd;
        handle_wanted_callback wanted;
        void *userdata;
        Array array;
} HandleReader;

static int add_handle(HandleReader *h, const struct handle_key *key, const struct handle_value *value) {
        HandleEntry e = { .key = *key, .value = *value };

        if (h->array.n >= HANDLES_MAX || !h->wanted(key, h->userdata))
                return 0;

        return array_add(&h->array, &e);
}

/* Where the kernel does not know reading in batches. */
static int walk_callback(const void *key, void *userdata) {
        HandleReader *h = userdata;
        struct handle_key k;
        struct handle_value v;

        memcpy(&k, key, sizeof(k));
        if (!h->wanted(&k, h->userdata) || bpf_map_lookup_elem(h->fd, &k, &v) < 0)
                return 0;

        return add_handle(h, &k, &v);
}

static int read_batches(HandleReader *h) {
        _cleanup_free_ struct handle_key *keys = calloc(BATCH, sizeof(*keys));
        _cleanup_free_ struct handle_value *values = calloc(BATCH, sizeof(*values));
        uint32_t position = 0;
        bool first = true, last = false;
        int r;

        if (!keys || !values)
                return -ENOMEM;
        for (unsigned i = 0; !last && i < HANDLES_MAX; i++) {
                uint32_t n = BATCH;

                if (bpf_map_lookup_batch(h->fd, first ? NULL : &position, &position, keys, values, &n, NULL) < 0) {
                        if (errno != ENOENT)
                                return -errno;
                        last = true;
                }
                first = false;
                for (uint32_t k = 0; k < n; k++) {
                        r = add_handle(h, keys + k, values + k);
                        if (r < 0)
                                return r;
                }
        }

        return 0;
}

int blame_maps_read_handles(int fd, handle_wanted_callback wanted, void *userdata, HandleEntry **ret, size_t *ret_n) {
        HandleReader h = {
                .fd = fd,
                .wanted = wanted,
                .userdata = userdata,
                .array = { .size = sizeof(HandleEntry) },
        };
        int r;

        r = read_batches(&h);
        if (r < 0 && r != -ENOMEM) {
                h.array.n = 0;
                r = maps_foreach_key(fd, walk_callback, &h);
        }
        if (r < 0) {
                free(h.array.items);
                return r;
        }
        *ret = (HandleEntry *) h.array.items;
        *ret_n = handle_entries_sort(*ret, h.array.n);

        return 0;
}
