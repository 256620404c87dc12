/* SPDX-License-Identifier: GPL-2.0-only */

/* Direct I/O through iomap: opens in the submitter, is keyed by its kiocb, closes at completion wherever that runs. */

/* Between having got the lock and beginning direct I/O in the same call. */
enum { LOCK_TO_DIO_MAX_NS = 10 * 1000 * 1000 };

/* What its arguments say of a direct I/O, read in the way that the program can. */
struct dio_args {
        u64 kiocb;
        u64 inode;
        u64 ino;
        u64 dentry;
        u32 dev;
        int flags;
        bool async;
        bool write;
};

static inline void dio_fill(struct op_key *key, struct dio_args *a) {
        key->dev = a->dev;
        key->async = a->async;
        key->pad = 0;
        key->origin = ORIGIN_SELF;
        key->owner = OWNER_KERNEL;
        if (!a->write)
                key->op = OP_DREAD;
        else
                key->op = a->flags & (IOCB_DSYNC | IOCB_SYNC) ? OP_SYNCWRITE : OP_DWRITE;

        switch (worker_kind(bpf_get_current_task_btf())) {
        case WORKER_NONE:
                key->owner = bpf_get_current_cgroup_id();
                break;
        case WORKER_LOOP:
                key->origin = ORIGIN_LOOP;
                break;
        default:
                break;
        }
}

static inline void dio_remember(struct task_op *t, u64 kiocb, u64 start, bool nowait) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct dio d = {
                .key = t->key,
                .start_ns = start,
                .ino = t->ino,
                .dentry = t->dentry,
                .pid = task->tgid,
                .thread = task->pid,
                .nowait = nowait,
        };

        bpf_get_current_comm(d.comm, sizeof(d.comm));
        if (!bpf_map_lookup_elem(&dios, &kiocb))
                in_flight(1);
        if (bpf_map_update_elem(&dios, &kiocb, &d, BPF_ANY) < 0) {
                in_flight(-1);
                lost(LOSS_INFLIGHT_DIO_FULL);
        }
}

static inline void dio_open(struct dio_args *a) {
        struct task_struct *task = bpf_get_current_task_btf();
        u64 now = bpf_ktime_get_ns(), start = now, id = a->kiocb;
        struct task_op *t = task_op_create(task);
        bool nowait = a->flags & IOCB_NOWAIT;

        hit(PROBE_DIO_BEGIN);
        if (!t || !op_must_open(t, OPENER_DIO, id))
                return;

        /* A begin without completion is no loss: the call may have failed, or fallen back to the page cache. */
        op_open(t, OPENER_DIO, now);
        t->identity = id;
        t->ino = a->ino;
        t->dentry = a->dentry;
        t->run_delay_ns = task->sched_info.run_delay;
        dio_fill(&t->key, a);
        /* The filesystem takes the inode's lock before it comes here. */
        if (t->lock_inode == a->inode && t->lock_end_ns && now - t->lock_end_ns < LOCK_TO_DIO_MAX_NS) {
                start = t->lock_start_ns;
                t->start_ns = start;
                add_wait(t, start, t->lock_end_ns, 0, PHASE_LOCK);
        }
        t->lock_inode = t->lock_end_ns = 0;
        if (t->key.async) {
                struct dio *old = bpf_map_lookup_elem(&dios, &id);

                /* io_uring tries without waiting and, if that cannot be, again in a worker: one operation. */
                if (old && old->nowait && !nowait && old->ino == t->ino && old->key.dev == t->key.dev)
                        start = old->start_ns;
                dio_remember(t, id, start, nowait);
        }
}

