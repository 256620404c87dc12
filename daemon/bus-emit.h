/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "bus-peer.h"
#include "bus-system.h"

/* Announces a stall on all connections: signal Stall of org.iolat1.Manager. Never blocks; either may be NULL. */
void bus_emit_stall(SystemBus *system, PeerServer *peers, const StallRow *stall);
