/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <time.h>

#include "abi.h"

#include "iolat.skel.h"

#include "attach.h"
#include "cgroup-tree.h"
#include "generation.h"
#include "log.h"
#include "map-cache.h"
#include "pins.h"
#include "probe-table.h"

enum {
        LOAD_ATTEMPTS_MAX = 128,
};

#define STUB_TARGET "handle_stats"

/* libbpf names the program that the kernel refused only in its messages. */
static char refused_program[PROGRAM_NAME_MAX];

static int libbpf_print(enum libbpf_print_level level, const char *format, va_list ap) {
        char line[1024];
        const char *p, *end;

        if (log_get_max_level() >= LOG_DEBUG && strstr(format, "PROG LOAD LOG"))
                return vfprintf(stderr, format, ap); /* far longer than a line */
        vsnprintf(line, sizeof(line), format, ap);
        p = startswith(line, "libbpf: prog '");
        if (p && strstr(p, "': failed to ")) {
                end = strchr(p, '\'');
                if (end && end - p < PROGRAM_NAME_MAX) {
                        memcpy(refused_program, p, end - p);
                        refused_program[end - p] = 0;
                }
        }
        line[strcspn(line, "\n")] = 0;
        if (level != LIBBPF_DEBUG)
                log_debug("%s", line);

        return 0;
}

uint64_t generation_build_hash(void) {
        size_t size;
        const void *p = iolat_bpf__elf_bytes(&size);

        return hash_bytes(p, size);
}

/* Tests make the maps small to see them full. */
static void set_test_sizes(Generation *g) {
        const char *e = secure_getenv("IOLAT_TEST_MAP_ENTRIES");
        unsigned n = e ? (unsigned) atoi(e) : 0;

        if (n == 0)
                return;
        bpf_map__set_max_entries(g->skel->maps.ops, n);
        bpf_map__set_max_entries(g->skel->maps.rqs, n);
        bpf_map__set_max_entries(g->skel->maps.inflight_rqs, n);
        bpf_map__set_max_entries(g->skel->maps.dios, n);
        bpf_map__set_max_entries(g->skel->maps.waits, n);
        bpf_map__set_max_entries(g->skel->maps.blames, n);
}

static bool map_is_shared(const struct bpf_map *map) {
        /* Constants are a generation's own, and so is what became of its probes. */
        return !bpf_map__is_internal(map) && !streq(bpf_map__name(map), "probe_infos");
}

static int reuse_maps(Generation *g) {
        struct bpf_map *map;

        bpf_object__for_each_map(map, g->skel->obj) {
                _cleanup_close_ int fd = -EBADF;
                struct bpf_map_info info = {};
                uint32_t size = sizeof(info);
                char path[PIN_PATH_MAX];
                int r;

                if (!map_is_shared(map) && !(g->extends && streq(bpf_map__name(map), "probe_infos")))
                        continue;
                r = pins_path(path, g->bpffs, g->current, false, "maps", bpf_map__name(map));
                if (r < 0)
                        return r;
                fd = bpf_obj_get(path);
                if (fd < 0) {
                        if (errno == ENOENT) /* new in this build */
                                continue;
                        return -errno;
                }
                if (bpf_obj_get_info_by_fd(fd, &info, &size) < 0)
                        return -errno;
                if (info.type != bpf_map__type(map) || info.key_size != bpf_map__key_size(map) ||
                    info.value_size != bpf_map__value_size(map)) {
                        log_warning("Map %s has another layout than this build's, its numbers start anew.",
                                    bpf_map__name(map));
                        continue;
                }
                r = bpf_map__reuse_fd(map, fd);
                if (r < 0)
                        return r;
        }

        return 0;
}

static unsigned log2_of(unsigned n) {
        unsigned bits = 0;

        while (n >>= 1)
                bits++;

        return bits;
}

/* Programs have to know how large some maps are. */
static void set_sizes(struct iolat_bpf *skel) {
        skel->rodata->wait_slots = bpf_map__max_entries(skel->maps.waits);
        skel->rodata->inflight_bits = log2_of(bpf_map__max_entries(skel->maps.inflight_rqs));
}

