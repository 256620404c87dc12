/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <bpf/libbpf.h>

/* Maps that allocate their elements when they need them take them from a cache of each CPU, which begins with one element
 * where these are large, and is filled up when that one was taken: the second of two new services whose requests end in
 * one interrupt would not be counted (kernel/bpf/memalloc.c:prefill_mem_cache(), alloc_bulk()). Takes one on each CPU
 * and gives it back. To be called before programs run; what does not work is logged and otherwise of no consequence. */
void map_caches_fill(struct bpf_object *obj);
