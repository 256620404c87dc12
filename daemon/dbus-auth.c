/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "dbus-auth.h"

/* What follows the command on the line, NULL if it is another one. */
static const char *command(const char *line, const char *word) {
        const char *rest = startswith(line, word);

        if (!rest || (*rest && *rest != ' '))
                return NULL;

        return rest + strspn(rest, " ");
}

int dbus_auth_line(DBusAuthState *state, const char *line, const char *guid,
                   char reply[static DBUS_AUTH_REPLY_MAX]) {
        enum { ACCEPT, REJECT, CONTINUE, UNKNOWN } answer = UNKNOWN;
        const char *args;

        reply[0] = 0;
        if (command(line, "BEGIN"))
                return *state == DBUS_AUTH_BEGIN ? 1 : -EPERM;

        if (command(line, "CANCEL") || command(line, "ERROR"))
                answer = REJECT;
        else if (*state == DBUS_AUTH_START && (args = command(line, "AUTH"))) {
                args = command(args, "EXTERNAL");
                answer = !args ? REJECT : *args ? ACCEPT : CONTINUE;
        } else if (*state == DBUS_AUTH_DATA && command(line, "DATA"))
                answer = ACCEPT;

        switch (answer) {

        case ACCEPT:
                *state = DBUS_AUTH_BEGIN;
                (void) snprintf(reply, DBUS_AUTH_REPLY_MAX, "OK %.32s\r\n", guid);
                break;

        case REJECT:
                *state = DBUS_AUTH_START;
                (void) snprintf(reply, DBUS_AUTH_REPLY_MAX, "REJECTED EXTERNAL\r\n");
                break;

        case CONTINUE:
                *state = DBUS_AUTH_DATA;
                (void) snprintf(reply, DBUS_AUTH_REPLY_MAX, "DATA\r\n");
                break;

        default:
                (void) snprintf(reply, DBUS_AUTH_REPLY_MAX, "ERROR\r\n");
        }

        return 0;
}
