/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "dbus-auth.h"
#include "dbus-frame.h"
#include "fuzz.h"

/* What an unprivileged client sends, cut into pieces as the relay cuts it. The first byte says how much is there at
 * once. */

static const char guid[] = "0123456789abcdef0123456789abcdef";

/* Returns a negative errno if the connection would be closed. */
static int on_line(DBusFrame *f, DBusAuthState *auth) {
        char *reply = malloc(DBUS_AUTH_REPLY_MAX);
        size_t n;
        int r;

        fuzz_check(reply);
        fuzz_check(strlen(f->line) + 2 <= DBUS_LINE_MAX);
        r = dbus_auth_line(auth, f->line, guid, reply);
        n = strlen(reply);
        fuzz_check(n < DBUS_AUTH_REPLY_MAX && (n == 0 || endswith(reply, "\r\n")));
        fuzz_check(r <= 0 || *auth == DBUS_AUTH_BEGIN);
        free(reply);

        return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        FuzzInput in = { data, size };
        size_t at_once = (size_t) fuzz_number(&in, 1) * 16 + 1, n_lines = 0;
        DBusAuthState auth = DBUS_AUTH_START;
        bool messages = false;
        DBusFrame f = {};

        while (in.size > 0) {
                size_t room, n;
                void *space;
                int r;

                dbus_frame_space(&f, &space, &room);
                fuzz_check(room > 0 && room <= DBUS_MESSAGE_MAX);
                n = MIN(MIN(room, at_once), in.size);
                memcpy(space, in.p, n);
                (void) fuzz_take(&in, n);
                r = dbus_frame_added(&f, n);
                if (r == DBUS_PIECE_LINE) {
                        fuzz_check(!messages && ++n_lines <= DBUS_LINES_MAX);
                        r = on_line(&f, &auth);
                        if (r >= 0) {
                                messages = r > 0;
                                dbus_frame_next(&f, messages);
                                fuzz_check(!dbus_frame_partial(&f));
                        }
                } else if (r == DBUS_PIECE_MESSAGE) {
                        fuzz_check(messages && auth == DBUS_AUTH_BEGIN);
                        fuzz_check(f.size >= DBUS_HEADER_SIZE && f.size <= DBUS_MESSAGE_MAX && f.received == f.size);
                        dbus_frame_next(&f, true);
                } else
                        fuzz_check(r == DBUS_PIECE_NONE || r == -EBADMSG || r == -EMSGSIZE);
                if (r < 0)
                        break;
        }
        dbus_frame_done(&f);

        return 0;
}
