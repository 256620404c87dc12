/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "names.h"
#include "text-escape.h"
#include "varlink-row.h"

enum {
        TEXT_MAX = 4096, /* bytes of one string; a path of PATH_MAX fits if it needs no escaping */
};

/* Builders for SD_JSON_BUILD_PAIR_CALLBACK(), called while the object is built. */

static int build_text(sd_json_variant **ret, const char *name, void *userdata) {
        return varlink_text(userdata, ret);
}

static int build_device(sd_json_variant **ret, const char *name, void *userdata) {
        const uint32_t *dev = userdata;
        char s[DEVICE_TEXT_MAX];

        if (*dev == 0) /* sync(2) is of all filesystems, and not every fault or metadata call tells its own */
                return sd_json_variant_new_null(ret);

        return sd_json_variant_new_string(ret, device_text(*dev, s));
}

typedef struct Numbers {
        const char *(*name_of)(int);
        const uint64_t *numbers;
        int n;
} Numbers;

/* Those that are not zero, each under its name. */
static int build_numbers(sd_json_variant **ret, const char *name, void *userdata) {
        _cleanup_(sd_json_variant_unrefp) sd_json_variant *v = NULL;
        const Numbers *n = userdata;
        int r;

        r = sd_json_variant_new_object(&v, NULL, 0);
        for (int i = 0; i < n->n && r >= 0; i++)
                if (n->numbers[i] > 0 && n->name_of(i))
                        r = sd_json_variant_set_field_unsigned(&v, n->name_of(i), n->numbers[i]);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(v);

        return 0;
}

static int build_strings(sd_json_variant **ret, const char *name, void *userdata) {
        return sd_json_variant_new_array_strv(ret, userdata);
}

#define TEXT(key, s) SD_JSON_BUILD_PAIR_CALLBACK(key, build_text, (void *) (s))
#define DEVICE(key, dev) SD_JSON_BUILD_PAIR_CALLBACK(key, build_device, (void *) (dev))
#define NUMBER(key, n) SD_JSON_BUILD_PAIR_UNSIGNED(key, n)
#define NUMBER_IF(condition, key, n) SD_JSON_BUILD_PAIR_CONDITION(condition, key, SD_JSON_BUILD_UNSIGNED(n))
#define REAL_IF(condition, key, d) SD_JSON_BUILD_PAIR_CONDITION(condition, key, SD_JSON_BUILD_REAL(d))
#define TEXT_IF(condition, key, s) \
        SD_JSON_BUILD_PAIR_CONDITION(condition, key, SD_JSON_BUILD_CALLBACK(build_text, (void *) (s)))

int varlink_text(const char *s, sd_json_variant **ret) {
        char buf[TEXT_MAX];

        if (!s)
                return sd_json_variant_new_null(ret);

        return sd_json_variant_new_string(ret, text_escape(s, /* controls= */ false, buf, sizeof(buf)));
}

int varlink_row(const Row *row, sd_json_variant **ret) {
        Numbers owned = { owned_by_to_string, row->owned_bytes, _OWNED_BY_MAX };
        bool is_device = row->is_request && streq(strempty(row->phase), "device");

        return sd_json_buildo(
                        ret,
                        TEXT("unit", row->unit),
                        TEXT("userUnit", row->user_unit),
                        TEXT("op", row->op),
                        TEXT("phase", row->phase),
                        DEVICE("device", &row->dev),
                        TEXT("fsType", row->fs_type),
                        TEXT("mountPoint", row->mount_point),
                        TEXT("origin", row->origin),
                        SD_JSON_BUILD_PAIR_BOOLEAN("async", row->async),
                        NUMBER("count", row->count),
                        NUMBER("errors", row->errors),
                        NUMBER_IF(row->is_request, "bytes", row->bytes),
                        NUMBER_IF(is_device, "untimed", row->untimed),
                        SD_JSON_BUILD_PAIR_CONDITION(row->has_in_flight, "inFlight",
                                                     SD_JSON_BUILD_REAL(row->in_flight)),
                        NUMBER("sumNSec", row->sum_ns),
                        NUMBER("p50NSec", row->p50_ns),
                        NUMBER("p90NSec", row->p90_ns),
                        NUMBER("p99NSec", row->p99_ns),
                        NUMBER("maxNSec", row->max_ns),
                        SD_JSON_BUILD_PAIR_CONDITION(row->is_request && row->owned_bytes, "ownedBy",
                                                     SD_JSON_BUILD_CALLBACK(build_numbers, &owned)),
                        SD_JSON_BUILD_PAIR_CONDITION(!!row->source, "source",
                                                     SD_JSON_BUILD_CALLBACK(build_strings, (void *) row->source)));
}

int varlink_blamed(const BlamedRow *row, sd_json_variant **ret) {
        return sd_json_buildo(
                        ret,
                        TEXT("victim", row->victim),
                        TEXT("culprit", row->culprit),
                        TEXT("phase", row->phase),
                        TEXT("step", row->step),
                        DEVICE("device", &row->dev),
                        TEXT("mountPoint", row->mount_point),
                        TEXT("weight", row->weight),
                        NUMBER("sumNSec", row->sum_ns),
                        SD_JSON_BUILD_PAIR_BOOLEAN("estimated", row->estimated));
}

