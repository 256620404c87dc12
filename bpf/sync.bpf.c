/* SPDX-License-Identifier: GPL-2.0-only */

/* Sync operations of ext4, and the edges inside them that tracepoints show. No event marks the end of the wait for
 * data, so `data` ends at the last completion of a write to the file, and what lies between that and the start of
 * the file's own commit is `other`. */

static inline u32 mapping_slot_index(u64 mapping) {
        return (mapping * 0x9e3779b97f4a7c15ULL) >> (64 - 14);
}
_Static_assert(MAPPING_SLOTS == 1 << 14, "index of mapping slots");

static inline void mapping_watch(u64 mapping) {
        u32 i = mapping_slot_index(mapping);
        struct mapping_slot *slot = bpf_map_lookup_elem(&mappings, &i);

        if (slot)
                slot->mapping = mapping;
}

static inline u64 mapping_completed(u64 mapping) {
        u32 i = mapping_slot_index(mapping);
        struct mapping_slot *slot = bpf_map_lookup_elem(&mappings, &i);

        return slot && slot->mapping == mapping ? slot->completed_ns : 0;
}

static inline void sync_begin(struct task_op *t, struct file *file, bool datasync, u64 now) {
        t->sync_open = true;
        t->datasync = datasync;
        t->edge[EDGE_BEGIN] = now;
        t->mapping = (u64) file->f_mapping;
        t->writepages_ns = 0;
        t->flush_ns = 0;
        mapping_watch(*(volatile u64 *) &t->mapping); /* read back it is a number, to calculate with */
}

SEC("tp_btf/ext4_sync_file_enter")
int BPF_PROG(sync_enter, struct file *file, int datasync) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct task_op *t = task_op_create(task);
        u64 now = bpf_ktime_get_ns();
        struct inode *inode;

        if (!file || !file->f_inode)
                return 0;
        inode = file->f_inode;
        hit(PROBE_SYNC_ENTER);
        if (!t)
                return 0;

        /* A direct write with O_(D)SYNC syncs inside its own operation. */
        if (t->opener == OPENER_DIO && t->key.op == OP_SYNCWRITE && t->ino == inode->i_ino &&
            t->key.dev == inode->i_sb->s_dev) {
                enum syscall_class c = compat_syscall_class(task);

                if ((task->flags & PF_KTHREAD) || (c != SYSCALL_FSYNC && c != SYSCALL_FDATASYNC)) {
                        if (!t->sync_open)
                                sync_begin(t, file, datasync, now);
                        return 0;
                }
        }

        if (!op_must_open(t, OPENER_SYNC, (u64) inode))
                return 0;
        if (t->opener == OPENER_SYNC && !(t->held && t->sync_done))
                lost(LOSS_EXIT_MISSED);

        op_open(t, OPENER_SYNC, now);
        t->identity = (u64) inode;
        t->ino = inode->i_ino;
        t->dentry = (u64) file->f_path.dentry;
        t->key.dev = inode->i_sb->s_dev;
        t->run_delay_ns = task->sched_info.run_delay;
        sync_classify(t, task, inode, datasync);
        sync_begin(t, file, datasync, now);

        return 0;
}

/* Finds the edges of the commit that the sync waited for: the one of the transaction that last changed the inode, if
 * it ended within the operation. Otherwise there was none. */
static inline bool sync_commit_edges(struct task_op *t, struct inode *inode, u64 data_end, u64 now, bool datasync) {
        struct ext4_inode_info *ei = (void *) inode - bpf_core_field_offset(struct ext4_inode_info, vfs_inode);
        struct ext4_sb_info *sbi = inode->i_sb->s_fs_info;
        u64 key = (u64) BPF_CORE_READ(sbi, s_journal), start, end;
        struct journal_value *j;
        struct tx *tx, *before;
        u32 tid;

        if (!key)
                return false;
        j = bpf_map_lookup_elem(&journals, &key);
        if (!j)
                return false;
        tid = datasync ? BPF_CORE_READ(ei, i_datasync_tid) : BPF_CORE_READ(ei, i_sync_tid);
        tx = journal_tx(j, tid);
        if (tx->tid != tid || tx->end_ns <= t->edge[EDGE_BEGIN] || tx->end_ns > now) {
                /* Somebody changed the file again while this task waited: then it was the transaction before. */
                tid--;
                tx = journal_tx(j, tid);
                if (tx->tid != tid || tx->end_ns <= data_end || tx->end_ns > now || tx->start_ns <= t->edge[EDGE_BEGIN])
                        return false;
        }
        if (tx->end_ns <= data_end)
                return false;

        end = tx->end_ns;
        start = max_u64(tx->start_ns, data_end);
        before = journal_tx(j, tid - 1);
        if (before->tid == tid - 1 && before->end_ns > data_end && before->end_ns <= end && before->start_ns < tx->start_ns)
                start = data_end; /* waited for the commit before, too */

        t->edge[EDGE_JOURNAL_START] = start;
        t->edge[EDGE_JOURNAL_END] = t->flush_ns >= end ? t->flush_ns : now;

        add_steps(t, j, tx, start, t->edge[EDGE_JOURNAL_END]);

        return true;
}

static inline void sync_edges(struct task_op *t, struct inode *inode, u64 now) {
        u64 begin = t->edge[EDGE_BEGIN], completed = mapping_completed(t->mapping), data_end;

        data_end = max_u64(begin, t->writepages_ns);
        if (completed > data_end && completed <= now)
                data_end = completed;
        t->edge[EDGE_END] = now;
        if (!sync_commit_edges(t, inode, data_end, now, t->datasync)) {
                data_end = t->flush_ns > begin ? t->flush_ns : now;
                t->edge[EDGE_JOURNAL_START] = data_end;
                t->edge[EDGE_JOURNAL_END] = data_end;
        }
        t->edge[EDGE_DATA] = data_end;
        t->sync_open = false;
        t->sync_done = true;
}

SEC("tp_btf/ext4_sync_file_exit")
int BPF_PROG(sync_exit, struct inode *inode, int ret) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct task_op *t = task_op_get(task);
        u64 now;

        hit(PROBE_SYNC_EXIT);
        if (!inode || !t || !t->sync_open || t->ino != inode->i_ino || t->key.dev != inode->i_sb->s_dev)
                return 0;

        now = bpf_ktime_get_ns();
        sync_edges(t, inode, now);
        /* A direct write ends later; a held sync belongs to one that completes in this task. */
        if (t->opener == OPENER_SYNC && !t->held)
                op_close(t, task, now, ret, PHASE_OTHER);

        return 0;
}

SEC("tp_btf/ext4_writepages_result")
int BPF_PROG(writepages_result, struct inode *inode) {
        struct task_op *t = task_op_get(bpf_get_current_task_btf());

        hit(PROBE_WRITEPAGES_RESULT);
        if (inode && t && t->sync_open && t->ino == inode->i_ino && t->key.dev == inode->i_sb->s_dev)
                t->writepages_ns = bpf_ktime_get_ns();

        return 0;
}
