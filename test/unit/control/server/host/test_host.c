/* SPDX-License-Identifier: BSD-2-Clause */
/* A fake host: the answers to scans, and the configuration generated from them. */
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
#include "control/server/config/generate.h"
#include "control/server/host/facts.h"
#include "failing.h"
#include "fake.h"

static struct fake fake;

static void nvme(const char *name, unsigned int minor, const char *place)
{
	fake_device(&fake, name, place, 259, minor, 2000000);
	fake_attribute(&fake, name, "queue/rotational", "0\n");
	fake_attribute(&fake, name, "device/model", "FAST DISK\n");
	fake_attribute(&fake, name, "device/serial", "S1\n");
	fake_attribute(&fake, name, "device/firmware_rev", "F1\n");
}

static void interface(const char *name, const char *type, const char *address)
{
	fake_interface(&fake, name, "virtual", type, "up\n", "");
	if (address)
		fake_address(&fake, name, address, 24);
}

static int setup(void **state)
{
	fake_begin(&fake);
	nvme("nvme0n1", 0, "pci0000:80/0000:81:00.0/nvme/nvme0/nvme0n1");
	nvme("nvme1n1", 1, "pci0000:80/0000:82:00.0/nvme/nvme1/nvme1n1"); /* holds data */
	fake_signature(&fake, "/dev/nvme1n1", "xfs", "filesystem", "");
	fake_device(&fake, "sda", "pci0000:00/ata1/block/sda", 8, 0, 4000000);
	fake_attribute(&fake, "sda", "queue/rotational", "1\n");
	fake_device(&fake, "loop1", "virtual/block/loop1", 7, 1, 2000000);
	fake_attribute(&fake, "loop1", "loop/backing_file", "/f\n");
	fake_device(&fake, "md0", "virtual/block/md0", 9, 0, 2000000);
	fake_file(&fake, "/proc/self/mountinfo", "27 1 254:0 / / rw - ext4 /dev/root rw\n");
	fake_file(&fake, "/proc/swaps", "Filename Type Size Used Priority\n");
	fake_file(
		&fake, "/proc/meminfo",
		"MemTotal:       1000 kB\nMemFree:         400 kB\nMemAvailable:    600 kB\nHugePages_Total:      8\n"
		"HugePages_Free:       5\nHugePages_Rsvd:       1\nHugePages_Surp:       2\nHugepagesize:      2048 kB\n");
	fake_file(&fake, "/sys/devices/system/node/node0/meminfo",
		  "Node 0 MemTotal:       700 kB\nNode 0 MemFree:        300 kB\nNode 0 MemUsed:        400 kB\n"
		  "Node 0 HugePages_Total:     8\nNode 0 HugePages_Free:      5\nNode 0 HugePages_Surp:      2\n");
	fake_file(&fake, "/sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:       300 kB\n");
	fake_file(&fake, "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,2\n");
	fake_file(&fake, "/sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,3\n");
	fake_file(&fake, "/sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "0,2\n");
	fake_file(&fake, "/sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "1,3\n");
	interface("lo", "772\n", "127.0.0.1");
	interface("ib0", "32\n", "10.1.0.1");
	interface("eth0", "1\n", NULL);
	return 0;
}

static int teardown(void **state)
{
	fake_end(&fake);
	return 0;
}

static void read_config(const char *text, struct server_config *config)
{
	struct fathom_fault why = { 0 };

	if (server_config_read_text("s.yml", text, strlen(text), config, &why) != 0)
		fail_msg("%s; %s\n%s", why.text, why.resolution, text);
}

/* ---- scans ---- */

static const char two_engines[] =
	"engines:\n"
	"- fabric_iface_port: 1\n  storage: [{class: kdev, bdev_list: [/dev/sda], scm_mount: /nowhere/a}]\n"
	"- fabric_iface_port: 2\n  storage: [{class: file, scm_mount: /proc}]\n";

static void a_storage_scan_has_devices_memory_and_usage(void **state)
{
	const struct facts_engine engines[2] = { { .is_formatted = true },
						 { .is_formatted = true, .has_rank = true, .rank = 7 } };
	Ctl__ScanNvmeReq nvme_request = CTL__SCAN_NVME_REQ__INIT;
	Ctl__ScanScmReq scm_request = CTL__SCAN_SCM_REQ__INIT;
	Ctl__StorageScanReq request = CTL__STORAGE_SCAN_REQ__INIT;
	const Ctl__StorageScanResp *answer;
	struct storage_facts facts;
	struct server_config config;
	struct arena arena = { 0 };

	read_config(two_engines, &config);
	storage_facts_collect(&fake.provider, &config, &facts);
	scm_request.usage = true;
	request.nvme = &nvme_request;
	request.scm = &scm_request;
	answer = storage_scan_answer(&facts, &config, engines, &request, &arena);

	/* NVMe devices and the devices of configured engines, no others */
	assert_int_equal(answer->nvme->n_ctrlrs, 3);
	assert_string_equal(answer->nvme->ctrlrs[0]->pci_addr, "0000:81:00.0");
	assert_string_equal(answer->nvme->ctrlrs[0]->model, "FAST DISK");
	assert_string_equal(answer->nvme->ctrlrs[0]->serial, "S1");
	assert_string_equal(answer->nvme->ctrlrs[0]->fw_rev, "F1");
	assert_int_equal(answer->nvme->ctrlrs[0]->namespaces[0]->size, 2000000ull * 512);
	assert_string_equal(answer->nvme->ctrlrs[2]->pci_addr, "/dev/sda");
	assert_int_equal(answer->nvme->state->status, 0);

	/* missing storage of an engine is not listed */
	assert_int_equal(answer->scm->n_namespaces, 1);
	assert_string_equal(answer->scm->namespaces[0]->mount->path, "/proc");
	assert_string_equal(answer->scm->namespaces[0]->mount->class_, "file");
	assert_int_equal(answer->scm->namespaces[0]->mount->rank, 7);

	assert_int_equal(answer->sys_mem_info->mem_total_kb, 1000);
	assert_int_equal(answer->sys_mem_info->mem_available_kb, 600);
	assert_int_equal(answer->sys_mem_info->hugepages_reserved, 1);
	assert_int_equal(answer->sys_mem_info->hugepage_size_kb, 2048);
	assert_int_equal(answer->sys_mem_info->n_numa_nodes, 2);
	assert_int_equal(answer->sys_mem_info->numa_nodes[0]->mem_used_kb, 400);
	assert_int_equal(answer->sys_mem_info->numa_nodes[0]->hugepages_surplus, 2);
	assert_int_equal(answer->sys_mem_info->numa_nodes[1]->numa_node_index, 1);

	/* basic: without serial numbers; without the request for usage: without usage */
	nvme_request.basic = true;
	request.scm = NULL;
	answer = storage_scan_answer(&facts, &config, engines, &request, &arena);
	assert_string_equal(answer->nvme->ctrlrs[0]->serial, "");
	assert_int_equal(answer->scm->n_namespaces, 0);
	arena_free(&arena);
	storage_facts_free(&facts);
	server_config_free(&config);
}

static void a_failed_scan_reports_its_error_in_its_state(void **state)
{
	const struct facts_engine engines[2] = { 0 };
	Ctl__StorageScanReq request = CTL__STORAGE_SCAN_REQ__INIT;
	const Ctl__StorageScanResp *answer;
	struct storage_facts facts;
	struct server_config config;
	struct arena arena = { 0 };
	struct failing failing;

	failing_begin(&failing, &fake.provider, -EIO);
	assert_true(failing_goes_on(&failing)); /* the first call fails, so there is no list of devices */
	read_config(two_engines, &config);
	storage_facts_collect(&failing.provider, &config, &facts);
	answer = storage_scan_answer(&facts, &config, engines, &request, &arena);
	assert_int_equal(answer->nvme->state->status, CTL__RESPONSE_STATUS__CTL_ERR_NVME);
	assert_true(answer->nvme->state->error[0] != '\0');
	assert_int_equal(answer->nvme->n_ctrlrs, 0);
	arena_free(&arena);
	storage_facts_free(&facts);
	server_config_free(&config);
}

static void a_network_scan_has_interfaces_and_cores(void **state)
{
	Ctl__NetworkScanReq request = CTL__NETWORK_SCAN_REQ__INIT;
	const Ctl__NetworkScanResp *answer;
	struct network_facts facts;
	struct server_config config;
	struct arena arena = { 0 };

	read_config("name: fathom\n", &config);
	network_facts_collect(&fake.provider, &facts);
	answer = network_scan_answer(&facts, &config, &request, &arena);
	assert_int_equal(answer->n_interfaces, 1); /* eth0 is left out: it has no address */
	assert_int_equal(answer->left_out, 1);
	assert_string_equal(answer->interfaces[0]->device, "ib0");
	request.provider = (char *)"all";
	answer = network_scan_answer(&facts, &config, &request, &arena);
	assert_int_equal(answer->n_interfaces, 2);
	assert_int_equal(answer->left_out, 0);
	assert_string_equal(answer->interfaces[0]->device, "eth0");
	assert_int_equal(answer->interfaces[0]->netdevclass, 1);
	assert_string_equal(answer->interfaces[1]->device, "ib0");
	assert_int_equal(answer->interfaces[1]->netdevclass, 32);
	assert_string_equal(answer->interfaces[1]->provider, "nvme+tcp");
	assert_int_equal(answer->numacount, 2);
	assert_int_equal(answer->corespernuma, 1);
	request.excludeinterfaces = (char *)"eth, ib0";
	answer = network_scan_answer(&facts, &config, &request, &arena);
	assert_int_equal(answer->n_interfaces, 1);
	assert_string_equal(answer->interfaces[0]->device, "eth0");
	request.provider = (char *)"ofi+tcp"; /* no interface has this provider */
	answer = network_scan_answer(&facts, &config, &request, &arena);
	assert_int_equal(answer->n_interfaces, 0);
	assert_int_equal(answer->left_out, 0);
	arena_free(&arena);
	network_facts_free(&facts);
	server_config_free(&config);
}

static void a_failed_call_of_a_scan_is_answered(void **state)
{
	struct server_config config;
	struct failing failing;

	read_config(two_engines, &config);
	for (failing_begin(&failing, &fake.provider, -EIO); failing_goes_on(&failing);) {
		struct storage_facts storage;
		struct network_facts network;

		storage_facts_collect(&failing.provider, &config, &storage);
		network_facts_collect(&failing.provider, &network);
		storage_facts_free(&storage);
		network_facts_free(&network);
	}
	assert_true(failing.fails_at > 20);
	server_config_free(&config);
}

/* ---- config generate ---- */

static char *generate(const struct generate_options *options, struct server_config *config)
{
	struct fathom_fault why = { 0 };
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	if (server_config_generate(options, &fake.provider, out, &why) != 0)
		fail_msg("%s", why.text);
	fclose(out);
	read_config(text, config);
	return text;
}

static void only_free_devices_are_configured(void **state)
{
	struct generate_options options = { .port = 10001 };
	struct server_config config;
	char *text = generate(&options, &config);

	assert_int_equal(config.engines.count, 2);
	assert_string_equal(server_engine_storage(server_config_engine(&config, 0))->bdev_list.items[0], "/dev/nvme0n1");
	assert_int_equal(server_engine_storage(server_config_engine(&config, 0))->class, SERVER_STORAGE_NVME);
	assert_string_equal(server_engine_storage(server_config_engine(&config, 1))->bdev_list.items[0], "/dev/sda");
	assert_int_equal(server_engine_storage(server_config_engine(&config, 1))->class, SERVER_STORAGE_KDEV);
	assert_string_equal(server_engine_storage(server_config_engine(&config, 1))->scm_mount,
			    SERVER_MOUNTS_DEFAULT "/engine1");
	assert_string_equal(config.control_iface, "ib0"); /* eth0 has no address */
	assert_false(config.transport.allow_insecure);
	/* this host is the management host, by an address that other hosts can reach, also if the caller used localhost */
	assert_string_equal(config.mgmt_svc_replicas.items[0], "10.1.0.1");
	server_config_free(&config);
	free(text);

	options.with_loop = true;
	options.is_insecure = true;
	options.interface = "lo";
	options.replica = "[fd00::1]:12";
	text = generate(&options, &config);
	assert_int_equal(config.engines.count, 3);
	assert_string_equal(config.mgmt_svc_replicas.items[0], "[fd00::1]:12");
	assert_true(config.transport.allow_insecure);
	server_config_free(&config);
	free(text);

	options.engines = 1;
	text = generate(&options, &config);
	assert_int_equal(config.engines.count, 1);
	server_config_free(&config);
	free(text);
}

static void options_select_interface_metadata_ports_and_engines(void **state)
{
	const uint32_t ports[] = { 4500, 4510, 4520 };
	struct generate_options options = { .port = 10001,
					    .net_class = "ethernet",
					    .metadata = "/srv/metadata",
					    .fabric_ports = ports,
					    .fabric_port_count = 3 };
	struct server_config config;
	char *text;

	fake_interface(&fake, "eth1", "virtual", "1\n", "up\n", ""); /* before ib0 and lo by name */
	fake_address(&fake, "eth1", "10.2.0.1", 24);
	text = generate(&options, &config);
	assert_string_equal(config.control_iface, "eth1");
	assert_string_equal(config.metadata.path, "/srv/metadata");
	assert_int_equal(config.engines.count, 2);
	assert_int_equal(server_config_engine(&config, 0)->fabric_iface_port, 4500);
	assert_int_equal(server_config_engine(&config, 1)->fabric_iface_port, 4510);
	server_config_free(&config);
	free(text);
	options.net_class = "infiniband";
	options.folder = "/srv";
	options.folder_bytes = 1 << 20;
	options.engines = 3;
	text = generate(&options, &config);
	assert_string_equal(config.control_iface, "ib0");
	assert_int_equal(server_config_engine(&config, 2)->fabric_iface_port, 4520);
	server_config_free(&config);
	free(text);
}

static void assert_not_generated(const struct generate_options *options, int error, uint32_t code)
{
	struct fathom_fault why = { 0 };
	FILE *out = fopen("/dev/null", "w");

	assert_non_null(out);
	assert_int_equal(server_config_generate(options, &fake.provider, out, &why), error);
	assert_int_equal(why.code, code);
	fclose(out);
}

static void assert_nothing_found(const struct generate_options *options)
{
	assert_not_generated(options, -ENODEV, FAULT_CONFIG_NOTHING_FOUND);
}

static void too_few_devices_interfaces_or_ports_are_a_fault(void **state)
{
	const uint32_t port = 4500;

	assert_nothing_found(&(struct generate_options){ .port = 1, .engines = 3 });
	assert_nothing_found(&(struct generate_options){ .port = 1, .interface = "eth0" });
	assert_nothing_found(&(struct generate_options){ .port = 1, .interface = "none0" });
	assert_nothing_found(&(struct generate_options){ .port = 1, .net_class = "ethernet" });
	assert_nothing_found(&(struct generate_options){ .port = 1, .net_class = "ethernet", .interface = "ib0" });
	assert_not_generated(&(struct generate_options){ .port = 1, .fabric_ports = &port, .fabric_port_count = 1 },
			     -EINVAL, 0);
	assert_not_generated(
		&(struct generate_options){
			.port = 1, .fabric_ports = &port, .fabric_port_count = 1, .folder = "/srv", .engines = 2 },
		-EINVAL, 0);
	fake_signature(&fake, "/dev/nvme0n1", "ext4", "filesystem", "");
	assert_nothing_found(&(struct generate_options){ .port = 1, .engines = 2 });
	fake_signature_error(&fake, "/dev/sda", -EACCES); /* as for an ordinary user */
	assert_not_generated(&(struct generate_options){ .port = 1 }, -EACCES, FAULT_CONFIG_DEVICES_UNREAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_storage_scan_has_devices_memory_and_usage, setup, teardown),
		cmocka_unit_test_setup_teardown(a_failed_scan_reports_its_error_in_its_state, setup, teardown),
		cmocka_unit_test_setup_teardown(a_network_scan_has_interfaces_and_cores, setup, teardown),
		cmocka_unit_test_setup_teardown(a_failed_call_of_a_scan_is_answered, setup, teardown),
		cmocka_unit_test_setup_teardown(only_free_devices_are_configured, setup, teardown),
		cmocka_unit_test_setup_teardown(options_select_interface_metadata_ports_and_engines, setup, teardown),
		cmocka_unit_test_setup_teardown(too_few_devices_interfaces_or_ports_are_a_fault, setup, teardown),
	};

	return cmocka_run_group_tests_name("server host", tests, NULL, NULL);
}
