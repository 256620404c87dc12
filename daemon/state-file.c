/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <endian.h>
#include <zlib.h>

#include "state-file.h"

static const uint8_t magic[8] = { 'i', 'o', 'l', 'a', 't', 'h', 's', 't' };

static void put_u32(uint8_t *p, uint32_t v) {
        v = htole32(v);
        memcpy(p, &v, sizeof(v));
}

static uint32_t get_u32(const uint8_t *p) {
        uint32_t v;

        memcpy(&v, p, sizeof(v));
        return le32toh(v);
}

static uint32_t checksum(const uint8_t *data, size_t size) {
        return (uint32_t) crc32(crc32(0, NULL, 0), data, (uInt) size);
}

void state_file_header(uint8_t ret[static STATE_HEADER_SIZE]) {
        memcpy(ret, magic, sizeof(magic));
        put_u32(ret + 8, STATE_FILE_VERSION);
        put_u32(ret + 12, checksum(ret, 12));
}

int state_file_check_header(const uint8_t header[static STATE_HEADER_SIZE]) {
        if (memcmp(header, magic, sizeof(magic)) != 0 || get_u32(header + 12) != checksum(header, 12))
                return -EBADMSG;

        return get_u32(header + 8) == STATE_FILE_VERSION ? 0 : -EPROTO;
}

void state_file_put(Buffer *b, const uint8_t *contents, size_t size) {
        uint8_t head[STATE_RECORD_OVERHEAD];

        put_u32(head, (uint32_t) size);
        put_u32(head + 4, checksum(contents, size));
        buffer_put(b, head, sizeof(head));
        buffer_put(b, contents, size);
}

int state_file_next(const uint8_t *data, size_t size, const uint8_t **ret_contents, size_t *ret_size,
                    size_t *ret_taken) {
        uint32_t n;

        if (size < STATE_RECORD_OVERHEAD)
                return 0;
        n = get_u32(data);
        if (n == 0 || n > STATE_RECORD_MAX)
                return -EBADMSG;
        if (size - STATE_RECORD_OVERHEAD < n)
                return 0;
        if (get_u32(data + 4) != checksum(data + STATE_RECORD_OVERHEAD, n))
                return -EBADMSG;
        *ret_contents = data + STATE_RECORD_OVERHEAD;
        *ret_size = n;
        *ret_taken = STATE_RECORD_OVERHEAD + n;

        return 1;
}
