/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <bpf/btf.h>

#include "util.h"

/* What the running kernel offers, by its BTF. */

/* Number of arguments of tracepoint NAME (without the context pointer), from its btf_trace_NAME prototype; -ENOENT if
 * the kernel (vmlinux) has no such tracepoint. */
int kernel_btf_tracepoint_args(const struct btf *btf, const char *name);

/* Value of an enumerator, whatever enum it is in (also anonymous ones). -ENOENT if there is none. */
int kernel_btf_enumerator(const struct btf *btf, const char *name, int64_t *ret);
