/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "abi.h"
#include "util.h"

/* By which attach points a number was obtained: "tp_btf:NAME" measured at that tracepoint, "derived:NAME" an edge
 * taken from it by the rule in iolat(7), "planned:NAME" announced rather than measured. NULL-terminated, static. */
const char *const *source_of_total(int op);
const char *const *source_of_phase(int phase);
const char *const *source_of_request(int part);

/* What this tier cannot see, on any host. */
typedef struct BlindSpot {
        const char *title;
        const char *text;
} BlindSpot;
extern const BlindSpot blind_spots[];
extern const size_t blind_spots_size;
