/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "histogram.h"
#include "history-codec.h"
#include "test.h"

static uint64_t state;

static int setup(void **unused) {
        state = 88172645463325252ULL;
        return 0;
}

static void add_time(unsigned long long *count, unsigned long long *sum, unsigned long long *max,
                     unsigned long long *bucket, unsigned i, uint64_t ns) {
        (*count)++;
        *sum += ns;
        *max = MAX(*max, ns);
        bucket[i]++;
}

static void add_full(struct hist_full *h, uint64_t ns) {
        add_time(&h->count, &h->sum_ns, &h->max_ns, h->bucket, bucket_full(ns), ns);
}

static void add_short(struct hist_short *h, uint64_t ns) {
        add_time(&h->count, &h->sum_ns, &h->max_ns, h->bucket, bucket_short(ns), ns);
}

/* A time of any magnitude. */
static uint64_t random_ns(void) {
        uint64_t v = test_random(&state);

        return v >> (20 + test_random(&state) % 44);
}

static void grow_op(struct op_value *v, unsigned n) {
        for (unsigned i = 0; i < n; i++) {
                add_full(&v->total, random_ns());
                add_short(&v->phase[test_random(&state) % _PHASE_MAX], random_ns());
                v->step_ns[test_random(&state) % _STEP_MAX] += random_ns();
                v->errors += test_random(&state) % 8 == 0;
        }
}

static void grow_rq(struct rq_value *v, unsigned n) {
        for (unsigned i = 0; i < n; i++) {
                add_full(&v->queue, random_ns());
                add_full(&v->device, random_ns());
                v->bytes += 4096;
                v->owned_bytes[test_random(&state) % _OWNED_BY_MAX] += 4096;
                v->untimed += test_random(&state) % 8 == 0;
                v->errors += test_random(&state) % 8 == 0;
        }
}

static void test_varint(void **unused) {
        static const uint64_t numbers[] = { 0, 1, 127, 128, 16383, 16384, UINT32_MAX, INT64_MAX, UINT64_MAX };
        Buffer b = {};
        Cursor c;

        for (size_t i = 0; i < ELEMENTSOF(numbers); i++)
                buffer_put_varint(&b, numbers[i]);
        c = cursor(b.data, b.size);
        for (size_t i = 0; i < ELEMENTSOF(numbers); i++)
                assert_true(cursor_varint(&c) == numbers[i]);
        assert_ptr_equal(c.p, c.end);
        assert_int_equal(c.error, 0);
        assert_int_equal(cursor_varint(&c), 0);
        assert_int_equal(c.error, -EBADMSG);
        buffer_done(&b);
}

static void test_varint_too_long(void **unused) {
        static const uint8_t endless[16] = { 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255 };
        static const uint8_t large[] = { 255, 255, 255, 255, 255, 255, 255, 255, 255, 2 };
        Cursor c = cursor(endless, sizeof(endless));

        assert_int_equal(cursor_varint(&c), 0);
        assert_int_equal(c.error, -EBADMSG);
        c = cursor(large, sizeof(large));
        assert_int_equal(cursor_varint(&c), 0);
        assert_int_equal(c.error, -EBADMSG);
}

static void test_string(void **unused) {
        static const uint8_t bad[] = { 3, 'a', 0, 'b' };
        char buf[8];
        Buffer b = {};
        Cursor c;

        buffer_put_string(&b, "seven77");
        buffer_put_string(&b, "eight888");
        c = cursor(b.data, b.size);
        cursor_string(&c, buf, sizeof(buf));
        assert_string_equal(buf, "seven77");
        assert_int_equal(c.error, 0);
        cursor_string(&c, buf, sizeof(buf));
        assert_string_equal(buf, "");
        assert_int_equal(c.error, -EBADMSG);
        c = cursor(bad, sizeof(bad));
        cursor_string(&c, buf, sizeof(buf));
        assert_int_equal(c.error, -EBADMSG);
        buffer_done(&b);
}

