/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <systemd/sd-event.h>

#include "options.h"
#include "rows.h"

/* The daemon, as seen over its bus. Every function logs its failures, with these exceptions, which come back
 * without a word: -ENOENT, there is no such unit, and -ESRCH, no such process. */

typedef struct Query Query;

int query_new(const Options *o, Query **ret);
Query *query_free(Query *q);
DEFINE_CLEANUP_FUNC(Query, query_free)

/* Rows of all units that match one of the patterns; NULL or empty lists match everything. Sorted. A pattern with
 * no wildcard in it is a name. */
int query_rows(Query *q, char **patterns, char **ops, char **phases, Rows *ret);

/* Part of the time, CLOCK_REALTIME us. */
typedef struct Range {
        uint64_t since_us; /* 0: from the beginning */
        uint64_t until_us; /* UINT64_MAX: up to now */
} Range;

/* As query_rows() for all units; the rows have their buckets. */
int query_rows_with_buckets(Query *q, char **ops, Rows *ret);

/* As query_rows(), of that time only. Returns also which part of it the history covers, 0 and 0 if none. */
int query_rows_range(Query *q, char **patterns, char **ops, char **phases, const Range *range, Rows *ret,
                     Range *ret_covered);

/* Only the latter. */
int query_covered(Query *q, const Range *range, Range *ret_covered);

/* Properties of the manager. */
typedef struct ManagerInfo {
        char *version;
        char *tier;
        bool degraded;
        uint64_t lost;
        uint64_t since_us;
        uint64_t history_since_us; /* 0: there is none */
        uint64_t max_series; /* 0: not told */
        size_t n_units;      /* by query_manager() only */
} ManagerInfo;

int query_manager_properties(Query *q, ManagerInfo *ret);
int query_manager(Query *q, ManagerInfo *ret);
void manager_info_clear(ManagerInfo *i);

/* Bus paths of units. */
int query_unit_path(Query *q, const char *unit, char **ret);
int query_process_path(Query *q, uint32_t pid, char **ret);

typedef struct UnitInfo {
        char *name;
        char *control_group;
        char *description;
        char *invocation_id;
        Pairs journal_steps;
} UnitInfo;

int query_unit_info(Query *q, const char *path, UnitInfo *ret);
void unit_info_clear(UnitInfo *i);

/* Says that there is no such unit and returns the exit code for it. */
int query_log_no_unit(const char *unit);

/* Rows of the present invocation. Sorted. */
int query_unit_current(Query *q, const char *path, Rows *ret);

/* device "" is all devices together. -ENOENT also if nothing was counted under these names. */
int query_histogram(Query *q, const char *unit, const char *op, const char *phase, const char *device,
                    Buckets *ret);

/* One row of GetBlame(). */
typedef struct BlameRow {
        char *victim;
        char *culprit;
        char *phase;
        char *step;
        char *device;
        char *mount_point;
        uint64_t sum_ns;
        bool estimated;
        char *weight;
        uint64_t victim_ns; /* what all culprits together did to the victim: by blame_rows_sort() */
        uint32_t present;
} BlameRow;

typedef struct BlameRows {
        BlameRow *items;
        size_t n;
} BlameRows;

enum {
        BLAME_ROWS_MAX = 100000,
};

/* Appends. unit "" is all victims. */
int query_blame(Query *q, const char *unit, const Range *range, BlameRows *rows);
void blame_rows_clear(BlameRows *rows);
void blame_row_clear(BlameRow *row);
json_object *blame_row_to_json(const BlameRow *row);

/* One row of ListStalls(), or one operation of Trace(). */
typedef struct StallRow {
        uint64_t id;
        uint64_t start_us;
        char *unit;
        char *op;
        char *state;
        char *error;
        uint64_t total_ns;
        char *phase;
        Pairs phases;
        Pairs steps;
        Pairs requests;
        char *device;
        char *mount_point;
        uint32_t transaction;
        UnitShares owners;
        uint64_t wait_ns;
        char *file;
        int32_t pid;
        char *comm;
        int32_t thread;
        /* Of operations only */
        Spans spans;
        Spans journal;
        uint64_t lost;
        uint32_t present;
} StallRow;

typedef struct StallRows {
        StallRow *items;
        size_t n;
} StallRows;

enum {
        STALL_ROWS_MAX = 100000,
};

/* All that began in that time. Oldest first. */
int query_stalls(Query *q, const Range *range, StallRows *ret);
void stall_rows_clear(StallRows *rows);
void stall_row_clear(StallRow *row);
bool stall_row_has(const StallRow *row, size_t offset);
#define STALL_HAS(row, member) stall_row_has(row, offsetof(StallRow, member))
bool stall_is_in_progress(const StallRow *row);
json_object *stall_row_to_json(const StallRow *row);

/* Asks for the operations of a unit ("": all) that took at least that long. They come as signals "Operation". */
int query_trace(Query *q, const char *unit, uint64_t min_ns);
int operation_read(sd_bus_message *signal, StallRow *ret);
json_object *operation_to_json(const StallRow *row);

/* What is to be done while query_run() runs. */
typedef struct QueryWatch {
        const char *signal; /* of the manager */
        sd_bus_message_handler_t on_signal;
        /* The daemon had gone away, and can be asked again: whatever it was asked for before, it knows nothing of. */
        int (*on_back)(void *userdata);
        void *userdata;
} QueryWatch;

/* From now on a daemon that goes away is waited for: that is logged once, and every function that asks it something
 * returns -ECONNRESET without a word. query_run() returns 0 when the user has had enough (SIGINT, SIGTERM, or nobody
 * reads stdout any more). The event loop is there once query_watch() was called. */
int query_watch(Query *q, const QueryWatch *w);
sd_event *query_event(Query *q);
int query_run(Query *q);

/* One row of ListProbes(). */
typedef struct ProbeRow {
        char *probe;
        char *attached;
        char *reason;
        char *state;
        char *kind;
        uint64_t hits;
        uint64_t misses;
        uint64_t ns_per_hit;
        uint64_t sampled_hits;
        double hits_per_sec;
        double cpu_share; /* of one CPU, 1 is all of it */
        char *phase;      /* of kind "bias": which time it is that grows */
        uint64_t added_ns;
        uint64_t p50_ns;
        double share; /* of p50_ns */
        uint32_t present;
} ProbeRow;

typedef struct ProbeRows {
        ProbeRow *items;
        size_t n;
} ProbeRows;

enum {
        PROBES_MAX = 4096,
};

int query_probes(Query *q, ProbeRows *ret);
void probe_rows_clear(ProbeRows *p);
json_object *probe_row_to_json(const ProbeRow *row);
bool probe_row_has(const ProbeRow *row, size_t offset);
#define PROBE_ROW_HAS(row, member) probe_row_has(row, offsetof(ProbeRow, member))

/* Names of units as systemctl takes them: ".service" is appended where there is no suffix. NULL if out of
 * memory. */
char *unit_name_mangle(const char *name);
bool unit_name_is_pattern(const char *name);

/* The arguments as a NULL-terminated list of such names. */
int unit_names_mangle(int n, char **arguments, char ***ret);

/* Whether one of the names or patterns matches; NULL and an empty list match everything. */
bool unit_name_matches(char **patterns, const char *name);
