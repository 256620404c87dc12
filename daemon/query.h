/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the interfaces (bus, later varlink and metrics) may ask of the daemon. They know nothing of maps. All
 * functions return 0 or a negative errno; strings in callbacks belong to the daemon and are valid during the call. */

#include "abi.h"
#include "util.h"

/* "MAJ:MIN" of a kernel's dev_t. */
enum { DEVICE_TEXT_MAX = STRLEN("4294967295:4294967295") + 1 };
static inline const char *device_text(uint32_t dev, char buf[static DEVICE_TEXT_MAX]) {
        (void) snprintf(buf, DEVICE_TEXT_MAX, "%u:%u", dev >> 20, dev & 0xfffffU);

        return buf;
}

typedef struct Manager Manager;
typedef struct Trace Trace;

/* One row of List(): the keys of DESIGN.md 6.3. */
typedef struct Row {
        const char *unit;
        const char *user_unit; /* NULL: none */
        const char *op;        /* "fsync", "rq-write", ... */
        const char *phase;     /* "total", "journal", "queue", ... */
        uint32_t dev;          /* kernel dev_t of the filesystem or of the disk */
        const char *fs_type;   /* NULL for requests, or if it is not mounted any more */
        const char *mount_point;
        const char *origin; /* NULL for operations of origin "self" */
        bool is_request;
        bool async;
        uint64_t count;
        uint64_t errors;
        uint64_t bytes;   /* requests only */
        uint64_t untimed; /* requests only, row "device": completions that never were issued (empty flushes) */
        uint64_t sum_ns;
        uint64_t p50_ns;
        uint64_t p90_ns;
        uint64_t p99_ns;
        uint64_t max_ns;
        const uint64_t *owned_bytes; /* requests only: _OWNED_BY_MAX numbers */
        bool has_in_flight;          /* requests only, row "device" */
        double in_flight;            /* how many were with the device at a time, on average */
        const char *const *source;   /* NULL-terminated attach points */
        const struct hist_full *full;     /* one of these, the other is NULL */
        const struct hist_short *shorter;
} Row;

typedef int (*row_callback)(const Row *row, void *userdata);

/* NULL or empty arrays match everything. Units are matched as shell patterns against unit and user unit. */
typedef struct RowFilter {
        char **units;
        char **ops;
        char **phases;
} RowFilter;

/* Calls back for at most limit rows that match, in the order of ids that never change while the daemon lives, from
 * the first one after cursor. *ret_next is the cursor for the next page, 0 if there is none. */
int query_rows(Manager *m, const RowFilter *filter, uint64_t cursor, uint32_t limit, row_callback callback,
               void *userdata, uint64_t *ret_next);

/* As query_rows(), of what was counted in the windows of the history that overlap the span (CLOCK_REALTIME). There
 * may be fewer rows than the limit, even none, and yet a next page. What is covered is set before the first row. */
typedef struct RangeResult {
        uint64_t next;     /* cursor for the next page, 0 if there is none */
        uint64_t first_us; /* what is covered of the span, 0 if nothing is */
        uint64_t last_us;
} RangeResult;
int query_range(Manager *m, const RowFilter *filter, uint64_t since_us, uint64_t until_us, uint64_t cursor,
                uint32_t limit, row_callback callback, void *userdata, RangeResult *ret);

/* Where the oldest window of the history begins, 0 if there is none. */
uint64_t query_history_since(Manager *m);

/* Calls back for each non-empty bucket of the row: inclusive upper edge in ns, UINT64_MAX for the last, and count. */
typedef int (*bucket_callback)(uint64_t upper_ns, uint64_t count, void *userdata);
int row_foreach_bucket(const Row *row, bucket_callback callback, void *userdata);

/* The same for a histogram, all devices together if device ("MAJ:MIN") is empty. Returns -ENOENT if nothing was counted
 * under that unit, op and phase, -EINVAL if op, phase or device is none. */
int query_histogram(Manager *m, const char *unit, const char *op, const char *phase, const char *device,
                    bucket_callback callback, void *userdata);

/* Calls back with each unit name (also "(kernel)" ...) under which something was counted, sorted. */
typedef int (*unit_callback)(const char *unit, void *userdata);
int query_units(Manager *m, unit_callback callback, void *userdata);

/* Summary of one unit. Returns -ENOENT if nothing is known under that name. */
typedef struct UnitSummary {
        const char *unit;
        const char *control_group;           /* below the root of the hierarchy, NULL if it is gone */
        const char *description;             /* NULL if no manager told */
        uint64_t step_ns[_STEP_MAX];         /* journal steps, all operations */
        uint64_t current_ids;                /* number of live cgroups below it that were counted */
        const char *current_invocation_id;   /* 32 hex digits or NULL */
} UnitSummary;
int query_unit(Manager *m, const char *unit, UnitSummary *ret);

