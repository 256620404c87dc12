/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "bus-context.h"

enum {
        LIST_HISTOGRAMS_MAX = 128, /* series in one reply of ListHistograms(): at most 400 KiB */
};

/* Handlers of org.iolat1.Manager. */
int bus_method_list_histograms(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error);
int bus_property_max_series(sd_bus *bus, const char *path, const char *interface, const char *property,
                            sd_bus_message *reply, void *userdata, sd_bus_error *reterr_error);
