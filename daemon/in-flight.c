/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "in-flight.h"
#include "key-table.h"

enum { SLOTS = IN_FLIGHT_TICKS + 1 }; /* and the one that goes on */
_Static_assert((int) SLOTS <= (int) KEY_TABLE_VALUES_MAX, "one number for each slot");
_Static_assert(sizeof(struct rq_key) == KEY_TABLE_KEY_SIZE, "key of requests");

struct InFlight {
        KeyTable *keys; /* time with the device, by slot; NULL: none */
        unsigned now;   /* the slot that goes on */
        uint64_t began_ns; /* that slot; 0: none yet */
        uint64_t length_ns[SLOTS]; /* of those that have ended */
        bool overflow[SLOTS];      /* there were keys that are not in the table */
};

int in_flight_new(InFlight **ret) {
        InFlight *f = calloc(1, sizeof(*f));

        if (!f)
                return -ENOMEM;
        *ret = f;

        return 0;
}

InFlight *in_flight_free(InFlight *f) {
        if (!f)
                return NULL;
        key_table_free(f->keys);
        free(f);

        return NULL;
}

int in_flight_add(InFlight *f, const struct changed_rq *difference) {
        uint64_t *slots;
        int r = 0;

        if (f->began_ns == 0 || difference->device_ns == 0)
                return 0;
        if (!f->keys)
                r = key_table_new(&f->keys, SLOTS, IN_FLIGHT_KEYS_MAX);
        if (r >= 0)
                r = key_table_get(f->keys, &difference->key, &slots);
        if (r < 0) {
                f->overflow[f->now] = true;
                return r == -ENOSPC ? 0 : r;
        }
        slots[f->now] += difference->device_ns;

        return 0;
}

/* Makes room in the slot that goes on, and says whether there is anything in the others. */
static bool clear_slot(const void *key, uint64_t *slots, void *userdata) {
        const InFlight *f = userdata;
        uint64_t sum = 0;

        slots[f->now] = 0;
        for (unsigned i = 0; i < SLOTS; i++)
                sum |= slots[i];

        return sum != 0;
}

void in_flight_tick(InFlight *f, uint64_t now_ns) {
        if (f->began_ns != 0 && now_ns > f->began_ns) {
                f->length_ns[f->now] = now_ns - f->began_ns;
                f->now = (f->now + 1) % SLOTS;
        }
        f->length_ns[f->now] = 0;
        f->overflow[f->now] = false;
        f->began_ns = now_ns;
        if (!f->keys)
                return;
        key_table_filter(f->keys, clear_slot, f);
        if (key_table_size(f->keys) == 0) /* given back, since it may have been large */
                f->keys = key_table_free(f->keys);
}

uint64_t in_flight_span_ns(const InFlight *f, uint64_t now_ns) {
        uint64_t sum = 0;

        if (f->began_ns == 0 || now_ns > f->began_ns + IN_FLIGHT_STALE_NS)
                return 0;
        for (unsigned i = 0; i < SLOTS; i++) {
                if (f->overflow[i])
                        return 0;
                sum += f->length_ns[i];
        }

        return sum;
}

uint64_t in_flight_device_ns(const InFlight *f, const struct rq_key *key) {
        const uint64_t *slots = f->keys ? key_table_find(f->keys, key) : NULL;
        uint64_t sum = 0;

        for (unsigned i = 0; slots && i < SLOTS; i++)
                if (i != f->now)
                        sum += slots[i];

        return sum;
}
