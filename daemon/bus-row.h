/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <systemd/sd-bus.h>

#include "query.h"
#include "util.h"

/* Appends text from outside as a string, made valid UTF-8; NULL is the empty string. */
int bus_append_text(sd_bus_message *m, const char *s);

/* Append one entry of an open a{sv}. A NULL string is left out. */
int bus_append_text_entry(sd_bus_message *m, const char *key, const char *value);
int bus_append_u64_entry(sd_bus_message *m, const char *key, uint64_t value);

/* Opens an entry of an open a{sv} whose value has that signature, and closes it. */
int bus_open_entry(sd_bus_message *m, const char *key, const char *contents);
int bus_close_entry(sd_bus_message *m);

/* Appends a{st} of the numbers that are not zero, each under its name. */
int bus_append_numbers(sd_bus_message *m, const char *(*name_of)(int), const uint64_t *numbers, int n);

/* The same as one entry of an open a{sv}. */
int bus_append_numbers_entry(sd_bus_message *m, const char *key, const char *(*name_of)(int),
                             const uint64_t *numbers, int n);

/* Appends one bucket of a histogram, (tt), to the message; a bucket_callback. */
int bus_append_bucket(uint64_t upper_ns, uint64_t count, void *message);

/* Appends the entry "device". Left out where there is none: sync(2) is of all filesystems, and not every fault or
 * metadata call tells its own. */
int bus_append_device_entry(sd_bus_message *m, uint32_t dev);

/* Append one a{sv} with the keys of DESIGN 6.3; what is not known is left out. */
int bus_append_row(sd_bus_message *m, const Row *row);
int bus_append_row_with_buckets(sd_bus_message *m, const Row *row);
int bus_append_blamed(sd_bus_message *m, const BlamedRow *row);
int bus_append_probe(sd_bus_message *m, const ProbeRow *probe);
