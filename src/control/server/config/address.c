/* SPDX-License-Identifier: BSD-2-Clause */
/* Resolves host names, interfaces and NUMA nodes of the configuration. */
#include "control/server/config/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <net/if_arp.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "control/fault/fault.h"

static int join_port(const char *address, uint64_t port, char *text)
{
	int used;

	must(port > 0 && port <= UINT16_MAX);
	must(*address);
	used = snprintf(text, GRPC_ADDRESS_BYTES_MAX, strchr(address, ':') ? "[%s]:%" PRIu64 : "%s:%" PRIu64, address,
			port);
	return used < GRPC_ADDRESS_BYTES_MAX ? 0 : -ENAMETOOLONG;
}

/* The first IPv4 address of the name; without one, its first address. */
static int resolve(const char *file, const char *key, const char *name, char *address, struct fathom_fault *why)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL, *v4;
	char place[SERVER_PLACE_BYTES];
	int error = getaddrinfo(name, NULL, &hints, &found);

	if (error)
		return fault_config_host(why, server_config_place(file, key, place), key, name, gai_strerror(error));
	for (v4 = found; v4 && v4->ai_family != AF_INET; v4 = v4->ai_next)
		;
	error = getnameinfo((v4 ? v4 : found)->ai_addr, (v4 ? v4 : found)->ai_addrlen, address, NETWORK_ADDRESS_BYTES_MAX,
			    NULL, 0, NI_NUMERICHOST);
	freeaddrinfo(found);
	return error ? fault_config_host(why, server_config_place(file, key, place), key, name, gai_strerror(error)) : 0;
}

static int address_of_interface(const char *file, const char *key, const char *name, const struct network_scan *scan,
				char *address, struct fathom_fault *why)
{
	const struct network_interface *interface = network_find(scan, name);
	const struct network_address *first = interface ? network_first_address(interface) : NULL;
	char place[SERVER_PLACE_BYTES];

	if (!first)
		return fault_config_interface(why, server_config_place(file, key, place), key, name);
	return text_copy(address, NETWORK_ADDRESS_BYTES_MAX, first->text);
}

/* The interface of this host that has the address; NULL: none. */
static const struct network_interface *find_interface_with(const struct network_scan *scan, const char *address)
{
	bool is_loopback = strncmp(address, "127.", 4) == 0; /* the loopback interface has all of 127.0.0.0/8 */

	for (size_t i = 0; i < scan->count; i++) {
		const struct network_interface *interface = &scan->interfaces[i];

		if (is_loopback && interface->class == NETWORK_CLASS_LOOPBACK)
			return interface;
		for (uint32_t a = 0; a < interface->address_count && a < NETWORK_ADDRESSES_MAX; a++) {
			if (strcmp(interface->addresses[a].text, address) == 0)
				return interface;
		}
	}
	return NULL;
}

uint32_t server_device_class(enum network_class class)
{
	switch (class) {
	case NETWORK_CLASS_ETHERNET:
		return ARPHRD_ETHER;
	case NETWORK_CLASS_INFINIBAND:
		return ARPHRD_INFINIBAND;
	case NETWORK_CLASS_LOOPBACK:
		return ARPHRD_LOOPBACK;
	default:
		return ARPHRD_VOID;
	}
}

static int find_control(const struct server_config *config, const char *file, const struct network_scan *scan,
			struct server_places *places, char *control, struct fathom_fault *why)
{
	char replica[NETWORK_ADDRESS_BYTES_MAX], place[SERVER_PLACE_BYTES];
	struct host_address host;
	bool is_here;
	int error;

