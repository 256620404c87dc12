/* SPDX-License-Identifier: GPL-2.0-only */

/* Names of cgroups of the default hierarchy, by id. Those that never did storage I/O are forgotten some while after
 * their death, without help from user space. */

/* In a container with a cgroup namespace the event has the host's path: how many of its components lie above. */
static inline u32 levels_above(struct cgroup *cgrp) {
        u32 n = 0;

        if (root_cgroup_id <= 1)
                return 0;
        for (int i = 0; i < ANCESTORS_MAX; i++) {
                cgrp = BPF_CORE_READ(cgrp, self.parent, cgroup);
                if (!cgrp)
                        break;
                if (BPF_CORE_READ(cgrp, kn, id) == root_cgroup_id) {
                        n = BPF_CORE_READ(cgrp, level);
                        break;
                }
        }

        return n;
}

SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(cgroup_birth, struct cgroup *cgrp, const char *path) {
        struct cgroup_name *n;
        u64 id;
        void *zero;
        long len;

        if (cgrp->root->hierarchy_id != 0)
                return 0;
        hit(PROBE_CGROUP_BIRTH);
        id = cgrp->kn->id;
        zero = zero_value();
        if (!zero)
                return 0;
        bpf_map_update_elem(&names, &id, zero, BPF_NOEXIST);
        n = bpf_map_lookup_elem(&names, &id);
        if (!n) {
                lost(LOSS_NAME_MAP_FULL);
                return 0;
        }
        len = bpf_probe_read_kernel_str(n->path, sizeof(n->path), path);
        if (len <= 0)
                return 0;
        if (len == sizeof(n->path))
                lost(LOSS_NAME_TRUNCATED);
        n->skip = levels_above(cgrp);
        n->len = len - 1;

        return 0;
}

SEC("tp_btf/cgroup_rmdir")
int BPF_PROG(cgroup_death, struct cgroup *cgrp) {
        struct cgroup_name *n;
        u64 id, *grave, *head;
        u32 i = 0;

        if (cgrp->root->hierarchy_id != 0)
                return 0;
        hit(PROBE_CGROUP_DEATH);
        id = cgrp->kn->id;
        n = bpf_map_lookup_elem(&names, &id);
        if (!n || n->died_ns)
                return 0;
        n->died_ns = bpf_ktime_get_ns();
        if (n->seen)
                return 0;

        /* Writeback may still come and count it. The place in the ring is taken from the one that died longest ago. */
        head = bpf_map_lookup_elem(&grave_head, &i);
        if (!head)
                return 0;
        i = __sync_fetch_and_add(head, 1) % GRAVES_MAX;
        grave = bpf_map_lookup_elem(&graves, &i);
        if (!grave)
                return 0;
        i = 0;
        {
                u64 old = *grave;

                *grave = id;
                n = old ? bpf_map_lookup_elem(&names, &old) : NULL;
                if (n && !n->seen)
                        bpf_map_delete_elem(&names, &old);
        }

        return 0;
}
