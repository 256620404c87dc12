/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus-emit.h"

void bus_emit_stall(SystemBus *system, PeerServer *peers, const StallRow *stall) {
        if (system)
                system_bus_emit_stall(system, stall);
        if (peers)
                peer_server_emit_stall(peers, stall);
}
