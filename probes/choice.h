/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "probe-table.h"

struct iolat_bpf;

/* Further sets of programs where a program can be skipped: an event is only lost if all of them are preempted at the
 * same time on one CPU, each by the next one. Two in 9,500 were, with one. */
enum { CHOICE_TWINS = 2 };

/* Which of the programs are to be loaded on this kernel. */
typedef struct Choice Choice;

/* wanted_options: OPTION_*. tier: "auto", "tracepoint", "function" (with trampolines) or "kprobe" (function tier without them); -EINVAL if it is
 * none. */
int choice_new(Choice **ret, const char *tier, unsigned wanted_options);
Choice *choice_free(Choice *c);
DEFINE_CLEANUP_FUNC(Choice, choice_free)

/* Looks at the kernel's BTF and functions. */
int choice_read_kernel(Choice *c, bool symbols_from_stdin);

/* Chooses one candidate for each probe and tells the opened, not yet loaded object, constants included. Returns
 * -EOPNOTSUPP if the tier that was asked for cannot be had. */
int choice_apply(Choice *c, struct iolat_bpf *skel, unsigned generation);

/* Whether this kernel skips events, so that each program has to be there twice. */
bool choice_needs_twins(const Choice *c);

/* What of the n-th further set (1 to CHOICE_TWINS) belongs to this element of probe_table; NULL if nothing does. */
const ProbeDef *choice_twin(const Choice *c, size_t index, unsigned n);

/* Makes that set out of an object that choice_apply() has prepared. */
void choice_make_twin(const Choice *c, struct iolat_bpf *skel, unsigned n);

/* The kernel did not take that program of a further set: leaves it out from now on. Returns false if that is no use. */
bool choice_refuse_twin(Choice *c, const char *program);

/* The kernel did not take the program, with that error: leaves it out from now on, and the rest of its candidate.
 * Returns false if that is no use, because it is unknown or nothing would be taken. */
bool choice_refuse(Choice *c, const char *program, int error, const char *reason);

/* Which modules are there that the programs know more of than functions to attach to; bits for struct meta. */
unsigned choice_modules(const Choice *c);

/* Whether a module has brought the function of a probe that was absent for want of it. */
bool choice_finds_more(const Choice *c, enum probe probe, const struct probe_info *present);

/* Of what choice_apply() has chosen leaves only the probes for which that is so. */
void choice_only_new(Choice *c, struct iolat_bpf *skel, const struct probe_info *present);

/* Whether this element of probe_table has been chosen. */
bool choice_has(const Choice *c, size_t index);

enum tier choice_tier(const Choice *c);
const char *choice_tier_reason(const Choice *c); /* why it is not the function tier; empty if it is */
const struct probe_info *choice_info(const Choice *c, enum probe probe);
