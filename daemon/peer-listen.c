/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "peer-listen.h"
#include "util.h"

enum {
        BACKLOG = 1024, /* clients that do not block when connecting are refused beyond */
};

static int make_socket(void) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        return fd < 0 ? -errno : fd;
}

static int bind_for_everyone(int fd, const struct sockaddr_un *address, socklen_t size) {
        mode_t saved = umask(0111); /* so that there is no moment with another mode */
        int r = bind(fd, (const struct sockaddr *) address, size) < 0 ? -errno : 0;

        (void) umask(saved);
        return r;
}

/* Removes the socket if nobody listens on it any more. */
static int remove_stale(const struct sockaddr_un *address, socklen_t size) {
        _cleanup_close_ int fd = -EBADF;
        struct stat st;

        if (lstat(address->sun_path, &st) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (!S_ISSOCK(st.st_mode))
                return -EEXIST;

        fd = make_socket();
        if (fd < 0)
                return fd;
        /* EAGAIN is a listener with a full queue. */
        if (connect(fd, (const struct sockaddr *) address, size) >= 0 || errno == EAGAIN)
                return -EADDRINUSE;
        if (errno != ECONNREFUSED)
                return -errno;
        if (unlink(address->sun_path) < 0 && errno != ENOENT)
                return -errno;

        return 0;
}

int peer_listen(const char *path) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        _cleanup_close_ int fd = -EBADF;
        socklen_t size;
        int r;

        if (strlen(path) >= sizeof(address.sun_path))
                return -ENAMETOOLONG;
        memcpy(address.sun_path, path, strlen(path) + 1);
        size = offsetof(struct sockaddr_un, sun_path) + strlen(path) + 1;

        fd = make_socket();
        if (fd < 0)
                return fd;
        r = bind_for_everyone(fd, &address, size);
        if (r == -EADDRINUSE) {
                r = remove_stale(&address, size);
                if (r >= 0)
                        r = bind_for_everyone(fd, &address, size);
        }
        if (r < 0)
                return r;
        if (listen(fd, BACKLOG) < 0)
                return -errno;

        return take_fd(&fd);
}
