/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/* Adds to the shared histograms. */

#include "owner.h"

enum { MAX_RETRIES = 4 };

/* include/uapi/asm-generic/errno.h, include/linux/errno.h */
enum { EINTR = 4, EAGAIN = 11, EINVAL = 22, EOPNOTSUPP = 95, EIOCBQUEUED = 529 };

/* Without branches, whose combinations the verifier would have to follow one by one. For times below 2^63. */
static inline u64 min_u64(u64 a, u64 b) {
        s64 mask = (s64) (a - b) >> 63;

        barrier_var(mask);
        return b + ((a - b) & mask);
}

static inline u64 max_u64(u64 a, u64 b) {
        s64 mask = (s64) (a - b) >> 63;

        barrier_var(mask);
        return a - ((a - b) & mask);
}

static inline void raise_max(u64 *max, u64 v) {
        for (int i = 0; i < MAX_RETRIES; i++) {
                u64 old = *(volatile u64 *) max;

                if (v <= old || __sync_val_compare_and_swap(max, old, v) == old)
                        return;
        }
}

/* Global functions: the verifier looks at them once, not once for each way to get there. */
__attribute__((noinline)) int hist_full_count(struct hist_full *h, u64 ns) {
        u32 b = bucket_full(ns);

        if (!h || b >= BUCKETS_FULL)
                return 0;
        __sync_fetch_and_add(&h->count, 1);
        __sync_fetch_and_add(&h->sum_ns, ns);
        __sync_fetch_and_add(&h->bucket[b], 1);
        raise_max(&h->max_ns, ns);

        return 0;
}

__attribute__((noinline)) int hist_short_count(struct hist_short *h, u64 ns) {
        u32 b = bucket_short(ns);

        if (!h || b >= BUCKETS_SHORT)
                return 0;
        __sync_fetch_and_add(&h->count, 1);
        __sync_fetch_and_add(&h->sum_ns, ns);
        __sync_fetch_and_add(&h->bucket[b], 1);
        raise_max(&h->max_ns, ns);

        return 0;
}

static inline struct op_value *op_value_get(struct op_key *key) {
        struct op_value *v = bpf_map_lookup_elem(&ops, key);
        void *zero;

        if (v)
                return v;
        zero = zero_value();
        if (!zero)
                return NULL;
        /* Another CPU may have been first, so the result of the insertion says nothing. */
        bpf_map_update_elem(&ops, key, zero, BPF_NOEXIST);
        v = bpf_map_lookup_elem(&ops, key);
        if (!v)
                lost(LOSS_OP_MAP_FULL);
        else
                owner_counted(key->owner);

        return v;
}

static inline struct rq_value *rq_value_get(struct rq_key *key) {
        struct rq_value *v = bpf_map_lookup_elem(&rqs, key);
        void *zero;

        if (v)
                return v;
        zero = zero_value();
        if (!zero)
                return NULL;
        bpf_map_update_elem(&rqs, key, zero, BPF_NOEXIST);
        v = bpf_map_lookup_elem(&rqs, key);
        if (!v)
                lost(LOSS_RQ_MAP_FULL);
        else
                owner_counted(key->owner);

        return v;
}