SEC("tp_btf/iomap_dio_rw_begin")
int BPF_PROG(dio_begin, struct kiocb *iocb, struct iov_iter *iter) {
        struct file *file = iocb->ki_filp;
        struct inode *inode = file->f_inode;
        struct dio_args a = {
                .kiocb = (u64) iocb,
                .inode = (u64) inode,
                .ino = inode->i_ino,
                .dentry = (u64) file->f_path.dentry,
                .dev = inode->i_sb->s_dev,
                .flags = iocb->ki_flags,
                .async = iocb->ki_complete != NULL,
                .write = iter->data_source,
        };

        dio_open(&a);
        return 0;
}

/* The submit call of an asynchronous request ends: from here on the submitter does not wait. */
static inline void dio_detach(void) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct task_op *t = task_op_get(task);
        struct dio *d;
        u64 id;

        hit(PROBE_DIO_QUEUED);
        if (!t || t->opener != OPENER_DIO || !t->key.async)
                return;

        id = t->identity;
        d = bpf_map_lookup_elem(&dios, &id);
        if (d) { /* else it has completed already */
                op_split(t, t->start_ns, bpf_ktime_get_ns(), PHASE_IO);
                for (int i = 0; i < _PHASE_MAX; i++)
                        d->phase_ns[i] = i == PHASE_IO ? 0 : t->phase_ns[i];
                d->run_delay_ns = task->sched_info.run_delay - t->run_delay_ns;
                d->rq_count = t->rq_count;
        }
        op_forget(t);
}

SEC("tp_btf/iomap_dio_rw_queued")
int BPF_PROG(dio_queued, struct inode *inode) {
        dio_detach();
        return 0;
}

/* Closes an asynchronous one. Deleting the entry makes its consumer the only one. A function of its own, so that its
 * stack is not that of those that close another way, too. */
static __attribute__((noinline)) int dio_close_async(u64 id, struct dio *d, struct task_op *t, u64 now, int error) {
        struct op_key key = d->key;
        u64 phase_ns[_PHASE_MAX], start = d->start_ns, named = 0, held_ns;
        bool has_sync = t && t->sync_done && t->ino == d->ino && t->key.dev == key.dev &&
                (t->held || (t->opener == OPENER_DIO && t->identity == id));
        char comm[COMM_LEN];
        struct finished f = {
                .key = &key,
                .phase_ns = phase_ns,
                .comm = comm,
                .ino = d->ino,
                .dentry = d->dentry,
                .error = error,
                .pid = d->pid,
                .thread = d->thread,
                .rq_count = d->rq_count,
        };

        /* It completes inside the submit call. */
        if (t && t->opener == OPENER_DIO && t->identity == id)
                f.rq_count = t->rq_count;
        for (int i = 0; i < _PHASE_MAX; i++)
                phase_ns[i] = d->phase_ns[i];
        phase_ns[PHASE_RUNQUEUE] = d->run_delay_ns;
        __builtin_memcpy(comm, d->comm, sizeof(comm));
        if (bpf_map_delete_elem(&dios, &id) < 0)
                return 0;
        in_flight(-1);

        if (now < start) {
                lost(LOSS_NEGATIVE_TIME);
                return 0;
        }
        f.total_ns = now - start;
        if (has_sync) {
                if (!function_tier)
                        __builtin_memset(t->phase_ns, 0, sizeof(t->phase_ns));
                op_split(t, t->edge[EDGE_BEGIN], t->edge[EDGE_END], PHASE_OTHER);
                for (int i = 0; i < PHASE_RUNQUEUE; i++)
                        phase_ns[i] += t->phase_ns[i];
                f.step_ns = t->step_ns;
        }
        for (int i = 0; i < PHASE_RUNQUEUE; i++) {
                held_ns = f.total_ns - named;
                if (phase_ns[i] > held_ns)
                        phase_ns[i] = held_ns;
                named += phase_ns[i];
        }
        phase_ns[PHASE_IO] += f.total_ns - named;
        count_op(&f, now);
        if (has_sync || (t && t->opener == OPENER_DIO && t->identity == id))
                op_forget(t);

        return 0;
}

