/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/* Notes who waited for what, for the daemon to blame it on somebody. */

#include "stall.h"

/* Without a daemon that takes them out the maps would only fill up. */
static inline bool daemon_is_there(void) {
        u32 zero = 0;
        struct settings *s = bpf_map_lookup_elem(&settings, &zero);

        return s && bpf_ktime_get_ns() - s->alive_ns < DAEMON_SILENT_NS;
}

/* The owner waited for the transaction's commit; step_ns of this wait alone. */
static inline void wait_add(u64 owner, u32 dev, u32 tid, u64 *step_ns) {
        u64 *head, *tail, n;
        struct wait_slot *s;
        u32 i = 0;

        if (!daemon_is_there())
                return;
        head = bpf_map_lookup_elem(&wait_head, &i);
        tail = bpf_map_lookup_elem(&wait_tail, &i);
        if (!head || !tail)
                return;
        n = __sync_fetch_and_add(head, 1);
        i = n % wait_slots;
        s = n - *tail < wait_slots ? bpf_map_lookup_elem(&waits, &i) : NULL;
        if (!s) {
                lost(LOSS_WAIT_MAP_FULL);
                return;
        }
        s->key.owner = owner;
        s->key.dev = dev;
        s->key.tid = tid;
        for (int k = 0; k < _STEP_MAX; k++)
                s->value.step_ns[k] = step_ns[k];
        barrier();
        s->number = n + 1;
}

static inline void blame_add(u64 victim, u64 culprit, u32 dev, u8 phase, u8 step, u64 ns) {
        struct blame_key key = { .victim = victim, .culprit = culprit, .dev = dev, .phase = phase, .step = step };
        u64 *v = bpf_map_lookup_elem(&blames, &key), zero = 0;

        if (!v) {
                if (!daemon_is_there())
                        return;
                bpf_map_update_elem(&blames, &key, &zero, BPF_NOEXIST);
                v = bpf_map_lookup_elem(&blames, &key);
                if (!v) {
                        lost(LOSS_BLAME_MAP_FULL);
                        return;
                }
        }
        __sync_fetch_and_add(v, ns);
}

/* Who holds the lock, 0 if that is not one task or it is in no cgroup of the default hierarchy. The low bits of
 * rw_semaphore.owner are flags; bit 0: held by readers (kernel/locking/rwsem.c). */
static inline u64 rwsem_owner(void *lock) {
        u64 owner = BPF_CORE_READ((struct rw_semaphore *) lock, owner.counter);
        struct task_struct *task = (struct task_struct *) (owner & ~7ULL);

        return task && !(owner & 1) ? task_owner(task) : 0;
}

static inline struct handle_slot *handle_slot_at(u32 i) {
        return bpf_map_lookup_elem(&handles, &i);
}

/* Where this task notes what its owner does in that transaction; NULL: in the one that it commits. */
static inline struct handle_value *handle_get(struct task_op *t, struct handle_key *key, transaction_t *transaction) {
        u32 i = t->handle_slot, zero = 0;
        struct handle_slot *s;
        u64 *head;

        if (i > 0) {
                s = handle_slot_at(i - 1);
                if (s && s->key.tid == key->tid && s->key.dev == key->dev && s->key.owner == key->owner)
                        return &s->value;
        }
        head = bpf_map_lookup_elem(&handle_head, &zero);
        if (!head)
                return NULL;
        i = __sync_fetch_and_add(head, 1) & (HANDLES_MAX - 1);
        s = handle_slot_at(i);
        if (!s)
                return NULL;
        s->key.dev = 0;
        barrier();
        __builtin_memset(&s->value, 0, sizeof(s->value));
        s->value.started = transaction ? BPF_CORE_READ(transaction, t_start) : t->journal_started;
        s->key.tid = key->tid;
        s->key.owner = key->owner;
        barrier();
        s->key.dev = key->dev;
        t->handle_slot = i + 1;

        return &s->value;
}
