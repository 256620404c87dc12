/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The varlink side of the daemon (6.2), a sibling of the bus over the same query.h. It is there only where libsystemd
 * has sd-varlink. */

#include <systemd/sd-event.h>

#include "query.h"
#include "util.h"

typedef struct VarlinkServer VarlinkServer;

#if HAVE_VARLINK

/* Listens at path, mode 0666, and on the sockets that the service manager has passed under one of the names of
 * bus-names.h. Errors are those of peer_listen(). */
int varlink_server_new(VarlinkServer **ret, sd_event *e, Manager *m, const char *path);
VarlinkServer *varlink_server_free(VarlinkServer *s);

/* Tells those who follow the stalls; or, if there were too many of late to announce this one, that they missed it. */
void varlink_server_on_stall(VarlinkServer *s, const StallRow *stall, bool announce);

#else

static inline int varlink_server_new(VarlinkServer **ret, sd_event *e, Manager *m, const char *path) {
        *ret = NULL;
        return 0;
}

static inline VarlinkServer *varlink_server_free(VarlinkServer *s) {
        return NULL;
}

static inline void varlink_server_on_stall(VarlinkServer *s, const StallRow *stall, bool announce) {
}

#endif
