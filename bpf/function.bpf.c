/* SPDX-License-Identifier: GPL-2.0-only */

#include "function.h"

/* Return values are of 32 or 64 bits; errors are the same in both. */
#define RET ((s64) (int) ret)

#if defined(__TARGET_ARCH_arm64)
FUNCTION(__arm64_sys_fsync, 1, open_fd(frame, PROBE_F_SYS_FSYNC, OP_FSYNC, a0),
         function_close(PROBE_F_SYS_FSYNC, RET, PHASE_OTHER))
FUNCTION(__arm64_sys_fdatasync, 1, open_fd(frame, PROBE_F_SYS_FDATASYNC, OP_FDATASYNC, a0),
         function_close(PROBE_F_SYS_FDATASYNC, RET, PHASE_OTHER))
FUNCTION(__arm64_sys_syncfs, 1, open_fd(frame, PROBE_F_SYS_SYNCFS, OP_SYNCFS, a0),
         function_close(PROBE_F_SYS_SYNCFS, RET, PHASE_OTHER))
#else
FUNCTION(__x64_sys_fsync, 1, open_fd(frame, PROBE_F_SYS_FSYNC, OP_FSYNC, a0),
         function_close(PROBE_F_SYS_FSYNC, RET, PHASE_OTHER))
FUNCTION(__x64_sys_fdatasync, 1, open_fd(frame, PROBE_F_SYS_FDATASYNC, OP_FDATASYNC, a0),
         function_close(PROBE_F_SYS_FDATASYNC, RET, PHASE_OTHER))
FUNCTION(__x64_sys_syncfs, 1, open_fd(frame, PROBE_F_SYS_SYNCFS, OP_SYNCFS, a0),
         function_close(PROBE_F_SYS_SYNCFS, RET, PHASE_OTHER))
#endif
FUNCTION(ksys_sync, 0, open_sync(frame, PROBE_F_SYNC), function_close(PROBE_F_SYNC, 0, PHASE_OTHER))
/* It only writes and waits for data. */
FUNCTION(sync_file_range, 4, open_syncrange(frame, PROBE_F_SYNC_FILE_RANGE, a0),
         function_close(PROBE_F_SYNC_FILE_RANGE, RET, PHASE_DATA))
FUNCTION(vfs_fsync_range, 4, (hit(PROBE_F_VFS_FSYNC_RANGE), open_file(frame, PROBE_F_VFS_FSYNC_RANGE, a0, (int) a3, PHASE_OTHER)),
         function_close(PROBE_F_VFS_FSYNC_RANGE, RET, PHASE_OTHER))
FUNCTION(vfs_fsync, 2, (hit(PROBE_F_VFS_FSYNC), open_file(frame, PROBE_F_VFS_FSYNC, a0, (int) a1, PHASE_OTHER)),
         function_close(PROBE_F_VFS_FSYNC, RET, PHASE_OTHER))

#define FS_SYNC(fn, probe) FUNCTION(fn, 4, enter_fs(frame, probe, a0, (int) a3), leave_fs(probe, RET))
FS_SYNC(ext4_sync_file, PROBE_F_EXT4_SYNC_FILE)
FS_SYNC(xfs_file_fsync, PROBE_F_XFS_FILE_FSYNC)
FS_SYNC(xfs_dir_fsync, PROBE_F_XFS_DIR_FSYNC)
FS_SYNC(btrfs_sync_file, PROBE_F_BTRFS_SYNC_FILE)
FS_SYNC(ovl_fsync, PROBE_F_OVL_FSYNC)
FS_SYNC(fuse_fsync, PROBE_F_FUSE_FSYNC)
FS_SYNC(nfs_file_fsync, PROBE_F_NFS_FILE_FSYNC)
FS_SYNC(blkdev_fsync, PROBE_F_BLKDEV_FSYNC)

FRAME(file_write_and_wait_range, PROBE_F_FILE_WRITE_AND_WAIT_RANGE, 3, PHASE_DATA)
FRAME(__filemap_fdatawait_range, PROBE_F_FILEMAP_FDATAWAIT_RANGE, 3, PHASE_DATA)
FRAME(btrfs_wait_ordered_range, PROBE_F_BTRFS_WAIT_ORDERED_RANGE, 3, PHASE_DATA)
FRAME(wb_wait_for_completion, PROBE_F_WB_WAIT_FOR_COMPLETION, 1, PHASE_DATA)

