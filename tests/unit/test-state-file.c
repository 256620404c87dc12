/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <sys/stat.h>

#include "state-file.h"
#include "state-io.h"
#include "test-dir.h"
#include "test.h"

static const char *const texts[] = { "first", "2", "the third one" };

static Buffer make_file(void) {
        uint8_t header[STATE_HEADER_SIZE];
        Buffer b = {};

        state_file_header(header);
        buffer_put(&b, header, sizeof(header));
        for (size_t i = 0; i < ELEMENTSOF(texts); i++)
                state_file_put(&b, (const uint8_t *) texts[i], strlen(texts[i]));
        assert_int_equal(b.error, 0);

        return b;
}

/* Number of records that are read; each must be as it was written. */
static size_t count_records(const uint8_t *data, size_t size) {
        const uint8_t *contents;
        size_t n = 0, length, taken;

        while (state_file_next(data, size, &contents, &length, &taken) > 0) {
                assert_true(n < ELEMENTSOF(texts));
                assert_int_equal(length, strlen(texts[n]));
                assert_memory_equal(contents, texts[n], length);
                assert_true(taken <= size);
                data += taken;
                size -= taken;
                n++;
        }

        return n;
}

static void test_records(void **state) {
        Buffer b = make_file();

        assert_int_equal(state_file_check_header(b.data), 0);
        assert_int_equal(count_records(b.data + STATE_HEADER_SIZE, b.size - STATE_HEADER_SIZE), ELEMENTSOF(texts));
        buffer_done(&b);
}

static void test_other_version(void **state) {
        uint8_t header[STATE_HEADER_SIZE];
        Buffer b = make_file();

        memcpy(header, b.data, sizeof(header));
        header[8]++;
        assert_int_equal(state_file_check_header(header), -EBADMSG); /* the sum is wrong */
        buffer_done(&b);
}

static void test_truncated(void **state) {
        Buffer b = make_file();
        size_t before = 0;

        for (size_t size = 0; size <= b.size - STATE_HEADER_SIZE; size++) {
                uint8_t *copy = malloc(size + !size);
                size_t n;

                memcpy(copy, b.data + STATE_HEADER_SIZE, size);
                n = count_records(copy, size);
                assert_true(n == before || n == before + 1);
                before = n;
                free(copy);
        }
        assert_int_equal(before, ELEMENTSOF(texts));
        buffer_done(&b);
}

static void test_flipped_bits(void **state) {
        Buffer b = make_file();

        for (size_t i = 0; i < b.size * 8; i++) {
                b.data[i / 8] ^= 1 << i % 8;
                if (i / 8 < STATE_HEADER_SIZE)
                        assert_true(state_file_check_header(b.data) < 0);
                else
                        assert_true(count_records(b.data + STATE_HEADER_SIZE, b.size - STATE_HEADER_SIZE) <
                                    ELEMENTSOF(texts));
                b.data[i / 8] ^= 1 << i % 8;
        }
        buffer_done(&b);
}

static void test_lengths_that_lie(void **state) {
        static const uint32_t lengths[] = { 0, STATE_RECORD_MAX + 1, INT32_MAX, UINT32_MAX };
        const uint8_t *contents;
        size_t length, taken;
        uint8_t data[64] = {};

        for (size_t i = 0; i < ELEMENTSOF(lengths); i++) {
                memcpy(data, &lengths[i], sizeof(lengths[i]));
                assert_int_equal(state_file_next(data, sizeof(data), &contents, &length, &taken), -EBADMSG);
        }
        data[0] = 100; /* more than there is: perhaps it comes */
        data[1] = data[2] = data[3] = 0;
        assert_int_equal(state_file_next(data, sizeof(data), &contents, &length, &taken), 0);
}

static int write_buffer(state_io_sink sink, void *sink_userdata, void *userdata) {
        const Buffer *b = userdata;

        return sink(b->data, b->size, sink_userdata);
}

static int write_and_fail(state_io_sink sink, void *sink_userdata, void *userdata) {
        int r = write_buffer(sink, sink_userdata, userdata);

        return r < 0 ? r : -ENOSPC;
}

