/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

/* Splits total among n by weight, into ret[n], such that the parts add up to exactly total: each gets its share
 * rounded down, and what is left goes in ones to those that lost most by that (the earlier of equals first).
 * All values may have 64 bits; weights that are all zero make all parts zero. ret must not overlap weights. */
void shares_of(uint64_t total, const uint64_t *weights, size_t n, uint64_t *ret);

/* The same for those who call it often: each gets its share rounded down, and what is left, less than n, goes to the
 * one with the largest weight (the first of equals). */
void shares_rest_to_largest(uint64_t total, const uint64_t *weights, size_t n, uint64_t *ret);
