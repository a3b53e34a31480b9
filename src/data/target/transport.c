/* SPDX-License-Identifier: BSD-2-Clause */
/* transport - registered transport types, created transports, and their listening addresses. */
#include <ctype.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "data/target/probes.gen.h"

enum { KIND_NAMES_BYTES = NVMF_TRANSPORTS_MAX * (NVMF_TRANSPORT_NAME_BYTES_MAX + 1) };

static const struct nvmf_transport_ops *kinds[NVMF_TRANSPORTS_MAX];
static unsigned int kind_count;
static struct nvmf_transport_options default_rules;

void nvmf_transport_options_init(struct nvmf_transport_options *options)
{
	*options = (struct nvmf_transport_options){
		.max_queue_depth = NVMF_QUEUE_ENTRIES_DEFAULT,
		.max_io_qpairs_per_ctrlr = 127,
		.in_capsule_data_size = 4096,
		.max_io_size = NVMF_IO_BYTES_DEFAULT,
		.max_aq_depth = NVMF_QUEUE_ENTRIES_DEFAULT,
		.iobuf_small_cache_size = UINT32_MAX,
		.iobuf_large_cache_size = UINT32_MAX,
		.c2h_success = true,
		.abort_timeout_sec = 1,
		.kas = 100,
		.min_kato = 10000,
	};
}

void nvmf_transport_register(const struct nvmf_transport_ops *ops)
{
	must(kind_count < NVMF_TRANSPORTS_MAX);
	must(ops->listen);
	must(ops->stop_listen);
	must(strlen(ops->name) < NVMF_TRANSPORT_NAME_BYTES_MAX);
	kinds[kind_count++] = ops;
}

void nvmf_transport_unregister_all(void)
{
	must(nvmf_tgt.transport_count == 0);
	kind_count = 0;
}

const struct nvmf_transport_options *nvmf_transport_rules(void)
{
	if (nvmf_tgt.transport_count > 0)
		return &nvmf_tgt.transports[0].options;
	if (default_rules.max_queue_depth == 0)
		nvmf_transport_options_init(&default_rules);
	return &default_rules;
}

/* ---- creation ---- */

static int check_options(const struct nvmf_transport_options *options, struct fathom_fault *why)
{
	if (options->max_queue_depth < 2 || options->max_queue_depth > NVMF_QUEUE_ENTRIES_MAX)
		return fault(why, -EINVAL, "max_queue_depth is %u; it must be 2 to %d", options->max_queue_depth,
			     NVMF_QUEUE_ENTRIES_MAX);
	if (options->max_aq_depth < NVME_FABRICS_ADMIN_QUEUE_ENTRIES_MIN ||
	    options->max_aq_depth > NVMF_ADMIN_QUEUE_ENTRIES_MAX)
		return fault(why, -EINVAL, "max_aq_depth is %u; it must be %d to %d", options->max_aq_depth,
			     NVME_FABRICS_ADMIN_QUEUE_ENTRIES_MIN, NVMF_ADMIN_QUEUE_ENTRIES_MAX);
	if (options->max_io_qpairs_per_ctrlr < 1 || options->max_io_qpairs_per_ctrlr == UINT16_MAX)
		return fault(why, -EINVAL, "max_io_qpairs_per_ctrlr is %u; it must be 1 to 65534",
			     options->max_io_qpairs_per_ctrlr);
	if (options->max_io_size < 4096 || options->max_io_size > NVMF_IO_BYTES_MAX ||
	    !is_power_of_two(options->max_io_size))
		return fault(why, -EINVAL, "max_io_size is %u; it must be a power of two from 4096 to %d",
			     options->max_io_size, NVMF_IO_BYTES_MAX);
	if (options->in_capsule_data_size > options->max_io_size ||
	    options->in_capsule_data_size > NVMF_IN_CAPSULE_BYTES_MAX || options->in_capsule_data_size % 16 != 0)
		return fault(why, -EINVAL,
			     "in_capsule_data_size is %u; it must be a multiple of 16 and at most %d and max_io_size, %u",
			     options->in_capsule_data_size, NVMF_IN_CAPSULE_BYTES_MAX, options->max_io_size);
	return 0;
}

struct creation {
	struct nvmf_transport *transport;
	nvmf_done_fn done;
	void *ctx;
};

