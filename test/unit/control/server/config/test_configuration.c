/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom-server.yml: each key is read, the sample is valid, the page is current, and contradictions are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/fault/fault.h"
#include "control/server/config/address.h"
#include "control/server/config/configuration.h"

static const char *sample_path, *page_path;

static int read_config(const char *text, struct server_config *config, struct fathom_fault *why)
{
	return server_config_read_text("s.yml", text, strlen(text), config, why);
}

static void assert_refused(const char *text, int code, const char *message)
{
	struct server_config config;
	struct fathom_fault why = { 0 };
	int error = read_config(text, &config, &why);

	if (error == 0)
		server_config_free(&config);
	if (error >= 0 || why.code != code || strcmp(why.text, message) != 0)
		fail_msg("%s\n-> %d %d %s", text, error, why.code, why.text);
	assert_true(why.resolution[0] != '\0');
}

#define ENGINE(port, mount) "- fabric_iface_port: " port "\n  storage: [{class: file, scm_mount: " mount "}]\n"
#define DEVICE(port, mount, device)                                                                                        \
	"- fabric_iface_port: " port "\n  storage: [{class: kdev, scm_mount: " mount ", bdev_list: [" device "]}]\n"

static void keys_that_are_not_set_have_their_defaults(void **state)
{
	struct server_config config;

	assert_int_equal(read_config("name: fathom\n", &config, NULL), 0);
	assert_string_equal(config.name, "fathom");
	assert_int_equal(config.port, SERVER_PORT_DEFAULT);
	assert_int_equal(config.mgmt_svc_replicas.count, 1);
	assert_string_equal(config.mgmt_svc_replicas.items[0], "localhost");
	assert_false(config.transport.allow_insecure);
	assert_string_equal(config.provider, SERVER_PROVIDER_DEFAULT);
	assert_string_equal(config.socket_dir, "/run/fathom/server");
	assert_string_equal(config.state_dir, "/var/lib/fathom");
	assert_int_equal(config.events_max, 100000);
	assert_int_equal(config.engines.count, 0);
	assert_true(config.restart[3].restart);
	assert_string_equal(config.restart[3].delay_min, "1s");
	server_config_free(&config);
	server_config_free(&config); /* a zeroed configuration can be freed */
}

static const char everything[] =
	"name: big\n"
	"port: 12000\n"
	"telemetry_port: 9191\n"
	"telemetry_address: 10.0.0.1\n"
	"telemetry_config:\n"
	"  allow_insecure: true\n"
	"  muted: [pool_nearly_full, device_gone]\n"
	"control_iface: eth0\n"
	"access_points: [\"node1:10002\"]\n"
	"transport_config: {allow_insecure: false, allow_tls12: true, ca_cert: /a, cert: /b, key: /c, "
	"client_cert_dir: /d}\n"
	"control_metadata: {path: /meta}\n"
	"fault_path: /rack=1/node=2\n"
	"provider: ofi+tcp\n"
	"socket_dir: /s\n"
	"state_dir: /t\n"
	"control_log_mask: trace\n"
	"control_log_file: /l\n"
	"control_log_json: true\n"
	"helper: /h\n"
	"engine_program: /e\n"
	"disable_engine_auto_restart: true\n"
	"engine_auto_restart_min_delay: 300\n"
	"engine_restart:\n"
	"  exited: {restart: true, delay_min: 500ms, delay_max: 2s, limit: 7}\n"
	"  failed: {limit: 1}\n"
	"  crashed: {limit: 2}\n"
	"  killed: {limit: 3}\n"
	"  self_terminated: {limit: 4}\n"
	"  never_ready: {limit: 5}\n"
	"  gone: {limit: 6}\n"
	"  hung: {limit: 7}\n"
	"events_max: 1000\n"
	"inject: [\"db_write=fail,count=1\", join=crash]\n"
	"server_heartbeat: 2s\n"
	"engine_heartbeat: 3s\n"
	"database_copy_after: 5m\n"
	"health_interval: 90s\n"
	"engines:\n"
	"- fabric_iface: eth1\n"
	"  fabric_iface_port: 4500\n"
	"  log_mask: DEBUG\n"
	"  log_file: /f\n"
	"  env_vars: [A=b]\n"
	"  env_pass_through: [HOME]\n"
	"  cpus: \"[0-1]\"\n"
	"  arguments: [-e, none]\n"
	"  storage: [{class: nvme, bdev_list: [/dev/nvme0n1], scm_mount: /m}]\n"
	"- fabric_iface_port: 4501\n"
	"  first_core: 3\n"
	"  storage: [{class: file, bdev_size: 1GiB, scm_mount: /n}]\n"
	"- fabric_iface_port: 4502\n"
	"  pinned_numa_node: 0\n"
	"  storage: [{class: kdev, bdev_list: [/dev/sdb], scm_mount: /o}]\n";

