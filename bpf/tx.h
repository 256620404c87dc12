/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

#include "op.h"

/* Where the transaction with that id is remembered, if it is: the caller compares tid. */
static inline struct tx *journal_tx(struct journal_value *j, u32 tid) {
        return &j->tx[tid % TX_REMEMBERED];
}

static inline u64 step_length(u64 from, u64 to, u64 low, u64 high) {
        return from && to ? overlap(from, to, low, high) : 0;
}

/* Splits the time from low to high, waited for that transaction's commit, by its steps. */
static inline void add_steps(struct task_op *t, struct journal_value *j, struct tx *tx, u64 low, u64 high) {
        u64 step[_STEP_MAX] = {
                [STEP_PREVIOUS] = step_length(low, tx->start_ns, low, high),
                [STEP_LOCKED] = step_length(tx->start_ns, tx->flushing_ns, low, high),
                [STEP_FLUSHING] = step_length(tx->flushing_ns, tx->logging_ns, low, high),
                [STEP_LOG] = step_length(tx->logging_ns, tx->record_ns ?: tx->end_ns, low, high),
                [STEP_RECORD] = step_length(tx->record_ns, tx->end_ns, low, high),
        };
        /* The wait for ordered data is between: after the log blocks have been submitted. */
        u64 wait = min_u64(step_length(tx->data_wait_ns, tx->data_wait_end_ns, low, high), step[STEP_LOG]);

        step[STEP_LOG] -= wait;
        step[STEP_FLUSHING] += wait;
        for (int i = 0; i < _STEP_MAX; i++)
                t->step_ns[i] += step[i];
        t->tx = *tx;
        t->journal_dev = j->dev;
        wait_add(t->key.owner, j->dev, tx->tid, step);
}
