/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <sys/stat.h>

#include "state-file.h"
#include "state-io.h"

static int write_all(int fd, const void *data, size_t size) {
        const uint8_t *p = data;

        while (size > 0) {
                ssize_t n = write(fd, p, size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        return -EIO;
                p += n;
                size -= (size_t) n;
        }

        return 0;
}

static int open_dir(const char *dir) {
        int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

static int open_regular(int dir_fd, const char *name, int flags, struct stat *ret) {
        _cleanup_close_ int fd = -EBADF;

        /* Not blocking, in case that it is a fifo. */
        fd = openat(dir_fd, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
        if (fd < 0 || fstat(fd, ret) < 0)
                return -errno;

        return S_ISREG(ret->st_mode) ? take_fd(&fd) : -EBADMSG;
}

static int read_all(int fd, size_t size, uint8_t **ret, size_t *ret_size) {
        _cleanup_free_ uint8_t *data = malloc(size + 1);
        size_t have = 0;

        if (!data)
                return -ENOMEM;
        while (have < size) {
                ssize_t n = read(fd, data + have, size - have);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                have += (size_t) n;
        }
        *ret = TAKE_PTR(data);
        *ret_size = have;

        return 0;
}

int state_io_load(const char *dir, int out_fd) {
        _cleanup_close_ int dir_fd = -EBADF, fd = -EBADF;
        _cleanup_free_ uint8_t *data = NULL;
        const uint8_t *contents;
        size_t size = 0, good = STATE_HEADER_SIZE, n, taken;
        struct stat st;
        int r;

        dir_fd = open_dir(dir);
        if (dir_fd < 0)
                return dir_fd;
        fd = open_regular(dir_fd, STATE_FILE_NAME, O_RDONLY, &st);
        if (fd < 0)
                return fd == -ELOOP ? -EBADMSG : fd;
        r = read_all(fd, (size_t) MIN(st.st_size, (off_t) STATE_FILE_SIZE_MAX), &data, &size);
        if (r < 0)
                return r;
        if (size < STATE_HEADER_SIZE)
                return -EBADMSG;
        r = state_file_check_header(data);
        if (r < 0)
                return r;

        while (state_file_next(data + good, size - good, &contents, &n, &taken) > 0)
                good += taken;
        r = write_all(out_fd, data + STATE_HEADER_SIZE, good - STATE_HEADER_SIZE);
        if (r < 0)
                return r;

        return good < (size_t) st.st_size ? -EBADMSG : 0;
}

typedef struct Target {
        int fd;
        uint64_t size;
} Target;

static int write_piece(const void *data, size_t size, void *userdata) {
        Target *t = userdata;
        int r;

        r = write_all(t->fd, data, size);
        if (r >= 0)
                t->size += size;

        return r;
}

int state_io_append(const char *dir, uint64_t size, state_io_source source, void *userdata, uint64_t *ret_size) {
        _cleanup_close_ int dir_fd = -EBADF, fd = -EBADF;
        struct stat st;
        Target t;
        int r;

        dir_fd = open_dir(dir);
        if (dir_fd < 0)
                return dir_fd;
        fd = open_regular(dir_fd, STATE_FILE_NAME, O_WRONLY | O_APPEND, &st);
        if (fd < 0)
                return fd == -ENOENT || fd == -EBADMSG || fd == -ELOOP ? -ESTALE : fd;
        if ((uint64_t) st.st_size != size)
                return -ESTALE;
        t = (Target){ .fd = fd, .size = size };
        r = source(write_piece, &t, userdata);
        if (r < 0)
                return ftruncate(fd, (off_t) size) < 0 ? -ESTALE : r;
        *ret_size = t.size;

        return 0;
}

int state_io_rewrite(const char *dir, bool set_aside, state_io_source source, void *userdata, uint64_t *ret_size) {
        _cleanup_close_ int dir_fd = -EBADF, fd = -EBADF;
        struct stat st;
        Target t;
        int r;

        dir_fd = open_dir(dir);
        if (dir_fd == -ENOENT) {
                if (mkdir(dir, 0700) < 0)
                        return -errno;
                dir_fd = open_dir(dir);
        }
        if (dir_fd < 0)
                return dir_fd;
        /* What is there under that name was left by a child that was killed. */
        if (unlinkat(dir_fd, STATE_FILE_NEW, 0) < 0 && errno != ENOENT)
                return -errno;
        fd = open_regular(dir_fd, STATE_FILE_NEW, O_WRONLY | O_CREAT | O_EXCL, &st);
        if (fd < 0)
                return fd;
        t = (Target){ .fd = fd };
        r = source(write_piece, &t, userdata);
        if (r >= 0 && set_aside && renameat(dir_fd, STATE_FILE_NAME, dir_fd, STATE_FILE_CORRUPT) < 0 &&
            errno != ENOENT)
                r = -errno;
        if (r >= 0 && renameat(dir_fd, STATE_FILE_NEW, dir_fd, STATE_FILE_NAME) < 0)
                r = -errno;
        if (r < 0) {
                (void) unlinkat(dir_fd, STATE_FILE_NEW, 0);
                return r;
        }
        *ret_size = t.size;

        return 0;
}
