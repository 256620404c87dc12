/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <sys/socket.h>

#include "dbus-frame.h"
#include "fuzz.h"
#include "peer-relay.h"

/* What an unprivileged client sends, through the relay to sd-bus and an object of its own. The first byte says
 * whether the client is through with the authentication already, and in pieces of which size it sends. */

enum {
        STEPS_MAX = 4096,
        FLAG_BEGUN = 0x80,
};

static int method_list(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error) {
        const char *s;
        uint64_t cursor;
        int r;

        r = sd_bus_message_enter_container(call, 'a', "s");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_read(call, "s", &s)) > 0)
                fuzz_check(strlen(s) <= DBUS_MESSAGE_MAX);
        if (r < 0)
                return r;
        r = sd_bus_message_exit_container(call);
        if (r < 0)
                return r;
        r = sd_bus_message_read(call, "t", &cursor);
        if (r < 0)
                return r;

        return sd_bus_reply_method_return(call, "t", cursor);
}

static const sd_bus_vtable vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_METHOD("List", "ast", "t", method_list, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_SIGNAL("Changed", "ay", 0),
        SD_BUS_VTABLE_END,
};

static int open_objects(sd_bus *bus, void *userdata) {
        return sd_bus_add_object_vtable(bus, NULL, "/t", "t.T", vtable, NULL);
}

static int drain(int fd) {
        char buf[65536];
        ssize_t n;

        while ((n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
                ;

        return n == 0 ? -ECONNRESET : 0;
}

/* Runs until nothing moves any more. */
static int settle(PeerRelay *p, int client) {
        uint64_t before;
        size_t steps = 0;
        int r;

        do {
                fuzz_check(steps++ < STEPS_MAX);
                before = peer_relay_progress(p) + peer_relay_sent(p);
                r = peer_relay_run(p);
                (void) drain(client);
        } while (r >= 0 && peer_relay_progress(p) + peer_relay_sent(p) != before);

        return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char hello[] = "\0AUTH EXTERNAL 30\r\nBEGIN\r\n";
        _cleanup_(peer_relay_freep) PeerRelay *p = NULL;
        _cleanup_close_ int client = -EBADF;
        FuzzInput in = { data, size };
        uint8_t flags = (uint8_t) fuzz_number(&in, 1);
        size_t at_once = (size_t) (flags & ~FLAG_BEGUN) * 64 + 1;
        int fds[2], r = 0;

        fuzz_check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
        client = fds[1];
        fuzz_check(peer_relay_new(&p, fds[0], SD_ID128_MAKE(01,02,03,04,05,06,07,08,09,0a,0b,0c,0d,0e,0f,10),
                                  open_objects, NULL) == 0);
        if (flags & FLAG_BEGUN) {
                fuzz_check(send(client, hello, sizeof(hello) - 1, 0) == sizeof(hello) - 1);
                r = settle(p, client);
                fuzz_check(r == 0 && peer_relay_bus(p));
        }
        while (in.size > 0 && r >= 0) {
                FuzzInput part = fuzz_take(&in, at_once);

                fuzz_check(send(client, part.p, part.size, MSG_NOSIGNAL) == (ssize_t) part.size);
                r = settle(p, client);
                /* It is read, so nothing may stay behind. */
                fuzz_check(r < 0 || !peer_relay_blocked(p));
        }
        if (r >= 0 && peer_relay_bus(p)) {
                fuzz_check(sd_bus_emit_signal(peer_relay_bus(p), "/t", "t.T", "Changed", "ay", 1, 7) >= 0);
                fuzz_check(peer_relay_flush(p) == 0);
        }

        return 0;
}
