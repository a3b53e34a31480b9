/* SPDX-License-Identifier: BSD-2-Clause */
/* Parameters by table: every type, what is left out, and messages that name what is wrong. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* after those four */
#include <cmocka.h>

#include "base/bits.h"
#include "rpc/jsonrpc/rpc.h"

struct inner {
	const char *traddr;
	uint16_t port;
};

struct values {
	const char *name;
	bool flag;
	uint8_t u8;
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;
	int32_t i32;
	int level;
	struct inner address;
	const json_t *list;
};

static const char *const levels[] = { "LOW", "HIGH", NULL };

static const struct rpc_param inner_fields[] = {
	RPC_PARAM_STRING("traddr", inner, traddr, true),
	RPC_PARAM_U16("port", inner, port, false),
	RPC_PARAM_END,
};

static const struct rpc_param fields[] = {
	RPC_PARAM_STRING("name", values, name, true),
	RPC_PARAM_BOOL("flag", values, flag, false),
	RPC_PARAM_U8("u8", values, u8, false),
	RPC_PARAM_U16("u16", values, u16, false),
	RPC_PARAM_U32("u32", values, u32, false),
	RPC_PARAM_U64("u64", values, u64, false),
	RPC_PARAM_I32("i32", values, i32, false),
	RPC_PARAM_ENUM("level", values, level, false, levels),
	RPC_PARAM_OBJECT("address", values, address, false, inner_fields),
	RPC_PARAM_JSON("list", values, list, false),
	RPC_PARAM_MEANINGLESS(U16, "tuning"),
	RPC_PARAM_MEANINGLESS_NAMES(NAMES, "names", levels),
	RPC_PARAM_END,
};

/* The strings of `values` live as long as `kept`. */
static json_t *kept;

static int read_text(const char *text, struct values *values, struct fathom_fault *why)
{
	json_decref(kept);
	kept = json_loads(text, 0, NULL);
	assert_non_null(kept);
	return rpc_params_read(kept, fields, values, why);
}

static void reads_every_type(void **state)
{
	struct values v = { 0 };
	struct fathom_fault why;

	assert_int_equal(read_text("{\"name\":\"n\",\"flag\":true,\"u8\":255,\"u16\":65535,\"u32\":4294967295,"
				   "\"u64\":9223372036854775807,\"i32\":-2147483648,\"level\":\"high\","
				   "\"address\":{\"traddr\":\"::1\",\"port\":4420},\"list\":[1],\"tuning\":1,\"names\":["
				   "\"low\",\"high\"]}",
				   &v, &why),
			 0);
	assert_string_equal(v.name, "n");
	assert_true(v.flag);
	assert_int_equal(v.u8, 255);
	assert_int_equal(v.u16, 65535);
	assert_int_equal(v.u32, UINT32_MAX);
	assert_int_equal(v.u64, INT64_MAX);
	assert_int_equal(v.i32, INT32_MIN);
	assert_int_equal(v.level, 1);
	assert_string_equal(v.address.traddr, "::1");
	assert_int_equal(v.address.port, 4420);
	assert_int_equal(json_array_size(v.list), 1);
}

static void takes_64_bits_as_a_string_of_digits(void **state)
{
	struct values v = { 0 };
	struct fathom_fault why;

	assert_int_equal(read_text("{\"name\":\"n\",\"u64\":\"18446744073709551615\"}", &v, &why), 0);
	assert_true(v.u64 == UINT64_MAX);
	assert_int_equal(read_text("{\"name\":\"n\",\"u64\":\"18446744073709551616\"}", &v, &why), -EINVAL);
	assert_int_equal(read_text("{\"name\":\"n\",\"u32\":\"5\"}", &v, &why), -EINVAL);
}

static void leaves_alone_what_is_absent_or_null(void **state)
{
	struct values v = { .u32 = 7, .level = 1, .flag = true, .address = { .port = 9 } };
	struct fathom_fault why;

	assert_int_equal(read_text("{\"name\":\"n\",\"u32\":null}", &v, &why), 0);
	assert_int_equal(v.u32, 7);
	assert_int_equal(v.level, 1);
	assert_true(v.flag);
	assert_int_equal(v.address.port, 9);
}

static void names_what_is_wrong(void **state)
{
	static const struct {
		const char *text, *message;
	} rows[] = {
		{ "{}", "parameter \"name\" is missing" },
		{ "{\"name\":null}", "parameter \"name\" is missing" },
		{ "{\"name\":5}", "parameter \"name\" is a number, not a string" },
		{ "{\"name\":\"\"}", "parameter \"name\" is an empty string" },
		{ "{\"name\":\"n\",\"flag\":1}", "parameter \"flag\" is a number, not true or false" },
		{ "{\"name\":\"n\",\"u8\":256}", "parameter \"u8\" is 256; it goes from 0 to 255" },
		{ "{\"name\":\"n\",\"u16\":-1}", "parameter \"u16\" is -1; it goes from 0 to 65535" },
		{ "{\"name\":\"n\",\"u32\":4294967296}", "parameter \"u32\" is 4294967296; it goes from 0 to 4294967295" },
		{ "{\"name\":\"n\",\"i32\":-2147483649}",
		  "parameter \"i32\" is -2147483649; it goes from -2147483648 to 2147483647" },
		{ "{\"name\":\"n\",\"u32\":1.5}", "parameter \"u32\" is a fraction, not a whole number" },
		{ "{\"name\":\"n\",\"u32\":[]}", "parameter \"u32\" is an array, not a whole number" },
		{ "{\"name\":\"n\",\"level\":\"MID\"}", "parameter \"level\" is \"MID\", not one of LOW, HIGH" },
		{ "{\"name\":\"n\",\"level\":0}", "parameter \"level\" is a number, not a string" },
		{ "{\"name\":\"n\",\"address\":\"x\"}", "parameter \"address\" is a string, not an object" },
		{ "{\"name\":\"n\",\"address\":{}}", "parameter \"address.traddr\" is missing" },
		{ "{\"name\":\"n\",\"address\":{\"traddr\":\"a\",\"host\":1}}",
		  "no parameter \"address.host\" here; there are traddr, port" },
		{ "{\"nmae\":\"n\"}", "no parameter \"nmae\" here; there are name, flag, u8, u16, u32, u64, i32, level, "
				      "address, list, tuning, names" },
		{ "[]", "parameters are given by name, in an object; this is an array" },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		struct values v = { 0 };
		struct fathom_fault why;

		assert_int_equal(read_text(rows[i].text, &v, &why), -EINVAL);
		assert_string_equal(why.text, rows[i].message);
	}
}

static void a_method_without_parameters_takes_none(void **state)
{
	struct fathom_fault why;
	json_t *none = json_object(), *some = json_pack("{s:i}", "a", 1);

	assert_int_equal(rpc_params_read(none, NULL, NULL, &why), 0);
	assert_int_equal(rpc_params_read(some, NULL, NULL, &why), -EINVAL);
	assert_string_equal(why.text, "no parameter \"a\" here; there are none");
	json_decref(none);
	json_decref(some);
}

static int free_kept(void **state)
{
	json_decref(kept);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_every_type),
		cmocka_unit_test(takes_64_bits_as_a_string_of_digits),
		cmocka_unit_test(leaves_alone_what_is_absent_or_null),
		cmocka_unit_test(names_what_is_wrong),
		cmocka_unit_test(a_method_without_parameters_takes_none),
	};

	return cmocka_run_group_tests_name("rpc params", tests, NULL, free_kept);
}
