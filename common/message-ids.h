/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* MESSAGE_ID= of the journal entries that programs and the catalog know. Never reused for another meaning. */
#define MESSAGE_ID_STALL "20ecc9e4164647f982cc2c2a1d527d07"       /* an operation took longer than its threshold */
#define MESSAGE_ID_STALL_IN_PROGRESS "75c6faa4e60c476c977de7c0d73c9db5" /* ... and has not returned yet */
#define MESSAGE_ID_SYNC_FAILED "a198b927c2bb4594bfbe424a97d84cc2" /* a sync failed: written data may be lost */
#define MESSAGE_ID_ALERTS_SUPPRESSED "d4ee86c89bce4d2fafc56d7a2e4dfe1e" /* entries like these that were left out */
