/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <endian.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "journal-send.h"

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

static int append(char *buf, size_t *used, const void *p, size_t n) {
        if (n > JOURNAL_ENTRY_MAX - *used)
                return -E2BIG;
        memcpy(buf + *used, p, n);
        *used += n;

        return 0;
}

static int append_field(char *buf, size_t *used, const JournalField *f) {
        uint64_t le = htole64(f->size);
        int r;

        r = append(buf, used, f->name, strlen(f->name));
        if (r < 0)
                return r;

        if (memchr(f->value, '\n', f->size)) {
                r = append(buf, used, "\n", 1);
                if (r >= 0)
                        r = append(buf, used, &le, sizeof(le));
        } else
                r = append(buf, used, "=", 1);
        if (r >= 0)
                r = append(buf, used, f->value, f->size);
        if (r >= 0)
                r = append(buf, used, "\n", 1);

        return r;
}

int journal_send(const JournalField *fields, size_t n_fields) {
        static const struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = JOURNAL_SOCKET };
        static int fd = -EBADF;
        char buf[JOURNAL_ENTRY_MAX];
        size_t used = 0;
        int r;

        for (size_t i = 0; i < n_fields; i++) {
                r = append_field(buf, &used, fields + i);
                if (r < 0)
                        return r;
        }

        if (fd < 0) {
                fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
                if (fd < 0)
                        return -errno;
        }
        if (sendto(fd, buf, used, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *) &address,
                   sizeof(address)) < 0)
                return -errno;

        return 0;
}
