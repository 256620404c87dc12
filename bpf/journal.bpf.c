/* SPDX-License-Identifier: GPL-2.0-only */

/* jbd2: when each step of a commit began, and whose handles are in the transaction. The commit events come from the
 * journal's own thread; storing a time that is there already changes nothing, so several generations may do so.
 *
 * Pointers that a tracepoint of a module hands over may be NULL, says the verifier since 6.13 (838a10bd2ebf, also in
 * 6.12.y): they are never, but have to be looked at. */

static inline struct tx *commit_tx(journal_t *journal, transaction_t *transaction, bool create) {
        u64 key = (u64) journal;
        u32 tid = transaction->t_tid;
        struct journal_value *j;
        struct tx *tx;
        void *zero;

        j = bpf_map_lookup_elem(&journals, &key);
        if (!j) {
                if (!create)
                        return NULL;
                zero = zero_value();
                if (!zero)
                        return NULL;
                bpf_map_update_elem(&journals, &key, zero, BPF_NOEXIST);
                j = bpf_map_lookup_elem(&journals, &key);
                if (!j) {
                        lost(LOSS_JOURNAL_MAP_FULL);
                        return NULL;
                }
        }
        tx = &j->tx[tid % TX_REMEMBERED];
        /* A journal that ended can have been at the same address, and every new one counts from 1. */
        if (tx->tid != tid || (create && tx->end_ns)) {
                if (!create)
                        return NULL;
                __builtin_memset(tx, 0, sizeof(*tx));
                tx->tid = tid;
                j->dev = journal->j_fs_dev->bd_dev;
        }

        return tx;
}

#define SET_ONCE(tx, field)                               \
        do {                                              \
                if ((tx) && !(tx)->field)                 \
                        (tx)->field = bpf_ktime_get_ns(); \
        } while (0)

SEC("tp_btf/jbd2_start_commit")
int BPF_PROG(commit_start, journal_t *journal, transaction_t *transaction) {
        struct task_op *t = task_op_create(bpf_get_current_task_btf());
        struct tx *tx;

        if (!journal || !transaction)
                return 0;
        tx = commit_tx(journal, transaction, true);
        hit(PROBE_COMMIT_START);
        if (t) {
                t->is_journal_thread = true;
                t->journal_tid = transaction->t_tid;
                t->journal_started = transaction->t_start;
                t->journal_dev = journal->j_fs_dev->bd_dev;
        }
        if (tx && !tx->start_ns && t && t->superblock_ns) {
                tx->start_ns = t->superblock_ns;
                t->superblock_ns = 0;
        }
        SET_ONCE(tx, start_ns);
        return 0;
}

/* The first commit into an empty log writes the superblock before the event of its start. */
SEC("tp_btf/jbd2_write_superblock")
int BPF_PROG(write_superblock, journal_t *journal) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct task_op *t;

        if (!journal || journal->j_task != task)
                return 0;
        hit(PROBE_WRITE_SUPERBLOCK);
        t = task_op_create(task);
        if (t && !t->superblock_ns)
                t->superblock_ns = bpf_ktime_get_ns();
        return 0;
}

SEC("tp_btf/jbd2_commit_locking")
int BPF_PROG(commit_locking, journal_t *journal, transaction_t *transaction) {
        struct tx *tx;

        if (!journal || !transaction)
                return 0;
        tx = commit_tx(journal, transaction, false);
        hit(PROBE_COMMIT_LOCKING);
        SET_ONCE(tx, locking_ns);
        return 0;
}

SEC("tp_btf/jbd2_commit_flushing")
int BPF_PROG(commit_flushing, journal_t *journal, transaction_t *transaction) {
        struct tx *tx;

        if (!journal || !transaction)
                return 0;
        tx = commit_tx(journal, transaction, false);
        hit(PROBE_COMMIT_FLUSHING);
        SET_ONCE(tx, flushing_ns);
        return 0;
}

SEC("tp_btf/jbd2_commit_logging")
int BPF_PROG(commit_logging, journal_t *journal, transaction_t *transaction) {
        struct task_op *t = task_op_get(bpf_get_current_task_btf());
        struct tx *tx;

        if (!journal || !transaction)
                return 0;
        tx = commit_tx(journal, transaction, false);
        hit(PROBE_COMMIT_LOGGING);
        SET_ONCE(tx, logging_ns);
        if (t) {
                t->flush_ns = 0; /* from here on: when the thread submits the commit record */
                t->data_wait_ns = t->data_wait_end_ns = 0;
        }
        return 0;
}

SEC("tp_btf/jbd2_end_commit")
int BPF_PROG(commit_end, journal_t *journal, transaction_t *transaction) {
        struct task_op *t = task_op_get(bpf_get_current_task_btf());
        struct tx *tx;

        if (!journal || !transaction)
                return 0;
        tx = commit_tx(journal, transaction, false);
        hit(PROBE_COMMIT_END);
        if (tx && t && !tx->record_ns) {
                tx->record_ns = t->flush_ns;
                tx->data_wait_ns = t->data_wait_ns;
                tx->data_wait_end_ns = t->data_wait_end_ns;
        }
        SET_ONCE(tx, end_ns);
        if (t)
                t->superblock_ns = 0; /* written within the commit: belongs to no other */
        return 0;
}

