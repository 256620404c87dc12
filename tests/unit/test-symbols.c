/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "test.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../probes/symbols.h"

static const char kallsyms[] = "ffffffff81000000 T first\n"
                               "ffffffff81000010 t twice\n"
                               "ffffffff81000010 T alias\n"
                               "ffffffff81000030 d some_data\n"
                               "nonsense\n"
                               "ffffffff82000000 T twice\n"
                               "ffffffffc0000000 b of_a_module\t[btrfs]\n";

/* A file with that text, read to its end. */
static int open_text(const char *text) {
        char buf[sizeof(kallsyms)];
        int fd;

        fd = memfd_create("kallsyms", MFD_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        assert_int_equal(read(fd, buf, sizeof(buf)), 0);
        return fd;
}

static void test_from_a_file(void **state) {
        Symbol symbols[] = {
                { .name = "twice" },       { .name = "some_data" },
                { .name = "of_a_module", .data = true }, { .name = "first" },
                { .name = "not_there" },
        };
        size_t n = ELEMENTSOF(symbols);
        _cleanup_close_ int fd = open_text(kallsyms);
        const Symbol *s;

        /* A second time from the beginning again: modules may have come. */
        for (unsigned i = 0; i < 2; i++) {
                for (size_t k = 0; k < n; k++)
                        symbols[k].found = false;
                assert_int_equal(symbols_read(symbols, n, fd), 0);
                assert_true(symbols_have_addresses(symbols, n));
                s = symbols_find(symbols, n, "first");
                assert_true(s && s->found);
                assert_true(s->start == 0xffffffff81000000 && s->end == 0xffffffff81000010);
                s = symbols_find(symbols, n, "twice");
                assert_true(s && s->found && s->start == 0xffffffff81000010 && s->end == 0xffffffff81000030);
                s = symbols_find(symbols, n, "of_a_module");
                assert_true(s && s->found && s->start == 0xffffffffc0000000);
                assert_false(symbols_find(symbols, n, "some_data")->found); /* a function was asked for */
                assert_false(symbols_find(symbols, n, "not_there")->found);
                assert_null(symbols_find(symbols, n, "nonsense"));
        }
        assert_true(fcntl(fd, F_GETFD) >= 0); /* still open */
}

static void test_without_addresses(void **state) {
        Symbol symbols[] = { { .name = "b" }, { .name = "a" } };
        _cleanup_close_ int fd = open_text("0000000000000000 T a\n0000000000000000 T c\n");

        assert_int_equal(symbols_read(symbols, ELEMENTSOF(symbols), fd), 0);
        assert_false(symbols_have_addresses(symbols, ELEMENTSOF(symbols)));
        assert_true(symbols_find(symbols, ELEMENTSOF(symbols), "a")->found);
}

static void test_no_file(void **state) {
        Symbol symbols[] = { { .name = "a" } };
        int pair[2];

        assert_int_equal(pipe(pair), 0);
        assert_int_equal(symbols_read(symbols, 1, pair[0]), -ESPIPE);
        close(pair[0]);
        close(pair[1]);
        assert_int_equal(symbols_read(symbols, 1, pair[0]), -EBADF);
}

DEFINE_TEST_MAIN(cmocka_unit_test(test_from_a_file),
                 cmocka_unit_test(test_without_addresses),
                 cmocka_unit_test(test_no_file))
