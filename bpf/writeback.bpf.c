/* SPDX-License-Identifier: GPL-2.0-only */

/* Dirty data: who dirtied it last, and how old it has become before its writeback begins. */

/* DirtyTracking=: once per page that becomes dirty, so only for those who want it. */
SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(dirty, struct folio *folio, struct address_space *mapping) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct inode *host = mapping ? mapping->host : NULL;
        u64 key = (u64) host;
        struct dirtier d;

        if (!host || (task->flags & PF_KTHREAD) || (host->i_mode & S_IFMT) == S_IFBLK)
                return 0;
        hit(PROBE_DIRTY);
        d.ino = host->i_ino;
        d.owner = bpf_get_current_cgroup_id();
        bpf_map_update_elem(&dirtiers, &key, &d, BPF_ANY);

        return 0;
}

/* The highest bits of xarray.xa_flags are its marks: of a file's pages, that some are dirty or under writeback. They
 * begin above the bits of the allocator, of which there are 24 to 28 depending on the kernel's version and
 * configuration; the xarray's own flags are the lowest 6 (include/linux/xarray.h, gfp_types.h). */
enum { XA_MARKS_SHIFT = 16 };

/* The flusher begins with a file. */
SEC("tp_btf/writeback_single_inode_start")
int BPF_PROG(writeback_start, struct inode *inode) {
        u64 when = inode->dirtied_when, now = bpf_jiffies64();
        struct age_key key = {};
        struct age_value *v;
        void *zero;

        if (jiffy_ns == 0 || !(BPF_CORE_READ(inode, i_mapping, i_pages.xa_flags) >> XA_MARKS_SHIFT) ||
            (inode->i_mode & S_IFMT) == S_IFBLK || now < when)
                return 0;
        hit(PROBE_WRITEBACK_START);
        key.owner = inode_owner(inode);
        key.dev = inode->i_sb->s_dev;
        v = bpf_map_lookup_elem(&ages, &key);
        if (!v) {
                zero = zero_value();
                if (!zero)
                        return 0;
                bpf_map_update_elem(&ages, &key, zero, BPF_NOEXIST);
                v = bpf_map_lookup_elem(&ages, &key);
                if (!v) {
                        lost(LOSS_AGE_MAP_FULL);
                        return 0;
                }
                owner_counted(key.owner);
        }
        hist_short_count(&v->age, (now - when) * jiffy_ns);

        return 0;
}
