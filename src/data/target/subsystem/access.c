/* SPDX-License-Identifier: BSD-2-Clause */
/* access - the hosts that may use a subsystem, and its listeners. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "data/target/controller/controller.h"
#include "data/target/probes.gen.h"

/* ---- hosts ---- */

struct host_op {
	struct nvmf_subsystem_op op; /* first */
	char nqn[NVME_NQN_FIELD_BYTES];
	struct nvmf_subsystem *subsystem;
	bool allow;
	nvmf_done_fn done;
	void *ctx;
};

static struct nvmf_host *host_find(const struct nvmf_subsystem *subsystem, const char *nqn)
{
	struct nvmf_host *host;

	TAILQ_FOREACH (host, &subsystem->hosts, link) {
		if (strcmp(host->nqn, nqn) == 0)
			return host;
	}
	return NULL;
}

bool nvmf_subsystem_host_allowed(const struct nvmf_subsystem *subsystem, const char *host_nqn)
{
	return subsystem->options.allow_any_host || host_find(subsystem, host_nqn) != NULL;
}

const char *nvmf_subsystem_host_at(const struct nvmf_subsystem *subsystem, unsigned int index)
{
	const struct nvmf_host *host;

	TAILQ_FOREACH (host, &subsystem->hosts, link) {
		if (index-- == 0)
			return host->nqn;
	}
	return NULL;
}

void nvmf_subsystem_each_connection(const struct nvmf_subsystem *subsystem,
				    void (*fn)(void *ctx, const struct nvmf_connection *connection), void *ctx)
{
	const struct nvmf_ctrlr *ctrlr;

	must_be_on(thread_control());
	TAILQ_FOREACH (ctrlr, &subsystem->ctrlrs, link)
		fn(ctx, &(struct nvmf_connection){ .host_nqn = ctrlr->host_nqn,
						   .peer_address = ctrlr->peer_address,
						   .connected_ns = ctrlr->connected_ns });
}

static struct host_op *host_op_create(const char *nqn, nvmf_done_fn done, void *ctx)
{
	struct host_op *op = nvmf_op_create(sizeof(*op), NVMF_OP_ACCESS, done, ctx);

	(void)text_copy(op->nqn, sizeof(op->nqn),
			nqn); /* if cut: add rejected it as invalid before, remove does not find it */
	return op;
}

static int add_host_apply(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	struct host_op *change = container_of(op, struct host_op, op);
	unsigned int count = 0;
	struct nvmf_host *host;

	if (host_find(subsystem, change->nqn))
		return fault(&op->why, -EEXIST, "host '%s' is allowed already", change->nqn);
	TAILQ_FOREACH (host, &subsystem->hosts, link)
		count++;
	if (count == NVMF_HOSTS_MAX)
		return fault(&op->why, -ENOSPC, "subsystem '%s' allows %d hosts already", subsystem->options.nqn,
			     NVMF_HOSTS_MAX);
	host = nvmf_alloc(sizeof(*host));
	memcpy(host->nqn, change->nqn, sizeof(host->nqn));
	TAILQ_INSERT_TAIL(&subsystem->hosts, host, link);
	probe_nvmf_subsystem_add_host(reactor_now(), subsystem->nqn_istr, trace_intern(host->nqn));
	nvmf_discovery_changed();
	return 0;
}

void nvmf_subsystem_add_host(const char *nqn, const char *host_nqn, nvmf_done_fn done, void *ctx)
{
	struct nvmf_subsystem *subsystem = nvmf_subsystem_or_refuse(nqn, done, ctx);
	struct host_op *op;

	if (!subsystem)
		return;
	if (!nvmf_nqn_valid(host_nqn)) {
		nvmf_refuse(done, ctx, -EINVAL, "'%s' is no NQN", host_nqn);
		return;
	}
	op = host_op_create(host_nqn, done, ctx);
	op->op.apply = add_host_apply;
	nvmf_op_submit(subsystem, &op->op);
}

static int remove_host_apply(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	struct host_op *change = container_of(op, struct host_op, op);
	struct nvmf_host *host = host_find(subsystem, change->nqn);

	if (!host)
		return fault(&op->why, -ENOENT, "host '%s' is not allowed anyway", change->nqn);
	TAILQ_REMOVE(&subsystem->hosts, host, link);
	free(host);
	probe_nvmf_subsystem_remove_host(reactor_now(), subsystem->nqn_istr, trace_intern(change->nqn));
	nvmf_discovery_changed();
	return 0;
}

