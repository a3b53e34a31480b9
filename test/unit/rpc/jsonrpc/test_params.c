/* SPDX-License-Identifier: BSD-2-Clause */
/* Parameters by table: each type, missing parameters, and errors that name the parameter. */
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
	uint8_t uuid[16], eui64[8];
	char serial[5];
	uint32_t percent;
	int32_t offset;
};

/* A row with a member of the structure. */
#define ROW(NAME, TYPE, S, FIELD, C, ...)                                                                                  \
	{                                                                                                                  \
		.name = NAME, .type = TYPE, .offset = RPC_FIELD(S, FIELD, C), __VA_ARGS__                                  \
	}

static const char *const levels[] = { "LOW", "HIGH", NULL };

static const struct rpc_param inner_fields[] = {
	ROW("traddr", RPC_STRING, inner, traddr, const char *, .required = true),
	ROW("port", RPC_U16, inner, port, uint16_t),
	{ .name = "hidden", .type = RPC_BOOL, .rejected = true, .reason = "nothing hides" },
	{ .name = NULL },
};

static const struct rpc_param fields[] = {
	ROW("name", RPC_STRING, values, name, const char *, .required = true),
	ROW("flag", RPC_BOOL, values, flag, bool),
	ROW("u8", RPC_U8, values, u8, uint8_t),
	ROW("u16", RPC_U16, values, u16, uint16_t),
	ROW("u32", RPC_U32, values, u32, uint32_t),
	ROW("u64", RPC_U64, values, u64, uint64_t),
	ROW("i32", RPC_I32, values, i32, int32_t),
	ROW("level", RPC_ENUM, values, level, int, .names = levels),
	{ .name = "address", .type = RPC_OBJECT, .offset = offsetof(struct values, address), .fields = inner_fields },
	ROW("list", RPC_JSON, values, list, const json_t *),
	{ .name = "tuning", .type = RPC_U16, .ignored = true },
	{ .name = "names", .type = RPC_NAMES, .ignored = true, .names = levels },
	ROW("uuid", RPC_UUID, values, uuid, uint8_t[16]),
	ROW("eui64", RPC_HEX, values, eui64, uint8_t[8], .bytes = 8),
	ROW("serial", RPC_TEXT, values, serial, char[5], .bytes = 5),
	ROW("percent", RPC_U32, values, percent, uint32_t, .has_range = true, .low = 1, .high = 100),
	ROW("offset", RPC_I32, values, offset, int32_t, .has_range = true, .low = -5, .high = 5),
	{ .name = "psk", .type = RPC_STRING, .rejected = true, .reason = "there is no TLS" },
	{ .name = "depth", .type = RPC_U32, .rejected = true, .reason = "only 0" },
	{ .name = "modes", .type = RPC_NAMES, .names = levels, .rejected = true, .reason = "no modes" },
	{ .name = "mode",
	  .type = RPC_ENUM,
	  .names = levels,
	  .rejected = true,
	  .reason = "only low",
	  .allowed_value = "LOW" },
	{ .name = "socket",
	  .type = RPC_ENUM,
	  .names = levels,
	  .rejected = true,
	  .reason = "too high",
	  .rejected_value = "HIGH" },
	{ .name = NULL },
};

/* Owns the strings of `values`. */
static json_t *kept;

static int read_text(const char *text, struct values *values, struct fathom_fault *why)
{
	json_decref(kept);
	kept = json_loads(text, 0, NULL);
	assert_non_null(kept);
	return rpc_params_read(kept, fields, values, why);
}

static void parameters_of_each_type_are_read(void **state)
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

static void bytes_and_copied_texts_are_read(void **state)
{
	static const uint8_t uuid[16] = { 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44,
					  0x55, 0x55, 0x66, 0x66, 0xab, 0xcd, 0xef, 0x88 };
	static const uint8_t eui64[8] = { 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0xaa, 0xff };
	struct values v = { 0 };
	struct fathom_fault why;

	assert_int_equal(read_text("{\"name\":\"n\",\"uuid\":\"11112222-3333-4444-5555-6666ABCDEF88\",\"eui64\":"
				   "\"001122334455aaFF\",\"serial\":\"abcd\",\"percent\":100,\"offset\":-5}",
				   &v, &why),
			 0);
	assert_memory_equal(v.uuid, uuid, sizeof(uuid));
	assert_memory_equal(v.eui64, eui64, sizeof(eui64));
	assert_string_equal(v.serial, "abcd");
	assert_int_equal(v.percent, 100);
	assert_int_equal(v.offset, -5);
}

static void unsupported_parameters_with_no_effect_are_accepted(void **state)
{
	struct values v = { 0 };
	struct fathom_fault why;

	assert_int_equal(read_text("{\"name\":\"n\",\"psk\":null,\"depth\":0,\"modes\":[],\"mode\":\"low\",\"socket\":"
				   "\"LOW\",\"address\":{\"traddr\":\"a\",\"hidden\":false}}",
				   &v, &why),
			 0);
}

