/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <systemd/sd-event.h>

#include "query.h"
#include "util.h"

enum {
        STALLS_KEPT_MAX = 512, /* the newest; older ones are in the journal, if they were alerted */
};

typedef struct StallEntry {
        uint64_t id; /* 0: none, it is only traced */
        uint64_t start_realtime_us;
        char *unit;
        StallOwner owners[STALL_OWNERS_MAX]; /* empty unless set by who keeps the books of transactions */
        size_t n_owners;
        bool in_progress;
        struct stall record;
} StallEntry;

/* Takes a record over, whose strings the kernel's side need not have ended. */
static inline void stall_entry_set_record(StallEntry *e, const struct stall *record) {
        e->record = *record;
        e->record.comm[COMM_LEN - 1] = 0;
        e->record.file_parent[FILE_PARENT_LEN - 1] = 0;
        e->record.file_name[FILE_NAME_LEN - 1] = 0;
}

static inline void stall_entry_forget_owners(StallEntry *e) {
        for (size_t i = 0; i < e->n_owners; i++)
                free(e->owners[i].unit);
        e->n_owners = 0;
}

/* Copies the first of these, largest first, in place of those that were set before. */
static inline int stall_entry_set_owners(StallEntry *e, const StallOwner *owners, size_t n) {
        stall_entry_forget_owners(e);
        for (size_t i = 0; i < MIN(n, (size_t) STALL_OWNERS_MAX); i++) {
                e->owners[i] = (StallOwner){ strdup(owners[i].unit), owners[i].share };
                if (!e->owners[i].unit)
                        return -ENOMEM;
                e->n_owners++;
        }

        return 0;
}

/* Frees what an entry holds. */
static inline void stall_entry_done(StallEntry *e) {
        stall_entry_forget_owners(e);
        free(e->unit);
        *e = (StallEntry){};
}

/* Reads the ring buffer of stalls, and remembers the newest ones. */
typedef struct StallLog StallLog;

typedef int (*stall_log_callback)(const struct stall *record, void *userdata);

/* Calls back for each record that comes, from the event loop; with a flood of them other sources get their turn in
 * between. map_fd is borrowed. */
int stall_log_new(StallLog **ret, sd_event *e, int map_fd, stall_log_callback callback, void *userdata);
StallLog *stall_log_free(StallLog *l);
DEFINE_CLEANUP_FUNC(StallLog, stall_log_free)

/* Begins to read, at the first call; half a second later it begins of itself. To be called when it is known what units
 * say about their alerts: what ended while no daemon was there is alerted, too. */
void stall_log_start(StallLog *l);

/* A number for a stall, larger than all before. */
uint64_t stall_log_new_id(StallLog *l);

/* Wall-clock time of the start of the operation that the record is about. */
uint64_t stall_start_realtime_us(const struct stall *record);

/* Remembers a stall under a unit's name, and returns the entry, valid until the next call. */
int stall_log_add(StallLog *l, uint64_t id, uint64_t start_realtime_us, const char *unit, const struct stall *record,
                  StallEntry **ret);

/* The i-th of those that are remembered, in the order in which they ended; NULL behind the last one. */
const StallEntry *stall_log_get(StallLog *l, size_t i);
