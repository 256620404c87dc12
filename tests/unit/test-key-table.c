/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "key-table.h"
#include "test.h"

typedef struct Key {
        uint64_t a, b;
} Key;

static Key key(uint64_t i) {
        return (Key){ i * 7, i % 3 };
}

static void test_add_and_find(void **state) {
        _cleanup_(key_table_freep) KeyTable *t = NULL;
        uint64_t *v;
        Key k = key(1);

        assert_int_equal(key_table_new(&t, 2, 5000), 0);
        assert_null(key_table_find(t, &k));
        for (uint64_t i = 0; i < 5000; i++) {
                k = key(i);
                assert_int_equal(key_table_get(t, &k, &v), 1);
                assert_int_equal(v[0], 0);
                assert_int_equal(v[1], 0);
                v[0] = i;
                v[1] = ~i;
        }
        for (uint64_t i = 0; i < 5000; i++) {
                k = key(i);
                v = key_table_find(t, &k);
                assert_non_null(v);
                assert_true(v[0] == i && v[1] == ~i);
                assert_int_equal(key_table_get(t, &k, &v), 0);
                assert_true(v[0] == i);
                assert_memory_equal(key_table_at(t, i, &v), &k, sizeof(k));
                assert_true(v[0] == i);
        }
        assert_int_equal(key_table_size(t), 5000);
        k = key(5000);
        assert_int_equal(key_table_get(t, &k, &v), -ENOSPC);
        assert_null(key_table_find(t, &k));
}

static bool is_even(const void *k, uint64_t *values, void *userdata) {
        ++*(unsigned *) userdata;
        return values[0] % 2 == 0;
}

static void test_remove(void **state) {
        _cleanup_(key_table_freep) KeyTable *t = NULL;
        unsigned calls = 0;
        uint64_t *v;
        Key k;

        assert_int_equal(key_table_new(&t, 1, 1000), 0);
        key_table_filter(t, is_even, &calls);
        for (uint64_t i = 0; i < 1000; i++) {
                k = key(i);
                assert_int_equal(key_table_get(t, &k, &v), 1);
                *v = i;
        }
        key_table_filter(t, is_even, &calls);
        assert_int_equal(calls, 1000);
        assert_int_equal(key_table_size(t), 500);
        for (uint64_t i = 0; i < 1000; i++) {
                k = key(i);
                v = key_table_find(t, &k);
                if (i % 2)
                        assert_null(v);
                else
                        assert_true(v && *v == i);
        }
        k = key(1);
        assert_int_equal(key_table_get(t, &k, &v), 1);
        assert_int_equal(*v, 0);
        key_table_clear(t);
        assert_int_equal(key_table_size(t), 0);
        assert_null(key_table_find(t, &k));
        assert_int_equal(key_table_get(t, &k, &v), 1);
}

static void test_bad_sizes(void **state) {
        KeyTable *t;

        assert_int_equal(key_table_new(&t, 0, 1), -EINVAL);
        assert_int_equal(key_table_new(&t, KEY_TABLE_VALUES_MAX + 1, 1), -EINVAL);
        assert_null(key_table_free(NULL));
}

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_add_and_find),
        cmocka_unit_test(test_remove),
        cmocka_unit_test(test_bad_sizes),
)
