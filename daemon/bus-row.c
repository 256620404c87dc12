/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus-row.h"
#include "names.h"
#include "text-escape.h"

enum {
        TEXT_MAX = 4096, /* bytes of one string on the bus; a path of PATH_MAX fits if it needs no escaping */
};

int bus_append_text(sd_bus_message *m, const char *s) {
        char buf[TEXT_MAX];

        return sd_bus_message_append_basic(m, 's',
                                           text_escape(strempty(s), /* controls= */ false, buf, sizeof(buf)));
}

int bus_append_text_entry(sd_bus_message *m, const char *key, const char *value) {
        char buf[TEXT_MAX];

        if (!value)
                return 0;

        return sd_bus_message_append(m, "{sv}", key, "s",
                                     text_escape(value, /* controls= */ false, buf, sizeof(buf)));
}

int bus_append_u64_entry(sd_bus_message *m, const char *key, uint64_t value) {
        return sd_bus_message_append(m, "{sv}", key, "t", value);
}

int bus_open_entry(sd_bus_message *m, const char *key, const char *contents) {
        int r;

        r = sd_bus_message_open_container(m, 'e', "sv");
        if (r < 0)
                return r;
        r = sd_bus_message_append_basic(m, 's', key);
        if (r < 0)
                return r;

        return sd_bus_message_open_container(m, 'v', contents);
}

int bus_close_entry(sd_bus_message *m) {
        int r;

        r = sd_bus_message_close_container(m);
        if (r < 0)
                return r;

        return sd_bus_message_close_container(m);
}

int bus_append_numbers(sd_bus_message *m, const char *(*name_of)(int), const uint64_t *numbers, int n) {
        int r;

        r = sd_bus_message_open_container(m, 'a', "{st}");
        if (r < 0)
                return r;
        for (int i = 0; i < n; i++) {
                if (numbers[i] == 0 || !name_of(i))
                        continue;
                r = sd_bus_message_append(m, "{st}", name_of(i), numbers[i]);
                if (r < 0)
                        return r;
        }

        return sd_bus_message_close_container(m);
}

int bus_append_numbers_entry(sd_bus_message *m, const char *key, const char *(*name_of)(int),
                             const uint64_t *numbers, int n) {
        int r;

        r = bus_open_entry(m, key, "a{st}");
        if (r < 0)
                return r;
        r = bus_append_numbers(m, name_of, numbers, n);
        if (r < 0)
                return r;

        return bus_close_entry(m);
}

int bus_append_device_entry(sd_bus_message *m, uint32_t dev) {
        char s[DEVICE_TEXT_MAX];

        return dev == 0 ? 0 : sd_bus_message_append(m, "{sv}", "device", "s", device_text(dev, s));
}

static int append_source_entry(sd_bus_message *m, const char *const *source) {
        int r;

        r = bus_open_entry(m, "source", "as");
        if (r < 0)
                return r;
        r = sd_bus_message_append_strv(m, (char **) source);
        if (r < 0)
                return r;

        return bus_close_entry(m);
}

static int append_row_texts(sd_bus_message *m, const Row *row) {
        const struct {
                const char *key, *value;
        } texts[] = {
                { "unit", row->unit },      { "userUnit", row->user_unit }, { "op", row->op },
                { "phase", row->phase },    { "fsType", row->fs_type },     { "mountPoint", row->mount_point },
                { "origin", row->origin },
        };
        int r;

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                r = bus_append_text_entry(m, texts[i].key, texts[i].value);
                if (r < 0)
                        return r;
        }

        return bus_append_device_entry(m, row->dev);
}

static int append_row_numbers(sd_bus_message *m, const Row *row) {
        const struct {
                const char *key;
                uint64_t value;
        } numbers[] = {
                { "count", row->count },     { "errors", row->errors },   { "sumNSec", row->sum_ns },
                { "p50NSec", row->p50_ns },  { "p90NSec", row->p90_ns },  { "p99NSec", row->p99_ns },
                { "maxNSec", row->max_ns },
        };
        int r;

        for (size_t i = 0; i < ELEMENTSOF(numbers); i++) {
                r = bus_append_u64_entry(m, numbers[i].key, numbers[i].value);
                if (r < 0)
                        return r;
        }

        return sd_bus_message_append(m, "{sv}", "async", "b", (int) row->async);
}

static int append_row_request(sd_bus_message *m, const Row *row) {
        int r;

        r = bus_append_u64_entry(m, "bytes", row->bytes);
        if (r < 0)
                return r;
        if (streq(strempty(row->phase), "device")) {
                r = bus_append_u64_entry(m, "untimed", row->untimed);
                if (r < 0)
                        return r;
        }
        if (row->has_in_flight) {
                r = sd_bus_message_append(m, "{sv}", "inFlight", "d", row->in_flight);
                if (r < 0)
                        return r;
        }
        if (!row->owned_bytes)
                return 0;

        return bus_append_numbers_entry(m, "ownedBy", owned_by_to_string, row->owned_bytes, _OWNED_BY_MAX);
}

