/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "maps.h"
#include "pins.h"

enum {
        MAP_KEY_MAX = 32,
        MAP_WALK_MAX = 1 << 20, /* keys looked at in one walk, in case elements come faster than we read */
};

static int open_map(const char *bpffs, unsigned generation, const char *name, int *ret_fd) {
        char path[PIN_PATH_MAX];
        int fd, r;

        r = pins_path(path, bpffs, generation, false, "maps", name);
        if (r < 0)
                return r;
        fd = bpf_obj_get(path);
        if (fd < 0)
                return -errno;
        if (*ret_fd >= 0)
                close(*ret_fd);
        *ret_fd = fd;

        return 0;
}

/* Raised when probes are added to a generation. */
static unsigned read_revision(Maps *m) {
        uint32_t key = 0;
        struct meta meta;

        return bpf_map_lookup_elem(m->meta, &key, &meta) < 0 ? 0 : meta.revision;
}

int maps_open_more(const Maps *m, const char *name) {
        int fd = -EBADF, r;

        r = open_map(m->bpffs, m->generation, name, &fd);

        return r < 0 ? r : fd;
}

static int check_abi(int meta_fd) {
        struct bpf_map_info info = {};
        uint32_t size = sizeof(info), key = 0;
        struct meta m;

        if (bpf_obj_get_info_by_fd(meta_fd, &info, &size) < 0)
                return -errno;
        if (info.value_size != sizeof(m))
                return -EPROTO;
        if (bpf_map_lookup_elem(meta_fd, &key, &m) < 0)
                return -errno;

        return m.abi == IOLAT_ABI ? 0 : -EPROTO;
}

static int open_generation(Maps *m, unsigned generation) {
        const struct {
                const char *name;
                int *fd;
        } table[] = {
                { "meta", &m->meta },         { "ops", &m->ops },         { "rqs", &m->rqs },
                { "names", &m->names },       { "losses", &m->losses },   { "hits", &m->hits },
                { "stalls", &m->stalls },     { "settings", &m->settings },
                { "probe_infos", &m->probe_infos },
                { "waits", &m->waits },       { "blames", &m->blames },   { "handles", &m->handles },
                { "ages", &m->ages },         { "wait_head", &m->wait_head },
                { "wait_tail", &m->wait_tail },
        };
        int r;

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                r = open_map(m->bpffs, generation, table[i].name, table[i].fd);
                if (r < 0)
                        return r;
                if (i == 0) { /* first of all: do we understand the others? */
                        r = check_abi(m->meta);
                        if (r < 0)
                                return r;
                }
        }
        m->generation = generation;
        m->revision = read_revision(m);

        return 0;
}

static int take_lock(Maps *m) {
        if (mkdirat(m->root_fd, "daemon", 0700) < 0 && errno != EEXIST)
                return -errno;
        m->lock_fd = openat(m->root_fd, "daemon", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (m->lock_fd < 0)
                return -errno;
        if (flock(m->lock_fd, LOCK_EX | LOCK_NB) < 0)
                return errno == EWOULDBLOCK ? -EBUSY : -errno;

        return 0;
}

int maps_open(Maps *m, const char *bpffs) {
        unsigned generation;
        int n, r;

        *m = MAPS_NULL;
        m->bpffs = bpffs;
        r = pins_open(bpffs, /* create= */ false, &m->root_fd);
        if (r < 0)
                return r;
        r = take_lock(m);
        if (r < 0)
                return r;
        r = pins_current(m->root_fd, &generation);
        if (r < 0)
                return r;
        if (generation == 0)
                return -ENOENT;

        n = libbpf_num_possible_cpus();
        if (n < 0)
                return n;
        m->n_cpus = n;
        m->hits_buffer = calloc(n, sizeof(uint64_t));
        if (!m->hits_buffer)
                return -ENOMEM;

        return open_generation(m, generation);
}

int maps_refresh(Maps *m) {
        unsigned generation, revision;
        int r;

        r = pins_current(m->root_fd, &generation);
        if (r < 0)
                return r;
        if (generation == 0)
                return 0;
        if (generation == m->generation) {
                revision = read_revision(m);
                if (revision == m->revision)
                        return 0;
                m->revision = revision;
                return 1;
        }
        r = open_generation(m, generation);

        return r < 0 ? r : 1;
}

void maps_done(Maps *m) {
        int *const fds[] = { &m->ops,      &m->rqs,  &m->names,       &m->losses,  &m->hits,   &m->stalls,
                             &m->settings, &m->meta, &m->probe_infos, &m->lock_fd, &m->root_fd,
                             &m->waits,    &m->blames, &m->handles, &m->ages,
                             &m->wait_head, &m->wait_tail };

        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                closep(fds[i]);
        free(m->hits_buffer);
        *m = MAPS_NULL;
}

int maps_foreach_key(int fd, map_key_callback callback, void *userdata) {
        unsigned char key[MAP_KEY_MAX], next[MAP_KEY_MAX];
        const void *previous = NULL;
        int r;

        for (unsigned i = 0; i < MAP_WALK_MAX; i++) {
                if (bpf_map_get_next_key(fd, previous, next) < 0)
                        return errno == ENOENT ? 0 : -errno;
                memcpy(key, next, sizeof(key));
                previous = key;
                r = callback(key, userdata);
                if (r != 0)
                        return r;
        }

        return -E2BIG;
}

uint64_t maps_hits(Maps *m, enum probe probe) {
        uint32_t key = probe;
        uint64_t sum = 0;

        if (bpf_map_lookup_elem(m->hits, &key, m->hits_buffer) < 0)
                return 0;
        for (unsigned i = 0; i < m->n_cpus; i++)
                sum += m->hits_buffer[i];

        return sum;
}

uint64_t maps_loss(Maps *m, enum loss loss) {
        uint32_t key = loss;
        uint64_t n;

        return bpf_map_lookup_elem(m->losses, &key, &n) < 0 ? 0 : n;
}

/* Returns false if no such program is pinned. */
static bool program_misses(Maps *m, const char *program, const char *suffix, uint64_t *ret) {
        _cleanup_close_ int fd = -EBADF;
        struct bpf_prog_info info = {};
        uint32_t size = sizeof(info);
        char path[PIN_PATH_MAX], name[128];

        snprintf(name, sizeof(name), "%s%s", program, suffix);
        if (pins_path(path, m->bpffs, m->generation, false, "progs", name) < 0)
                return false;
        fd = bpf_obj_get(path);
        if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size) < 0)
                return false;
        *ret = info.recursion_misses;

        return true;
}

uint64_t maps_misses(Maps *m, const char *program) {
        uint64_t least, n;
        char suffix[16];

        if (!program_misses(m, program, "", &least))
                return 0;
        for (unsigned i = 1;; i++) {
                snprintf(suffix, sizeof(suffix), PIN_TWIN, i);
                if (!program_misses(m, program, suffix, &n))
                        return least;
                least = MIN(least, n);
        }
}