static bool is_of_host(const struct nvmf_ctrlr *ctrlr, const void *what)
{
	return strcmp(ctrlr->host_nqn, what) == 0;
}

struct host_leaving {
	nvmf_done_fn done;
	void *ctx;
	char nqn[NVME_NQN_FIELD_BYTES];
};

static void report_host_removed(void *ctx)
{
	struct host_leaving *leaving = ctx;
	struct fathom_fault why = { 0 };

	leaving->done(leaving->ctx, 0, &why);
	free(leaving);
}

/* The operation ends before the host's connections are closed, so that it does not block other operations. */
static void remove_host_finish(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	struct host_op *change = container_of(op, struct host_op, op);
	struct host_leaving *leaving;

	if (op->rc || nvmf_subsystem_host_allowed(subsystem, change->nqn)) {
		op->done(op->ctx, op->rc, &op->why);
		return;
	}
	leaving = nvmf_alloc(sizeof(*leaving));
	leaving->done = op->done;
	leaving->ctx = op->ctx;
	memcpy(leaving->nqn, change->nqn, sizeof(leaving->nqn));
	nvmf_subsystem_drop_ctrlrs(subsystem, is_of_host, leaving->nqn, "the host may no longer use the subsystem",
				   report_host_removed, leaving);
}

void nvmf_subsystem_remove_host(const char *nqn, const char *host_nqn, nvmf_done_fn done, void *ctx)
{
	struct nvmf_subsystem *subsystem = nvmf_subsystem_or_refuse(nqn, done, ctx);
	struct host_op *op;

	if (!subsystem)
		return;
	op = host_op_create(host_nqn, done, ctx);
	op->op.apply = remove_host_apply;
	op->op.finish = remove_host_finish;
	nvmf_op_submit(subsystem, &op->op);
}

static int allow_apply(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	subsystem->options.allow_any_host = container_of(op, struct host_op, op)->allow;
	nvmf_discovery_changed();
	return 0;
}

void nvmf_subsystem_set_allow_any_host(const char *nqn, bool allow, nvmf_done_fn done, void *ctx)
{
	struct nvmf_subsystem *subsystem = nvmf_subsystem_or_refuse(nqn, done, ctx);
	struct host_op *op;

	if (!subsystem)
		return;
	op = host_op_create("", done, ctx);
	op->op.apply = allow_apply;
	op->allow = allow;
	nvmf_op_submit(subsystem, &op->op);
}

/* ---- listeners ---- */

struct listener_op {
	struct nvmf_subsystem_op op; /* first */
	struct nvmf_address address;
	struct nvmf_listener_options options;
};

/* An operation on a listener that waits for the transport, or for connections to close. */
struct listener_end {
	struct nvmf_subsystem *subsystem;
	struct nvmf_subsystem_op *op;
	struct nvmf_address address;
	nvmf_done_fn done;
	void *ctx;
};

static uint32_t trtype_number(const struct nvmf_address *address)
{
	return nvmf_transport_find(address->trtype)->ops->trtype;
}

static struct nvmf_listener *listener_find(const struct nvmf_subsystem *subsystem, const struct nvmf_address *address)
{
	struct nvmf_listener *listener;

	TAILQ_FOREACH (listener, &subsystem->listeners, link) {
		if (nvmf_address_equal(&listener->address, address))
			return listener;
	}
	return NULL;
}

const struct nvmf_address *nvmf_subsystem_listener_at(const struct nvmf_subsystem *subsystem, unsigned int index)
{
	const struct nvmf_listener *listener;

	TAILQ_FOREACH (listener, &subsystem->listeners, link) {
		if (index-- == 0)
			return &listener->address;
	}
	return NULL;
}

static bool address_serves(const struct nvmf_address *address, const char *local_address, const char *local_service)
{
	bool any = strcmp(address->traddr, "0.0.0.0") == 0 || strcmp(address->traddr, "::") == 0;

	return strcmp(address->trsvcid, local_service) == 0 && (any || strcasecmp(address->traddr, local_address) == 0);
}

