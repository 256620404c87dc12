/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <math.h>

#include "histogram.h"

static void numbers_add(unsigned long long *dst, const unsigned long long *src, size_t n) {
        for (size_t i = 0; i < n; i++)
                dst[i] += src[i];
}

void hist_full_add(struct hist_full *dst, const struct hist_full *src) {
        dst->count += src->count;
        dst->sum_ns += src->sum_ns;
        dst->max_ns = MAX(dst->max_ns, src->max_ns);
        numbers_add(dst->bucket, src->bucket, BUCKETS_FULL);
}

void hist_short_add(struct hist_short *dst, const struct hist_short *src) {
        dst->count += src->count;
        dst->sum_ns += src->sum_ns;
        dst->max_ns = MAX(dst->max_ns, src->max_ns);
        numbers_add(dst->bucket, src->bucket, BUCKETS_SHORT);
}

void op_value_add(struct op_value *dst, const struct op_value *src) {
        dst->errors += src->errors;
        dst->requests += src->requests;
        numbers_add(dst->step_ns, src->step_ns, _STEP_MAX);
        hist_full_add(&dst->total, &src->total);
        for (size_t i = 0; i < _PHASE_MAX; i++)
                hist_short_add(&dst->phase[i], &src->phase[i]);
}

void rq_value_add(struct rq_value *dst, const struct rq_value *src) {
        dst->errors += src->errors;
        dst->bytes += src->bytes;
        dst->untimed += src->untimed;
        numbers_add(dst->owned_bytes, src->owned_bytes, _OWNED_BY_MAX);
        hist_full_add(&dst->queue, &src->queue);
        hist_full_add(&dst->device, &src->device);
}

void age_value_add(struct age_value *dst, const struct age_value *src) {
        hist_short_add(&dst->age, &src->age);
}

static uint64_t quantile(const unsigned long long *bucket, size_t n, bucket_u64 (*upper)(unsigned), uint64_t max,
                         double q) {
        uint64_t total = 0, seen = 0, rank;

        for (size_t i = 0; i < n; i++)
                total += bucket[i];
        if (total == 0)
                return 0;

        rank = (uint64_t) ceil(q * (double) total);
        rank = MIN(MAX(rank, (uint64_t) 1), total);

        for (size_t i = 0; i < n; i++) {
                uint64_t low, mid;

                seen += bucket[i];
                if (seen < rank)
                        continue;
                if (i == n - 1)
                        return max;
                low = i == 0 ? 0 : upper(i - 1);
                mid = low + (upper(i) - low) / 2;

                return MIN(mid, max);
        }

        return max;
}

uint64_t hist_full_quantile(const struct hist_full *h, double q) {
        return quantile(h->bucket, BUCKETS_FULL, bucket_full_upper, h->max_ns, q);
}

uint64_t hist_short_quantile(const struct hist_short *h, double q) {
        return quantile(h->bucket, BUCKETS_SHORT, bucket_short_upper, h->max_ns, q);
}

void hist_full_coarsen(const struct hist_full *h, uint64_t ret[static BUCKETS_SHORT]) {
        memset(ret, 0, sizeof(ret[0]) * BUCKETS_SHORT);
        for (unsigned i = 0; i < BUCKETS_FULL; i++)
                ret[bucket_short(bucket_full_upper(i))] += h->bucket[i];
}
