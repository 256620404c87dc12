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

struct pt_regs___arm64 {
        int syscallno;
};


#pragma clang attribute pop

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

/* Syscall numbers of x86_64 and arm64, told apart by the layout of pt_regs; those of 32-bit programs (the same on
 * i386 and arm) where the kernel marks such a call. */

static inline int compat_syscall(struct task_struct *task, bool *ret_compat) {
        struct pt_regs *regs = (struct pt_regs *) bpf_task_pt_regs(task);

        *ret_compat = false;
        if (bpf_core_field_exists(regs->orig_ax)) {
                *ret_compat = task->thread_info.status & TS_COMPAT;
                return (int) BPF_CORE_READ(regs, orig_ax);
        }
        if (bpf_core_field_exists(((struct pt_regs___arm64 *) regs)->syscallno))
                return BPF_CORE_READ((struct pt_regs___arm64 *) regs, syscallno);

        return -1;
}

static inline bool compat_is_x86(void) {
        return bpf_core_field_exists(((struct pt_regs *) 0)->orig_ax);
}

enum syscall_class { SYSCALL_FSYNC, SYSCALL_FDATASYNC, SYSCALL_MSYNC, SYSCALL_WRITE, SYSCALL_OTHER };

static inline enum syscall_class compat_syscall_class(struct task_struct *task) {
        bool compat;
        int nr = compat_syscall(task, &compat);

        if (compat)
                switch (nr) {
                case 118:
                        return SYSCALL_FSYNC;
                case 148:
                        return SYSCALL_FDATASYNC;
                case 144:
                        return SYSCALL_MSYNC;
                case 4: /* write */
                case 146: /* writev */
                case 181: /* pwrite64 */
                case 334: /* pwritev */
                case 379: /* pwritev2 */
                        return SYSCALL_WRITE;
                default:
                        return SYSCALL_OTHER;
                }
        if (compat_is_x86())
                switch (nr) {
                case 74:
                        return SYSCALL_FSYNC;
                case 75:
                        return SYSCALL_FDATASYNC;
                case 26:
                        return SYSCALL_MSYNC;
                case 1:   /* write */
                case 18:  /* pwrite64 */
                case 20:  /* writev */
                case 40:  /* sendfile */
                case 209: /* io_submit */
                case 275: /* splice */
                case 296: /* pwritev */
                case 326: /* copy_file_range */
                case 328: /* pwritev2 */
                case 426: /* io_uring_enter */
                        return SYSCALL_WRITE;
                default:
                        return SYSCALL_OTHER;
                }
        switch (nr) {
        case 82:
                return SYSCALL_FSYNC;
        case 83:
                return SYSCALL_FDATASYNC;
        case 227:
                return SYSCALL_MSYNC;
        case 2:   /* io_submit */
        case 64:  /* write */
        case 66:  /* writev */
        case 68:  /* pwrite64 */
        case 70:  /* pwritev */
        case 71:  /* sendfile */
        case 76:  /* splice */
        case 285: /* copy_file_range */
        case 287: /* pwritev2 */
        case 426: /* io_uring_enter */
                return SYSCALL_WRITE;
        default:
                return SYSCALL_OTHER;
        }
}
