/* SPDX-License-Identifier: GPL-2.0-only */

/* Waits inside an operation that the kernel marks itself: sleeping locks, frozen filesystems, reclaim, throttling.
 * These events also come to tasks that do no storage I/O: leave at once there. */

/* The super block that a percpu_rwsem is part of while it is frozen, NULL if it is in none. The root dentry points
 * back at its super block, which nothing else that might lie around another percpu_rwsem does. */
static inline struct super_block *frozen_sb(void *lock, u32 *ret_level) {
        struct super_block *sb;
        struct dentry *root;

#pragma unroll
        for (int i = 0; i < SB_FREEZE_LEVELS; i++) {
                sb = lock - bpf_core_field_offset(struct super_block, s_writers) -
                        bpf_core_field_offset(struct sb_writers, rw_sem) -
                        i * bpf_core_type_size(struct percpu_rw_semaphore);
                root = BPF_CORE_READ(sb, s_root);
                if (root && BPF_CORE_READ(root, d_sb) == sb && BPF_CORE_READ(sb, s_writers.frozen)) {
                        *ret_level = i;
                        return sb;
                }
        }

        return NULL;
}

/* The inode that a rw_semaphore is the i_rwsem of, NULL if it is none: an inode's mapping points back at it. */
static inline struct inode *locked_inode(void *lock) {
        struct inode *inode = lock - bpf_core_field_offset(struct inode, i_rwsem);
        u32 type;

        if (BPF_CORE_READ(inode, i_data.host) != inode)
                return NULL;
        type = BPF_CORE_READ(inode, i_mode) & S_IFMT;

        return type == S_IFREG || type == S_IFDIR ? inode : NULL;
}

/* Waits for a file or directory that another task holds: reads, writes, creations and so on, of which nothing else may
 * tell. */
static inline void file_lock_begin(struct task_struct *task, void *lock, unsigned int flags) {
        struct inode *inode;
        struct task_op *t;

        if (!function_tier || !(flags & (LCB_F_READ | LCB_F_WRITE)) || (flags & LCB_F_MUTEX) ||
            (task->flags & (PF_KTHREAD | PF_MEMALLOC)))
                return;
        inode = locked_inode(lock);
        if (!inode)
                return;
        t = task_op_create(task);
        if (!t)
                return;
        hit(PROBE_LOCK_BEGIN);
        t->n_frames = 0;
        t->lock_inode = (u64) inode;
        t->lock_owner = rwsem_owner(lock);
        frame_push(t, (u64) lock, PHASE_LOCK, BPF_CORE_READ(inode, i_sb, s_dev));
        alone_begins(t);
}

SEC("tp_btf/contention_begin")
int BPF_PROG(lock_begin, void *lock, unsigned int flags) {
        struct task_struct *task;
        struct super_block *sb;
        struct task_op *t;
        u32 level;

        if (flags & LCB_F_SPIN)
                return 0;

        task = bpf_get_current_task_btf();
        if (flags & LCB_F_PERCPU) {
                sb = frozen_sb(lock, &level);
                if (!sb)
                        return 0;
                hit(PROBE_LOCK_BEGIN);
                t = task_op_create(task);
                if (t) {
                        if (t->opener == OPENER_NONE)
                                t->n_frames = 0;
                        frame_push(t, (u64) lock, PHASE_FREEZE, BPF_CORE_READ(sb, s_dev));
                        if (t->opener == OPENER_NONE)
                                alone_begins(t);
                }
                return 0;
        }

        t = task_op_get(task);
        if (!t || t->opener == OPENER_NONE) {
                file_lock_begin(task, lock, flags);
                return 0;
        }
        hit(PROBE_LOCK_BEGIN);
        t->lock_owner = (flags & (LCB_F_READ | LCB_F_WRITE)) && !(flags & LCB_F_MUTEX) ? rwsem_owner(lock) : 0;
        frame_push(t, (u64) lock, PHASE_LOCK, 0);

        return 0;
}

/* What a wait outside of all operations counts as. */
static inline void alone_key(struct op_key *key, struct task_struct *task, u32 dev) {
        __builtin_memset(key, 0, sizeof(*key));
        key->owner = task_owner(task);
        key->dev = dev;
        key->op = task->flags & PF_KTHREAD ? OP_SLOWWRITE : slow_op(task);
        key->async = (task->flags & PF_IO_WORKER) != 0;
        key->origin = worker_kind(task) == WORKER_LOOP ? ORIGIN_LOOP : ORIGIN_SELF;
}

/* A wait outside of all operations, as of a task that was stopped at the door of a frozen filesystem: the operation is
 * what it waited there. */
static inline void count_alone(struct task_struct *task, u32 phase, u32 dev, u64 length, u64 now) {
        u64 phase_ns[_PHASE_MAX] = {};
        struct op_key key;
        char comm[COMM_LEN];
        struct finished f = {
                .key = &key,
                .total_ns = length,
                .phase_ns = phase_ns,
                .comm = comm,
                .pid = task->tgid,
                .thread = task->pid,
        };

        alone_key(&key, task, dev);
        if (phase < _PHASE_MAX)
                phase_ns[phase] = length;
        bpf_get_current_comm(comm, sizeof(comm));
        count_op(&f, now);
}

/* Whether direct I/O will follow in this call: then the wait is part of that operation. */
static inline bool opens_direct(struct task_op *t, struct task_struct *task) {
        struct file *file = syscall_file(task, slow_op(task));

        return file && (BPF_CORE_READ(file, f_flags) & O_DIRECT) && (u64) BPF_CORE_READ(file, f_inode) == t->lock_inode;
}

