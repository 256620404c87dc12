/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "probe-table.h"

#define TP(e, logical, tp, prog, args, need, tiers) \
        { PROBE_##e, logical, ATTACH_TP_BTF, tp, prog, NULL, args, need, tiers }

#define FN(e, logical, fn, need)                                                                             \
        { PROBE_F_##e, logical, ATTACH_FENTRY, #fn, "fe_" #fn, "fx_" #fn, 0, need, FOR_FUNCTION },           \
        { PROBE_F_##e, logical, ATTACH_KPROBE_MULTI, #fn, "km_" #fn, "kx_" #fn, 0, need, FOR_FUNCTION },     \
        { PROBE_F_##e, logical, ATTACH_KPROBE, #fn, "kp_" #fn, "kr_" #fn, 0, need, FOR_FUNCTION }

/* Only where the function begins. */
#define FN_ENTRY(e, logical, fn, need)                                                                       \
        { PROBE_F_##e, logical, ATTACH_FENTRY, #fn, "fe_" #fn, NULL, 0, need, FOR_FUNCTION },                \
        { PROBE_F_##e, logical, ATTACH_KPROBE_MULTI, #fn, "km_" #fn, NULL, 0, need, FOR_FUNCTION },          \
        { PROBE_F_##e, logical, ATTACH_KPROBE, #fn, "kp_" #fn, NULL, 0, need, FOR_FUNCTION }

#define FN_OPTION(e, logical, fn, option)                                                                    \
        { PROBE_F_##e, logical, ATTACH_FENTRY, #fn, "fe_" #fn, "fx_" #fn, 0, OPTIONAL, FOR_FUNCTION, option }, \
        { PROBE_F_##e, logical, ATTACH_KPROBE_MULTI, #fn, "km_" #fn, "kx_" #fn, 0, OPTIONAL, FOR_FUNCTION,   \
          option },                                                                                          \
        { PROBE_F_##e, logical, ATTACH_KPROBE, #fn, "kp_" #fn, "kr_" #fn, 0, OPTIONAL, FOR_FUNCTION, option }

/* Over all tasks, or over the elements of a map; the daemon reads it at its pin. */
#define ITER(e, logical, over, prog) \
        { PROBE_##e, logical, ATTACH_ITER, over, prog, NULL, 0, EXPECTED, FOR_BOTH }

const ProbeDef probe_table[] = {
        TP(SYNC_ENTER, "sync-enter", "ext4_sync_file_enter", "sync_enter", 0, EXPECTED, FOR_TRACEPOINT),
        TP(SYNC_EXIT, "sync-exit", "ext4_sync_file_exit", "sync_exit", 0, EXPECTED, FOR_TRACEPOINT),
        TP(WRITEPAGES_RESULT, "data-written", "ext4_writepages_result", "writepages_result", 0, EXPECTED,
           FOR_TRACEPOINT),
        TP(OWN_FLUSH, "flush", "block_bio_queue", "own_flush", 0, EXPECTED, FOR_BOTH),
        /* iomap_dio_*: since 6.6 */
        TP(DIO_BEGIN, "dio-begin", "iomap_dio_rw_begin", "dio_begin", 0, OPTIONAL, FOR_BOTH),
        { PROBE_DIO_BEGIN, "dio-begin", ATTACH_KPROBE, "iomap_dio_rw", "kp_iomap_dio_rw", "kr_iomap_dio_rw", 0, OPTIONAL,
          FOR_FUNCTION },
        TP(DIO_QUEUED, "dio-queued", "iomap_dio_rw_queued", "dio_queued", 0, OPTIONAL, FOR_BOTH),
        TP(DIO_COMPLETE, "dio-complete", "iomap_dio_complete", "dio_complete", 0, OPTIONAL, FOR_BOTH),
        { PROBE_DIO_COMPLETE, "dio-complete", ATTACH_FENTRY, "iomap_dio_complete", "fe_iomap_dio_complete",
          "fx_iomap_dio_complete", 0, OPTIONAL, FOR_FUNCTION },
        { PROBE_DIO_COMPLETE, "dio-complete", ATTACH_KPROBE, "iomap_dio_complete", "kp_iomap_dio_complete",
          "kr_iomap_dio_complete", 0, OPTIONAL, FOR_FUNCTION },
        /* contention_*: since 5.19 */
        TP(LOCK_BEGIN, "lock-begin", "contention_begin", "lock_begin", 0, EXPECTED, FOR_BOTH),
        TP(LOCK_END, "lock-end", "contention_end", "lock_end", 0, EXPECTED, FOR_BOTH),
        TP(RECLAIM_BEGIN, "reclaim-begin", "mm_vmscan_direct_reclaim_begin", "reclaim_direct_begin", 0, EXPECTED,
           FOR_BOTH),
        TP(RECLAIM_END, "reclaim-end", "mm_vmscan_direct_reclaim_end", "reclaim_direct_end", 0, EXPECTED, FOR_BOTH),
        TP(MEMCG_RECLAIM_BEGIN, "memcg-reclaim-begin", "mm_vmscan_memcg_reclaim_begin", "reclaim_memcg_begin", 0,
           OPTIONAL, FOR_BOTH),
        TP(MEMCG_RECLAIM_END, "memcg-reclaim-end", "mm_vmscan_memcg_reclaim_end", "reclaim_memcg_end", 0, OPTIONAL,
           FOR_BOTH),
        TP(THROTTLE, "throttle", "balance_dirty_pages", "throttle", 8, EXPECTED, FOR_BOTH),
        TP(THROTTLE, "throttle", "balance_dirty_pages", "throttle_12", 12, EXPECTED, FOR_BOTH),
        TP(COMMIT_START, "commit-start", "jbd2_start_commit", "commit_start", 0, EXPECTED, FOR_BOTH),
        TP(COMMIT_LOCKING, "commit-locking", "jbd2_commit_locking", "commit_locking", 0, EXPECTED, FOR_BOTH),
        TP(COMMIT_FLUSHING, "commit-flushing", "jbd2_commit_flushing", "commit_flushing", 0, EXPECTED, FOR_BOTH),
        TP(COMMIT_LOGGING, "commit-logging", "jbd2_commit_logging", "commit_logging", 0, EXPECTED, FOR_BOTH),
        TP(COMMIT_END, "commit-end", "jbd2_end_commit", "commit_end", 0, EXPECTED, FOR_BOTH),
        TP(WRITE_SUPERBLOCK, "journal-superblock", "jbd2_write_superblock", "write_superblock", 0, OPTIONAL, FOR_BOTH),
        /* since 6.3, when ext4_journal_start was split */
        TP(HANDLE_INODE, "handle-inode", "ext4_journal_start_inode", "handle_inode", 0, OPTIONAL, FOR_BOTH),
        TP(HANDLE_STATS, "handle-stats", "jbd2_handle_stats", "handle_stats", 0, EXPECTED, FOR_BOTH),
        /* since 6.5 */
        TP(RQ_CREATE, "request-create", "block_io_start", "rq_create", 0, OPTIONAL, FOR_BOTH),
        TP(RQ_ISSUE, "request-issue", "block_rq_issue", "rq_issue", 1, EXPECTED, FOR_BOTH),
        TP(RQ_REQUEUE, "request-requeue", "block_rq_requeue", "rq_requeue", 1, EXPECTED, FOR_BOTH),
        TP(RQ_COMPLETE, "request-complete", "block_rq_complete", "rq_complete", 3, EXPECTED, FOR_BOTH),
        TP(CGROUP_BIRTH, "cgroup-birth", "cgroup_mkdir", "cgroup_birth", 0, EXPECTED, FOR_BOTH),
        TP(CGROUP_DEATH, "cgroup-death", "cgroup_rmdir", "cgroup_death", 0, EXPECTED, FOR_BOTH),
        TP(WRITEBACK_START, "writeback-start", "writeback_single_inode_start", "writeback_start", 0, EXPECTED,
           FOR_BOTH),
        ITER(SCAN_TASKS, "in-flight", "task", "scan_tasks"),
        ITER(SCAN_DIOS, "in-flight-direct", "dios", "scan_dios"),
        ITER(CHANGED_OPS, "changed-operations", "ops", "changed_ops"),
        ITER(CHANGED_RQS, "changed-requests", "rqs", "changed_rqs"),

#if defined(__aarch64__)
        FN(SYS_FSYNC, "fsync", __arm64_sys_fsync, CORE),
        FN(SYS_FDATASYNC, "fdatasync", __arm64_sys_fdatasync, CORE),
        FN(SYS_SYNCFS, "syncfs", __arm64_sys_syncfs, EXPECTED),
#else
        FN(SYS_FSYNC, "fsync", __x64_sys_fsync, CORE),
        FN(SYS_FDATASYNC, "fdatasync", __x64_sys_fdatasync, CORE),
        FN(SYS_SYNCFS, "syncfs", __x64_sys_syncfs, EXPECTED),
#endif
        FN(SYNC, "sync", ksys_sync, EXPECTED),
        FN(SYNC_FILE_RANGE, "syncrange", sync_file_range, EXPECTED),
        FN(VFS_FSYNC_RANGE, "file-sync", vfs_fsync_range, CORE),
        FN(VFS_FSYNC, "aio-fsync", vfs_fsync, EXPECTED),
        FN(EXT4_SYNC_FILE, "ext4-sync", ext4_sync_file, OPTIONAL),
        FN(XFS_FILE_FSYNC, "xfs-sync", xfs_file_fsync, OPTIONAL),
        FN(XFS_DIR_FSYNC, "xfs-dir-sync", xfs_dir_fsync, OPTIONAL),
        FN(BTRFS_SYNC_FILE, "btrfs-sync", btrfs_sync_file, OPTIONAL),
        FN(OVL_FSYNC, "overlay-sync", ovl_fsync, OPTIONAL),
        FN(FUSE_FSYNC, "fuse-sync", fuse_fsync, OPTIONAL),
        FN(NFS_FILE_FSYNC, "nfs-sync", nfs_file_fsync, OPTIONAL),
        FN(BLKDEV_FSYNC, "blockdev-sync", blkdev_fsync, OPTIONAL),
        FN(FILE_WRITE_AND_WAIT_RANGE, "data-write-wait", file_write_and_wait_range, CORE),
        FN(FILEMAP_FDATAWAIT_RANGE, "data-wait", __filemap_fdatawait_range, EXPECTED),
        FN(BTRFS_WAIT_ORDERED_RANGE, "btrfs-data-wait", btrfs_wait_ordered_range, OPTIONAL),
        FN(WB_WAIT_FOR_COMPLETION, "flusher-wait", wb_wait_for_completion, EXPECTED),
        FN(JBD2_LOG_WAIT_COMMIT, "journal-wait", jbd2_log_wait_commit, OPTIONAL),
        FN(FINISH_INODE_DATA, "ordered-data-wait", jbd2_journal_finish_inode_data_buffers, OPTIONAL),
        FN_ENTRY(JOURNAL_RESTART, "handle-restart", jbd2__journal_restart, OPTIONAL),
        FN_ENTRY(JOURNAL_RESTART, "handle-restart", stop_this_handle, OPTIONAL),
        FN(EXT4_FC_COMMIT, "ext4-fast-commit", ext4_fc_commit, OPTIONAL),
        FN(XFS_LOG_FORCE_SEQ, "xfs-log-force-seq", xfs_log_force_seq, OPTIONAL),
        FN(XFS_LOG_FORCE, "xfs-log-force", xfs_log_force, OPTIONAL),
        FN(BTRFS_SYNC_LOG, "btrfs-log", btrfs_sync_log, OPTIONAL),
        FN(BTRFS_COMMIT_TRANSACTION, "btrfs-commit", btrfs_commit_transaction, OPTIONAL),
        FN(BLKDEV_ISSUE_FLUSH, "flush-wait", blkdev_issue_flush, EXPECTED),
        FN(WAIT_TRANSACTION_LOCKED, "handle-wait", wait_transaction_locked, OPTIONAL),
        FN(JBD2_LOG_WAIT_FOR_SPACE, "log-space-wait", __jbd2_log_wait_for_space, OPTIONAL),
        FN(XLOG_GRANT_HEAD_WAIT, "xfs-log-space-wait", xlog_grant_head_wait, OPTIONAL),
        FN(FOLIO_LOCK, "folio-lock", __folio_lock, EXPECTED),
        FN(FILEMAP_READ_FOLIO, "read-miss", filemap_read_folio, EXPECTED),
        FN(WAIT_ON_BUFFER, "buffer-wait", __wait_on_buffer, EXPECTED),
        FN(LOCK_BUFFER, "buffer-lock", __lock_buffer, EXPECTED),
        FN(BIO_QUEUE_ENTER, "queue-enter", __bio_queue_enter, EXPECTED),
        FN(IO_SCHEDULE, "io-sleep", io_schedule, EXPECTED),
        FN(BALANCE_DIRTY_PAGES, "throttle-sleep", balance_dirty_pages, EXPECTED),
        /* only with trampolines: at a kretprobe the bio is not known any more */
        { PROBE_F_BLK_THROTL_BIO, "io-max", ATTACH_FENTRY, "__blk_throtl_bio", "fx___blk_throtl_bio", NULL, 0, OPTIONAL,
          FOR_FUNCTION },

        FN_OPTION(EXT4_WRITE, "ext4-write", ext4_file_write_iter, OPTION_WRITE),
        FN_OPTION(EXT4_READ, "ext4-read", ext4_file_read_iter, OPTION_READ),
        FN_OPTION(XFS_WRITE, "xfs-write", xfs_file_write_iter, OPTION_WRITE),
        FN_OPTION(XFS_READ, "xfs-read", xfs_file_read_iter, OPTION_READ),
        FN_OPTION(BTRFS_WRITE, "btrfs-write", btrfs_file_write_iter, OPTION_WRITE),
        FN_OPTION(BTRFS_READ, "btrfs-read", btrfs_file_read_iter, OPTION_READ),
        FN_OPTION(OVL_WRITE, "overlay-write", ovl_write_iter, OPTION_WRITE),
        FN_OPTION(OVL_READ, "overlay-read", ovl_read_iter, OPTION_READ),
        { PROBE_DIRTY, "dirty", ATTACH_TP_BTF, "writeback_dirty_folio", "dirty", NULL, 0, OPTIONAL, FOR_BOTH,
          OPTION_DIRTY },
};
const size_t probe_table_size = ELEMENTSOF(probe_table);

const ProbeDef *probe_def_find(enum probe probe, enum attach_kind kind) {
        for (size_t i = 0; i < ELEMENTSOF(probe_table); i++)
                if (probe_table[i].probe == probe && (kind == ATTACH_NONE || probe_table[i].kind == kind))
                        return probe_table + i;

        return NULL;
}

const char *attach_kind_to_string(int kind) {
        static const char *const table[_ATTACH_MAX] = {
                [ATTACH_TP_BTF] = "tp_btf",
                [ATTACH_FENTRY] = "fentry",
                [ATTACH_KPROBE] = "kprobe",
                [ATTACH_KPROBE_MULTI] = "kprobe.multi",
                [ATTACH_ITER] = "iter",
        };

        return kind >= 0 && kind < _ATTACH_MAX ? table[kind] : NULL;
}
