/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

enum {
        CALIBRATE_SECONDS_DEFAULT = 5, /* as long as ext4's journal waits until it commits by itself */
        CALIBRATE_SECONDS_MAX = 3600,
};

/* Measures for so long what each probe costs, by what happens to hit it, and stores it for the daemon. Logs its errors
 * and returns a negative errno. */
int loader_calibrate(const char *bpffs, unsigned seconds);