/* The wait for one transaction's commit, with its steps. */
static inline void enter_commit_wait(u64 journal, u32 tid) {
        struct task_op *t = task_op_get(bpf_get_current_task_btf());

        if (!t || t->opener == OPENER_NONE)
                return;
        hit(PROBE_F_JBD2_LOG_WAIT_COMMIT);
        t->journal = journal;
        t->journal_tid = tid;
        frame_push(t, function_id(PROBE_F_JBD2_LOG_WAIT_COMMIT), PHASE_JOURNAL, 0);
}

static inline void leave_commit_wait(void) {
        struct task_op *t = task_op_get(bpf_get_current_task_btf());
        struct journal_value *j;
        u64 now, length, key;
        struct tx *tx;

        if (!t || t->opener == OPENER_NONE)
                return;
        now = bpf_ktime_get_ns();
        length = frame_pop(t, function_id(PROBE_F_JBD2_LOG_WAIT_COMMIT), now);
        if (!length)
                return;
        key = t->journal;
        j = bpf_map_lookup_elem(&journals, &key);
        if (!j)
                return;
        tx = journal_tx(j, t->journal_tid);
        if (tx->tid != t->journal_tid || !tx->start_ns)
                return;
        add_steps(t, j, tx, now - length, now);
}
FUNCTION(jbd2_log_wait_commit, 2, enter_commit_wait(a0, (u32) a1), leave_commit_wait())
enum { ORDERED_WAIT_MIN_NS = 10000 };

/* In the journal's thread, once per file with ordered data: the wait belongs to whose file it is. */
static inline void enter_ordered_data(u64 address) {
        struct task_op *t = task_op_get(bpf_get_current_task_btf());
        struct jbd2_inode *jinode = (struct jbd2_inode *) address;

        if (!t || !t->is_journal_thread)
                return;
        hit(PROBE_F_FINISH_INODE_DATA);
        t->ordered_ns = bpf_ktime_get_ns();
        t->handle_owner = inode_owner(BPF_CORE_READ(jinode, i_vfs_inode));
        if (!t->data_wait_ns)
                t->data_wait_ns = t->ordered_ns;
}

static inline void leave_ordered_data(void) {
        struct task_op *t = task_op_get(bpf_get_current_task_btf());
        struct handle_key key = {};
        struct handle_value *v;

        if (!t || !t->is_journal_thread || !t->ordered_ns)
                return;
        t->data_wait_end_ns = bpf_ktime_get_ns();
        key.dev = t->journal_dev;
        key.tid = t->journal_tid;
        key.owner = t->handle_owner;
        /* Mostly the data is there already; there may be thousands of files. */
        if (t->data_wait_end_ns - t->ordered_ns >= ORDERED_WAIT_MIN_NS) {
                v = handle_get(t, &key, NULL);
                if (v)
                        __sync_fetch_and_add(&v->ordered_ns, t->data_wait_end_ns - t->ordered_ns);
        }
        t->ordered_ns = 0;
        t->handle_owner = OWNER_KERNEL;
}
FUNCTION(jbd2_journal_finish_inode_data_buffers, 1, enter_ordered_data(a0), leave_ordered_data())

/* Every sync of ext4 comes through here, also without fast commits. With them one task does the work, and the others
 * wait for it. */
static inline void enter_fast_commit(u64 journal) {
        struct task_op *t = task_op_get(bpf_get_current_task_btf());
        struct journal_value *j;

        if (!t || t->opener == OPENER_NONE)
                return;
        enter_frame(PROBE_F_EXT4_FC_COMMIT, PHASE_JOURNAL);
        t->fast_owner = OWNER_KERNEL;
        if (BPF_CORE_READ((journal_t *) journal, j_fc_wbufsize) == 0)
                return;
        t->fast_owner = t->key.owner;
        j = bpf_map_lookup_elem(&journals, &journal);
        if (!j)
                return;
        t->journal = journal;
        t->fast_commit = !j->fast_owner;
        if (t->fast_commit)
                j->fast_owner = t->key.owner;
        else
                t->fast_owner = j->fast_owner;
}

