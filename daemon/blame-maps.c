/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>

#include "blame-maps.h"

enum {
        TAKE_MAX = 16384,    /* twice the size of the larger map */
        HANDLES_MAX = 16384, /* likewise */
        BATCH = 512,         /* elements read at once: must be more than are ever in one bucket */
        BATCHES_MAX = 16384, /* even if nearly every one were empty */
        ITEM_MAX = 128,
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

typedef int (*element_callback)(const void *key, const void *value, void *userdata);

/* Reads all elements, or takes them out: each is read and removed in one step, so what is added meanwhile is in it or
 * in its successor, unless a program had found it just before and adds to it just after. */
static int foreach_in_batches(int fd, size_t key_size, size_t value_size, bool take, element_callback callback,
                              void *userdata) {
        _cleanup_free_ char *keys = calloc(BATCH, key_size), *values = calloc(BATCH, value_size);
        uint32_t position = 0;
        bool first = true, last = false;

        if (!keys || !values)
                return -ENOMEM;
        for (unsigned i = 0; !last && i < BATCHES_MAX; i++) {
                uint32_t n = BATCH;
                void *from = first ? NULL : &position;
                int r, error = 0;

                r = take ? bpf_map_lookup_and_delete_batch(fd, from, &position, keys, values, &n, NULL) :
                           bpf_map_lookup_batch(fd, from, &position, keys, values, &n, NULL);
                if (r < 0) {
                        error = errno == ENOENT ? 0 : -errno;
                        last = true;
                        /* Those before the error were read, and maybe removed, unless the kernel did not even begin. */
                        if (error < 0 && n == BATCH)
                                n = 0;
                }
                first = false;
                for (uint32_t k = 0; k < n; k++) {
                        r = callback(keys + k * key_size, values + k * value_size, userdata);
                        if (r < 0)
                                return r;
                }
                if (error < 0)
                        return error;
        }

        return 0;
}

typedef struct Taker {
        size_t key_size;
        Array array; /* of key and value */
} Taker;

static int take_element(const void *key, const void *value, void *userdata) {
        Taker *t = userdata;
        char item[ITEM_MAX];

        memcpy(item, key, t->key_size);
        memcpy(item + t->key_size, value, t->array.size - t->key_size);

        return array_add(&t->array, item);
}

/* Where the kernel does not know batches. */
static int take_one_by_one(int fd, Taker *t) {
        char key[ITEM_MAX], value[ITEM_MAX];
        int r;

        for (unsigned i = 0; i < TAKE_MAX; i++) {
                if (bpf_map_get_next_key(fd, NULL, key) < 0)
                        return errno == ENOENT ? 0 : -errno;
                if (bpf_map_lookup_and_delete_elem(fd, key, value) < 0) {
                        if (errno == ENOENT)
                                continue;
                        return -errno;
                }
                r = take_element(key, value, t);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int take_all(int fd, Taker *t) {
        char key[ITEM_MAX];
        int r;

        if (bpf_map_get_next_key(fd, NULL, key) < 0) /* nothing, mostly */
                return errno == ENOENT ? 0 : -errno;
        r = foreach_in_batches(fd, t->key_size, t->array.size - t->key_size, /* take= */ true, take_element, t);

        return r < 0 && r != -ENOMEM ? take_one_by_one(fd, t) : r;
}
_Static_assert(sizeof(KnownBlame) == sizeof(struct blame_key) + sizeof(uint64_t), "no gap");
_Static_assert(sizeof(KnownBlame) <= ITEM_MAX, "room for an item");

static int read_number(int fd, uint64_t *ret) {
        uint32_t key = 0;

        return bpf_map_lookup_elem(fd, &key, ret) < 0 ? -errno : 0;
}

/* n elements of an array, from first on. */
static int read_slots(int fd, uint32_t first, uint32_t n, struct wait_slot *ret) {
        _cleanup_free_ uint32_t *keys = calloc(n, sizeof(*keys));
        uint32_t before = first - 1, last, count = n;

        if (!keys)
                return -ENOMEM;
        /* The batch begins after the key that it is given; the end of the array is no error. */
        if (bpf_map_lookup_batch(fd, first > 0 ? &before : NULL, &last, keys, ret, &count, NULL) < 0 &&
            errno != ENOENT)
                return -errno;

        return count == n ? 0 : -EIO;
}

int blame_maps_read_waits(const Maps *m, WaitRing *ring, WaitSlots *ret) {
        _cleanup_free_ struct wait_slot *slots = NULL;
        struct bpf_map_info info = {};
        uint32_t size = sizeof(info), first, n, n_first;
        uint64_t head, tail;
        int r;

        r = read_number(m->wait_head, &head);
        if (r >= 0)
                r = read_number(m->wait_tail, &tail);
        if (r < 0)
                return r;
        tail = MIN(tail, head);
        *ret = (WaitSlots){ .tail = tail, .settled = MIN(MAX(ring->head, tail), head) };
        ring->head = head;
        if (head == tail)
                return 0;
        if (bpf_obj_get_info_by_fd(m->waits, &info, &size) < 0)
                return -errno;
        if (info.value_size != sizeof(slots[0]) || info.max_entries == 0)
                return -EPROTO;

        n = (uint32_t) MIN(head - tail, (uint64_t) info.max_entries); /* for others there was no place */
        first = (uint32_t) (tail % info.max_entries);
        n_first = MIN(n, info.max_entries - first);
        slots = calloc(n, sizeof(slots[0]));
        if (!slots)
                return -ENOMEM;
        r = read_slots(m->waits, first, n_first, slots);
        if (r >= 0 && n > n_first)
                r = read_slots(m->waits, 0, n - n_first, slots + n_first);
        if (r < 0)
                return r;
        ret->slots = TAKE_PTR(slots);
        ret->n = n;

        return 0;
}

int blame_maps_take_waits(const Maps *m, const WaitSlots *read) {
        uint32_t key = 0;

        return bpf_map_update_elem(m->wait_tail, &key, &read->settled, BPF_ANY) < 0 ? -errno : 0;
}

/* On error what was taken so far is handed out all the same: it is in the map no more. */
int blame_maps_take_known(int fd, KnownBlame **ret, size_t *ret_n) {
        Taker t = { .key_size = sizeof(struct blame_key), .array.size = sizeof(KnownBlame) };
        int r;

        r = take_all(fd, &t);
        *ret = (KnownBlame *) t.array.items;
        *ret_n = t.array.n;

        return r;
}

typedef struct HandleReader {
        int fd;
        handle_wanted_callback wanted;
        void *userdata;
        Array array;
} HandleReader;

static int add_handle(const void *key, const void *value, void *userdata) {
        HandleReader *h = userdata;
        struct handle_slot slot;

        memcpy(&slot, value, sizeof(slot));
        if (slot.key.dev == 0 || h->array.n >= HANDLES_MAX || !h->wanted(&slot.key, h->userdata))
                return 0;

        return array_add(&h->array, &(HandleEntry){ .key = slot.key, .value = slot.value });
}

static int look_up_handle(const void *key, void *userdata) {
        struct handle_slot slot;
        HandleReader *h = userdata;

        if (bpf_map_lookup_elem(h->fd, key, &slot) < 0)
                return 0;

        return add_handle(key, &slot, h);
}

int blame_maps_read_handles(int fd, handle_wanted_callback wanted, void *userdata, HandleEntry **ret, size_t *ret_n) {
        HandleReader h = {
                .fd = fd,
                .wanted = wanted,
                .userdata = userdata,
                .array = { .size = sizeof(HandleEntry) },
        };
        int r;

        r = foreach_in_batches(fd, sizeof(uint32_t), sizeof(struct handle_slot), /* take= */ false, add_handle, &h);
        if (r < 0 && r != -ENOMEM) {
                h.array.n = 0;
                r = maps_foreach_key(fd, look_up_handle, &h);
        }
        if (r < 0) {
                free(h.array.items);
                return r;
        }
        *ret = (HandleEntry *) h.array.items;
        *ret_n = handle_entries_sort(*ret, h.array.n);

        return 0;
}
