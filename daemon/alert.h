/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "alert-limits.h"
#include "query.h"

/* Sends one structured journal entry about a stall: MESSAGE_ID_SYNC_FAILED if it is a sync that failed,
 * MESSAGE_ID_STALL_IN_PROGRESS if it has not returned yet, else MESSAGE_ID_STALL. It shows up under the unit in
 * "journalctl -u" if this process has uid 0. Holds no file name, pid or comm, because others than root may read the
 * unit's log. The invocation id (32 hex digits) may be NULL. Never blocks: returns a negative errno if the entry was dropped, as journal_send(). */
int alert_send(const StallRow *stall, const char *invocation_id);

/* Sends one entry, MESSAGE_ID_ALERTS_SUPPRESSED, about alerts of the unit that were left out within that time. The
 * mount point of the worst one may be NULL. */
int alert_send_suppressed(const char *unit, const Suppressed *suppressed, uint64_t span_ns, const char *mount_point);