static void each_key_is_read(void **state)
{
	const struct server_engine *engine;
	struct server_config config;
	struct fathom_fault why = { 0 };
	char path[64];

	if (read_config(everything, &config, &why) != 0)
		fail_msg("%s", why.text);
	assert_string_equal(config.name, "big");
	assert_int_equal(config.port, 12000);
	assert_int_equal(config.telemetry_port, 9191);
	assert_string_equal(config.telemetry_address, "10.0.0.1");
	assert_true(config.telemetry.allow_insecure);
	assert_int_equal(config.telemetry.muted.count, 2);
	assert_string_equal(config.telemetry.muted.items[1], "device_gone");
	assert_string_equal(config.control_iface, "eth0");
	assert_string_equal(config.mgmt_svc_replicas.items[0], "node1:10002");
	assert_true(config.transport.allow_tls12);
	assert_string_equal(config.transport.client_cert_dir, "/d");
	assert_string_equal(config.fault_path, "/rack=1/node=2");
	assert_string_equal(config.log_file, "/l");
	assert_true(config.log_json);
	assert_string_equal(config.helper, "/h");
	assert_string_equal(config.engine_program, "/e");
	assert_true(config.disable_engine_auto_restart);
	assert_int_equal(config.engine_auto_restart_min_delay, 300);
	assert_string_equal(config.restart[0].delay_min, "500ms");
	for (size_t i = 1; i < SERVER_CAUSES; i++)
		assert_int_equal(config.restart[i].limit, i);
	assert_int_equal(config.events_max, 1000);
	assert_int_equal(config.inject.count, 2);
	assert_string_equal(config.inject.items[0], "db_write=fail,count=1");
	assert_string_equal(config.server_heartbeat, "2s");
	assert_string_equal(config.engine_heartbeat, "3s");
	assert_string_equal(config.database_copy_after, "5m");
	assert_string_equal(config.health_interval, "90s");
	assert_int_equal(config.engines.count, 3);
	engine = server_config_engine(&config, 0);
	assert_string_equal(engine->fabric_iface, "eth1");
	assert_int_equal(engine->fabric_iface_port, 4500);
	assert_string_equal(engine->log_mask, "DEBUG");
	assert_string_equal(engine->env_vars.items[0], "A=b");
	assert_string_equal(engine->env_pass_through.items[0], "HOME");
	assert_string_equal(engine->cpus, "[0-1]");
	assert_int_equal(engine->arguments.count, 2);
	assert_int_equal(server_engine_storage(engine)->class, SERVER_STORAGE_NVME);
	assert_int_equal(server_engine_storage(server_config_engine(&config, 1))->bdev_size, 1 << 30);
	assert_string_equal(server_config_engine(&config, 1)->first_core, "3");
	assert_string_equal(server_config_engine(&config, 2)->pinned_numa_node, "0");
	assert_int_equal(server_database_path(&config, path, sizeof(path)), 0);
	assert_string_equal(path, "/meta/system.db");
	assert_int_equal(server_superblock_path(&config, 2, path, sizeof(path)), 0);
	assert_string_equal(path, "/meta/engine2/superblock");
	assert_int_equal(server_superblock_path(&config, 2, path, 8), -ENAMETOOLONG);
	server_config_free(&config);
}

