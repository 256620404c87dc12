/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

#include "op.h"

/* What the call was, from the context it runs in (the filesystem only knows datasync, which O_SYNC leaves at 0). */
static inline void sync_classify(struct task_op *t, struct task_struct *task, struct inode *inode, bool datasync) {
        struct io_worker *worker;
        struct io_wq_work *work;
        u8 opcode;

        t->key.owner = OWNER_KERNEL;
        t->key.async = 0;
        t->key.origin = ORIGIN_SELF;
        t->key.pad = 0;
        t->key.op = datasync ? OP_FDATASYNC : OP_FSYNC;

        switch (worker_kind(task)) {
        case WORKER_NONE:
                t->key.owner = bpf_get_current_cgroup_id();
                break;
        case WORKER_AIO_FSYNC:
                t->key.async = 1;
                t->key.owner = inode_owner(inode);
                return;
        case WORKER_LOOP:
                t->key.origin = ORIGIN_LOOP;
                return;
        case WORKER_DIO:
                t->held = have_dio_complete;
                if (!t->held) { /* nothing will tell of the write itself: the sync stands for it */
                        t->key.op = OP_SYNCWRITE;
                        t->key.async = 1;
                        t->key.owner = inode_owner(inode);
                }
                return;
        default:
                return;
        }

        if ((task->flags & PF_IO_WORKER) && task->worker_private) {
                worker = task->worker_private;
                work = BPF_CORE_READ(worker, cur_work);
                opcode = BPF_CORE_READ((struct io_kiocb *) ((void *) work - bpf_core_field_offset(struct io_kiocb, work)),
                                       opcode);
                t->key.async = 1;
                if (!work || opcode != IORING_OP_FSYNC)
                        t->key.op = OP_SYNCWRITE;
                return;
        }

        switch (compat_syscall_class(task)) {
        case SYSCALL_FSYNC:
                t->key.op = OP_FSYNC;
                break;
        case SYSCALL_FDATASYNC:
                t->key.op = OP_FDATASYNC;
                break;
        case SYSCALL_MSYNC:
                t->key.op = OP_MSYNC;
                break;
        default:
                t->key.op = OP_SYNCWRITE;
        }
}

static inline struct file *task_file(struct task_struct *task, u64 fd) {
        struct fdtable *fdt = BPF_CORE_READ(task, files, fdt);
        struct file **files = BPF_CORE_READ(fdt, fd), *file = NULL;

        if (fd >= BPF_CORE_READ(fdt, max_fds))
                return NULL;
        bpf_probe_read_kernel(&file, sizeof(file), files + fd);

        return file;
}

/* What a call is that had to wait, without being an operation of another kind. */
static inline int slow_op(struct task_struct *task) {
        struct io_wq_work *work;
        u8 opcode;

        if ((task->flags & PF_IO_WORKER) && task->worker_private) {
                work = BPF_CORE_READ((struct io_worker *) task->worker_private, cur_work);
                opcode = BPF_CORE_READ((struct io_kiocb *) ((void *) work -
                                                            bpf_core_field_offset(struct io_kiocb, work)),
                                       opcode);
                switch (opcode) {
                case IORING_OP_READ:
                case IORING_OP_READV:
                case IORING_OP_READ_FIXED:
                        return OP_SLOWREAD;
                case IORING_OP_WRITE:
                case IORING_OP_WRITEV:
                case IORING_OP_WRITE_FIXED:
                        return OP_SLOWWRITE;
                default:
                        return OP_META;
                }
        }
        switch (compat_syscall_class(task)) {
        case SYSCALL_READ:
                return OP_SLOWREAD;
        case SYSCALL_WRITE:
                return OP_SLOWWRITE;
        case SYSCALL_FAULT:
                return OP_SLOWFAULT;
        default:
                return OP_META;
        }
}

/* The file that a read or write call was given; NULL for a page fault and others. */
static inline struct file *syscall_file(struct task_struct *task, int op) {
        struct pt_regs *regs = (struct pt_regs *) bpf_task_pt_regs(task);

        if ((op != OP_SLOWREAD && op != OP_SLOWWRITE) || (task->flags & PF_IO_WORKER))
                return NULL;

        return task_file(task, compat_syscall_arg0(regs));
}

static inline struct inode *syscall_inode(struct task_struct *task, int op) {
        struct file *file = syscall_file(task, op);

        return file ? BPF_CORE_READ(file, f_inode) : NULL;
}
