/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "share.h"

/* Wide enough for the product of two 64-bit numbers, and for the sum of as many as fit into memory. */
typedef unsigned __int128 u128;

/* How many weights have a remainder above the limit. */
static size_t remainders_above(uint64_t total, const uint64_t *weights, size_t n, u128 sum, u128 limit) {
        size_t count = 0;

        for (size_t i = 0; i < n; i++)
                if ((u128) total * weights[i] % sum > limit)
                        count++;

        return count;
}

void shares_of(uint64_t total, const uint64_t *weights, size_t n, uint64_t *ret) {
        u128 sum = 0, low, high;
        uint64_t left = total;

        for (size_t i = 0; i < n; i++)
                sum += weights[i];
        if (sum == 0) {
                for (size_t i = 0; i < n; i++)
                        ret[i] = 0;
                return;
        }

        for (size_t i = 0; i < n; i++) {
                ret[i] = (uint64_t) ((u128) total * weights[i] / sum);
                left -= ret[i];
        }
        if (left == 0)
                return;

        /* Bisects for the smallest limit which no more than the rest of ones exceed; needs no memory for
         * sorting. */
        low = 0;
        high = sum - 1;
        while (low < high) {
                u128 mid = low + (high - low) / 2;

                if (remainders_above(total, weights, n, sum, mid) <= left)
                        high = mid;
                else
                        low = mid + 1;
        }

        for (size_t i = 0; i < n; i++)
                if ((u128) total * weights[i] % sum > low) {
                        ret[i]++;
                        left--;
                }
        for (size_t i = 0; i < n && left > 0; i++)
                if ((u128) total * weights[i] % sum == low) {
                        ret[i]++;
                        left--;
                }
}

void shares_rest_to_largest(uint64_t total, const uint64_t *weights, size_t n, uint64_t *ret) {
        size_t largest = 0;
        uint64_t left = total;
        u128 sum = 0;

        for (size_t i = 0; i < n; i++) {
                sum += weights[i];
                if (weights[i] > weights[largest])
                        largest = i;
        }
        for (size_t i = 0; i < n; i++) {
                ret[i] = sum == 0 ? 0 : (uint64_t) ((u128) total * weights[i] / sum);
                left -= ret[i];
        }
        if (sum > 0)
                ret[largest] += left;
}
