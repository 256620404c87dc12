/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "blame-device.h"
#include "test.h"

/* 1 is a disk, 2 a partition of it; 10 lies upon 2 and on disk 3; 11 lies upon 10; 20 upon itself. */
enum { DISK = 1, PARTITION = 2, OTHER_DISK = 3, MAPPED = 10, MAPPED_TWICE = 11, LOOP = 20 };
enum { VICTIM = 100, A = 200, B = 300 };

static int block(uint32_t dev, BlockDevice *ret, void *userdata) {
        switch (dev) {
        case DISK:
        case OTHER_DISK:
                *ret = (BlockDevice){ .disk = dev };
                return 0;
        case PARTITION:
                *ret = (BlockDevice){ .disk = DISK };
                return 0;
        case MAPPED:
                *ret = (BlockDevice){ .disk = dev, .slaves = { PARTITION, OTHER_DISK }, .n_slaves = 2 };
                return 0;
        case MAPPED_TWICE:
                *ret = (BlockDevice){ .disk = dev, .slaves = { MAPPED }, .n_slaves = 1 };
                return 0;
        case LOOP:
                *ret = (BlockDevice){ .disk = dev, .slaves = { LOOP }, .n_slaves = 1 };
                return 0;
        default:
                return -ENOENT;
        }
}

static DeviceBlame *new_blame(void) {
        DeviceBlame *d = NULL;

        assert_int_equal(device_blame_new(&d, block, NULL), 0);
        device_blame_tick(d);
        return d;
}

static void request(DeviceBlame *d, uint64_t owner, uint32_t dev, int kind, uint64_t device_ns, uint64_t bytes) {
        struct changed_rq q = { .key = { .owner = owner, .dev = dev, .kind = (uint8_t) kind }, .count = 1,
                                .device_ns = device_ns, .bytes = bytes };

        assert_int_equal(device_blame_add_request(d, &q), 0);
}

typedef struct Got {
        uint64_t culprit; /* 0: all */
        uint8_t phase;
        uint8_t weight;
        uint64_t ns;
} Got;

static int add_up(const OwnerBlame *b, void *userdata) {
        Got *g = userdata;

        assert_int_equal(b->victim, VICTIM);
        assert_true(b->estimated);
        assert_int_equal(b->step, BLAME_NO_STEP);
        if (b->phase == g->phase && (g->culprit == 0 || b->culprit == g->culprit)) {
                g->ns += b->ns;
                g->weight = b->weight;
        }

        return 0;
}

static Got op_full(DeviceBlame *d, uint32_t dev, int phase, uint64_t ns, uint64_t total, uint64_t culprit, int origin) {
        struct changed_op o = { .key = { .owner = VICTIM, .dev = dev, .origin = (uint8_t) origin }, .count = 1,
                                .sum_ns = total };
        Got g = { .culprit = culprit, .phase = (uint8_t) phase };

        o.phase_ns[phase] = ns;
        assert_int_equal(device_blame_op(d, &o, add_up, &g), 0);
        return g;
}

static uint64_t op(DeviceBlame *d, uint32_t dev, int phase, uint64_t ns, uint64_t total, uint64_t culprit) {
        return op_full(d, dev, phase, ns, total, culprit, ORIGIN_SELF).ns;
}

static void test_shares(void **state) {
        _cleanup_(device_blame_freep) DeviceBlame *d = new_blame();

        request(d, A, DISK, RQ_READ, 30, 0);
        request(d, A, DISK, RQ_FLUSH, 40, 0);
        request(d, VICTIM, DISK, RQ_READ, 30, 0);
        request(d, B, OTHER_DISK, RQ_READ, 1000, 0);
        for (int phase = 0; phase < _PHASE_MAX; phase++) {
                bool blamed = phase == PHASE_DATA || phase == PHASE_IO || phase == PHASE_ADMISSION;

                assert_int_equal(op(d, DISK, phase, 1000, 1000, A), blamed ? 700 : 0);
                assert_int_equal(op(d, DISK, phase, 1000, 1000, VICTIM), blamed ? 300 : 0);
                assert_int_equal(op(d, DISK, phase, 1001, 1001, 0), blamed ? 1001 : 0);
        }
        assert_int_equal(op_full(d, DISK, PHASE_IO, 10, 10, A, ORIGIN_SELF).weight, BLAME_BY_BUSY_TIME);
        /* Somebody else's wait, seen a second time. */
        assert_int_equal(op_full(d, DISK, PHASE_IO, 10, 10, A, ORIGIN_LOOP).ns, 0);
        assert_int_equal(op(d, 0, PHASE_IO, 10, 10, A), 0);
        assert_int_equal(op(d, 99, PHASE_IO, 10, 10, A), 0);
}

