/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bias.h"
#include "names.h"

/* Of the programs that run inside an operation so many may be of unknown cost. */
#define UNKNOWN_SHARE_MAX 0.1

enum {
        OPS_SYNC = 1 << OP_FSYNC | 1 << OP_FDATASYNC | 1 << OP_MSYNC | 1 << OP_SYNCWRITE,
        OPS_DIRECT = 1 << OP_DREAD | 1 << OP_DWRITE,
        /* What sync(2) and syncfs(2) wait for is done by others, and what the slow ones and meta count is one wait. */
        OPS_TOLD = OPS_SYNC | OPS_DIRECT | 1 << OP_SYNCRANGE | 1 << OP_WRITE | 1 << OP_READ,
};

typedef enum Scope {
        SCOPE_NONE,
        SCOPE_OPS,     /* runs in operations of these kinds: divided among them */
        SCOPE_PHASE,   /* runs in operations only, where they come to wait: divided among those that did */
        SCOPE_REQUEST, /* for each request that is waited for */
        SCOPE_COMMIT,  /* for each commit that is waited for */
} Scope;

enum {
        ENTER_ONLY = 1 << 0,    /* the program at the end stops the clock, so what it does is not in the time */
        AT_MOST_ONE = 1 << 1,   /* in each operation; runs outside of all of them, too */
        FUNCTION_ONLY = 1 << 2, /* at a tracepoint it is the end */
};

/* Where the programs of a probe run. Those that are not here run outside of operations, or after their end, or nobody
 * knows inside which. */
typedef struct Place {
        Scope scope;
        unsigned ops;
        enum phase phase;
        unsigned flags;
} Place;

#define IN_OPS(mask, f) { .scope = SCOPE_OPS, .ops = (mask), .flags = (f) }
#define IN_PHASE(p) { .scope = SCOPE_PHASE, .phase = PHASE_##p }
#define IN_REQUEST { .scope = SCOPE_REQUEST }
#define IN_COMMIT { .scope = SCOPE_COMMIT }

