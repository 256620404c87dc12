/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>

#include "names.h"
#include "probe-table.h"
#include "source.h"

int sources_read(Sources *s, Maps *maps) {
        uint32_t key = 0;
        struct meta meta;

        if (bpf_map_lookup_elem(maps->meta, &key, &meta) < 0)
                return -errno;
        memset(s, 0, sizeof(*s));
        s->tier = meta.tier < _TIER_MAX ? meta.tier : TIER_TRACEPOINT;

        for (key = 0; key < _PROBE_MAX; key++) {
                const ProbeDef *def;
                struct probe_info info;

                if (bpf_map_lookup_elem(maps->probe_infos, &key, &info) < 0 || !info.attached)
                        continue;
                def = probe_def_find(key, info.attached);
                if (def)
                        snprintf(s->label[key], sizeof(s->label[key]), "%s:%s", attach_kind_to_string(def->kind),
                                 def->target);
        }

        return 0;
}

typedef struct SourceList {
        const char *prefix; /* instead of the way of attaching; NULL: that */
        signed char probes[SOURCE_NAMES_MAX]; /* ended by -1 */
} SourceList;

#define LIST(...) { .probes = { __VA_ARGS__, -1 } }

static const SourceList total_list[_TIER_MAX][_OP_MAX] = {
        [TIER_TRACEPOINT] = {
                [OP_FSYNC] = LIST(PROBE_SYNC_EXIT),
                [OP_FDATASYNC] = LIST(PROBE_SYNC_EXIT),
                [OP_SYNC] = LIST(-1),
                [OP_SYNCFS] = LIST(-1),
                [OP_SYNCRANGE] = LIST(-1),
                [OP_MSYNC] = LIST(PROBE_SYNC_EXIT),
                [OP_SYNCWRITE] = LIST(PROBE_SYNC_EXIT, PROBE_DIO_COMPLETE),
                [OP_DREAD] = LIST(PROBE_DIO_COMPLETE),
                [OP_DWRITE] = LIST(PROBE_DIO_COMPLETE),
                [OP_SLOWWRITE] = LIST(PROBE_THROTTLE, PROBE_LOCK_END),
                [OP_SLOWREAD] = LIST(-1),
                [OP_SLOWFAULT] = LIST(-1),
                [OP_META] = LIST(PROBE_LOCK_END),
                [OP_WRITE] = LIST(-1),
                [OP_READ] = LIST(-1),
        },
        [TIER_FUNCTION] = {
                [OP_FSYNC] = LIST(PROBE_F_SYS_FSYNC, PROBE_F_VFS_FSYNC_RANGE, PROBE_F_VFS_FSYNC),
                [OP_FDATASYNC] = LIST(PROBE_F_SYS_FDATASYNC, PROBE_F_VFS_FSYNC_RANGE, PROBE_F_VFS_FSYNC),
                [OP_SYNC] = LIST(PROBE_F_SYNC),
                [OP_SYNCFS] = LIST(PROBE_F_SYS_SYNCFS),
                [OP_SYNCRANGE] = LIST(PROBE_F_SYNC_FILE_RANGE),
                [OP_MSYNC] = LIST(PROBE_F_VFS_FSYNC_RANGE),
                [OP_SYNCWRITE] = LIST(PROBE_F_VFS_FSYNC_RANGE, PROBE_DIO_COMPLETE),
                [OP_DREAD] = LIST(PROBE_DIO_COMPLETE),
                [OP_DWRITE] = LIST(PROBE_DIO_COMPLETE),
                [OP_SLOWWRITE] = LIST(PROBE_F_BALANCE_DIRTY_PAGES, PROBE_F_IO_SCHEDULE, PROBE_F_WAIT_TRANSACTION_LOCKED,
                                      PROBE_LOCK_END),
                [OP_SLOWREAD] = LIST(PROBE_F_IO_SCHEDULE, PROBE_F_FOLIO_LOCK, PROBE_F_FILEMAP_READ_FOLIO),
                [OP_SLOWFAULT] = LIST(PROBE_F_IO_SCHEDULE, PROBE_F_FOLIO_LOCK, PROBE_F_FILEMAP_READ_FOLIO),
                [OP_META] = LIST(PROBE_F_IO_SCHEDULE, PROBE_F_WAIT_TRANSACTION_LOCKED, PROBE_F_JBD2_LOG_WAIT_FOR_SPACE,
                                 PROBE_F_XLOG_GRANT_HEAD_WAIT, PROBE_LOCK_END),
                [OP_WRITE] = LIST(PROBE_F_EXT4_WRITE, PROBE_F_XFS_WRITE, PROBE_F_BTRFS_WRITE, PROBE_F_OVL_WRITE),
                [OP_READ] = LIST(PROBE_F_EXT4_READ, PROBE_F_XFS_READ, PROBE_F_BTRFS_READ, PROBE_F_OVL_READ),
        },
};