int varlink_probe(const ProbeRow *probe, sd_json_variant **ret) {
        bool is_bias = streq(probe->kind, "bias"), has_counters = !is_bias && !streq(probe->kind, "floor");

        return sd_json_buildo(
                        ret,
                        TEXT("kind", probe->kind),
                        TEXT("probe", probe->probe),
                        TEXT("attached", probe->attached),
                        TEXT("reason", probe->reason),
                        TEXT("state", probe->state),
                        NUMBER_IF(has_counters, "hits", probe->hits),
                        NUMBER_IF(has_counters, "misses", probe->misses),
                        NUMBER_IF(probe->has_ns, "nsPerHit", probe->ns_per_hit),
                        NUMBER_IF(probe->sampled_hits > 0, "sampledHits", probe->sampled_hits),
                        REAL_IF(probe->has_rate, "hitsPerSec", probe->hits_per_sec),
                        REAL_IF(probe->has_rate && probe->has_ns, "cpuShare", probe->cpu_share),
                        TEXT_IF(is_bias, "phase", probe->phase),
                        NUMBER_IF(is_bias, "addedNSec", probe->added_ns),
                        NUMBER_IF(is_bias, "p50NSec", probe->p50_ns),
                        REAL_IF(is_bias, "share", probe->share));
}

static int build_owners(sd_json_variant **ret, const char *name, void *userdata) {
        _cleanup_(sd_json_variant_unrefp) sd_json_variant *v = NULL;
        const StallRow *stall = userdata;
        int r;

        r = sd_json_variant_new_array(&v, NULL, 0);
        for (size_t i = 0; i < stall->n_owners && r >= 0; i++)
                r = sd_json_variant_append_arraybo(&v,
                                                   TEXT("unit", stall->owners[i].unit),
                                                   SD_JSON_BUILD_PAIR_REAL("share", stall->owners[i].share));
        if (r < 0)
                return r;
        *ret = TAKE_PTR(v);

        return 0;
}

/* Requests are told apart by the task that submitted them, which works only for the one that waits. What is 0 was not
 * seen to complete. */
static int build_requests(sd_json_variant **ret, const char *name, void *userdata) {
        const struct stall *record = userdata;

        if (record->async || record->rq_count == 0)
                return sd_json_variant_new_null(ret);

        return sd_json_buildo(ret,
                              NUMBER("count", record->rq_count),
                              NUMBER_IF(record->rq_bytes > 0, "bytes", record->rq_bytes),
                              NUMBER_IF(record->rq_max_device_ns > 0, "maxDeviceNSec", record->rq_max_device_ns));
}

int varlink_stall(const StallRow *stall, bool privileged, sd_json_variant **ret) {
        char file[STALL_FILE_MAX];
        const struct stall *record = stall->record;
        uint64_t phases[_PHASE_MAX], steps[_STEP_MAX];
        Numbers phase_numbers = { phase_to_string, phases, _PHASE_MAX };
        Numbers step_numbers = { journal_step_to_string, steps, _STEP_MAX };
        uint32_t dev = record->dev;

        for (int i = 0; i < _PHASE_MAX; i++)
                phases[i] = record->phase_ns[i];
        for (int i = 0; i < _STEP_MAX; i++)
                steps[i] = record->step_ns[i];

        return sd_json_buildo(
                        ret,
                        NUMBER_IF(stall->id > 0, "id", stall->id),
                        NUMBER("startRealtimeUSec", stall->start_realtime_us),
                        TEXT("unit", stall->unit),
                        TEXT("op", stall->op),
                        TEXT("state", stall->state),
                        TEXT("error", stall->error),
                        NUMBER("totalNSec", record->total_ns),
                        NUMBER_IF(stall->in_progress, "waitNSec", record->wait_ns),
                        TEXT("phase", stall->dominant_phase),
                        SD_JSON_BUILD_PAIR_CALLBACK("phases", build_numbers, &phase_numbers),
                        SD_JSON_BUILD_PAIR_CALLBACK("steps", build_numbers, &step_numbers),
                        SD_JSON_BUILD_PAIR_CALLBACK("requests", build_requests, (void *) record),
                        DEVICE("device", &dev),
                        TEXT("mountPoint", stall->mount_point),
                        NUMBER_IF(record->tx.tid != 0, "transaction", record->tx.tid),
                        SD_JSON_BUILD_PAIR_CALLBACK("owners", build_owners, (void *) stall),
                        TEXT_IF(privileged && record->file_name[0], "file", stall_file(record, file)),
                        NUMBER_IF(privileged && record->pid > 0, "pid", (uint64_t) record->pid),
                        NUMBER_IF(privileged && record->pid > 0, "thread", (uint64_t) record->thread),
                        TEXT_IF(privileged, "comm", record->comm));
}
