/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "rate-limit.h"

bool rate_limit_allow(RateLimit *l, uint64_t now_ns) {
        uint64_t elapsed, cost;

        if (l->interval_ns == 0 || l->burst == 0)
                return true;

        if (!l->used) {
                l->used = true;
                l->level_ns = l->interval_ns;
                l->last_ns = now_ns;
        }
        elapsed = now_ns > l->last_ns ? now_ns - l->last_ns : 0;
        /* The parameters may have changed since the last time, hence no assumption on the level. */
        l->level_ns = elapsed >= l->interval_ns || l->level_ns >= l->interval_ns - elapsed ? l->interval_ns :
                                                                                            l->level_ns + elapsed;
        l->last_ns = MAX(l->last_ns, now_ns);

        cost = MAX(l->interval_ns / l->burst, (uint64_t) 1);
        if (l->level_ns < cost) {
                l->suppressed++;
                return false;
        }
        l->level_ns -= cost;

        return true;
}

uint64_t rate_limit_take_suppressed(RateLimit *l) {
        uint64_t n = l->suppressed;

        l->suppressed = 0;
        return n;
}
