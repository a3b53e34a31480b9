/* SPDX-License-Identifier: BSD-2-Clause */
/* ConfigGenerate: generates a configuration for this host on a worker thread, and checks it before it is sent. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/fault/fault.h"
#include "control/server/config/generate.h"
#include "base/reactor/worker.h"
#include "control/server/host/device_labels.h"
#include "control/server/host/host.h"
#include "control/status/status.h"
#include "rpc/proto/fathom.pb-c.h"

struct proposal {
	struct worker_job job;
	struct server *server;
	struct grpc_call *call; /* `request` lives until this call is answered */
	const Fathom__ConfigGenerateReq *request;
	struct storage_scan devices;
	struct fathom_fault unread; /* why the helper could not read some devices */
	char *text;
	struct fathom_fault why; /* error 0: `text` is valid */
};

static const char *null_if_empty(const char *text)
{
	return text[0] ? text : NULL;
}

static int generate_config(struct proposal *proposal, FILE *out, struct fathom_fault *why)
{
	const Fathom__ConfigGenerateReq *request = proposal->request;
	struct generate_options options = {
		.name = proposal->server->config->name,
		.replica = null_if_empty(request->replica),
		.interface = null_if_empty(request->interface),
		.net_class = null_if_empty(request->net_class),
		.metadata = null_if_empty(request->metadata),
		.fabric_ports = request->n_fabric_ports ? request->fabric_ports : NULL,
		.fabric_port_count = request->n_fabric_ports,
		.folder = null_if_empty(request->folder),
		.folder_bytes = request->folder_bytes,
		.engines = request->engines,
		.port = request->port ? request->port : SERVER_PORT_DEFAULT,
		.with_loop = request->with_loop,
		.is_insecure = request->insecure,
		.devices = null_if_empty(request->folder) ? NULL : &proposal->devices,
		.unread = proposal->unread.error ? &proposal->unread : NULL,
	};

	must(request->engines <= SERVER_ENGINES_MAX);
	must(options.port <= UINT16_MAX);
	return server_config_generate(&options, proposal->server->os, out, why);
}

static void generate_and_check(struct worker_job *job)
{
	struct proposal *proposal = container_of(job, struct proposal, job);
	struct server_config config;
	size_t bytes = 0;
	FILE *out = open_memstream(&proposal->text, &bytes);
	int error;

	if (!out) {
		proposal->why.error = fault(&proposal->why, -ENOMEM, "out of memory");
		return;
	}
	error = generate_config(proposal, out, &proposal->why);
	if (fclose(out) != 0 && !error)
		error = fault(&proposal->why, -ENOMEM, "out of memory");
	if (!error)
		error = server_config_read_text("what was generated", proposal->text, bytes, &config, &proposal->why);
	if (!error)
		server_config_free(&config);
	proposal->why.error = error;
}

static void reply_proposal(struct worker_job *job)
{
	struct proposal *proposal = container_of(job, struct proposal, job);
	Fathom__ConfigGenerateResp answer = FATHOM__CONFIG_GENERATE_RESP__INIT;

	must(proposal->call);
	must(proposal->text || proposal->why.error);
	must(proposal->why.error <= 0);
	server_job_end(proposal->server);
	if (proposal->why.error) {
		call_fail(proposal->call, &proposal->why);
	} else {
		answer.text = proposal->text;
		grpc_reply(proposal->call, &answer.base);
	}
	storage_scan_free(&proposal->devices);
	free(proposal->text);
	free(proposal);
}

/* ---- first the devices: the helper reads those that the server's user may not read ---- */

static void find_devices(struct worker_job *job)
{
	struct proposal *proposal = container_of(job, struct proposal, job);
	const struct storage_scan_options all = { 0 };

	proposal->why.error = storage_scan(proposal->server->os, &all, &proposal->devices, &proposal->why);
}

static void start_generating(void *ctx)
{
	struct proposal *proposal = ctx;
	int error;

	must(!proposal->text);
	must(proposal->why.error == 0);
	proposal->job = (struct worker_job){ .work = generate_and_check, .done = reply_proposal };
	error = worker_start(&proposal->job);
	if (!error)
		return;
	proposal->why.error = fault(&proposal->why, error, "a worker thread cannot be started: %s", strerror(-error));
	reply_proposal(&proposal->job);
}

static void on_devices_found(struct worker_job *job)
{
	struct proposal *proposal = container_of(job, struct proposal, job);

	must(proposal->call);
	must(proposal->why.error <= 0);
	if (proposal->why.error)
		reply_proposal(job);
	else
		device_labels_read(proposal->server, &proposal->devices, &proposal->unread, start_generating, proposal);
}

void call_config_generate(struct grpc_call *call, const ProtobufCMessage *message)
{
	const Fathom__ConfigGenerateReq *request = (const Fathom__ConfigGenerateReq *)message;
	struct server *server = server_of(call);
	struct proposal *proposal;
	struct fathom_fault why;
	int error;

	if (!server_is_addressed(server, call, request->sys))
		return;
	if (request->engines > SERVER_ENGINES_MAX || request->port > UINT16_MAX) {
		why.error = fault(&why, -EINVAL, "a configuration has at most %d engines, and a port at most %d",
				  SERVER_ENGINES_MAX, UINT16_MAX);
		call_fail(call, &why);
		return;
	}
	proposal = calloc(1, sizeof(*proposal));
	if (!proposal) {
		why.error = fault(&why, -ENOMEM, "out of memory");
		call_fail(call, &why);
		return;
	}
	*proposal = (struct proposal){ .job = { .work = find_devices, .done = on_devices_found },
				       .server = server,
				       .call = call,
				       .request = request };
	if (request->folder[0])
		proposal->job = (struct worker_job){ .work = generate_and_check, .done = reply_proposal };
	error = worker_start(&proposal->job);
	if (error) {
		free(proposal);
		why.error = fault(&why, error, "a worker thread cannot be started: %s", strerror(-error));
		call_fail(call, &why);
		return;
	}
	server_job_begin(server);
}
