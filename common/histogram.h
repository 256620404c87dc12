/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "abi.h"
#include "util.h"

/* Adds src to dst: count, sum and buckets add up, max is the larger one. Only for histograms of one and the same
 * quantity; histograms of two quantities never make a third. */
void hist_full_add(struct hist_full *dst, const struct hist_full *src);
void hist_short_add(struct hist_short *dst, const struct hist_short *src);

/* The same for all that is counted of an operation, a request or dirty data; folded_from of dst stays. */
void op_value_add(struct op_value *dst, const struct op_value *src);
void rq_value_add(struct rq_value *dst, const struct rq_value *src);
void age_value_add(struct age_value *dst, const struct age_value *src);

/* The q-quantile (0 < q <= 1) in ns by nearest rank: midpoint of the bucket that holds it, never above the maximum;
 * off by at most 6.25 % (full form, between 2^10 and 2^36 ns). 0 if the histogram is empty. The rank is taken
 * within the buckets' own sum, which can be ahead of count while the kernel is counting. */
uint64_t hist_full_quantile(const struct hist_full *h, double q);
uint64_t hist_short_quantile(const struct hist_short *h, double q);

/* The full form's numbers in the buckets of the short form, whose edges are edges of the full form, too. */
void hist_full_coarsen(const struct hist_full *h, uint64_t ret[static BUCKETS_SHORT]);
