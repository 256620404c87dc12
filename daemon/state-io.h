/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the children do with the state file. All of it may hang with the disk. */

#include "util.h"

#define STATE_FILE_NAME "history"
#define STATE_FILE_NEW STATE_FILE_NAME ".new"
#define STATE_FILE_CORRUPT STATE_FILE_NAME ".corrupt"

enum {
        STATE_FILE_SIZE_MAX = 96 * 1024 * 1024, /* of a file that is read */
};

/* Hands out what is to be written, piece by piece. */
typedef int (*state_io_sink)(const void *data, size_t size, void *userdata);
typedef int (*state_io_source)(state_io_sink sink, void *sink_userdata, void *userdata);

/* Reads the whole file first, then writes all valid records, up to the first that is not, to fd: what is read from
 * there does not stop in the middle. Returns -ENOENT if there is no file, -EBADMSG if there was more than valid
 * records, -EPROTO if it is of another version. */
int state_io_load(const char *dir, int fd);

/* Adds to a file of exactly that size, else -ESTALE. It has that size again if not all could be added. */
int state_io_append(const char *dir, uint64_t size, state_io_source source, void *userdata, uint64_t *ret_size);

/* Replaces the file, all or nothing; the old one is kept under another name if it is to be set aside. Makes the
 * directory if there is none. */
int state_io_rewrite(const char *dir, bool set_aside, state_io_source source, void *userdata, uint64_t *ret_size);
