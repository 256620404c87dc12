/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "query.h"

/* What --since=, --until= and --boot ask for. Logs its failures. */
int range_from_options(const Options *o, Range *ret);

/* Whether the covered part (of query.h) is a part at all. */
bool range_is_covered(const Range *covered);

/* Says in one sentence that the history holds nothing of that time, and returns the exit code for it. */
int range_log_nothing(Query *q);

/* Says how much of what was asked for is covered: behind a table as its footer, behind JSON on stderr, and there
 * only if it is not all. */
void range_print_covered(const Range *asked, const Range *covered, const Options *o);
