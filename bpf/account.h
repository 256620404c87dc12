/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/* Adds to the shared histograms. */

#include "owner.h"

enum { MAX_RETRIES = 4 };

/* include/uapi/asm-generic/errno.h, include/linux/errno.h */
enum { EINTR = 4, EAGAIN = 11, EINVAL = 22, EOPNOTSUPP = 95, EIOCBQUEUED = 529 };

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

/* One finished operation, of this task or of another one. */
struct finished {
        struct op_key *key;
        u64 total_ns;
        u64 *phase_ns; /* _PHASE_MAX */
        u64 *step_ns;  /* _STEP_MAX or NULL */
        u64 ino;
        char *comm;
        int error;
        int pid;
        u32 tid;
};

static inline bool is_sync_op(u8 op) {
        return op <= OP_SYNCWRITE;
}

/* What was written may be lost, unlike with a call that was wrong, interrupted or not supported. */
static inline bool error_loses_data(int error) {
        return error < 0 && error != -EINTR && error != -EAGAIN && error != -EINVAL && error != -EOPNOTSUPP;
}

static inline void report_stall(struct finished *f, u64 now) {
        u32 i = 0;
        struct settings *s = bpf_map_lookup_elem(&settings, &i);
        struct stall *st;
        u64 limit;

        if (!s)
                return;
        limit = is_sync_op(f->key->op) ? s->sync_record_ns : s->write_record_ns;
        if ((limit == 0 || f->total_ns < limit) && !(is_sync_op(f->key->op) && error_loses_data(f->error)))
                return;

        st = bpf_ringbuf_reserve(&stalls, sizeof(*st), 0);
        if (!st) {
                lost(LOSS_STALL_RING_FULL);
                return;
        }
        st->end_ns = now;
        st->owner = f->key->owner;
        st->total_ns = f->total_ns;
        for (i = 0; i < _PHASE_MAX; i++)
                st->phase_ns[i] = f->phase_ns[i];
        for (i = 0; i < _STEP_MAX; i++)
                st->step_ns[i] = f->step_ns ? f->step_ns[i] : 0;
        st->ino = f->ino;
        st->dev = f->key->dev;
        st->tid_journal = f->tid;
        st->pid = f->pid;
        st->error = f->error;
        st->op = f->key->op;
        st->async = f->key->async;
        st->origin = f->key->origin;
        __builtin_memset(st->pad, 0, sizeof(st->pad));
        __builtin_memcpy(st->comm, f->comm, COMM_LEN);
        bpf_ringbuf_submit(st, 0);
}

static inline void count_op(struct finished *f, u64 now) {
        struct op_value *v = op_value_get(f->key);

        if (v) {
                hist_full_count(&v->total, f->total_ns);
                for (u32 i = 0; i < _PHASE_MAX; i++)
                        if (f->phase_ns[i])
                                hist_short_count(&v->phase[i], f->phase_ns[i]);
                if (f->step_ns)
                        for (u32 i = 0; i < _STEP_MAX; i++)
                                if (f->step_ns[i])
                                        __sync_fetch_and_add(&v->step_ns[i], f->step_ns[i]);
                if (f->error < 0)
                        __sync_fetch_and_add(&v->errors, 1);
        }
        report_stall(f, now);
}
