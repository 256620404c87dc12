/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Gives the history a tick every so often, and keeps it in the state file, by way of child processes. */

#include "history.h"

typedef struct Manager Manager;
typedef struct HistoryKeeper HistoryKeeper;

/* Begins to read the state file below dir (borrowed). What the manager has of series and counters must be there. */
int history_keeper_new(HistoryKeeper **ret, Manager *m, const char *dir, bool hurry);
HistoryKeeper *history_keeper_free(HistoryKeeper *k);
DEFINE_CLEANUP_FUNC(HistoryKeeper, history_keeper_free)

/* The history; it belongs to the keeper. */
History *history_keeper_get(HistoryKeeper *k);

/* Takes the last window, and gives the disk a second to take it. To be called after the event loop. */
void history_keeper_finish(HistoryKeeper *k);
