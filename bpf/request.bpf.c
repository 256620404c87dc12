/* SPDX-License-Identifier: GPL-2.0-only */

/* Block requests: created -> issued to the driver -> completed, counted as /sys/block/DISK/stat counts. Issue and
 * completion run in any context. */

static inline int rq_kind(u32 op) {
        if (op >= REQ_OP_DRV_IN)
                return -1;
        if (op == REQ_OP_FLUSH)
                return RQ_FLUSH;
        if (op == REQ_OP_DISCARD)
                return RQ_DISCARD;

        return op & 1 ? RQ_WRITE : RQ_READ;
}

static inline u32 rq_dev(struct request *rq) {
        struct gendisk *disk = rq->q->disk;

        return disk ? (u32) disk->major << 20 | (u32) disk->first_minor : 0;
}

static inline struct inflight_rq *inflight_at(u32 i) {
        return bpf_map_lookup_elem(&inflight_rqs, &i);
}

/* The verifier lets nobody calculate with a pointer, but with how far it is from another one. */
static inline u32 inflight_home(struct request *rq) {
        u64 distance = (u64) rq - (u64) rq->q;

        return (distance * 0x9e3779b97f4a7c15ULL) >> (64 - inflight_bits);
}

/* Where the request is or can be, if not at home; after all of them if nowhere. Places are never free again, so a free
 * one is the end of the search. */
static __attribute__((noinline)) u32 inflight_search(u64 rq, u32 home) {
        u32 mask = (1U << inflight_bits) - 1;
        struct inflight_rq *e;
        u64 old;

        for (u32 k = 0; k < INFLIGHT_RQ_PROBES; k++) {
                u32 i = (home + k) & mask;

                e = inflight_at(i);
                if (!e)
                        break;
                if (e->rq == rq || (!e->rq && __sync_val_compare_and_swap(&e->rq, 0, rq) == 0))
                        return i;
        }
        for (u32 k = 0; k < INFLIGHT_RQ_PROBES; k++) {
                u32 i = (home + k) & mask;

                e = inflight_at(i);
                if (!e)
                        break;
                old = e->rq;
                if (e->created_ns || e->issued_ns || e->timed)
                        continue; /* on its way */
                if (__sync_val_compare_and_swap(&e->rq, old, rq) == old) {
                        e->complete_seen = 0;
                        return i;
                }
        }

        return mask + 1;
}

static inline struct inflight_rq *inflight_get(struct request *rq) {
        u32 home = inflight_home(rq);
        struct inflight_rq *e = inflight_at(home);

        if (e && e->rq == (u64) rq)
                return e;
        e = inflight_at(inflight_search((u64) rq, home));
        if (!e)
                lost(LOSS_INFLIGHT_RQ_FULL);

        return e;
}

static inline void inflight_start(struct inflight_rq *e, struct request *rq, int kind) {
        e->created_ns = 0;
        e->issued_ns = 0;
        e->owner = OWNER_KERNEL;
        e->op = 0;
        e->owned_by = OWNED_BY_NOBODY;
        e->origin = ORIGIN_OTHER;
        e->dev = rq_dev(rq);
        e->kind = kind;
        e->timed = 0;
        e->issue_seen = 0;
        e->complete_seen = 0;
}

/* The task's own operation has asked for it. */
static inline void note_request(struct inflight_rq *e, struct request *rq, bool kthread) {
        struct task_op *t = kthread ? NULL : bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), NULL, 0);
        struct op_slot *slot;
        u64 id;

        e->op = 0;
        if (!t || t->opener == OPENER_NONE)
                return;
        id = op_id(t);
        t->rq_count++;
        t->rq_bytes += rq->__data_len;
        slot = op_slot(id);
        if (!slot)
                return;
        if (slot->op != id) {
                slot->op = id;
                slot->max_device_ns = 0;
        }
        e->op = id;
}

static inline void request_completed(struct inflight_rq *e, u64 device_ns) {
        struct op_slot *slot = e->op ? op_slot(e->op) : NULL;

        if (slot && slot->op == e->op)
                raise_max(&slot->max_device_ns, device_ns);
}

static inline void find_owner(struct inflight_rq *e, struct request *rq) {
        struct found_owner o;

        find_rq_owner(rq->bio, &o);
        e->owner = o.owner;
        e->owned_by = o.owned_by;
        e->origin = o.origin;
        note_request(e, rq, o.owned_by != OWNED_BY_TASK);
}

