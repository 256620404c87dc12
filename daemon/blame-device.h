/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "block-device.h"
#include "blame-journal.h"

/* Estimates who kept a device busy while somebody waited for it: the wait is divided by how long the device had each
 * owner's requests in the same seconds. Knows nothing of maps. */

enum {
        DEVICE_TICKS_MAX = 16, /* how far back: an operation may have lasted for several ticks */
};

typedef struct DeviceBlame DeviceBlame;

/* What a device is made of; as device_table_block(). */
typedef int (*block_callback)(uint32_t dev, BlockDevice *ret, void *userdata);

int device_blame_new(DeviceBlame **ret, block_callback block, void *userdata);
DeviceBlame *device_blame_free(DeviceBlame *d);
DEFINE_CLEANUP_FUNC(DeviceBlame, device_blame_free)

/* A second has passed; then all requests of it have to be added before anything is blamed on somebody. */
void device_blame_tick(DeviceBlame *d);
int device_blame_add_request(DeviceBlame *d, const struct changed_rq *difference);

/* Divides what the operations of this second waited for a device. Nothing comes of a wait for a device that nobody had
 * requests on, or that is none. */
int device_blame_op(DeviceBlame *d, const struct changed_op *difference, owner_blame_callback callback, void *userdata);
int device_blame_queue(DeviceBlame *d, const struct changed_rq *difference, owner_blame_callback callback,
                       void *userdata);
