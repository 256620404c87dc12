/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "dbus-auth.h"
#include "dbus-frame.h"

enum { INPUT_MAX = 4 * DBUS_MESSAGE_MAX, TRACE_MAX = 64 };

/* What came out of a run: one piece after the other, with a checksum of its bytes. */
typedef struct Trace {
        struct {
                int piece; /* DBusPiece or negative errno */
                size_t size;
                uint32_t sum;
        } pieces[TRACE_MAX];
        size_t n;
} Trace;

static uint32_t checksum(const void *data, size_t n) {
        const uint8_t *p = data;
        uint32_t sum = 1;

        for (size_t i = 0; i < n; i++)
                sum = sum * 31 + p[i];

        return sum;
}

static void note(Trace *t, const DBusFrame *f, int piece) {
        assert_true(t->n < TRACE_MAX);
        t->pieces[t->n].piece = piece;
        if (piece == DBUS_PIECE_LINE) {
                t->pieces[t->n].size = strlen(f->line);
                t->pieces[t->n].sum = checksum(f->line, strlen(f->line));
        } else if (piece == DBUS_PIECE_MESSAGE) {
                t->pieces[t->n].size = f->size;
                t->pieces[t->n].sum = checksum(f->message, f->size);
        }
        t->n++;
}

/* Puts in at most chunk bytes at a time, split_at counts as an end of a chunk. After "BEGIN" messages follow. */
static void run(Trace *t, const uint8_t *input, size_t size, size_t chunk, size_t split_at) {
        DBusFrame f = {};
        size_t at = 0;

        *t = (Trace){};
        while (at < size) {
                size_t space, n = MIN(chunk, size - at);
                void *p;
                int r;

                if (at < split_at)
                        n = MIN(n, split_at - at);
                dbus_frame_space(&f, &p, &space);
                assert_true(space > 0);
                n = MIN(n, space);
                memcpy(p, input + at, n);
                at += n;
                r = dbus_frame_added(&f, n);
                if (r != DBUS_PIECE_NONE)
                        note(t, &f, r);
                if (r < 0)
                        break;
                if (r > 0) {
                        /* Asks for nothing before the piece was taken. */
                        dbus_frame_space(&f, &p, &space);
                        assert_int_equal(space, 0);
                        dbus_frame_next(&f, r == DBUS_PIECE_MESSAGE || streq(f.line, "BEGIN"));
                        assert_false(dbus_frame_partial(&f));
                }
        }
        dbus_frame_done(&f);
}

static size_t put_u32(uint8_t *p, bool big, uint32_t v) {
        for (unsigned i = 0; i < 4; i++)
                p[i] = (uint8_t) (v >> 8 * (big ? 3 - i : i));

        return 4;
}

/* Writes a message with that many bytes of header fields and body. */
static size_t put_message(uint8_t *p, bool big, uint32_t fields, uint32_t body) {
        size_t size = DBUS_HEADER_SIZE + ((fields + 7) & ~7U) + body;

        memset(p, 0x5a, size);
        p[0] = big ? 'B' : 'l';
        p[1] = DBUS_TYPE_METHOD_CALL;
        p[2] = 0;
        p[3] = 1;
        put_u32(p + 4, big, body);
        put_u32(p + 8, big, 1);
        put_u32(p + 12, big, fields);
        for (size_t i = DBUS_HEADER_SIZE; i < size; i++)
                p[i] = (uint8_t) (i * 7);

        return size;
}

static size_t put_text(uint8_t *p, const char *s) {
        memcpy(p, s, strlen(s));
        return strlen(s);
}

static size_t put_start(uint8_t *p) {
        p[0] = 0;
        return 1 + put_text(p + 1, "AUTH EXTERNAL 30\r\nBEGIN\r\n");
}