static inline void leave_fast_commit(void) {
        struct task_op *t = task_op_get(bpf_get_current_task_btf());
        u64 journal, before, own;
        struct journal_value *j;

        if (!t || t->opener == OPENER_NONE)
                return;
        before = t->phase_ns[PHASE_JOURNAL];
        leave_frame(PROBE_F_EXT4_FC_COMMIT);
        own = t->phase_ns[PHASE_JOURNAL] - before; /* without a full commit inside, which is blamed by itself */
        if (t->fast_owner && own)
                blame_add(t->key.owner, t->fast_owner, t->key.dev, PHASE_JOURNAL, STEP_LOG, own);
        t->fast_owner = OWNER_KERNEL;
        if (t->fast_commit) {
                t->fast_commit = false;
                journal = t->journal;
                j = bpf_map_lookup_elem(&journals, &journal);
                if (j)
                        j->fast_owner = 0;
        }
}
FUNCTION(ext4_fc_commit, 2, enter_fast_commit(a0), leave_fast_commit())
/* A long operation goes on in the next transaction: its handle leaves this one without the event of a handle's end. */
static inline void handle_restart(void) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct jbd2_journal_handle *handle = (void *) task->journal_info;
        transaction_t *transaction = BPF_CORE_READ(handle, h_transaction);
        struct handle_key key = {};

        if (!transaction || (task->flags & PF_KTHREAD))
                return;
        hit(PROBE_F_JOURNAL_RESTART);
        key.dev = BPF_CORE_READ(transaction, t_journal, j_fs_dev, bd_dev);
        key.tid = BPF_CORE_READ(transaction, t_tid);
        key.owner = bpf_get_current_cgroup_id();
        handle_done(task, task_op_create(task), &key, BPF_CORE_READ(handle, h_requested_credits), 0);
}
FUNCTION_ENTRY(jbd2__journal_restart, handle_restart())

/* Where that cannot be attached to (Debian's 7.2): inside it, where a handle also ends that is given back. */
static inline void handle_stop(void) {
        struct jbd2_journal_handle *handle = bpf_get_current_task_btf()->journal_info;

        if (BPF_CORE_READ(handle, h_ref) > 0)
                handle_restart();
}
FUNCTION_ENTRY(stop_this_handle, handle_stop())

FRAME(xfs_log_force_seq, PROBE_F_XFS_LOG_FORCE_SEQ, 4, PHASE_JOURNAL)
FRAME(xfs_log_force, PROBE_F_XFS_LOG_FORCE, 2, PHASE_JOURNAL)
FRAME(btrfs_sync_log, PROBE_F_BTRFS_SYNC_LOG, 3, PHASE_JOURNAL)
FRAME(btrfs_commit_transaction, PROBE_F_BTRFS_COMMIT_TRANSACTION, 1, PHASE_JOURNAL)
FRAME(blkdev_issue_flush, PROBE_F_BLKDEV_ISSUE_FLUSH, 1, PHASE_FLUSH)

/* Waits for a handle or for log space: only reached when there is something to wait for. The transaction is the one that
 * is being closed, or the oldest that still takes space in the log. */
static inline void enter_handle_wait(enum probe fn, u64 address, u32 step) {
        journal_t *journal = (journal_t *) address;
        transaction_t *transaction = step == STEP_LOCKED ? BPF_CORE_READ(journal, j_running_transaction) :
                                                           BPF_CORE_READ(journal, j_checkpoint_transactions);
        struct task_op *t;

        enter_wait(fn, PHASE_JOURNAL, NULL);
        t = task_op_get(bpf_get_current_task_btf());
        if (!t || t->opener == OPENER_NONE)
                return;
        t->wait_tid = transaction ? BPF_CORE_READ(transaction, t_tid) : 0;
        t->wait_dev = BPF_CORE_READ(journal, j_fs_dev, bd_dev);
}

static inline void leave_handle_wait(enum probe fn, u32 step) {
        struct task_op *t = task_op_get(bpf_get_current_task_btf());
        u64 length, step_ns[_STEP_MAX] = {}, owner;

        if (!t || t->opener == OPENER_NONE)
                return;
        length = frame_pop(t, function_id(fn), bpf_ktime_get_ns());
        t->step_ns[step] += length;
        step_ns[step] = length;
        owner = t->key.owner;
        if (length && t->wait_tid)
                wait_add(owner, t->wait_dev, t->wait_tid, step_ns);
        function_close(fn, 0, PHASE_JOURNAL);
}
FUNCTION(wait_transaction_locked, 1, enter_handle_wait(PROBE_F_WAIT_TRANSACTION_LOCKED, a0, STEP_LOCKED),
         leave_handle_wait(PROBE_F_WAIT_TRANSACTION_LOCKED, STEP_LOCKED))
FUNCTION(__jbd2_log_wait_for_space, 1, enter_handle_wait(PROBE_F_JBD2_LOG_WAIT_FOR_SPACE, a0, STEP_CHECKPOINT),
         leave_handle_wait(PROBE_F_JBD2_LOG_WAIT_FOR_SPACE, STEP_CHECKPOINT))