	must(config->mgmt_svc_replicas.count == 1);
	host_address(config->mgmt_svc_replicas.items[0], (uint16_t)config->port, &host);
	error = resolve(file, "mgmt_svc_replicas", host.host, replica, why);
	if (error)
		return error;
	is_here = find_interface_with(scan, replica) != NULL;
	if (config->control_iface)
		error = address_of_interface(file, "control_iface", config->control_iface, scan, control, why);
	else if (is_here)
		text_copy(control, NETWORK_ADDRESS_BYTES_MAX, replica);
	else
		error = fault_config_no_control_iface(why, server_config_place(file, "mgmt_svc_replicas", place),
						      config->mgmt_svc_replicas.items[0]);
	if (error)
		return error;
	must(*control);
	if (find_interface_with(scan, control))
		places->device_class = server_device_class(find_interface_with(scan, control)->class);
	places->is_replica = is_here && host.port == config->port;
	/* if it is this server, use its control address, whichever of its addresses the configuration names */
	error = places->is_replica ? join_port(control, config->port, places->replica)
				   : join_port(replica, host.port, places->replica);
	return error ? error : join_port(control, config->port, places->control);
}

/* Characters that a domain level must not contain become '-'. */
static int domain_of_host(char *domain, struct fathom_fault *why)
{
	char name[256];

	if (gethostname(name, sizeof(name) - 1) != 0)
		return fault_host_unnamed(why, strerror(errno));
	name[sizeof(name) - 1] = '\0';
	name[strcspn(name, ".")] = '\0';
	for (char *c = name; *c; c++) {
		if (strchr("/= \t", *c))
			*c = '-';
	}
	snprintf(domain, MEMBER_DOMAIN_BYTES, "/%.200s", name[0] ? name : "localhost");
	return 0;
}

/*
 * The domain that fault_cb prints, one line. Only its owner, root or the server's user, may be able to write the program:
 * otherwise other users could run code as the server. `place`: of the key in the configuration, for faults.
 */
static int domain_of_program(const char *place, const char *path, struct provider *os, char *domain,
			     struct fathom_fault *why)
{
	const char *const argv[] = { path, NULL }, *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };
	char labels[MEMBER_DOMAIN_BYTES];
	struct provider_run run;
	struct fathom_fault lower;
	struct stat stat;
	uint32_t depth;
	int fd, error;

	fd = os->calls->open(os, path, O_RDONLY | O_NONBLOCK, 0, false);
	if (fd < 0)
		return fault_fault_cb_bad(why, place, path, strerror(-fd));
	error = os->calls->stat(os, fd, &stat);
	os->calls->close_fd(os, fd);
	if (error)
		return fault_fault_cb_bad(why, place, path, strerror(-error));
	if (!S_ISREG(stat.st_mode) || !(stat.st_mode & 0111))
		return fault_fault_cb_bad(why, place, path, "it is not a program");
	if (stat.st_mode & 022)
		return fault_fault_cb_bad(why, place, path, "others than its owner may write it");
	if (stat.st_uid != 0 && stat.st_uid != geteuid())
		return fault_fault_cb_bad(why, place, path, "it is neither root's nor the server's user's");
	error = os->calls->run(os, argv, env, &run);
	if (error)
		return fault_fault_cb_bad(why, place, path, strerror(-error));
	if (run.status != 0)
		return fault_fault_cb_bad(why, place, path, "it did not end with status 0");
	run.output[strcspn(run.output, "\n")] = '\0';
	if (member_domain_parse(run.output, &depth, labels, &lower) != 0)
		return fault_fault_cb_bad(why, place, path, lower.text);
	must(depth > 0);
	return text_copy(domain, MEMBER_DOMAIN_BYTES, run.output);
}

static int find_domain(const struct server_config *config, const char *file, struct provider *os, char *domain,
		       struct fathom_fault *why)
{
	char place[SERVER_PLACE_BYTES];

	if (config->fault_path)
		return text_copy(domain, MEMBER_DOMAIN_BYTES, config->fault_path);
	if (config->fault_cb)
		return domain_of_program(server_config_place(file, "fault_cb", place), config->fault_cb, os, domain, why);
	return domain_of_host(domain, why);
}

static int find_cpus(const struct server_config *config, size_t index, const char *file, struct provider *os, char *cpus,
		     struct fathom_fault *why)
{
	const struct server_engine *engine = server_config_engine(config, index);
	char path[128], list[SERVER_CPUS_BYTES - 2], key[64], place[SERVER_PLACE_BYTES];

