/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/* The function tier: fentry/fexit where the kernel has trampolines, else kprobe/kretprobe, out of the same bodies.
 *
 * A function can do two things. As an opener it begins an operation if none is open, and ends the one it began. As a
 * frame it accounts its time to a phase, without the time of frames inside it. */

#include "classify.h"
#include "tx.h"

static inline u64 function_id(enum probe fn) {
        return OPENER_FUNCTION + fn; /* no address of a lock is that small */
}

static inline void set_file(struct task_op *t, struct file *file) {
        t->dentry = (u64) BPF_CORE_READ(file, f_path.dentry);
}

static inline void key_set_inode(struct task_op *t, struct inode *inode) {
        t->ino = inode ? BPF_CORE_READ(inode, i_ino) : 0;
        t->key.dev = inode ? BPF_CORE_READ(inode, i_sb, s_dev) : 0;
}

/* The function that opened is the outermost frame. */
static inline void function_open(struct task_op *t, struct task_struct *task, enum probe fn, u64 identity,
                                 u64 stack, u32 phase) {
        op_open(t, function_id(fn), bpf_ktime_get_ns());
        frame_push(t, function_id(fn), phase, 0);
        t->identity = identity;
        t->stack = stack;
        t->run_delay_ns = task->sched_info.run_delay;
        t->edge[EDGE_BEGIN] = t->start_ns;
}

/* When a program is attached to or taken from a function, the kernel leaves out the programs at the end of those calls of
 * it that are under way (kernel/bpf/trampoline.c:bpf_tramp_image_put()). The operation ended right after the last function
 * inside it whose end was seen. */
static inline void close_missed(struct task_op *t, struct task_struct *task) {
        if (t->held && t->sync_done)
                return;
        if (t->opener >= OPENER_FUNCTION && t->last_exit_ns > t->start_ns)
                op_close(t, task, t->last_exit_ns, 0, PHASE_OTHER);
        else
                lost(LOSS_EXIT_MISSED);
}

/* Whether this function has to begin an operation: not inside another one. But an open operation may be one whose end
 * was missed: no system call is nested in anything, and what is nested is deeper on the stack. */
static inline bool function_must_open(struct task_op *t, struct task_struct *task, enum probe fn, u64 identity, u64 stack,
                                      bool syscall) {
        if (t->opener == OPENER_NONE)
                return true;
        if (t->opener == function_id(fn) && t->identity == identity && !(t->seen & program_bit) &&
            t->last_exit_ns <= t->start_ns) {
                t->seen |= program_bit;
                return false;
        }
        if (t->opener == OPENER_DIO)
                return syscall || t->key.op != OP_SYNCWRITE;
        if (!syscall && stack < t->stack)
                return false;
        close_missed(t, task);

        return true;
}

static inline void key_set_current(struct task_op *t, struct task_struct *task, enum op op) {
        t->key.owner = task->flags & PF_KTHREAD ? OWNER_KERNEL : bpf_get_current_cgroup_id();
        t->key.async = 0;
        t->key.origin = ORIGIN_SELF;
        t->key.pad = 0;
        t->key.op = op;
}

/* fsync(2) and the like, entered with a file descriptor. */
static inline void open_fd(void *ctx, enum probe fn, enum op op, u64 regs) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct task_op *t = task_op_create(task);
        struct file *file;

        hit(fn);
        if (!t || !function_must_open(t, task, fn, regs, (u64) ctx, /* syscall= */ true))
                return;
        file = task_file(task, compat_syscall_arg0((struct pt_regs *) regs));
        /* Will fail with EBADF, or with EINVAL as for a pipe: no storage operation. */
        if (!file || (op != OP_SYNCFS && !BPF_CORE_READ(file, f_op, fsync)))
                return;
        function_open(t, task, fn, regs, (u64) ctx, PHASE_OTHER);
        key_set_current(t, task, op);
        key_set_inode(t, BPF_CORE_READ(file, f_inode));
        set_file(t, file);
}

static inline void open_sync(void *ctx, enum probe fn) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct task_op *t = task_op_create(task);

        hit(fn);
        if (!t || !function_must_open(t, task, fn, 0, (u64) ctx, /* syscall= */ true))
                return;
        function_open(t, task, fn, 0, (u64) ctx, PHASE_OTHER);
        key_set_current(t, task, OP_SYNC);
        key_set_inode(t, NULL);
}

