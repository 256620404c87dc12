/* SPDX-License-Identifier: GPL-2.0-only */

/* Iterators that the daemon reads from their pins: operations that have not returned yet, and which of the counted
 * elements have changed lately, so that it need not read all of them every second. */

/* What the scan works in, and what it leaves behind; one reader, the daemon. */
struct scan {
        u64 n_open; /* operations in flight, of any age, that scans have come across */
        struct stall stall;
};

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, 1);
        __type(key, u32);
        __type(value, struct scan);
} scans SEC(".maps");

/* The shortest time after which any operation is of interest. */
static inline u64 scan_limit(void) {
        u32 zero = 0;
        struct settings *s = bpf_map_lookup_elem(&settings, &zero);

        return s ? min_u64(min_u64(s->sync_record_ns >> 1, s->write_record_ns >> 1), s->owner_floor_ns >> 1) << 1 :
                   ~0ULL;
}

/* The journal's present commit, if that is what the task waits for. */
static inline void scan_transaction(struct stall *st, struct task_op *t) {
        u64 key = t->journal;
        struct journal_value *j = bpf_map_lookup_elem(&journals, &key);
        struct tx *tx;

        if (!j)
                return;
        tx = journal_tx(j, t->journal_tid);
        st->journal_dev = j->dev;
        if (tx->tid == t->journal_tid)
                st->tx = *tx;
        else
                st->tx.tid = t->journal_tid;
}

/* The commit under way of the transaction that the file's last change is in, or the one before it: somebody may have
 * changed the file again meanwhile. */
static inline struct tx *scan_commit(struct task_op *t, u32 *ret_dev) {
        struct inode *inode = (struct inode *) t->identity;
        struct ext4_inode_info *ei = (void *) inode - bpf_core_field_offset(struct ext4_inode_info, vfs_inode);
        struct ext4_sb_info *sbi = BPF_CORE_READ(inode, i_sb, s_fs_info);
        u64 key = (u64) BPF_CORE_READ(sbi, s_journal);
        u32 tid = t->datasync ? BPF_CORE_READ(ei, i_datasync_tid) : BPF_CORE_READ(ei, i_sync_tid);
        struct journal_value *j = bpf_map_lookup_elem(&journals, &key);
        struct tx *tx;

        if (!j)
                return NULL;
        *ret_dev = j->dev;
        tx = journal_tx(j, tid);
        if (tx->tid == tid && tx->start_ns && !tx->end_ns)
                return tx;
        tx = journal_tx(j, tid - 1);

        return tx->tid == tid - 1 && tx->start_ns && !tx->end_ns ? tx : NULL;
}

/* In the tracepoint tier nothing marks the beginning of a wait: data, until a write to the file was completed and the
 * commit is under way, or the file's own flush. Moves *since to where the phase began. */
static inline u32 scan_derived_phase(struct stall *st, struct task_op *t, u64 *since) {
        u64 completed;
        struct tx *tx;
        u32 dev = 0;

        if (t->flush_ns > t->start_ns) {
                *since = t->flush_ns;
                return PHASE_FLUSH;
        }
        if (t->opener == OPENER_DIO && !t->sync_open)
                return PHASE_IO;
        if (!t->sync_open)
                return PHASE_OTHER;
        completed = mapping_completed(t->mapping);
        if (t->opener != OPENER_SYNC || t->writepages_ns > max_u64(completed, t->start_ns))
                return PHASE_DATA;
        tx = bpf_core_type_exists(struct ext4_inode_info) ? scan_commit(t, &dev) : NULL; /* else ext4 is not loaded */
        if (!tx)
                return PHASE_DATA;
        *since = max_u64(max_u64(tx->start_ns, completed), max_u64(t->writepages_ns, t->start_ns));
        st->tx = *tx;
        st->journal_dev = dev;

        return PHASE_JOURNAL;
}

