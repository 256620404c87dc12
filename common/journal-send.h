/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

/* One field of a journal entry. The value may contain any byte. */
typedef struct JournalField {
        const char *name;
        const void *value;
        size_t size;
} JournalField;

#define JOURNAL_FIELD_STRING(n, v) ((JournalField){ .name = (n), .value = (v), .size = strlen(v) })
#define JOURNAL_FIELD_PRIORITY(level) \
        ((JournalField){ .name = "PRIORITY", .value = &"01234567"[(level) & 7], .size = 1 })

enum {
        JOURNAL_ENTRY_MAX = 8192, /* bytes of one serialized entry; longer ones are refused with -E2BIG */
};

/* Sends one entry to journald by its native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL) without ever blocking:
 * sd_journal_send() waits when the socket is full, which would stop a daemon just when the disk is stuck.
 * Returns -EAGAIN if journald does not keep up, -ENOENT or -ECONNREFUSED if none is there. */
int journal_send(const JournalField *fields, size_t n_fields);
