/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <math.h>
#include <sys/socket.h>

#include "json.h"
#include "stall-text.h"
#include "test.h"

/* A bus that nobody listens to: messages can be made and read back. */
static int make_bus(void **state) {
        sd_bus *bus = NULL;
        int fds[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
        assert_true(sd_bus_new(&bus) >= 0);
        assert_true(sd_bus_set_fd(bus, fds[0], fds[0]) >= 0);
        assert_true(sd_bus_start(bus) >= 0);
        close(fds[1]);
        *state = bus;

        return 0;
}

static int drop_bus(void **state) {
        sd_bus_close_unref(*state);

        return 0;
}

static sd_bus_message *begin(void **state) {
        sd_bus_message *m = NULL;

        assert_true(sd_bus_message_new_signal(*state, &m, "/a", "a.b", "Operation") >= 0);
        assert_true(sd_bus_message_open_container(m, 'a', "{sv}") >= 0);

        return m;
}

static void end(sd_bus_message *m) {
        assert_true(sd_bus_message_close_container(m) >= 0);
        assert_true(sd_bus_message_seal(m, 1, 0) >= 0);
        assert_true(sd_bus_message_rewind(m, true) >= 0);
}

#define add(m, key, type, ...) assert_true(sd_bus_message_append(m, "{sv}", key, type, __VA_ARGS__) >= 0)

static void check_json(const StallRow *row, const char *expected) {
        _cleanup_(json_putp) json_object *j = operation_to_json(row);

        assert_non_null(j);
        assert_string_equal(json_object_to_json_string_ext(j, JSON_C_TO_STRING_PLAIN), expected);
}

static void test_all(void **state) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = begin(state);
        _cleanup_(stall_row_clear) StallRow row = {};

        add(m, "id", "t", UINT64_C(7));
        add(m, "startRealtimeUSec", "t", UINT64_C(1795996800000000));
        add(m, "unit", "s", "db.service");
        add(m, "op", "s", "fsync");
        add(m, "state", "s", "failed");
        add(m, "error", "s", "EIO");
        add(m, "totalNSec", "t", UINT64_C(4000000000));
        add(m, "phase", "s", "journal");
        add(m, "phases", "a{st}", 1, "journal", UINT64_C(3900000000));
        add(m, "steps", "a{st}", 0);
        add(m, "requests", "a{st}", 1, "count", UINT64_C(12));
        add(m, "device", "s", "8:1");
        add(m, "mountPoint", "s", "/var");
        add(m, "transaction", "u", UINT32_C(4711));
        add(m, "owners", "a(sd)", 2, "bulk.service", 0.81, "db.service", 0.19);
        add(m, "pid", "i", INT32_C(-1));
        add(m, "spans", "a(stt)", 1, "data", UINT64_C(0), UINT64_C(5));
        add(m, "journal", "a(stt)", 1, "log", UINT64_C(1), UINT64_C(2));
        add(m, "lost", "t", UINT64_C(3));
        end(m);

        assert_int_equal(operation_read(m, &row), 0);
        check_json(&row, "{\"id\":7,\"startRealtimeUSec\":1795996800000000,\"unit\":\"db.service\",\"op\":\"fsync\","
                         "\"state\":\"failed\",\"error\":\"EIO\",\"totalNSec\":4000000000,\"phase\":\"journal\","
                         "\"phases\":{\"journal\":3900000000},\"steps\":{},\"requests\":{\"count\":12},"
                         "\"device\":\"8:1\",\"mountPoint\":\"\\/var\",\"transaction\":4711,"
                         "\"owners\":[{\"unit\":\"bulk.service\",\"share\":0.81},"
                         "{\"unit\":\"db.service\",\"share\":0.19}],"
                         "\"waitNSec\":null,\"file\":null,\"pid\":-1,\"comm\":null,\"thread\":null,"
                         "\"spans\":[{\"phase\":\"data\",\"startNSec\":0,\"endNSec\":5}],"
                         "\"journal\":[{\"step\":\"log\",\"startNSec\":1,\"endNSec\":2}],\"lost\":3}");
}

