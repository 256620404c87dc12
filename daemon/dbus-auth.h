/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

enum {
        DBUS_AUTH_REPLY_MAX = 64, /* bytes: "OK " with 32 hex digits is the longest */
};

typedef enum DBusAuthState {
        DBUS_AUTH_START,
        DBUS_AUTH_DATA,  /* a mechanism was chosen, its data are expected */
        DBUS_AUTH_BEGIN, /* authenticated, but the messages have not begun */
} DBusAuthState;

/* The server's side of the authentication of the D-Bus specification, mechanism EXTERNAL only. Whom the client
 * claims to be does not matter and is not looked at: the kernel tells, and may tell otherwise if the client lives
 * in a user namespace. File descriptors are never agreed to. Takes a line without its end, writes the reply with
 * its end (or ""). Returns 1 if messages follow this line, -EPERM if the client begins unauthenticated, else 0. */
int dbus_auth_line(DBusAuthState *state, const char *line, const char *guid,
                   char reply[static DBUS_AUTH_REPLY_MAX]);
