/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "drift.h"
#include "maps.h"

enum {
        SCAN_RECORDS_MAX = 8192, /* operations that one scan hands over of each kind; then it is cut short */
};

/* Looks for operations that have not returned. */
typedef struct Scan {
        Drift drift;
        unsigned generation; /* of the maps that the drift is about */
        int flights;
        int scans;
        int64_t *buffer; /* one value a CPU */
} Scan;

#define SCAN_NULL ((Scan){ .flights = -EBADF, .scans = -EBADF })

typedef int (*scan_callback)(const struct stall *record, void *userdata);

/* To be called at each tick. Scans if operations have been in flight for a while or if wanted, and calls back for each
 * that lasts longer than the lowest limit. Returns 1 after a scan that has seen all of them, 0 if there was none or if
 * it was cut short, or a negative errno: -ENOENT if the pins are gone, or never were there. */
int scan_tick(Scan *s, Maps *maps, bool wanted, scan_callback callback, void *userdata);

void scan_done(Scan *s);
