/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "growth.h"
#include "histogram.h"

bool phase_has_all_buckets(const char *phase) {
        return streq(phase, "total") || streq(phase, "queue") || streq(phase, "device");
}

static unsigned long long *find_bucket(Growth *g, uint64_t upper_ns) {
        return g->has_all_buckets ? &g->full.bucket[bucket_full(upper_ns)] : &g->powers.bucket[bucket_short(upper_ns)];
}

void growth_begin(Growth *g, const char *phase, const Buckets *now) {
        *g = (Growth){ .has_all_buckets = phase && phase_has_all_buckets(phase) };
        for (size_t i = 0; i < now->n; i++)
                *find_bucket(g, now->items[i].upper_ns) += now->items[i].count;
}

void growth_subtract(Growth *g, const Buckets *before) {
        for (size_t i = 0; i < before->n; i++) {
                unsigned long long *bucket = find_bucket(g, before->items[i].upper_ns);

                *bucket -= MIN(*bucket, (unsigned long long) before->items[i].count);
        }
}

uint64_t growth_quantile(const Growth *g, double q, uint64_t max_ns) {
        Growth limited = *g;

        if (g->has_all_buckets) {
                limited.full.max_ns = max_ns;
                return hist_full_quantile(&limited.full, q);
        }
        limited.powers.max_ns = max_ns;

        return hist_short_quantile(&limited.powers, q);
}