/* Functions that cannot be called inside of themselves, but for a program whose own end was left out. */
static inline bool is_syscall(enum probe fn) {
        return fn >= PROBE_F_SYS_FSYNC && fn <= PROBE_F_SYNC_FILE_RANGE;
}

/* Ends the operation that this function began. A nested call of it ends inside a frame. */
static inline void function_close(enum probe fn, s64 ret, u32 outside) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct task_op *t = task_op_get(task);
        u64 now;

        if (!t || t->opener != function_id(fn) || (t->n_frames > 1 && !is_syscall(fn)))
                return;
        now = bpf_ktime_get_ns();
        if (t->held) {
                t->edge[EDGE_END] = now;
                t->sync_done = true;
                return;
        }
        op_close(t, task, now, ret < 0 && ret >= -4095 ? (int) ret : 0, outside);
}

/* Before 6.2 btrfs syncs twice in one direct write with O_SYNC or O_DSYNC: when the I/O completes, and once more when
 * the call ends (fs/btrfs/file.c:btrfs_do_write_iter() of 6.1). */
static inline bool synced_already(struct task_op *t, enum probe fn, struct file *file) {
        if (t->synced_inside == (u64) file && fn != PROBE_F_VFS_FSYNC_RANGE) { /* the filesystem's part of that one */
                t->synced_inside = 0;
                return true;
        }
        if (t->synced_file != (u64) file || BPF_CORE_READ(file, f_inode, i_sb, s_magic) != BTRFS_SUPER_MAGIC)
                return false;
        t->synced_inside = t->synced_file;
        t->synced_file = 0;

        return true;
}

/* A sync of a file that is not known to come from a system call of its own: O_SYNC, msync, io_uring, AIO. */
static inline void open_file(void *ctx, enum probe fn, u64 file_address, u64 datasync, u32 phase) {
        struct file *file = (struct file *) file_address;
        struct task_struct *task = bpf_get_current_task_btf();
        struct task_op *t = task_op_create(task);
        struct inode *inode;

        if (!t || !function_must_open(t, task, fn, file_address, (u64) ctx, /* syscall= */ false) ||
            synced_already(t, fn, file))
                return;
        t->synced_file = t->completing && t->opener == OPENER_NONE ? file_address : 0;
        t->synced_inside = 0;
        inode = BPF_CORE_READ(file, f_inode);
        function_open(t, task, fn, file_address, (u64) ctx, phase);
        key_set_inode(t, inode);
        set_file(t, file);
        sync_classify(t, task, inode, datasync);
}

static inline void open_syncrange(void *ctx, enum probe fn, u64 file_address) {
        struct file *file = (struct file *) file_address;
        struct task_struct *task = bpf_get_current_task_btf();
        struct task_op *t = task_op_create(task);

        hit(fn);
        if (!t || !function_must_open(t, task, fn, file_address, (u64) ctx, /* syscall= */ true))
                return;
        function_open(t, task, fn, file_address, (u64) ctx, PHASE_DATA);
        key_set_current(t, task, OP_SYNCRANGE);
        if (task->flags & PF_IO_WORKER)
                t->key.async = 1;
        key_set_inode(t, BPF_CORE_READ(file, f_inode));
        set_file(t, file);
}

/* --- frames --- */

static inline void enter_frame(enum probe fn, u32 phase) {
        struct task_op *t = task_op_get(bpf_get_current_task_btf());

        if (!t || t->opener == OPENER_NONE)
                return;
        hit(fn);
        frame_push(t, function_id(fn), phase, 0);
}

static inline void leave_frame(enum probe fn) {
        struct task_op *t = task_op_get(bpf_get_current_task_btf());

        if (t && t->opener != OPENER_NONE)
                frame_pop(t, function_id(fn), bpf_ktime_get_ns());
}

/* The filesystem's own sync function: opens where no other entry did, and is the frame of phase `fs`. */
static inline void enter_fs(void *ctx, enum probe fn, u64 file, u64 datasync) {
        struct task_op *t;

        hit(fn);
        open_file(ctx, fn, file, datasync, PHASE_FS);
        t = task_op_get(bpf_get_current_task_btf());
        if (t && t->opener != OPENER_NONE)
                frame_push(t, function_id(fn), PHASE_FS, 0);
}

static inline void leave_fs(enum probe fn, s64 ret) {
        leave_frame(fn);
        function_close(fn, ret, PHASE_OTHER);
}

