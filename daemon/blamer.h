/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "blame-matrix.h"
#include "changes.h"
#include "device.h"
#include "in-flight.h"
#include "maps.h"
#include "owner.h"

/* Turns what was measured in each second into blame. */
typedef struct Blamer Blamer;

/* Everything is borrowed. in_flight is told of what has changed, too. */
int blamer_new(Blamer **ret, Maps *maps, Changes *changes, OwnerTable *owners, DeviceTable *devices,
               InFlight *in_flight);
Blamer *blamer_free(Blamer *b);
DEFINE_CLEANUP_FUNC(Blamer, blamer_free)

/* Once a second, after the changes were read: of each operation that is in them its wait for the journal is in its map
 * by then. Operations are blamed after all requests. */
void blamer_tick(Blamer *b);

Blame *blamer_matrix(Blamer *b);

enum { TRANSACTION_OWNERS_MAX = 8 };

typedef struct TransactionOwner {
        const char *unit; /* belongs to the table of owners: valid until the event loop runs again */
        double share;     /* of the handles of all, 0..1 */
} TransactionOwner;

/* Who was in a transaction, the largest first, from what is remembered of it: of a transaction that is still open or
 * being committed it is who was in it so far. Returns how many, or a negative errno. Reads the whole map of handles,
 * so it is not for every operation. */
int blamer_transaction_owners(Blamer *b, uint32_t dev, uint32_t tid,
                              TransactionOwner ret[static TRANSACTION_OWNERS_MAX]);
