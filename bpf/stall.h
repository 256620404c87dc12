/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/* Records of operations that took too long, that failed, or that somebody traces. */

#include "account.h"

/* One finished operation, of this task or of another one. */
struct finished {
        struct op_key *key;
        u64 total_ns;
        u64 *phase_ns; /* _PHASE_MAX */
        u64 *step_ns;  /* _STEP_MAX or NULL */
        struct task_op *t; /* with the details, NULL if there are none */
        u64 ino;
        u64 dentry; /* 0: not known */
        char *comm; /* NULL: of the current task */
        int error;
        int pid;
        int thread;
        u32 rq_count; /* without t */
};

static inline u64 current_tick(void) {
        u32 zero = 0;
        struct settings *s = bpf_map_lookup_elem(&settings, &zero);

        return s ? s->tick : 0;
}

static inline bool is_sync_op(u8 op) {
        return op <= OP_SYNCWRITE;
}

/* What was written may be lost, unlike with a call that was wrong, interrupted or not supported. */
static inline bool error_loses_data(int error) {
        return error < 0 && error != -EINTR && error != -EAGAIN && error != -EINVAL && error != -EOPNOTSUPP;
}

/* Tells operations apart while they last. */
static inline u64 op_id(struct task_op *t) {
        return (u64) t->start_ns ^ t->identity;
}

static inline struct op_slot *op_slot(u64 op) {
        u32 i = (op * 0x9e3779b97f4a7c15ULL) >> (64 - 12);

        return bpf_map_lookup_elem(&op_slots, &i);
}
_Static_assert(OP_SLOTS == 1 << 12, "index of operation slots");

/* The names of a file and its directory, if the entry is still that of this inode: it may be gone by now. */
static inline void stall_set_file(struct stall *st, u64 dentry_address, u64 ino) {
        struct dentry *dentry = (struct dentry *) dentry_address;
        struct dentry *parent;

        st->file_parent[0] = 0;
        st->file_name[0] = 0;
        if (!dentry || BPF_CORE_READ(dentry, d_inode, i_ino) != ino)
                return;
        bpf_probe_read_kernel_str(st->file_name, sizeof(st->file_name), BPF_CORE_READ(dentry, d_name.name));
        parent = BPF_CORE_READ(dentry, d_parent);
        if (parent != dentry)
                bpf_probe_read_kernel_str(st->file_parent, sizeof(st->file_parent), BPF_CORE_READ(parent, d_name.name));
}

/* What only the task's own state tells: waits one by one, the transaction, its requests. */
static inline void stall_set_details(struct stall *st, struct task_op *t) {
        u64 id = op_id(t);
        struct op_slot *slot = op_slot(id);

        for (int i = 0; i < INTERVALS_MAX; i++)
                st->interval[i] = t->interval[i];
        st->n_intervals = t->n_intervals;
        st->tx = t->tx;
        st->journal_dev = t->journal_dev;
        st->rq_count = t->rq_count;
        st->rq_bytes = t->rq_bytes;
        st->rq_max_device_ns = slot && slot->op == id ? slot->max_device_ns : 0;
}

static inline void stall_clear_details(struct stall *st) {
        __builtin_memset(st->interval, 0, sizeof(st->interval));
        __builtin_memset(&st->tx, 0, sizeof(st->tx));
        st->n_intervals = 0;
        st->journal_dev = 0;
        st->rq_count = 0;
        st->rq_bytes = 0;
        st->rq_max_device_ns = 0;
}

/* Which of STALL_RECORD and STALL_TRACE the operation is. */
static inline u8 stall_flags(struct finished *f, struct settings *s) {
        bool sync = is_sync_op(f->key->op);
        u64 record = sync ? s->sync_record_ns : s->write_record_ns;
        struct owner_settings *own;
        u64 owner = f->key->owner;
        u8 flags = 0;

        if (f->total_ns >= s->owner_floor_ns) {
                own = bpf_map_lookup_elem(&owner_settings, &owner);
                if (own) {
                        record = sync ? own->sync_record_ns : own->write_record_ns;
                        if (f->total_ns >= own->trace_ns)
                                flags |= STALL_TRACE;
                }
        }
        if (f->total_ns >= record || (sync && error_loses_data(f->error)))
                flags |= STALL_RECORD;
        if (f->total_ns >= s->trace_ns)
                flags |= STALL_TRACE;

        return flags;
}

static __attribute__((noinline)) int report_stall(struct finished *f, u64 now, u8 flags) {
        struct stall *st;

        st = bpf_ringbuf_reserve(&stalls, sizeof(*st), 0);
        if (!st) {
                lost(LOSS_STALL_RING_FULL);
                return 0;
        }
        st->end_ns = now;
        st->owner = f->key->owner;
        st->total_ns = f->total_ns;
        for (u32 i = 0; i < _PHASE_MAX; i++)
                st->phase_ns[i] = f->phase_ns[i];
        for (u32 i = 0; i < _STEP_MAX; i++)
                st->step_ns[i] = f->step_ns ? f->step_ns[i] : 0;
        st->ino = f->ino;
        st->wait_ns = 0;
        st->wait_phase = 0;
        if (f->t)
                stall_set_details(st, f->t);
        else
                stall_clear_details(st);
        st->dev = f->key->dev;
        st->pid = f->pid;
        st->thread = f->thread;
        st->error = f->error;
        st->op = f->key->op;
        st->async = f->key->async;
        st->origin = f->key->origin;
        st->flags = flags;
        __builtin_memset(st->pad, 0, sizeof(st->pad));
        if (f->comm)
                __builtin_memcpy(st->comm, f->comm, COMM_LEN);
        else
                bpf_get_current_comm(st->comm, sizeof(st->comm));
        stall_set_file(st, f->dentry, f->ino);
        bpf_ringbuf_submit(st, 0);

        return 0;
}

/* Returns what kind of record is wanted. Not nested with report_stall(): together their stacks would be too large. */
static __attribute__((noinline)) int count_values(struct finished *f) {
        struct op_value *v = op_value_get(f->key);
        u32 zero = 0, requests;
        struct settings *s = bpf_map_lookup_elem(&settings, &zero);

        if (!s)
                return 0;
        if (v) {
                v->tick = s->tick;
                requests = f->t ? f->t->rq_count : f->rq_count;
                if (requests)
                        __sync_fetch_and_add(&v->requests, requests);
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

        return stall_flags(f, s);
}

static inline __attribute__((always_inline)) void count_op(struct finished *f, u64 now) {
        u8 flags = count_values(f);

        if (flags)
                report_stall(f, now, flags);
}
