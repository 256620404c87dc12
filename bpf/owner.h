/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/* Whose I/O is it? Owners are ids of cgroups of the default hierarchy. */

#include "maps.h"

enum { SPLITS_MAX = 3 };

/* A bio that was cut off a larger one, which tells more: that is its private data then. */
static inline struct bio *bio_unsplit(struct bio *bio) {
        for (int i = 0; i < SPLITS_MAX; i++) {
                if (!address_of_bio_chain_endio || (u64) BPF_CORE_READ(bio, bi_end_io) != address_of_bio_chain_endio)
                        break;
                bio = BPF_CORE_READ(bio, bi_private);
        }

        return bio;
}

/* dm-crypt writes pages of its own, filled from those of the bio that it was given. */
static inline struct bio *bio_behind_crypt(struct bio *bio) {
        struct dm_crypt_io *io;
        struct bio *whole;

        if (!bpf_core_type_exists(struct dm_crypt_io) || !address_of_crypt_endio)
                return bio;
        whole = bio_unsplit(bio);
        if ((u64) BPF_CORE_READ(whole, bi_end_io) != address_of_crypt_endio)
                return bio;
        io = BPF_CORE_READ(whole, bi_private);

        return BPF_CORE_READ(io, base_bio);
}

/* NULL if it is no bio of btrfs. */
static inline struct inode *bio_btrfs_inode(struct bio *bio) {
        u64 pool;

        if (!bpf_core_type_exists(struct btrfs_bio))
                return NULL;
        pool = (u64) BPF_CORE_READ(bio, bi_pool);
        if (!pool || (pool != address_of_btrfs_bioset && pool != address_of_btrfs_compressed_bioset))
                return NULL;

        return compat_btrfs_inode((void *) bio - bpf_core_field_offset(struct btrfs_bio, bio),
                                  address_of_end_compressed_bio_write);
}

enum worker_kind {
        WORKER_NONE, /* not a kernel thread */
        WORKER_AIO_FSYNC,
        WORKER_DIO,       /* completes direct I/O: workqueue "dio/DEVICE" of fs/super.c:sb_init_dio_done_wq() */
        WORKER_LOOP,      /* workqueue "loopN" of drivers/block/loop.c */
        WORKER_WRITEBACK, /* workqueue "writeback" of mm/backing-dev.c */
        WORKER_OTHER,
};

static inline enum worker_kind worker_kind(struct task_struct *task) {
        struct worker *w;
        char name[8] = {};

        if (!(task->flags & PF_KTHREAD))
                return WORKER_NONE;
        if (!(task->flags & PF_WQ_WORKER))
                return WORKER_OTHER;

        /* kthread_data(): worker_private of a kernel thread is its struct kthread since 5.17 */
        w = BPF_CORE_READ((struct kthread *) task->worker_private, data);
        if (address_of_aio_fsync_work && (u64) BPF_CORE_READ(w, current_func) == address_of_aio_fsync_work)
                return WORKER_AIO_FSYNC;
        BPF_CORE_READ_STR_INTO(&name, w, current_pwq, wq, name);
        if (name[0] == 'd' && name[1] == 'i' && name[2] == 'o' && name[3] == '/')
                return WORKER_DIO;
        if (name[0] == 'l' && name[1] == 'o' && name[2] == 'o' && name[3] == 'p')
                return WORKER_LOOP;
        if (name[0] == 'w' && name[1] == 'r' && name[2] == 'i' && name[3] == 't' && name[4] == 'e' &&
            name[5] == 'b')
                return WORKER_WRITEBACK;

        return WORKER_OTHER;
}

/* 0 if the cgroup is not of the default hierarchy (hierarchy id 0: kernel/cgroup/cgroup.c:cgroup_init()). */
static inline u64 cgroup_owner(struct cgroup *cgrp) {
        if (!cgrp || BPF_CORE_READ(cgrp, root, hierarchy_id) != 0)
                return 0;

        return BPF_CORE_READ(cgrp, kn, id);
}

static inline u64 task_owner(struct task_struct *task) {
        if (BPF_CORE_READ(task, flags) & PF_KTHREAD)
                return OWNER_KERNEL;

        return BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
}

static inline u64 inode_owner(struct inode *inode) {
        struct bdi_writeback *wb = BPF_CORE_READ(inode, i_wb);

        /* The memory cgroup exists only with CONFIG_CGROUP_WRITEBACK, the root's when nobody in particular. */
        return wb ? cgroup_owner(BPF_CORE_READ(wb, memcg_css, cgroup)) : 0;
}

static inline struct page *bio_first_page(struct bio *bio) {
        u32 idx = BPF_CORE_READ(bio, bi_iter.bi_idx);
        struct bio_vec *vec = BPF_CORE_READ(bio, bi_io_vec);
        struct page *page = NULL;

        if (!vec || BPF_CORE_READ(bio, bi_iter.bi_size) == 0)
                return NULL;
        vec = (void *) vec + idx * 16UL; /* struct bio_vec: pointer, two ints */
        bpf_probe_read_kernel(&page, sizeof(page), vec);

        return page;
}