static void test_round_trip(void **unused) {
        for (unsigned n = 0; n < 300; n += 7) {
                struct op_value op = {}, op2 = {};
                struct rq_value rq = {}, rq2 = {};
                Buffer b = {};

                grow_op(&op, n);
                op_value_encode(&b, &op);
                assert_int_equal(op_value_decode_add(b.data, b.size, &op2), 0);
                assert_memory_equal(&op, &op2, sizeof(op));
                assert_true(b.size <= ENCODED_VALUE_MAX);
                b.size = 0;
                grow_rq(&rq, n);
                rq_value_encode(&b, &rq);
                assert_int_equal(rq_value_decode_add(b.data, b.size, &rq2), 0);
                assert_memory_equal(&rq, &rq2, sizeof(rq));
                buffer_done(&b);
        }
}

static void test_largest(void **unused) {
        struct op_value op, op2 = {};
        struct rq_value rq, rq2 = {};
        Buffer b = {};

        memset(&op, 0xff, sizeof(op));
        op.folded_from = op.tick = op.requests = 0; /* which are not of the history */
        op_value_encode(&b, &op);
        assert_true(b.size <= ENCODED_VALUE_MAX);
        assert_int_equal(op_value_decode_add(b.data, b.size, &op2), 0);
        assert_memory_equal(&op, &op2, sizeof(op));
        b.size = 0;
        memset(&rq, 0xff, sizeof(rq));
        rq.folded_from = rq.tick = 0;
        rq_value_encode(&b, &rq);
        assert_true(b.size <= ENCODED_VALUE_MAX);
        assert_int_equal(rq_value_decode_add(b.data, b.size, &rq2), 0);
        assert_memory_equal(&rq, &rq2, sizeof(rq));
        buffer_done(&b);
}

static void test_small_is_small(void **unused) {
        struct op_value op = {};
        Buffer b = {};

        add_full(&op.total, 1000000);
        add_short(&op.phase[PHASE_JOURNAL], 900000);
        op_value_encode(&b, &op);
        assert_true(b.size < 32);
        buffer_done(&b);
}

/* What was before and what came since are what is now, the largest time included. */
static void test_diff_adds_up(void **unused) {
        struct op_value op = {}, op_sum = {};
        struct rq_value rq = {}, rq_sum = {};

        for (unsigned n = 0; n < 50; n++) {
                struct op_value op_before = op, op_grown = {};
                struct rq_value rq_before = rq, rq_grown = {};

                grow_op(&op, n % 5);
                grow_rq(&rq, n % 5);
                assert_true(op_value_diff(&op, &op_before, &op_grown));
                assert_true(rq_value_diff(&rq, &rq_before, &rq_grown));
                assert_int_equal(op_grown.total.count, n % 5);
                op_value_add(&op_sum, &op_grown);
                rq_value_add(&rq_sum, &rq_grown);
                assert_memory_equal(&op, &op_sum, sizeof(op));
                assert_memory_equal(&rq, &rq_sum, sizeof(rq));
        }
}

static void test_diff_max(void **unused) {
        struct op_value before = {}, now, grown;

        add_full(&before.total, 1000000);
        now = before;
        add_full(&now.total, 2000000); /* the largest ever: exact */
        assert_true(op_value_diff(&now, &before, &grown));
        assert_int_equal(grown.total.max_ns, 2000000);

        before = now;
        add_full(&now.total, 500000); /* not the largest: the edge of its bucket */
        assert_true(op_value_diff(&now, &before, &grown));
        assert_int_equal(grown.total.max_ns, bucket_full_upper(bucket_full(500000)));
        assert_true(grown.total.max_ns >= 500000);

        before = now;
        add_full(&now.total, 1999999); /* not above what the largest ever is */
        assert_true(bucket_full_upper(bucket_full(1999999)) > 2000000);
        assert_true(op_value_diff(&now, &before, &grown));
        assert_int_equal(grown.total.max_ns, 2000000);

        before = now;
        add_full(&now.total, 80 * NSEC_PER_SEC);
        before = now;
        add_full(&now.total, 70 * NSEC_PER_SEC); /* the last bucket has no edge */
        assert_true(op_value_diff(&now, &before, &grown));
        assert_true(grown.total.max_ns == 80 * NSEC_PER_SEC);

        before = now; /* nothing came */
        assert_true(op_value_diff(&now, &before, &grown));
        assert_int_equal(grown.total.max_ns, 0);
        assert_int_equal(grown.total.count, 0);
}