static void each_key_of_the_schema_is_tested(void **state)
{
	for (size_t i = 0; i < server_config_schema.key_count; i++) {
		const struct config_key *key = &server_config_schema.keys[i];
		char line[80];

		snprintf(line, sizeof(line), "%s:", key->name);
		if (!strstr(everything, line) && strcmp(key->name, "fault_cb") != 0 &&
		    strcmp(key->name, "mgmt_svc_replicas") != 0)
			fail_msg("%s is not tested", key->name);
	}
}

static void engines_with_shared_resources_are_refused(void **state)
{
	assert_refused("engines:\n" ENGINE("1", "/a") ENGINE("1", "/b"), FAULT_CONFIG_SHARED,
		       "s.yml:4: engines[0].fabric_iface_port and engines[1].fabric_iface_port are both \"1\"");
	assert_refused("engines:\n" ENGINE("1", "/a") ENGINE("2", "/a"), FAULT_CONFIG_SHARED,
		       "s.yml:5: engines[0].storage[0].scm_mount and engines[1].storage[0].scm_mount are both \"/a\"");
	assert_refused("engines:\n" ENGINE("1", "/a") ENGINE("2", "/a/b"), FAULT_CONFIG_SHARED,
		       "s.yml:5: engines[0].storage[0].scm_mount and engines[1].storage[0].scm_mount are both \"/a/b\"");
	assert_refused("engines:\n" DEVICE("1", "/a", "/dev/x") DEVICE("2", "/b", "/dev/x"), FAULT_CONFIG_SHARED,
		       "s.yml:5: engines[0].storage[0].bdev_list and engines[1].storage[0].bdev_list are both \"/dev/x\"");
	assert_refused("engines:\n" ENGINE("1", "/a") "  log_file: /l\n" ENGINE("2", "/b") "  log_file: /l\n",
		       FAULT_CONFIG_SHARED, "s.yml:7: engines[0].log_file and engines[1].log_file are both \"/l\"");
}

static void mounts_with_a_common_prefix_are_accepted(void **state)
{
	struct server_config config;
	struct fathom_fault why = { 0 };

	if (read_config("engines:\n" ENGINE("1", "/a/b") ENGINE("2", "/a/bc"), &config, &why) != 0)
		fail_msg("%s", why.text);
	server_config_free(&config);
}

static void mutually_exclusive_keys_are_refused(void **state)
{
	assert_refused("fault_path: /a\nfault_cb: /b\n", FAULT_CONFIG_BESIDE,
		       "s.yml:2: \"fault_cb\" and \"fault_path\" exclude each other");
	assert_refused("transport_config: {allow_insecure: true, allow_tls12: true}\n", FAULT_CONFIG_BESIDE,
		       "s.yml:1: \"transport_config.allow_tls12\" and \"allow_insecure: true\" exclude each other");
	assert_refused("engines:\n" ENGINE("1", "/a") "  cpus: \"0x3\"\n  first_core: 1\n", FAULT_CONFIG_BESIDE,
		       "s.yml:5: \"engines[0].first_core\" and \"engines[0].cpus\" exclude each other");
	assert_refused("engines:\n" ENGINE("1", "/a") "  first_core: 0\n  pinned_numa_node: 1\n", FAULT_CONFIG_BESIDE,
		       "s.yml:5: \"engines[0].pinned_numa_node\" and \"engines[0].first_core\" exclude each other");
	assert_refused("engines:\n- storage: [{class: file, scm_mount: /a, bdev_list: [/dev/x]}]\n", FAULT_CONFIG_BESIDE,
		       "s.yml:2: \"engines[0].storage[0].bdev_list\" and \"class: file\" exclude each other");
	assert_refused(
		"engines:\n- storage: [{class: kdev, scm_mount: /a, bdev_list: [/dev/x], bdev_size: 1GiB}]\n",
		FAULT_CONFIG_BESIDE,
		"s.yml:2: \"engines[0].storage[0].bdev_size\" and \"engines[0].storage[0].bdev_list\" exclude each other");
}

