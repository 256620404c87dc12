/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/* Every difference between kernels that the programs know, decided by BTF. Each entry says what made it necessary.
 * Programs whose tracepoint has another prototype or does not exist are chosen by the loader (probes/probe-table.c). */

#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct page___info {
        unsigned long compound_info;
};

struct obj_cgroup___root {
        bool is_root;
};

struct compressed_bio {
        struct inode *inode;
};

#pragma clang attribute pop

/* The flags are the first word of struct page, whatever type it has: 6.18 wrapped it into a memdesc_flags_t. */
static inline u64 compat_folio_flags(struct folio *folio) {
        unsigned long flags = 0;

        bpf_probe_read_kernel(&flags, sizeof(flags), folio);

        return flags;
}

/* 7.2 renamed page.compound_head to compound_info; where struct page has a power-of-two size the field of a tail
 * page is a mask to the head's address instead of that address. A mask is a run of ones above a run of zeros, which
 * no address of a struct page is. */
static inline struct folio *compat_page_folio(struct page *page) {
        unsigned long info, m;

        if (bpf_core_field_exists(page->compound_head))
                info = BPF_CORE_READ(page, compound_head);
        else
                info = BPF_CORE_READ((struct page___info *) page, compound_info);
        if (!(info & 1))
                return (struct folio *) page;

        m = info - 1;
        if ((~m & (~m + 1)) == 0)
                return (struct folio *) ((unsigned long) page & m);

        return (struct folio *) m;
}

/* 7.2: folio->memcg_data is always an obj_cgroup; before, a mem_cgroup unless bit 1 (MEMCG_DATA_KMEM) is set. The
 * names of the flags did not change, but obj_cgroup.is_root came with it. Bit 0: a slab, which has no single owner. */
static inline struct mem_cgroup *compat_folio_memcg(struct folio *folio) {
        unsigned long data = BPF_CORE_READ(folio, memcg_data);
        void *p = (void *) (data & ~7UL);

        if ((data & 1) || !p)
                return NULL;
        if (bpf_core_field_exists(((struct obj_cgroup___root *) p)->is_root) || (data & 2))
                return BPF_CORE_READ((struct obj_cgroup *) p, memcg);

        return p;
}

/* The file that a bio of btrfs is for, whose pages are not the file's own when they are compressed. Since 6.2
 * (d7b9416fe5c5) struct btrfs_bio has the inode; before, only that of compressed writes, in their private data. */
static inline struct inode *compat_btrfs_inode(struct btrfs_bio *bbio, u64 end_compressed_write) {
        struct btrfs_inode *inode;
        struct compressed_bio *cb;

        if (bpf_core_field_exists(bbio->inode)) {
                inode = BPF_CORE_READ(bbio, inode);
                return inode ? (void *) inode + bpf_core_field_offset(struct btrfs_inode, vfs_inode) : NULL;
        }
        if (!bpf_core_field_exists(bbio->private) || !bpf_core_field_exists(((struct compressed_bio *) bbio)->inode) || !end_compressed_write ||
            (u64) BPF_CORE_READ(bbio, end_io) != end_compressed_write)
                return NULL;
        cb = BPF_CORE_READ(bbio, private);

        return BPF_CORE_READ(cb, inode);
}

/* Syscall numbers of x86_64 or arm64, and those of 32-bit programs (the same on i386 and arm) where the kernel marks
 * such a call. A page fault or another exception has the number -1. */
#if defined(__TARGET_ARCH_arm64)
static inline int compat_syscall(struct task_struct *task, bool *ret_compat) {
        struct pt_regs *regs = (struct pt_regs *) bpf_task_pt_regs(task);

        *ret_compat = false;
        return BPF_CORE_READ(regs, syscallno);
}

static inline u64 compat_syscall_arg0(const struct pt_regs *regs) {
        return BPF_CORE_READ(regs, user_regs.regs[0]);
}

