/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "names.h"
#include "source.h"

const char *const *source_of_total(int op) {
        static const char *const sync[] = { "tp_btf:ext4_sync_file_exit", NULL };
        static const char *const sync_write[] = { "tp_btf:ext4_sync_file_exit", "tp_btf:iomap_dio_complete", NULL };
        static const char *const direct[] = { "tp_btf:iomap_dio_complete", NULL };
        static const char *const slow[] = { "planned:balance_dirty_pages", "tp_btf:contention_end", NULL };
        static const char *const frozen[] = { "tp_btf:contention_end", NULL };

        switch (op) {
        case OP_SYNCWRITE:
                return sync_write;
        case OP_DREAD:
        case OP_DWRITE:
                return direct;
        case OP_SLOWWRITE:
                return slow;
        case OP_META:
        case OP_SLOWFAULT:
                return frozen;
        default:
                return sync;
        }
}

const char *const *source_of_phase(int phase) {
        static const char *const table[_PHASE_MAX][4] = {
                [PHASE_DATA] = { "derived:ext4_writepages_result", "derived:block_rq_complete" },
                [PHASE_IO] = { "tp_btf:iomap_dio_complete" },
                [PHASE_THROTTLE] = { "planned:balance_dirty_pages" },
                [PHASE_JOURNAL] = { "derived:jbd2_start_commit", "derived:jbd2_end_commit" },
                [PHASE_FLUSH] = { "derived:block_bio_queue" },
                [PHASE_LOCK] = { "tp_btf:contention_end" },
                [PHASE_FREEZE] = { "tp_btf:contention_end" },
                [PHASE_RECLAIM] = { "tp_btf:mm_vmscan_direct_reclaim_end", "tp_btf:mm_vmscan_memcg_reclaim_end" },
                [PHASE_OTHER] = { "remainder" },
                [PHASE_RUNQUEUE] = { "task:sched_info.run_delay" },
        };
        static const char *const none[] = { NULL };

        return phase >= 0 && phase < _PHASE_MAX ? table[phase] : none;
}

const char *const *source_of_request(int part) {
        static const char *const queue[] = { "tp_btf:block_io_start", "tp_btf:block_rq_issue", NULL };
        static const char *const device[] = { "tp_btf:block_rq_issue", "tp_btf:block_rq_complete", NULL };

        return part == RQ_PART_QUEUE ? queue : device;
}

const BlindSpot blind_spots[] = {
        { "sync", "sync(2) has no tracepoint; only the requests that it causes are seen." },
        { "syncfs", "syncfs(2) has no tracepoint; only the requests that it causes are seen." },
        { "syncrange", "sync_file_range(2) has no tracepoint; only the requests that it causes are seen." },
        { "other filesystems", "Sync operations are seen on ext4 only; on xfs, btrfs, overlayfs, NFS, FUSE, ZFS and "
                               "others just their direct I/O through iomap and their requests are." },
        { "fs phase", "Time in the filesystem's own code cannot be told from waiting for data or the journal." },
        { "admission phase", "Waiting for a request (tags, wbt, iocost, io.max) is part of data, journal or io; no "
                             "tracepoint marks its end." },
        { "buffered writes that wait for a lock or for journal space", "No tracepoint opens an operation for them." },
        { "slow reads and page faults", "No tracepoint marks their end." },
        { "O_SYNC and O_DSYNC buffered writes before their sync", "The operation begins where the filesystem's sync "
                                                                   "begins, after the data was copied." },
        { "AIO fsync", "It runs in a kernel worker that does not know who submitted it: counted under the owner of "
                       "the file's writeback, else (kernel), from when the worker starts." },
        { "io_uring fsync", "Counted from when its worker starts; waiting for a worker is not seen." },
        { "flushes", "A flush of the device cache serves many: counted under (kernel)." },
        { "throttle", "The pause is the planned one, announced before the sleep; counted under the disk, not the "
                      "filesystem." },
        { "user-space locks", "Threads that wait for a thread that syncs are not seen." },
        { "hypervisor and storage network", "What happens behind the device driver is one number: device." },
        { "cgroup v1", "Only cgroups of the default hierarchy are owners; where the memory controller is on v1 "
                       "writeback is counted under (kernel)." },
};
const size_t blind_spots_size = ELEMENTSOF(blind_spots);