static void a_64_bit_number_may_be_a_string_of_digits(void **state)
{
	struct values v = { 0 };
	struct fathom_fault why;

	assert_int_equal(read_text("{\"name\":\"n\",\"u64\":\"18446744073709551615\"}", &v, &why), 0);
	assert_true(v.u64 == UINT64_MAX);
	assert_int_equal(read_text("{\"name\":\"n\",\"u64\":\"18446744073709551616\"}", &v, &why), -EINVAL);
	assert_int_equal(read_text("{\"name\":\"n\",\"u32\":\"5\"}", &v, &why), -EINVAL);
}

static void absent_and_null_parameters_leave_their_defaults(void **state)
{
	struct values v = { .u32 = 7, .level = 1, .flag = true, .address = { .port = 9 } };
	struct fathom_fault why;

	assert_int_equal(read_text("{\"name\":\"n\",\"u32\":null}", &v, &why), 0);
	assert_int_equal(v.u32, 7);
	assert_int_equal(v.level, 1);
	assert_true(v.flag);
	assert_int_equal(v.address.port, 9);
}

static void an_error_names_the_wrong_parameter(void **state)
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
		  "no parameter \"address.host\" here; there are traddr, port, hidden" },
		{ "{\"nmae\":\"n\"}", "no parameter \"nmae\" here; there are name, flag, u8, u16, u32, u64, i32, level, "
				      "address, list, tuning, names, uuid, eui64, serial, percent, offset, psk, depth, "
				      "modes, mode, socket" },
		{ "{\"name\":\"n\",\"uuid\":\"11112222\"}", "\"uuid\" is \"11112222\", not a UUID" },
		{ "{\"name\":\"n\",\"uuid\":\"11112222-3333-4444-5555-66667777888g\"}",
		  "\"uuid\" is \"11112222-3333-4444-5555-66667777888g\", not a UUID" },
		{ "{\"name\":\"n\",\"uuid\":\"11112222-3333-4444-5555-6666777788889\"}",
		  "\"uuid\" is \"11112222-3333-4444-5555-6666777788889\", not a UUID" },
		{ "{\"name\":\"n\",\"uuid\":\"1111222233334444-5555-666677778888\"}",
		  "\"uuid\" is \"1111222233334444-5555-666677778888\", not a UUID" },
		{ "{\"name\":\"n\",\"uuid\":\"\"}", "parameter \"uuid\" is an empty string" },
		{ "{\"name\":\"n\",\"eui64\":\"0011\"}", "\"eui64\" is \"0011\", not 16 hexadecimal digits" },
		{ "{\"name\":\"n\",\"eui64\":\"001122334455667x\"}",
		  "\"eui64\" is \"001122334455667x\", not 16 hexadecimal digits" },
		{ "{\"name\":\"n\",\"serial\":\"abcde\"}", "\"serial\" has more than 4 characters" },
		{ "{\"name\":\"n\",\"serial\":5}", "parameter \"serial\" is a number, not a string" },
		{ "{\"name\":\"n\",\"percent\":0}", "parameter \"percent\" is 0; it goes from 1 to 100" },
		{ "{\"name\":\"n\",\"percent\":101}", "parameter \"percent\" is 101; it goes from 1 to 100" },
		{ "{\"name\":\"n\",\"offset\":-6}", "parameter \"offset\" is -6; it goes from -5 to 5" },
		{ "{\"name\":\"n\",\"psk\":\"key\"}", "\"psk\": there is no TLS" },
		{ "{\"name\":\"n\",\"depth\":1}", "\"depth\": only 0" },
		{ "{\"name\":\"n\",\"modes\":[\"low\"]}", "\"modes\": no modes" },
		{ "{\"name\":\"n\",\"mode\":\"high\"}", "\"mode\": only low" },
		{ "{\"name\":\"n\",\"socket\":\"high\"}", "\"socket\": too high" },
		{ "{\"name\":\"n\",\"address\":{\"traddr\":\"a\",\"hidden\":true}}", "\"address.hidden\": nothing hides" },
		/* types are checked first */
		{ "{\"name\":\"n\",\"psk\":\"key\",\"depth\":\"x\"}",
		  "parameter \"depth\" is a string, not a whole number" },
		{ "[]", "\"params\" must be an object; this is an array" },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		struct values v = { 0 };
		struct fathom_fault why;

		assert_int_equal(read_text(rows[i].text, &v, &why), -EINVAL);
		assert_string_equal(why.text, rows[i].message);
	}
}

static void a_method_without_parameters_refuses_any(void **state)
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
		cmocka_unit_test(parameters_of_each_type_are_read),
		cmocka_unit_test(bytes_and_copied_texts_are_read),
		cmocka_unit_test(unsupported_parameters_with_no_effect_are_accepted),
		cmocka_unit_test(a_64_bit_number_may_be_a_string_of_digits),
		cmocka_unit_test(absent_and_null_parameters_leave_their_defaults),
		cmocka_unit_test(an_error_names_the_wrong_parameter),
		cmocka_unit_test(a_method_without_parameters_refuses_any),
	};

	return cmocka_run_group_tests_name("rpc params", tests, NULL, free_kept);
}