/* What a load returns, and how many bytes it hands over. */
static int load(const char *dir, size_t *ret_size) {
        char buf[4096];
        ssize_t n;
        int fds[2], r;

        assert_int_equal(pipe(fds), 0);
        r = state_io_load(dir, fds[1]);
        close(fds[1]);
        n = read(fds[0], buf, sizeof(buf));
        assert_true(n >= 0);
        (void) count_records((const uint8_t *) buf, (size_t) n);
        close(fds[0]);
        *ret_size = (size_t) n;

        return r;
}

static off_t size_of(const char *name) {
        struct stat st;

        return stat(test_path(name), &st) < 0 ? -1 : st.st_size;
}

static void test_files(void **state) {
        Buffer b = make_file(), more = {};
        uint64_t size = 0;
        size_t n;

        assert_int_equal(load(test_dir, &n), -ENOENT);
        assert_int_equal(state_io_append(test_dir, 0, write_buffer, &b, &size), -ESTALE);
        assert_int_equal(state_io_rewrite(test_dir, false, write_buffer, &b, &size), 0);
        assert_int_equal(size, b.size);
        assert_int_equal(size_of("history"), b.size);
        assert_int_equal(load(test_dir, &n), 0);
        assert_int_equal(n, b.size - STATE_HEADER_SIZE);

        /* What fails in the middle leaves things as they were. */
        assert_int_equal(state_io_rewrite(test_dir, true, write_and_fail, &b, &size), -ENOSPC);
        assert_int_equal(state_io_append(test_dir, b.size, write_and_fail, &b, &size), -ENOSPC);
        assert_int_equal(size_of("history"), b.size);
        assert_int_equal(size_of("history.new"), -1);
        assert_int_equal(size_of("history.corrupt"), -1);

        buffer_put(&more, "torn", 4);
        assert_int_equal(state_io_append(test_dir, b.size + 1, write_buffer, &more, &size), -ESTALE);
        assert_int_equal(state_io_append(test_dir, b.size, write_buffer, &more, &size), 0);
        assert_int_equal(size, b.size + 4);
        assert_int_equal(load(test_dir, &n), -EBADMSG);
        assert_int_equal(n, b.size - STATE_HEADER_SIZE);

        assert_int_equal(state_io_rewrite(test_dir, true, write_buffer, &b, &size), 0);
        assert_int_equal(size_of("history"), b.size);
        assert_int_equal(size_of("history.corrupt"), b.size + 4);
        buffer_done(&b);
        buffer_done(&more);
}

static void test_bad_files(void **state) {
        static const char *const bad[] = { "", "x", "iolathst", "iolathst and something that is no header" };
        size_t n;

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                test_write("history", bad[i]);
                assert_int_equal(load(test_dir, &n), -EBADMSG);
                assert_int_equal(n, 0);
        }
        assert_int_equal(unlink(test_path("history")), 0);
        assert_int_equal(symlink("/etc/passwd", test_path("history")), 0);
        assert_int_equal(load(test_dir, &n), -EBADMSG);
        assert_int_equal(unlink(test_path("history")), 0);
        assert_int_equal(mkfifo(test_path("history"), 0600), 0);
        assert_int_equal(load(test_dir, &n), -EBADMSG);
}

static void test_directories(void **state) {
        Buffer b = make_file();
        uint64_t size;
        size_t n;

        assert_int_equal(load(test_path("none"), &n), -ENOENT);
        assert_int_equal(state_io_rewrite(test_path("none"), false, write_buffer, &b, &size), 0);
        assert_int_equal(load(test_path("none"), &n), 0);
        assert_int_equal(state_io_rewrite(test_path("no/such"), false, write_buffer, &b, &size), -ENOENT);
        test_write("file", "");
        assert_int_equal(state_io_rewrite(test_path("file"), false, write_buffer, &b, &size), -ENOTDIR);
        buffer_done(&b);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_records),
                cmocka_unit_test(test_other_version),
                cmocka_unit_test(test_truncated),
                cmocka_unit_test(test_flipped_bits),
                cmocka_unit_test(test_lengths_that_lie),
                cmocka_unit_test_setup_teardown(test_files, test_dir_setup, test_dir_teardown),
                cmocka_unit_test_setup_teardown(test_bad_files, test_dir_setup, test_dir_teardown),
                cmocka_unit_test_setup_teardown(test_directories, test_dir_setup, test_dir_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
