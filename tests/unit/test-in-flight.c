/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "in-flight.h"
#include "test.h"

#define SECOND NSEC_PER_SEC
#define START (1000 * SECOND)

static struct rq_key key(uint64_t owner) {
        return (struct rq_key){ .owner = owner, .dev = 7, .kind = RQ_WRITE, .origin = ORIGIN_SELF };
}

static void add(InFlight *f, uint64_t owner, uint64_t device_ns) {
        struct changed_rq q = { .key = key(owner), .count = 1, .queue_ns = 12345, .device_ns = device_ns };

        assert_int_equal(in_flight_add(f, &q), 0);
}

static uint64_t device_ns(const InFlight *f, uint64_t owner) {
        struct rq_key k = key(owner);

        return in_flight_device_ns(f, &k);
}

static InFlight *new_in_flight(void) {
        InFlight *f = NULL;

        assert_int_equal(in_flight_new(&f), 0);
        return f;
}

static void test_nothing_known(void **state) {
        _cleanup_(in_flight_freep) InFlight *f = new_in_flight();

        assert_int_equal(in_flight_span_ns(f, START), 0);
        add(f, 1, SECOND); /* of a time whose beginning is not known */
        in_flight_tick(f, START);
        assert_int_equal(in_flight_span_ns(f, START), 0);
        assert_int_equal(device_ns(f, 1), 0);
        in_flight_tick(f, START + SECOND);
        assert_int_equal(in_flight_span_ns(f, START + SECOND), SECOND);
        assert_int_equal(device_ns(f, 1), 0);
}

static void test_slides(void **state) {
        _cleanup_(in_flight_freep) InFlight *f = new_in_flight();
        uint64_t now = START;

        in_flight_tick(f, now);
        /* Always 3 of one, for the first 5 seconds also 8 of another. */
        for (unsigned i = 1; i <= 40; i++) {
                uint64_t span = MIN(i, (unsigned) IN_FLIGHT_TICKS) * SECOND;
                unsigned first = i > IN_FLIGHT_TICKS ? i - IN_FLIGHT_TICKS + 1 : 1; /* second in the window */

                add(f, 1, 2 * SECOND);
                add(f, 1, SECOND);
                if (i <= 5)
                        add(f, 2, 8 * SECOND);
                now += SECOND;
                in_flight_tick(f, now);
                assert_int_equal(in_flight_span_ns(f, now), span);
                assert_int_equal(device_ns(f, 1), 3 * span);
                assert_int_equal(device_ns(f, 2), first <= 5 ? (MIN(i, 5U) - first + 1) * 8 * SECOND : 0);
                assert_int_equal(device_ns(f, 3), 0);
        }
        /* What has completed in the second that goes on is not of the span. */
        add(f, 1, 100 * SECOND);
        assert_int_equal(device_ns(f, 1), 3 * IN_FLIGHT_TICKS * SECOND);
}

static void test_keys_are_apart(void **state) {
        _cleanup_(in_flight_freep) InFlight *f = new_in_flight();
        struct changed_rq q = { .key = key(1), .device_ns = 5 };

        in_flight_tick(f, START);
        add(f, 1, 1);
        q.key.kind = RQ_READ;
        assert_int_equal(in_flight_add(f, &q), 0);
        q.key.kind = RQ_WRITE;
        q.key.origin = ORIGIN_JOURNAL;
        assert_int_equal(in_flight_add(f, &q), 0);
        in_flight_tick(f, START + SECOND);
        assert_int_equal(device_ns(f, 1), 1);
        assert_int_equal(in_flight_device_ns(f, &q.key), 5);
}

/* When nothing could be read the next time is longer. */
static void test_missed_ticks(void **state) {
        _cleanup_(in_flight_freep) InFlight *f = new_in_flight();

        in_flight_tick(f, START);
        add(f, 1, SECOND); /* some of it could be read */
        add(f, 1, 3 * SECOND);
        in_flight_tick(f, START + 4 * SECOND);
        assert_int_equal(in_flight_span_ns(f, START + 4 * SECOND), 4 * SECOND);
        assert_int_equal(device_ns(f, 1), 4 * SECOND);
        assert_int_equal(in_flight_span_ns(f, START + 4 * SECOND + IN_FLIGHT_STALE_NS), 4 * SECOND);
        assert_int_equal(in_flight_span_ns(f, START + 5 * SECOND + IN_FLIGHT_STALE_NS), 0);
        /* Twice at the same time: there is nothing to divide by. */
        add(f, 1, SECOND);
        in_flight_tick(f, START + 4 * SECOND);
        assert_int_equal(in_flight_span_ns(f, START + 4 * SECOND), 4 * SECOND);
}

static void test_too_many(void **state) {
        _cleanup_(in_flight_freep) InFlight *f = new_in_flight();
        uint64_t now = START;

        in_flight_tick(f, now);
        for (uint64_t i = 0; i < IN_FLIGHT_KEYS_MAX; i++)
                add(f, 100 + i, SECOND);
        now += SECOND;
        in_flight_tick(f, now);
        assert_int_equal(in_flight_span_ns(f, now), SECOND);
        add(f, 1, SECOND); /* has no place */
        for (unsigned i = 0; i < IN_FLIGHT_TICKS; i++) {
                now += SECOND;
                in_flight_tick(f, now);
                assert_int_equal(in_flight_span_ns(f, now), 0);
        }
        /* There is room again, and that second is forgotten. */
        add(f, 1, 2 * SECOND);
        now += SECOND;
        in_flight_tick(f, now);
        assert_int_equal(in_flight_span_ns(f, now), IN_FLIGHT_TICKS * SECOND);
        assert_int_equal(device_ns(f, 1), 2 * SECOND);
        assert_int_equal(device_ns(f, 100), 0);
}

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_nothing_known),
        cmocka_unit_test(test_slides),
        cmocka_unit_test(test_keys_are_apart),
        cmocka_unit_test(test_missed_ticks),
        cmocka_unit_test(test_too_many),
)