/* --- waits that can be an operation by themselves --- */

/* Inside an operation a frame; else, for user tasks, an operation of its own that consists of this wait. */
static inline void enter_wait(enum probe fn, u32 phase, struct inode *inode) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct task_op *t = task_op_get(task);
        int op;

        if (t && t->opener != OPENER_NONE) {
                hit(fn);
                frame_push(t, function_id(fn), phase, 0);
                return;
        }
        if (task->flags & (PF_KTHREAD | PF_MEMALLOC))
                return;
        t = task_op_create(task);
        if (!t)
                return;
        hit(fn);
        op = slow_op(task);
        function_open(t, task, fn, 0, 0, phase);
        key_set_current(t, task, op);
        if (task->flags & PF_IO_WORKER)
                t->key.async = 1;
        key_set_inode(t, inode ?: syscall_inode(task, op));
}

static inline void leave_wait(enum probe fn, u32 phase) {
        leave_frame(fn);
        function_close(fn, 0, phase);
}

/* --- programs --- */

/* Defines the programs of one function, for each way to attach to it; enter and leave are statements that use a0..a3, or
 * a0 (0 where it is not known any more) and ret, frame (where the function is on the stack) and ctx. */
#define FUNCTION(fn, n_args, enter, leave)                                                               \
        SEC("fentry/" #fn) int fe_##fn(u64 *ctx) {                                                       \
                void *frame __attribute__((unused)) = ctx;                                               \
                u64 a0 __attribute__((unused)) = (n_args) > 0 ? ctx[0] : 0;                              \
                u64 a1 __attribute__((unused)) = (n_args) > 1 ? ctx[(n_args) > 1 ? 1 : 0] : 0;           \
                u64 a3 __attribute__((unused)) = (n_args) > 3 ? ctx[(n_args) > 3 ? 3 : 0] : 0;           \
                enter;                                                                                   \
                return 0;                                                                                \
        }                                                                                                \
        SEC("fexit/" #fn) int fx_##fn(u64 *ctx) {                                                        \
                u64 a0 __attribute__((unused)) = (n_args) > 0 ? ctx[0] : 0;                              \
                s64 ret __attribute__((unused)) = (s64) ctx[n_args];                                     \
                leave;                                                                                   \
                return 0;                                                                                \
        }                                                                                                \
        FUNCTION_REGS("kprobe/" #fn, kp_##fn, "kretprobe/" #fn, kr_##fn, enter, leave)                   \
        FUNCTION_REGS("kprobe.multi/" #fn, km_##fn, "kretprobe.multi/" #fn, kx_##fn, enter, leave)

#define FUNCTION_REGS(entry_section, entry_name, exit_section, exit_name, enter, leave)                  \
        SEC(entry_section) int entry_name(struct pt_regs *ctx) {                                         \
                void *frame __attribute__((unused)) = (void *) PT_REGS_SP(ctx);                          \
                u64 a0 __attribute__((unused)) = PT_REGS_PARM1(ctx);                                     \
                u64 a1 __attribute__((unused)) = PT_REGS_PARM2(ctx);                                     \
                u64 a3 __attribute__((unused)) = PT_REGS_PARM4(ctx);                                     \
                enter;                                                                                   \
                return 0;                                                                                \
        }                                                                                                \
        SEC(exit_section) int exit_name(struct pt_regs *ctx) {                                           \
                u64 a0 __attribute__((unused)) = 0;                                                      \
                s64 ret __attribute__((unused)) = (s64) PT_REGS_RC(ctx);                                 \
                leave;                                                                                   \
                return 0;                                                                                \
        }

/* Only where it begins. */
#define FUNCTION_ENTRY(fn, enter)                                                                         \
        SEC("fentry/" #fn) int fe_##fn(u64 *ctx) {                                                       \
                enter;                                                                                   \
                return 0;                                                                                \
        }                                                                                                \
        SEC("kprobe/" #fn) int kp_##fn(struct pt_regs *ctx) {                                            \
                enter;                                                                                   \
                return 0;                                                                                \
        }                                                                                                \
        SEC("kprobe.multi/" #fn) int km_##fn(struct pt_regs *ctx) {                                      \
                enter;                                                                                   \
                return 0;                                                                                \
        }

#define FRAME(fn, probe, n_args, phase) FUNCTION(fn, n_args, enter_frame(probe, phase), leave_frame(probe))
