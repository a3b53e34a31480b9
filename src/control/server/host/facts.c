/* SPDX-License-Identifier: BSD-2-Clause */
/* Collects the facts of a scan from the kernel. */
#include "control/server/host/facts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/text.h"

enum { MEMINFO_BYTES_MAX = 65536, CORES_MAX = 4096, DATA_PIECES_MAX = 1 << 20 };

/* The number of `name` in lines "name: number kB" or, of a node, "Node N name: number kB"; 0: not found. */
static uint64_t number_of(const char *text, const char *name)
{
	const char *at = text;
	size_t bytes = strlen(name);

	while ((at = strstr(at, name)) != NULL) {
		if ((at == text || at[-1] == '\n' || at[-1] == ' ') && at[bytes] == ':')
			return strtoull(at + bytes + 1, NULL, 10);
		at += bytes;
	}
	return 0;
}

static void read_memory(struct provider *os, const char *path, struct facts_memory *memory)
{
	char *text;

	memset(memory, 0, sizeof(*memory));
	if (provider_read_file(os, path, MEMINFO_BYTES_MAX, &text) != 0)
		return;
	memory->hugepages_total = number_of(text, "HugePages_Total");
	memory->hugepages_free = number_of(text, "HugePages_Free");
	memory->hugepages_reserved = number_of(text, "HugePages_Rsvd");
	memory->hugepages_surplus = number_of(text, "HugePages_Surp");
	memory->hugepage_kib = number_of(text, "Hugepagesize");
	memory->total_kib = number_of(text, "MemTotal");
	memory->free_kib = number_of(text, "MemFree");
	memory->available_kib = number_of(text, "MemAvailable");
	memory->used_kib = number_of(text, "MemUsed");
	free(text);
}

static size_t read_nodes(struct provider *os, struct facts_memory *nodes)
{
	size_t count = 0;

	for (; count < FACTS_NODES_MAX; count++) {
		char path[96];

		snprintf(path, sizeof(path), "/sys/devices/system/node/node%zu/meminfo", count);
		read_memory(os, path, &nodes[count]);
		if (nodes[count].total_kib == 0)
			break;
	}
	return count;
}

/* The number of written bytes of the file: SEEK_HOLE reports allocated space without data as a hole. */
static uint64_t written_bytes(int fd, uint64_t bytes)
{
	off_t at = 0;
	uint64_t written = 0;

	for (int pieces = 0; (uint64_t)at < bytes; pieces++) {
		off_t data = lseek(fd, at, SEEK_DATA), hole;

		if (data < 0)
			return errno == ENXIO ? written : bytes; /* no more data; or unknown: count it as full */
		hole = lseek(fd, data, SEEK_HOLE);
		if (hole < 0)
			return bytes;
		written += (uint64_t)(hole - data);
		if (pieces == DATA_PIECES_MAX) /* limit the number of calls: count the rest as full */
			return written + (bytes - (uint64_t)hole);
		at = hole;
	}
	return written;
}

/* The usage of data.img, if the folder has one; else of the filesystem. */
static void read_usage(const struct server_storage *storage, struct facts_usage *usage)
{
	char path[CONFIG_STRING_BYTES_MAX + 16];
	struct statvfs filesystem;
	struct stat image;
	int fd = -1;

	snprintf(path, sizeof(path), "%s/data.img", storage->scm_mount);
	if (storage->class == SERVER_STORAGE_FILE)
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0 && fstat(fd, &image) == 0 && image.st_size > 0) {
		usage->has_image = true;
		usage->total_bytes = (uint64_t)image.st_size;
		usage->avail_bytes = usage->total_bytes - written_bytes(fd, usage->total_bytes);
	} else if (statvfs(storage->scm_mount, &filesystem) == 0) {
		usage->total_bytes = (uint64_t)filesystem.f_blocks * filesystem.f_frsize;
		usage->avail_bytes = (uint64_t)filesystem.f_bavail * filesystem.f_frsize;
	} else {
		usage->error = -errno;
	}
	if (fd >= 0)
		close(fd);
}

void storage_facts_collect(struct provider *os, const struct server_config *config, struct storage_facts *facts_ret)
{
	const struct storage_scan_options options = { 0 };

	must(config->engines.count <= SERVER_ENGINES_MAX);
	memset(facts_ret, 0, sizeof(*facts_ret));
	facts_ret->usage = calloc(config->engines.count + 1, sizeof(*facts_ret->usage));
	if (!facts_ret->usage) {
		facts_ret->why.error = fault(&facts_ret->why, -ENOMEM, "out of memory");
		return;
	}
	if (storage_scan(os, &options, &facts_ret->scan, &facts_ret->why) != 0)
		memset(&facts_ret->scan, 0, sizeof(facts_ret->scan));
	read_memory(os, "/proc/meminfo", &facts_ret->memory);
	facts_ret->node_count = read_nodes(os, facts_ret->nodes);
	for (size_t i = 0; i < config->engines.count; i++)
		read_usage(server_engine_storage(server_config_engine(config, i)), &facts_ret->usage[i]);
}

void storage_facts_free(struct storage_facts *facts)
{
	storage_scan_free(&facts->scan);
	free(facts->usage);
	facts->usage = NULL;
}

/* A core is counted by its first CPU. */
static uint32_t count_cores(struct provider *os)
{
	uint32_t cores = 0;

	for (uint32_t cpu = 0; cpu < CORES_MAX; cpu++) {
		char path[96], list[256];
		uint64_t first;

		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
		if (provider_read_text(os, path, list, sizeof(list)) != 0)
			break;
		list[strcspn(list, ",-")] = '\0';
		if (text_parse_u64(list, 10, UINT32_MAX, &first) == 0 && first == cpu)
			cores++;
	}
	return cores;
}

void network_facts_collect(struct provider *os, struct network_facts *facts_ret)
{
	struct facts_memory nodes[FACTS_NODES_MAX];

	memset(facts_ret, 0, sizeof(*facts_ret));
	if (network_scan(os, &facts_ret->scan, &facts_ret->why) != 0)
		memset(&facts_ret->scan, 0, sizeof(facts_ret->scan));
	facts_ret->node_count = (uint32_t)read_nodes(os, nodes);
	if (facts_ret->node_count == 0)
		facts_ret->node_count = 1; /* a kernel without NUMA has one */
	facts_ret->cores_per_node = count_cores(os) / facts_ret->node_count;
	if (facts_ret->cores_per_node == 0)
		facts_ret->cores_per_node = 1;
	must(facts_ret->node_count > 0 && facts_ret->cores_per_node > 0);
}

void network_facts_free(struct network_facts *facts)
{
	network_scan_free(&facts->scan);
}

void host_facts_collect(struct provider *os, struct host_facts *facts_ret)
{
	const struct storage_scan_options all = { 0 };

	memset(facts_ret, 0, sizeof(*facts_ret));
	if (storage_scan(os, &all, &facts_ret->devices, &facts_ret->why) != 0) {
		memset(&facts_ret->devices, 0, sizeof(facts_ret->devices));
		return;
	}
	if (network_scan(os, &facts_ret->interfaces, &facts_ret->why) != 0)
		memset(&facts_ret->interfaces, 0, sizeof(facts_ret->interfaces));
}

void host_facts_free(struct host_facts *facts)
{
	storage_scan_free(&facts->devices);
	network_scan_free(&facts->interfaces);
}
