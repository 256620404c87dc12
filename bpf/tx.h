/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

#include "op.h"

/* Where the transaction with that id is remembered, if it is: the caller compares tid. */
static inline struct tx *journal_tx(struct journal_value *j, u32 tid) {
        return &j->tx[tid % TX_REMEMBERED];
}

static inline void add_step(struct task_op *t, u32 step, u64 from, u64 to, u64 low, u64 high) {
        if (from && to)
                t->step_ns[step] += overlap(from, to, low, high);
}

/* Splits the time from low to high, waited for that transaction's commit, by its steps. */
static inline void add_steps(struct task_op *t, struct tx *tx, u64 low, u64 high) {
        add_step(t, STEP_PREVIOUS, low, tx->start_ns, low, high);
        add_step(t, STEP_LOCKED, tx->start_ns, tx->flushing_ns, low, high);
        add_step(t, STEP_FLUSHING, tx->flushing_ns, tx->logging_ns, low, high);
        add_step(t, STEP_LOG, tx->logging_ns, tx->record_ns ?: tx->end_ns, low, high);
        /* The wait for ordered data is between: after the log blocks have been submitted. */
        if (tx->data_wait_ns && tx->data_wait_end_ns) {
                u64 wait = overlap(tx->data_wait_ns, tx->data_wait_end_ns, low, high);

                wait = min_u64(wait, t->step_ns[STEP_LOG]);
                t->step_ns[STEP_LOG] -= wait;
                t->step_ns[STEP_FLUSHING] += wait;
        }
        add_step(t, STEP_RECORD, tx->record_ns, tx->end_ns, low, high);
}