enum {
        NR_FSYNC = 82, NR_FDATASYNC = 83, NR_MSYNC = 227,
        NR_READ = 63, NR_PREAD = 67, NR_READV = 65, NR_PREADV = 69, NR_PREADV2 = 286,
        NR_WRITE = 64, NR_PWRITE = 68, NR_WRITEV = 66, NR_PWRITEV = 70, NR_PWRITEV2 = 287,
        NR_SENDFILE = 71, NR_SPLICE = 76, NR_COPY_FILE_RANGE = 285, NR_IO_SUBMIT = 2, NR_IO_URING_ENTER = 426,
};
#else
static inline int compat_syscall(struct task_struct *task, bool *ret_compat) {
        struct pt_regs *regs = (struct pt_regs *) bpf_task_pt_regs(task);

        *ret_compat = task->thread_info.status & TS_COMPAT;
        return (int) BPF_CORE_READ(regs, orig_ax);
}

static inline u64 compat_syscall_arg0(const struct pt_regs *regs) {
        return BPF_CORE_READ(regs, di);
}

enum {
        NR_FSYNC = 74, NR_FDATASYNC = 75, NR_MSYNC = 26,
        NR_READ = 0, NR_PREAD = 17, NR_READV = 19, NR_PREADV = 295, NR_PREADV2 = 327,
        NR_WRITE = 1, NR_PWRITE = 18, NR_WRITEV = 20, NR_PWRITEV = 296, NR_PWRITEV2 = 328,
        NR_SENDFILE = 40, NR_SPLICE = 275, NR_COPY_FILE_RANGE = 326, NR_IO_SUBMIT = 209, NR_IO_URING_ENTER = 426,
};
#endif

enum {
        NR32_FSYNC = 118, NR32_FDATASYNC = 148, NR32_MSYNC = 144,
        NR32_READ = 3, NR32_READV = 145, NR32_PREAD = 180, NR32_PREADV = 333, NR32_PREADV2 = 378,
        NR32_WRITE = 4, NR32_WRITEV = 146, NR32_PWRITE = 181, NR32_PWRITEV = 334, NR32_PWRITEV2 = 379,
};

enum syscall_class {
        SYSCALL_FSYNC,
        SYSCALL_FDATASYNC,
        SYSCALL_MSYNC,
        SYSCALL_READ,
        SYSCALL_WRITE,
        SYSCALL_FAULT, /* no system call at all */
        SYSCALL_OTHER,
};

static inline enum syscall_class compat_syscall_class(struct task_struct *task) {
        bool compat;
        int nr = compat_syscall(task, &compat);

        if (nr == -1)
                return SYSCALL_FAULT;
        if (compat)
                switch (nr) {
                case NR32_FSYNC:
                        return SYSCALL_FSYNC;
                case NR32_FDATASYNC:
                        return SYSCALL_FDATASYNC;
                case NR32_MSYNC:
                        return SYSCALL_MSYNC;
                case NR32_READ:
                case NR32_READV:
                case NR32_PREAD:
                case NR32_PREADV:
                case NR32_PREADV2:
                        return SYSCALL_READ;
                case NR32_WRITE:
                case NR32_WRITEV:
                case NR32_PWRITE:
                case NR32_PWRITEV:
                case NR32_PWRITEV2:
                        return SYSCALL_WRITE;
                default:
                        return SYSCALL_OTHER;
                }

        switch (nr) {
        case NR_FSYNC:
                return SYSCALL_FSYNC;
        case NR_FDATASYNC:
                return SYSCALL_FDATASYNC;
        case NR_MSYNC:
                return SYSCALL_MSYNC;
        case NR_READ:
        case NR_PREAD:
        case NR_READV:
        case NR_PREADV:
        case NR_PREADV2:
                return SYSCALL_READ;
        case NR_WRITE:
        case NR_PWRITE:
        case NR_WRITEV:
        case NR_PWRITEV:
        case NR_PWRITEV2:
        case NR_SENDFILE:
        case NR_SPLICE:
        case NR_COPY_FILE_RANGE:
        case NR_IO_SUBMIT:
        case NR_IO_URING_ENTER:
                return SYSCALL_WRITE;
        default:
                return SYSCALL_OTHER;
        }
}
