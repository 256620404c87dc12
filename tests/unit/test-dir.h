/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>

#include "test.h"

/* A directory of its own for each test, removed with all that is in it. */
static char test_dir[PATH_MAX];

static inline int test_dir_setup(void **state) {
        const char *t = getenv("TMPDIR");

        snprintf(test_dir, sizeof(test_dir), "%s/iolat-test-XXXXXX", t ?: "/tmp");

        return mkdtemp(test_dir) ? 0 : -1;
}

static inline int test_dir_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        return remove(path);
}

static inline int test_dir_teardown(void **state) {
        return nftw(test_dir, test_dir_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The path below the directory; of the four buffers the one used longest ago is used again. */
static inline _unused_ const char *test_path(const char *name) {
        static char paths[4][PATH_MAX + 64];
        static unsigned i;
        char *p = paths[i++ % ELEMENTSOF(paths)];

        assert_true(snprintf(p, sizeof(paths[0]), "%s/%s", test_dir, name) < (int) sizeof(paths[0]));

        return p;
}

/* Makes a directory and those above it. */
static inline _unused_ void test_mkdir(const char *name) {
        char copy[PATH_MAX];

        snprintf(copy, sizeof(copy), "%s", name);
        for (char *p = copy; (p = strchr(p, '/')); *p++ = '/') {
                *p = 0;
                assert_true(mkdir(test_path(copy), 0755) >= 0 || errno == EEXIST);
        }
        assert_true(mkdir(test_path(copy), 0755) >= 0 || errno == EEXIST);
}

/* Writes a file, and makes the directories above it. */
static inline _unused_ void test_write_bytes(const char *name, const void *content, size_t size) {
        const char *slash = strrchr(name, '/');
        _cleanup_close_ int fd = -EBADF;

        if (slash) {
                _cleanup_free_ char *dir = strndup(name, (size_t) (slash - name));

                assert_non_null(dir);
                test_mkdir(dir);
        }
        fd = open(test_path(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, content, size), size);
}

static inline _unused_ void test_write(const char *name, const char *content) {
        test_write_bytes(name, content, strlen(content));
}
