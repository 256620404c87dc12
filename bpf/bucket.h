/* SPDX-License-Identifier: GPL-2.0-only OR LGPL-2.1-or-later */
#pragma once

/* The bucket function of all histograms, shared by the BPF programs and user space.
 *
 * Values are nanoseconds. An upper edge belongs to its bucket (as Prometheus' "le" does): bucket i holds
 * lower < v <= upper. Bucket 0 holds everything up to 2^10 ns, the last one everything above 2^36 ns (69 s).
 * The full form has 8 linear steps per power of two (width 12.5 %), the short form one bucket per power. */

#ifdef __BPF__
typedef unsigned long long bucket_u64;
#else
#include <stdint.h>
typedef uint64_t bucket_u64;
#endif

enum {
        BUCKET_MIN_LOG2 = 10,
        BUCKET_MAX_LOG2 = 36,
        BUCKET_STEPS_LOG2 = 3,
        BUCKET_STEPS = 1 << BUCKET_STEPS_LOG2,
        BUCKETS_FULL = (BUCKET_MAX_LOG2 - BUCKET_MIN_LOG2) * BUCKET_STEPS + 2,
        BUCKETS_SHORT = (BUCKET_MAX_LOG2 - BUCKET_MIN_LOG2) + 2,
};

/* Position of the highest set bit; v must not be 0. Written out because BPF has no such instruction. */
static inline __attribute__((always_inline)) unsigned bucket_log2(bucket_u64 v) {
        unsigned r = 0;

        if (v >> 32) {
                v >>= 32;
                r += 32;
        }
        if (v >> 16) {
                v >>= 16;
                r += 16;
        }
        if (v >> 8) {
                v >>= 8;
                r += 8;
        }
        if (v >> 4) {
                v >>= 4;
                r += 4;
        }
        if (v >> 2) {
                v >>= 2;
                r += 2;
        }

        return r + (unsigned) (v >> 1);
}

/* Index of the full-form bucket that holds v nanoseconds, below BUCKETS_FULL. */
static inline __attribute__((always_inline)) unsigned bucket_full(bucket_u64 v) {
        unsigned k;

        if (v <= 1ULL << BUCKET_MIN_LOG2)
                return 0;
        v--;
        if (v >> BUCKET_MAX_LOG2)
                return BUCKETS_FULL - 1;
        k = bucket_log2(v);

        return 1 + (k - BUCKET_MIN_LOG2) * BUCKET_STEPS +
                ((unsigned) (v >> (k - BUCKET_STEPS_LOG2)) & (BUCKET_STEPS - 1));
}

/* Index of the short-form bucket that holds v nanoseconds, below BUCKETS_SHORT. */
static inline __attribute__((always_inline)) unsigned bucket_short(bucket_u64 v) {
        if (v <= 1ULL << BUCKET_MIN_LOG2)
                return 0;
        v--;
        if (v >> BUCKET_MAX_LOG2)
                return BUCKETS_SHORT - 1;

        return 1 + bucket_log2(v) - BUCKET_MIN_LOG2;
}

/* Upper edge (inclusive, ns) of full-form bucket i; the last bucket has none and returns UINT64_MAX. */
static inline bucket_u64 bucket_full_upper(unsigned i) {
        if (i == 0)
                return 1ULL << BUCKET_MIN_LOG2;
        if (i >= BUCKETS_FULL - 1)
                return ~0ULL;
        i--;

        return (bucket_u64) (BUCKET_STEPS + 1 + i % BUCKET_STEPS)
                << (BUCKET_MIN_LOG2 - BUCKET_STEPS_LOG2 + i / BUCKET_STEPS);
}

/* Upper edge (inclusive, ns) of short-form bucket i; the last bucket has none and returns UINT64_MAX. */
static inline bucket_u64 bucket_short_upper(unsigned i) {
        return i >= BUCKETS_SHORT - 1 ? ~0ULL : 1ULL << (BUCKET_MIN_LOG2 + i);
}
