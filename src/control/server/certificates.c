/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * This server's certificates. They are loaded at the start and at SIGHUP, only if they are valid, and checked every hour:
 * events announce their expiry. Existing connections outlive an expired certificate; new connections fail.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "control/fault/fault.h"
#include "control/server/events/events.h"
#include "control/server/internal.h"
#include "control/status/certificate.h"

enum { CHECK_SECONDS = 3600 };

static struct grpc_tls_options tls_options(const struct server_transport *transport)
{
	return (struct grpc_tls_options){
		.ca = transport->ca_cert,
		.certificate = transport->cert,
		.key = transport->key,
		.with_tls12 = transport->allow_tls12,
	};
}

static int64_t now_s(void)
{
	return (int64_t)(clock_realtime_ns() / NS_PER_SEC);
}

int server_certificates_open(const struct server_transport *transport, struct grpc_tls **tls_ret, struct fathom_fault *why)
{
	const struct grpc_tls_options options = tls_options(transport);
	struct fathom_fault reason = { 0 };
	struct grpc_tls *tls;
	int error = grpc_tls_create(&options, &tls, &reason);

	if (error)
		return fault_from_tls(&options, error, &reason, why);
	error = certificate_check(tls, now_s(), why);
	if (error)
		grpc_tls_destroy(tls);
	else
		*tls_ret = tls;
	return error;
}

/* Raise an event for each certificate that has reached its next stage. */
static void announce_expiry(struct server_frame *frame, int64_t at_s)
{
	struct grpc_life lives[2];
	char date[CERTIFICATE_DATE_BYTES];

	must(frame->tls);
	static_assert(ARRAY_COUNT(lives) == ARRAY_COUNT(frame->certificate_stages), "each is watched");
	grpc_tls_lives(frame->tls, lives);
	for (size_t i = 0; i < ARRAY_COUNT(lives); i++) {
		int stage = certificate_step(&frame->certificate_stages[i], at_s, lives[i].ends_s);

		must(stage == CERTIFICATE_NOT_NEAR || stage == CERTIFICATE_OVER || stage > 0);
		certificate_date(lives[i].ends_s, date);
		if (stage == CERTIFICATE_OVER)
			server_raise_operation(&frame->server, RAS_CERTIFICATE_EXPIRED, NULL, NULL,
					       "a certificate expired on %s: %s", date, lives[i].path);
		else if (stage != CERTIFICATE_NOT_NEAR)
			server_raise_operation(&frame->server, RAS_CERTIFICATE_EXPIRES, NULL, NULL,
					       "a certificate expires in %d day%s or less, on %s: %s", stage,
					       stage == 1 ? "" : "s", date, lives[i].path);
	}
}

static void check_certificates(struct deadline *deadline)
{
	struct server_frame *frame = container_of(deadline, struct server_frame, certificate_due);

	must(!frame->certificate_due.set);
	announce_expiry(frame, now_s());
	deadline_set(&frame->server.deadlines, &frame->certificate_due, CHECK_SECONDS * NS_PER_SEC, check_certificates);
}

void certificates_watch(struct server_frame *frame)
{
	for (size_t i = 0; i < ARRAY_COUNT(frame->certificate_stages); i++)
		frame->certificate_stages[i] = CERTIFICATE_NOT_NEAR;
	if (frame->tls)
		check_certificates(&frame->certificate_due);
}

static int reload_files(struct server_frame *frame, struct fathom_fault *why)
{
	const struct server_transport *transport = &frame->server.config->transport;
	const struct grpc_tls_options options = tls_options(transport);
	struct fathom_fault reason = { 0 };
	struct grpc_tls *valid;
	int error = server_certificates_open(transport, &valid, why);

	must(frame->tls);
	if (error)
		return error;
	grpc_tls_destroy(valid);
	error = grpc_tls_reload(frame->tls, &reason);
	return error ? fault_from_tls(&options, error, &reason, why) : 0;
}

void certificates_reload(struct server_frame *frame)
{
	struct server *server = &frame->server;
	struct fathom_fault why = { 0 };
	uint32_t changes;

	if (!frame->tls)
		return;
	changes = grpc_tls_changes(frame->tls);
	if (reload_files(frame, &why) != 0) {
		server_log_fault(LOG_LEVEL_ERROR, "the certificates stay as they were", &why);
		return;
	}
	log_notice("the certificates have been read again");
	if (grpc_tls_changes(frame->tls) == changes)
		return;
	log_notice("they have changed: connections with the old ones are drained");
	server_raise_operation(server, RAS_CERTIFICATES_CHANGED, NULL, NULL, "certificates were replaced: %s",
			       server->config->transport.cert);
	announce_expiry(frame, now_s());
	grpc_server_renew(frame->grpc);
	if (frame->local_grpc)
		grpc_server_renew(frame->local_grpc);
	grpc_client_renew(server->client);
	telemetry_renew(frame);
}
