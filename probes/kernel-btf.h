/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <bpf/btf.h>

#include "util.h"

/* What the running kernel offers, by its BTF. */

/* The types of a module (lsmod's name) that is loaded, on top of those of vmlinux; base must live as long. Needs no
 * capability. -ENOENT if the module is not loaded, or is no module on this kernel. */
int kernel_btf_of_module(const char *module, struct btf *base, struct btf **ret);

/* Number of arguments of tracepoint NAME (without the context pointer), from its btf_trace_NAME prototype; -ENOENT if
 * there is no such tracepoint in btf, or in what that is on top of. */
int kernel_btf_tracepoint_args(const struct btf *btf, const char *name);

/* Value of an enumerator, whatever enum it is in (also anonymous ones). -ENOENT if there is none. */
int kernel_btf_enumerator(const struct btf *btf, const char *name, int64_t *ret);
