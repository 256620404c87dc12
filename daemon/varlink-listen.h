/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The sockets at which clients of varlink come in: our own one, and those that the service manager has passed. */

#include <sys/stat.h>
#include <systemd/sd-event.h>

#include "util.h"

enum {
        VARLINK_LISTEN_MAX = 4, /* sockets to listen on, our own one included */
};

/* The first four are set by who uses it, and borrowed. */
typedef struct VarlinkListen {
        sd_event *event;
        int64_t priority;
        sd_event_io_handler_t accept; /* called with the listening socket when someone connects, not too often */
        void *userdata;
        sd_event_source *sources[VARLINK_LISTEN_MAX];
        size_t n;
        char *path;
        struct stat path_stat; /* of the socket at path as long as it is ours */
} VarlinkListen;

/* Makes the socket at path and listens there. Errors are those of peer_listen(). */
int varlink_listen_at_path(VarlinkListen *l, const char *path);

/* Listens where the service manager does, under one of the names of bus-names.h. Those that are of another kind are
 * closed, since nobody will listen there. */
int varlink_listen_passed(VarlinkListen *l);

/* Stops listening, also if that failed half way, and removes the socket at path if it is ours still. */
void varlink_listen_done(VarlinkListen *l);