/* Nothing is there: nothing is invented, and who may not see files does not see that there are any. */
static void test_empty(void **state) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = begin(state);
        _cleanup_(stall_row_clear) StallRow row = {};
        _cleanup_(json_putp) json_object *j = NULL;
        _cleanup_free_ char *phase = NULL, *sentence = NULL;

        end(m);
        assert_int_equal(operation_read(m, &row), 0);
        assert_int_equal(row.present, 0);

        j = stall_row_to_json(&row);
        assert_string_equal(json_object_to_json_string_ext(j, JSON_C_TO_STRING_PLAIN),
                            "{\"id\":null,\"startRealtimeUSec\":null,\"unit\":null,\"op\":null,\"state\":null,"
                            "\"error\":null,\"totalNSec\":null,\"phase\":null,\"phases\":null,\"steps\":null,"
                            "\"requests\":null,\"device\":null,\"mountPoint\":null,\"transaction\":null,"
                            "\"owners\":null,\"waitNSec\":null}");
        phase = stall_phase_text(&row);
        sentence = stall_sentence(&row);
        assert_string_equal(phase, "-");
        assert_string_equal(sentence, "operation");
}

/* What has an unknown name or the wrong type is skipped. */
static void test_strange(void **state) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = begin(state);
        _cleanup_(stall_row_clear) StallRow row = {};

        add(m, "nonsense", "(ia{sv})", 1, 0);
        add(m, "id", "s", "seven");
        add(m, "pid", "u", UINT32_C(1));
        add(m, "owners", "as", 1, "x");
        add(m, "unit", "s", "");
        add(m, "op", "s", "fsync");
        add(m, "op", "s", "msync"); /* the last one counts */
        end(m);

        assert_int_equal(operation_read(m, &row), 0);
        assert_false(STALL_HAS(&row, id));
        assert_false(STALL_HAS(&row, pid));
        assert_false(STALL_HAS(&row, owners));
        assert_null(row.unit);
        assert_string_equal(row.op, "msync");
}

/* A key that comes twice, the second time without anything: it is absent, and not half there. */
static void test_taken_back(void **state) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = begin(state);
        _cleanup_(stall_row_clear) StallRow row = {};
        _cleanup_(json_putp) json_object *j = NULL;

        add(m, "unit", "s", "a.service");
        add(m, "op", "s", "fsync");
        add(m, "op", "s", "");
        end(m);

        assert_int_equal(operation_read(m, &row), 0);
        assert_true(STALL_HAS(&row, unit));
        assert_false(STALL_HAS(&row, op));
        assert_null(row.op);
        j = stall_row_to_json(&row);
        assert_non_null(j);
        assert_null(json_object_object_get(j, "op"));
}

/* A sum of shares is not exactly 1. */
static void test_clamped(void **state) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = begin(state);
        _cleanup_(stall_row_clear) StallRow row = {};

        add(m, "owners", "a(sd)", 1, "x", 1.0000001);
        end(m);
        assert_int_equal(operation_read(m, &row), 0);
        assert_int_equal(row.owners.n, 1);
        assert_true(row.owners.items[0].share == 1);
}

static void check_refused(sd_bus_message *m) {
        StallRow row = {};

        end(m);
        assert_int_equal(operation_read(m, &row), -EBADMSG);
        assert_null(row.spans.items);
        sd_bus_message_unref(m);
}