static int group_add_transport(struct nvmf_poll_group *group, unsigned int index)
{
	struct nvmf_transport *transport = &nvmf_tgt.transports[index];
	int rc = 0;

	must_be_on(group->thread);
	must(index < nvmf_tgt.transport_count);
	if (group->transport_states[index] || !transport->ops->group_create)
		return 0;
	rc = transport->ops->group_create(transport->state, group, &group->transport_states[index]);
	if (rc == 0)
		probe_nvmf_transport_poll_group_create(reactor_now(), group, trace_intern(transport->ops->name),
						       thread_id(group->thread));
	return rc;
}

void nvmf_transport_groups_create(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct nvmf_poll_group *group = nvmf_group_of(channel);
	int rc = 0;

	for (unsigned int i = 0; i < nvmf_tgt.transport_count && rc == 0; i++)
		rc = group_add_transport(group, i);
	channel_iter_next(iter, rc);
}

static void creation_done(int status, void *ctx)
{
	struct creation *creation = ctx;
	struct fathom_fault why = { 0 };

	creation->transport->ready = status == 0;
	if (status)
		fill_fault(&why, status, "transport '%s' could not be made on a poll group: %s",
			   creation->transport->ops->name, strerror(-status));
	else
		probe_nvmf_tgt_add_transport(reactor_now(), trace_intern(creation->transport->ops->name),
					     trace_intern("nvmf_tgt"));
	creation->done(creation->ctx, status, &why);
	free(creation);
}

static const struct nvmf_transport_ops *kind_find(const char *name)
{
	for (unsigned int i = 0; i < kind_count; i++) {
		if (strcasecmp(kinds[i]->name, name) == 0)
			return kinds[i];
	}
	return NULL;
}

/* The registered types as text: "TCP". */
static const char *kind_names(char *text, size_t bytes)
{
	text[0] = '\0';
	for (unsigned int i = 0; i < kind_count; i++) {
		size_t used = strlen(text);

		snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", kinds[i]->name);
	}
	return text;
}

void nvmf_transport_create(const char *name, const struct nvmf_transport_options *options, nvmf_done_fn done, void *ctx)
{
	const struct nvmf_transport_ops *ops = kind_find(name);
	struct nvmf_transport *transport;
	struct creation *creation;
	char names[KIND_NAMES_BYTES];
	struct fathom_fault why = { 0 };
	int rc;

	must_be_on(thread_control());
	if (!ops) {
		nvmf_refuse(done, ctx, -EINVAL, "Invalid transport type '%s'; there is %s", name,
			    kind_names(names, sizeof(names)));
		return;
	}
	if (nvmf_transport_find(name)) {
		nvmf_refuse(done, ctx, -EEXIST, "Transport type '%s' already exists", ops->name);
		return;
	}
	must(nvmf_tgt.transport_count < NVMF_TRANSPORTS_MAX);
	transport = &nvmf_tgt.transports[nvmf_tgt.transport_count];
	*transport = (struct nvmf_transport){ .ops = ops, .options = *options };
	rc = check_options(options, &why);
	if (rc == 0 && ops->create)
		rc = ops->create(&transport->options, &transport->state, &why);
	if (rc) {
		transport->ops = NULL;
		done(ctx, rc, &why);
		return;
	}
	nvmf_tgt.transport_count++;
	creation = nvmf_alloc(sizeof(*creation));
	creation->transport = transport;
	creation->done = done;
	creation->ctx = ctx;
	for_each_channel(&nvmf_tgt, nvmf_transport_groups_create, creation_done, creation);
}

void nvmf_transports_destroy(void)
{
	for (unsigned int i = 0; i < nvmf_tgt.transport_count; i++) {
		struct nvmf_transport *transport = &nvmf_tgt.transports[i];

		if (transport->ops->destroy)
			transport->ops->destroy(transport->state);
		transport->ops = NULL;
	}
	nvmf_tgt.transport_count = 0;
}

struct nvmf_transport *nvmf_transport_find(const char *name)
{
	for (unsigned int i = 0; i < nvmf_tgt.transport_count; i++) {
		if (strcasecmp(nvmf_tgt.transports[i].ops->name, name) == 0)
			return &nvmf_tgt.transports[i];
	}
	return NULL;
}

struct nvmf_transport *nvmf_transport_first(void)
{
	return nvmf_tgt.transport_count > 0 ? &nvmf_tgt.transports[0] : NULL;
}

