/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>
#include <fcntl.h>

#include "extension.h"
#include "loader.h"
#include "log.h"
#include "pins.h"

enum {
        LOCK_TIMEOUT_MS = 60000,
        ATTACH_ATTEMPTS_MAX = 64,
        MODULE_ROUNDS_MAX = 4,
};

typedef struct Loader {
        const LoaderOptions *options;
        Choice *choice;
        Generation generation;
        struct probe_info infos[_PROBE_MAX];
        int root_fd;
        int lock_fd;
} Loader;

static void loader_done(Loader *l) {
        generation_done(&l->generation);
        choice_free(l->choice);
        closep(&l->lock_fd);
        closep(&l->root_fd);
}

/* What became of the probes of the present generation. */
static int read_infos(Loader *l) {
        _cleanup_close_ int fd = -EBADF;
        char path[PIN_PATH_MAX];
        int r;

        r = pins_path(path, l->options->bpffs, l->generation.current, false, "maps", "probe_infos");
        if (r < 0)
                return r;
        fd = bpf_obj_get(path);
        if (fd < 0)
                return -errno;
        for (uint32_t i = 0; i < _PROBE_MAX; i++)
                if (bpf_map_lookup_elem(fd, &i, &l->infos[i]) < 0)
                        return -errno;

        return 0;
}

/* Whether modules have come whose functions the present generation could not attach to. */
static bool finds_more(Loader *l) {
        for (uint32_t i = 0; i < _PROBE_MAX; i++)
                if (choice_finds_more(l->choice, i, &l->infos[i]))
                        return true;

        return false;
}

int loader_log_open_error(const char *bpffs, int r) {
        if (r == -EMEDIUMTYPE)
                return log_error_errno(r, "%s is not a bpf file system; mount one there (mount -t bpf bpf %s) or name "
                                          "another one with --bpffs=.", bpffs, bpffs);
        if (r == -EACCES || r == -EPERM)
                return log_error_errno(r, "No access to %s/iolat: run this as root.", bpffs);

        return log_error_errno(r, "Cannot open %s/iolat: %m", bpffs);
}

static int make_generation(Loader *l) {
        int r, k;

        for (unsigned attempt = 0; attempt < ATTACH_ATTEMPTS_MAX; attempt++) {
                r = generation_make(&l->generation, l->root_fd);
                if (r >= 0)
                        return r;
                k = pins_clean(l->root_fd, l->generation.current);
                if (k < 0)
                        log_debug_errno(k, "Cannot remove the unfinished generation, ignoring: %m");
                if (r != -EAGAIN)
                        return r;
        }

        return log_error_errno(ELOOP, "Too many programs did not attach, giving up.");
}

/* Whether the present generation is of what this loader would make, but for modules that have come since. */
static bool is_the_same(Loader *l, const struct meta *meta) {
        return l->generation.share_maps && !l->options->force && meta->build == generation_build_hash() &&
                meta->options == l->options->wanted && streq(meta->wanted_tier, l->options->tier) &&
                meta->generation == l->generation.current && read_infos(l) >= 0;
}

/* Functions of modules that have come: their programs are added. Returns how many probes were. */
static int extend(Loader *l) {
        int r;

        l->generation.extends = true;
        l->generation.infos = l->infos;
        l->generation.number = l->generation.current;
        r = generation_extend(&l->generation);
        generation_done(&l->generation);
        l->generation.extends = false;
        l->generation.number = l->generation.current + 1;
        if (r < 0)
                log_debug_errno(r, "Cannot add to what is loaded, loading all of it again: %m");

        return r;
}

static int load_once(const LoaderOptions *options) {
        _cleanup_(loader_done) Loader l = { .options = options, .root_fd = -EBADF, .lock_fd = -EBADF };
        struct meta meta = {};
        int r;

        generation_setup();
        r = choice_new(&l.choice, options->tier, options->wanted);
        if (r == -EINVAL)
                return log_error_errno(r, "There is no tier '%s': auto, tracepoint, function or kprobe.",
                                       options->tier);
        if (r < 0)
                return log_oom();
        l.generation.bpffs = options->bpffs;
        l.generation.choice = l.choice;
        l.generation.wanted_tier = options->tier;
        l.generation.wanted_options = options->wanted;

        r = pins_open(options->bpffs, /* create= */ true, &l.root_fd);
        if (r < 0)
                return loader_log_open_error(options->bpffs, r);
        r = pins_lock(l.root_fd, LOCK_TIMEOUT_MS, &l.lock_fd);
        if (r < 0)
                return log_error_errno(r, "Another loader is at work on %s/iolat: %m", options->bpffs);
        r = pins_current(l.root_fd, &l.generation.current);
        if (r >= 0) /* what a loader left that was killed */
                r = pins_clean(l.root_fd, l.generation.current);
        if (r < 0)
                return log_error_errno(r, "Cannot read %s/iolat: %m", options->bpffs);

        if (l.generation.current > 0) {
                r = generation_read_meta(options->bpffs, l.generation.current, &meta);
                meta.wanted_tier[sizeof(meta.wanted_tier) - 1] = 0;
                l.generation.share_maps = r >= 0 && meta.abi == IOLAT_ABI;
                if (!l.generation.share_maps)
                        log_notice("What is loaded has another layout than this build, the numbers start anew.");
        }
        l.generation.number = l.generation.current + 1;

        r = choice_read_kernel(l.choice, options->symbols_from_stdin);
        if (r < 0)
                return log_error_errno(r, "Cannot read the kernel's BTF (/sys/kernel/btf/vmlinux), without which iolat "
                                          "cannot work: the kernel needs CONFIG_DEBUG_INFO_BTF=y.");

        if (is_the_same(&l, &meta)) {
                bool more = finds_more(&l), modules = choice_modules(l.choice) & ~meta.modules;

                if (!more && !modules)
                        return 0;
                if (more && extend(&l) > 0) /* what else they bring comes in the next round, which takes longer */
                        return 1;
        }

        r = make_generation(&l);
        if (r < 0)
                return r;
        r = pins_clean(l.root_fd, l.generation.number);
        if (r < 0) /* both count, but nothing twice; the next loader tries again */
                log_warning_errno(r, "Cannot remove the old generation, ignoring: %m");

        return 1;
}

int loader_load(const LoaderOptions *options) {
        LoaderOptions again = *options;
        int r;

        r = load_once(options);
        if (r <= 0)
                return r;
        /* What modules bring comes in steps, and others may have come meanwhile. */
        again.force = false;
        for (unsigned i = 0; i < MODULE_ROUNDS_MAX; i++) {
                r = load_once(&again);
                if (r <= 0)
                        break;
        }

        return r < 0 ? r : 1;
}

int loader_unload(const char *bpffs) {
        _cleanup_close_ int root_fd = -EBADF, lock_fd = -EBADF;
        char path[PIN_PATH_MAX];
        int r;

        r = pins_open(bpffs, /* create= */ false, &root_fd);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return loader_log_open_error(bpffs, r);
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

unsigned loader_wanted(const Config *config) {
        return (config->op_write ? OPTION_WRITE : 0) | (config->op_read ? OPTION_READ : 0) |
                (config->dirty_tracking ? OPTION_DIRTY : 0);
}
