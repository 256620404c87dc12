/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/* The operation that a task has in flight, and how its time is split into disjoint phases. */

#include "blame.h"

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

/* A wait begins outside of all operations, which nothing but a scan can tell of before it ends. */
static inline void alone_begins(struct task_op *t) {
        if (t->alone)
                return;
        t->alone = true;
        in_flight(1);
}

static inline void alone_ends(struct task_op *t) {
        if (!t->alone)
                return;
        t->alone = false;
        in_flight(-1);
}

static inline void op_open(struct task_op *t, enum opener opener, u64 now) {
        alone_ends(t);
        if (t->opener == OPENER_NONE)
                in_flight(1);
        t->opener = opener;
        t->seen = program_bit;
        t->start_ns = now;
        t->sync_open = false;
        t->sync_done = false;
        t->held = false;
        t->has_held_bios = false;
        t->n_frames = 0;
        t->n_intervals = 0;
        t->tx.tid = 0;
        t->dentry = 0;
        t->rq_bytes = 0;
        t->rq_count = 0;
        __builtin_memset(t->step_ns, 0, sizeof(t->step_ns));
        __builtin_memset(t->phase_ns, 0, sizeof(t->phase_ns));
}

static inline void op_forget(struct task_op *t) {
        if (t->opener != OPENER_NONE)
                in_flight(-1);
        t->opener = OPENER_NONE;
        t->sync_open = false;
        t->sync_done = false;
        t->held = false;
        t->n_frames = 0;
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

/* A wait inside the operation is over. Where phases are measured their times just add up; where they are derived, it
 * is only known at the end out of which phase the wait is to be taken. */
static inline void add_wait(struct task_op *t, u64 start, u64 end, u64 nested, u32 phase) {
        u32 i = t->n_intervals;
        struct interval *v;

        if (function_tier) {
                if (phase < _PHASE_MAX && end - start > nested)
                        t->phase_ns[phase] += end - start - nested;
                if (phase == PHASE_FS || phase == PHASE_OTHER) /* no wait */
                        return;
        }
        /* Without a free place the time stays in the phase around it, which is true as well, only less exact. */
        if (i >= INTERVALS_MAX)
                return;
        barrier_var(i); /* older verifiers forget what was compared */
        v = &t->interval[i & (INTERVALS_MAX - 1)];
        v->start_ns = start;
        v->end_ns = end;
        v->own_ns = end - start > nested ? end - start - nested : 0;
        v->phase = phase;
        t->n_intervals = i + 1;
}

/* The index is bounded again where it is used: compilers leave out what they know to be so, and the verifier does not
 * always know. */
static inline struct frame *frame_at(struct task_op *t, u32 i) {
        barrier_var(i);
        return &t->frame[i & (FRAMES_MAX - 1)];
}

static inline void frame_push(struct task_op *t, u64 id, u32 phase, u32 dev) {
        u32 i = t->n_frames;
        struct frame *f;

        if (i >= FRAMES_MAX)
                return; /* its time stays with the frame around it */
        if (i > 0 && frame_at(t, i - 1)->id == id)
                return; /* seen by another generation */
        f = frame_at(t, i);
        f->id = id;
        f->start_ns = bpf_ktime_get_ns();
        f->nested_ns = 0;
        f->phase = phase;
        f->dev = dev;
        t->n_frames = i + 1;
}

/* Ends the innermost frame if it has that id. Returns its length, 0 if it has not. */
static inline u64 frame_pop(struct task_op *t, u64 id, u64 now) {
        u32 i = t->n_frames - 1;
        struct frame *f;
        u64 length;

        if (i >= FRAMES_MAX)
                return 0;
        f = frame_at(t, i);
        if (f->id != id)
                return 0;
        t->n_frames = i;
        t->last_exit_ns = now;
        length = now - f->start_ns;
        if (t->opener != OPENER_NONE)
                add_wait(t, f->start_ns, now, f->nested_ns, f->phase);
        if (i > 0)
                frame_at(t, i - 1)->nested_ns += length;

        return length;
}

static inline u64 overlap(u64 a1, u64 a2, u64 b1, u64 b2) {
        u64 lo = max_u64(a1, b1), hi = max_u64(min_u64(a2, b2), lo);

        return hi - lo;
}

enum { WINDOWS = 6 };

/* Splits start..end into t->phase_ns: a window before the sync part and one after it (phase outside), the sync part's
 * own four, and out of each window the waits measured in it. */
static inline void op_split_derived(struct task_op *t, u64 start, u64 end, u32 outside) {
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

/* How long bios of the operation were held back by blk-throttle; forgets it. */
static inline u64 op_take_held(struct task_op *t, u64 now) {
        u64 id = op_id(t), total;
        struct held *h;

        if (!t->has_held_bios)
                return 0;
        t->has_held_bios = false;
        h = bpf_map_lookup_elem(&held_ops, &id);
        if (!h)
                return 0;
        total = h->total_ns;
        if (h->n && now > h->since_ns)
                total += now - h->since_ns;
        bpf_map_delete_elem(&held_ops, &id);

        return total;
}

/* Measured phases have been added up; what they do not explain is outside. */
static inline void op_split_measured(struct task_op *t, u64 start, u64 end, u32 outside) {
        u64 left = end - start, held = op_take_held(t, end), part;

        /* While its bios are held back a task waits for them, in one of these. */
        part = min_u64(held, t->phase_ns[PHASE_DATA]);
        t->phase_ns[PHASE_DATA] -= part;
        t->phase_ns[PHASE_ADMISSION] += part;
        held -= part;
        part = min_u64(held, t->phase_ns[PHASE_IO]);
        t->phase_ns[PHASE_IO] -= part;
        t->phase_ns[PHASE_ADMISSION] += part + (outside == PHASE_IO ? held - part : 0);

        for (u32 i = 0; i < PHASE_RUNQUEUE; i++) {
                t->phase_ns[i] = min_u64(t->phase_ns[i], left);
                left -= t->phase_ns[i];
        }
        if (outside < _PHASE_MAX)
                t->phase_ns[outside] += left;
}

static inline void op_split(struct task_op *t, u64 start, u64 end, u32 outside) {
        if (function_tier)
                op_split_measured(t, start, end, outside);
        else
                op_split_derived(t, start, end, outside);
}

/* Counts the task's own operation, which ends now, and closes it. */
static inline void op_close(struct task_op *t, struct task_struct *task, u64 now, int error, u32 outside) {
        struct finished f = {
                .key = &t->key,
                .total_ns = now - t->start_ns,
                .phase_ns = t->phase_ns,
                .step_ns = t->step_ns,
                .t = t,
                .ino = t->ino,
                .dentry = t->dentry,
                .error = error,
                .pid = task->tgid,
                .thread = task->pid,
        };

        if (now < t->start_ns) {
                lost(LOSS_NEGATIVE_TIME);
                op_forget(t);
                return;
        }
        op_split(t, t->start_ns, now, outside);
        t->phase_ns[PHASE_RUNQUEUE] = task->sched_info.run_delay - t->run_delay_ns;
        count_op(&f, now);
        op_forget(t);
}
