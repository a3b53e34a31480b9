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
#include "control/server/core/core.h"
#include "control/status/certificate.h"

enum { LOOK_SECONDS = 3600 };

static struct grpc_tls_options options_of(const struct server_transport *transport)
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
	const struct grpc_tls_options options = options_of(transport);
	struct fathom_fault said = { 0 };
	struct grpc_tls *tls;
	int error = grpc_tls_create(&options, &tls, &said);

	if (error)
		return fault_from_tls(&options, error, &said, why);
	error = certificate_check(tls, now_s(), why);
	if (error)
		grpc_tls_destroy(tls);
	else
		*tls_ret = tls;
	return error;
}

static void check_certificates_now(struct deadline *deadline)
{
	struct server *server = container_of(deadline, struct server, certificate_due);

	server_look_at_certificates(server, now_s());
	deadline_set(&server->deadlines, &server->certificate_due, LOOK_SECONDS * NS_PER_SEC, check_certificates_now);
}

void server_look_at_certificates(struct server *server, int64_t at_s)
{
	struct grpc_life lives[2];
	char date[CERTIFICATE_DATE_BYTES];

	static_assert(ARRAY_COUNT(lives) == ARRAY_COUNT(server->certificate_told), "each is watched");
	grpc_tls_lives(server->tls, lives);
	for (size_t i = 0; i < ARRAY_COUNT(lives); i++) {
		int stage = certificate_step(&server->certificate_told[i], at_s, lives[i].ends_s);

		certificate_date(lives[i].ends_s, date);
		if (stage == CERTIFICATE_OVER)
			server_tell(server, RAS_CERTIFICATE_EXPIRED, NULL, NULL, "a certificate expired on %s: %s", date,
				    lives[i].path);
		else if (stage != CERTIFICATE_NOT_NEAR)
			server_tell(server, RAS_CERTIFICATE_EXPIRES, NULL, NULL,
				    "a certificate expires in %d day%s or less, on %s: %s", stage, stage == 1 ? "" : "s",
				    date, lives[i].path);
	}
}

void server_watch_certificates(struct server *server)
{
	for (size_t i = 0; i < ARRAY_COUNT(server->certificate_told); i++)
		server->certificate_told[i] = CERTIFICATE_NOT_NEAR;
	if (server->tls)
		check_certificates_now(&server->certificate_due);
}

void server_reload(struct server *server)
{
	const struct server_transport *transport = &server->config->transport;
	const struct grpc_tls_options options = options_of(transport);
	struct grpc_tls *fresh;
	struct fathom_fault said = { 0 }, why = { 0 };
	uint32_t changes;
	int error;

	if (!server->tls)
		return;
	changes = grpc_tls_changes(server->tls);
	error = server_certificates_open(transport, &fresh, &why);
	if (!error) {
		grpc_tls_destroy(fresh);
		error = grpc_tls_reload(server->tls, &said);
		if (error)
			error = fault_from_tls(&options, error, &said, &why);
	}
	if (error) {
		server_log_fault(LOG_LEVEL_ERROR, "the certificates stay as they were", &why);
		return;
	}
	log_notice("the certificates have been read again");
	if (grpc_tls_changes(server->tls) == changes)
		return;
	log_notice("they have changed: connections with the old ones are drained");
	server_tell(server, RAS_CERTIFICATES_CHANGED, NULL, NULL, "certificates were replaced: %s", transport->cert);
	server_look_at_certificates(server, now_s());
	grpc_server_renew(server->grpc);
	grpc_client_renew(server->client);
}
