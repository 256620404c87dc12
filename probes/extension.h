/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "generation.h"

/* Adds to the present generation the probes that a module has brought functions for; far quicker than making another
 * generation. g->infos says which were there. Returns how many were added, or a negative errno, not logged. */
int generation_extend(Generation *g);
