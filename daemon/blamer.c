/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "blame-device.h"
#include "blame-maps.h"
#include "blamer.h"
#include "key-table.h"
#include "log.h"
#include "names.h"

enum {
        EXPLAINED_MAX = 16384,
        EXPLAINED_TICKS = 2, /* an operation may be counted a moment after its wait was noted */
};

/* Whose waits for which journal are known step by step; value: the tick in which that was so last. */
typedef struct ExplainedKey {
        uint64_t owner;
        uint64_t dev; /* ANY_DEVICE: any */
} ExplainedKey;
#define ANY_DEVICE UINT64_MAX

struct Blamer {
        Maps *maps;
        Changes *changes;
        OwnerTable *owners;
        DeviceTable *devices;
        InFlight *in_flight;
        Blame *matrix;
        DeviceBlame *device_blame;
        KeyTable *explained;
        WaitRing ring;
        uint64_t tick;
};

static int device_block(uint32_t dev, BlockDevice *ret, void *userdata) {
        return device_table_block(userdata, dev, ret);
}

int blamer_new(Blamer **ret, Maps *maps, Changes *changes, OwnerTable *owners, DeviceTable *devices,
               InFlight *in_flight) {
        _cleanup_(blamer_freep) Blamer *b = calloc(1, sizeof(*b));
        int r;

        if (!b)
                return -ENOMEM;
        b->maps = maps;
        b->changes = changes;
        b->owners = owners;
        b->devices = devices;
        b->in_flight = in_flight;
        r = blame_new(&b->matrix, BLAME_ROWS_MAX);
        if (r >= 0)
                r = device_blame_new(&b->device_blame, device_block, devices);
        if (r >= 0)
                r = key_table_new(&b->explained, 1, EXPLAINED_MAX);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(b);

        return 0;
}

Blamer *blamer_free(Blamer *b) {
        if (!b)
                return NULL;
        blame_free(b->matrix);
        device_blame_free(b->device_blame);
        key_table_free(b->explained);
        free(b);

        return NULL;
}

Blame *blamer_matrix(Blamer *b) {
        return b->matrix;
}

static int unit_of(Blamer *b, uint64_t owner, const char **ret) {
        const Owner *o;
        int r;

        if (owner == OWNER_OTHERS) {
                *ret = UNIT_OTHERS;
                return 0;
        }
        r = owner_table_get(b->owners, owner, &o);
        if (r < 0)
                return r;
        *ret = o->unit;

        return 0;
}

static int add(const OwnerBlame *p, void *userdata) {
        BlameRow row = {
                .dev = p->dev,
                .phase = p->phase,
                .step = p->step,
                .weight = p->weight,
                .estimated = p->estimated,
                .ns = p->ns,
        };
        Blamer *b = userdata;
        int r;

        r = unit_of(b, p->victim, &row.victim);
        if (r >= 0)
                r = unit_of(b, p->culprit, &row.culprit);

        return r < 0 ? r : blame_add(b->matrix, &row);
}

/* --- journal --- */

static int note_explained_key(Blamer *b, uint64_t owner, uint64_t dev) {
        ExplainedKey key = { .owner = owner, .dev = dev };
        uint64_t *tick;
        int r;

        r = key_table_get(b->explained, &key, &tick);
        if (r < 0)
                return r;
        *tick = b->tick;

        return 0;
}

static int note_explained(Blamer *b, uint64_t owner, uint32_t dev) {
        int r;

        r = note_explained_key(b, owner, dev);

        return r < 0 ? r : note_explained_key(b, owner, ANY_DEVICE);
}

static bool is_recent(const void *key, uint64_t *values, void *userdata) {
        const Blamer *b = userdata;

        return b->tick - values[0] < EXPLAINED_TICKS;
}

/* Filesystems on top of others wait for the journal of the one below. */
static bool is_explained(Blamer *b, uint64_t owner, uint32_t dev) {
        ExplainedKey key = { .owner = owner, .dev = dev };
        const char *fs_type = device_table_fs_type(b->devices, dev);

        if (key_table_find(b->explained, &key))
                return true;
        key.dev = ANY_DEVICE;

        return (!fs_type || streq(fs_type, "overlay")) && key_table_find(b->explained, &key);
}

typedef struct TransactionKey {
        uint64_t dev;
        uint64_t tid;
} TransactionKey;

static bool is_waited_for(const struct handle_key *key, void *userdata) {
        TransactionKey k = { .dev = key->dev, .tid = key->tid };

        return key_table_find(userdata, &k) != NULL;
}