FUNCTION(xlog_grant_head_wait, 4, enter_wait(PROBE_F_XLOG_GRANT_HEAD_WAIT, PHASE_JOURNAL, NULL),
         leave_wait(PROBE_F_XLOG_GRANT_HEAD_WAIT, PHASE_JOURNAL))

/* A locked folio that is not up to date is being read: then the wait is for I/O. */
static inline void enter_folio_lock(u64 address) {
        struct folio *folio = (struct folio *) address;
        struct address_space *mapping = BPF_CORE_READ(folio, mapping);
        struct inode *inode = NULL;
        u64 uptodate = 1ULL << bpf_core_enum_value(enum pageflags, PG_uptodate);

        if (!mapping || ((u64) mapping & 3)) /* anonymous memory */
                return;
        inode = BPF_CORE_READ(mapping, host);
        enter_wait(PROBE_F_FOLIO_LOCK, compat_folio_flags(folio) & uptodate ? PHASE_LOCK : PHASE_IO, inode);
}

static inline void leave_folio_lock(void) {
        struct task_op *t = task_op_get(bpf_get_current_task_btf());

        if (!t)
                return;
        /* Alone it is a read that waits: nobody else holds a folio lock for long. */
        leave_wait(PROBE_F_FOLIO_LOCK, PHASE_IO);
}
FUNCTION(__folio_lock, 1, enter_folio_lock(a0), leave_folio_lock())
FUNCTION(filemap_read_folio, 3,
         enter_wait(PROBE_F_FILEMAP_READ_FOLIO, PHASE_IO, a0 ? BPF_CORE_READ((struct file *) a0, f_inode) : NULL),
         leave_wait(PROBE_F_FILEMAP_READ_FOLIO, PHASE_IO))
FUNCTION(__wait_on_buffer, 1, enter_wait(PROBE_F_WAIT_ON_BUFFER, PHASE_IO, NULL),
         leave_wait(PROBE_F_WAIT_ON_BUFFER, PHASE_IO))
FUNCTION(__lock_buffer, 1, enter_frame(PROBE_F_LOCK_BUFFER, PHASE_LOCK), leave_frame(PROBE_F_LOCK_BUFFER))
FUNCTION(__bio_queue_enter, 2, enter_wait(PROBE_F_BIO_QUEUE_ENTER, PHASE_ADMISSION, NULL),
         leave_wait(PROBE_F_BIO_QUEUE_ENTER, PHASE_ADMISSION))

enum { STACK_DEPTH = 12 };

/* Whether the sleep that begins is one for admission, by the functions on the stack. */
static inline bool waits_for_admission(void *ctx) {
        u64 stack[STACK_DEPTH] = {};

        if (bpf_get_stack(ctx, stack, sizeof(stack), 0) <= 0)
                return false;
        for (int i = 0; i < STACK_DEPTH; i++)
                for (int k = 0; k < ADMISSION_RANGES; k++)
                        if (stack[i] >= admission[k].start && stack[i] < admission[k].end)
                                return true;

        return false;
}

/* All sleeps for I/O end up here. Inside an operation the frame around it says what it is for, unless it is
 * admission, or there is none but the filesystem's. */
static inline void enter_io_schedule(void *ctx) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct task_op *t = task_op_get(task);
        bool idle = !t || t->opener == OPENER_NONE, admitted;
        u32 i, phase;

        if (idle && (task->flags & (PF_KTHREAD | PF_MEMALLOC)))
                return;
        admitted = waits_for_admission(ctx);
        if (idle) {
                enter_wait(PROBE_F_IO_SCHEDULE, admitted ? PHASE_ADMISSION : PHASE_IO, NULL);
                return;
        }
        i = t->n_frames - 1;
        phase = i < FRAMES_MAX ? frame_at(t, i)->phase : PHASE_IO; /* direct I/O has no frame */
        if (admitted)
                enter_frame(PROBE_F_IO_SCHEDULE, PHASE_ADMISSION);
        else if (phase == PHASE_FS || phase == PHASE_OTHER)
                enter_frame(PROBE_F_IO_SCHEDULE, PHASE_IO);
}
FUNCTION(io_schedule, 0, enter_io_schedule(ctx), leave_wait(PROBE_F_IO_SCHEDULE, PHASE_IO))

/* Called when a task has dirtied its share; sleeps only if there is too much of it. */
static inline void leave_throttle(void) {
        struct task_op *t = task_op_get(bpf_get_current_task_btf());
        u64 id = function_id(PROBE_F_BALANCE_DIRTY_PAGES);

        if (!t || t->opener == OPENER_NONE)
                return;
        if (t->opener == id && !t->throttled) {
                op_forget(t);
                return;
        }
        t->throttled = false;
        leave_wait(PROBE_F_BALANCE_DIRTY_PAGES, PHASE_THROTTLE);
}

