/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "format.h"
#include "stall-text.h"
#include "text.h"

char *stall_phase_text(const StallRow *row) {
        char *s;

        if (!row->phase || !stall_is_in_progress(row) || !STALL_HAS(row, wait_ns))
                return strdup(row->phase ?: "-");
        if (asprintf(&s, "%s for %s", row->phase, FORMAT_NSEC(row->wait_ns)) < 0)
                return NULL;

        return s;
}

char *stall_place_text(const char *mount_point, const char *device) {
        char *s;

        if (!mount_point || !device)
                return strdup(mount_point ?: strempty(device));
        if (asprintf(&s, "%s (%s)", mount_point, device) < 0)
                return NULL;

        return s;
}

static bool is_failed(const StallRow *row) {
        return row->error || (row->state && streq(row->state, "failed"));
}

char *stall_sentence(const StallRow *row) {
        _cleanup_free_ char *s = NULL, *place = NULL, *phase = NULL;
        bool in_progress = stall_is_in_progress(row);
        int r;

        place = stall_place_text(row->mount_point, row->device);
        phase = stall_phase_text(row);
        if (!place || !phase)
                return NULL;

        r = text_appendf(&s, "%s%s%s", row->op ?: "operation", isempty(place) ? "" : " on ", place);
        if (r >= 0 && STALL_HAS(row, total_ns))
                r = text_appendf(&s, " %s %s", in_progress ? "has not returned for" : "took",
                                 FORMAT_NSEC(row->total_ns));
        if (r >= 0 && row->phase)
                r = text_appendf(&s, ", %s %s", in_progress ? "in" : "most of it", phase);
        if (r >= 0 && is_failed(row))
                r = text_appendf(&s, ", failed%s%s", row->error ? ": " : "", strempty(row->error));
        if (r < 0)
                return NULL;

        return TAKE_PTR(s);
}

const StallRow *stall_newest(const StallRows *rows, const char *unit) {
        const StallRow *newest = NULL;

        for (size_t i = 0; i < rows->n; i++) {
                const StallRow *row = &rows->items[i];

                if (unit && (!row->unit || !streq(row->unit, unit)))
                        continue;
                if (!newest || stall_is_in_progress(row) > stall_is_in_progress(newest) ||
                    (stall_is_in_progress(row) == stall_is_in_progress(newest) && row->start_us >= newest->start_us))
                        newest = row;
        }

        return newest;
}