static int append_row_entries(sd_bus_message *m, const Row *row) {
        int r;

        r = append_row_texts(m, row);
        if (r < 0)
                return r;
        r = append_row_numbers(m, row);
        if (r < 0)
                return r;
        if (row->is_request) {
                r = append_row_request(m, row);
                if (r < 0)
                        return r;
        }

        return row->source ? append_source_entry(m, row->source) : 0;
}

int bus_append_row(sd_bus_message *m, const Row *row) {
        int r;

        r = sd_bus_message_open_container(m, 'a', "{sv}");
        if (r < 0)
                return r;
        r = append_row_entries(m, row);
        if (r < 0)
                return r;

        return sd_bus_message_close_container(m);
}

int bus_append_bucket(uint64_t upper_ns, uint64_t count, void *message) {
        return sd_bus_message_append(message, "(tt)", upper_ns, count);
}

static int append_buckets_entry(sd_bus_message *m, const Row *row) {
        int r;

        r = bus_open_entry(m, "buckets", "a(tt)");
        if (r < 0)
                return r;
        r = sd_bus_message_open_container(m, 'a', "(tt)");
        if (r < 0)
                return r;
        r = row_foreach_bucket(row, bus_append_bucket, m);
        if (r < 0)
                return r;
        r = sd_bus_message_close_container(m);
        if (r < 0)
                return r;

        return bus_close_entry(m);
}

int bus_append_row_with_buckets(sd_bus_message *m, const Row *row) {
        int r;

        r = sd_bus_message_open_container(m, 'a', "{sv}");
        if (r < 0)
                return r;
        r = append_row_entries(m, row);
        if (r < 0)
                return r;
        r = append_buckets_entry(m, row);
        if (r < 0)
                return r;

        return sd_bus_message_close_container(m);
}

int bus_append_blamed(sd_bus_message *m, const BlamedRow *row) {
        const struct {
                const char *key, *value;
        } texts[] = {
                { "victim", row->victim }, { "culprit", row->culprit },         { "phase", row->phase },
                { "step", row->step },     { "mountPoint", row->mount_point }, { "weight", row->weight },
        };
        int r;

        r = sd_bus_message_open_container(m, 'a', "{sv}");
        if (r < 0)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                r = bus_append_text_entry(m, texts[i].key, texts[i].value);
                if (r < 0)
                        return r;
        }
        r = bus_append_device_entry(m, row->dev);
        if (r >= 0)
                r = bus_append_u64_entry(m, "sumNSec", row->sum_ns);
        if (r >= 0)
                r = sd_bus_message_append(m, "{sv}", "estimated", "b", (int) row->estimated);
        if (r < 0)
                return r;

        return sd_bus_message_close_container(m);
}

static int append_probe_costs(sd_bus_message *m, const ProbeRow *probe) {
        int r = 0;

        if (probe->has_ns)
                r = bus_append_u64_entry(m, "nsPerHit", probe->ns_per_hit);
        if (r >= 0 && probe->sampled_hits > 0)
                r = bus_append_u64_entry(m, "sampledHits", probe->sampled_hits);
        if (r >= 0 && probe->has_rate)
                r = sd_bus_message_append(m, "{sv}", "hitsPerSec", "d", probe->hits_per_sec);
        if (r >= 0 && probe->has_rate && probe->has_ns)
                r = sd_bus_message_append(m, "{sv}", "cpuShare", "d", probe->cpu_share);

        return r;
}

static int append_bias(sd_bus_message *m, const ProbeRow *probe) {
        int r;

        r = bus_append_text_entry(m, "phase", probe->phase);
        if (r >= 0)
                r = bus_append_u64_entry(m, "addedNSec", probe->added_ns);
        if (r >= 0)
                r = bus_append_u64_entry(m, "p50NSec", probe->p50_ns);
        if (r >= 0)
                r = sd_bus_message_append(m, "{sv}", "share", "d", probe->share);

        return r;
}

static bool has_counters(const ProbeRow *probe) {
        return !streq(probe->kind, "floor") && !streq(probe->kind, "bias");
}

int bus_append_probe(sd_bus_message *m, const ProbeRow *probe) {
        const struct {
                const char *key, *value;
        } texts[] = {
                { "kind", probe->kind },     { "probe", probe->probe }, { "attached", probe->attached },
                { "reason", probe->reason }, { "state", probe->state },
        };
        int r;

        r = sd_bus_message_open_container(m, 'a', "{sv}");
        if (r < 0)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                r = bus_append_text_entry(m, texts[i].key, texts[i].value);
                if (r < 0)
                        return r;
        }
        if (has_counters(probe)) {
                r = bus_append_u64_entry(m, "hits", probe->hits);
                if (r >= 0)
                        r = bus_append_u64_entry(m, "misses", probe->misses);
        }
        if (r >= 0)
                r = append_probe_costs(m, probe);
        if (r >= 0 && streq(probe->kind, "bias"))
                r = append_bias(m, probe);
        if (r < 0)
                return r;

        return sd_bus_message_close_container(m);
}
