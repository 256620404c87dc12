/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "bus-context.h"

/* Adds org.freedesktop.LogControl1, for "systemctl service-log-level". The level can be set by uid 0 only. */
int bus_log_control_add(sd_bus *bus, BusContext *c);
