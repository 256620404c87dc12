/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <inttypes.h>
#include <limits.h>
#include <poll.h>

#include "device.h"
#include "mountinfo.h"

#define SYSFS_DEV_BLOCK "/sys/dev/block"

enum {
        MINOR_BITS = 20,
        MINOR_MASK = (1 << MINOR_BITS) - 1,
};

#define BLOCK_AGE_MAX_NS (30 * NSEC_PER_SEC)

typedef struct Filesystem {
        uint32_t dev;
        uint64_t gone; /* the load that did not find it any more; 0: mounted */
        bool whole;    /* mounted from its root */
        size_t order;  /* of its line in the table */
        char *fs_type;
        char *mount_point;
        char *source;
} Filesystem;

typedef struct FilesystemArray {
        Filesystem *items; /* sorted by dev once loaded */
        size_t n;
        size_t n_allocated;
} FilesystemArray;

typedef struct Disk {
        uint32_t dev;
        uint64_t looked_up; /* number of the refresh after which that was last done */
        char *name;         /* NULL: unknown */
} Disk;

typedef struct Block {
        uint32_t dev;
        int result; /* of looking it up */
        uint64_t looked_up_ns;
        uint64_t n_loads; /* of the table of mounts, by then */
        BlockDevice device;
} Block;

struct DeviceTable {
        FILE *mountinfo; /* kept open: that is how the kernel knows what has been seen */
        bool stale;      /* changed, but could not be read */
        char *sysfs_dev_block;
        FilesystemArray filesystems;
        uint64_t n_loads;
        uint64_t n_refreshes;
        Disk *disks; /* sorted by dev */
        size_t n_disks;
        Block *blocks; /* as they came */
        size_t n_blocks;
};

static void filesystem_done(Filesystem *f) {
        free(f->fs_type);
        free(f->mount_point);
        free(f->source);
}

static void filesystem_array_done(FilesystemArray *a) {
        for (size_t i = 0; i < a->n; i++)
                filesystem_done(a->items + i);
        free(a->items);
}

DeviceTable *device_table_free(DeviceTable *t) {
        if (!t)
                return NULL;

        if (t->mountinfo)
                fclose(t->mountinfo);
        free(t->sysfs_dev_block);
        filesystem_array_done(&t->filesystems);
        for (size_t i = 0; i < t->n_disks; i++)
                free(t->disks[i].name);
        free(t->disks);
        free(t->blocks);
        free(t);

        return NULL;
}

/* Makes room for n more. */
static int filesystem_array_reserve(FilesystemArray *a, size_t n) {
        size_t n_allocated = MAX(a->n_allocated * 2, MAX(a->n + n, (size_t) 32));
        Filesystem *items;

        if (a->n + n <= a->n_allocated)
                return 0;

        items = reallocarray(a->items, n_allocated, sizeof(*items));
        if (!items)
                return -ENOMEM;
        a->items = items;
        a->n_allocated = n_allocated;

        return 0;
}

static int filesystem_from_mount(const MountInfo *m, void *userdata) {
        FilesystemArray *a = userdata;
        Filesystem f = {
                .dev = m->dev,
                .whole = streq(m->root, "/"),
                .order = a->n,
                .fs_type = strdup(m->fs_type),
                .mount_point = strdup(m->mount_point),
                .source = strdup(m->source),
        };

        if (!f.fs_type || !f.mount_point || !f.source || filesystem_array_reserve(a, 1) < 0) {
                filesystem_done(&f);
                return -ENOMEM;
        }
        a->items[a->n++] = f;

        return 0;
}

static int cmp_u64(uint64_t a, uint64_t b) {
        return a < b ? -1 : a > b;
}

/* By device, the best place first. */
static int filesystem_compare(const void *a, const void *b) {
        const Filesystem *x = a, *y = b;
        int r;

        r = cmp_u64(x->dev, y->dev);
        if (r != 0)
                return r;
        if (x->whole != y->whole)
                return x->whole ? -1 : 1;
        r = cmp_u64(strlen(x->mount_point), strlen(y->mount_point));
        if (r != 0)
                return r;

        return cmp_u64(x->order, y->order);
}

static int filesystem_compare_dev(const void *a, const void *b) {
        return cmp_u64(((const Filesystem *) a)->dev, ((const Filesystem *) b)->dev);
}

/* Those that went last first. */
static int filesystem_compare_gone(const void *a, const void *b) {
        return cmp_u64(((const Filesystem *) b)->gone, ((const Filesystem *) a)->gone);
}

static Filesystem *filesystem_find(const FilesystemArray *a, uint32_t dev) {
        return a->n == 0 ? NULL :
                bsearch(&(Filesystem) { .dev = dev }, a->items, a->n, sizeof(Filesystem), filesystem_compare_dev);
}