static const Place places[_PROBE_MAX] = {
        [PROBE_SYNC_ENTER] = IN_OPS(OPS_SYNC, 0),
        [PROBE_WRITEPAGES_RESULT] = IN_OPS(OPS_SYNC, AT_MOST_ONE),
        [PROBE_DIO_BEGIN] = IN_OPS(OPS_DIRECT, ENTER_ONLY | AT_MOST_ONE),
        [PROBE_DIO_COMPLETE] = IN_OPS(OPS_DIRECT, ENTER_ONLY | AT_MOST_ONE | FUNCTION_ONLY),
        [PROBE_LOCK_BEGIN] = IN_PHASE(LOCK),
        [PROBE_LOCK_END] = IN_PHASE(LOCK),
        [PROBE_OWN_FLUSH] = IN_REQUEST, /* runs for each bio */
        [PROBE_RQ_CREATE] = IN_REQUEST,
        [PROBE_RQ_ISSUE] = IN_REQUEST,
        [PROBE_RQ_REQUEUE] = IN_REQUEST,
        [PROBE_RQ_COMPLETE] = IN_REQUEST,
        [PROBE_COMMIT_START] = IN_COMMIT,
        [PROBE_COMMIT_LOCKING] = IN_COMMIT,
        [PROBE_COMMIT_FLUSHING] = IN_COMMIT,
        [PROBE_COMMIT_LOGGING] = IN_COMMIT,
        [PROBE_COMMIT_END] = IN_COMMIT, /* before those are woken that wait for it */
        [PROBE_WRITE_SUPERBLOCK] = IN_COMMIT,
        [PROBE_F_FINISH_INODE_DATA] = IN_COMMIT,

        [PROBE_F_SYS_FSYNC] = IN_OPS(1 << OP_FSYNC, ENTER_ONLY),
        [PROBE_F_SYS_FDATASYNC] = IN_OPS(1 << OP_FDATASYNC, ENTER_ONLY),
        [PROBE_F_SYNC_FILE_RANGE] = IN_OPS(1 << OP_SYNCRANGE, ENTER_ONLY),
        [PROBE_F_VFS_FSYNC_RANGE] = IN_OPS(OPS_SYNC, 0),
        [PROBE_F_VFS_FSYNC] = IN_OPS(1 << OP_FSYNC | 1 << OP_FDATASYNC, 0),
        [PROBE_F_EXT4_SYNC_FILE] = IN_OPS(OPS_SYNC, 0),
        [PROBE_F_XFS_FILE_FSYNC] = IN_OPS(OPS_SYNC, 0),
        [PROBE_F_XFS_DIR_FSYNC] = IN_OPS(OPS_SYNC, 0),
        [PROBE_F_BTRFS_SYNC_FILE] = IN_OPS(OPS_SYNC, 0),
        [PROBE_F_OVL_FSYNC] = IN_OPS(OPS_SYNC, 0),
        [PROBE_F_FUSE_FSYNC] = IN_OPS(OPS_SYNC, 0),
        [PROBE_F_NFS_FILE_FSYNC] = IN_OPS(OPS_SYNC, 0),
        [PROBE_F_BLKDEV_FSYNC] = IN_OPS(OPS_SYNC, 0),
        [PROBE_F_FILE_WRITE_AND_WAIT_RANGE] = IN_PHASE(DATA),
        [PROBE_F_FILEMAP_FDATAWAIT_RANGE] = IN_PHASE(DATA),
        [PROBE_F_BTRFS_WAIT_ORDERED_RANGE] = IN_PHASE(DATA),
        [PROBE_F_JBD2_LOG_WAIT_COMMIT] = IN_PHASE(JOURNAL),
        [PROBE_F_EXT4_FC_COMMIT] = IN_PHASE(JOURNAL),
        [PROBE_F_XFS_LOG_FORCE_SEQ] = IN_PHASE(JOURNAL),
        [PROBE_F_XFS_LOG_FORCE] = IN_PHASE(JOURNAL),
        [PROBE_F_BTRFS_SYNC_LOG] = IN_PHASE(JOURNAL),
        [PROBE_F_BTRFS_COMMIT_TRANSACTION] = IN_PHASE(JOURNAL),
        [PROBE_F_WAIT_TRANSACTION_LOCKED] = IN_PHASE(JOURNAL),
        [PROBE_F_JBD2_LOG_WAIT_FOR_SPACE] = IN_PHASE(JOURNAL),
        [PROBE_F_XLOG_GRANT_HEAD_WAIT] = IN_PHASE(JOURNAL),
        [PROBE_F_BLKDEV_ISSUE_FLUSH] = IN_PHASE(FLUSH),
        [PROBE_F_LOCK_BUFFER] = IN_PHASE(LOCK),
        [PROBE_F_FOLIO_LOCK] = IN_PHASE(IO),
        [PROBE_F_FILEMAP_READ_FOLIO] = IN_PHASE(IO),
        [PROBE_F_WAIT_ON_BUFFER] = IN_PHASE(IO),
        [PROBE_F_IO_SCHEDULE] = IN_PHASE(IO),
        [PROBE_F_BIO_QUEUE_ENTER] = IN_PHASE(ADMISSION),
        [PROBE_F_EXT4_WRITE] = IN_OPS(1 << OP_WRITE, ENTER_ONLY),
        [PROBE_F_EXT4_READ] = IN_OPS(1 << OP_READ, ENTER_ONLY),
        [PROBE_F_XFS_WRITE] = IN_OPS(1 << OP_WRITE, ENTER_ONLY),
        [PROBE_F_XFS_READ] = IN_OPS(1 << OP_READ, ENTER_ONLY),
        [PROBE_F_BTRFS_WRITE] = IN_OPS(1 << OP_WRITE, ENTER_ONLY),
        [PROBE_F_BTRFS_READ] = IN_OPS(1 << OP_READ, ENTER_ONLY),
        [PROBE_F_OVL_WRITE] = IN_OPS(1 << OP_WRITE, ENTER_ONLY),
        [PROBE_F_OVL_READ] = IN_OPS(1 << OP_READ, ENTER_ONLY),
};

/* Of programs in one operation, request or commit. */
typedef struct Sum {
        double ns;
        double known; /* hits of those whose cost is */
        double unknown;
} Sum;

static void sum_add(Sum *s, const BiasProbe *p, double hits, double ns) {
        if (hits <= 0)
                return;
        if (p->known) {
                s->ns += hits * ns;
                s->known += hits;
        } else
                s->unknown += hits;
}

static void sum_add_sum(Sum *s, const Sum *more, double times) {
        s->ns += times * more->ns;
        s->known += times * more->known;
        s->unknown += times * more->unknown;
}

static double ratio(uint64_t part, uint64_t whole) {
        return whole > 0 ? (double) part / (double) whole : 0;
}

