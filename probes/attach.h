/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <bpf/libbpf.h>

#include "generation.h"

enum { PROGRAM_NAME_MAX = 64 };

/* Attaches a loaded program and pins it and its link, under that name. Returns 0 or a negative errno. */
int attach_and_pin(Generation *g, struct bpf_program *prog, const ProbeDef *def, const char *name);

/* Likewise all programs of a probe, out of that object, under the names of those of NAMED with that suffix. */
int attach_probe(Generation *g, struct iolat_bpf *skel, const ProbeDef *def, const ProbeDef *named,
                 const char *suffix);