bool nvmf_subsystem_serves(const struct nvmf_subsystem *subsystem, const char *address, const char *service)
{
	const struct nvmf_listener *listener;

	if (subsystem->type == NVMF_SUBSYSTEM_DISCOVERY)
		return true;
	TAILQ_FOREACH (listener, &subsystem->listeners, link) {
		if (address_serves(&listener->address, address, service))
			return true;
	}
	return false;
}

static int add_listener_apply(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	struct listener_op *change = container_of(op, struct listener_op, op);
	struct nvmf_listener *listener;
	unsigned int count = 0;

	if (listener_find(subsystem, &change->address))
		return fault(&op->why, -EEXIST, "Listener already exists");
	TAILQ_FOREACH (listener, &subsystem->listeners, link)
		count++;
	if (count == NVMF_LISTENERS_MAX)
		return fault(&op->why, -ENOSPC, "subsystem '%s' has %d listeners already", subsystem->options.nqn,
			     NVMF_LISTENERS_MAX);
	listener = nvmf_alloc(sizeof(*listener));
	listener->address = change->address;
	listener->options = change->options;
	TAILQ_INSERT_TAIL(&subsystem->listeners, listener, link);
	return 0;
}

static void listen_added(void *ctx, int rc, const struct fathom_fault *why)
{
	struct listener_end *end = ctx;
	struct nvmf_subsystem *subsystem = end->subsystem;
	struct nvmf_listener *listener = listener_find(subsystem, &end->address);

	must(listener);
	must(subsystem->access.op == end->op);
	must(rc <= 0);
	end->op->rc = rc;
	if (rc) {
		end->op->why = *why;
		TAILQ_REMOVE(&subsystem->listeners, listener, link);
		free(listener);
	} else {
		listener->listen = nvmf_listen_find(&end->address);
		must(listener->listen);
		probe_nvmf_subsystem_add_listener(reactor_now(), subsystem->nqn_istr, trtype_number(&end->address),
						  trace_intern(end->address.traddr), trace_intern(end->address.trsvcid),
						  listener->listen->port_id);
		nvmf_discovery_changed();
	}
	nvmf_op_end(subsystem, end->op);
	free(end);
}

typedef void (*listen_fn)(const struct nvmf_address *address, nvmf_done_fn done, void *ctx);

/* The list of listeners has changed: let the transport open or close the address. If apply() failed, end the operation. */
static void change_listen(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op, listen_fn change_transport,
			  nvmf_done_fn done)
{
	struct listener_op *change = container_of(op, struct listener_op, op);
	struct listener_end *end;

	if (op->rc) {
		nvmf_op_end(subsystem, op);
		return;
	}
	end = nvmf_alloc(sizeof(*end));
	end->subsystem = subsystem;
	end->op = op;
	end->address = change->address;
	change_transport(&end->address, done, end);
}

static void add_listener_after(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	change_listen(subsystem, op, nvmf_listen_add, listen_added);
}

/* Create an operation with the normalised address. NULL: the address is invalid, and done() was called. */
static struct listener_op *listener_op_create(const struct nvmf_address *address, nvmf_done_fn done, void *ctx)
{
	struct listener_op *op = nvmf_op_create(sizeof(*op), NVMF_OP_ACCESS, done, ctx);
	struct fathom_fault why = { 0 };
	int rc;

	op->address = *address;
	rc = nvmf_address_normalise(&op->address, &why);
	if (rc) {
		free(op);
		done(ctx, rc, &why);
		return NULL;
	}
	return op;
}

void nvmf_subsystem_add_listener(const char *nqn, const struct nvmf_address *address,
				 const struct nvmf_listener_options *options, nvmf_done_fn done, void *ctx)
{
	struct nvmf_subsystem *subsystem = nvmf_subsystem_or_refuse(nqn, done, ctx);
	struct listener_op *op;

	if (!subsystem)
		return;
	op = listener_op_create(address, done, ctx);
	if (!op)
		return;
	if (options)
		op->options = *options;
	op->op.apply = add_listener_apply;
	op->op.after = add_listener_after;
	nvmf_op_submit(subsystem, &op->op);
}

static int remove_listener_apply(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	struct listener_op *change = container_of(op, struct listener_op, op);
	struct nvmf_listener *listener = listener_find(subsystem, &change->address);

	if (!listener)
		return fault(&op->why, -ENOENT, "Unable to find listener %s:%s", change->address.traddr,
			     change->address.trsvcid);
	must(listener->listen); /* operations run one at a time, so its addition has ended */
	TAILQ_REMOVE(&subsystem->listeners, listener, link);
	free(listener);
	probe_nvmf_subsystem_remove_listener(reactor_now(), subsystem->nqn_istr, trtype_number(&change->address),
					     trace_intern(change->address.traddr), trace_intern(change->address.trsvcid));
	nvmf_discovery_changed();
	return 0;
}