static double hit_ns(const BiasProbe *p, bool enter_only) {
        double both = p->enter_ns + p->exit_ns;

        if (!enter_only || both <= 0)
                return both + p->twin_ns;

        /* Twins are there for both ends. */
        return p->enter_ns + p->twin_ns * p->enter_ns / both;
}

static Sum sum_per(const BiasInput *in, Scope scope, uint64_t n) {
        Sum s = {};

        for (size_t i = 0; i < _PROBE_MAX; i++)
                if (places[i].scope == scope)
                        sum_add(&s, &in->probe[i], ratio(in->probe[i].hits, n), hit_ns(&in->probe[i], false));

        return s;
}

/* How often the programs of the probe ran in each operation of that kind, on average. */
static double hits_in_op(const BiasInput *in, const Place *place, const BiasProbe *p, int op) {
        uint64_t n = 0;
        double hits;

        if (place->scope == SCOPE_OPS) {
                if (!(place->ops & 1U << op))
                        return 0;
                for (int o = 0; o < _OP_MAX; o++)
                        if (place->ops & 1U << o)
                                n += in->op[o].everything;
                hits = ratio(p->hits, n);

                return place->flags & AT_MOST_ONE ? MIN(hits, 1.0) : hits;
        }
        for (int o = 0; o < _OP_MAX; o++)
                n += in->op[o].everything_in_phase[place->phase];

        return ratio(p->hits, n) * ratio(in->op[op].in_phase[place->phase], in->op[op].count);
}

static Sum sum_of_op(const BiasInput *in, int op) {
        Sum s = {};

        for (size_t i = 0; i < _PROBE_MAX; i++) {
                const BiasProbe *p = &in->probe[i];
                const Place *place = &places[i];

                if ((place->scope != SCOPE_OPS && place->scope != SCOPE_PHASE) ||
                    ((place->flags & FUNCTION_ONLY) && !p->is_function))
                        continue;
                /* Outside of operations such a program leaves at once, and is not hit: those runs are not counted. */
                sum_add(&s, p, hits_in_op(in, place, p, op),
                        place->scope == SCOPE_PHASE ? p->run_ns : hit_ns(p, place->flags & ENTER_ONLY));
        }

        return s;
}

static bool is_told(const Sum *s) {
        return s->known > 0 && s->unknown <= UNKNOWN_SHARE_MAX * (s->known + s->unknown);
}

static size_t request_bias(const BiasInput *in, int kind, Bias *ret) {
        const BiasProbe *issue = &in->probe[PROBE_RQ_ISSUE];
        const BiasRequest *rq = &in->rq[kind];
        size_t n = 0;

        /* It stamps the end of the time in the queue last of all, its twins run after that. What is done when a request
         * is created comes before its time, and what is done at its end after it. */
        if (!issue->known || rq->count == 0)
                return 0;
        if (rq->p50_queue_ns > 0)
                ret[n++] = (Bias){ rq_kind_to_string(kind), "queue", issue->enter_ns, rq->p50_queue_ns };
        if (rq->p50_device_ns > 0 && issue->twin_ns > 0)
                ret[n++] = (Bias){ rq_kind_to_string(kind), "device", issue->twin_ns, rq->p50_device_ns };

        return n;
}

size_t bias_compute(const BiasInput *in, Bias ret[static BIAS_MAX]) {
        uint64_t commits = in->probe[PROBE_COMMIT_END].hits;
        Sum request = sum_per(in, SCOPE_REQUEST, in->probe[PROBE_RQ_CREATE].hits ?: in->probe[PROBE_RQ_ISSUE].hits);
        Sum commit = sum_per(in, SCOPE_COMMIT, commits);
        size_t n = 0;

        sum_add_sum(&commit, &request, ratio(in->journal_requests, commits));
        for (int o = 0; o < _OP_MAX; o++) {
                const BiasOp *op = &in->op[o];
                Sum s;

                if (!(OPS_TOLD & 1U << o) || op->count == 0 || op->p50_ns == 0)
                        continue;
                s = sum_of_op(in, o);
                sum_add_sum(&s, &request, ratio(op->requests, op->count));
                sum_add_sum(&s, &commit, ratio(op->in_commit, op->count));
                if (is_told(&s))
                        ret[n++] = (Bias){ op_to_string(o), "total", s.ns, op->p50_ns };
        }
        for (int k = 0; k < _RQ_KIND_MAX; k++)
                n += request_bias(in, k, ret + n);

        return n;
}
