/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "blame-device.h"
#include "key-table.h"

enum {
        TICK_KEYS_MAX = 8192, /* owners times disks in one second */
        DISKS_BELOW_MAX = 64, /* that one device lies upon in the end */
        LEVELS_MAX = 8,       /* device mapper upon md upon ... */
        SHARES_MAX = 128,     /* remembered within one tick */
        NAMED_MAX = 16,       /* culprits for one device: a thousand victims times a thousand culprits took too long */
};

enum { VALUE_BUSY, VALUE_WRITTEN, _VALUE_MAX };

typedef struct UsageKey {
        uint64_t owner;
        uint64_t dev;
} UsageKey;
_Static_assert((int) NAMED_MAX <= (int) BLAME_CULPRITS_MAX, "shares can be divided");
_Static_assert(sizeof(UsageKey) == KEY_TABLE_KEY_SIZE, "key of usage");

/* Who used a device in the last ticks, in one of the two ways. */
typedef struct Shares {
        uint32_t dev;
        unsigned ticks;
        int value;
        OwnerWeight owners[NAMED_MAX];
        size_t n;
} Shares;

struct DeviceBlame {
        block_callback block;
        void *userdata;
        KeyTable *ticks[DEVICE_TICKS_MAX]; /* a ring; NULL: nothing so far */
        unsigned now;
        Shares *shares; /* of this tick */
        size_t n_shares;
};

int device_blame_new(DeviceBlame **ret, block_callback block, void *userdata) {
        DeviceBlame *d = calloc(1, sizeof(*d));

        if (!d)
                return -ENOMEM;
        d->block = block;
        d->userdata = userdata;
        *ret = d;

        return 0;
}

DeviceBlame *device_blame_free(DeviceBlame *d) {
        if (!d)
                return NULL;
        for (unsigned i = 0; i < DEVICE_TICKS_MAX; i++)
                key_table_free(d->ticks[i]);
        free(d->shares);
        free(d);

        return NULL;
}

void device_blame_tick(DeviceBlame *d) {
        d->now = (d->now + 1) % DEVICE_TICKS_MAX;
        /* Given back, since one second of many may have been a large one. */
        d->ticks[d->now] = key_table_free(d->ticks[d->now]);
        d->n_shares = 0;
}

/* Requests of origin `loop` are counted like all others: on this disk they are there once, and shares never mix disks
 * that lie upon each other. */
int device_blame_add_request(DeviceBlame *d, const struct changed_rq *difference) {
        UsageKey key = { .owner = difference->key.owner, .dev = difference->key.dev };
        uint64_t *values;
        int r;

        if (!d->ticks[d->now]) {
                r = key_table_new(&d->ticks[d->now], _VALUE_MAX, TICK_KEYS_MAX);
                if (r < 0)
                        return r;
        }
        r = key_table_get(d->ticks[d->now], &key, &values);
        if (r == -ENOSPC) {
                key.owner = OWNER_OTHERS;
                r = key_table_get(d->ticks[d->now], &key, &values);
                if (r == -ENOSPC)
                        return 0; /* so many that shares say nothing */
        }
        if (r < 0)
                return r;
        values[VALUE_BUSY] += difference->device_ns;
        if (difference->key.kind == RQ_WRITE)
                values[VALUE_WRITTEN] += difference->bytes;

        return 0;
}

/* --- which disks --- */

typedef struct Disks {
        uint32_t dev[DISKS_BELOW_MAX];
        size_t n;
} Disks;

static const KeyTable *tick_before(const DeviceBlame *d, unsigned ago) {
        return d->ticks[(d->now + DEVICE_TICKS_MAX - ago) % DEVICE_TICKS_MAX];
}

static bool is_used(const DeviceBlame *d, uint32_t dev, unsigned ticks) {
        for (unsigned i = 0; i < ticks; i++) {
                const KeyTable *t = tick_before(d, i);

                for (size_t k = 0; t && k < key_table_size(t); k++)
                        if (((const UsageKey *) key_table_at(t, k, NULL))->dev == dev)
                                return true;
        }

        return false;
}

static bool has_disk(const Disks *disks, uint32_t dev) {
        for (size_t i = 0; i < disks->n; i++)
                if (disks->dev[i] == dev)
                        return true;

        return false;
}

/* The device itself if it has requests of its own, else what it lies upon, and so on down. */
static void find_disks(DeviceBlame *d, uint32_t dev, unsigned ticks, unsigned level, Disks *disks) {
        BlockDevice b = { .disk = dev };

        if (level >= LEVELS_MAX || disks->n >= DISKS_BELOW_MAX)
                return;
        if (d->block(dev, &b, d->userdata) < 0)
                b.n_slaves = 0; /* gone already: what was counted was counted under this number */
        if (is_used(d, b.disk, ticks)) {
                if (!has_disk(disks, b.disk))
                        disks->dev[disks->n++] = b.disk;
                return;
        }
        if (b.disk != dev && d->block(b.disk, &b, d->userdata) < 0) /* a partition of what lies upon others */
                return;
        for (size_t i = 0; i < b.n_slaves; i++)
                find_disks(d, b.slaves[i], ticks, level + 1, disks);
}

/* --- shares --- */

