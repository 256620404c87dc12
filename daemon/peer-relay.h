/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <systemd/sd-bus.h>

#include "util.h"

/* Stands between one client's socket and sd-bus, which would accept messages of 128 MiB and queue replies without
 * end for a client that does not read. The relay speaks the authentication itself, looks at the length of each
 * message before it takes it, hands one over at a time, and takes no other one before the client has taken the
 * whole reply. So a connection holds at most one request, one reply and a few signals. No event loop in here. */

enum {
        RELAY_SOCKET_BUFFER = 65536, /* bytes that the kernel keeps for a client that does not read */
        RELAY_SIGNALS_MAX = 64,      /* signals kept for a client that does not read, before it is dropped */
};

typedef struct PeerRelay PeerRelay;

/* Adds the objects to a connection that was just authenticated. */
typedef int (*peer_relay_open)(sd_bus *bus, void *userdata);

/* Takes the client's socket (non-blocking) in any case. */
int peer_relay_new(PeerRelay **ret, int fd, sd_id128_t server_id, peer_relay_open open, void *userdata);
PeerRelay *peer_relay_free(PeerRelay *r);
DEFINE_CLEANUP_FUNC(PeerRelay, peer_relay_free)

/* Takes one line or message and delivers what comes of it, as far as that can be done without waiting. Afterwards
 * it wants to be called again when the socket can be written if peer_relay_blocked(), else when it can be read. A
 * negative errno means that the connection is to be closed: -ECONNRESET if the client did. */
int peer_relay_run(PeerRelay *p);

/* Delivers what sd-bus has queued, without reading from the client. Errors as above. */
int peer_relay_flush(PeerRelay *p);

/* The client has not taken all of what was sent to it. */
bool peer_relay_blocked(const PeerRelay *p);

/* The client has begun a message, but not completed it. */
bool peer_relay_partial(const PeerRelay *p);

/* Grows whenever a piece was handled or the client has taken everything. What is blocked or partial with the same
 * number as before, is so because of the same reply or message. */
uint64_t peer_relay_progress(const PeerRelay *p);

/* Bytes that the client has taken so far. */
uint64_t peer_relay_sent(const PeerRelay *p);

/* NULL before the authentication is over. */
sd_bus *peer_relay_bus(PeerRelay *p);