struct nvmf_transport *nvmf_transport_next(const struct nvmf_transport *transport)
{
	size_t index = (size_t)(transport - nvmf_tgt.transports) + 1;

	must(transport >= nvmf_tgt.transports);
	must(index <= nvmf_tgt.transport_count);
	return index < nvmf_tgt.transport_count ? &nvmf_tgt.transports[index] : NULL;
}

const char *nvmf_transport_name(const struct nvmf_transport *transport)
{
	return transport->ops->name;
}

const struct nvmf_transport_options *nvmf_transport_get_options(const struct nvmf_transport *transport)
{
	return &transport->options;
}

/* ---- addresses ---- */

int nvmf_address_normalise(struct nvmf_address *address, struct fathom_fault *why)
{
	const struct nvmf_transport_ops *ops = kind_find(address->trtype);
	bool ipv6 = strchr(address->traddr, ':') != NULL;
	uint8_t binary[sizeof(struct in6_addr)];
	char names[KIND_NAMES_BYTES];
	uint64_t port;

	if (!ops)
		return fault(why, -EINVAL, "Invalid transport type '%s'; there is %s", address->trtype,
			     kind_names(names, sizeof(names)));
	if (!nvmf_transport_find(address->trtype))
		return fault(why, -EINVAL, "Unable to find %s transport. The transport must be created first", ops->name);
	(void)text_copy(address->trtype, sizeof(address->trtype), ops->name); /* it fits: registered */
	if (address->adrfam[0] == '\0')
		(void)text_copy(address->adrfam, sizeof(address->adrfam), ipv6 ? "IPv6" : "IPv4"); /* fits */
	if (strcasecmp(address->adrfam, "IPv4") != 0 && strcasecmp(address->adrfam, "IPv6") != 0)
		return fault(why, -EINVAL, "adrfam \"%s\" is neither IPv4 nor IPv6", address->adrfam);
	ipv6 = strcasecmp(address->adrfam, "IPv6") == 0;
	(void)text_copy(address->adrfam, sizeof(address->adrfam), ipv6 ? "IPv6" : "IPv4"); /* fits */
	if (inet_pton(ipv6 ? AF_INET6 : AF_INET, address->traddr, binary) != 1)
		return fault(why, -EINVAL, "traddr \"%s\" is no %s address", address->traddr, address->adrfam);
	if (address->trsvcid[0] == '\0')
		return fault(why, -EINVAL, "trsvcid is missing: the TCP port, 1 to %d", UINT16_MAX);
	/* Connections are matched by the text, so each port must have exactly one spelling: no leading zeroes. */
	if (text_parse_u64(address->trsvcid, 10, UINT16_MAX, &port) != 0 || address->trsvcid[0] == '0')
		return fault(why, -EINVAL, "trsvcid \"%s\" is no port from 1 to %d", address->trsvcid, UINT16_MAX);
	return 0;
}

bool nvmf_address_equal(const struct nvmf_address *a, const struct nvmf_address *b)
{
	return strcasecmp(a->trtype, b->trtype) == 0 && strcasecmp(a->adrfam, b->adrfam) == 0 &&
	       strcasecmp(a->traddr, b->traddr) == 0 && strcmp(a->trsvcid, b->trsvcid) == 0;
}

/* ---- listening ---- */

static struct nvmf_listen *listen_find(const struct nvmf_address *address)
{
	struct nvmf_listen *listen;

	must_be_on(thread_control());
	TAILQ_FOREACH (listen, &nvmf_tgt.listens, link) {
		if (nvmf_address_equal(&listen->address, address))
			return listen;
	}
	return NULL;
}

const struct nvmf_listen *nvmf_listen_find(const struct nvmf_address *address)
{
	return listen_find(address);
}

static bool port_id_taken(uint16_t port_id)
{
	const struct nvmf_listen *listen;

	TAILQ_FOREACH (listen, &nvmf_tgt.listens, link) {
		if (listen->port_id == port_id)
			return true;
	}
	return false;
}

/*
 * The port id is a hash of the address (FNV-1a of its binary form), so it is the same after a restart and for every
 * spelling. If the id is in use by another address, the next free id is taken.
 */