static void test_refused(void **state) {
        sd_bus_message *m;

        m = begin(state);
        add(m, "spans", "a(stt)", 1, "data", UINT64_C(5), UINT64_C(4));
        check_refused(m);

        m = begin(state);
        add(m, "owners", "a(sd)", 1, "x", (double) NAN);
        check_refused(m);

        m = begin(state);
        add(m, "owners", "a(sd)", 1, "x", -0.5);
        check_refused(m);

        m = begin(state);
        assert_true(sd_bus_message_open_container(m, 'e', "sv") >= 0);
        assert_true(sd_bus_message_append(m, "s", "spans") >= 0);
        assert_true(sd_bus_message_open_container(m, 'v', "a(stt)") >= 0);
        assert_true(sd_bus_message_open_container(m, 'a', "(stt)") >= 0);
        for (size_t i = 0; i <= SPANS_MAX; i++)
                assert_true(sd_bus_message_append(m, "(stt)", "data", (uint64_t) i, (uint64_t) i + 1) >= 0);
        for (size_t i = 0; i < 3; i++)
                assert_true(sd_bus_message_close_container(m) >= 0);
        check_refused(m);

        assert_true(sd_bus_message_new_signal(*state, &m, "/a", "a.b", "Operation") >= 0);
        assert_true(sd_bus_message_append(m, "s", "nonsense") >= 0);
        assert_true(sd_bus_message_seal(m, 1, 0) >= 0);
        assert_int_equal(operation_read(m, &(StallRow){}), -EBADMSG);
        sd_bus_message_unref(m);
}

static void check_sentence(const char *state, const char *error, const char *expected) {
        _cleanup_(stall_row_clear) StallRow row = {};
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
        _cleanup_free_ char *s = NULL;
        void *bus;

        assert_int_equal(make_bus(&bus), 0);
        m = begin(&bus);
        add(m, "op", "s", "fsync");
        add(m, "phase", "s", "journal");
        add(m, "state", "s", state);
        add(m, "device", "s", "8:1");
        add(m, "mountPoint", "s", "/var");
        add(m, "totalNSec", "t", UINT64_C(4000000000));
        add(m, "waitNSec", "t", UINT64_C(3200000000));
        if (error)
                add(m, "error", "s", error);
        end(m);
        assert_int_equal(operation_read(m, &row), 0);
        s = stall_sentence(&row);
        assert_string_equal(s, expected);
        m = sd_bus_message_unref(m);
        drop_bus(&bus);
}

static void test_sentence(void **state) {
        check_sentence("done", NULL, "fsync on /var (8:1) took 4s, most of it journal");
        check_sentence("failed", "EIO", "fsync on /var (8:1) took 4s, most of it journal, failed: EIO");
        check_sentence("in-progress", NULL, "fsync on /var (8:1) has not returned for 4s, in journal for 3.2s");
}

static void test_newest(void **state) {
        StallRow items[] = {
                { .id = 1, .unit = (char *) "a", .start_us = 100, .state = (char *) "in-progress" },
                { .id = 2, .unit = (char *) "b", .start_us = 200, .state = (char *) "done" },
                { .id = 3, .unit = (char *) "b", .start_us = 300, .state = (char *) "failed" },
                { .id = 4 },
        };
        StallRows rows = { .items = items, .n = ELEMENTSOF(items) };

        assert_int_equal(stall_newest(&rows, NULL)->id, 1);
        assert_int_equal(stall_newest(&rows, "a")->id, 1);
        assert_int_equal(stall_newest(&rows, "b")->id, 3);
        assert_null(stall_newest(&rows, "c"));
        assert_null(stall_newest(&(StallRows){}, NULL));
}

DEFINE_TEST_MAIN(
        cmocka_unit_test_setup_teardown(test_all, make_bus, drop_bus),
        cmocka_unit_test_setup_teardown(test_empty, make_bus, drop_bus),
        cmocka_unit_test_setup_teardown(test_strange, make_bus, drop_bus),
        cmocka_unit_test_setup_teardown(test_taken_back, make_bus, drop_bus),
        cmocka_unit_test_setup_teardown(test_clamped, make_bus, drop_bus),
        cmocka_unit_test_setup_teardown(test_refused, make_bus, drop_bus),
        cmocka_unit_test(test_sentence),
        cmocka_unit_test(test_newest),
)
