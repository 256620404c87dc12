/* SPDX-License-Identifier: GPL-2.0-only OR LGPL-2.1-or-later */
#pragma once

/* What the BPF programs and user space agree on: the keys and values of the pinned maps.
 * All times are nanoseconds of CLOCK_MONOTONIC unless said otherwise; devices are kernel dev_t numbers
 * (major << 20 | minor). A change of any layout here must change IOLAT_ABI: a loader that finds pins of another
 * ABI does not share their maps. */

#include "bucket.h"

#define IOLAT_ABI 4

enum op {
        OP_FSYNC,
        OP_FDATASYNC,
        OP_SYNC,
        OP_SYNCFS,
        OP_SYNCRANGE,
        OP_MSYNC,
        OP_SYNCWRITE,
        OP_DREAD,
        OP_DWRITE,
        OP_SLOWWRITE,
        OP_SLOWREAD,
        OP_SLOWFAULT,
        OP_META,
        OP_WRITE,
        OP_READ,
        _OP_MAX,
};

enum phase {
        PHASE_DATA,
        PHASE_IO,
        PHASE_THROTTLE,
        PHASE_JOURNAL,
        PHASE_ADMISSION,
        PHASE_FLUSH,
        PHASE_LOCK,
        PHASE_FREEZE,
        PHASE_RECLAIM,
        PHASE_FS,
        PHASE_OTHER,
        PHASE_RUNQUEUE, /* beside the others: not part of the sum */
        _PHASE_MAX,
};

enum journal_step {
        STEP_PREVIOUS,
        STEP_LOCKED,
        STEP_FLUSHING,
        STEP_LOG,
        STEP_RECORD,
        STEP_CHECKPOINT,
        _STEP_MAX,
};

enum rq_kind {
        RQ_READ,
        RQ_WRITE,
        RQ_FLUSH,
        RQ_DISCARD,
        _RQ_KIND_MAX,
};

enum origin {
        ORIGIN_SELF,
        ORIGIN_WRITEBACK,
        ORIGIN_JOURNAL,
        ORIGIN_LOOP,
        ORIGIN_OTHER,
        _ORIGIN_MAX,
};

/* The method by which the owner of a request was found. */
enum owned_by {
        OWNED_BY_TASK,
        OWNED_BY_DIRTIER, /* last one to dirty the file (DirtyTracking=) */
        OWNED_BY_PAGE,
        OWNED_BY_INODE,
        OWNED_BY_BLKCG,
        OWNED_BY_NOBODY, /* owner is (kernel) */
        _OWNED_BY_MAX,
};

enum {
        /* Owner ids are ids of cgroups of the default hierarchy, except these. Ids with OWNER_FOLDED set are made by
         * the daemon for the sums of a unit's cgroups that are gone. */
        OWNER_KERNEL = 0,
};
#define OWNER_FOLDED (1ULL << 63)

/* Each has a name in common/names.c. */
enum loss {
        LOSS_OP_MAP_FULL,
        LOSS_RQ_MAP_FULL,
        LOSS_INFLIGHT_RQ_FULL,
        LOSS_INFLIGHT_DIO_FULL,
        LOSS_TASK_STORAGE,
        LOSS_EXIT_MISSED,
        LOSS_COMPLETION_MISSED,
        LOSS_NEGATIVE_TIME,
        LOSS_JOURNAL_MAP_FULL,
        LOSS_NAME_MAP_FULL,
        LOSS_NAME_TRUNCATED,
        LOSS_STALL_RING_FULL,
        LOSS_HANDLE_SLOT_EMPTY,
        LOSS_HELD_BIOS,
        LOSS_WAIT_MAP_FULL,
        LOSS_BLAME_MAP_FULL,
        LOSS_AGE_MAP_FULL,
        _LOSS_MAX,
};

enum {
        LOSS_SLOTS = 32,   /* of the map, so that new counters need no new ABI */
        PROBE_SLOTS = 128, /* likewise, hit counters */
        NAME_MAX_LEN = 512,
        COMM_LEN = 16,
        TIER_REASON_LEN = 160,
        ADMISSION_RANGES = 8,
        TX_REMEMBERED = 8, /* transactions remembered per journal */
        INTERVALS_MAX = 8, /* waits of one operation that are kept apart; a power of two */
        FILE_PARENT_LEN = 40,
        FILE_NAME_LEN = 72,
};

