/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "bus-context.h"

enum {
        LIST_FILTER_MAX = 64,   /* entries of each filter array of List() */
        LIST_PATTERN_MAX = 256, /* bytes of one such entry */
        LIST_STALLS_MAX = 256,  /* stalls in one reply of ListStalls() */
};

/* Adds /org/iolat1 with org.iolat1.Manager. */
int bus_manager_add(sd_bus *bus, BusContext *c);

/* Queues the signal Stall on one connection. */
int bus_manager_emit_stall(sd_bus *bus, const StallRow *stall);