static inline __attribute__((always_inline)) void dio_close(u64 id, bool is_sync, int error) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct task_op *t = task_op_get(task);
        u64 now = bpf_ktime_get_ns();
        struct dio *d;

        hit(PROBE_DIO_COMPLETE);
        /* The struct kiocb tells which of the two it is: a synchronous one lives on its task's stack, at an address
         * that could have been an asynchronous one's before. */
        if (is_sync) {
                if (t && t->opener == OPENER_DIO && t->identity == id)
                        op_close(t, task, now, error, PHASE_IO);
                return;
        }
        d = bpf_map_lookup_elem(&dios, &id);
        if (d)
                dio_close_async(id, d, t, now, error);
}

SEC("tp_btf/iomap_dio_complete")
int BPF_PROG(dio_complete, struct kiocb *iocb, int error, long ret) {
        dio_close((u64) iocb, iocb->ki_complete == NULL, error >= 0 && ret < 0 ? (int) ret : error);
        return 0;
}

/* Before 6.6 there are no such events, and iomap_dio_rw() has too many arguments for a trampoline of 6.1. */

SEC("kprobe/iomap_dio_rw")
int kp_iomap_dio_rw(struct pt_regs *ctx) {
        struct kiocb *iocb = (struct kiocb *) PT_REGS_PARM1(ctx);
        struct iov_iter *iter = (struct iov_iter *) PT_REGS_PARM2(ctx);
        struct file *file = BPF_CORE_READ(iocb, ki_filp);
        struct inode *inode = BPF_CORE_READ(file, f_inode);
        struct dio_args a = {
                .kiocb = (u64) iocb,
                .inode = (u64) inode,
                .ino = BPF_CORE_READ(inode, i_ino),
                .dentry = (u64) BPF_CORE_READ(file, f_path.dentry),
                .dev = BPF_CORE_READ(inode, i_sb, s_dev),
                .flags = BPF_CORE_READ(iocb, ki_flags),
                .async = BPF_CORE_READ(iocb, ki_complete) != NULL,
                .write = BPF_CORE_READ(iter, data_source),
        };

        dio_open(&a);
        return 0;
}

SEC("kretprobe/iomap_dio_rw")
int kr_iomap_dio_rw(struct pt_regs *ctx) {
        struct task_op *t;

        if ((long) PT_REGS_RC(ctx) == -EIOCBQUEUED) {
                dio_detach();
                return 0;
        }
        t = task_op_get(bpf_get_current_task_btf());
        if (!t || t->opener != OPENER_DIO)
                return 0;
        if ((long) PT_REGS_RC(ctx) > 0)
                op_close(t, bpf_get_current_task_btf(), bpf_ktime_get_ns(), 0, PHASE_IO);
        else /* failed before there was anything to complete: no operation */
                op_forget(t);
        return 0;
}

static inline void enter_dio_complete(struct iomap_dio *dio) {
        struct kiocb *iocb = BPF_CORE_READ(dio, iocb);
        struct task_op *t = task_op_create(bpf_get_current_task_btf());
        struct completing c = {
                .kiocb = (u64) iocb,
                .is_sync = BPF_CORE_READ(iocb, ki_complete) == NULL,
        };
        u64 key = (u64) dio;

        if (bpf_map_update_elem(&completing, &key, &c, BPF_ANY) < 0)
                lost(LOSS_INFLIGHT_DIO_FULL);
        if (t) {
                t->completing = key;
                t->synced_file = 0;
        }
}

static inline void leave_dio_complete(u64 dio, s64 ret) {
        struct task_op *t = task_op_get(bpf_get_current_task_btf());
        struct completing *c, copy;

        if (!dio && t)
                dio = t->completing;
        c = bpf_map_lookup_elem(&completing, &dio);
        if (!c)
                return;
        copy = *c;
        if (bpf_map_delete_elem(&completing, &dio) < 0)
                return;
        if (t)
                t->completing = 0;
        dio_close(copy.kiocb, copy.is_sync, ret < 0 ? (int) ret : 0);
}