static int add_usage(KeyTable *sums, const KeyTable *tick, const Disks *disks, int value) {
        for (size_t i = 0; i < key_table_size(tick); i++) {
                uint64_t *values, *sum;
                const UsageKey *k = key_table_at(tick, i, &values);
                UsageKey owner = { .owner = k->owner };
                int r;

                if (values[value] == 0 || !has_disk(disks, (uint32_t) k->dev))
                        continue;
                r = key_table_get(sums, &owner, &sum);
                if (r < 0)
                        return r;
                *sum += values[value];
        }

        return 0;
}

static int compute_shares(DeviceBlame *d, Shares *s) {
        _cleanup_(key_table_freep) KeyTable *sums = NULL;
        _cleanup_free_ OwnerWeight *all = NULL;
        Disks disks = {};
        size_t n;
        int r;

        s->n = 0;
        find_disks(d, s->dev, s->ticks, 0, &disks);
        if (disks.n == 0)
                return 0;
        r = key_table_new(&sums, 1, (size_t) TICK_KEYS_MAX * DEVICE_TICKS_MAX);
        if (r < 0)
                return r;
        for (unsigned i = 0; i < s->ticks; i++) {
                const KeyTable *t = tick_before(d, i);

                r = t ? add_usage(sums, t, &disks, s->value) : 0;
                if (r < 0)
                        return r;
        }
        n = key_table_size(sums);
        all = calloc(MAX(n, (size_t) 1), sizeof(all[0]));
        if (!all)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                uint64_t *sum;
                const UsageKey *k = key_table_at(sums, i, &sum);

                all[i] = (OwnerWeight){ k->owner, *sum };
        }
        s->n = owner_weights_sort(all, n, NAMED_MAX);
        memcpy(s->owners, all, s->n * sizeof(all[0]));

        return 0;
}

static int get_shares(DeviceBlame *d, uint32_t dev, unsigned ticks, int value, const Shares **ret) {
        Shares *s;
        int r;

        for (size_t i = 0; i < d->n_shares; i++) {
                s = d->shares + i;
                if (s->dev == dev && s->ticks == ticks && s->value == value) {
                        *ret = s;
                        return 0;
                }
        }
        if (d->n_shares >= SHARES_MAX)
                d->n_shares = 0;
        if (!d->shares) {
                d->shares = calloc(SHARES_MAX, sizeof(d->shares[0]));
                if (!d->shares)
                        return -ENOMEM;
        }
        s = d->shares + d->n_shares;
        *s = (Shares){ .dev = dev, .ticks = ticks, .value = value };
        r = compute_shares(d, s);
        if (r < 0)
                return r;
        d->n_shares++;
        *ret = s;

        return 0;
}

/* --- blame --- */

/* How many ticks those that ended now have lasted on average. */
static unsigned ticks_of(uint64_t count, uint64_t sum_ns) {
        uint64_t mean = count > 0 ? sum_ns / count : 0;

        return (unsigned) MIN(1 + mean / NSEC_PER_SEC, (uint64_t) DEVICE_TICKS_MAX);
}

static int divide(DeviceBlame *d, OwnerBlame *b, unsigned ticks, int value, owner_blame_callback callback,
                  void *userdata) {
        const Shares *s;
        int r;

        r = get_shares(d, b->dev, ticks, value, &s);
        /* Nothing completed in that time: then it is something that began earlier. */
        if (r >= 0 && s->n == 0 && ticks < DEVICE_TICKS_MAX)
                r = get_shares(d, b->dev, DEVICE_TICKS_MAX, value, &s);

        return r < 0 ? r : blame_divide(b, s->owners, s->n, callback, userdata);
}

int device_blame_op(DeviceBlame *d, const struct changed_op *difference, owner_blame_callback callback,
                    void *userdata) {
        static const struct {
                uint8_t phase;
                uint8_t weight;
                int value;
        } table[] = {
                { PHASE_DATA, BLAME_BY_BUSY_TIME, VALUE_BUSY },
                { PHASE_IO, BLAME_BY_BUSY_TIME, VALUE_BUSY },
                { PHASE_ADMISSION, BLAME_BY_BUSY_TIME, VALUE_BUSY },
                { PHASE_THROTTLE, BLAME_BY_WRITTEN_BYTES, VALUE_WRITTEN },
        };
        unsigned ticks = ticks_of(difference->count, difference->sum_ns);
        int r;

        /* The waits of a loop device's worker are somebody else's already. */
        if (difference->key.dev == 0 || difference->key.origin == ORIGIN_LOOP)
                return 0;
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                OwnerBlame b = {
                        .victim = difference->key.owner,
                        .dev = difference->key.dev,
                        .phase = table[i].phase,
                        .step = BLAME_NO_STEP,
                        .weight = table[i].weight,
                        .estimated = true,
                        .ns = difference->phase_ns[table[i].phase],
                };

                if (b.ns == 0)
                        continue;
                r = divide(d, &b, ticks, table[i].value, callback, userdata);
                if (r < 0)
                        return r;
        }

        return 0;
}

int device_blame_queue(DeviceBlame *d, const struct changed_rq *difference, owner_blame_callback callback,
                       void *userdata) {
        OwnerBlame b = {
                .victim = difference->key.owner,
                .dev = difference->key.dev,
                .phase = BLAME_QUEUE,
                .step = BLAME_NO_STEP,
                .weight = BLAME_BY_BUSY_TIME,
                .estimated = true,
                .ns = difference->queue_ns,
        };

        if (b.dev == 0 || b.ns == 0)
                return 0;

        return divide(d, &b, ticks_of(difference->count, difference->queue_ns + difference->device_ns), VALUE_BUSY,
                      callback, userdata);
}
