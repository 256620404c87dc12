/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/* The operation that a task has in flight, and how its time is split into disjoint phases. */

#include "account.h"

#include <bpf/bpf_tracing.h>

static inline struct task_op *task_op_get(struct task_struct *task) {
        return bpf_task_storage_get(&tasks, task, NULL, 0);
}

static inline struct task_op *task_op_create(struct task_struct *task) {
        struct task_op *t = bpf_task_storage_get(&tasks, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

        if (!t)
                lost(LOSS_TASK_STORAGE);

        return t;
}

static inline void op_open(struct task_op *t, enum opener opener, u64 now) {
        t->opener = opener;
        t->seen = program_bit;
        t->start_ns = now;
        t->sync_open = false;
        t->sync_done = false;
        t->held = false;
        t->n_waits = 0;
        t->n_intervals = 0;
        t->tid = 0;
        __builtin_memset(t->step_ns, 0, sizeof(t->step_ns));
        __builtin_memset(t->phase_ns, 0, sizeof(t->phase_ns));
}

static inline void op_forget(struct task_op *t) {
        t->opener = OPENER_NONE;
        t->sync_open = false;
        t->sync_done = false;
        t->held = false;
        t->n_waits = 0;
        t->n_intervals = 0;
}

/* Whether this program has to open an operation: not if another generation's program just did so for the same event.
 * One program never runs twice for an event, so if it has seen an operation open before, that one's end was missed. */
static inline bool op_must_open(struct task_op *t, enum opener opener, u64 identity) {
        if (t->opener != opener || t->identity != identity)
                return true;
        if (t->seen & program_bit)
                return true;
        t->seen |= program_bit;

        return false;
}

static inline void add_interval(struct task_op *t, u64 start, u64 end, u64 nested, u32 phase) {
        u32 i = t->n_intervals;
        struct interval *v;

        /* Without a free place the time stays in the phase around it, which is true as well, only less exact. */
        if (i >= INTERVALS_MAX)
                return;
        v = &t->interval[i];
        v->start_ns = start;
        v->end_ns = end;
        v->own_ns = end - start > nested ? end - start - nested : 0;
        v->phase = phase;
        t->n_intervals = i + 1;
}

static inline void wait_begin(struct task_op *t, u64 lock, u32 phase, u32 dev) {
        u32 i = t->n_waits;
        u64 now;

        if (i >= WAITS_MAX)
                return;
        if (i > 0 && t->wait[(i - 1) % WAITS_MAX].lock == lock)
                return; /* seen by another generation */
        now = bpf_ktime_get_ns();
        t->wait[i].lock = lock;
        t->wait[i].start_ns = now;
        t->wait[i].nested_ns = 0;
        t->wait[i].phase = phase;
        t->wait[i].dev = dev;
        t->n_waits = i + 1;
}

/* Ends the innermost wait if it is the one for that lock. Returns its length, 0 if it is not. */
static inline u64 wait_end(struct task_op *t, u64 lock, u64 now) {
        u32 i = t->n_waits;
        struct wait *w;
        u64 length;

        if (i == 0 || i > WAITS_MAX)
                return 0;
        i--;
        w = &t->wait[i];
        if (w->lock != lock)
                return 0;
        t->n_waits = i;
        length = now - w->start_ns;
        if (t->opener != OPENER_NONE)
                add_interval(t, w->start_ns, now, w->nested_ns, w->phase);
        if (i == 1)
                t->wait[0].nested_ns += length;

        return length;
}

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

static inline u64 overlap(u64 a1, u64 a2, u64 b1, u64 b2) {
        u64 lo = max_u64(a1, b1), hi = max_u64(min_u64(a2, b2), lo);

        return hi - lo;
}

_Static_assert(WAITS_MAX == 2, "an inner wait has exactly one around it");

enum { WINDOWS = 6 };

/* Splits start..end into t->phase_ns: a window before the sync part and one after it (phase outside), the sync part's
 * own four, and out of each window the waits measured in it. */
static inline void op_split(struct task_op *t, u64 start, u64 end, u32 outside) {
        const u32 phase[WINDOWS] = { outside,       PHASE_DATA,  PHASE_OTHER,
                                     PHASE_JOURNAL, PHASE_FLUSH, outside };
        u64 edge[WINDOWS + 1], window[WINDOWS];
        u32 n = t->n_intervals;

        edge[0] = start;
        edge[WINDOWS] = end;
        if (t->sync_done)
                for (int i = 0; i < _EDGE_MAX; i++)
                        edge[i + 1] = t->edge[i];
        else
                for (int i = 0; i < _EDGE_MAX; i++)
                        edge[i + 1] = end;

#pragma unroll
        for (int w = 0; w < WINDOWS; w++) {
                edge[w + 1] = min_u64(max_u64(edge[w + 1], edge[w]), end);
                window[w] = edge[w + 1] - edge[w];
        }

        for (u32 i = 0; i < INTERVALS_MAX && i < n; i++) {
                struct interval *v = &t->interval[i];
                u64 left = v->own_ns, taken = 0;
                u32 p = v->phase;

#pragma unroll
                for (int w = 0; w < WINDOWS; w++) {
                        u64 s = overlap(v->start_ns, v->end_ns, edge[w], edge[w + 1]);

                        s = min_u64(min_u64(s, left), window[w]);
                        window[w] -= s;
                        left -= s;
                        taken += s;
                }
                if (p < _PHASE_MAX)
                        t->phase_ns[p] += taken;
        }

#pragma unroll
        for (int w = 0; w < WINDOWS; w++)
                if (phase[w] < _PHASE_MAX)
                        t->phase_ns[phase[w]] += window[w];
}

/* Counts the task's own operation, which ends now, and closes it. */
static inline void op_close(struct task_op *t, struct task_struct *task, u64 now, int error, u32 outside) {
        struct finished f = {
                .key = &t->key,
                .total_ns = now - t->start_ns,
                .phase_ns = t->phase_ns,
                .step_ns = t->step_ns,
                .ino = t->ino,
                .comm = task->comm,
                .error = error,
                .pid = task->tgid,
                .tid = t->tid,
        };
        char comm[COMM_LEN];

        if (now < t->start_ns) {
                lost(LOSS_NEGATIVE_TIME);
                op_forget(t);
                return;
        }
        op_split(t, t->start_ns, now, outside);
        t->phase_ns[PHASE_RUNQUEUE] = task->sched_info.run_delay - t->run_delay_ns;
        bpf_get_current_comm(comm, sizeof(comm));
        f.comm = comm;
        count_op(&f, now);
        op_forget(t);
}
