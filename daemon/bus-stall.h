/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <systemd/sd-bus.h>

#include "query.h"

/* Appends one a{sv} with the keys of a stall; file, pid, thread and comm only if privileged. */
int bus_append_stall(sd_bus_message *m, const StallRow *stall, bool privileged);

/* Likewise, the entries of an a{sv} that is open. */
int bus_append_stall_entries(sd_bus_message *m, const StallRow *stall, bool privileged);