/* In the context of the submitter (event since 6.5); seen twice it only starts a little later. */
SEC("tp_btf/block_io_start")
int BPF_PROG(rq_create, struct request *rq) {
        int kind = rq_kind(rq->cmd_flags & REQ_OP_MASK);
        struct inflight_rq *e;

        if (kind < 0)
                return 0;
        hit(PROBE_RQ_CREATE);
        e = inflight_get(rq);
        if (!e)
                return 0;
        inflight_start(e, rq, kind);
        find_owner(e, rq);
        e->created_ns = bpf_ktime_get_ns();

        return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(rq_issue, struct request *rq) {
        int kind = rq_kind(rq->cmd_flags & REQ_OP_MASK);
        struct inflight_rq *e;

        if (kind < 0)
                return 0;
        hit(PROBE_RQ_ISSUE);
        e = inflight_get(rq);
        if (!e)
                return 0;

        if (e->issued_ns) {
                if (!(e->issue_seen & program_bit)) {
                        e->issue_seen |= program_bit;
                        return 0;
                }
                lost(LOSS_COMPLETION_MISSED);
                inflight_start(e, rq, kind);
        } else if (!e->created_ns) {
                /* A flush, which nobody creates by an event, or all requests where the kernel has none for it. */
                inflight_start(e, rq, kind);
                if (!have_rq_create && kind != RQ_FLUSH) {
                        find_owner(e, rq);
                        e->created_ns = rq->start_time_ns;
                }
        }
        e->issue_seen = program_bit;
        e->complete_seen = 0;
        e->issued_ns = bpf_ktime_get_ns();

        return 0;
}

SEC("tp_btf/block_rq_requeue")
int BPF_PROG(rq_requeue, struct request *rq) {
        struct inflight_rq *e = inflight_get(rq);

        hit(PROBE_RQ_REQUEUE);
        if (e)
                e->issued_ns = 0;

        return 0;
}

/* Notes the completion for files with a sync in flight, whoever submitted the write. */
static inline void mapping_note_completion(struct bio *bio, u64 now) {
        for (int i = 0; i < 16 && bio; i++) {
                struct mapping_slot *slot;
                struct page *page = known_bio_first_page(bio);
                u64 mapping;
                u32 index;

                if (page) {
                        mapping = (u64) BPF_CORE_READ(compat_page_folio(page), mapping);
                        index = mapping_slot_index(mapping);
                        slot = bpf_map_lookup_elem(&mappings, &index);
                        if (slot && mapping && slot->mapping == mapping)
                                slot->completed_ns = now;
                }
                bio = bio->bi_next;
        }
}

static inline void rq_count(struct inflight_rq *e, u32 nr_bytes, bool sample, bool untimed, int error, u64 now) {
        struct rq_key key = { .owner = e->owner, .dev = e->dev, .kind = e->kind, .origin = e->origin };
        struct rq_value *v = rq_value_get(&key);

        if (!v)
                return;
        v->tick = current_tick();
        if (nr_bytes && e->kind != RQ_FLUSH) {
                __sync_fetch_and_add(&v->bytes, nr_bytes);
                if (e->owned_by < _OWNED_BY_MAX)
                        __sync_fetch_and_add(&v->owned_bytes[e->owned_by], nr_bytes);
        }
        if (error && (sample || untimed))
                __sync_fetch_and_add(&v->errors, 1);
        if (untimed)
                __sync_fetch_and_add(&v->untimed, 1);
        if (!sample)
                return;
        if (now < e->issued_ns || (e->created_ns && e->issued_ns < e->created_ns)) {
                lost(LOSS_NEGATIVE_TIME);
                return;
        }
        hist_full_count(&v->device, now - e->issued_ns);
        request_completed(e, now - e->issued_ns);
        if (e->created_ns)
                hist_full_count(&v->queue, e->issued_ns - e->created_ns);
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(rq_complete, struct request *rq, int error, unsigned int nr_bytes) {
        int kind = rq_kind(rq->cmd_flags & REQ_OP_MASK);
        u32 len = rq->__data_len;
        bool final, flush_seq, sample, untimed;
        struct inflight_rq *e;
        u64 now;

        if (kind < 0)
                return 0;
        hit(PROBE_RQ_COMPLETE);
        e = inflight_get(rq);
        if (!e)
                return 0;
        if (e->complete_seen && !(e->complete_seen & program_bit) && e->complete_len == len &&
            e->complete_bytes == nr_bytes) {
                e->complete_seen |= program_bit; /* another generation's program counted this event */
                return 0;
        }
        if (!e->issued_ns && !e->created_ns && !e->timed)
                inflight_start(e, rq, kind); /* issued before the programs were attached */
        e->complete_seen = program_bit;
        e->complete_len = len;
        e->complete_bytes = nr_bytes;

        now = bpf_ktime_get_ns();
        if (!function_tier && kind == RQ_WRITE && nr_bytes)
                mapping_note_completion(rq->bio, now);

        final = kind == RQ_FLUSH || nr_bytes >= len;
        flush_seq = kind != RQ_FLUSH && (rq->rq_flags & rqf_flush_seq);
        sample = final && e->issued_ns && (nr_bytes || kind == RQ_FLUSH);
        untimed = final && !flush_seq && !sample && !e->timed;
        rq_count(e, nr_bytes, sample, untimed, error, now);
        if (sample) {
                e->issued_ns = 0;
                e->timed = 1;
        }
        if (final && !flush_seq) {
                e->created_ns = 0;
                e->issued_ns = 0;
                e->timed = 0;
        }

        return 0;
}
