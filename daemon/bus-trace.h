/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "bus-context.h"
#include "query.h"

/* Handler of the method Trace(). */
int bus_trace_method(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error);

/* Queues the signal Operation for one receiver: a peer (NULL), or that name on the bus. */
int bus_trace_send(sd_bus *bus, const char *destination, const StallRow *stall, uint64_t lost);
