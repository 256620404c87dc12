/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "in-progress.h"

/* A thread has one operation at a time, so this only has to tell it from the one before, which was long. */
#define START_TOLERANCE_NS (5 * NSEC_PER_MSEC)

struct InProgressTable {
        InProgress *all[IN_PROGRESS_MAX]; /* by id, ascending */
        size_t n;
        uint64_t n_dropped;
        uint64_t n_dropped_now;    /* by this scan */
        uint64_t n_dropped_before; /* by the one before */
};

int in_progress_table_new(InProgressTable **ret) {
        *ret = calloc(1, sizeof(**ret));

        return *ret ? 0 : -ENOMEM;
}

static void entry_free(InProgress *p) {
        stall_entry_done(&p->entry);
        free(p);
}

InProgressTable *in_progress_table_free(InProgressTable *t) {
        if (!t)
                return NULL;
        for (size_t i = 0; i < t->n; i++)
                entry_free(t->all[i]);
        free(t);

        return NULL;
}

/* An asynchronous one may have changed threads (io_uring's workers), but keeps its start to the nanosecond. */
static bool is_same(const InProgress *p, const struct stall *record) {
        const struct stall *known = &p->entry.record;
        uint64_t start = record->end_ns - record->total_ns;
        uint64_t apart = start > p->start_ns ? start - p->start_ns : p->start_ns - start;

        if (known->async != record->async)
                return false;
        if (record->async)
                return known->owner == record->owner && known->op == record->op && known->dev == record->dev &&
                       known->ino == record->ino && apart == 0;

        return known->thread == record->thread && apart <= START_TOLERANCE_NS;
}

static InProgress *find(InProgressTable *t, const struct stall *record) {
        for (size_t i = 0; i < t->n; i++)
                if (is_same(t->all[i], record))
                        return t->all[i];

        return NULL;
}

void in_progress_begin(InProgressTable *t) {
        t->n_dropped_now = 0;
        for (size_t i = 0; i < t->n; i++)
                t->all[i]->n_missed++; /* until found */
}

InProgress *in_progress_find(InProgressTable *t, const struct stall *record) {
        InProgress *p = find(t, record);

        if (p) {
                p->n_missed = 0;
                stall_entry_set_record(&p->entry, record);
        }

        return p;
}

int in_progress_add(InProgressTable *t, uint64_t id, uint64_t start_realtime_us, const char *unit,
                    const struct stall *record, InProgress **ret) {
        InProgress *p;

        if (t->n >= IN_PROGRESS_MAX) {
                if (++t->n_dropped_now > t->n_dropped_before)
                        t->n_dropped++;
                return -ENOBUFS;
        }
        p = calloc(1, sizeof(*p));
        if (!p)
                return -ENOMEM;
        p->entry = (StallEntry){
                .id = id,
                .start_realtime_us = start_realtime_us,
                .unit = strdup(unit),
                .in_progress = true,
        };
        if (!p->entry.unit) {
                free(p);
                return -ENOMEM;
        }
        p->start_ns = record->end_ns - record->total_ns;
        stall_entry_set_record(&p->entry, record);
        t->all[t->n++] = p;
        *ret = p;

        return 0;
}

void in_progress_end(InProgressTable *t, bool complete) {
        t->n_dropped_before = t->n_dropped_now;
        for (size_t i = t->n; i > 0; i--) {
                InProgress *p = t->all[i - 1];

                if (!complete && p->n_missed > 0)
                        p->n_missed--;
                else if (p->n_missed > IN_PROGRESS_MISSES_MAX)
                        in_progress_remove(t, p);
        }
}

InProgress *in_progress_match(InProgressTable *t, const struct stall *record) {
        return find(t, record);
}

void in_progress_remove(InProgressTable *t, InProgress *p) {
        for (size_t i = 0; i < t->n; i++)
                if (t->all[i] == p) {
                        memmove(&t->all[i], &t->all[i + 1], (t->n - i - 1) * sizeof(t->all[0]));
                        t->n--;
                        entry_free(p);
                        return;
                }
}

size_t in_progress_count(const InProgressTable *t) {
        return t->n;
}

InProgress *in_progress_get(InProgressTable *t, size_t i) {
        return i < t->n ? t->all[i] : NULL;
}

uint64_t in_progress_dropped(const InProgressTable *t) {
        return t->n_dropped;
}
