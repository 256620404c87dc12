/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "options.h"

/* If stdout is a terminal and nobody objects, starts the user's pager and lets it take over stdout. It is called
 * when there is something to show and no more waiting to be done. */
void pager_open(const Options *o);

/* Hands over the rest and waits for the user to leave the pager. */
void pager_close(void);
