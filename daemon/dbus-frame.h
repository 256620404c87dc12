/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

/* Cuts what a D-Bus client sends into the lines of the authentication and then into messages, so that each message
 * is known to be small before anything is allocated for it. Does no I/O and never asks for a byte of the next
 * piece, so nothing has to be kept when the reader stops in between. */

enum {
        DBUS_LINE_MAX = 256,          /* bytes of one line, with its end */
        DBUS_LINES_MAX = 16,          /* lines before the messages begin */
        DBUS_MESSAGE_MAX = 32 * 1024, /* bytes of one message: List() with all its filters full needs 17 KiB */
        DBUS_HEADER_SIZE = 16,        /* up to and with the length of the header fields */
};

enum {
        DBUS_TYPE_METHOD_CALL = 1, /* second byte of a message */
};

typedef enum DBusFrameState {
        DBUS_FRAME_START, /* the zero byte that begins a connection */
        DBUS_FRAME_LINE,
        DBUS_FRAME_HEADER,
        DBUS_FRAME_BODY,
} DBusFrameState;

typedef enum DBusPiece {
        DBUS_PIECE_NONE, /* more bytes are needed */
        DBUS_PIECE_LINE,
        DBUS_PIECE_MESSAGE,
} DBusPiece;

typedef struct DBusFrame {
        DBusFrameState state;
        unsigned n_lines;
        char line[DBUS_LINE_MAX]; /* a complete line is NUL-terminated, without its end */
        uint8_t header[DBUS_HEADER_SIZE];
        uint8_t *message;
        size_t size;     /* of the whole message */
        size_t received; /* of the present piece */
} DBusFrame;

void dbus_frame_done(DBusFrame *f);

/* Where the next bytes go, and how many at most. Zero after a complete piece. */
void dbus_frame_space(DBusFrame *f, void **ret, size_t *ret_size);

/* Says that n bytes were put there. Returns a DBusPiece; -EBADMSG if this is no D-Bus, -EMSGSIZE if the piece is
 * too large. An error is final. */
int dbus_frame_added(DBusFrame *f, size_t n);

/* Lets go of a complete piece; what follows is a line, or a message. */
void dbus_frame_next(DBusFrame *f, bool is_message);

/* The client has begun a piece, but not completed it. */
bool dbus_frame_partial(const DBusFrame *f);
