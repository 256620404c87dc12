/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>

#include "iter.h"
#include "pins.h"

enum {
        ITER_BUFFER_BYTES = 64 * 1024,
        ITER_RETRIES_MAX = 64, /* the kernel interrupts a long walk that finds nothing */
};

static int open_iter(const Maps *maps, const char *name) {
        char path[PIN_PATH_MAX];
        int fd, r;

        r = pins_path(path, maps->bpffs, maps->generation, false, "links", name);
        if (r < 0)
                return r;
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

        return fd < 0 ? -errno : fd;
}

int iter_read(const Maps *maps, const char *name, size_t record_size, size_t max, iter_callback callback,
              void *userdata) {
        _cleanup_free_ unsigned char *buf = NULL;
        _cleanup_close_ int fd = -EBADF;
        size_t filled = 0, n_records = 0;
        unsigned n_retries = 0;
        int r;

        fd = open_iter(maps, name);
        if (fd < 0)
                return fd;
        buf = malloc(ITER_BUFFER_BYTES);
        if (!buf)
                return -ENOMEM;

        for (;;) {
                size_t used = 0;
                ssize_t n;

                n = read(fd, buf + filled, ITER_BUFFER_BYTES - filled);
                if (n < 0 && (errno == EINTR || errno == EAGAIN) && n_retries++ < ITER_RETRIES_MAX)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        return 0;
                filled += (size_t) n;
                for (; filled - used >= record_size; used += record_size) {
                        if (n_records++ >= max)
                                return 1;
                        r = callback(buf + used, userdata);
                        if (r < 0)
                                return r;
                }
                /* The end of a read is not the end of a record. */
                filled -= used;
                memmove(buf, buf + used, filled);
        }
}