/* As query_rows(), restricted to one unit and to its cgroups that exist now: the present invocation. */
int query_unit_current_rows(Manager *m, const char *unit, row_callback callback, void *userdata);

/* Name of the unit that the process belongs to; the caller frees it. -ESRCH if there is no such process, -ENOENT if
 * it is in no unit of the default hierarchy. */
int query_unit_by_pid(Manager *m, uint32_t pid, char **ret);

/* Rows of "probes": kind "probe", "loss", "blind", "floor" (what an empty program takes) or "bias" (what measuring adds
 * to an operation or request). */
typedef struct ProbeRow {
        const char *kind;
        const char *probe;    /* logical probe, name of the loss counter, title of the blind spot, or operation */
        const char *attached; /* "tp_btf:NAME", NULL if absent */
        const char *reason;   /* why absent or degraded; text of a blind spot; else NULL */
        const char *state;    /* "ok", "degraded", "absent"; NULL for "floor" and "bias" */
        uint64_t hits;        /* for kind "loss": what was lost; not for "floor" and "bias" */
        uint64_t misses;
        bool has_ns; /* for kinds "probe" and "floor" */
        uint64_t ns_per_hit;
        uint64_t sampled_hits; /* by so many it is known */
        bool has_rate; /* for kind "probe" */
        double hits_per_sec;
        double cpu_share; /* 0..1 of one CPU; if has_ns, too */
        const char *phase; /* for kind "bias": "total", "queue", "device" */
        uint64_t added_ns;
        uint64_t p50_ns;
        double share; /* of p50_ns */
} ProbeRow;
typedef int (*probe_callback)(const ProbeRow *row, void *userdata);
int query_probes(Manager *m, probe_callback callback, void *userdata);

enum {
        STALL_OWNERS_MAX = 8,
};

/* Who had which part in the transaction that a stall waited for. */
typedef struct StallOwner {
        char *unit;
        double share; /* 0..1 */
} StallOwner;

/* Stalls (2.7), also those in progress, that began at since_realtime_us or later; in the order of their beginning. */
typedef struct StallRow {
        uint64_t id;
        uint64_t start_realtime_us;
        const char *unit;
        const char *op;
        const char *state; /* "in-progress", "done", "failed" */
        bool in_progress;
        const char *error; /* "EIO" or NULL */
        const char *dominant_phase; /* in progress: the one that it is in */
        const char *mount_point;
        const StallOwner *owners; /* of the transaction waited for, largest first */
        size_t n_owners;          /* 0: not known */
        const struct stall *record;
} StallRow;
typedef int (*stall_callback)(const StallRow *row, void *userdata);
/* The last components of the file's path, as far as they are known; NULL if they are not. */
enum { STALL_FILE_MAX = FILE_PARENT_LEN + FILE_NAME_LEN + 1 };
const char *stall_file(const struct stall *record, char buf[static STALL_FILE_MAX]);

int query_stalls(Manager *m, uint64_t since_realtime_us, uint32_t limit, stall_callback callback, void *userdata);

/* Who made whom wait (2.5), the largest first. */
typedef struct BlamedRow {
        const char *victim;
        const char *culprit;
        const char *phase; /* "journal", ...; "queue" for that part of requests */
        const char *step;  /* NULL: none */
        uint32_t dev;      /* 0: none */
        const char *mount_point;
        uint64_t sum_ns;
        bool estimated;
        const char *weight; /* by what it was divided: "handles", ... */
} BlamedRow;
typedef int (*blamed_callback)(const BlamedRow *row, void *userdata);

/* Only those that waited under the name unit, unless it is empty. 0 and UINT64_MAX: everything there was at the start
 * and since; else what the windows of the history that overlap that time have. */
int query_blame(Manager *m, const char *unit, uint64_t since_realtime_us, uint64_t until_realtime_us, uint32_t limit,
                blamed_callback callback, void *userdata);
/* Where one subscribes to single operations. */
Trace *query_trace(Manager *m);

const char *query_tier(Manager *m);        /* "tracepoint" */
bool query_degraded(Manager *m);           /* something was lost, or a probe that should be there is not */
uint64_t query_lost(Manager *m);           /* sum of the loss counters and of skipped probe hits */
uint64_t query_since_realtime_us(Manager *m);
