/* SPDX-License-Identifier: BSD-2-Clause */
/* VALIDATE_CREDS: an engine asks whether an agent of this system made a user's credential. The token comes back if so. */
#include <errno.h>

#include "base/clock.h"
#include "base/log_limit.h"
#include "base/log.h"
#include "control/credential/credential.h"
#include "control/server/internal.h"
#include "rpc/proto/security.pb-c.h"

enum { LINES_AT_ONCE = 5 };
/* DAOS's numbers of errors */
enum { STATUS_NO_PERMISSION = -1001, STATUS_INVALID = -1003, STATUS_NO_CERTIFICATE = -1005 };

static int status_of(int error)
{
	switch (error) {
	case 0:
		return 0;
	case -EINVAL:
		return STATUS_INVALID;
	case -ENOENT:
		return STATUS_NO_CERTIFICATE;
	default:
		return STATUS_NO_PERMISSION;
	}
}

void call_validate_credentials(struct drpc_call *call, const ProtobufCMessage *message)
{
	static struct log_limit limit = LOG_LIMIT(LINES_AT_ONCE, NS_PER_SEC);
	const Auth__ValidateCredReq *request = (const Auth__ValidateCredReq *)message;
	const struct server *server = drpc_call_ctx(call);
	const struct server_transport *transport = &server->config->transport;
	const struct credential_rules rules = {
		.is_insecure = transport->allow_insecure,
		.folder = transport->client_cert_dir,
		.ca = transport->ca_cert,
		.now_s = (int64_t)(clock_realtime_ns() / NS_PER_SEC),
	};
	Auth__ValidateCredResp response = AUTH__VALIDATE_CRED_RESP__INIT;
	struct fathom_fault why = { 0 };
	int error = -EINVAL;

	if (request->cred)
		error = credential_verify(request->cred, &rules, &why);
	response.status = status_of(error);
	if (error)
		log_line_limited(&limit, clock_monotonic_ns(), LOG_LEVEL_WARNING, "a credential was refused: %s",
				 request->cred ? why.text : "there is none");
	else
		response.token = request->cred->token;
	drpc_reply(call, &response.base);
}