/* The same of a bio that the verifier knows to be one: plain loads cost a tenth of what those by a helper do. */
static inline struct page *known_bio_first_page(struct bio *bio) {
        if (bio->bi_iter.bi_size == 0)
                return NULL;
        if (bio->bi_iter.bi_idx > 0)
                return bio_first_page(bio);

        /* by the helper, which makes it a number, for calculating with its address */
        return BPF_CORE_READ(bio->bi_io_vec, bv_page);
}

struct found_owner {
        u64 owner;
        u8 owned_by;
        u8 origin;
};

/* Whose request of a kernel thread it is, or of one that the kernel makes write to get memory. bio may be NULL. */
static __attribute__((noinline)) int find_kernel_rq_owner(struct bio *bio, struct found_owner *ret) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct address_space *mapping;
        struct folio *folio;
        struct task_op *t;
        struct inode *host;
        struct page *page;
        u64 owner;

        ret->owner = OWNER_KERNEL;
        ret->owned_by = OWNED_BY_NOBODY;
        ret->origin = ORIGIN_OTHER;
        if (task->flags & PF_KTHREAD) {
                t = bpf_task_storage_get(&tasks, task, NULL, 0);
                if (t && t->is_journal_thread)
                        ret->origin = ORIGIN_JOURNAL;
                else
                        switch (worker_kind(task)) {
                        case WORKER_WRITEBACK:
                                ret->origin = ORIGIN_WRITEBACK;
                                break;
                        case WORKER_LOOP:
                                ret->origin = ORIGIN_LOOP;
                                break;
                        default:
                                break;
                        }
        }

        if (!bio)
                return 0;
        if (bpf_core_type_exists(struct dm_crypt_io) && address_of_crypt_endio &&
            ((u64) bio->bi_end_io == address_of_crypt_endio || (u64) bio->bi_end_io == address_of_bio_chain_endio)) {
                bio = bio_behind_crypt(bio);
                page = bio_first_page(bio);
        } else
                page = known_bio_first_page(bio);
        if (!page)
                return 0;
        folio = compat_page_folio(page);
        mapping = BPF_CORE_READ(folio, mapping);
        host = NULL;
        if (mapping && !((u64) mapping & 3)) /* bits: anonymous, movable */
                host = BPF_CORE_READ(mapping, host);
        if (!host)
                host = bio_btrfs_inode(bio);
        /* The filesystem's own metadata: first touched by whoever came first, so its page says nothing. */
        if (host && (BPF_CORE_READ(host, i_mode) & S_IFMT) == S_IFBLK)
                return 0;

        /* Seen only at issue, by whoever runs the queue: a page of a file that is written was written back. */
        if (!have_rq_create && ret->origin == ORIGIN_OTHER && host && (BPF_CORE_READ(bio, bi_opf) & 1))
                ret->origin = ORIGIN_WRITEBACK;

        if (dirty_tracking && host) {
                u64 key = (u64) host;
                struct dirtier *d = bpf_map_lookup_elem(&dirtiers, &key);

                if (d && d->ino == BPF_CORE_READ(host, i_ino)) {
                        ret->owner = d->owner;
                        ret->owned_by = OWNED_BY_DIRTIER;
                        return 0;
                }
        }
        {
                struct mem_cgroup *memcg = compat_folio_memcg(folio);

                owner = memcg ? cgroup_owner(BPF_CORE_READ(memcg, css.cgroup)) : 0;
        }
        if (owner) {
                ret->owner = owner;
                ret->owned_by = OWNED_BY_PAGE;
                return 0;
        }
        owner = host ? inode_owner(host) : 0;
        if (owner) {
                ret->owner = owner;
                ret->owned_by = OWNED_BY_INODE;
                return 0;
        }

        {
                struct cgroup *cgrp = BPF_CORE_READ(bio, bi_blkg, blkcg, css.cgroup);

                /* Without the io controller every bio says root: that is no answer. */
                if (cgrp && BPF_CORE_READ(cgrp, level) > 0)
                        owner = cgroup_owner(cgrp);
        }
        if (owner) {
                ret->owner = owner;
                ret->owned_by = OWNED_BY_BLKCG;
        }

        return 0;
}

/* Decides at submission, in the context of the submitter. bio may be NULL. */
static inline void find_rq_owner(struct bio *bio, struct found_owner *ret) {
        if (bpf_get_current_task_btf()->flags & (PF_KTHREAD | PF_MEMALLOC)) {
                find_kernel_rq_owner(bio, ret);
                return;
        }
        ret->owner = bpf_get_current_cgroup_id();
        ret->owned_by = OWNED_BY_TASK;
        ret->origin = ORIGIN_SELF;
}

/* An owner was counted for the first time: its name must outlive its cgroup. */
static inline void owner_counted(u64 owner) {
        struct cgroup_name *n = bpf_map_lookup_elem(&names, &owner);

        if (n)
                n->seen = 1;
}