/* Phases up to now: what is over, and what each open frame has lasted without those inside it. */
static inline void scan_phases(struct stall *st, struct task_op *t, u64 now) {
        u64 since = t->start_ns, named = 0, before;
        u32 n = t->n_frames, last = function_tier ? PHASE_IO : scan_derived_phase(st, t, &since);

        for (u32 i = 0; i < _PHASE_MAX; i++)
                st->phase_ns[i] = function_tier && i < PHASE_RUNQUEUE ? t->phase_ns[i] : 0;
        for (u32 i = 0; i < FRAMES_MAX && i < n; i++) {
                struct frame *f = &t->frame[i];
                u64 end = i + 1 < n && i + 1 < FRAMES_MAX ? frame_at(t, i + 1)->start_ns : now;
                u32 phase = f->phase;

                if (phase >= _PHASE_MAX)
                        continue;
                if (end - f->start_ns > f->nested_ns && end > f->start_ns)
                        st->phase_ns[phase] += end - f->start_ns - f->nested_ns;
                last = phase;
                since = f->start_ns;
        }
        for (u32 i = 0; i < PHASE_RUNQUEUE; i++)
                named += st->phase_ns[i];
        if (!function_tier && t->sync_open && since > t->start_ns && named < st->total_ns) {
                before = min_u64(since - t->start_ns, st->total_ns - named);
                st->phase_ns[PHASE_DATA] += before;
                named += before;
        }
        if (named < st->total_ns && last < _PHASE_MAX)
                st->phase_ns[last] += st->total_ns - named;
        st->wait_phase = last;
        st->wait_ns = now - since;
}

static inline void scan_fill(struct stall *st, struct op_key *key, u64 start, u64 now) {
        st->end_ns = now;
        st->owner = key->owner;
        st->total_ns = now - start;
        st->dev = key->dev;
        st->op = key->op;
        st->async = key->async;
        st->origin = key->origin;
        st->error = 0;
        st->flags = STALL_IN_PROGRESS;
        __builtin_memset(st->pad, 0, sizeof(st->pad));
}

/* A wait outside of all operations is all there is. */
static inline void scan_alone(struct stall *st, struct task_op *t) {
        u32 phase = t->frame[0].phase;

        for (u32 i = 0; i < _PHASE_MAX; i++)
                st->phase_ns[i] = i == phase ? st->total_ns : 0;
        st->wait_phase = phase;
        st->wait_ns = st->total_ns;
}

enum { SLEEPS_INTERRUPTIBLY = 1 }; /* TASK_INTERRUPTIBLE */

/* Direct I/O that failed before there was anything to complete has no end in the tracepoint tier, and the end of a sync
 * can be missed. The task has gone on to something else, as its way to sleep tells: neither of the two sleeps in this
 * one. (Others do: the sync of a file on FUSE.) Or it is in another system call. */
static inline bool scan_is_left_over(struct task_op *t, struct task_struct *task) {
        if (t->opener == OPENER_FUNCTION + PROBE_F_SYS_FSYNC)
                return compat_syscall_class(task) != SYSCALL_FSYNC;
        if (t->opener == OPENER_FUNCTION + PROBE_F_SYS_FDATASYNC)
                return compat_syscall_class(task) != SYSCALL_FDATASYNC;

        return (t->opener == OPENER_DIO || t->opener == OPENER_SYNC) && (task->__state & SLEEPS_INTERRUPTIBLY);
}