static void test_throttle(void **state) {
        _cleanup_(device_blame_freep) DeviceBlame *d = new_blame();

        request(d, A, DISK, RQ_WRITE, 1, 3 << 20);
        request(d, B, DISK, RQ_WRITE, 1000, 1 << 20);
        request(d, B, DISK, RQ_READ, 1000, 8 << 20);
        assert_int_equal(op(d, DISK, PHASE_THROTTLE, 400, 400, A), 300);
        assert_int_equal(op(d, DISK, PHASE_THROTTLE, 400, 400, B), 100);
        assert_int_equal(op_full(d, DISK, PHASE_THROTTLE, 10, 10, A, ORIGIN_SELF).weight, BLAME_BY_WRITTEN_BYTES);
}

static void test_devices_below(void **state) {
        _cleanup_(device_blame_freep) DeviceBlame *d = new_blame();

        request(d, A, DISK, RQ_READ, 30, 0);
        request(d, B, OTHER_DISK, RQ_READ, 10, 0);
        assert_int_equal(op(d, PARTITION, PHASE_IO, 100, 100, A), 100);
        assert_int_equal(op(d, MAPPED, PHASE_IO, 100, 100, A), 75);
        assert_int_equal(op(d, MAPPED_TWICE, PHASE_IO, 100, 100, B), 25);
        assert_int_equal(op(d, LOOP, PHASE_IO, 100, 100, 0), 0); /* upon itself: comes to an end */

        /* Requests of its own: what is below does not count. */
        device_blame_tick(d);
        request(d, A, DISK, RQ_READ, 30, 0);
        request(d, VICTIM, MAPPED, RQ_READ, 10, 0);
        assert_int_equal(op(d, MAPPED, PHASE_IO, 100, 100, VICTIM), 100);
        /* A number that sysfs does not know any more. */
        request(d, B, 99, RQ_READ, 10, 0);
        device_blame_tick(d);
        request(d, B, 99, RQ_READ, 10, 0);
        assert_int_equal(op(d, 99, PHASE_IO, 100, 100, B), 100);
}

static void test_long_operations(void **state) {
        _cleanup_(device_blame_freep) DeviceBlame *d = new_blame();

        request(d, A, DISK, RQ_WRITE, 90, 0);
        for (unsigned i = 0; i < 3; i++)
                device_blame_tick(d);
        request(d, B, DISK, RQ_WRITE, 10, 0);
        assert_int_equal(op(d, DISK, PHASE_DATA, 100, 100, B), 100);
        assert_int_equal(op(d, DISK, PHASE_DATA, 100, 2 * NSEC_PER_SEC, B), 100);
        assert_int_equal(op(d, DISK, PHASE_DATA, 100, 3 * NSEC_PER_SEC, A), 90);
        assert_int_equal(op(d, DISK, PHASE_DATA, 100, UINT64_MAX, A), 90);

        /* Nothing in this second: what was before it. */
        device_blame_tick(d);
        assert_int_equal(op(d, DISK, PHASE_DATA, 100, 100, A), 90);
        for (unsigned i = 0; i < DEVICE_TICKS_MAX; i++)
                device_blame_tick(d);
        assert_int_equal(op(d, DISK, PHASE_DATA, 100, UINT64_MAX, 0), 0);
}

static void test_queue(void **state) {
        _cleanup_(device_blame_freep) DeviceBlame *d = new_blame();
        struct changed_rq q = { .key = { .owner = VICTIM, .dev = DISK }, .count = 2, .queue_ns = 1000,
                                .device_ns = 25 };
        Got g = { .culprit = A, .phase = BLAME_QUEUE };

        request(d, A, DISK, RQ_WRITE, 75, 0);
        assert_int_equal(device_blame_add_request(d, &q), 0);
        assert_int_equal(device_blame_queue(d, &q, add_up, &g), 0);
        assert_int_equal(g.ns, 750);
}

static void test_many_owners(void **state) {
        _cleanup_(device_blame_freep) DeviceBlame *d = new_blame();

        for (uint64_t i = 0; i < 20000; i++)
                request(d, 1000 + i, DISK, RQ_WRITE, 100, 0);
        request(d, A, DISK, RQ_WRITE, 1000000, 0);
        assert_int_equal(op(d, DISK, PHASE_DATA, 3000000, 3000000, 0), 3000000);
        assert_true(op(d, DISK, PHASE_DATA, 3000000, 3000000, OWNER_OTHERS) > 2900000);
        /* One more device than are remembered, and again the first. */
        for (uint32_t dev = 1000; dev < 1200; dev++)
                assert_int_equal(op(d, dev, PHASE_DATA, 10, 10, 0), 0);
        assert_int_equal(op(d, DISK, PHASE_DATA, 10, 10, 0), 10);
}

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_throttle),
        cmocka_unit_test(test_devices_below),
        cmocka_unit_test(test_long_operations),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_many_owners),
)