static const SourceList phase_list[_TIER_MAX][_PHASE_MAX] = {
        [TIER_TRACEPOINT] = {
                [PHASE_DATA] = { "derived", { PROBE_WRITEPAGES_RESULT, PROBE_RQ_COMPLETE, -1 } },
                [PHASE_IO] = LIST(PROBE_DIO_COMPLETE),
                [PHASE_THROTTLE] = { "planned", { PROBE_THROTTLE, -1 } },
                [PHASE_JOURNAL] = { "derived", { PROBE_COMMIT_START, PROBE_COMMIT_END, -1 } },
                [PHASE_ADMISSION] = LIST(-1),
                [PHASE_FLUSH] = { "derived", { PROBE_OWN_FLUSH, -1 } },
                [PHASE_LOCK] = LIST(PROBE_LOCK_END),
                [PHASE_FREEZE] = LIST(PROBE_LOCK_END),
                [PHASE_RECLAIM] = LIST(PROBE_RECLAIM_END, PROBE_MEMCG_RECLAIM_END),
                [PHASE_FS] = LIST(-1),
                [PHASE_OTHER] = LIST(-1),
                [PHASE_RUNQUEUE] = LIST(-1),
        },
        [TIER_FUNCTION] = {
                [PHASE_DATA] = LIST(PROBE_F_FILE_WRITE_AND_WAIT_RANGE, PROBE_F_FILEMAP_FDATAWAIT_RANGE,
                                    PROBE_F_BTRFS_WAIT_ORDERED_RANGE, PROBE_F_WB_WAIT_FOR_COMPLETION),
                [PHASE_IO] = LIST(PROBE_F_IO_SCHEDULE, PROBE_F_FOLIO_LOCK, PROBE_F_FILEMAP_READ_FOLIO,
                                  PROBE_F_WAIT_ON_BUFFER, PROBE_DIO_COMPLETE),
                [PHASE_THROTTLE] = LIST(PROBE_F_BALANCE_DIRTY_PAGES),
                [PHASE_JOURNAL] = LIST(PROBE_F_JBD2_LOG_WAIT_COMMIT, PROBE_F_EXT4_FC_COMMIT,
                                       PROBE_F_XFS_LOG_FORCE_SEQ, PROBE_F_BTRFS_SYNC_LOG,
                                       PROBE_F_BTRFS_COMMIT_TRANSACTION, PROBE_F_WAIT_TRANSACTION_LOCKED),
                [PHASE_ADMISSION] = LIST(PROBE_F_IO_SCHEDULE, PROBE_F_BIO_QUEUE_ENTER, PROBE_F_BLK_THROTL_BIO),
                [PHASE_FLUSH] = LIST(PROBE_F_BLKDEV_ISSUE_FLUSH),
                [PHASE_LOCK] = LIST(PROBE_LOCK_END, PROBE_F_FOLIO_LOCK, PROBE_F_LOCK_BUFFER),
                [PHASE_FREEZE] = LIST(PROBE_LOCK_END),
                [PHASE_RECLAIM] = LIST(PROBE_RECLAIM_END, PROBE_MEMCG_RECLAIM_END),
                [PHASE_FS] = LIST(PROBE_F_EXT4_SYNC_FILE, PROBE_F_XFS_FILE_FSYNC, PROBE_F_BTRFS_SYNC_FILE),
                [PHASE_OTHER] = LIST(-1),
                [PHASE_RUNQUEUE] = LIST(-1),
        },
};

