/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <sys/sysmacros.h>

#include "device.h"
#include "test-dir.h"
#include "test.h"

#define DEV(maj, min) ((uint32_t) (maj) << 20 | (uint32_t) (min))

static DeviceTable *table(void) {
        DeviceTable *t = NULL;

        assert_int_equal(device_table_new_empty(test_dir, &t), 0);
        return t;
}

static void load(DeviceTable *t, const char *text) {
        _cleanup_fclose_ FILE *f = file_from_string(text);

        assert_int_equal(device_table_load(t, f), 0);
}

static void check(DeviceTable *t, uint32_t dev, const char *fs_type, const char *mount_point) {
        const char *type = device_table_fs_type(t, dev), *where = device_table_mount_point(t, dev);

        if (!fs_type) {
                assert_null(type);
                assert_null(where);
                return;
        }
        assert_non_null(type);
        assert_string_equal(type, fs_type);
        assert_non_null(where);
        assert_string_equal(where, mount_point);
}

static void test_mounts(void **state) {
        _cleanup_(device_table_freep) DeviceTable *t = table();

        check(t, DEV(8, 1), NULL, NULL);
        load(t, "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
                "27 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
                "nonsense\n"
                "28 27 253:1048575 / /var/lib/my\\040db rw - xfs /dev/mapper/x rw\n");
        check(t, DEV(0, 21), "proc", "/proc");
        check(t, DEV(8, 1), "ext4", "/");
        check(t, DEV(253, 1048575), "xfs", "/var/lib/my db");
        check(t, DEV(8, 2), NULL, NULL);
        check(t, 0, NULL, NULL);
        check(t, UINT32_MAX, NULL, NULL);
}

static void test_which_mount_point(void **state) {
        _cleanup_(device_table_freep) DeviceTable *t = table();

        /* The whole before a part even if longer; then the shortest; then the first. */
        load(t, "1 1 8:1 /sub /a rw - ext4 x rw\n"
                "2 1 8:1 / /mnt/long rw - ext4 x rw\n"
                "3 1 8:1 / /srv/x rw - ext4 x rw\n"
                "4 1 8:1 / /srv/y rw - ext4 x rw\n"
                /* btrfs: subvolumes, all of one anonymous number, none of them the whole */
                "5 1 0:40 /@home /home rw - btrfs /dev/sdb rw\n"
                "6 1 0:40 /@ / rw - btrfs /dev/sdb rw\n"
                "7 1 0:40 /@snapshots /.snapshots rw - btrfs /dev/sdb rw\n");
        check(t, DEV(8, 1), "ext4", "/srv/x");
        check(t, DEV(0, 40), "btrfs", "/");
}

static void test_gone_is_remembered(void **state) {
        _cleanup_(device_table_freep) DeviceTable *t = table();

        load(t, "1 1 8:1 / /a rw - ext4 x rw\n2 1 8:2 / /b rw - xfs x rw\n");
        load(t, "2 1 8:2 / /b rw - xfs x rw\n");
        check(t, DEV(8, 1), "ext4", "/a");
        load(t, "2 1 8:2 / /moved rw - xfs x rw\n");
        check(t, DEV(8, 1), "ext4", "/a");
        check(t, DEV(8, 2), "xfs", "/moved");

        /* Until the number means something else. */
        load(t, "3 1 8:1 / /c rw - vfat x rw\n");
        check(t, DEV(8, 1), "vfat", "/c");
        check(t, DEV(8, 2), "xfs", "/moved");

        /* A part that stays mounted is better than a whole that is gone. */
        load(t, "3 1 8:1 /part /longer/c rw - vfat x rw\n");
        check(t, DEV(8, 1), "vfat", "/longer/c");

        load(t, "\n");
        check(t, DEV(8, 1), "vfat", "/longer/c");
}

static void load_one(DeviceTable *t, unsigned minor) {
        char line[64];

        snprintf(line, sizeof(line), "1 1 9:%u / /m%u rw - ext4 x rw\n", minor, minor);
        load(t, line);
}

static void test_gone_is_bounded(void **state) {
        _cleanup_(device_table_freep) DeviceTable *t = table();
        unsigned last = 3 * DEVICES_GONE_MAX;
        char path[32];

        for (unsigned i = 0; i <= last; i++)
                load_one(t, i);

        for (unsigned i = 0; i <= last; i++) {
                snprintf(path, sizeof(path), "/m%u", i);
                if (i < last - DEVICES_GONE_MAX)
                        check(t, DEV(9, i), NULL, NULL);
                else
                        check(t, DEV(9, i), "ext4", path);
        }
}