SEC("iter/task")
int scan_tasks(struct bpf_iter__task *ctx) {
        struct task_struct *task = ctx->task;
        u64 now = bpf_ktime_get_ns();
        struct op_key key;
        struct task_op *t;
        struct scan *scan;
        struct stall *st;
        u32 zero = 0;
        u64 start;

        if (!task)
                return 0;
        t = bpf_task_storage_get(&tasks, task, NULL, 0);
        scan = bpf_map_lookup_elem(&scans, &zero);
        if (!t || !scan || (t->opener == OPENER_NONE && !t->alone))
                return 0;
        hit(PROBE_SCAN_TASKS);
        scan->n_open++; /* exactly what in_flight() counts, so before anything is left out */
        if (t->opener == OPENER_DIO && t->key.async) /* found by the other scan */
                return 0;
        if (scan_is_left_over(t, task))
                return 0;
        if (t->opener == OPENER_NONE) {
                alone_key(&key, task, t->frame[0].dev);
                start = t->frame[0].start_ns;
        } else {
                key = t->key;
                start = t->start_ns;
        }
        if (now < start || now - start < scan_limit())
                return 0;

        st = &scan->stall;
        stall_clear_details(st);
        if (t->opener != OPENER_NONE)
                stall_set_details(st, t);
        st->tx.tid = 0;
        st->journal_dev = 0;
        scan_fill(st, &key, start, now);
        if (t->opener != OPENER_NONE)
                scan_phases(st, t, now);
        else
                scan_alone(st, t);
        if (st->wait_phase == PHASE_JOURNAL && function_tier)
                scan_transaction(st, t);
        for (u32 i = 0; i < _STEP_MAX; i++)
                st->step_ns[i] = t->opener != OPENER_NONE ? t->step_ns[i] : 0;
        st->ino = t->opener != OPENER_NONE ? t->ino : 0;
        st->pid = task->tgid;
        st->thread = task->pid;
        bpf_probe_read_kernel_str(st->comm, sizeof(st->comm), task->comm);
        stall_set_file(st, t->opener != OPENER_NONE ? t->dentry : 0, t->ino);
        bpf_seq_write(ctx->meta->seq, st, sizeof(*st));

        return 0;
}

SEC("iter/bpf_map_elem")
int scan_dios(struct bpf_iter__bpf_map_elem *ctx) {
        u64 now = bpf_ktime_get_ns();
        struct dio *d = ctx->value;
        struct op_key key;
        struct scan *scan;
        struct stall *st;
        u32 zero = 0;

        scan = bpf_map_lookup_elem(&scans, &zero);
        if (!ctx->key || !d || !scan)
                return 0;
        hit(PROBE_SCAN_DIOS);
        scan->n_open++;
        if (now < d->start_ns || now - d->start_ns < scan_limit())
                return 0;

        st = &scan->stall;
        stall_clear_details(st);
        key = d->key;
        scan_fill(st, &key, d->start_ns, now);
        for (u32 i = 0; i < _PHASE_MAX; i++)
                st->phase_ns[i] = 0;
        for (u32 i = 0; i < _STEP_MAX; i++)
                st->step_ns[i] = 0;
        st->phase_ns[PHASE_IO] = st->total_ns;
        st->wait_phase = PHASE_IO;
        st->wait_ns = st->total_ns;
        st->ino = d->ino;
        st->pid = d->pid;
        st->thread = d->thread;
        __builtin_memcpy(st->comm, d->comm, sizeof(st->comm));
        stall_set_file(st, d->dentry, d->ino);
        bpf_seq_write(ctx->meta->seq, st, sizeof(*st));

        return 0;
}

SEC("iter/bpf_map_elem")
int changed_ops(struct bpf_iter__bpf_map_elem *ctx) {
        struct op_key *key = ctx->key;
        struct op_value *v = ctx->value;
        struct changed_op out = {};

        if (!key || !v || v->tick + 1 < current_tick())
                return 0;
        hit(PROBE_CHANGED_OPS);
        out.key = *key;
        out.count = v->total.count;
        out.sum_ns = v->total.sum_ns;
        for (int i = 0; i < _PHASE_MAX; i++)
                out.phase_ns[i] = v->phase[i].sum_ns;
        bpf_seq_write(ctx->meta->seq, &out, sizeof(out));

        return 0;
}

SEC("iter/bpf_map_elem")
int changed_rqs(struct bpf_iter__bpf_map_elem *ctx) {
        struct rq_key *key = ctx->key;
        struct rq_value *v = ctx->value;
        struct changed_rq out = {};

        if (!key || !v || v->tick + 1 < current_tick())
                return 0;
        hit(PROBE_CHANGED_RQS);
        out.key = *key;
        out.count = v->device.count;
        out.queue_ns = v->queue.sum_ns;
        out.device_ns = v->device.sum_ns;
        out.bytes = v->bytes;
        bpf_seq_write(ctx->meta->seq, &out, sizeof(out));

        return 0;
}
