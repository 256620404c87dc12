/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The last day: what every series grew by, in windows that follow one another. Short ones at first, which are put
 * together to longer ones later. Never more than so many bytes: the oldest windows fall out first. Idle times leave
 * no windows. Times are CLOCK_REALTIME. No I/O is done here. */

#include "history-dict.h"
#include "history-window.h"

enum {
        HISTORY_STALLS_MAX = 512,
        HISTORY_STALL_RECORD_MAX = 16 * 1024, /* bytes */
};

#define HISTORY_INTERVAL_US (10 * USEC_PER_SEC)      /* of a new window */
#define HISTORY_FINE_US (15 * 60 * USEC_PER_SEC)     /* age at which windows are put together */
#define HISTORY_COARSE_US (60 * USEC_PER_SEC)        /* to that length */
#define HISTORY_KEEP_US (24 * 3600 * USEC_PER_SEC)   /* age at which they are dropped */

typedef struct HistoryStall {
        uint64_t id;
        uint64_t start_us;
        uint64_t seq;
        char *unit;
        uint8_t *record; /* as the kernel's side made it, of IOLAT_ABI */
        uint32_t size;
        bool restored; /* from the file: of an earlier run of the daemon */
} HistoryStall;

typedef struct History {
        HistoryDict dict;
        HistoryWindow **windows; /* oldest first */
        size_t n_windows;
        size_t n_windows_allocated;
        size_t windows_bytes;
        HistoryStall *stalls; /* oldest first */
        size_t n_stalls;
        size_t n_stalls_allocated;
        size_t stalls_bytes;
        BlameSet blame; /* of the window that is open */
        uint64_t blame_start_us;
        WindowBuilder builder;
        Buffer scratch;
        uint64_t last_tick_us; /* 0: none yet */
        size_t max_bytes;
        uint64_t fine_us;
        uint64_t coarse_us;
        bool incomplete; /* there are series whose numbers are not known, because they did not fit */

        /* Everything that is to be saved has a number; what has a higher one than saved_seq has not been. */
        uint64_t seq;
        uint64_t saved_seq;
        bool rewrite_wanted; /* what was saved has changed: it is not enough to append */
} History;

int history_new(History **ret, size_t max_bytes);
History *history_free(History *h);
DEFINE_CLEANUP_FUNC(History, history_free)

void history_set_max_bytes(History *h, size_t max_bytes);

/* Bytes in use; never above the maximum after a tick. */
size_t history_bytes(const History *h);

/* Ends a window that began at start_us. The feed calls the functions below for each series that may have changed
 * since the last tick. Returns 1 if there was anything, else 0: then there is no window. */
typedef int (*history_feed)(History *h, void *userdata);
int history_tick(History *h, uint64_t start_us, uint64_t now_us, history_feed feed, void *userdata);

/* The present numbers of a series, within a tick. If they were not known so far, all of them came in this window if
 * the series is fresh; else they are where to count from. That they are also if they went down. */
int history_note_op(History *h, const SeriesKey *key, bool fresh, const struct op_value *now);
int history_note_rq(History *h, const SeriesKey *key, bool fresh, const struct rq_value *now);

/* Forgets the numbers of series that were not noted since the last time. To be called after a tick whose feed went
 * through all series. */
void history_drop_absent(History *h);

/* Adds time that a victim waited because of a culprit to the open window. step -1: none; dev 0: none. */
int history_add_blame(History *h, const char *victim, const char *culprit, int phase, int step, uint32_t dev,
                      int weight, bool estimated, uint64_t ns);

/* Calls back for each entry of each window that overlaps the span, the open one included. */
typedef int (*history_blame_callback)(const BlameEntry *e, void *userdata);
int history_foreach_blame(History *h, uint64_t since_us, uint64_t until_us, history_blame_callback callback,
                          void *userdata);

/* Keeps a stall; one that has the same number and began within the same second, and so was in progress, is
 * replaced. */
int history_add_stall(History *h, uint64_t id, uint64_t start_us, const char *unit, const void *record, size_t size);
typedef int (*history_stall_callback)(const HistoryStall *s, void *userdata);
int history_foreach_stall(History *h, uint64_t since_us, uint64_t until_us, history_stall_callback callback,
                          void *userdata);

/* Where the oldest window begins, 0 if there is none. */
uint64_t history_since(const History *h);

/* The part of the span that is covered: whole windows where it touches some. 0 and 0 if nothing is. */
void history_covered(const History *h, uint64_t since_us, uint64_t until_us, uint64_t *ret_first,
                     uint64_t *ret_last);

/* Numbers of a series over a span. */
typedef struct HistorySum {
        const HistorySeries *series;
        union {
                struct op_value op;
                struct rq_value rq;
        };
} HistorySum;

/* Adds up what the windows that overlap the span know of n series, which are in the order of their numbers. */
int history_sum(History *h, uint64_t since_us, uint64_t until_us, HistorySum *sums, size_t n);

/* For history.c, which keeps to the maximum: there is a stall at least. */
void history_drop_oldest_stall(History *h);

/* For history-file.c: puts a window behind the first *position ones, and frees it if it cannot. */
int history_insert_window(History *h, HistoryWindow *w, size_t *position);
/* Merges, expires, and keeps to the maximum. */
void history_settle(History *h, uint64_t now_us);
