/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "test.h"

#include "bias.h"
#include "probe-cost.h"

static void probe(BiasInput *in, enum probe p, uint64_t hits, double ns) {
        in->probe[p] = (BiasProbe){ .hits = hits, .known = true, .enter_ns = ns, .run_ns = ns };
}

/* 100 fsyncs in the tracepoint tier: a begin of 200 ns, a request of 600 ns that each submits itself, and for the half
 * of them that waited a commit of 100 ns with two requests of the journal. */
static void make_fsyncs(BiasInput *in) {
        BiasOp *op = &in->op[OP_FSYNC];

        memset(in, 0, sizeof(*in));
        op->count = op->everything = op->requests = 100;
        op->in_commit = 50;
        op->p50_ns = 100000;
        probe(in, PROBE_SYNC_ENTER, 100, 200);
        probe(in, PROBE_SYNC_EXIT, 100, 5000); /* after the end */
        probe(in, PROBE_COMMIT_END, 50, 100);
        probe(in, PROBE_RQ_CREATE, 200, 300);
        probe(in, PROBE_RQ_ISSUE, 200, 100);
        probe(in, PROBE_RQ_COMPLETE, 200, 200);
        in->journal_requests = 100;
}

static const Bias *find(const Bias *all, size_t n, const char *op, const char *phase) {
        for (size_t i = 0; i < n; i++)
                if (streq(all[i].op, op) && streq(all[i].phase, phase))
                        return all + i;

        return NULL;
}

static double added(const BiasInput *in, const char *op, const char *phase) {
        Bias all[BIAS_MAX];
        const Bias *b = find(all, bias_compute(in, all), op, phase);

        return b ? b->added_ns : -1;
}

static void test_nothing(void **state) {
        BiasInput in = {};
        Bias all[BIAS_MAX];

        assert_int_equal(bias_compute(&in, all), 0);
}

static void test_fsync(void **state) {
        BiasInput in;

        make_fsyncs(&in);
        assert_float_equal(added(&in, "fsync", "total"), 200 + 600 + 0.5 * (100 + 2 * 600), 0.01);
        /* Nobody waits for the journal. */
        in.op[OP_FSYNC].in_commit = 0;
        assert_float_equal(added(&in, "fsync", "total"), 800, 0.01);
        /* Flushes are requests that nobody creates. */
        probe(&in, PROBE_RQ_ISSUE, 300, 100);
        assert_float_equal(added(&in, "fsync", "total"), 850, 0.01);
}

/* Commits that many wait for: each waits for all of it. */
static void test_shared_commits(void **state) {
        BiasInput in;

        make_fsyncs(&in);
        in.op[OP_FSYNC].in_commit = 100;
        probe(&in, PROBE_COMMIT_END, 10, 100);
        in.journal_requests = 20;
        assert_float_equal(added(&in, "fsync", "total"), 200 + 600 + 100 + 2 * 600, 0.01);
}

static void test_other_operations(void **state) {
        BiasInput in;

        make_fsyncs(&in);
        in.op[OP_FDATASYNC] = (BiasOp){ .count = 300, .everything = 300, .p50_ns = 50000 };
        probe(&in, PROBE_SYNC_ENTER, 400, 200);
        probe(&in, PROBE_DIO_BEGIN, 1000, 150);
        assert_float_equal(added(&in, "fdatasync", "total"), 200, 0.01);
        assert_float_equal(added(&in, "fsync", "total"), 200 + 600 + 0.5 * (100 + 2 * 600), 0.01);
        assert_true(added(&in, "dread", "total") < 0);
        in.op[OP_DREAD] = (BiasOp){ .count = 1000, .everything = 1000, .requests = 2000, .p50_ns = 10000 };
        assert_float_equal(added(&in, "dread", "total"), 150 + 2 * 600, 0.01);
        /* What loop devices do is hit as well. */
        in.op[OP_DREAD].everything = 2000;
        assert_float_equal(added(&in, "dread", "total"), 75 + 2 * 600, 0.01);
        /* Others wait for what is done elsewhere, or are a single wait. */
        in.op[OP_SYNCFS] = in.op[OP_SLOWREAD] = in.op[OP_DREAD];
        assert_true(added(&in, "syncfs", "total") < 0);
        assert_true(added(&in, "slowread", "total") < 0);
}

static void test_at_most_one(void **state) {
        BiasInput in;

        make_fsyncs(&in);
        in.op[OP_FSYNC].in_commit = in.op[OP_FSYNC].requests = 0;
        probe(&in, PROBE_WRITEPAGES_RESULT, 50, 100);
        assert_float_equal(added(&in, "fsync", "total"), 250, 0.01);
        /* The kernel's own writeback. */
        probe(&in, PROBE_WRITEPAGES_RESULT, 100000, 100);
        assert_float_equal(added(&in, "fsync", "total"), 300, 0.01);
}

static void test_functions(void **state) {
        BiasInput in = {};

        in.op[OP_FSYNC] = (BiasOp){ .count = 100, .everything = 100, .p50_ns = 100000 };
        in.op[OP_FSYNC].in_phase[PHASE_JOURNAL] = in.op[OP_FSYNC].everything_in_phase[PHASE_JOURNAL] = 50;
        in.op[OP_META].everything_in_phase[PHASE_JOURNAL] = 150;
        probe(&in, PROBE_F_SYS_FSYNC, 100, 300);
        in.probe[PROBE_F_SYS_FSYNC].exit_ns = 900; /* closes */
        probe(&in, PROBE_F_EXT4_SYNC_FILE, 100, 60);
        in.probe[PROBE_F_EXT4_SYNC_FILE].exit_ns = 40;
        assert_float_equal(added(&in, "fsync", "total"), 400, 0.01);
        /* A quarter of those that waited were these. Outside of operations such a program leaves at once. */
        probe(&in, PROBE_F_JBD2_LOG_WAIT_COMMIT, 200, 1000000);
        in.probe[PROBE_F_JBD2_LOG_WAIT_COMMIT].run_ns = 80;
        assert_float_equal(added(&in, "fsync", "total"), 440, 0.01);
        /* Twins of the program at the beginning run after the time stamp, those at the end after the other one. */
        in.probe[PROBE_F_SYS_FSYNC].twin_ns = 400;
        assert_float_equal(added(&in, "fsync", "total"), 540, 0.01);
}

