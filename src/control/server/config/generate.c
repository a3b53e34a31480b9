/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/server/config/generate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "control/fault/fault.h"
#include "control/hostlist/hostlist.h"
#include "control/network/network.h"

enum { ENGINE_PORT_FIRST = 4420 };

static bool is_usable(const struct storage_device *device, const struct generate_options *options)
{
	if (device->parent[0] || device->removable || device->bytes == 0)
		return false;
	if (device->class == STORAGE_CLASS_OTHER || (device->class == STORAGE_CLASS_LOOP && !options->with_loop))
		return false;
	return storage_use(device) == STORAGE_USE_FREE;
}

static uint64_t count_usable(const struct storage_scan *scan, const struct generate_options *options)
{
	uint64_t count = 0;

	for (size_t i = 0; i < scan->count; i++)
		count += is_usable(&scan->devices[i], options);
	return count;
}

static bool is_suitable(const struct network_interface *interface, const char *net_class)
{
	return network_first_address(interface) &&
	       (!net_class || strcmp(net_class, network_class_name(interface->class)) == 0);
}

/* The first interface that other hosts can reach, else loopback. NULL: none with an address has the name and the class. */
static const struct network_interface *find_interface(const struct network_scan *scan, const char *name,
						      const char *net_class)
{
	const struct network_interface *loopback = NULL;

	if (name) {
		const struct network_interface *found = network_find(scan, name);

		return found && is_suitable(found, net_class) ? found : NULL;
	}
	for (size_t i = 0; i < scan->count; i++) {
		const struct network_interface *interface = &scan->interfaces[i];

		if (!is_suitable(interface, net_class))
			continue;
		if (interface->class == NETWORK_CLASS_LOOPBACK)
			loopback = interface;
		else if (interface->state != NETWORK_STATE_DOWN)
			return interface;
	}
	return loopback;
}

/* A loopback name or address of this host, which other hosts cannot use for it. */
static bool is_own_name(const struct host_address *address)
{
	return strcmp(address->host, "localhost") == 0 || strcmp(address->host, "::1") == 0 ||
	       strncmp(address->host, "127.", 4) == 0;
}

/*
 * The management host is this host unless `replica` names another: then print this host's own address, by which it
 * recognises itself. A numeric address, so that other hosts can have the same line in their configurations.
 */
static void print_replica(const struct generate_options *options, const struct network_interface *interface, FILE *out)
{
	const char *own = network_first_address(interface)->text;
	struct host_address said = { .port = 0 };

	if (options->replica)
		host_address(options->replica, 0, &said);
	if (options->replica && (said.port || !is_own_name(&said)))
		fprintf(out, "mgmt_svc_replicas: [\"%s\"]\n", options->replica);
	else
		fprintf(out, "mgmt_svc_replicas: [\"%s%s%s\"]\n", strchr(own, ':') ? "[" : "", own,
			strchr(own, ':') ? "]" : "");
}

static void print_head(const struct generate_options *options, const struct network_interface *interface, FILE *out)
{
	must(network_first_address(interface)); /* is_suitable() */
	must(options->port > 0 && options->port <= UINT16_MAX);
	fprintf(out,
		"# Written by `fathom-server config generate`. docs/server-configuration.md has all keys and their "
		"defaults.\n"
		"name: %s\n",
		options->name ? options->name : "fathom");
	fprintf(out, "port: %" PRIu64 "\n", options->port);
	fprintf(out, "control_iface: %s # %s\n", interface->name, network_first_address(interface)->text);
	print_replica(options, interface, out);
	if (options->metadata)
		fprintf(out, "control_metadata:\n  path: %s\n", options->metadata);
	if (options->is_insecure)
		fprintf(out, "transport_config:\n  allow_insecure: true\n");
	else
		fprintf(out, "# scripts/make-certificates /etc/fathom/certs makes them\n"
			     "transport_config:\n  allow_insecure: false\n");
}

static void print_engine(const struct generate_options *options, uint64_t index, const struct network_interface *interface,
			 FILE *out)
{
	uint64_t port;

	must(index < SERVER_ENGINES_MAX);
	must(!options->fabric_ports || index < options->fabric_port_count);
	port = options->fabric_ports ? options->fabric_ports[index] : ENGINE_PORT_FIRST + index;
	fprintf(out,
		"- fabric_iface: %s\n"
		"  fabric_iface_port: %" PRIu64 "\n"
		"  storage:\n",
		interface->name, port);
}

static void print_folders(const struct generate_options *options, const struct network_interface *interface, FILE *out)
{
	uint64_t engines = options->engines ? options->engines : 1;

	fprintf(out, "engines:\n");
	for (uint64_t i = 0; i < engines; i++) {
		print_engine(options, i, interface, out);
		fprintf(out, "  - class: file\n    scm_mount: %s/engine%" PRIu64 "\n    bdev_size: %" PRIu64 "\n",
			options->folder, i, options->folder_bytes);
	}
}

