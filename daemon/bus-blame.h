/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <systemd/sd-bus.h>

enum {
        BLAME_REPLY_MAX = 4096, /* rows in one reply of GetBlame(), the largest */
};

/* The method GetBlame of org.iolat1.Manager. */
int bus_method_get_blame(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error);