static void test_many(void **state) {
        _cleanup_(device_table_freep) DeviceTable *t = table();
        _cleanup_free_ char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);

        assert_non_null(f);
        for (unsigned i = 5000; i-- > 0;)
                fprintf(f, "1 1 0:%u / /m/%u rw - tmpfs x rw\n", i, i);
        assert_int_equal(fclose(f), 0);

        load(t, text);
        load(t, text);
        for (unsigned i = 0; i < 5000; i++) {
                char path[32];

                snprintf(path, sizeof(path), "/m/%u", i);
                check(t, DEV(0, i), "tmpfs", path);
        }
}

static void disk_link(const char *name, const char *target) {
        (void) unlink(test_path(name));
        assert_true(symlink(target, test_path(name)) >= 0);
}

static void check_disk(DeviceTable *t, uint32_t dev, const char *expected) {
        const char *name = device_table_disk_name(t, dev);

        if (!expected)
                assert_null(name);
        else {
                assert_non_null(name);
                assert_string_equal(name, expected);
        }
}

static void test_disks(void **state) {
        _cleanup_(device_table_freep) DeviceTable *t = table();

        disk_link("8:0", "../../devices/pci0000:00/0000:00:01.0/host0/block/sda");
        disk_link("259:3", "../../devices/x/nvme/nvme0/nvme0n1/nvme0n1p2");
        disk_link("104:0", "../../devices/x/block/cciss!c0d0");
        disk_link("7:0", "loop0");

        check_disk(t, DEV(8, 0), "sda");
        check_disk(t, DEV(259, 3), "nvme0n1p2");
        check_disk(t, DEV(104, 0), "cciss/c0d0");
        check_disk(t, DEV(7, 0), "loop0");
        check_disk(t, DEV(8, 16), NULL);
        check_disk(t, 0, NULL);
        check_disk(t, UINT32_MAX, NULL);
}

static void test_disks_change(void **state) {
        _cleanup_(device_table_freep) DeviceTable *t = table();

        disk_link("8:0", "block/sda");
        check_disk(t, DEV(8, 0), "sda");

        /* Strings stay until the next refresh. */
        disk_link("8:0", "block/sdb");
        check_disk(t, DEV(8, 0), "sda");
        assert_int_equal(device_table_refresh(t), 0);
        check_disk(t, DEV(8, 0), "sdb");

        /* The last known name of what is unplugged. */
        assert_true(unlink(test_path("8:0")) >= 0);
        assert_int_equal(device_table_refresh(t), 0);
        check_disk(t, DEV(8, 0), "sdb");

        /* What was not there is found later. */
        check_disk(t, DEV(8, 16), NULL);
        disk_link("8:16", "block/sdc");
        assert_int_equal(device_table_refresh(t), 0);
        check_disk(t, DEV(8, 16), "sdc");
}

static void test_disks_are_bounded(void **state) {
        _cleanup_(device_table_freep) DeviceTable *t = table();

        disk_link("8:0", "block/sda");
        disk_link("8:1", "block/sda1");
        check_disk(t, DEV(8, 0), "sda");
        check_disk(t, DEV(8, 1), "sda1");
        assert_int_equal(device_table_refresh(t), 0);
        check_disk(t, DEV(8, 1), "sda1");
        for (unsigned i = 0; i < 2 * DISKS_MAX; i++)
                check_disk(t, DEV(9, i), NULL);
        /* The table is full with what was asked about in this round: its names stay. */
        check_disk(t, DEV(8, 1), "sda1");
        check_disk(t, DEV(8, 0), NULL);

        assert_int_equal(device_table_refresh(t), 0);
        check_disk(t, DEV(8, 0), "sda");
}

/* A device as sysfs shows it: a directory in which its number is written, and a link to that by its number. */
static void sysfs_device(unsigned maj, unsigned min, const char *path) {
        char name[64], text[64];

        snprintf(name, sizeof(name), "devices/%s/dev", path);
        snprintf(text, sizeof(text), "%u:%u\n", maj, min);
        test_write(name, text);
        snprintf(name, sizeof(name), "%u:%u", maj, min);
        snprintf(text, sizeof(text), "devices/%s", path);
        disk_link(name, text);
}

static void sysfs_slave(const char *of, const char *slave, const char *target) {
        char path[128];

        snprintf(path, sizeof(path), "devices/%s/slaves", of);
        test_mkdir(path);
        snprintf(path, sizeof(path), "devices/%s/slaves/%s", of, slave);
        assert_true(symlink(target, test_path(path)) >= 0);
}

