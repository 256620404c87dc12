/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <systemd/sd-event.h>

#include "abi.h"
#include "util.h"

enum {
        STALLS_KEPT_MAX = 512, /* the newest; older ones are in the journal, if they were alerted */
};

typedef struct StallEntry {
        uint64_t id;
        uint64_t start_realtime_us;
        char *unit;
        struct stall record;
} StallEntry;

/* Reads the ring buffer of stalls, and remembers the newest ones. */
typedef struct StallLog StallLog;

typedef int (*stall_log_callback)(const struct stall *record, void *userdata);

/* Calls back for each record that comes, from the event loop. map_fd is borrowed. */
int stall_log_new(StallLog **ret, sd_event *e, int map_fd, stall_log_callback callback, void *userdata);
StallLog *stall_log_free(StallLog *l);
DEFINE_CLEANUP_FUNC(StallLog, stall_log_free)

/* Remembers a stall under a unit's name, and returns the entry, valid until the next call. */
int stall_log_add(StallLog *l, const char *unit, const struct stall *record, const StallEntry **ret);

/* The i-th oldest of those that are remembered, NULL behind the last one. */
const StallEntry *stall_log_get(StallLog *l, size_t i);
