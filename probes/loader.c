/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <time.h>

#include "abi.h"

#include "iolat.skel.h"

#include "cgroup-tree.h"
#include "choice.h"
#include "loader.h"
#include "log.h"
#include "pins.h"
#include "probe-table.h"

enum {
        LOCK_TIMEOUT_MS = 60000,
        LOAD_ATTEMPTS_MAX = 128,
        PROGRAM_NAME_MAX = 64,
};

#define STUB "handle_stats_stub"
#define STUB_TARGET "handle_stats"

typedef struct Loader {
        const LoaderOptions *options;
        Choice *choice;
        struct iolat_bpf *skel;
        int root_fd;
        int lock_fd;
        unsigned current; /* generation that is there, 0: none */
        unsigned next;
        bool share_maps;
} Loader;

static void loader_done(Loader *l) {
        iolat_bpf__destroy(l->skel);
        choice_free(l->choice);
        closep(&l->lock_fd);
        closep(&l->root_fd);
}

/* libbpf names the program that the kernel refused only in its messages. */
static char refused_program[PROGRAM_NAME_MAX];

static int libbpf_print(enum libbpf_print_level level, const char *format, va_list ap) {
        char line[1024], *end;
        const char *p;

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

static uint64_t build_hash(void) {
        size_t size;
        const uint8_t *p = iolat_bpf__elf_bytes(&size);
        uint64_t h = 0xcbf29ce484222325;

        for (size_t i = 0; i < size; i++)
                h = (h ^ p[i]) * 0x100000001b3;

        return h;
}

/* Tests make the maps small to see them full. */
static void set_test_sizes(Loader *l) {
        const char *e = secure_getenv("IOLAT_TEST_MAP_ENTRIES");
        unsigned n = e ? (unsigned) atoi(e) : 0;

        if (n == 0)
                return;
        bpf_map__set_max_entries(l->skel->maps.ops, n);
        bpf_map__set_max_entries(l->skel->maps.rqs, n);
        bpf_map__set_max_entries(l->skel->maps.inflight_rqs, n);
        bpf_map__set_max_entries(l->skel->maps.dios, n);
}

static bool map_is_shared(const struct bpf_map *map) {
        /* Constants are a generation's own, and so is what became of its probes. */
        return !bpf_map__is_internal(map) && !streq(bpf_map__name(map), "probe_infos");
}

static int reuse_maps(Loader *l) {
        struct bpf_map *map;

        bpf_object__for_each_map(map, l->skel->obj) {
                _cleanup_close_ int fd = -EBADF;
                struct bpf_map_info info = {};
                uint32_t size = sizeof(info);
                char path[PIN_PATH_MAX];
                int r;

                if (!map_is_shared(map))
                        continue;
                r = pins_path(path, l->options->bpffs, l->current, false, "maps", bpf_map__name(map));
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

static int open_object(Loader *l) {
        int r;

        iolat_bpf__destroy(l->skel);
        l->skel = iolat_bpf__open();
        if (!l->skel)
                return -errno;
        r = choice_apply(l->choice, l->skel, l->next);
        if (r < 0)
                return r;
        set_test_sizes(l);
        if (l->share_maps) {
                r = reuse_maps(l);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* Trying decides: a program that the kernel refuses is left out, and the rest tried again. */
static int load_object(Loader *l) {
        int r;

        for (unsigned attempt = 0; attempt < LOAD_ATTEMPTS_MAX; attempt++) {
                r = open_object(l);
                if (r < 0)
                        return r;
                refused_program[0] = 0;
                r = iolat_bpf__load(l->skel);
                if (r >= 0)
                        return 0;
                if (!choice_refuse(l->choice, refused_program, r, "the kernel refused the program"))
                        return r;
        }

        return -ELOOP;
}

static int pin_map(Loader *l, const struct bpf_map *map) {
        char path[PIN_PATH_MAX];
        int r;

        r = pins_path(path, l->options->bpffs, l->next, true, "maps", bpf_map__name(map));
        if (r < 0)
                return r;

        return bpf_obj_pin(bpf_map__fd(map), path) < 0 ? -errno : 0;
}

static int pin_maps(Loader *l) {
        struct bpf_map *map;
        int r;

        bpf_object__for_each_map(map, l->skel->obj) {
                if (bpf_map__is_internal(map))
                        continue;
                r = pin_map(l, map);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int attach_and_pin(Loader *l, struct bpf_program *prog) {
        char path[PIN_PATH_MAX];
        struct bpf_link *link;
        int r;

        r = pins_path(path, l->options->bpffs, l->next, true, "progs", bpf_program__name(prog));
        if (r < 0)
                return r;
        if (bpf_obj_pin(bpf_program__fd(prog), path) < 0)
                return -errno;

        r = pins_path(path, l->options->bpffs, l->next, true, "links", bpf_program__name(prog));
        if (r < 0)
                return r;
        link = bpf_program__attach(prog);
        if (!link)
                return -errno;
        r = bpf_link__pin(link, path);
        bpf_link__destroy(link); /* the pin holds it, unless that failed */

        return r;
}

static int attach_probe(Loader *l, const ProbeDef *def) {
        struct bpf_program *prog;
        int r;

        /* The end first: it does nothing without a beginning, while a beginning without an end would be a loss. */
        if (def->exit_program) {
                prog = bpf_object__find_program_by_name(l->skel->obj, def->exit_program);
                r = attach_and_pin(l, prog);
                if (r < 0)
                        return r;
        }
        prog = bpf_object__find_program_by_name(l->skel->obj, def->program);

        return attach_and_pin(l, prog);
}

/* Carries an object pinned by the present generation over to the next one. */
static int repin(Loader *l, const char *kind, const char *name) {
        _cleanup_close_ int fd = -EBADF;
        char path[PIN_PATH_MAX];
        int r;

        r = pins_path(path, l->options->bpffs, l->current, false, kind, name);
        if (r < 0)
                return r;
        fd = bpf_obj_get(path);
        if (fd < 0)
                return -errno;
        r = pins_path(path, l->options->bpffs, l->next, true, kind, name);
        if (r < 0)
                return r;

        return bpf_obj_pin(fd, path) < 0 ? -errno : 0;
}

/* The stub stays attached over all generations; switching its slot switches the program for all events at once. */
static int attach_handle_stats(Loader *l) {
        struct bpf_program *target = l->skel->progs.handle_stats;
        uint32_t slot = 0;
        char path[PIN_PATH_MAX];
        int fd = bpf_program__fd(target), r;

        r = pins_path(path, l->options->bpffs, l->next, true, "progs", STUB_TARGET);
        if (r < 0)
                return r;
        if (bpf_obj_pin(fd, path) < 0)
                return -errno;
        if (bpf_map_update_elem(bpf_map__fd(l->skel->maps.handle_slots), &slot, &fd, BPF_ANY) < 0)
                return -errno;

        if (l->share_maps) {
                r = repin(l, "links", STUB);
                if (r >= 0)
                        return repin(l, "progs", STUB);
                if (r != -ENOENT)
                        return r;
        }

        return attach_and_pin(l, l->skel->progs.handle_stats_stub);
}

/* Returns -EAGAIN if a program did not attach and others are to be loaded in its place. */
static int attach_programs(Loader *l) {
        unsigned n_attached = 0;
        int r;

        for (size_t i = 0; i < probe_table_size; i++) {
                const ProbeDef *def = probe_table + i;
                char reason[124];

                if (!choice_has(l->choice, i))
                        continue;
                r = def->probe == PROBE_HANDLE_STATS ? attach_handle_stats(l) : attach_probe(l, def);
                if (r >= 0) {
                        n_attached++;
                        continue;
                }
                snprintf(reason, sizeof(reason), "cannot attach to %s: %s", def->target, strerror(-r));
                log_debug("Probe %s %s", def->name, reason);
                if (choice_refuse(l->choice, def->program, r, reason))
                        return -EAGAIN;
        }

        return n_attached > 0 ? 0 : -EOPNOTSUPP;
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
static void name_old_cgroups(Loader *l) {
        _cleanup_free_ char *root = NULL;
        int fd = bpf_map__fd(l->skel->maps.names), r;

        r = cgroup_root(&root);
        if (r >= 0)
                r = cgroup_tree_walk(root, name_cgroup, &fd);
        if (r < 0)
                log_warning_errno(r, "Cannot walk the cgroup tree, units that run already are (unknown): %m");
}

static int write_meta(Loader *l) {
        int fd = bpf_map__fd(l->skel->maps.meta);
        struct settings s = {};
        struct meta m = {};
        uint32_t key = 0;
        struct timespec ts;

        if (bpf_map_lookup_elem(fd, &key, &m) < 0)
                return -errno;
        if (m.since_realtime_us == 0) {
                clock_gettime(CLOCK_REALTIME, &ts);
                m.since_realtime_us = ts.tv_sec * USEC_PER_SEC + ts.tv_nsec / NSEC_PER_USEC;
                /* Until a daemon comes that knows its configuration. */
                s.sync_record_ns = s.write_record_ns = 100 * NSEC_PER_MSEC;
                if (bpf_map_update_elem(bpf_map__fd(l->skel->maps.settings), &key, &s, BPF_ANY) < 0)
                        return -errno;
        }
        m.abi = IOLAT_ABI;
        m.generation = l->next;
        m.tier = choice_tier(l->choice);
        snprintf(m.tier_reason, sizeof(m.tier_reason), "%s", choice_tier_reason(l->choice));
        m.build = build_hash();
        if (bpf_map_update_elem(fd, &key, &m, BPF_ANY) < 0)
                return -errno;

        fd = bpf_map__fd(l->skel->maps.probe_infos);
        for (key = 0; key < _PROBE_MAX; key++) {
                const struct probe_info *info = choice_info(l->choice, key);

                if (bpf_map_update_elem(fd, &key, info, BPF_ANY) < 0)
                        return -errno;
        }

        return 0;
}

/* What the generation that is there says of itself. */
static int read_meta(const char *bpffs, unsigned generation, struct meta *ret) {
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

static int log_open_error(const char *bpffs, int r) {
        if (r == -EMEDIUMTYPE)
                return log_error_errno(r, "%s is not a bpf file system; mount one there (mount -t bpf bpf %s) or name "
                                          "another one with --bpffs=.", bpffs, bpffs);
        if (r == -EACCES || r == -EPERM)
                return log_error_errno(r, "No access to %s/iolat: run this as root.", bpffs);

        return log_error_errno(r, "Cannot open %s/iolat: %m", bpffs);
}

static int log_load_error(int r) {
        if (r == -EPERM || r == -EACCES)
                return log_error_errno(r, "The kernel does not let this process load BPF programs: run it as root, "
                                          "with CAP_BPF and CAP_PERFMON.");

        return log_error_errno(r, "Cannot load the BPF programs: %m");
}

static int try_generation(Loader *l) {
        int r;

        r = load_object(l);
        if (r < 0)
                return log_load_error(r);

        r = pins_begin(l->root_fd, l->next);
        if (r >= 0)
                r = pin_maps(l);
        if (r < 0)
                return log_error_errno(r, "Cannot pin the maps: %m");
        r = attach_programs(l);
        if (r == -EAGAIN)
                return r;
        if (r < 0)
                return log_error_errno(r, "No BPF program could be attached.");
        name_old_cgroups(l);
        r = write_meta(l);
        if (r >= 0)
                r = pins_finish(l->root_fd, l->next);
        if (r < 0)
                return log_error_errno(r, "Cannot finish the new generation: %m");

        return 0;
}

static int make_generation(Loader *l) {
        int r, k;

        for (unsigned attempt = 0; attempt < LOAD_ATTEMPTS_MAX; attempt++) {
                r = try_generation(l);
                if (r >= 0)
                        return r;
                k = pins_clean(l->root_fd, l->current);
                if (k < 0)
                        log_debug_errno(k, "Cannot remove the unfinished generation, ignoring: %m");
                if (r != -EAGAIN)
                        return r;
        }

        return log_error_errno(ELOOP, "Too many programs did not attach, giving up.");
}

int loader_load(const LoaderOptions *options) {
        _cleanup_(loader_done) Loader l = { .options = options, .root_fd = -EBADF, .lock_fd = -EBADF };
        struct meta meta = {};
        int r;

        r = choice_new(&l.choice, options->tier);
        if (r == -EINVAL)
                return log_error_errno(r, "There is no tier '%s': auto, tracepoint, function or kprobe.",
                                       options->tier);
        if (r < 0)
                return log_oom();

        libbpf_set_print(libbpf_print);
        r = pins_open(options->bpffs, /* create= */ true, &l.root_fd);
        if (r < 0)
                return log_open_error(options->bpffs, r);
        r = pins_lock(l.root_fd, LOCK_TIMEOUT_MS, &l.lock_fd);
        if (r < 0)
                return log_error_errno(r, "Another loader is at work on %s/iolat: %m", options->bpffs);
        r = pins_current(l.root_fd, &l.current);
        if (r >= 0) /* what a loader left that was killed */
                r = pins_clean(l.root_fd, l.current);
        if (r < 0)
                return log_error_errno(r, "Cannot read %s/iolat: %m", options->bpffs);

        if (l.current > 0) {
                r = read_meta(options->bpffs, l.current, &meta);
                l.share_maps = r >= 0 && meta.abi == IOLAT_ABI;
                if (!l.share_maps)
                        log_notice("What is loaded has another layout than this build, the numbers start anew.");
                else if (meta.build == build_hash() && meta.generation == l.current && !options->force)
                        return 0;
        }
        l.next = l.current + 1;

        r = choice_read_kernel(l.choice);
        if (r < 0)
                return log_error_errno(r, "Cannot read the kernel's BTF (/sys/kernel/btf/vmlinux), without which iolat "
                                          "cannot work: the kernel needs CONFIG_DEBUG_INFO_BTF=y.");

        r = make_generation(&l);
        if (r < 0)
                return r;
        r = pins_clean(l.root_fd, l.next);
        if (r < 0) /* both count, but nothing twice; the next loader tries again */
                log_warning_errno(r, "Cannot remove the old generation, ignoring: %m");

        return 1;
}

int loader_unload(const char *bpffs) {
        _cleanup_close_ int root_fd = -EBADF, lock_fd = -EBADF;
        char path[PIN_PATH_MAX];
        int r;

        r = pins_open(bpffs, /* create= */ false, &root_fd);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return log_open_error(bpffs, r);
        r = pins_lock(root_fd, LOCK_TIMEOUT_MS, &lock_fd);
        if (r < 0)
                return log_error_errno(r, "Another loader is at work on %s/iolat: %m", bpffs);
        r = pins_clean(root_fd, 0);
        if (r < 0)
                return log_error_errno(r, "Cannot remove the pins in %s/iolat: %m", bpffs);
        /* The directory that a daemon locks, then the one around it. */
        if (unlinkat(root_fd, "daemon", AT_REMOVEDIR) < 0 && errno != ENOENT)
                return log_error_errno(errno, "Cannot remove %s/iolat/daemon: %m", bpffs);
        snprintf(path, sizeof(path), "%s/iolat", bpffs);
        if (rmdir(path) < 0 && errno != ENOENT)
                return log_error_errno(errno, "Cannot remove %s: %m", path);

        return 0;
}

int loader_show(const char *bpffs) {
        _cleanup_close_ int root_fd = -EBADF, fd = -EBADF;
        struct meta meta;
        char path[PIN_PATH_MAX];
        unsigned current;
        int r;

        r = pins_open(bpffs, /* create= */ false, &root_fd);
        if (r == -ENOENT) {
                printf("Nothing is loaded.\n");
                return 0;
        }
        if (r < 0)
                return log_open_error(bpffs, r);
        r = pins_current(root_fd, &current);
        if (r >= 0 && current == 0) {
                printf("Nothing is loaded.\n");
                return 0;
        }
        if (r >= 0)
                r = read_meta(bpffs, current, &meta);
        if (r >= 0)
                r = pins_path(path, bpffs, current, false, "maps", "probe_infos");
        if (r < 0)
                return log_error_errno(r, "Cannot read what is loaded: %m");
        fd = bpf_obj_get(path);
        if (fd < 0)
                return log_error_errno(errno, "Cannot read what is loaded: %m");

        printf("Generation %u, ABI %u, build %016llx\n", current, meta.abi, (unsigned long long) meta.build);
        if (meta.tier == TIER_FUNCTION)
                printf("Function tier\n");
        else
                printf("Tracepoint tier (no function tier: %s)\n", meta.tier_reason);
        for (uint32_t i = 0; i < _PROBE_MAX; i++) {
                const ProbeDef *def;
                struct probe_info info;

                if (bpf_map_lookup_elem(fd, &i, &info) < 0)
                        continue;
                def = probe_def_find(i, info.attached);
                if (!def)
                        continue;
                info.reason[sizeof(info.reason) - 1] = 0;
                if (info.attached)
                        printf("%-22s %s:%s\n", def->name, attach_kind_to_string(info.attached), def->target);
                else if (info.reason[0])
                        printf("%-22s absent: %s\n", def->name, info.reason);
        }

        return 0;
}