static void test_direct_completion(void **state) {
        BiasInput in = {};

        in.op[OP_DREAD] = (BiasOp){ .count = 100, .everything = 100, .p50_ns = 10000 };
        probe(&in, PROBE_DIO_BEGIN, 100, 100);
        probe(&in, PROBE_DIO_COMPLETE, 100, 70);
        assert_float_equal(added(&in, "dread", "total"), 100, 0.01);
        in.probe[PROBE_DIO_COMPLETE].is_function = true;
        in.probe[PROBE_DIO_COMPLETE].exit_ns = 500;
        assert_float_equal(added(&in, "dread", "total"), 170, 0.01);
}

static void test_unknown(void **state) {
        BiasInput in;

        make_fsyncs(&in);
        in.probe[PROBE_SYNC_EXIT].known = false; /* does not matter */
        assert_true(added(&in, "fsync", "total") > 0);
        in.probe[PROBE_RQ_COMPLETE].known = false;
        assert_true(added(&in, "fsync", "total") < 0);
        assert_true(added(&in, "fdatasync", "total") < 0);

        make_fsyncs(&in);
        probe(&in, PROBE_RQ_REQUEUE, 2, 0); /* rare ones */
        in.probe[PROBE_RQ_REQUEUE].known = false;
        assert_float_equal(added(&in, "fsync", "total"), 200 + 600 + 0.5 * (100 + 2 * 600), 0.01);

        for (size_t i = 0; i < _PROBE_MAX; i++)
                in.probe[i].known = false;
        assert_true(added(&in, "fsync", "total") < 0);
}

static void test_requests(void **state) {
        BiasInput in;
        Bias all[BIAS_MAX];
        const Bias *b;
        size_t n;

        make_fsyncs(&in);
        in.rq[RQ_WRITE] = (BiasRequest){ .count = 200, .p50_queue_ns = 2000, .p50_device_ns = 50000 };
        n = bias_compute(&in, all);
        b = find(all, n, "rq-write", "queue");
        assert_non_null(b);
        assert_float_equal(b->added_ns, 100, 0.01);
        assert_int_equal(b->p50_ns, 2000);
        assert_null(find(all, n, "rq-write", "device"));
        assert_null(find(all, n, "rq-read", "queue"));
        in.probe[PROBE_RQ_ISSUE].twin_ns = 180;
        assert_float_equal(added(&in, "rq-write", "queue"), 100, 0.01);
        assert_float_equal(added(&in, "rq-write", "device"), 180, 0.01);
}

static void test_everything_fits(void **state) {
        BiasInput in = {};
        Bias all[BIAS_MAX];

        for (size_t i = 0; i < _PROBE_MAX; i++) {
                probe(&in, i, UINT64_MAX, 1e9);
                in.probe[i].twin_ns = 1;
        }
        for (size_t o = 0; o < _OP_MAX; o++)
                in.op[o] = (BiasOp){ .count = 1, .everything = 1, .requests = UINT64_MAX, .in_commit = UINT64_MAX,
                                     .p50_ns = 1 };
        for (size_t k = 0; k < _RQ_KIND_MAX; k++)
                in.rq[k] = (BiasRequest){ 1, 1, 1 };
        assert_true(bias_compute(&in, all) <= BIAS_MAX);
}

static void test_cost(void **state) {
        struct probe_cost c = {}, m = { .build = 7, .hits = 20, .runs = 40, .enter_ns = 2000, .exit_ns = 600,
                                        .twin_ns = 1400, .attached = ATTACH_FENTRY };

        assert_false(probe_cost_is_of(&c, 0, ATTACH_NONE)); /* never measured */
        assert_float_equal(probe_cost_ns_per_hit(&c), 0, 0.01);
        assert_true(probe_cost_update(&c, &m));
        assert_true(probe_cost_is_of(&c, 7, ATTACH_FENTRY));
        assert_false(probe_cost_is_of(&c, 8, ATTACH_FENTRY));
        assert_false(probe_cost_is_of(&c, 7, ATTACH_KPROBE));
        assert_float_equal(probe_cost_ns_per_hit(&c), 200, 0.01);
        /* Too few keep what is there. */
        m.hits = COST_HITS_MIN - 1;
        m.enter_ns = 1;
        assert_false(probe_cost_update(&c, &m));
        assert_float_equal(probe_cost_ns_per_hit(&c), 200, 0.01);
        m.hits = COST_HITS_MIN;
        assert_true(probe_cost_update(&c, &m));
        assert_float_equal(probe_cost_ns_per_hit(&c), 200.1, 0.01);
}

DEFINE_TEST_MAIN(cmocka_unit_test(test_nothing),
                 cmocka_unit_test(test_fsync),
                 cmocka_unit_test(test_shared_commits),
                 cmocka_unit_test(test_other_operations),
                 cmocka_unit_test(test_at_most_one),
                 cmocka_unit_test(test_functions),
                 cmocka_unit_test(test_direct_completion),
                 cmocka_unit_test(test_unknown),
                 cmocka_unit_test(test_requests),
                 cmocka_unit_test(test_everything_fits),
                 cmocka_unit_test(test_cost))
