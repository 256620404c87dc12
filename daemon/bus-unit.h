/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "bus-context.h"

/* Adds one object per unit below /org/iolat1/unit, with org.iolat1.Unit. */
int bus_unit_add(sd_bus *bus, BusContext *c);
