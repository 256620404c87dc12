/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#include "query.h"
#include "util.h"

enum {
        SYSTEM_BUS_QUEUE_MAX = 256, /* messages that the broker does not take, before the connection is dropped */
};

/* The connection to the system bus, which is made and remade in the background and never waited for. */
typedef struct SystemBus SystemBus;

/* Succeeds also if there is no bus; only -ENOMEM and the like fail. */
int system_bus_new(SystemBus **ret, sd_event *e, Manager *m);
SystemBus *system_bus_free(SystemBus *s);
DEFINE_CLEANUP_FUNC(SystemBus, system_bus_free)

/* For asynchronous calls; NULL while not connected. Valid until control returns to the event loop. */
sd_bus *system_bus_get(SystemBus *s);

/* Sends the signal Stall, if there is a bus. */
void system_bus_emit_stall(SystemBus *s, const StallRow *stall);