static uint16_t choose_port_id(const struct nvmf_listen *listen)
{
	const struct nvmf_address *address = &listen->address;
	bool ipv6 = strcmp(address->adrfam, "IPv6") == 0;
	/* kind of transport, family, address, port */
	uint8_t bytes[2 + sizeof(struct in6_addr) + 2] = { listen->transport->ops->trtype, ipv6 };
	uint32_t hash = 0x811c9dc5;
	uint16_t port_id;
	uint64_t port;

	static_assert(NVMF_ADDRESSES_MAX < UINT16_MAX, "one is always free");
	must(nvmf_tgt.listen_count < NVMF_ADDRESSES_MAX);
	must(inet_pton(ipv6 ? AF_INET6 : AF_INET, address->traddr, bytes + 2) == 1);
	must(text_parse_u64(address->trsvcid, 10, UINT16_MAX, &port) == 0);
	bytes[sizeof(bytes) - 2] = (uint8_t)(port >> 8);
	bytes[sizeof(bytes) - 1] = (uint8_t)port;
	for (size_t i = 0; i < sizeof(bytes); i++)
		hash = (hash ^ bytes[i]) * 0x01000193;
	port_id = (uint16_t)(1 + hash % UINT16_MAX);
	while (port_id_taken(port_id))
		port_id = port_id == UINT16_MAX ? 1 : (uint16_t)(port_id + 1);
	must(port_id != NVME_DISCOVERY_PORTID_NONE);
	return port_id;
}

struct listen_change {
	struct nvmf_listen *listen;
	nvmf_done_fn done;
	void *ctx;
};

static struct listen_change *listen_change(struct nvmf_listen *listen, nvmf_done_fn done, void *ctx)
{
	struct listen_change *change = nvmf_alloc(sizeof(*change));

	change->listen = listen;
	change->done = done;
	change->ctx = ctx;
	return change;
}

static void listen_gone(struct nvmf_listen *listen)
{
	must(nvmf_tgt.listen_count > 0);
	TAILQ_REMOVE(&nvmf_tgt.listens, listen, link);
	nvmf_tgt.listen_count--;
	free(listen);
}

static void listen_added(void *ctx, int rc, const struct fathom_fault *why)
{
	struct listen_change *change = ctx;

	must_be_on(thread_control());
	must(change->listen->busy);
	must(change->listen->users == 1);
	change->listen->busy = false;
	if (rc)
		listen_gone(change->listen);
	change->done(change->ctx, rc, why);
	free(change);
}

void nvmf_listen_add(const struct nvmf_address *address, nvmf_done_fn done, void *ctx)
{
	struct nvmf_listen *listen = listen_find(address);
	const struct nvmf_transport_ops *ops;
	struct fathom_fault why = { 0 };

	if (listen && listen->busy) {
		nvmf_refuse(done, ctx, -EBUSY, "%s:%s is being opened or closed", address->traddr, address->trsvcid);
		return;
	}
	if (listen) {
		listen->users++;
		done(ctx, 0, &why);
		return;
	}
	if (nvmf_tgt.listen_count == NVMF_ADDRESSES_MAX) {
		nvmf_refuse(done, ctx, -ENOSPC, "the target listens at %d addresses already", NVMF_ADDRESSES_MAX);
		return;
	}
	listen = nvmf_alloc(sizeof(*listen));
	listen->address = *address;
	listen->transport = nvmf_transport_find(address->trtype);
	listen->users = 1;
	listen->busy = true;
	must(listen->transport);
	listen->port_id = choose_port_id(listen);
	ops = listen->transport->ops;
	TAILQ_INSERT_TAIL(&nvmf_tgt.listens, listen, link);
	nvmf_tgt.listen_count++;
	ops->listen(listen->transport->state, &listen->address, listen_added, listen_change(listen, done, ctx));
}

static void listen_removed(void *ctx, int rc, const struct fathom_fault *why)
{
	struct listen_change *change = ctx;

	must_be_on(thread_control());
	must(change->listen->busy);
	must(change->listen->users == 0);
	listen_gone(change->listen);
	change->done(change->ctx, rc, why);
	free(change);
}

void nvmf_listen_remove(const struct nvmf_address *address, nvmf_done_fn done, void *ctx)
{
	struct nvmf_listen *listen = listen_find(address);
	struct fathom_fault why = { 0 };

	must(listen);
	must(listen->users > 0);
	must(!listen->busy);
	if (--listen->users > 0) {
		done(ctx, 0, &why);
		return;
	}
	listen->busy = true;
	nvmf_discovery_changed();
	listen->transport->ops->stop_listen(listen->transport->state, &listen->address, listen_removed,
					    listen_change(listen, done, ctx));
}
