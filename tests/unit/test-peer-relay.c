/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/socket.h>

#include "dbus-frame.h"
#include "peer-relay.h"

/* One connection, with a client that speaks raw bytes; and one method, whose reply is far larger than what the
 * socket takes. */

enum {
        REPLY_SIZE = 700 * 1024,
        REQUESTS = 50,
        INPUT_MAX = 64 * 1024,
};

static unsigned n_calls;

static int method_get(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        void *space;

        n_calls++;
        assert_int_equal(sd_bus_message_new_method_return(call, &reply), 0);
        assert_true(sd_bus_message_append_array_space(reply, 'y', REPLY_SIZE, &space) >= 0);
        memset(space, 7, REPLY_SIZE);

        return sd_bus_send(NULL, reply, NULL);
}

static const sd_bus_vtable vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_METHOD("Get", NULL, "ay", method_get, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_SIGNAL("Changed", "ay", 0),
        SD_BUS_VTABLE_END,
};

static int open_objects(sd_bus *bus, void *userdata) {
        return sd_bus_add_object_vtable(bus, NULL, "/t", "t.T", vtable, NULL);
}

static PeerRelay *make_relay(int *ret_client) {
        PeerRelay *p;
        int fds[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
        assert_int_equal(peer_relay_new(&p, fds[0], SD_ID128_MAKE(01,02,03,04,05,06,07,08,09,0a,0b,0c,0d,0e,0f,10),
                                        open_objects, NULL), 0);
        n_calls = 0;
        *ret_client = fds[1];

        return p;
}

/* "Get" on /t: every field begins at a multiple of 8. */
static size_t put_call(uint8_t *p, uint8_t serial, uint8_t flags) {
        static const uint8_t fields[] = "\1\1o\0\2\0\0\0/t\0\0\0\0\0\0"
                                        "\2\1s\0\3\0\0\0t.T\0\0\0\0\0"
                                        "\3\1s\0\3\0\0\0Get\0\0\0\0";
        const uint8_t header[DBUS_HEADER_SIZE] = { 'l', DBUS_TYPE_METHOD_CALL, flags, 1, [8] = serial,
                                                   [12] = sizeof(fields) - 4 };

        memcpy(p, header, sizeof(header));
        memcpy(p + sizeof(header), fields, sizeof(fields));

        return sizeof(header) + sizeof(fields);
}

static size_t put_hello(uint8_t *p) {
        static const char hello[] = "\0AUTH EXTERNAL 30\r\nBEGIN\r\n";

        memcpy(p, hello, sizeof(hello) - 1);
        return sizeof(hello) - 1;
}

static uint64_t drain(int fd) {
        char buf[65536];
        uint64_t n = 0;
        ssize_t k;

        while ((k = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
                n += (uint64_t) k;

        return n;
}

/* Runs until nothing moves any more. */
static int settle(PeerRelay *p) {
        uint64_t before;
        int r;

        do {
                before = peer_relay_progress(p);
                r = peer_relay_run(p);
        } while (r >= 0 && peer_relay_progress(p) != before);

        return r;
}

static void test_backpressure(void **state) {
        _cleanup_close_ int client = -EBADF;
        PeerRelay *p = make_relay(&client);
        uint64_t received = 0, queued;
        uint8_t input[INPUT_MAX];
        size_t n;

        n = put_hello(input);
        for (unsigned i = 1; i <= REQUESTS; i++)
                n += put_call(input + n, (uint8_t) i, 0);
        assert_int_equal(send(client, input, n, 0), (ssize_t) n);

        /* Nobody reads: one call is made, one reply is kept, however often it is tried. */
        for (unsigned i = 0; i < 10; i++)
                assert_int_equal(settle(p), 0);
        assert_int_equal(n_calls, 1);
        assert_true(peer_relay_blocked(p));
        assert_int_equal(sd_bus_get_n_queued_write(peer_relay_bus(p), &queued), 0);
        assert_true(queued <= 1);

        for (unsigned i = 0; i < 100 * REQUESTS; i++) {
                assert_int_equal(settle(p), 0);
                received += drain(client);
        }
        assert_int_equal(n_calls, REQUESTS);
        assert_false(peer_relay_blocked(p));
        assert_true(received > (uint64_t) REQUESTS * REPLY_SIZE);
        assert_true(received < (uint64_t) REQUESTS * (REPLY_SIZE + 100));

        close(take_fd(&client));
        assert_int_equal(settle(p), -ECONNRESET);
        peer_relay_free(p);
}

static void test_splits(void **state) {
        uint8_t input[512];
        size_t n = put_hello(input);

        n += put_call(input + n, 1, 1); /* no reply expected */
        n += put_call(input + n, 2, 1);
        for (size_t split = 0; split <= n; split++) {
                _cleanup_close_ int client = -EBADF;
                PeerRelay *p = make_relay(&client);

                assert_int_equal(send(client, input, split, 0), (ssize_t) split);
                assert_int_equal(settle(p), 0);
                assert_int_equal(send(client, input + split, n - split, 0), (ssize_t) (n - split));
                assert_int_equal(settle(p), 0);
                assert_int_equal(n_calls, 2);
                assert_false(peer_relay_partial(p));
                peer_relay_free(p);
        }
}

static void test_refused(void **state) {
        static const struct {
                const char *bytes;
                size_t size;
                bool begun;
                int error;
        } cases[] = {
                { "GET / HTTP/1.0\r\n\r\n", 18, false, -EBADMSG },
                { "\0BEGIN\r\n", 8, false, -EPERM },
                { "l\1\0\1\377\377\377\7\1\0\0\0\0\0\0\0", 16, true, -EMSGSIZE },
                { "l\1\0\1\0\0\0\0\1\0\0\0\377\377\377\377", 16, true, -EMSGSIZE },
                { "l\1\0\2\0\0\0\0\1\0\0\0\0\0\0\0", 16, true, -EBADMSG },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_close_ int client = -EBADF;
                PeerRelay *p = make_relay(&client);
                uint8_t input[64];

                if (cases[i].begun) {
                        size_t n = put_hello(input);

                        assert_int_equal(send(client, input, n, 0), (ssize_t) n);
                }
                assert_int_equal(send(client, cases[i].bytes, cases[i].size, 0), (ssize_t) cases[i].size);
                assert_int_equal(settle(p), cases[i].error);
                peer_relay_free(p);
        }
}

static void test_signals(void **state) {
        _cleanup_close_ int client = -EBADF;
        PeerRelay *p = make_relay(&client);
        uint8_t input[64];
        size_t n = put_hello(input);
        unsigned i;
        int r = 0;

        assert_int_equal(send(client, input, n, 0), (ssize_t) n);
        assert_int_equal(settle(p), 0);
        drain(client);

        for (i = 0; r >= 0 && i < 100000; i++) {
                assert_true(sd_bus_emit_signal(peer_relay_bus(p), "/t", "t.T", "Changed", "ay", 4, 1, 2, 3, 4) > 0);
                r = peer_relay_flush(p);
        }
        assert_int_equal(r, -ENOBUFS);
        assert_true(i > RELAY_SIGNALS_MAX);
        assert_true(i < 10000);
        peer_relay_free(p);
}

static void test_not_a_call(void **state) {
        _cleanup_close_ int client = -EBADF;
        PeerRelay *p = make_relay(&client);
        uint8_t input[512];
        size_t n = put_hello(input), at = n;

        n += put_call(input + n, 1, 1);
        input[at + 1] = 4; /* a signal */
        n += put_call(input + n, 2, 1);
        assert_int_equal(send(client, input, n, 0), (ssize_t) n);
        assert_int_equal(settle(p), 0);
        assert_int_equal(n_calls, 1);
        peer_relay_free(p);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_backpressure), cmocka_unit_test(test_splits),
                cmocka_unit_test(test_refused),      cmocka_unit_test(test_signals),
                cmocka_unit_test(test_not_a_call),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