static void test_splits(void **state) {
        uint8_t *input = calloc(1, INPUT_MAX);
        Trace whole, split;
        size_t n = 0;

        n += put_start(input);
        n += put_message(input + n, false, 0, 0);
        n += put_message(input + n, false, 61, 13);
        n += put_message(input + n, true, 8, 0);
        n += put_message(input + n, true, 0, 1);
        n += put_message(input + n, false, 200, 300);

        run(&whole, input, n, SIZE_MAX, 0);
        assert_int_equal(whole.n, 7);
        assert_int_equal(whole.pieces[0].piece, DBUS_PIECE_LINE);
        assert_int_equal(whole.pieces[0].size, strlen("AUTH EXTERNAL 30"));
        assert_int_equal(whole.pieces[2].piece, DBUS_PIECE_MESSAGE);
        assert_int_equal(whole.pieces[2].size, 16);
        assert_int_equal(whole.pieces[3].size, 16 + 64 + 13);
        assert_int_equal(whole.pieces[4].size, 16 + 8);
        assert_int_equal(whole.pieces[5].size, 17);
        assert_int_equal(whole.pieces[6].size, 16 + 200 + 300);

        for (size_t i = 0; i <= n; i++) {
                run(&split, input, n, SIZE_MAX, i);
                assert_memory_equal(&split, &whole, sizeof(whole));
        }
        for (size_t chunk = 1; chunk < 64; chunk++) {
                run(&split, input, n, chunk, 0);
                assert_memory_equal(&split, &whole, sizeof(whole));
        }
        free(input);
}

static void test_sizes(void **state) {
        static const struct {
                uint32_t fields, body;
                bool good;
        } cases[] = {
                { 0, DBUS_MESSAGE_MAX - 16, true },
                { 0, DBUS_MESSAGE_MAX - 15, false },
                { DBUS_MESSAGE_MAX - 16, 0, true },
                { DBUS_MESSAGE_MAX - 15, 0, false }, /* is padded to 8 more */
                { 1, DBUS_MESSAGE_MAX - 24, true },
                { 1, DBUS_MESSAGE_MAX - 23, false },
                { UINT32_MAX, 0, false },
                { 0, UINT32_MAX, false },
                { UINT32_MAX, UINT32_MAX, false },
                { UINT32_MAX - 7, 16, false },
                { 0x80000000, 0x80000000, false },
        };
        uint8_t *input = calloc(1, INPUT_MAX);
        Trace t;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                for (int big = 0; big < 2; big++) {
                        size_t n = put_start(input);

                        if (cases[i].good)
                                n += put_message(input + n, big, cases[i].fields, cases[i].body);
                        else {
                                put_message(input + n, big, 0, 0);
                                put_u32(input + n + 4, big, cases[i].body);
                                put_u32(input + n + 12, big, cases[i].fields);
                                n += DBUS_HEADER_SIZE;
                        }
                        run(&t, input, n, SIZE_MAX, 0);
                        assert_int_equal(t.n, 3);
                        assert_int_equal(t.pieces[2].piece, cases[i].good ? (int) DBUS_PIECE_MESSAGE : -EMSGSIZE);
                }
        free(input);
}

static void expect_error(const void *input, size_t size, int error) {
        Trace t;

        for (size_t chunk = 1; chunk < 20; chunk += 18) {
                run(&t, input, size, chunk, 0);
                assert_true(t.n > 0);
                assert_int_equal(t.pieces[t.n - 1].piece, error);
        }
}

static void test_not_dbus(void **state) {
        uint8_t input[512];
        char many[1 + (DBUS_LINES_MAX + 1) * 3] = "";
        size_t n, start = put_start(input);

        expect_error("GET / HTTP/1.0\r\n", 16, -EBADMSG);
        expect_error("\0AUTH\n", 6, -EBADMSG);
        expect_error("\0\n", 2, -EBADMSG);
        expect_error("\0AU\0TH\r\n", 8, -EBADMSG);
        expect_error("\0AUTH \xff\r\n", 9, -EBADMSG);

        memset(input + start, 'A', sizeof(input) - start);
        input[0] = 0;
        memset(input + 1, 'A', sizeof(input) - 1);
        expect_error(input, 1 + DBUS_LINE_MAX, -EMSGSIZE);

        for (unsigned i = 0; i <= DBUS_LINES_MAX; i++)
                memcpy(many + 1 + 3 * i, "A\r\n", 3);
        expect_error(many, sizeof(many), -EMSGSIZE);

        for (unsigned i = 0; i < 4; i++) {
                static const struct {
                        unsigned offset;
                        uint8_t value;
                } bad[] = { { 0, 'x' }, { 0, 0 }, { 1, 0 }, { 3, 2 } };

                n = put_start(input);
                put_message(input + n, false, 0, 0);
                input[n + bad[i].offset] = bad[i].value;
                expect_error(input, n + DBUS_HEADER_SIZE, -EBADMSG);
        }
}

