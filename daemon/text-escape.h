/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

/* The bus and the journal take UTF-8 only, but names of cgroups, mount points and processes may hold any byte.
 * Returns s itself if it is valid and shorter than size, else buf with every bad byte written as \xNN, cut to what
 * fits. With controls, control characters are bad bytes, too: for text that ends up on a terminal. */
const char *text_escape(const char *s, bool controls, char *buf, size_t size);
