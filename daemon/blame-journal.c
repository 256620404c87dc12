/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "blame-journal.h"
#include "share.h"

/* Larger transactions are cut there; the handles of most have a few owners. */
enum { OWNERS_OF_TRANSACTION_MAX = 1024 };

int blame_divide(const OwnerBlame *b, const OwnerWeight *culprits, size_t n, owner_blame_callback callback,
                 void *userdata) {
        uint64_t weights[BLAME_CULPRITS_MAX] = {}, parts[BLAME_CULPRITS_MAX];
        int r;

        if (n > BLAME_CULPRITS_MAX)
                return -E2BIG;
        if (n == 0)
                return 0;
        for (size_t i = 0; i < n; i++)
                weights[i] = culprits[i].weight;
        shares_rest_to_largest(b->ns, weights, n, parts);
        for (size_t i = 0; i < n; i++) {
                OwnerBlame part = *b;

                if (parts[i] == 0)
                        continue;
                part.culprit = culprits[i].owner;
                part.ns = parts[i];
                r = callback(&part, userdata);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int compare_weight(const void *a, const void *b) {
        const OwnerWeight *x = a, *y = b;

        if (x->weight != y->weight)
                return x->weight > y->weight ? -1 : 1;

        return x->owner < y->owner ? -1 : x->owner > y->owner;
}

size_t owner_weights_sort(OwnerWeight *w, size_t n, size_t n_max) {
        if (n > 1)
                qsort(w, n, sizeof(w[0]), compare_weight);
        if (n <= n_max)
                return n;
        for (size_t i = n_max; i < n; i++)
                w[n_max - 1].weight += w[i].weight;
        w[n_max - 1].owner = OWNER_OTHERS;

        return n_max;
}

static int compare_handle(const void *a, const void *b) {
        const struct handle_key *x = &((const HandleEntry *) a)->key, *y = &((const HandleEntry *) b)->key;

        if (x->dev != y->dev)
                return x->dev < y->dev ? -1 : 1;
        if (x->tid != y->tid)
                return x->tid < y->tid ? -1 : 1;

        return x->owner < y->owner ? -1 : x->owner > y->owner;
}

/* And those of one owner in transactions of the same number by when these began. */
static int compare_entry(const void *a, const void *b) {
        const HandleEntry *x = a, *y = b;
        int r = compare_handle(x, y);

        if (r != 0)
                return r;

        return x->value.started < y->value.started ? -1 : x->value.started > y->value.started;
}

static void add_entry(struct handle_value *sum, const struct handle_value *v) {
        sum->handles += v->handles;
        sum->requested_blocks += v->requested_blocks;
        sum->dirtied_blocks += v->dirtied_blocks;
        sum->late_ns += v->late_ns;
        sum->ordered_ns += v->ordered_ns;
}

size_t handle_entries_sort(HandleEntry *handles, size_t n) {
        size_t left = 0;

        if (n > 1)
                qsort(handles, n, sizeof(handles[0]), compare_entry);
        for (size_t i = 0; i < n; i++)
                if (left > 0 && compare_entry(handles + left - 1, handles + i) == 0)
                        add_entry(&handles[left - 1].value, &handles[i].value);
                else
                        handles[left++] = handles[i];

        return left;
}

/* Position of the first handle of the transaction or of a later one. */
static size_t first_of_transaction(const HandleEntry *handles, size_t n, uint32_t dev, uint32_t tid) {
        const HandleEntry key = { .key = { .dev = dev, .tid = tid } };
        size_t low = 0, high = n;

        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (compare_handle(handles + mid, &key) < 0)
                        low = mid + 1;
                else
                        high = mid;
        }

        return low;
}

/* The rule for who filled a transaction. Not the blocks that were changed: one that several change is charged to the
 * first of them, so that two that do the same do not get the same (inode tables, bitmaps, directories). And not the
 * number of handles: a small write to a file is one, and so is the creation of a file, which costs far more. Where both
 * do the same this weight and the handles agree; where not it comes closer to how much longer the wait got. */
static uint64_t by_requested_blocks(const struct handle_value *v) {
        return v->requested_blocks;
}

static uint64_t by_handles(const struct handle_value *v) {
        return v->handles;
}

static uint64_t by_late_handle(const struct handle_value *v) {
        return v->late_ns;
}

static uint64_t by_ordered_wait(const struct handle_value *v) {
        return v->ordered_ns;
}

typedef uint64_t (*weight_function)(const struct handle_value *v);

/* A kernel thread's handle is there because somebody wrote data whose extents it now converts, but not every kind of
 * handle says for whom. So those without an owner count only where there is no other: else every service that writes
 * would be hidden behind the (kernel) that works for it, and shares would depend on which kernel tells owners. */
static size_t weigh(const HandleEntry *handles, size_t n_handles, uint32_t dev, uint32_t tid, weight_function weight,
                    OwnerWeight ret[static BLAME_CULPRITS_MAX]) {
        size_t first = first_of_transaction(handles, n_handles, dev, tid), last, n = 0;
        OwnerWeight all[OWNERS_OF_TRANSACTION_MAX];
        uint64_t kernel = 0, newest = 0;

        for (last = first; last < n_handles && handles[last].key.dev == dev && handles[last].key.tid == tid; last++)
                newest = MAX(newest, (uint64_t) handles[last].value.started);
        for (size_t i = first; i < last; i++) {
                uint64_t w = weight(&handles[i].value);

                /* Of an earlier filesystem on that device, whose journal had the same number. */
                if (handles[i].value.started && handles[i].value.started != newest)
                        continue;
                if (handles[i].key.owner == OWNER_KERNEL)
                        kernel += w;
                else if (n > 0 && all[n - 1].owner == handles[i].key.owner)
                        all[n - 1].weight += w;
                else if (w > 0 && n < OWNERS_OF_TRANSACTION_MAX)
                        all[n++] = (OwnerWeight){ handles[i].key.owner, w };
        }
        if (n == 0 && kernel > 0)
                all[n++] = (OwnerWeight){ OWNER_KERNEL, kernel };
        n = owner_weights_sort(all, n, BLAME_CULPRITS_MAX);
        memcpy(ret, all, n * sizeof(all[0]));

        return n;
}

size_t transaction_owners(const HandleEntry *handles, size_t n_handles, uint32_t dev, uint32_t tid,
                          OwnerWeight ret[static BLAME_CULPRITS_MAX]) {
        size_t n = weigh(handles, n_handles, dev, tid, by_requested_blocks, ret);

        return n > 0 ? n : weigh(handles, n_handles, dev, tid, by_handles, ret);
}

typedef struct Rule {
        weight_function weight;
        uint8_t name;
} Rule;

enum { RULES_MAX = 3 };

#define WHO_FILLED_IT { by_requested_blocks, BLAME_BY_REQUESTED_BLOCKS }, { by_handles, BLAME_BY_HANDLES }

/* For each step what is tried, in that order. */
static const Rule rules[_STEP_MAX][RULES_MAX] = {
        [STEP_PREVIOUS] = { WHO_FILLED_IT },
        [STEP_LOCKED] = { { by_late_handle, BLAME_BY_LATE_HANDLE }, WHO_FILLED_IT },
        [STEP_FLUSHING] = { { by_ordered_wait, BLAME_BY_ORDERED_WAIT } },
        [STEP_LOG] = { WHO_FILLED_IT },
        [STEP_RECORD] = { WHO_FILLED_IT },
        [STEP_CHECKPOINT] = { WHO_FILLED_IT },
};

static int blame_step(const WaitEntry *wait, int step, const HandleEntry *handles, size_t n_handles,
                      owner_blame_callback callback, void *userdata) {
        OwnerBlame b = {
                .victim = wait->key.owner,
                .dev = wait->key.dev,
                .phase = PHASE_JOURNAL,
                .step = (uint8_t) step,
                .ns = wait->value.step_ns[step],
        };
        uint32_t tid = step == STEP_PREVIOUS ? wait->key.tid - 1 : wait->key.tid;
        OwnerWeight culprits[BLAME_CULPRITS_MAX];

        for (size_t i = 0; i < RULES_MAX && rules[step][i].weight; i++) {
                size_t n = weigh(handles, n_handles, wait->key.dev, tid, rules[step][i].weight, culprits);

                if (n == 0)
                        continue;
                b.weight = rules[step][i].name;

                return blame_divide(&b, culprits, n, callback, userdata);
        }
        b.culprit = OWNER_KERNEL;
        b.weight = BLAME_BY_TRANSACTIONS;

        return callback(&b, userdata);
}

int blame_journal_wait(const WaitEntry *wait, const HandleEntry *handles, size_t n_handles,
                       owner_blame_callback callback, void *userdata) {
        int r;

        for (int step = 0; step < _STEP_MAX; step++) {
                if (wait->value.step_ns[step] == 0)
                        continue;
                r = blame_step(wait, step, handles, n_handles, callback, userdata);
                if (r < 0)
                        return r;
        }

        return 0;
}