static void lists_with_a_wrong_number_of_entries_are_refused(void **state)
{
	assert_refused("mgmt_svc_replicas: [a, b]\n", FAULT_CONFIG_COUNT, "s.yml:1: \"mgmt_svc_replicas\" has 2 entries");
	assert_refused("mgmt_svc_replicas: [a, b, c]\n", FAULT_CONFIG_COUNT,
		       "s.yml:1: \"mgmt_svc_replicas\" has 3 entries");
	assert_refused("engines:\n- storage: []\n", FAULT_CONFIG_COUNT, "s.yml:2: \"engines[0].storage\" has 0 entries");
	assert_refused("engines:\n- storage: [{class: file, scm_mount: /a}, {class: file, scm_mount: /b}]\n",
		       FAULT_CONFIG_COUNT, "s.yml:2: \"engines[0].storage\" has 2 entries");
	assert_refused("engines:\n- storage: [{class: kdev, scm_mount: /a}]\n", FAULT_CONFIG_COUNT,
		       "s.yml:2: \"engines[0].storage[0].bdev_list\" has 0 entries");
	assert_refused("name: x\naccess_points: [a, b]\n", FAULT_CONFIG_COUNT,
		       "s.yml:2: \"mgmt_svc_replicas\" has 2 entries");
	assert_refused("engines:\n- log_mask: DEBUG\n", FAULT_CONFIG_KEY_MISSING, "s.yml:2: \"storage\" is missing");
}

static void too_many_engines_are_refused(void **state)
{
	static char text[SERVER_ENGINES_MAX * 100];
	size_t used = (size_t)snprintf(text, sizeof(text), "engines:\n");

	for (int i = 0; i <= SERVER_ENGINES_MAX; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "- {fabric_iface_port: %d, storage: [{class: file, scm_mount: /e%d}]}\n", i + 1,
					 i);
	assert_true(used < sizeof(text));
	assert_refused(text, FAULT_CONFIG_COUNT, "s.yml:1: \"engines\" has 65 entries");
}

static void a_minimum_delay_above_the_maximum_is_refused(void **state)
{
	assert_refused("engine_restart: {killed: {delay_min: 2m, delay_max: 90s}}\n", FAULT_CONFIG_ORDER,
		       "s.yml:1: \"engine_restart.killed.delay_min\" is 2m, more than \"engine_restart.killed.delay_max\", "
		       "which is "
		       "90s");
}

