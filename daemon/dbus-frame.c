/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "dbus-frame.h"

void dbus_frame_done(DBusFrame *f) {
        free(f->message);
        *f = (DBusFrame){};
}

void dbus_frame_space(DBusFrame *f, void **ret, size_t *ret_size) {
        switch (f->state) {

        case DBUS_FRAME_START:
                *ret = f->line;
                *ret_size = f->received == 0;
                break;

        case DBUS_FRAME_LINE:
                /* One at a time, because what comes after the end of the line may be a message. */
                *ret = f->line + f->received;
                *ret_size = f->received < sizeof(f->line) && !(f->received > 0 && f->line[f->received - 1] == 0);
                break;

        case DBUS_FRAME_HEADER:
                *ret = f->header + f->received;
                *ret_size = sizeof(f->header) - f->received;
                break;

        default:
                *ret = f->message + f->received;
                *ret_size = f->size - f->received;
        }
}

static uint32_t header_u32(const DBusFrame *f, size_t offset) {
        const uint8_t *p = f->header + offset;

        if (f->header[0] == 'B')
                return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | p[3];

        return (uint32_t) p[3] << 24 | (uint32_t) p[2] << 16 | (uint32_t) p[1] << 8 | p[0];
}

static int added_header(DBusFrame *f) {
        uint64_t body, fields, size;

        if (f->received < sizeof(f->header))
                return DBUS_PIECE_NONE;
        if ((f->header[0] != 'l' && f->header[0] != 'B') || f->header[1] == 0 || f->header[3] != 1)
                return -EBADMSG;

        body = header_u32(f, 4);
        fields = header_u32(f, 12);
        size = DBUS_HEADER_SIZE + ((fields + 7) & ~(uint64_t) 7) + body;
        if (size > DBUS_MESSAGE_MAX)
                return -EMSGSIZE;

        f->message = malloc(size);
        if (!f->message)
                return -ENOMEM;
        memcpy(f->message, f->header, sizeof(f->header));
        f->size = size;
        f->state = DBUS_FRAME_BODY;

        return f->received == f->size ? DBUS_PIECE_MESSAGE : DBUS_PIECE_NONE;
}

static int added_line(DBusFrame *f) {
        char c = f->line[f->received - 1];

        if (c == '\n') {
                if (f->received < 2 || f->line[f->received - 2] != '\r')
                        return -EBADMSG;
                if (++f->n_lines > DBUS_LINES_MAX)
                        return -EMSGSIZE;
                f->line[f->received - 2] = 0;
                f->line[f->received - 1] = 0;
                return DBUS_PIECE_LINE;
        }
        if (c != '\r' && (c < 0x20 || c > 0x7e)) /* the protocol's lines are ASCII */
                return -EBADMSG;

        return f->received < sizeof(f->line) ? DBUS_PIECE_NONE : -EMSGSIZE;
}

int dbus_frame_added(DBusFrame *f, size_t n) {
        if (n == 0)
                return DBUS_PIECE_NONE;
        f->received += n;

        switch (f->state) {

        case DBUS_FRAME_START:
                if (f->line[0] != 0)
                        return -EBADMSG;
                f->state = DBUS_FRAME_LINE;
                f->received = 0;
                return DBUS_PIECE_NONE;

        case DBUS_FRAME_LINE:
                return added_line(f);

        case DBUS_FRAME_HEADER:
                return added_header(f);

        default:
                return f->received == f->size ? DBUS_PIECE_MESSAGE : DBUS_PIECE_NONE;
        }
}

void dbus_frame_next(DBusFrame *f, bool is_message) {
        free(f->message);
        f->message = NULL;
        f->size = f->received = 0;
        f->state = is_message ? DBUS_FRAME_HEADER : DBUS_FRAME_LINE;
}

bool dbus_frame_partial(const DBusFrame *f) {
        return f->received > 0;
}