SEC("tp_btf/contention_end")
int BPF_PROG(lock_end, void *lock) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct task_op *t = task_op_get(task);
        u64 now, length;
        u32 i, dev, phase;

        if (!t)
                return 0;
        i = t->n_frames - 1;
        if (i >= FRAMES_MAX)
                return 0;
        hit(PROBE_LOCK_END);
        phase = frame_at(t, i)->phase;
        dev = frame_at(t, i)->dev;
        now = bpf_ktime_get_ns();
        length = frame_pop(t, (u64) lock, now);
        if (length && t->opener == OPENER_NONE)
                alone_ends(t);
        if (length && phase == PHASE_LOCK && t->lock_owner) {
                if (t->opener != OPENER_NONE)
                        blame_add(t->key.owner, t->lock_owner, t->key.dev, PHASE_LOCK, BLAME_NO_STEP, length);
                else if (dev)
                        blame_add(task_owner(task), t->lock_owner, dev, PHASE_LOCK, BLAME_NO_STEP, length);
                t->lock_owner = 0;
        }
        if (!length || !dev || t->opener != OPENER_NONE)
                return 0;
        if (phase == PHASE_LOCK && opens_direct(t, task)) {
                t->lock_start_ns = now - length;
                t->lock_end_ns = now;
        } else {
                t->lock_inode = 0;
                count_alone(task, phase, dev, length, now);
        }

        return 0;
}

/* Stand for the lock's address; not addresses of the kernel. */
enum { RECLAIM_DIRECT = 1, RECLAIM_MEMCG };

static inline void reclaim_begin(u64 id) {
        struct task_op *t = task_op_get(bpf_get_current_task_btf());

        if (t && t->opener != OPENER_NONE)
                frame_push(t, id, PHASE_RECLAIM, 0);
}

static inline void reclaim_end(u64 id) {
        struct task_op *t = task_op_get(bpf_get_current_task_btf());

        if (t && t->opener != OPENER_NONE)
                frame_pop(t, id, bpf_ktime_get_ns());
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(reclaim_direct_begin) {
        hit(PROBE_RECLAIM_BEGIN);
        reclaim_begin(RECLAIM_DIRECT);
        return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(reclaim_direct_end) {
        hit(PROBE_RECLAIM_END);
        reclaim_end(RECLAIM_DIRECT);
        return 0;
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(reclaim_memcg_begin) {
        hit(PROBE_MEMCG_RECLAIM_BEGIN);
        reclaim_begin(RECLAIM_MEMCG);
        return 0;
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(reclaim_memcg_end) {
        hit(PROBE_MEMCG_RECLAIM_END);
        reclaim_end(RECLAIM_MEMCG);
        return 0;
}

/* Fires before the sleep, with the pause that is planned; one event a sleep. */
static inline void throttled(struct bdi_writeback *wb, long pause, unsigned long start_time) {
        struct task_struct *task = bpf_get_current_task_btf();
        u64 now = bpf_ktime_get_ns(), length = pause * jiffy_ns;
        u64 phase_ns[_PHASE_MAX] = {};
        struct op_key key = {};
        char comm[COMM_LEN];
        struct finished f = { .key = &key, .phase_ns = phase_ns, .comm = comm };
        struct task_op *t;

        if (pause <= 0)
                return;
        t = task_op_create(task);
        if (!t)
                return;
        if (function_tier) { /* the sleep itself is measured */
                t->throttled = true;
                return;
        }
        if (length == 0)
                return;
        /* Another generation's program saw the same event: same start, and this program has not seen it yet. */
        if (t->throttle_start == (start_time ^ ((u64) pause << 32)) && !(t->throttle_seen & program_bit)) {
                t->throttle_seen |= program_bit;
                return;
        }
        t->throttle_start = start_time ^ ((u64) pause << 32);
        t->throttle_seen = program_bit;

        if (t->opener != OPENER_NONE) {
                add_wait(t, now, now + length, 0, PHASE_THROTTLE);
                return;
        }
        key.owner = task->flags & PF_KTHREAD ? OWNER_KERNEL : bpf_get_current_cgroup_id();
        key.dev = BPF_CORE_READ(wb, bdi, owner, devt);
        key.op = OP_SLOWWRITE;
        if (worker_kind(task) == WORKER_LOOP)
                key.origin = ORIGIN_LOOP;
        f.total_ns = length;
        f.pid = task->tgid;
        f.thread = task->pid;
        phase_ns[PHASE_THROTTLE] = length;
        bpf_get_current_comm(comm, sizeof(comm));
        count_op(&f, now);
}

/* Arguments since 6.18; before, the fields of the dirty_throttle_control were passed one by one. */
SEC("tp_btf/balance_dirty_pages")
int BPF_PROG(throttle, struct bdi_writeback *wb, void *dtc, unsigned long dirty_ratelimit,
             unsigned long task_ratelimit, unsigned long dirtied, unsigned long period, long pause,
             unsigned long start_time) {
        hit(PROBE_THROTTLE);
        throttled(wb, pause, start_time);
        return 0;
}

SEC("tp_btf/balance_dirty_pages")
int BPF_PROG(throttle_12, struct bdi_writeback *wb, unsigned long thresh, unsigned long bg_thresh,
             unsigned long dirty, unsigned long bdi_thresh, unsigned long bdi_dirty, unsigned long dirty_ratelimit,
             unsigned long task_ratelimit, unsigned long dirtied, unsigned long period, long pause,
             unsigned long start_time) {
        hit(PROBE_THROTTLE);
        throttled(wb, pause, start_time);
        return 0;
}