static void invalid_values_are_refused(void **state)
{
	static const struct {
		const char *text, *key, *value;
	} cases[] = {
		{ "name: \"a b\"", "name", "a b" },
		{ "name: \"\"", "name", "" },
		{ "name: a+b", "name", "a+b" },
		{ "port: 0", "port", "0" },
		{ "control_iface: a/b", "control_iface", "a/b" },
		{ "telemetry_address: node1", "telemetry_address", "node1" },
		{ "telemetry_config: {muted: [pool_ful]}", "muted", "pool_ful" },
		{ "mgmt_svc_replicas: [\"a,b\"]", "mgmt_svc_replicas", "a,b" },
		{ "mgmt_svc_replicas: [\"node[1-2]\"]", "mgmt_svc_replicas", "node[1-2]" },
		{ "fault_path: rack0", "fault_path", "rack0" },
		{ "provider: \"a://\"", "provider", "a://" },
		{ "socket_dir: run", "socket_dir", "run" },
		{ "control_log_mask: LOUD", "control_log_mask", "LOUD" },
		{ "events_max: 1", "events_max", "1" },
		{ "inject: [db_write=hang]", "inject", "db_write=hang" },
		{ "server_heartbeat: 99ms", "server_heartbeat", "99ms" },
		{ "server_heartbeat: 61m", "server_heartbeat", "61m" },
		{ "engine_heartbeat: 0s", "engine_heartbeat", "0s" },
		{ "engine_restart: {killed: {delay_min: soon}}", "delay_min", "soon" },
		{ "engines: [{env_vars: [A]}]", "env_vars", "A" },
		{ "engines: [{env_pass_through: [A=b]}]", "env_pass_through", "A=b" },
		{ "engines: [{cpus: x}]", "cpus", "x" },
		{ "engines: [{first_core: -1}]", "first_core", "-1" },
		{ "engines: [{storage: [{class: ram, scm_mount: /a}]}]", "class", "ram" },
		{ "engines: [{storage: [{class: file, scm_mount: a}]}]", "scm_mount", "a" },
		{ "engines: [{storage: [{class: kdev, bdev_list: [sda], scm_mount: /a}]}]", "bdev_list", "sda" },
	};

	for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
		char message[160];

		snprintf(message, sizeof(message), "s.yml:1: \"%s\" cannot be \"%s\"", cases[i].key, cases[i].value);
		assert_refused(cases[i].text, FAULT_CONFIG_VALUE, message);
	}
}

static void the_sample_configuration_is_valid(void **state)
{
	struct server_config config;
	struct fathom_fault why = { 0 };

	if (server_config_read(sample_path, &config, &why) != 0)
		fail_msg("%s; %s", why.text, why.resolution);
	assert_int_equal(config.engines.count, 2);
	server_config_free(&config);
}

static void the_reference_page_is_current(void **state)
{
	FILE *file = fopen(page_path, "r");
	char *said = NULL, *printed = NULL;
	size_t bytes = 0, room = 0;
	FILE *out = open_memstream(&printed, &bytes);

	assert_non_null(file);
	assert_non_null(out);
	server_config_print_reference(out);
	fclose(out);
	assert_true(getdelim(&said, &room, '\0', file) > 0);
	fclose(file);
	if (strcmp(said, printed) != 0)
		fail_msg("the page is outdated; run: fathom-server config reference > docs/server-configuration.md");
	free(said);
	free(printed);
}

/* ---- resolved addresses ---- */

static int resolve_places(const char *text, struct server_places *places, struct fathom_fault *why)
{
	struct server_config config;
	char path[] = "places.yml.XXXXXX";
	int fd = mkstemp(path), error;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	error = server_config_read(path, &config, why);
	if (error)
		fail_msg("%s", why->text);
	error = server_places_find(&config, path, provider_system(), places, why);
	unlink(path);
	server_config_free(&config);
	return error;
}

static void hosts_and_interfaces_resolve_to_addresses(void **state)
{
	struct server_places places;
	struct fathom_fault why = { 0 };

	assert_int_equal(resolve_places("port: 17\nfault_path: /a/b\nengines:\n" ENGINE("1", "/a") "  first_core: 3\n",
					&places, &why),
			 0);
	assert_string_equal(places.control, "127.0.0.1:17");
	assert_string_equal(places.replica, "127.0.0.1:17");
	assert_true(places.is_replica);
	assert_string_equal(places.domain, "/a/b");
	assert_string_equal(places.engines[0].address, "127.0.0.1");
	assert_string_equal(places.engines[0].cpus, "[3]");
	server_places_free(&places);

	assert_int_equal(resolve_places("control_iface: lo\nmgmt_svc_replicas: [\"192.0.2.200:18\"]\n", &places, &why), 0);
	assert_string_equal(places.replica, "192.0.2.200:18");
	assert_false(places.is_replica);
	assert_true(places.domain[0] == '/' && places.domain[1]);
	server_places_free(&places);
}