static void filesystem_array_sort(FilesystemArray *a, size_t first, int (*compare)(const void *, const void *)) {
        if (a->n > first)
                qsort(a->items + first, a->n - first, sizeof(Filesystem), compare);
}

/* Leaves the best of each device, sorted. */
static void filesystem_array_unique(FilesystemArray *a) {
        size_t n = 0;

        filesystem_array_sort(a, 0, filesystem_compare);
        for (size_t i = 0; i < a->n; i++)
                if (n > 0 && a->items[n - 1].dev == a->items[i].dev)
                        filesystem_done(a->items + i);
                else
                        a->items[n++] = a->items[i];
        a->n = n;
}

/* Moves what is in old but not in the sorted array a to the end of it. Room must have been made. */
static void filesystem_array_move_gone(FilesystemArray *a, FilesystemArray *old, uint64_t now) {
        const FilesystemArray mounted = *a;

        for (size_t i = 0; i < old->n; i++) {
                Filesystem *f = old->items + i;

                if (filesystem_find(&mounted, f->dev)) {
                        filesystem_done(f);
                        continue;
                }
                if (f->gone == 0)
                        f->gone = now;
                a->items[a->n++] = *f;
        }
        old->n = 0;

        filesystem_array_sort(a, mounted.n, filesystem_compare_gone);
        while (a->n > mounted.n + DEVICES_GONE_MAX)
                filesystem_done(a->items + --a->n);
}

int device_table_load(DeviceTable *t, FILE *mountinfo) {
        FilesystemArray a = {};
        int r;

        r = mountinfo_foreach(mountinfo, filesystem_from_mount, &a);
        if (r >= 0)
                r = filesystem_array_reserve(&a, t->filesystems.n);
        if (r < 0) {
                filesystem_array_done(&a);
                return r;
        }

        filesystem_array_unique(&a);
        filesystem_array_move_gone(&a, &t->filesystems, ++t->n_loads);
        filesystem_array_sort(&a, 0, filesystem_compare_dev);
        filesystem_array_done(&t->filesystems);
        t->filesystems = a;

        return 0;
}

int device_table_new_empty(const char *sysfs_dev_block, DeviceTable **ret) {
        _cleanup_(device_table_freep) DeviceTable *t = NULL;

        t = calloc(1, sizeof(*t));
        if (!t)
                return -ENOMEM;
        t->n_refreshes = 1;
        t->sysfs_dev_block = strdup(sysfs_dev_block);
        if (!t->sysfs_dev_block)
                return -ENOMEM;
        *ret = TAKE_PTR(t);

        return 0;
}

int device_table_new(DeviceTable **ret) {
        _cleanup_(device_table_freep) DeviceTable *t = NULL;
        int r;

        r = device_table_new_empty(SYSFS_DEV_BLOCK, &t);
        if (r < 0)
                return r;
        t->mountinfo = fopen(MOUNTINFO_PATH, "re");
        if (!t->mountinfo)
                return -errno;
        r = device_table_load(t, t->mountinfo);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(t);

        return 0;
}

int device_table_refresh(DeviceTable *t) {
        struct pollfd p = { .fd = -EBADF, .events = POLLPRI };
        int r;

        t->n_refreshes++;
        if (!t->mountinfo)
                return 0;

        p.fd = fileno(t->mountinfo);
        if (poll(&p, 1, 0) < 0)
                return errno == EINTR ? 0 : -errno;
        if (p.revents == 0 && !t->stale)
                return 0;

        /* poll() tells of a change only once. */
        t->stale = true;
        rewind(t->mountinfo);
        r = device_table_load(t, t->mountinfo);
        if (r < 0)
                return r;
        t->stale = false;

        return 0;
}

const char *device_table_fs_type(DeviceTable *t, uint32_t dev) {
        const Filesystem *f = filesystem_find(&t->filesystems, dev);

        return f ? f->fs_type : NULL;
}

const char *device_table_mount_point(DeviceTable *t, uint32_t dev) {
        const Filesystem *f = filesystem_find(&t->filesystems, dev);

        return f ? f->mount_point : NULL;
}

