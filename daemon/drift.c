/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "drift.h"

bool drift_tick(Drift *d, int64_t sum) {
        /* The drift is part of the sum, so it cannot have been more than this. */
        if (sum < d->known)
                d->known = sum;

        if (sum > d->known) {
                d->n_trusted = 0;
                d->n_above = MIN(d->n_above + 1, (unsigned) DRIFT_TICKS_ABOVE);
                return d->n_above >= DRIFT_TICKS_ABOVE;
        }
        d->n_above = 0;
        if (sum <= 0) { /* there is nothing that a wrong drift could hide */
                d->n_trusted = 0;
                return false;
        }
        if (++d->n_trusted < DRIFT_TICKS_TRUSTED)
                return false;
        d->n_trusted = 0;

        return true;
}

void drift_scanned(Drift *d, int64_t sum, uint64_t seen, bool quiet) {
        int64_t found = sum - (int64_t) seen;

        if (!quiet)
                return;
        if (d->n_agreed == 0 || found != d->candidate) {
                d->candidate = found;
                d->n_agreed = 0;
        }
        d->n_agreed = MIN(d->n_agreed + 1, (unsigned) DRIFT_SCANS_AGREED);
        /* Less than was believed costs some scans at worst, and is believed at once. */
        if (found < d->known || d->n_agreed >= DRIFT_SCANS_AGREED)
                d->known = found;
}