static void sysfs_fill(void) {
        sysfs_device(8, 0, "sda");
        sysfs_device(8, 2, "sda/sda2");
        test_write("devices/sda/sda2/partition", "2\n");
        sysfs_device(8, 16, "sdb");
        sysfs_device(253, 0, "dm-0");
        test_write("devices/dm-0/dm/name", "vg-my root\n");
        sysfs_slave("dm-0", "sda2", "../../sda/sda2");
        sysfs_slave("dm-0", "sdb", "../../sdb");
        sysfs_device(104, 0, "cciss!c0d0");
}

static void test_blocks(void **state) {
        _cleanup_(device_table_freep) DeviceTable *t = table();
        BlockDevice b;

        sysfs_fill();
        assert_int_equal(device_table_block(t, DEV(8, 0), &b), 0);
        assert_int_equal(b.disk, DEV(8, 0));
        assert_int_equal(b.n_slaves, 0);
        assert_int_equal(device_table_block(t, DEV(8, 2), &b), 0);
        assert_int_equal(b.disk, DEV(8, 0));
        assert_int_equal(device_table_block(t, DEV(253, 0), &b), 0);
        assert_int_equal(b.disk, DEV(253, 0));
        assert_int_equal(b.n_slaves, 2);
        assert_int_equal(b.slaves[0] + b.slaves[1], DEV(8, 2) + DEV(8, 16));
        assert_true(b.slaves[0] != b.slaves[1]);
        assert_int_equal(device_table_block(t, DEV(9, 9), &b), -ENOENT);
        /* Remembered, also that there is none. */
        sysfs_device(9, 9, "md9");
        assert_int_equal(device_table_block(t, DEV(9, 9), &b), -ENOENT);
        load(t, "1 1 9:9 / / rw - ext4 /dev/md9 rw\n");
        assert_int_equal(device_table_block(t, DEV(9, 9), &b), 0);
}

static void test_blocks_of_filesystems(void **state) {
        _cleanup_(device_table_freep) DeviceTable *t = table();
        BlockDevice b;

        sysfs_fill();
        load(t, "1 1 0:40 /@ / rw - btrfs /dev/sda2 rw\n"
                "2 1 0:41 / /a rw - btrfs /dev/mapper/vg-my\\040root rw\n"
                "3 1 0:42 / /b rw - fuse.evil /dev/sda2 rw\n"
                "4 1 0:43 / /c rw - overlay overlay rw\n"
                "5 1 0:44 / /d rw - btrfs /dev/../sda2 rw\n"
                "6 1 0:45 / /e rw - btrfs /dev/cciss/c0d0 rw\n"
                "7 1 0:46 / /f rw - tmpfs  rw\n");
        assert_int_equal(device_table_block(t, DEV(0, 40), &b), 0);
        assert_int_equal(b.disk, DEV(8, 0));
        assert_int_equal(device_table_block(t, DEV(0, 41), &b), 0);
        assert_int_equal(b.disk, DEV(253, 0));
        for (unsigned minor = 42; minor <= 44; minor++)
                assert_int_equal(device_table_block(t, DEV(0, minor), &b), -ENOENT);
        assert_int_equal(device_table_block(t, DEV(0, 45), &b), 0);
        assert_int_equal(b.disk, DEV(104, 0));
        assert_int_equal(device_table_block(t, DEV(0, 46), &b), -ENOENT);
        assert_int_equal(device_table_block(t, DEV(0, 99), &b), -ENOENT);
        for (unsigned i = 0; i < 3 * BLOCKS_MAX; i++)
                assert_int_equal(device_table_block(t, DEV(7, i), &b), -ENOENT);
        assert_int_equal(device_table_block(t, DEV(8, 2), &b), 0);
}

static void test_this_host(void **state) {
        _cleanup_(device_table_freep) DeviceTable *t = NULL;
        struct stat st;

        if (device_table_new(&t) < 0)
                skip();
        assert_int_equal(device_table_refresh(t), 0);
        assert_true(stat("/proc", &st) >= 0);
        check(t, DEV(major(st.st_dev), minor(st.st_dev)), "proc", "/proc");
        assert_null(device_table_free(NULL));
}

#define WITH_DIR(f) cmocka_unit_test_setup_teardown(f, test_dir_setup, test_dir_teardown)

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_mounts),
        cmocka_unit_test(test_which_mount_point),
        cmocka_unit_test(test_gone_is_remembered),
        cmocka_unit_test(test_gone_is_bounded),
        cmocka_unit_test(test_many),
        WITH_DIR(test_disks),
        WITH_DIR(test_disks_change),
        WITH_DIR(test_disks_are_bounded),
        WITH_DIR(test_blocks),
        WITH_DIR(test_blocks_of_filesystems),
        cmocka_unit_test(test_this_host),
)