static int read_disk_name(const DeviceTable *t, uint32_t dev, char **ret) {
        char path[PATH_MAX], target[PATH_MAX], *name;
        ssize_t n;
        int k;

        k = snprintf(path, sizeof(path), "%s/%" PRIu32 ":%" PRIu32, t->sysfs_dev_block, dev >> MINOR_BITS,
                     dev & MINOR_MASK);
        if (k < 0 || (size_t) k >= sizeof(path))
                return -ENAMETOOLONG;
        n = readlink(path, target, sizeof(target) - 1);
        if (n < 0)
                return -errno;
        target[n] = 0;

        name = strrchr(target, '/');
        name = strdup(name ? name + 1 : target);
        if (!name)
                return -ENOMEM;
        /* sysfs cannot have the slashes that some drivers put in names. */
        for (char *p = name; *p; p++)
                if (*p == '!')
                        *p = '/';
        *ret = name;

        return 0;
}

static void disk_remove(DeviceTable *t, size_t i) {
        free(t->disks[i].name);
        memmove(t->disks + i, t->disks + i + 1, (t->n_disks - i - 1) * sizeof(Disk));
        t->n_disks--;
}

/* Makes room by forgetting the disk that was not asked about for the longest time. */
static int disk_evict(DeviceTable *t) {
        size_t oldest = 0;

        for (size_t i = 1; i < t->n_disks; i++)
                if (t->disks[i].looked_up < t->disks[oldest].looked_up)
                        oldest = i;
        /* The caller may still hold that name. */
        if (t->disks[oldest].looked_up == t->n_refreshes)
                return -ENOSPC;
        disk_remove(t, oldest);

        return 0;
}

/* The number of disks with a smaller number. */
static size_t disk_position(const DeviceTable *t, uint32_t dev) {
        size_t low = 0, high = t->n_disks;

        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (t->disks[mid].dev < dev)
                        low = mid + 1;
                else
                        high = mid;
        }

        return low;
}

static Disk *disk_get(DeviceTable *t, uint32_t dev) {
        size_t i = disk_position(t, dev);
        Disk *disks;

        if (i < t->n_disks && t->disks[i].dev == dev)
                return t->disks + i;

        if (t->n_disks >= DISKS_MAX) {
                if (disk_evict(t) < 0)
                        return NULL;
                i = disk_position(t, dev);
        }
        disks = reallocarray(t->disks, t->n_disks + 1, sizeof(Disk));
        if (!disks)
                return NULL;
        t->disks = disks;
        memmove(disks + i + 1, disks + i, (t->n_disks - i) * sizeof(Disk));
        disks[i] = (Disk) { .dev = dev };
        t->n_disks++;

        return disks + i;
}

const char *device_table_disk_name(DeviceTable *t, uint32_t dev) {
        Disk *d = disk_get(t, dev);
        char *name;

        if (!d)
                return NULL;

        if (d->looked_up != t->n_refreshes) {
                d->looked_up = t->n_refreshes;
                /* An error leaves the last known name. */
                if (read_disk_name(t, dev, &name) >= 0) {
                        free(d->name);
                        d->name = name;
                }
        }

        return d->name;
}

/* A FUSE server says what it likes about where its files come from. */
static int block_of_filesystem(DeviceTable *t, uint32_t dev, uint32_t *ret) {
        const Filesystem *f = filesystem_find(&t->filesystems, dev);

        if (!f || startswith(f->fs_type, "fuse"))
                return -ENOENT;

        return block_device_find(t->sysfs_dev_block, f->source, ret);
}

static int look_up_block(DeviceTable *t, uint32_t dev, BlockDevice *ret) {
        int r;

        if (dev >> MINOR_BITS == 0) { /* of no driver: just a number for the filesystem */
                r = block_of_filesystem(t, dev, &dev);
                if (r < 0)
                        return r;
        }

        return block_device_read(t->sysfs_dev_block, dev, ret);
}

static Block *block_get(DeviceTable *t, uint32_t dev) {
        for (size_t i = 0; i < t->n_blocks; i++)
                if (t->blocks[i].dev == dev)
                        return t->blocks + i;
        if (!t->blocks) {
                t->blocks = calloc(BLOCKS_MAX, sizeof(Block));
                if (!t->blocks)
                        return NULL;
        }
        if (t->n_blocks >= BLOCKS_MAX)
                t->n_blocks = 0;
        t->blocks[t->n_blocks] = (Block){ .dev = dev };

        return t->blocks + t->n_blocks++;
}

int device_table_block(DeviceTable *t, uint32_t dev, BlockDevice *ret) {
        Block *b = block_get(t, dev);
        uint64_t now = now_ns();

        if (!b)
                return -ENOMEM;
        if (b->looked_up_ns == 0 || b->n_loads != t->n_loads || now > b->looked_up_ns + BLOCK_AGE_MAX_NS) {
                b->result = look_up_block(t, dev, &b->device);
                b->looked_up_ns = now;
                b->n_loads = t->n_loads;
        }
        if (b->result >= 0)
                *ret = b->device;

        return b->result;
}