static const SourceList queue_list = LIST(PROBE_RQ_CREATE, PROBE_RQ_ISSUE);
static const SourceList device_list = LIST(PROBE_RQ_ISSUE, PROBE_RQ_COMPLETE);
static const SourceList age_list = LIST(PROBE_WRITEBACK_START);

/* What is derived or planned keeps the tracepoint's name, which is what it comes from. */
static const char *with_prefix(const char *prefix, int probe) {
        static const struct {
                int probe;
                const char *text;
        } table[] = {
                { PROBE_WRITEPAGES_RESULT, "derived:ext4_writepages_result" },
                { PROBE_RQ_COMPLETE, "derived:block_rq_complete" },
                { PROBE_COMMIT_START, "derived:jbd2_start_commit" },
                { PROBE_COMMIT_END, "derived:jbd2_end_commit" },
                { PROBE_OWN_FLUSH, "derived:block_bio_queue" },
                { PROBE_THROTTLE, "planned:balance_dirty_pages" },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (table[i].probe == probe && startswith(table[i].text, prefix))
                        return table[i].text;

        return NULL;
}

static size_t fill(const Sources *s, const SourceList *l, const char *ret[static SOURCE_NAMES_MAX]) {
        size_t n = 0;

        for (const signed char *p = l->probes; *p >= 0 && n < SOURCE_NAMES_MAX - 1; p++) {
                if (!s->label[(int) *p][0])
                        continue;
                ret[n] = l->prefix ? with_prefix(l->prefix, *p) : s->label[(int) *p];
                if (ret[n])
                        n++;
        }
        ret[n] = NULL;

        return n;
}

void sources_of_total(const Sources *s, int op, const char *ret[static SOURCE_NAMES_MAX]) {
        ret[0] = NULL;
        if (op >= 0 && op < _OP_MAX)
                (void) fill(s, &total_list[s->tier][op], ret);
}

void sources_of_phase(const Sources *s, int phase, const char *ret[static SOURCE_NAMES_MAX]) {
        size_t n = 0;

        ret[0] = NULL;
        if (phase >= 0 && phase < _PHASE_MAX)
                n = fill(s, &phase_list[s->tier][phase], ret);
        if (phase == PHASE_OTHER)
                ret[n++] = "remainder";
        else if (phase == PHASE_RUNQUEUE)
                ret[n++] = "task:sched_info.run_delay";
        ret[n] = NULL;
}

void sources_of_request(const Sources *s, int part, const char *ret[static SOURCE_NAMES_MAX]) {
        (void) fill(s, part == RQ_PART_QUEUE ? &queue_list : &device_list, ret);
}

void sources_of_age(const Sources *s, const char *ret[static SOURCE_NAMES_MAX]) {
        (void) fill(s, &age_list, ret);
}

#define TP_ONLY (1 << TIER_TRACEPOINT)
#define BOTH (1 << TIER_TRACEPOINT | 1 << TIER_FUNCTION)

const BlindSpot blind_spots[] = {
        { TP_ONLY, -1, "sync", "sync(2) has no tracepoint; only the requests that it causes are seen." },
        { TP_ONLY, -1, "syncfs", "syncfs(2) has no tracepoint; only the requests that it causes are seen." },
        { TP_ONLY, -1, "syncrange", "sync_file_range(2) has no tracepoint; only the requests that it causes are seen." },
        { TP_ONLY, -1, "other filesystems",
          "Sync operations are seen on ext4 only; on xfs, btrfs, overlayfs, NFS, FUSE, ZFS and others just their direct "
          "I/O through iomap and their requests are." },
        { TP_ONLY, -1, "flushing step",
          "The journal waits for most ordered data after it has begun to log: that part of flushing shows as log." },
        { TP_ONLY, -1, "fs phase",
          "Time in the filesystem's own code cannot be told from waiting for data or the journal." },
        { TP_ONLY, -1, "admission phase",
          "Waiting for a request (tags, wbt, iocost, io.max) is part of data, journal or io; no tracepoint marks its "
          "end." },
        { TP_ONLY, -1, "buffered writes that wait for a lock or for journal space",
          "No tracepoint opens an operation for them." },
        { TP_ONLY, -1, "slow reads and page faults", "No tracepoint marks their end." },
        { TP_ONLY, -1, "throttle",
          "The pause is the planned one, announced before the sleep; counted under the disk, not the filesystem." },
        { BOTH, PROBE_F_EXT4_WRITE, "O_SYNC and O_DSYNC buffered writes before their sync",
          "The operation begins where the filesystem's sync begins, after the data was copied." },
        { BOTH, PROBE_DIO_COMPLETE, "direct I/O",
          "This kernel has no event for it; of direct writes with O_SYNC or O_DSYNC their sync is seen." },
        { BOTH, -1, "AIO fsync",
          "It runs in a kernel worker that does not know who submitted it: counted under the owner of the file's "
          "writeback, else (kernel), from when the worker starts." },
        { BOTH, -1, "io_uring fsync", "Counted from when its worker starts; waiting for a worker is not seen." },
        { BOTH, -1, "flushes", "A flush of the device cache serves many: counted under (kernel)." },
        { 1 << TIER_FUNCTION, PROBE_F_BLK_THROTL_BIO, "io.max",
          "Without trampolines a write that blk-throttle holds back shows as data or io, not as admission." },
        { 1 << TIER_FUNCTION, -1, "direct I/O of some filesystems",
          "Only what goes through the kernel's iomap code is an operation; the rest is seen as requests." },
        { 1 << TIER_FUNCTION, -1, "locks",
          "A call that waits for another lock than that of a file or directory, and for nothing else that opens an "
          "operation, is not seen." },
        { 1 << TIER_FUNCTION, -1, "slow operations",
          "slowread, slowwrite, slowfault and meta count waits, not calls: a call that waits twice counts twice, and "
          "what it does between its waits is not in its total." },
        { BOTH, PROBE_CHANGED_OPS, "estimated blame",
          "This kernel cannot tell which counters have changed: nobody is blamed for data, io, admission, throttle and "
          "queue, nor for waiting for the journal of a filesystem other than ext4." },
        { TP_ONLY, -1, "blame of the flushing step",
          "Whose ordered data the journal waits for is not known: blamed on (kernel)." },
        { BOTH, PROBE_HANDLE_INODE, "journal handles of kernel workers",
          "This kernel has no event that says for whom a worker changes metadata: it counts for nobody, unless nobody "
          "else is in the transaction." },
        { BOTH, -1, "blame of the journals of xfs and btrfs",
          "Who filled the log is not known there: waits for it are blamed on (kernel)." },
        { BOTH, -1, "blame of locks",
          "Only one task that holds the lock of a file or directory for writing is known; for other locks nobody is "
          "blamed." },
        { BOTH, -1, "user-space locks", "Threads that wait for a thread that syncs are not seen." },
        { BOTH, -1, "hypervisor and storage network", "What happens behind the device driver is one number: device." },
        { BOTH, -1, "ZFS", "Its own I/O pipeline is not seen, only the requests that it sends to disks." },
        { BOTH, -1, "memory.high", "Sleeps on the way back to user space are not storage waits, and not seen." },
        { BOTH, -1, "cgroup v1",
          "Only cgroups of the default hierarchy are owners; where the memory controller is on v1 writeback is counted "
          "under (kernel)." },
};
const size_t blind_spots_size = ELEMENTSOF(blind_spots);

bool source_is_blind(const Sources *s, const BlindSpot *b) {
        return (b->tiers & (1U << s->tier)) && (b->unless < 0 || !s->label[b->unless][0]);
}