/* A worker of blk-throttle lets a bio go. */
static inline void release_bio(struct bio *bio) {
        u64 key = (u64) bio, id, *held;
        struct held *h;

        held = bpf_map_lookup_elem(&held_bios, &key);
        if (!held)
                return;
        id = *held;
        if (bpf_map_delete_elem(&held_bios, &key) < 0)
                return;
        h = bpf_map_lookup_elem(&held_ops, &id);
        if (h && __sync_fetch_and_add(&h->n, -1) == 1)
                h->total_ns += bpf_ktime_get_ns() - h->since_ns;
}

/* A flush of the device cache that the current task asks for: the end of an ext4 sync, or the commit record of the
 * journal's thread. */
SEC("tp_btf/block_bio_queue")
int BPF_PROG(own_flush, struct bio *bio) {
        struct task_struct *task;
        struct task_op *t;

        if (function_tier) {
                task = bpf_get_current_task_btf();
                if ((task->flags & (PF_KTHREAD | PF_WQ_WORKER)) == (PF_KTHREAD | PF_WQ_WORKER))
                        release_bio(bio);
        }
        if (!(bio->bi_opf & REQ_PREFLUSH))
                return 0;
        hit(PROBE_OWN_FLUSH);
        t = task_op_get(bpf_get_current_task_btf());
        if (t && (t->is_journal_thread || (t->sync_open && bio->bi_iter.bi_size == 0)))
                t->flush_ns = bpf_ktime_get_ns();
        return 0;
}

/* Kworkers work for the owner of an inode; the handle's end does not say which, its start just before does. */
SEC("tp_btf/ext4_journal_start_inode")
int BPF_PROG(handle_inode, struct inode *inode) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct task_op *t;

        if (!inode || !(task->flags & PF_KTHREAD))
                return 0;
        hit(PROBE_HANDLE_INODE);
        t = task_op_create(task);
        if (t)
                t->handle_owner = inode_owner(inode);
        return 0;
}

/* The handle is the last thing, or one of them, that a commit waits for: since when. */
static inline u64 commit_waits_since(transaction_t *transaction) {
        struct journal_value *j;
        struct tx *tx;
        u64 key;
        u32 tid;

        if (!transaction || BPF_CORE_READ(transaction, t_state) != T_LOCKED)
                return 0;
        key = (u64) BPF_CORE_READ(transaction, t_journal);
        j = bpf_map_lookup_elem(&journals, &key);
        if (!j)
                return 0;
        tid = BPF_CORE_READ(transaction, t_tid);
        tx = &j->tx[tid % TX_REMEMBERED];

        return tx->tid == tid ? tx->locking_ns ?: tx->start_ns : 0;
}

/* The task's handle leaves its transaction. */
static inline void handle_done(struct task_struct *task, struct task_op *t, struct handle_key *key, int requested,
                               int dirtied) {
        struct jbd2_journal_handle *handle = (void *) task->journal_info;
        transaction_t *transaction = BPF_CORE_READ(handle, h_transaction);
        u64 since = commit_waits_since(transaction), now;
        struct handle_value *v = t ? handle_get(t, key, transaction) : NULL;

        if (!v)
                return;
        __sync_fetch_and_add(&v->handles, 1);
        if (requested > 0)
                __sync_fetch_and_add(&v->requested_blocks, requested);
        if (dirtied > 0) /* negative for handles that give blocks back */
                __sync_fetch_and_add(&v->dirtied_blocks, dirtied);
        if (since) {
                now = bpf_ktime_get_ns();
                if (now > since)
                        __sync_fetch_and_add(&v->late_ns, now - since);
        }
}

SEC("tp_btf/jbd2_handle_stats")
int BPF_PROG(handle_stats, u32 dev, u32 tid, unsigned int type, unsigned int line, int interval, int sync,
             int requested, int dirtied) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct handle_key key = { .dev = dev, .tid = tid, .owner = OWNER_KERNEL };
        struct task_op *t = task_op_create(task);

        hit(PROBE_HANDLE_STATS);
        if (task->flags & PF_KTHREAD) {
                if (t) {
                        key.owner = t->handle_owner;
                        t->handle_owner = OWNER_KERNEL;
                }
        } else
                key.owner = bpf_get_current_cgroup_id();
        handle_done(task, t, &key, requested, dirtied);

        return 0;
}

SEC("tp_btf/jbd2_handle_stats")
int handle_stats_stub(void *ctx) {
        bpf_tail_call(ctx, &handle_slots, 0);
        lost(LOSS_HANDLE_SLOT_EMPTY);
        return 0;
}
