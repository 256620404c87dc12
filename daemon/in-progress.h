/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "stall-log.h"

enum {
        IN_PROGRESS_MAX = 512,       /* followed at once; more are counted */
        IN_PROGRESS_MISSES_MAX = 2,  /* scans that do not find one, and no final record: it was killed */
};

/* An operation that a scan has found above its threshold, and that has not returned as far as is known. */
typedef struct InProgress {
        StallEntry entry;
        uint64_t start_ns;
        unsigned n_missed; /* scans running that have not found it */
        bool alerted;
} InProgress;

/* The stalls that last. No I/O in here. */
typedef struct InProgressTable InProgressTable;

int in_progress_table_new(InProgressTable **ret);
InProgressTable *in_progress_table_free(InProgressTable *t);
DEFINE_CLEANUP_FUNC(InProgressTable, in_progress_table_free)

/* A scan consists of these: begin; for each record find, which brings a known one up to date, or if that returns NULL
 * add; end, which drops those that are gone unless the scan was cut short. */
void in_progress_begin(InProgressTable *t);
InProgress *in_progress_find(InProgressTable *t, const struct stall *record);
/* Returns -ENOBUFS if there are too many. */
int in_progress_add(InProgressTable *t, uint64_t id, uint64_t start_realtime_us, const char *unit,
                    const struct stall *record, InProgress **ret);
void in_progress_end(InProgressTable *t, bool complete);

/* The one whose final record this is, NULL if it was not found by a scan before. */
InProgress *in_progress_match(InProgressTable *t, const struct stall *record);
void in_progress_remove(InProgressTable *t, InProgress *p);

size_t in_progress_count(const InProgressTable *t);
InProgress *in_progress_get(InProgressTable *t, size_t i);

/* How many were not followed because there were too many; of those of one scan and the next most are the same. */
uint64_t in_progress_dropped(const InProgressTable *t);