static void test_diff_down(void **unused) {
        struct op_value before = {}, now, grown;
        struct rq_value rq_before = {}, rq_now, rq_grown;

        grow_op(&before, 20);
        now = before;
        now.total.sum_ns--;
        assert_false(op_value_diff(&now, &before, &grown));
        now = before;
        now.total.max_ns--;
        assert_false(op_value_diff(&now, &before, &grown));
        memset(&now, 0, sizeof(now));
        assert_false(op_value_diff(&now, &before, &grown));

        grow_rq(&rq_before, 20);
        rq_now = rq_before;
        rq_now.bytes--;
        assert_false(rq_value_diff(&rq_now, &rq_before, &rq_grown));
}

static void test_truncated(void **unused) {
        struct op_value op = {}, sink;
        struct rq_value rq = {}, rq_sink;
        Buffer b = {};

        grow_op(&op, 50);
        op_value_encode(&b, &op);
        for (size_t n = 0; n < b.size; n++) {
                /* A copy of just that size, so that reading beyond is found out. */
                uint8_t *copy = malloc(n + !n);

                memcpy(copy, b.data, n);
                memset(&sink, 0, sizeof(sink));
                assert_int_equal(op_value_decode_add(copy, n, &sink), -EBADMSG);
                free(copy);
        }
        buffer_put_varint(&b, 0); /* and one byte too many */
        assert_int_equal(op_value_decode_add(b.data, b.size, &sink), -EBADMSG);
        b.size = 0;
        grow_rq(&rq, 50);
        rq_value_encode(&b, &rq);
        for (size_t n = 0; n < b.size; n++) {
                memset(&rq_sink, 0, sizeof(rq_sink));
                assert_int_equal(rq_value_decode_add(b.data, n, &rq_sink), -EBADMSG);
        }
        buffer_done(&b);
}

/* Anything may come out of it, but nothing is touched that should not be. */
static void test_flipped_bits(void **unused) {
        struct op_value op = {};
        struct rq_value rq = {};
        Buffer b = {};

        grow_op(&op, 50);
        op_value_encode(&b, &op);
        for (size_t i = 0; i < b.size * 8; i++) {
                struct op_value sink = {};
                int r;

                b.data[i / 8] ^= 1 << i % 8;
                r = op_value_decode_add(b.data, b.size, &sink);
                assert_true(r == 0 || r == -EBADMSG);
                b.data[i / 8] ^= 1 << i % 8;
        }
        b.size = 0;
        grow_rq(&rq, 50);
        rq_value_encode(&b, &rq);
        for (size_t i = 0; i < b.size * 8; i++) {
                struct rq_value sink = {};
                int r;

                b.data[i / 8] ^= 1 << i % 8;
                r = rq_value_decode_add(b.data, b.size, &sink);
                assert_true(r == 0 || r == -EBADMSG);
                b.data[i / 8] ^= 1 << i % 8;
        }
        buffer_done(&b);
}

static void test_counts_that_lie(void **unused) {
        Buffer b = {};
        struct op_value op = {};

        /* errors, then more steps than there are. */
        buffer_put_varint(&b, 0);
        buffer_put_varint(&b, UINT64_MAX);
        assert_int_equal(op_value_decode_add(b.data, b.size, &op), -EBADMSG);
        b.size = 0;
        /* errors, two steps at the same place. */
        buffer_put(&b, (const uint8_t[]){ 0, 2, 1, 5, 0, 5 }, 6);
        assert_int_equal(op_value_decode_add(b.data, b.size, &op), -EBADMSG);
        b.size = 0;
        /* errors, steps beyond the last. */
        buffer_put(&b, (const uint8_t[]){ 0, 2, 4, 5, 4, 5 }, 6);
        assert_int_equal(op_value_decode_add(b.data, b.size, &op), -EBADMSG);
        buffer_done(&b);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(test_varint, setup),
                cmocka_unit_test_setup(test_varint_too_long, setup),
                cmocka_unit_test_setup(test_string, setup),
                cmocka_unit_test_setup(test_round_trip, setup),
                cmocka_unit_test_setup(test_largest, setup),
                cmocka_unit_test_setup(test_small_is_small, setup),
                cmocka_unit_test_setup(test_diff_adds_up, setup),
                cmocka_unit_test_setup(test_diff_max, setup),
                cmocka_unit_test_setup(test_diff_down, setup),
                cmocka_unit_test_setup(test_truncated, setup),
                cmocka_unit_test_setup(test_flipped_bits, setup),
                cmocka_unit_test_setup(test_counts_that_lie, setup),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