static bool is_at_listener(const struct nvmf_ctrlr *ctrlr, const void *what)
{
	return address_serves(what, ctrlr->local_address, ctrlr->local_service);
}

static void connections_left(void *ctx)
{
	struct listener_end *end = ctx;
	struct fathom_fault why = { 0 };

	end->done(end->ctx, 0, &why);
	free(end);
}

static void remove_listener_finish(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	struct listener_op *change = container_of(op, struct listener_op, op);
	struct listener_end *end;

	if (op->rc) {
		op->done(op->ctx, op->rc, &op->why);
		return;
	}
	end = nvmf_alloc(sizeof(*end));
	end->address = change->address;
	end->done = op->done;
	end->ctx = op->ctx;
	nvmf_subsystem_drop_ctrlrs(subsystem, is_at_listener, &end->address, "the listener was removed", connections_left,
				   end);
}

static void listen_removed(void *ctx, int rc, const struct fathom_fault *why)
{
	struct listener_end *end = ctx;

	must_be_on(thread_control());
	must(end->subsystem->access.op == end->op);
	must(rc <= 0);
	end->op->rc = rc;
	end->op->why = *why;
	nvmf_op_end(end->subsystem, end->op);
	free(end);
}

static void remove_listener_after(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	change_listen(subsystem, op, nvmf_listen_remove, listen_removed);
}

void nvmf_subsystem_remove_listener(const char *nqn, const struct nvmf_address *address, nvmf_done_fn done, void *ctx)
{
	struct nvmf_subsystem *subsystem = nvmf_subsystem_or_refuse(nqn, done, ctx);
	struct listener_op *op;

	if (!subsystem)
		return;
	op = listener_op_create(address, done, ctx);
	if (!op)
		return;
	op->op.apply = remove_listener_apply;
	op->op.after = remove_listener_after;
	op->op.finish = remove_listener_finish;
	nvmf_op_submit(subsystem, &op->op);
}

/* ---- removing all listeners of a subsystem ---- */

struct silencing {
	struct nvmf_subsystem *subsystem;
	void (*done)(void *ctx);
	void *ctx;
};

static void listener_removed(void *ctx, int rc, const struct fathom_fault *why);

static void remove_next_listener(void *ctx)
{
	struct silencing *silencing = ctx;
	struct nvmf_listener *listener = TAILQ_FIRST(&silencing->subsystem->listeners);
	struct nvmf_address address;

	must_be_on(thread_control());
	must(silencing->subsystem->destroying);
	if (!listener) {
		silencing->done(silencing->ctx);
		free(silencing);
		return;
	}
	must(listener->listen);
	address = listener->address;
	TAILQ_REMOVE(&silencing->subsystem->listeners, listener, link);
	free(listener);
	nvmf_listen_remove(&address, listener_removed, silencing);
}

/* Called as the `done` of an empty ACCESS operation, so all earlier operations on listeners have ended. */
static void remove_first_listener(void *ctx, int rc, const struct fathom_fault *why)
{
	must(rc == 0);
	remove_next_listener(ctx);
}

static void listener_removed(void *ctx, int rc, const struct fathom_fault *why)
{
	maybe(rc != 0); /* ignored: the subsystem is no longer served at an address that could not be closed */
	/* One turn per listener: the calls may end at once, and recursion over many listeners would overflow the stack. */
	thread_send_msg(thread_control(), remove_next_listener, ctx);
}

void nvmf_subsystem_stop_listening(struct nvmf_subsystem *subsystem, void (*done)(void *ctx), void *ctx)
{
	struct silencing *silencing = nvmf_alloc(sizeof(*silencing));

	must(subsystem->state == NVMF_SUBSYSTEM_INACTIVE);
	must(subsystem->destroying);
	silencing->subsystem = subsystem;
	silencing->done = done;
	silencing->ctx = ctx;
	nvmf_op_submit(subsystem,
		       nvmf_op_create(sizeof(struct nvmf_subsystem_op), NVMF_OP_ACCESS, remove_first_listener, silencing));
}