static int open_object(Generation *g) {
        int r;

        iolat_bpf__destroy(g->skel);
        g->skel = iolat_bpf__open();
        if (!g->skel)
                return -errno;
        r = choice_apply(g->choice, g->skel, g->number);
        if (r < 0)
                return r;
        if (g->extends)
                choice_only_new(g->choice, g->skel, g->infos);
        set_test_sizes(g);
        if (g->share_maps) {
                r = reuse_maps(g);
                if (r < 0)
                        return r;
        }
        set_sizes(g->skel);

        return 0;
}

/* Trying decides: a program that the kernel refuses is left out, and the rest tried again. */
int generation_load(Generation *g) {
        int r;

        for (unsigned attempt = 0; attempt < LOAD_ATTEMPTS_MAX; attempt++) {
                r = open_object(g);
                if (r < 0)
                        return r;
                refused_program[0] = 0;
                r = iolat_bpf__load(g->skel);
                if (r >= 0)
                        return 0;
                if (!choice_refuse(g->choice, refused_program, r, "the kernel refused the program"))
                        return r;
        }

        return -ELOOP;
}

static int pin_map(Generation *g, const struct bpf_map *map) {
        char path[PIN_PATH_MAX];
        int r;

        r = pins_path(path, g->bpffs, g->number, true, "maps", bpf_map__name(map));
        if (r < 0)
                return r;

        return bpf_obj_pin(bpf_map__fd(map), path) < 0 ? -errno : 0;
}

