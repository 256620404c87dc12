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
