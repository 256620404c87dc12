/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include "bus-names.h"
#include "log.h"
#include "peer-listen.h"
#include "varlink-listen.h"

#define ACCEPT_INTERVAL_USEC (100 * USEC_PER_MSEC)

enum {
        ACCEPT_BURST = 128, /* connections accepted per 100 ms and socket */
};

/* Takes the socket in any case. */
static int add_listen(VarlinkListen *l, int listening) {
        _cleanup_close_ int fd = listening;
        sd_event_source **source = &l->sources[l->n];
        int r;

        if (l->n >= VARLINK_LISTEN_MAX)
                return -ENOBUFS;
        r = sd_event_add_io(l->event, source, fd, EPOLLIN, l->accept, l->userdata);
        if (r < 0)
                return r;
        l->n++;
        r = sd_event_source_set_io_fd_own(*source, true);
        if (r < 0)
                return r;
        (void) take_fd(&fd);
        r = sd_event_source_set_priority(*source, l->priority);
        if (r < 0)
                return r;

        return sd_event_source_set_ratelimit(*source, ACCEPT_INTERVAL_USEC, ACCEPT_BURST);
}

int varlink_listen_passed(VarlinkListen *l) {
        char **names = NULL;
        int n, r = 0;

        n = sd_listen_fds_with_names(/* unset_environment= */ true, &names);
        if (n < 0)
                return n;
        for (int i = 0; i < n; i++) {
                int fd = SD_LISTEN_FDS_START + i;

                (void) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
                if (!(streq(names[i], VARLINK_FD_NAME) || streq(names[i], VARLINK_METRICS_FD_NAME)) ||
                    sd_is_socket(fd, AF_UNIX, SOCK_STREAM, /* listening= */ 1) <= 0) {
                        log_warning("Was passed a file descriptor \"%s\" that is not one to listen for varlink, "
                                    "closing it.", names[i]);
                        close(fd);
                } else if (r >= 0)
                        r = add_listen(l, fd);
                free(names[i]);
        }
        free(names);

        return r;
}

int varlink_listen_at_path(VarlinkListen *l, const char *path) {
        int fd;

        fd = peer_listen(path);
        if (fd < 0)
                return fd;
        l->path = strdup(path);
        if (!l->path || stat(path, &l->path_stat) < 0) {
                int r = l->path ? -errno : -ENOMEM;

                close(fd);
                return r;
        }

        return add_listen(l, fd);
}

void varlink_listen_done(VarlinkListen *l) {
        struct stat st;

        for (size_t i = 0; i < l->n; i++)
                sd_event_source_disable_unref(l->sources[i]);
        if (l->path && l->path_stat.st_ino != 0 && stat(l->path, &st) >= 0 &&
            st.st_dev == l->path_stat.st_dev && st.st_ino == l->path_stat.st_ino)
                (void) unlink(l->path);
        free(l->path);
}