/* One per program, index of its hit counter. Described in probes/probe-table.c. */
enum probe {
        PROBE_SYNC_ENTER,
        PROBE_SYNC_EXIT,
        PROBE_WRITEPAGES_RESULT,
        PROBE_OWN_FLUSH,
        PROBE_DIO_BEGIN,
        PROBE_DIO_QUEUED,
        PROBE_DIO_COMPLETE,
        PROBE_LOCK_BEGIN,
        PROBE_LOCK_END,
        PROBE_RECLAIM_BEGIN,
        PROBE_RECLAIM_END,
        PROBE_MEMCG_RECLAIM_BEGIN,
        PROBE_MEMCG_RECLAIM_END,
        PROBE_THROTTLE,
        PROBE_COMMIT_START,
        PROBE_COMMIT_LOCKING,
        PROBE_COMMIT_FLUSHING,
        PROBE_COMMIT_LOGGING,
        PROBE_COMMIT_END,
        PROBE_WRITE_SUPERBLOCK,
        PROBE_HANDLE_INODE,
        PROBE_HANDLE_STATS,
        PROBE_RQ_CREATE,
        PROBE_RQ_ISSUE,
        PROBE_RQ_REQUEUE,
        PROBE_RQ_COMPLETE,
        PROBE_CGROUP_BIRTH,
        PROBE_CGROUP_DEATH,
        PROBE_WRITEBACK_START,
        PROBE_SCAN_TASKS,
        PROBE_SCAN_DIOS,
        PROBE_CHANGED_OPS,
        PROBE_CHANGED_RQS,
        /* function tier */
        PROBE_F_SYS_FSYNC,
        PROBE_F_SYS_FDATASYNC,
        PROBE_F_SYS_SYNCFS,
        PROBE_F_SYNC,
        PROBE_F_SYNC_FILE_RANGE,
        PROBE_F_VFS_FSYNC_RANGE,
        PROBE_F_VFS_FSYNC,
        PROBE_F_EXT4_SYNC_FILE,
        PROBE_F_XFS_FILE_FSYNC,
        PROBE_F_XFS_DIR_FSYNC,
        PROBE_F_BTRFS_SYNC_FILE,
        PROBE_F_OVL_FSYNC,
        PROBE_F_FUSE_FSYNC,
        PROBE_F_NFS_FILE_FSYNC,
        PROBE_F_BLKDEV_FSYNC,
        PROBE_F_FILE_WRITE_AND_WAIT_RANGE,
        PROBE_F_FILEMAP_FDATAWAIT_RANGE,
        PROBE_F_BTRFS_WAIT_ORDERED_RANGE,
        PROBE_F_WB_WAIT_FOR_COMPLETION,
        PROBE_F_JBD2_LOG_WAIT_COMMIT,
        PROBE_F_EXT4_FC_COMMIT,
        PROBE_F_XFS_LOG_FORCE_SEQ,
        PROBE_F_XFS_LOG_FORCE,
        PROBE_F_BTRFS_SYNC_LOG,
        PROBE_F_BTRFS_COMMIT_TRANSACTION,
        PROBE_F_BLKDEV_ISSUE_FLUSH,
        PROBE_F_WAIT_TRANSACTION_LOCKED,
        PROBE_F_JBD2_LOG_WAIT_FOR_SPACE,
        PROBE_F_XLOG_GRANT_HEAD_WAIT,
        PROBE_F_FOLIO_LOCK,
        PROBE_F_FILEMAP_READ_FOLIO,
        PROBE_F_WAIT_ON_BUFFER,
        PROBE_F_LOCK_BUFFER,
        PROBE_F_IO_SCHEDULE,
        PROBE_F_BIO_QUEUE_ENTER,
        PROBE_F_BALANCE_DIRTY_PAGES,
        PROBE_F_BLK_THROTL_BIO,
        PROBE_F_FINISH_INODE_DATA,
        PROBE_F_JOURNAL_RESTART,
        /* opt-in */
        PROBE_F_EXT4_WRITE,
        PROBE_F_EXT4_READ,
        PROBE_F_XFS_WRITE,
        PROBE_F_XFS_READ,
        PROBE_F_BTRFS_WRITE,
        PROBE_F_BTRFS_READ,
        PROBE_F_OVL_WRITE,
        PROBE_F_OVL_READ,
        PROBE_DIRTY,
        _PROBE_MAX,
};

struct op_key {
        unsigned long long owner;
        unsigned int dev; /* s_dev of the filesystem */
        unsigned char op;
        unsigned char async;
        unsigned char origin; /* ORIGIN_SELF or ORIGIN_LOOP */
        unsigned char pad;
};

struct hist_full {
        unsigned long long count;
        unsigned long long sum_ns;
        unsigned long long max_ns;
        unsigned long long bucket[BUCKETS_FULL];
};

struct hist_short {
        unsigned long long count;
        unsigned long long sum_ns;
        unsigned long long max_ns;
        unsigned long long bucket[BUCKETS_SHORT];
};

