/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The format of the state file: a header, then records, each with its length and CRC32. Pure. What the records say
 * is the business of history-file.h. All numbers outside of records' contents are little-endian. */

#include "history-codec.h"
#include "util.h"

enum {
        STATE_FILE_VERSION = 1,
        STATE_HEADER_SIZE = 16,
        STATE_RECORD_OVERHEAD = 8,
        STATE_RECORD_MAX = 128 * 1024, /* bytes of a record's contents */
};

void state_file_header(uint8_t ret[static STATE_HEADER_SIZE]);

/* Looks at the first bytes of a file. -EBADMSG: it is none of ours, or damaged; -EPROTO: it is of another version. */
int state_file_check_header(const uint8_t header[static STATE_HEADER_SIZE]);

/* Appends a record with these contents, which must not be empty. */
void state_file_put(Buffer *b, const uint8_t *contents, size_t size);

/* Looks for a record at the beginning of data. Returns 1 and its contents, and how many bytes it takes in all; 0 if
 * more bytes are needed; -EBADMSG if there is no valid record. */
int state_file_next(const uint8_t *data, size_t size, const uint8_t **ret_contents, size_t *ret_size,
                    size_t *ret_taken);