static void test_partial(void **state) {
        DBusFrame f = {};
        size_t space;
        void *p;

        assert_false(dbus_frame_partial(&f));
        dbus_frame_space(&f, &p, &space);
        assert_int_equal(space, 1);
        *(char *) p = 0;
        assert_int_equal(dbus_frame_added(&f, 1), DBUS_PIECE_NONE);
        assert_int_equal(dbus_frame_added(&f, 0), DBUS_PIECE_NONE);
        assert_false(dbus_frame_partial(&f));
        dbus_frame_space(&f, &p, &space);
        *(char *) p = 'A';
        assert_int_equal(dbus_frame_added(&f, 1), DBUS_PIECE_NONE);
        assert_true(dbus_frame_partial(&f));

        /* Let go of in the middle of a message. */
        dbus_frame_next(&f, true);
        dbus_frame_space(&f, &p, &space);
        assert_int_equal(space, DBUS_HEADER_SIZE);
        (void) put_message(p, false, 0, 0);
        put_u32((uint8_t *) p + 4, false, 100);
        assert_int_equal(dbus_frame_added(&f, DBUS_HEADER_SIZE), DBUS_PIECE_NONE);
        assert_true(dbus_frame_partial(&f));
        dbus_frame_done(&f);
}

static void expect_answers(const char *const (*dialogue)[2], size_t n, int result) {
        char reply[DBUS_AUTH_REPLY_MAX];
        DBusAuthState state = DBUS_AUTH_START;

        for (size_t i = 0; i < n; i++) {
                assert_int_equal(dbus_auth_line(&state, dialogue[i][0], "0123456789abcdef0123456789abcdef", reply),
                                 i + 1 < n ? 0 : result);
                assert_string_equal(reply, dialogue[i][1]);
        }
}

#define OK "OK 0123456789abcdef0123456789abcdef\r\n"
#define REJECTED "REJECTED EXTERNAL\r\n"

static void test_auth(void **state) {
        static const char *const libdbus[][2] = {
                { "AUTH EXTERNAL 31303030", OK },
                { "NEGOTIATE_UNIX_FD", "ERROR\r\n" },
                { "BEGIN", "" },
        };
        static const char *const sd_bus[][2] = {
                { "AUTH EXTERNAL", "DATA\r\n" },
                { "DATA", OK },
                { "NEGOTIATE_UNIX_FD", "ERROR\r\n" },
                { "BEGIN", "" },
        };
        static const char *const gdbus[][2] = {
                { "AUTH", REJECTED },
                { "AUTH DBUS_COOKIE_SHA1 30", REJECTED },
                { "AUTH EXTERNAL 30", OK },
                { "CANCEL", REJECTED },
                { "AUTH EXTERNAL 30", OK },
                { "BEGIN", "" },
        };
        static const char *const odd[][2] = {
                { "HELLO", "ERROR\r\n" },
                { "", "ERROR\r\n" },
                { "DATA 30", "ERROR\r\n" },
                { "AUTHEXTERNAL", "ERROR\r\n" },
                { "AUTH EXTERNALS", REJECTED },
                { "AUTH EXTERNAL", "DATA\r\n" },
                { "AUTH EXTERNAL 30", "ERROR\r\n" },
                { "BEGIN", "" },
        };
        static const char *const early[][2] = { { "BEGIN", "" } };
        static const char *const cancelled[][2] = {
                { "AUTH EXTERNAL 30", OK },
                { "ERROR", REJECTED },
                { "BEGIN", "" },
        };

        expect_answers(libdbus, ELEMENTSOF(libdbus), 1);
        expect_answers(sd_bus, ELEMENTSOF(sd_bus), 1);
        expect_answers(gdbus, ELEMENTSOF(gdbus), 1);
        expect_answers(odd, ELEMENTSOF(odd), -EPERM);
        expect_answers(early, ELEMENTSOF(early), -EPERM);
        expect_answers(cancelled, ELEMENTSOF(cancelled), -EPERM);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_splits),   cmocka_unit_test(test_sizes), cmocka_unit_test(test_not_dbus),
                cmocka_unit_test(test_partial),  cmocka_unit_test(test_auth),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
