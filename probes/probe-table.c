/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "probe-table.h"

#define P(e, prog, logical, tp, args, must) { PROBE_##e, prog, logical, tp, args, must }

const ProbeDef probe_table[] = {
        P(SYNC_ENTER, "sync_enter", "sync-enter", "ext4_sync_file_enter", 0, true),
        P(SYNC_EXIT, "sync_exit", "sync-exit", "ext4_sync_file_exit", 0, true),
        P(WRITEPAGES_RESULT, "writepages_result", "data-written", "ext4_writepages_result", 0, true),
        P(OWN_FLUSH, "own_flush", "flush", "block_bio_queue", 0, true),
        /* iomap_dio_*: since 6.6 */
        P(DIO_BEGIN, "dio_begin", "dio-begin", "iomap_dio_rw_begin", 0, false),
        P(DIO_QUEUED, "dio_queued", "dio-queued", "iomap_dio_rw_queued", 0, false),
        P(DIO_COMPLETE, "dio_complete", "dio-complete", "iomap_dio_complete", 0, false),
        /* contention_*: since 5.19 */
        P(LOCK_BEGIN, "lock_begin", "lock-begin", "contention_begin", 0, true),
        P(LOCK_END, "lock_end", "lock-end", "contention_end", 0, true),
        P(RECLAIM_BEGIN, "reclaim_direct_begin", "reclaim-begin", "mm_vmscan_direct_reclaim_begin", 0, true),
        P(RECLAIM_END, "reclaim_direct_end", "reclaim-end", "mm_vmscan_direct_reclaim_end", 0, true),
        P(MEMCG_RECLAIM_BEGIN, "reclaim_memcg_begin", "memcg-reclaim-begin", "mm_vmscan_memcg_reclaim_begin", 0,
          false),
        P(MEMCG_RECLAIM_END, "reclaim_memcg_end", "memcg-reclaim-end", "mm_vmscan_memcg_reclaim_end", 0, false),
        P(THROTTLE, "throttle", "throttle", "balance_dirty_pages", 8, true),
        P(THROTTLE, "throttle_12", "throttle", "balance_dirty_pages", 12, true),
        P(COMMIT_START, "commit_start", "commit-start", "jbd2_start_commit", 0, true),
        P(COMMIT_LOCKING, "commit_locking", "commit-locking", "jbd2_commit_locking", 0, true),
        P(COMMIT_FLUSHING, "commit_flushing", "commit-flushing", "jbd2_commit_flushing", 0, true),
        P(COMMIT_LOGGING, "commit_logging", "commit-logging", "jbd2_commit_logging", 0, true),
        P(COMMIT_END, "commit_end", "commit-end", "jbd2_end_commit", 0, true),
        /* since 6.3: ext4_journal_start was split */
        P(HANDLE_INODE, "handle_inode", "handle-inode", "ext4_journal_start_inode", 0, false),
        P(HANDLE_STATS, "handle_stats", "handle-stats", "jbd2_handle_stats", 0, true),
        /* since 6.5 */
        P(RQ_CREATE, "rq_create", "request-create", "block_io_start", 0, false),
        P(RQ_ISSUE, "rq_issue", "request-issue", "block_rq_issue", 1, true),
        P(RQ_REQUEUE, "rq_requeue", "request-requeue", "block_rq_requeue", 1, true),
        P(RQ_COMPLETE, "rq_complete", "request-complete", "block_rq_complete", 3, true),
        P(CGROUP_BIRTH, "cgroup_birth", "cgroup-birth", "cgroup_mkdir", 0, true),
        P(CGROUP_DEATH, "cgroup_death", "cgroup-death", "cgroup_rmdir", 0, true),
};
const size_t probe_table_size = ELEMENTSOF(probe_table);

const ProbeDef *probe_def_find(enum probe probe) {
        for (size_t i = 0; i < ELEMENTSOF(probe_table); i++)
                if (probe_table[i].probe == probe)
                        return probe_table + i;

        return NULL;
}