	must(!engine->cpus + !engine->first_core + !engine->pinned_numa_node >= 2); /* check_engine() rejects others */
	cpus[0] = '\0';
	if (engine->cpus)
		return text_copy(cpus, SERVER_CPUS_BYTES, engine->cpus);
	if (engine->first_core) {
		snprintf(cpus, SERVER_CPUS_BYTES, "[%s]", engine->first_core);
		return 0;
	}
	if (!engine->pinned_numa_node)
		return 0;
	snprintf(path, sizeof(path), "/sys/devices/system/node/node%s/cpulist", engine->pinned_numa_node);
	if (provider_read_text(os, path, list, sizeof(list)) != 0 || !list[0]) {
		snprintf(key, sizeof(key), "engines[%zu].pinned_numa_node", index);
		return fault_config_numa_node(why, server_config_place(file, key, place), engine->pinned_numa_node);
	}
	snprintf(cpus, SERVER_CPUS_BYTES, "[%s]", list);
	return 0;
}

/* The server and an engine cannot listen at one address and port. */
static int check_port(const struct server_config *config, size_t index, const char *file, const char *control,
		      const char *address, struct fathom_fault *why)
{
	char key[64], port[32], place[SERVER_PLACE_BYTES];

	if (server_config_engine(config, index)->fabric_iface_port != config->port || strcmp(address, control) != 0)
		return 0;
	snprintf(key, sizeof(key), "engines[%zu].fabric_iface_port", index);
	snprintf(port, sizeof(port), "%" PRIu64, config->port);
	return fault_config_shared(why, server_config_place(file, key, place), "port", key, port);
}

/* What addresses are resolved from. */
struct place_sources {
	const struct server_config *config;
	const char *file;
	struct provider *os;
	const struct network_scan *scan;
};

static int find_engines(const struct place_sources *from, const char *control, struct server_places *places,
			struct fathom_fault *why)
{
	const struct server_config *config = from->config;
	const char *file = from->file;
	int error = 0;

	for (size_t i = 0; !error && i < config->engines.count; i++) {
		const struct server_engine *engine = server_config_engine(config, i);
		char key[64];

		snprintf(key, sizeof(key), "engines[%zu].fabric_iface", i);
		if (engine->fabric_iface)
			error = address_of_interface(file, key, engine->fabric_iface, from->scan,
						     places->engines[i].address, why);
		else
			text_copy(places->engines[i].address, NETWORK_ADDRESS_BYTES_MAX, control);
		must(error || places->engines[i].address[0]);
		if (!error)
			error = check_port(config, i, file, control, places->engines[i].address, why);
		if (!error)
			error = find_cpus(config, i, file, from->os, places->engines[i].cpus, why);
	}
	return error;
}

int server_places_find(const struct server_config *config, const char *file, struct provider *os,
		       struct server_places *places_ret, struct fathom_fault *why)
{
	struct server_places places = { .engines = calloc(config->engines.count + 1, sizeof(*places.engines)) };
	char control[NETWORK_ADDRESS_BYTES_MAX] = "";
	struct network_scan scan;
	int error;

	must(config->engines.count <= SERVER_ENGINES_MAX);
	if (!places.engines)
		return -ENOMEM;
	error = network_scan(os, &scan, why);
	if (error) {
		server_places_free(&places);
		return error;
	}
	error = find_control(config, file, &scan, &places, control, why);
	if (!error)
		error = find_domain(config, file, os, places.domain, why);
	if (!error)
		error = find_engines(&(struct place_sources){ config, file, os, &scan }, control, &places, why);
	network_scan_free(&scan);
	must(error || (places.control[0] && places.replica[0] && places.domain[0] == '/'));
	if (error)
		server_places_free(&places);
	else
		*places_ret = places;
	return error;
}

void server_places_free(struct server_places *places)
{
	free(places->engines);
	places->engines = NULL;
}