struct op_value {
        unsigned long long folded_from; /* user space only: the owner whose numbers were added last */
        unsigned long long errors;
        unsigned long long tick; /* settings.tick when it changed last */
        unsigned long long requests; /* that were submitted inside the operations, by their own task */
        unsigned long long step_ns[_STEP_MAX];
        struct hist_full total;
        struct hist_short phase[_PHASE_MAX];
};

struct rq_key {
        unsigned long long owner;
        unsigned int dev; /* the disk */
        unsigned char kind;
        unsigned char origin;
        unsigned char pad[2];
};

struct rq_value {
        unsigned long long folded_from; /* as in op_value */
        unsigned long long errors;
        unsigned long long tick; /* as in op_value */
        unsigned long long bytes;
        unsigned long long untimed; /* completed without ever having been issued: empty flushes */
        unsigned long long owned_bytes[_OWNED_BY_MAX];
        struct hist_full queue;
        struct hist_full device;
};

/* cgroup id -> name. Births are recorded by BPF, what is older by a walk of the tree. */
struct cgroup_name {
        unsigned long long died_ns; /* 0: alive */
        unsigned int seen;          /* something was counted under this id */
        unsigned int len;           /* of path, without the NUL */
        unsigned int skip;          /* leading components of path that lie above the loader's cgroup namespace */
        unsigned int pad;
        char path[NAME_MAX_LEN];    /* below the root of the hierarchy; for folded ids "unit\nuserUnit" */
};

struct tx {
        unsigned int tid;
        unsigned int pad;
        unsigned long long start_ns;
        unsigned long long locking_ns;
        unsigned long long flushing_ns;
        unsigned long long logging_ns;
        unsigned long long data_wait_ns; /* waited for ordered data, after logging_ns: function tier only */
        unsigned long long data_wait_end_ns;
        unsigned long long record_ns;
        unsigned long long end_ns;
};

struct journal_value {
        unsigned int dev;
        unsigned int pad;
        unsigned long long fast_owner; /* who runs a fast commit now, 0: nobody */
        struct tx tx[TX_REMEMBERED]; /* slot: tid % TX_REMEMBERED */
};

/* Handles that an owner closed in a transaction, and how it held up the commit. Weights for blame. */
struct handle_key {
        unsigned int dev; /* of the filesystem that owns the journal */
        unsigned int tid;
        unsigned long long owner;
};

struct handle_value {
        unsigned long long started; /* jiffies: tells transactions of the same number apart, of journals on the same
                                     * device one after the other */
        unsigned long long handles;
        unsigned long long requested_blocks;
        unsigned long long dirtied_blocks;
        unsigned long long late_ns;    /* handles were open that long after the commit wanted to begin */
        unsigned long long ordered_ns; /* the commit waited that long for ordered data of its files */
};

/* Several tasks of an owner have a slot each. */
struct handle_slot {
        struct handle_key key; /* tid 0, dev 0: none */
        struct handle_value value;
};

/* Time that an owner waited for a transaction's commit, by step, until the daemon has blamed it on somebody. The time
 * of step `previous` was waited for the transaction before. */
struct wait_key {
        unsigned long long owner;
        unsigned int dev; /* as in handle_key */
        unsigned int tid;
};

struct wait_value {
        unsigned long long step_ns[_STEP_MAX];
};

struct wait_slot {
        unsigned long long number; /* 1 + place, which only grows: written last */
        struct wait_key key;
        struct wait_value value;
};

enum { BLAME_NO_STEP = 0xff };

/* Waits for somebody whom the programs themselves know: the holder of a lock, who runs a fast commit. Taken out by the
 * daemon. */
struct blame_key {
        unsigned long long victim;
        unsigned long long culprit;
        unsigned int dev;
        unsigned char phase;
        unsigned char step; /* or BLAME_NO_STEP */
        unsigned char pad[2];
};

/* How old dirty data was when its writeback began, by owner and s_dev. */
struct age_key {
        unsigned long long owner;
        unsigned int dev;
        unsigned int pad;
};

struct age_value {
        unsigned long long folded_from; /* as in op_value */
        struct hist_short age;
};

/* Written by the daemon, read by BPF. Index 0 of map "settings". Operations at least as long as a limit make a record
 * in the ring of stalls; UINT64_MAX: none does. */
struct settings {
        unsigned long long sync_record_ns;  /* sync operations */
        unsigned long long write_record_ns; /* all others */
        unsigned long long trace_ns;        /* any, for somebody who traces all units */
        unsigned long long owner_floor_ns;  /* the lowest limit in map "owner_settings" */
        unsigned long long tick;            /* counts seconds, see op_value */
        unsigned long long alive_ns;        /* when that was */
};

#define DAEMON_SILENT_NS 10000000000ULL /* then there is none: nobody asks whom to blame */

