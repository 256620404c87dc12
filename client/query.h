/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

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

/* Properties of the manager. */
typedef struct ManagerInfo {
        char *version;
        char *tier;
        bool degraded;
        uint64_t lost;
        uint64_t since_us;
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

typedef struct Bucket {
        uint64_t upper_ns; /* UINT64_MAX: no limit */
        uint64_t count;
} Bucket;

typedef struct Buckets {
        Bucket *items;
        size_t n;
} Buckets;

enum {
        BUCKETS_MAX = 4096,
};

/* device "" is all devices together. -ENOENT also if nothing was counted under these names. */
int query_histogram(Query *q, const char *unit, const char *op, const char *phase, const char *device,
                    Buckets *ret);
void buckets_clear(Buckets *b);

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

/* Names of units as systemctl takes them: ".service" is appended where there is no suffix. NULL if out of
 * memory. */
char *unit_name_mangle(const char *name);
bool unit_name_is_pattern(const char *name);
