/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <systemd/sd-bus.h>

#include "query.h"
#include "unit-settings.h"

/* What units say about their own thresholds in [X-Iolat]. A child process reads the files: at the start, when the
 * daemon is reloaded, and when the service manager has reloaded. What was read before goes until all was read. */
typedef struct UnitKeeper UnitKeeper;

int unit_keeper_new(UnitKeeper **ret, Manager *m, bool hurry);
UnitKeeper *unit_keeper_free(UnitKeeper *k);
DEFINE_CLEANUP_FUNC(UnitKeeper, unit_keeper_free)

/* The daemon is reloaded: reads the files again, and tells of all that is wrong again. */
void unit_keeper_reload(UnitKeeper *k);

/* The general thresholds have changed, from which those of units follow. To be told to the programs after that. */
void unit_keeper_apply(UnitKeeper *k);

/* A new connection to the bus: listens for the service manager to reload. */
int unit_keeper_listen(Manager *m, sd_bus *bus);

UnitLimits unit_keeper_limits(const UnitKeeper *k, const char *unit);