static inline void enter_throttle(void) {
        struct task_op *t;

        enter_wait(PROBE_F_BALANCE_DIRTY_PAGES, PHASE_THROTTLE, NULL);
        t = task_op_get(bpf_get_current_task_btf());
        if (t)
                t->throttled = false;
}
FUNCTION(balance_dirty_pages, 3, enter_throttle(), leave_throttle())

/* Returns whether blk-throttle has taken the bio, to submit it later from a worker of its own. */
static inline void leave_throtl_bio(u64 bio, bool taken) {
        struct task_op *t = task_op_get(bpf_get_current_task_btf());
        struct held first = {}, *h;
        u64 id, *old;

        if (!taken || !bio || !t || t->opener == OPENER_NONE)
                return;
        hit(PROBE_F_BLK_THROTL_BIO);
        id = op_id(t);
        old = bpf_map_lookup_elem(&held_bios, &bio);
        if (old && *old == id)
                return; /* seen by another generation */
        if (bpf_map_update_elem(&held_bios, &bio, &id, BPF_ANY) < 0) {
                lost(LOSS_HELD_BIOS);
                return;
        }
        t->has_held_bios = true;
        bpf_map_update_elem(&held_ops, &id, &first, BPF_NOEXIST);
        h = bpf_map_lookup_elem(&held_ops, &id);
        if (!h)
                lost(LOSS_HELD_BIOS);
        else if (__sync_fetch_and_add(&h->n, 1) == 0)
                h->since_ns = bpf_ktime_get_ns();
}

SEC("fexit/__blk_throtl_bio")
int fx___blk_throtl_bio(u64 *ctx) {
        leave_throtl_bio(ctx[0], (bool) ctx[1]);
        return 0;
}

FUNCTION(iomap_dio_complete, 1, enter_dio_complete((struct iomap_dio *) a0), leave_dio_complete(a0, ret))

/* --- Operations=write,read: every buffered one, for those who want to pay for it --- */

static inline void enter_rw(void *ctx, enum probe fn, u64 kiocb_address, enum op op) {
        struct kiocb *iocb = (struct kiocb *) kiocb_address;
        struct task_struct *task = bpf_get_current_task_btf();
        int flags = BPF_CORE_READ(iocb, ki_flags);
        struct task_op *t;

        if (flags & IOCB_DIRECT)
                return;
        t = task_op_create(task);
        if (!t || !function_must_open(t, task, fn, kiocb_address, (u64) ctx, /* syscall= */ false))
                return;
        hit(fn);
        function_open(t, task, fn, kiocb_address, (u64) ctx, PHASE_FS);
        key_set_current(t, task, op == OP_WRITE && (flags & (IOCB_DSYNC | IOCB_SYNC)) ? OP_SYNCWRITE : op);
        t->key.async = (task->flags & PF_IO_WORKER) || BPF_CORE_READ(iocb, ki_complete) != NULL;
        if (worker_kind(task) == WORKER_LOOP)
                t->key.origin = ORIGIN_LOOP;
        key_set_inode(t, BPF_CORE_READ(iocb, ki_filp, f_inode));
}

static inline void leave_rw(enum probe fn, s64 ret) {
        struct task_op *t = task_op_get(bpf_get_current_task_btf());

        if (!t || t->opener != function_id(fn))
                return;
        if (ret == -EAGAIN) /* not without waiting: it will be tried again by a worker */
                op_forget(t);
        else
                function_close(fn, ret, PHASE_FS);
}

#define FS_RW(fn, probe, op) FUNCTION(fn, 2, enter_rw(frame, probe, a0, op), leave_rw(probe, ret))
FS_RW(ext4_file_write_iter, PROBE_F_EXT4_WRITE, OP_WRITE)
FS_RW(ext4_file_read_iter, PROBE_F_EXT4_READ, OP_READ)
FS_RW(xfs_file_write_iter, PROBE_F_XFS_WRITE, OP_WRITE)
FS_RW(xfs_file_read_iter, PROBE_F_XFS_READ, OP_READ)
FS_RW(btrfs_file_write_iter, PROBE_F_BTRFS_WRITE, OP_WRITE)
FS_RW(btrfs_file_read_iter, PROBE_F_BTRFS_READ, OP_READ)
FS_RW(ovl_write_iter, PROBE_F_OVL_WRITE, OP_WRITE)
FS_RW(ovl_read_iter, PROBE_F_OVL_READ, OP_READ)
