/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "names.h"
#include "test.h"

typedef struct Table {
        const char *(*to_string)(int);
        int (*from_string)(const char *); /* NULL: only one way */
        int max;
} Table;

static const Table tables[] = {
        { op_to_string, op_from_string, _OP_MAX },
        { phase_to_string, phase_from_string, _PHASE_MAX },
        { journal_step_to_string, NULL, _STEP_MAX },
        { rq_kind_to_string, rq_kind_from_string, _RQ_KIND_MAX },
        { origin_to_string, NULL, _ORIGIN_MAX },
        { owned_by_to_string, NULL, _OWNED_BY_MAX },
        { loss_to_string, NULL, _LOSS_MAX },
        { rq_part_to_string, rq_part_from_string, _RQ_PART_MAX },
};

static void test_every_value_has_a_name(void **state) {
        for (size_t t = 0; t < ELEMENTSOF(tables); t++)
                for (int i = 0; i < tables[t].max; i++) {
                        const char *s = tables[t].to_string(i);

                        assert_non_null(s);
                        assert_true(*s);
                        /* Words of the interfaces, so no blanks and no capitals. */
                        assert_int_equal(strspn(s, "abcdefghijklmnopqrstuvwxyz-"), strlen(s));
                        for (int j = 0; j < i; j++)
                                assert_string_not_equal(s, tables[t].to_string(j));
                }
}

static void test_round_trip(void **state) {
        for (size_t t = 0; t < ELEMENTSOF(tables); t++)
                for (int i = 0; tables[t].from_string && i < tables[t].max; i++)
                        assert_int_equal(tables[t].from_string(tables[t].to_string(i)), i);
}

static void test_strangers(void **state) {
        for (size_t t = 0; t < ELEMENTSOF(tables); t++) {
                assert_null(tables[t].to_string(-1));
                assert_null(tables[t].to_string(tables[t].max));
                assert_null(tables[t].to_string(INT32_MAX));
                assert_null(tables[t].to_string(INT32_MIN));
                if (!tables[t].from_string)
                        continue;
                assert_int_equal(tables[t].from_string(""), -EINVAL);
                assert_int_equal(tables[t].from_string("total"), -EINVAL);
                assert_int_equal(tables[t].from_string("fsync "), -EINVAL);
        }
}

/* "op" and "phase" of a row hold words of several tables, which must not be taken for each other. */
static void test_shared_name_spaces(void **state) {
        for (int k = 0; k < _RQ_KIND_MAX; k++) {
                assert_int_equal(op_from_string(rq_kind_to_string(k)), -EINVAL);
                assert_non_null(startswith(rq_kind_to_string(k), "rq-"));
        }
        for (int p = 0; p < _RQ_PART_MAX; p++)
                assert_int_equal(phase_from_string(rq_part_to_string(p)), -EINVAL);
}

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_every_value_has_a_name),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_shared_name_spaces),
)