/* `line`: the line of the key; 0: the fault has no line. */
static void assert_not_found(const char *text, int code, int line)
{
	struct server_places places;
	struct fathom_fault why = { 0 };

	assert_true(resolve_places(text, &places, &why) < 0);
	if (why.code != code ||
	    (line && (strncmp(why.text, "places.yml.", 11) != 0 || strtol(strchr(why.text, ':') + 1, NULL, 10) != line)))
		fail_msg("%s\n-> %d %s", text, why.code, why.text);
}

static void missing_interfaces_hosts_and_numa_nodes_are_faults(void **state)
{
	assert_not_found("name: x\ncontrol_iface: none0\n", FAULT_CONFIG_INTERFACE, 2);
	assert_not_found("mgmt_svc_replicas: [\"192.0.2.200\"]\n", FAULT_CONFIG_NO_CONTROL_IFACE, 1);
	assert_not_found("name: x\n\naccess_points: [\"no-such-host.invalid\"]\n", FAULT_CONFIG_HOST, 3);
	assert_not_found("engines:\n" ENGINE("1", "/a") "  fabric_iface: none0\n", FAULT_CONFIG_INTERFACE, 4);
	assert_not_found("engines:\n" ENGINE("1", "/a") "  pinned_numa_node: 63\n", FAULT_CONFIG_NUMA_NODE, 4);
}

static void write_program(const char *path, const char *text, mode_t mode)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_int_equal(chmod(path, mode), 0);
}

static void fault_cb_sets_the_domain_if_it_is_safe_and_succeeds(void **state)
{
	char path[64], text[96];
	struct server_places places;
	struct fathom_fault why = { 0 };

	snprintf(path, sizeof(path), "/tmp/fathom-cb-%d", getpid());
	snprintf(text, sizeof(text), "fault_cb: %s\n", path);
	unlink(path);
	assert_not_found(text, FAULT_FAULT_CB_BAD, 1);
	write_program(path, "#!/bin/sh\necho /rack7/node8\n", 0755);
	assert_int_equal(resolve_places(text, &places, &why), 0);
	assert_string_equal(places.domain, "/rack7/node8");
	server_places_free(&places);
	assert_int_equal(chmod(path, 0777), 0);
	assert_not_found(text, FAULT_FAULT_CB_BAD, 0);
	write_program(path, "#!/bin/sh\necho /rack7/node8\n", 0644);
	assert_not_found(text, FAULT_FAULT_CB_BAD, 0);
	write_program(path, "#!/bin/sh\nexit 3\n", 0755);
	assert_not_found(text, FAULT_FAULT_CB_BAD, 0);
	write_program(path, "#!/bin/sh\necho here\n", 0755);
	assert_not_found(text, FAULT_FAULT_CB_BAD, 0);
	unlink(path);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_that_are_not_set_have_their_defaults),
		cmocka_unit_test(each_key_is_read),
		cmocka_unit_test(each_key_of_the_schema_is_tested),
		cmocka_unit_test(engines_with_shared_resources_are_refused),
		cmocka_unit_test(mounts_with_a_common_prefix_are_accepted),
		cmocka_unit_test(mutually_exclusive_keys_are_refused),
		cmocka_unit_test(lists_with_a_wrong_number_of_entries_are_refused),
		cmocka_unit_test(too_many_engines_are_refused),
		cmocka_unit_test(a_minimum_delay_above_the_maximum_is_refused),
		cmocka_unit_test(invalid_values_are_refused),
		cmocka_unit_test(the_sample_configuration_is_valid),
		cmocka_unit_test(the_reference_page_is_current),
		cmocka_unit_test(hosts_and_interfaces_resolve_to_addresses),
		cmocka_unit_test(missing_interfaces_hosts_and_numa_nodes_are_faults),
		cmocka_unit_test(fault_cb_sets_the_domain_if_it_is_safe_and_succeeds),
	};

	must(argc == 3);
	sample_path = argv[1];
	page_path = argv[2];
	return cmocka_run_group_tests_name("server configuration", tests, NULL, NULL);
}
