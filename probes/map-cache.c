/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>
#include <sched.h>

#include "log.h"
#include "map-cache.h"

static bool is_hash_without_elements(const struct bpf_map *map) {
        return bpf_map__type(map) == BPF_MAP_TYPE_HASH && (bpf_map__map_flags(map) & BPF_F_NO_PREALLOC);
}

static int take_and_give_back(const struct bpf_map *map) {
        _cleanup_free_ unsigned char *key = NULL, *value = NULL;
        int fd = bpf_map__fd(map);

        key = malloc(bpf_map__key_size(map));
        value = calloc(1, bpf_map__value_size(map));
        if (!key || !value)
                return -ENOMEM;
        memset(key, 0xff, bpf_map__key_size(map)); /* of no owner, device or address that there is */
        if (bpf_map_update_elem(fd, key, value, BPF_NOEXIST) < 0)
                return -errno;

        return bpf_map_delete_elem(fd, key) < 0 ? -errno : 0;
}

static int fill_here(struct bpf_object *obj) {
        struct bpf_map *map;
        int r;

        bpf_object__for_each_map(map, obj) {
                if (!is_hash_without_elements(map))
                        continue;
                r = take_and_give_back(map);
                if (r < 0)
                        return r;
        }

        return 0;
}

void map_caches_fill(struct bpf_object *obj) {
        int n = libbpf_num_possible_cpus(), r = 0;
        _cleanup_free_ unsigned char *before = NULL, *one = NULL;
        size_t size = n > 0 ? CPU_ALLOC_SIZE(n) : 0;

        if (n <= 0)
                return;
        before = calloc(1, size);
        one = calloc(1, size);
        if (!before || !one || sched_getaffinity(0, size, (cpu_set_t *) before) < 0) {
                log_debug("Cannot fill the caches of the maps, ignoring.");
                return;
        }
        for (int cpu = 0; cpu < n && r >= 0; cpu++) {
                CPU_ZERO_S(size, (cpu_set_t *) one);
                CPU_SET_S((size_t) cpu, size, (cpu_set_t *) one);
                if (sched_setaffinity(0, size, (cpu_set_t *) one) < 0) /* offline, or not for us */
                        continue;
                r = fill_here(obj);
        }
        if (r < 0)
                log_debug_errno(r, "Cannot fill the caches of the maps, ignoring: %m");
        (void) sched_setaffinity(0, size, (cpu_set_t *) before);
}