/* Of a wait its transaction and the one before are of interest. */
static int find_transactions(const WaitEntry *waits, size_t n, KeyTable *transactions) {
        for (size_t i = 0; i < n; i++) {
                TransactionKey k = { .dev = waits[i].key.dev, .tid = waits[i].key.tid };
                uint64_t *unused;
                int r;

                r = key_table_get(transactions, &k, &unused);
                if (r < 0)
                        return r;
                k.tid = waits[i].key.tid - 1;
                r = key_table_get(transactions, &k, &unused);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int read_handles(Blamer *b, const WaitEntry *waits, size_t n, HandleEntry **ret, size_t *ret_n) {
        _cleanup_(key_table_freep) KeyTable *transactions = NULL;
        int r;

        r = key_table_new(&transactions, 1, 2 * n);
        if (r >= 0)
                r = find_transactions(waits, n, transactions);

        return r < 0 ? r : blame_maps_read_handles(b->maps->handles, is_waited_for, transactions, ret, ret_n);
}

/* Adds up what is settled by owner and transaction, for there may be thousands. */
static int add_up_waits(Blamer *b, const WaitSlots *read, KeyTable *sums) {
        int r = 0, q;

        for (size_t i = 0; i < read->n; i++) {
                const struct wait_slot *s = read->slots + i;
                uint64_t *sum;

                if (s->number != read->tail + i + 1)
                        continue;
                q = note_explained(b, s->key.owner, s->key.dev);
                if (q < 0)
                        r = q;
                if (s->number > read->settled)
                        continue;
                q = key_table_get(sums, &s->key, &sum);
                if (q < 0) {
                        r = q;
                        continue;
                }
                for (size_t k = 0; k < _STEP_MAX; k++)
                        sum[k] += s->value.step_ns[k];
        }

        return r;
}
_Static_assert(sizeof(struct wait_key) == KEY_TABLE_KEY_SIZE, "key of waits");
_Static_assert((int) _STEP_MAX <= (int) KEY_TABLE_VALUES_MAX, "steps of waits");

static int take_settled(Blamer *b, WaitEntry **ret, size_t *ret_n) {
        _cleanup_(key_table_freep) KeyTable *sums = NULL;
        _cleanup_free_ struct wait_slot *slots = NULL;
        WaitEntry *waits = NULL;
        WaitSlots read;
        size_t n;
        int r, q;

        r = blame_maps_read_waits(b->maps, &b->ring, &read);
        if (r < 0)
                return r;
        slots = read.slots;
        if (read.n == 0)
                return 0;
        r = key_table_new(&sums, _STEP_MAX, read.n);
        if (r < 0)
                return r;
        r = add_up_waits(b, &read, sums);
        q = blame_maps_take_waits(b->maps, &read);
        if (q < 0)
                return q;
        n = key_table_size(sums);
        if (n == 0)
                return r;
        waits = calloc(n, sizeof(waits[0]));
        if (!waits)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                uint64_t *sum;

                memcpy(&waits[i].key, key_table_at(sums, i, &sum), sizeof(waits[i].key));
                memcpy(waits[i].value.step_ns, sum, sizeof(waits[i].value.step_ns));
        }
        *ret = waits;
        *ret_n = n;

        return r;
}

static int blame_waits(Blamer *b) {
        _cleanup_free_ HandleEntry *handles = NULL;
        _cleanup_free_ WaitEntry *waits = NULL;
        size_t n = 0, n_handles = 0;
        int r, q;

        r = take_settled(b, &waits, &n);
        if (n == 0)
                return r;
        q = read_handles(b, waits, n, &handles, &n_handles);
        if (q < 0)
                log_debug_errno(q, "Cannot read who was in which transaction, blaming the kernel: %m");
        for (size_t i = 0; i < n; i++) {
                q = blame_journal_wait(waits + i, handles, n_handles, add, b);
                if (q < 0)
                        r = q;
        }

        return r;
}

static int blame_known(Blamer *b) {
        _cleanup_free_ KnownBlame *known = NULL;
        size_t n;
        int r, q = 0;

        r = blame_maps_take_known(b->maps->blames, &known, &n);
        for (size_t i = 0; i < n; i++) {
                const struct blame_key *k = &known[i].key;
                OwnerBlame p = {
                        .victim = k->victim,
                        .culprit = k->culprit,
                        .dev = k->dev,
                        .phase = k->phase,
                        .step = k->step,
                        .weight = k->phase == PHASE_JOURNAL ? BLAME_BY_FAST_COMMIT : BLAME_BY_LOCK_HOLDER,
                        .ns = known[i].ns,
                };

                if (k->phase == PHASE_JOURNAL)
                        q = note_explained(b, k->victim, k->dev);
                if (q >= 0)
                        q = add(&p, b);
                if (q < 0)
                        r = q;
        }

        return r;
}

/* A journal that does not tell its transactions, like that of xfs or btrfs. */
static int blame_untold_journal(Blamer *b, const struct changed_op *o) {
        OwnerBlame p = {
                .victim = o->key.owner,
                .culprit = OWNER_KERNEL,
                .dev = o->key.dev,
                .phase = PHASE_JOURNAL,
                .step = BLAME_NO_STEP,
                .weight = BLAME_BY_TRANSACTIONS,
                .ns = o->phase_ns[PHASE_JOURNAL],
        };

        if (p.ns == 0 || o->key.origin == ORIGIN_LOOP || is_explained(b, o->key.owner, o->key.dev))
                return 0;

        return add(&p, b);
}

/* --- devices --- */

static int blame_changes(Blamer *b) {
        const struct changed_op *ops;
        const struct changed_rq *rqs;
        size_t n_ops, n_rqs;
        int r = 0;

        ops = changes_ops(b->changes, &n_ops);
        rqs = changes_rqs(b->changes, &n_rqs);
        for (size_t i = 0; i < n_rqs && r >= 0; i++)
                r = device_blame_add_request(b->device_blame, rqs + i);
        for (size_t i = 0; i < n_rqs && r >= 0; i++)
                r = device_blame_queue(b->device_blame, rqs + i, add, b);
        for (size_t i = 0; i < n_ops && r >= 0; i++) {
                r = device_blame_op(b->device_blame, ops + i, add, b);
                if (r >= 0)
                        r = blame_untold_journal(b, ops + i);
        }

        return r;
}

static int count_in_flight(Blamer *b) {
        const struct changed_rq *rqs;
        int r = 0;
        size_t n;

        rqs = changes_rqs(b->changes, &n);
        for (size_t i = 0; i < n; i++) {
                int q = in_flight_add(b->in_flight, rqs + i);

                if (q < 0)
                        r = q;
        }
        if (changes_complete(b->changes))
                in_flight_tick(b->in_flight, now_ns());

        return r;
}

void blamer_tick(Blamer *b) {
        int r;

        b->tick++;
        if (key_table_size(b->explained) > 0)
                key_table_filter(b->explained, is_recent, b);
        device_blame_tick(b->device_blame);

        r = count_in_flight(b);
        if (r < 0)
                log_debug_errno(r, "Cannot note how many requests are in flight, ignoring: %m");
        r = blame_waits(b);
        if (r < 0)
                log_debug_errno(r, "Cannot blame waits for journals, ignoring: %m");
        r = blame_known(b);
        if (r < 0)
                log_debug_errno(r, "Cannot blame waits whose culprits are known, ignoring: %m");
        r = blame_changes(b);
        if (r < 0)
                log_debug_errno(r, "Cannot estimate who kept devices busy, ignoring: %m");
}

/* --- owners of a transaction --- */

static bool is_of_transaction(const struct handle_key *key, void *userdata) {
        const TransactionKey *k = userdata;

        return key->dev == k->dev && key->tid == k->tid;
}

/* Several cgroups can be of one unit. */
static size_t add_transaction_owner(TransactionOwner *all, size_t n, const char *unit, double share) {
        for (size_t i = 0; i < n; i++)
                if (streq(all[i].unit, unit)) {
                        all[i].share += share;
                        return n;
                }
        all[n] = (TransactionOwner){ .unit = unit, .share = share };

        return n + 1;
}

static int compare_transaction_owner(const void *a, const void *b) {
        const TransactionOwner *x = a, *y = b;

        if (x->share != y->share)
                return x->share > y->share ? -1 : 1;

        return strcmp(x->unit, y->unit);
}

int blamer_transaction_owners(Blamer *b, uint32_t dev, uint32_t tid,
                              TransactionOwner ret[static TRANSACTION_OWNERS_MAX]) {
        TransactionKey key = { .dev = dev, .tid = tid };
        TransactionOwner all[BLAME_CULPRITS_MAX];
        OwnerWeight owners[BLAME_CULPRITS_MAX];
        _cleanup_free_ HandleEntry *handles = NULL;
        size_t n, n_handles, n_units = 0;
        double sum = 0;
        int r;

        r = blame_maps_read_handles(b->maps->handles, is_of_transaction, &key, &handles, &n_handles);
        if (r < 0)
                return r;
        n = transaction_owners(handles, n_handles, dev, tid, owners);
        for (size_t i = 0; i < n; i++)
                sum += (double) owners[i].weight;
        for (size_t i = 0; i < n; i++) {
                const char *unit;

                r = unit_of(b, owners[i].owner, &unit);
                if (r < 0)
                        return r;
                n_units = add_transaction_owner(all, n_units, unit, (double) owners[i].weight / sum);
        }
        qsort(all, n_units, sizeof(all[0]), compare_transaction_owner);
        n_units = MIN(n_units, (size_t) TRANSACTION_OWNERS_MAX);
        memcpy(ret, all, n_units * sizeof(all[0]));

        return (int) n_units;
}
