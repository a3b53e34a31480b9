/* SPDX-License-Identifier: BSD-2-Clause */
/* Strict YAML: valid files are read; faults have file, line, key and a similar key. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/fault/fault.h"
#include "control/config/config.h"
#include "failing.h"
#include "config_sample.h"

static int read_text(const char *text, struct sample *sample, struct fathom_fault *why)
{
	return config_read("s.yml", text, strlen(text), &sample_schema, sample, why);
}

static void assert_refused(const char *text, int code, const char *message)
{
	struct sample sample;
	struct fathom_fault why = { 0 };
	int error = read_text(text, &sample, &why);

	if (error >= 0 || why.code != code || strcmp(why.text, message) != 0)
		fail_msg("%s\n-> %d %d %s", text, error, why.code, why.text);
}

static void values_of_all_types_are_read(void **state)
{
	struct sample sample;
	struct fathom_fault why = { 0 };
	int error = read_text("# a comment\n"
			      "name: \"my system\"\n"
			      "port: 0x2711\n"
			      "is_on: true\n"
			      "memory: 16MiB\n"
			      "level: warning\n"
			      "hosts: [a, b]\n"
			      "security:\n"
			      "  key: /etc/key\n"
			      "engines:\n"
			      "- cores: 4\n"
			      "  disks:\n"
			      "  - /dev/a\n"
			      "- name: second\n",
			      &sample, &why);

	assert_string_equal(why.text, "");
	assert_int_equal(error, 0);
	assert_string_equal(sample.name, "my system");
	assert_int_equal(sample.port, 10001);
	assert_true(sample.is_on);
	assert_int_equal(sample.memory, 16 << 20);
	assert_int_equal(sample.level, 1);
	assert_int_equal(sample.hosts.count, 2);
	assert_string_equal(sample.hosts.items[1], "b");
	assert_string_equal(sample.security.key, "/etc/key");
	assert_int_equal(sample.engines.count, 2);
	assert_int_equal(engines_of(&sample)[0].cores, 4);
	assert_string_equal(engines_of(&sample)[0].disks.items[0], "/dev/a");
	assert_string_equal(engines_of(&sample)[0].name, "engine");
	assert_int_equal(engines_of(&sample)[1].cores, 1);
	assert_string_equal(engines_of(&sample)[1].name, "second");
	config_free(&sample_schema, &sample);
}

static void keys_that_are_not_set_have_their_defaults(void **state)
{
	static const char *const nothing[] = { "name: x\n", "name: x", "{name: x}", "---\nname: x\n...\n",
					       "# a\n\nname: x\n" };

	for (size_t i = 0; i < ARRAY_COUNT(nothing); i++) {
		struct sample sample;

		assert_int_equal(read_text(nothing[i], &sample, NULL), 0);
		assert_int_equal(sample.port, 10001);
		assert_int_equal(sample.memory, 4096);
		assert_false(sample.is_on);
		assert_null(sample.security.key);
		assert_int_equal(sample.security.tries, 3);
		assert_int_equal(sample.engines.count, 0);
		config_free(&sample_schema, &sample);
	}
}

static void an_unknown_key_is_reported_with_its_line_and_a_similar_key(void **state)
{
	assert_refused("name: x\nprot: 1\n", FAULT_CONFIG_KEY_NEARLY, "s.yml:2: unknown key \"prot\"");
	assert_refused("name: x\nbananas: 1\n", FAULT_CONFIG_KEY_UNKNOWN, "s.yml:2: unknown key \"bananas\"");
	assert_refused("name: x\nsecurity:\n  port: 1\n", FAULT_CONFIG_KEY_UNKNOWN, "s.yml:3: unknown key \"port\"");
	assert_refused("name: x\nengines:\n- cores: 1\n  coers: 2\n", FAULT_CONFIG_KEY_NEARLY,
		       "s.yml:4: unknown key \"coers\"");
	assert_refused("name: x\nport: 1\n\nport: 2\n", FAULT_CONFIG_KEY_TWICE,
		       "s.yml:4: \"port\" is a duplicate of line 2");
	assert_refused("name: x\nport: 1\nlisten: 2\n", FAULT_CONFIG_KEY_TWICE,
		       "s.yml:3: \"port\" is a duplicate of line 2");
	assert_refused("port: 1\n", FAULT_CONFIG_KEY_MISSING, "s.yml:1: \"name\" is missing");
	assert_refused("", FAULT_CONFIG_KEY_MISSING, "s.yml:1: \"name\" is missing");
	assert_refused("# nothing\n---\n", FAULT_CONFIG_KEY_MISSING, "s.yml:1: \"name\" is missing");
}

static void a_resolution_states_the_expected_value(void **state)
{
	struct sample sample;
	struct fathom_fault why = { 0 };

	assert_int_equal(read_text("nmae: x\n", &sample, &why), -EINVAL);
	assert_string_equal(why.resolution, "use \"name\" if you meant that");
	assert_int_equal(read_text("port: 70000\n", &sample, &why), -EINVAL);
	assert_string_equal(why.resolution, "write a number from 1 to 65535");
	assert_int_equal(read_text("level: loud\n", &sample, &why), -EINVAL);
	assert_string_equal(why.resolution, "write error, warning or info");
	assert_int_equal(read_text("security: {key: etc}\n", &sample, &why), -EINVAL);
	assert_string_equal(why.resolution, "write an absolute path");
}

static void a_value_of_another_type_is_refused(void **state)
{
	static const struct {
		const char *text, *key, *value;
	} cases[] = {
		{ "port: x", "port", "x" },
		{ "port: \"1\"", "port", "1" },
		{ "port: 0", "port", "0" },
		{ "port: -1", "port", "-1" },
		{ "port: 1 2", "port", "1 2" },
		{ "port: 070000", "port", "070000" },
		{ "port:", "port", "" },
		{ "port: ~", "port", "~" },
		{ "port: [1]", "port", "[...]" },
		{ "port: {a: 1}", "port", "{...}" },
		{ "is_on: yes", "is_on", "yes" },
		{ "is_on: \"true\"", "is_on", "true" },
		{ "memory: 1parsec", "memory", "1parsec" },
		{ "name: null", "name", "null" },
		{ "name:", "name", "" },
		{ "hosts: a", "hosts", "a" },
		{ "hosts: [[a]]", "hosts", "[...]" },
		{ "hosts: [~]", "hosts", "~" },
		{ "hosts:", "hosts", "" },
		{ "security: 1", "security", "1" },
		{ "engines: {a: 1}", "engines", "{...}" },
		{ "engines: [a]", "engines", "a" },
		{ "level: Error", "level", "Error" },
	};

	for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
		char message[128];

		snprintf(message, sizeof(message), "s.yml:1: \"%s\" cannot be \"%s\"", cases[i].key, cases[i].value);
		assert_refused(cases[i].text, FAULT_CONFIG_VALUE, message);
	}
}

static void invalid_or_unsupported_yaml_is_refused_with_its_line(void **state)
{
	static const struct {
		const char *text;
		uint32_t line;
	} cases[] = {
		{ "name: x\n\tport: 1\n", 2 },
		{ "port: 1\nname: [a\n", 3 },
		{ "name: {a: [b}\nport: 1\n", 1 },
		{ "hosts: [x\n", 2 },
		{ "name: &a x\n", 1 },
		{ "name: x\nport: *a\n", 2 },
		{ "name: !!str x\n", 1 },
		{ "name: x\n---\nname: y\n", 2 },
		{ "name: x\nengines: &e [{}]\n", 2 },
		{ "- a\n- b\n", 1 },
		{ "x\n", 1 },
		{ "name: x\n[a]: 1\n", 2 },
		{ "name: \"a\\0b\"\n", 1 },
		{ "name: \xff\n", 1 },
		{ "name: \"x\n", 2 },
		{ "<<: {port: 1}\n", 0 },
	};

	for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
		struct sample sample;
		struct fathom_fault why = { 0 };
		char where[32];

		snprintf(where, sizeof(where), "s.yml:%u: ", cases[i].line);
		if (read_text(cases[i].text, &sample, &why) != -EINVAL ||
		    (cases[i].line && strstr(why.text, where) != why.text))
			fail_msg("%s\n-> %d %s", cases[i].text, why.code, why.text);
		if (cases[i].line)
			assert_int_equal(why.code, FAULT_CONFIG_SYNTAX);
	}
}

static void a_missing_or_oversized_file_is_a_fault(void **state)
{
	char path[] = "/tmp/fathom-yaml-XXXXXX";
	int fd = mkstemp(path);
	struct sample sample;
	struct fathom_fault why = { 0 };

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "name: here\n", 11), 11);
	assert_int_equal(config_read_file(path, &sample_schema, &sample, &why), 0);
	assert_string_equal(sample.name, "here");
	config_free(&sample_schema, &sample);
	assert_int_equal(ftruncate(fd, CONFIG_FILE_BYTES_MAX + 1), 0);
	assert_int_equal(config_read_file(path, &sample_schema, &sample, &why), -EIO);
	close(fd);
	unlink(path);
	assert_int_equal(config_read_file(path, &sample_schema, &sample, &why), -EIO);
	assert_int_equal(why.code, FAULT_CONFIG_UNREADABLE);
	assert_non_null(strstr(why.text, "No such file"));
	assert_int_equal(config_read_file("/tmp", &sample_schema, &sample, &why), -EIO);
}

static void the_reference_has_every_key(void **state)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	config_print_reference(&sample_schema, out);
	fclose(out);
	assert_non_null(strstr(text, "| `port` | a number from 1 to 65535 | 10001 | where to listen |\n"));
	assert_non_null(strstr(text, "| `name` | a text | required | of the system |\n"));
	assert_non_null(strstr(text, "| `engines[].cores` | a number from 1 to 64 | 1 |"));
	assert_non_null(strstr(text, "| `security.tries` |"));
	free(text);
}

static void a_failed_allocation_is_an_error_and_leaks_nothing(void **state)
{
	bool failed = true;

	for (uint32_t n = 1; failed; n++) {
		struct sample sample;
		int error;

		failing_begin(n);
		error = read_text("name: x\nhosts: [a, b]\nengines: [{name: a, disks: [/x]}, {}]\nsecurity: {key: /k}\n",
				  &sample, NULL);
		if (!error)
			config_free(&sample_schema, &sample);
		failed = failing_end();
		assert_int_equal(error, failed ? -ENOMEM : 0);
		assert_int_equal(failing_held(), 0);
	}
}

/* Servers and clients accept the same names: each system that a server accepts can be administered by name. */
static void valid_names_of_systems_are_accepted_and_others_refused(void **state)
{
	static const char *const good[] = { "a", "fathom", "Lab-2.b_c", "0",
					    "123456789012345678901234567890123456789012345678901234567890abc" },
				 *const bad[] = { "",
						  "a b",
						  "a+b",
						  "f\xc3\xbcr",
						  "a/b",
						  "a:b",
						  "a\n",
						  "\"a\"",
						  "123456789012345678901234567890123456789012345678901234567890abcd" };

	for (size_t i = 0; i < ARRAY_COUNT(good); i++)
		assert_null(config_system_name(good[i]));
	for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
		assert_non_null(config_system_name(bad[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_of_all_types_are_read),
		cmocka_unit_test(keys_that_are_not_set_have_their_defaults),
		cmocka_unit_test(an_unknown_key_is_reported_with_its_line_and_a_similar_key),
		cmocka_unit_test(a_resolution_states_the_expected_value),
		cmocka_unit_test(a_value_of_another_type_is_refused),
		cmocka_unit_test(invalid_or_unsupported_yaml_is_refused_with_its_line),
		cmocka_unit_test(a_missing_or_oversized_file_is_a_fault),
		cmocka_unit_test(the_reference_has_every_key),
		cmocka_unit_test(valid_names_of_systems_are_accepted_and_others_refused),
		cmocka_unit_test(a_failed_allocation_is_an_error_and_leaks_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
