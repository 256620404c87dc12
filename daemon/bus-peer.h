/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <systemd/sd-event.h>

#include "query.h"
#include "util.h"

enum {
        PEER_CONNECTIONS_MAX = 128,    /* at once; the longest idle one makes room for a new one */
        PEER_CONNECTIONS_PER_UID = 32, /* the share of one user other than root */
        PEER_BLOCKED_MAX = 8,          /* clients that have not taken their reply; others, but root, have to wait */
        PEER_BLOCKED_PER_UID = 2,      /* the share of one user; each can hold one reply in memory */
        PEER_ACCEPT_BURST = 256,       /* connections accepted per 100 ms */
};

/* The broker-less bus: a socket where every client gets a connection of its own. */
typedef struct PeerServer PeerServer;

/* Listens at path, mode 0666. A socket whose owner is dead is replaced; -EADDRINUSE if it is alive, -EEXIST if the
 * path is no socket, -ENAMETOOLONG. */
int peer_server_new(PeerServer **ret, sd_event *e, Manager *m, const char *path);
PeerServer *peer_server_free(PeerServer *s);
DEFINE_CLEANUP_FUNC(PeerServer, peer_server_free)

/* Sends the signal Stall to all clients. */
void peer_server_emit_stall(PeerServer *s, const StallRow *stall);