static void print_devices(const struct generate_options *options, const struct network_interface *interface,
			  const struct storage_scan *scan, uint64_t engines, FILE *out)
{
	uint64_t done = 0;

	fprintf(out, "engines:\n");
	for (size_t i = 0; i < scan->count && done < engines; i++) {
		const struct storage_device *device = &scan->devices[i];

		if (!is_usable(device, options))
			continue;
		print_engine(options, done, interface, out);
		fprintf(out,
			"  - class: %s # %" PRIu64 " bytes%s%s\n"
			"    bdev_list: [%s]\n"
			"    scm_mount: " SERVER_MOUNTS_DEFAULT "/engine%" PRIu64 "\n",
			device->class == STORAGE_CLASS_NVME ? "nvme" : "kdev", device->bytes, device->model[0] ? ", " : "",
			device->model, device->path, done);
		done++;
	}
	must(done == engines); /* that many are usable */
}

/* Whole devices that are not in use and could not be read: they may be free. */
static size_t count_not_read(const struct storage_scan *scan)
{
	size_t count = 0;

	for (size_t i = 0; i < scan->count; i++)
		count += storage_use(&scan->devices[i]) == STORAGE_USE_UNREADABLE && !scan->devices[i].parent[0];
	return count;
}

static int explain_too_few(const struct generate_options *options, const struct storage_scan *scan, uint64_t usable,
			   struct fathom_fault *why)
{
	uint32_t unread = (uint32_t)count_not_read(scan);
	char reason[FAULT_TEXT_BYTES_MAX];

	must(usable == 0 || usable < options->engines);
	if (unread == 0)
		return fault_config_nothing_found(why,
						  usable == 0 ? "free block device" : "free block device for each engine");
	if (options->unread)
		snprintf(reason, sizeof(reason), "%s", options->unread->text);
	else
		snprintf(reason, sizeof(reason), "%s", strerror(EACCES));
	return fault_config_devices_unread(why, unread, reason);
}

static int check_ports(const struct generate_options *options, uint64_t engines, struct fathom_fault *why)
{
	if (!options->fabric_ports || options->fabric_port_count >= engines)
		return 0;
	return fault(why, -EINVAL, "there are %" PRIu64 " engines, and %zu port%s for them: name one for each", engines,
		     options->fabric_port_count, options->fabric_port_count == 1 ? "" : "s");
}

static int print_engines_on(const struct generate_options *options, const struct network_interface *interface,
			    const struct storage_scan *scan, FILE *out, struct fathom_fault *why)
{
	uint64_t usable = count_usable(scan, options);
	int error;

	if (usable == 0 || usable < options->engines)
		return explain_too_few(options, scan, usable, why);
	if (options->engines)
		usable = options->engines;
	else if (usable > SERVER_ENGINES_MAX)
		usable = SERVER_ENGINES_MAX;
	must(usable > 0 && usable <= SERVER_ENGINES_MAX);
	error = check_ports(options, usable, why);
	if (error)
		return error;
	print_head(options, interface, out);
	print_devices(options, interface, scan, usable, out);
	return 0;
}

static int print_engines(const struct generate_options *options, const struct network_interface *interface,
			 struct provider *os, FILE *out, struct fathom_fault *why)
{
	const struct storage_scan_options all = { 0 };
	struct storage_scan scan;
	int error;

	if (options->folder) {
		error = check_ports(options, options->engines ? options->engines : 1, why);
		if (error)
			return error;
		print_head(options, interface, out);
		print_folders(options, interface, out);
		return 0;
	}
	if (options->devices)
		return print_engines_on(options, interface, options->devices, out, why);
	error = storage_scan(os, &all, &scan, why);
	if (error)
		return error;
	error = print_engines_on(options, interface, &scan, out, why);
	storage_scan_free(&scan);
	return error;
}

int server_config_generate(const struct generate_options *options, struct provider *os, FILE *out, struct fathom_fault *why)
{
	const struct network_interface *interface;
	struct network_scan scan;
	int error = network_scan(os, &scan, why);
	char wanted[128];

	if (error)
		return error;
	interface = find_interface(&scan, options->interface, options->net_class);
	snprintf(wanted, sizeof(wanted), "%s%sinterface%s with an address", options->net_class ? options->net_class : "",
		 options->net_class ? " " : "", options->interface ? " of that name" : "");
	if (!interface)
		error = fault_config_nothing_found(why, wanted);
	else
		error = print_engines(options, interface, os, out, why);
	network_scan_free(&scan);
	return error;
}