/* By owner, map "owner_settings": instead of the general limits. */
struct owner_settings {
        unsigned long long sync_record_ns;
        unsigned long long write_record_ns;
        unsigned long long trace_ns;
};

/* A wait that has been measured, inside the operation. */
struct interval {
        unsigned long long start_ns;
        unsigned long long end_ns;
        unsigned long long own_ns; /* without waits nested in it */
        unsigned long long phase;
};

enum {
        STALL_RECORD = 1 << 0,      /* longer than the limit, or failed */
        STALL_TRACE = 1 << 1,       /* somebody traces it */
        STALL_IN_PROGRESS = 1 << 2, /* found by a scan; totals are so far, end_ns is now */
};

/* Ring buffer record of an operation that took too long or failed, and what a scan finds. */
struct stall {
        unsigned long long end_ns;
        unsigned long long owner;
        unsigned long long total_ns;
        unsigned long long phase_ns[_PHASE_MAX];
        unsigned long long step_ns[_STEP_MAX];
        unsigned long long ino;
        unsigned long long wait_ns; /* in progress: how long it has been in wait_phase */
        unsigned long long rq_bytes; /* requests that the waiter submitted itself */
        unsigned long long rq_max_device_ns;
        struct tx tx; /* the transaction waited for; tx.tid 0: none */
        struct interval interval[INTERVALS_MAX];
        unsigned int n_intervals;
        unsigned int rq_count;
        unsigned int dev;
        unsigned int journal_dev; /* handle_key.dev of tx */
        int pid;                  /* thread group of the waiter */
        int thread;
        int error; /* 0 or negative errno */
        unsigned char op;
        unsigned char async;
        unsigned char origin;
        unsigned char flags;      /* STALL_* */
        unsigned char wait_phase; /* in progress: where it waits now */
        unsigned char pad[3];
        char comm[COMM_LEN];
        char file_parent[FILE_PARENT_LEN]; /* names of the file and of its directory, "" if not known */
        char file_name[FILE_NAME_LEN];
};

/* What reading the pinned iterators "changed_ops" and "changed_rqs" gives: elements that changed in this tick or the one
 * before. */
struct changed_op {
        struct op_key key;
        unsigned long long count;
        unsigned long long sum_ns;
        unsigned long long phase_ns[_PHASE_MAX];
};

struct changed_rq {
        struct rq_key key;
        unsigned long long count; /* of part device */
        unsigned long long queue_ns;
        unsigned long long device_ns;
        unsigned long long bytes;
};

/* One value, index 0 of map "meta". */
struct meta {
        unsigned long long since_realtime_us;
        unsigned long long build; /* hash of the BPF object of the generation loaded last */
        unsigned int abi;
        unsigned int generation;
        unsigned int revision; /* of probe_infos, raised when probes are added */
        unsigned int tier;    /* enum tier */
        unsigned int modules; /* bit per symbol of modules, other than functions to attach to, that was there */
        unsigned int options; /* what the loader was asked for, and which tier */
        char wanted_tier[16];
        char tier_reason[TIER_REASON_LEN]; /* why it is not a better one */
};

enum tier {
        TIER_TRACEPOINT,
        TIER_FUNCTION,
        _TIER_MAX,
};

enum attach_kind {
        ATTACH_NONE,
        ATTACH_TP_BTF,
        ATTACH_FENTRY, /* and fexit */
        ATTACH_KPROBE, /* and kretprobe */
        ATTACH_KPROBE_MULTI, /* and its return */
        ATTACH_ITER, /* runs when it is read */
        _ATTACH_MAX,
};

/* Addresses of a function's code. */
struct code_range {
        unsigned long long start;
        unsigned long long end;
};

/* What became of a probe in this generation, by enum probe. Written by the loader. */
struct probe_info {
        unsigned int attached;  /* enum attach_kind */
        unsigned int can_come;  /* there is no such function or tracepoint now, but a module can bring it */
        char reason[120];       /* why not */
};

/* What a probe costs, by enum probe, as "iolat-probes calibrate" measured it while the probe was hit so often. It says
 * nothing of programs of another build, or attached in another way. */
struct probe_cost {
        unsigned long long build; /* as in meta; 0: never measured */
        unsigned long long hits;
        unsigned long long runs; /* of its first program: more than hits, if that often finds nothing to do */
        /* Run time of all those runs together: */
        unsigned long long enter_ns; /* of the program, at a function of the one where that begins */
        unsigned long long exit_ns;  /* at the function's return */
        unsigned long long twin_ns;  /* of further sets of both, where the kernel needs them */
        unsigned int attached;       /* enum attach_kind */
        unsigned int pad;
};

enum {
        COST_FLOOR = PROBE_SLOTS, /* the element behind the probes: an empty program */
        COST_SLOTS,
};