static int pin_maps(Generation *g) {
        struct bpf_map *map;
        int r;

        bpf_object__for_each_map(map, g->skel->obj) {
                if (bpf_map__is_internal(map))
                        continue;
                r = pin_map(g, map);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* Carries an object pinned by the present generation over to the next one. */
static int repin(Generation *g, const char *kind, const char *name) {
        _cleanup_close_ int fd = -EBADF;
        char path[PIN_PATH_MAX];
        int r;

        r = pins_path(path, g->bpffs, g->current, false, kind, name);
        if (r < 0)
                return r;
        fd = bpf_obj_get(path);
        if (fd < 0)
                return -errno;
        r = pins_path(path, g->bpffs, g->number, true, kind, name);
        if (r < 0)
                return r;

        return bpf_obj_pin(fd, path) < 0 ? -errno : 0;
}

/* The stub stays attached over all generations; switching its slot switches the program for all events at once. */
static int attach_handle_stats(Generation *g, const ProbeDef *def) {
        struct bpf_program *target = g->skel->progs.handle_stats;
        uint32_t slot = 0;
        char path[PIN_PATH_MAX];
        int fd = bpf_program__fd(target), r;

        r = pins_path(path, g->bpffs, g->number, true, "progs", STUB_TARGET);
        if (r < 0)
                return r;
        if (bpf_obj_pin(fd, path) < 0)
                return -errno;
        if (bpf_map_update_elem(bpf_map__fd(g->skel->maps.handle_slots), &slot, &fd, BPF_ANY) < 0)
                return -errno;

        if (g->share_maps) {
                r = repin(g, "links", HANDLE_STATS_STUB);
                if (r >= 0)
                        return repin(g, "progs", HANDLE_STATS_STUB);
                if (r != -ENOENT)
                        return r;
        }

        return attach_and_pin(g, g->skel->progs.handle_stats_stub, def, HANDLE_STATS_STUB);
}

/* Returns -EAGAIN if a program did not attach and others are to be loaded in its place. */
static int attach_programs(Generation *g) {
        unsigned n_attached = 0;
        int r;

        for (size_t i = 0; i < probe_table_size; i++) {
                const ProbeDef *def = probe_table + i;
                char reason[120];

                if (!choice_has(g->choice, i))
                        continue;
                r = def->probe == PROBE_HANDLE_STATS ? attach_handle_stats(g, def) :
                                                        attach_probe(g, g->skel, def, def, "");
                if (r >= 0) {
                        n_attached++;
                        continue;
                }
                snprintf(reason, sizeof(reason), "cannot attach to %s: %s", def->target, strerror(-r));
                log_debug("Probe %s %s", def->name, reason);
                if (choice_refuse(g->choice, def->program, r, reason))
                        return -EAGAIN;
        }

        return n_attached > 0 ? 0 : -EOPNOTSUPP;
}

static int try_twin(Generation *g, unsigned n) {
        struct iolat_bpf *twin;
        struct bpf_map *map;
        int r;

        iolat_bpf__destroy(g->twin[n]);
        g->twin[n] = twin = iolat_bpf__open();
        if (!twin)
                return -errno;
        r = choice_apply(g->choice, twin, g->number);
        if (r < 0)
                return r;
        if (g->extends)
                choice_only_new(g->choice, twin, g->infos);
        choice_make_twin(g->choice, twin, n + 1);
        bpf_object__for_each_map(map, twin->obj) {
                if (bpf_map__is_internal(map))
                        continue;
                r = bpf_map__reuse_fd(map, bpf_map__fd(bpf_object__find_map_by_name(g->skel->obj,
                                                                                      bpf_map__name(map))));
                if (r < 0)
                        return r;
        }
        set_sizes(twin);

        return iolat_bpf__load(twin);
}

static int load_twin(Generation *g, unsigned n) {
        int r;

        for (unsigned attempt = 0; attempt < LOAD_ATTEMPTS_MAX; attempt++) {
                refused_program[0] = 0;
                r = try_twin(g, n);
                if (r >= 0 || !choice_refuse_twin(g->choice, refused_program))
                        return r;
        }

        return -ELOOP;
}

static void attach_twin(Generation *g, unsigned n) {
        char suffix[16];
        int r;

        snprintf(suffix, sizeof(suffix), PIN_TWIN, n + 1);
        r = load_twin(g, n);
        if (r < 0) {
                log_warning_errno(r, "Cannot load the programs once more, some events will be missed: %m");
                return;
        }
        for (size_t i = 0; i < probe_table_size; i++) {
                const ProbeDef *twin = choice_twin(g->choice, i, n + 1);

                if (!twin)
                        continue;
                r = attach_probe(g, g->twin[n], twin, probe_table + i, suffix);
                if (r < 0)
                        log_warning_errno(r, "Cannot attach to %s once more, some events will be missed: %m",
                                          twin->target);
        }
}

void generation_attach_twins(Generation *g) {
        if (!choice_needs_twins(g->choice))
                return;
        for (unsigned n = 0; n < CHOICE_TWINS; n++)
                attach_twin(g, n);
}

static int name_cgroup(uint64_t id, const char *path, void *userdata) {
        struct cgroup_name n = {};
        int fd = *(int *) userdata;

        n.len = MIN(strlen(path), (size_t) NAME_MAX_LEN - 1);
        memcpy(n.path, path, n.len);
        /* What BPF recorded meanwhile is as good. */
        (void) bpf_map_update_elem(fd, &id, &n, BPF_NOEXIST);

        return 0;
}

/* Cgroups that are older than the programs. After attaching, so that none falls between. */
static void name_old_cgroups(Generation *g) {
        _cleanup_free_ char *root = NULL;
        int fd = bpf_map__fd(g->skel->maps.names), r;

        r = cgroup_root(&root);
        if (r >= 0)
                r = cgroup_tree_walk(root, name_cgroup, &fd);
        if (r < 0)
                log_warning_errno(r, "Cannot walk the cgroup tree, units that run already are (unknown): %m");
}

/* Until a daemon comes that knows its configuration. Before attaching: else every operation would be a stall. */
static int write_settings(Generation *g) {
        struct settings s = {
                .sync_record_ns = 100 * NSEC_PER_MSEC,
                .write_record_ns = 100 * NSEC_PER_MSEC,
                .trace_ns = UINT64_MAX,
                .owner_floor_ns = UINT64_MAX,
        };
        struct meta m = {};
        uint32_t key = 0;

        if (bpf_map_lookup_elem(bpf_map__fd(g->skel->maps.meta), &key, &m) < 0)
                return -errno;
        if (m.since_realtime_us > 0) /* there was a generation before, and may be a daemon */
                return 0;

        return bpf_map_update_elem(bpf_map__fd(g->skel->maps.settings), &key, &s, BPF_ANY) < 0 ? -errno : 0;
}

static int write_meta(Generation *g) {
        int fd = bpf_map__fd(g->skel->maps.meta);
        struct meta m = {};
        uint32_t key = 0;
        struct timespec ts;

        if (bpf_map_lookup_elem(fd, &key, &m) < 0)
                return -errno;
        if (m.since_realtime_us == 0) {
                clock_gettime(CLOCK_REALTIME, &ts);
                m.since_realtime_us = ts.tv_sec * USEC_PER_SEC + ts.tv_nsec / NSEC_PER_USEC;
        }
        m.abi = IOLAT_ABI;
        m.generation = g->number;
        m.tier = choice_tier(g->choice);
        snprintf(m.tier_reason, sizeof(m.tier_reason), "%s", choice_tier_reason(g->choice));
        m.modules = choice_modules(g->choice);
        m.options = g->wanted_options;
        snprintf(m.wanted_tier, sizeof(m.wanted_tier), "%s", g->wanted_tier);
        m.build = generation_build_hash();
        if (bpf_map_update_elem(fd, &key, &m, BPF_ANY) < 0)
                return -errno;

        fd = bpf_map__fd(g->skel->maps.probe_infos);
        for (key = 0; key < _PROBE_MAX; key++) {
                const struct probe_info *info = choice_info(g->choice, key);

                if (bpf_map_update_elem(fd, &key, info, BPF_ANY) < 0)
                        return -errno;
        }

        return 0;
}

static int log_load_error(int r) {
        if (r == -EPERM || r == -EACCES)
                return log_error_errno(r, "The kernel does not let this process load BPF programs: run it as root, "
                                          "with CAP_BPF and CAP_PERFMON.");

        return log_error_errno(r, "Cannot load the BPF programs: %m");
}

int generation_make(Generation *g, int root_fd) {
        int r;

        r = generation_load(g);
        if (r < 0)
                return log_load_error(r);

        if (!g->share_maps)
                map_caches_fill(g->skel->obj);

        r = pins_begin(root_fd, g->number);
        if (r >= 0)
                r = pin_maps(g);
        if (r < 0)
                return log_error_errno(r, "Cannot pin the maps: %m");
        r = write_settings(g);
        if (r < 0)
                return log_error_errno(r, "Cannot write the first thresholds: %m");
        r = attach_programs(g);
        if (r == -EAGAIN)
                return r;
        if (r < 0)
                return log_error_errno(r, "No BPF program could be attached.");
        generation_attach_twins(g);
        name_old_cgroups(g);
        r = write_meta(g);
        if (r >= 0)
                r = pins_finish(root_fd, g->number);
        if (r < 0)
                return log_error_errno(r, "Cannot finish the new generation: %m");

        return 0;
}

int generation_read_meta(const char *bpffs, unsigned generation, struct meta *ret) {
        _cleanup_close_ int fd = -EBADF;
        struct bpf_map_info info = {};
        uint32_t key = 0, size = sizeof(info);
        char path[PIN_PATH_MAX];
        int r;

        r = pins_path(path, bpffs, generation, false, "maps", "meta");
        if (r < 0)
                return r;
        fd = bpf_obj_get(path);
        if (fd < 0)
                return -errno;
        if (bpf_obj_get_info_by_fd(fd, &info, &size) < 0)
                return -errno;
        if (info.value_size != sizeof(*ret))
                return -EUCLEAN;

        return bpf_map_lookup_elem(fd, &key, ret) < 0 ? -errno : 0;
}

void generation_done(Generation *g) {
        iolat_bpf__destroy(g->skel);
        g->skel = NULL;
        for (unsigned n = 0; n < CHOICE_TWINS; n++) {
                iolat_bpf__destroy(g->twin[n]);
                g->twin[n] = NULL;
        }
}

void generation_setup(void) {
        libbpf_set_print(libbpf_print);
}
