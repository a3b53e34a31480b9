/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/target/controller/host_log.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "data/nvme/names.h"
#include "base/observe/trace/points.gen.h"

enum { LINES_AT_ONCE = 20, REFUSAL_BYTES = 160 };

/*
 * Control thread only. One limit per kind, so that hosts that reconnect often do not suppress lines about rejected hosts.
 */
static struct log_limit connected_limit = LOG_LIMIT(LINES_AT_ONCE, NS_PER_SEC),
			left_limit = LOG_LIMIT(LINES_AT_ONCE, NS_PER_SEC),
			refused_limit = LOG_LIMIT(LINES_AT_ONCE, NS_PER_SEC);

static uint64_t now_ns(void)
{
	must_be_on(thread_control());
	return clock_ns_from_ticks(reactor_now());
}

/* Replace bytes that are not printable ASCII in a name that a host chose. */
static const char *printable_host_name(const char *name, char to[static NVME_NQN_FIELD_BYTES])
{
	size_t i;

	for (i = 0; name[i] && i < NVME_NQN_FIELD_BYTES - 1; i++)
		to[i] = name[i] >= ' ' && name[i] <= '~' ? name[i] : '?';
	to[i] = '\0';
	return to;
}

static enum log_level level_of(const struct nvmf_ctrlr *ctrlr)
{
	return ctrlr->discovery ? LOG_LEVEL_INFO : LOG_LEVEL_NOTICE;
}

/* ---- log_connected, disconnected ---- */

/* The controller still exists: the message that removes it is sent later by the same thread. */
static void log_connected(void *ctx)
{
	const struct nvmf_ctrlr *ctrlr = ctx;
	char name[NVME_NQN_FIELD_BYTES];

	log_line_limited(&connected_limit, now_ns(), level_of(ctrlr), "host %s at %s connected to %s: controller %u",
			 printable_host_name(ctrlr->host_nqn, name), ctrlr->peer_address, ctrlr->subsystem->options.nqn,
			 ctrlr->cntlid);
}

void nvmf_host_log_connected(struct nvmf_ctrlr *ctrlr)
{
	must_be_on(ctrlr->group->thread);
	thread_send_msg(thread_control(), log_connected, ctrlr);
}

void nvmf_host_log_left(const struct nvmf_ctrlr *ctrlr)
{
	char name[NVME_NQN_FIELD_BYTES];

	nvmf_account_left(ctrlr->subsystem->nqn_istr, ctrlr->host_istr, ctrlr->end_reason);
	log_line_limited(&left_limit, now_ns(), level_of(ctrlr), "host %s at %s left %s, controller %u: %s",
			 printable_host_name(ctrlr->host_nqn, name), ctrlr->peer_address, ctrlr->subsystem->options.nqn,
			 ctrlr->cntlid, ctrlr->end_reason ? ctrlr->end_reason->text : "its admin queue was closed");
}

/* ---- rejected ---- */

static const char *invalid_text(const struct nvmf_refusal *refusal)
{
	const struct nvmf_subsystem *subsystem = nvmf_subsystem_find(refusal->subsystem_nqn);

	if (refusal->iattr == NVME_CONNECT_IATTR_DATA) {
		if (refusal->ipo == offsetof(struct nvme_connect_data, subnqn))
			return subsystem ? "the subsystem is not active" : "there is no such subsystem";
		if (refusal->ipo == offsetof(struct nvme_connect_data, cntlid))
			return refusal->qid == 0
				       ? "only dynamic controllers are offered, and the host asked for one by its id"
				       : "there is no such controller; the host's association may have ended";
		if (refusal->ipo == offsetof(struct nvme_connect_data, hostnqn))
			return "the host's name is not that of the controller, or is too long";
		if (refusal->ipo == offsetof(struct nvme_connect_data, hostid))
			return "the host's identifier is not that of the controller";
	}
	if (refusal->ipo == offsetof(struct nvme_connect, sqsize))
		return "its queue is larger than the transport allows, or has no entries";
	if (refusal->ipo == offsetof(struct nvme_connect, qid))
		return "the controller is not enabled, or has no such I/O queue";
	return "a parameter of its Connect is invalid";
}

const char *nvmf_refusal_text(const struct nvmf_refusal *refusal)
{
	static char text[REFUSAL_BYTES];
	const struct nvmf_subsystem *subsystem = nvmf_subsystem_find(refusal->subsystem_nqn);

	must_be_on(thread_control());
	switch (refusal->status) {
	case NVME_SC_CONNECT_INVALID_PARAMETERS:
		return invalid_text(refusal);
	case NVME_SC_CONNECT_INVALID_HOST:
		if (subsystem && nvmf_subsystem_host_allowed(subsystem, refusal->host_nqn)) {
			snprintf(text, sizeof(text), "the subsystem has no listener at %s port %s", refusal->local_address,
				 refusal->local_service);
			return text;
		}
		return "the subsystem does not allow this host (nvmf_subsystem_add_host)";
	case NVME_SC_CONNECT_CONTROLLER_BUSY:
		return "the subsystem has as many controllers as it may have, or is starting or stopping";
	case NVME_SC_CONNECT_INCOMPATIBLE_FORMAT:
		return "the format of its Connect is not known";
	case NVME_SC_INVALID_QUEUE_ID:
		return "it has connected this queue already";
	default:
		snprintf(text, sizeof(text), "status 0x%x", (unsigned int)refusal->status);
		return text;
	}
}

static void log_refused(void *ctx)
{
	struct nvmf_refusal *refusal = ctx;
	char host[NVME_NQN_FIELD_BYTES], nqn[NVME_NQN_FIELD_BYTES];

	nvmf_account_refused((uint16_t)refusal->status);
	log_line_limited(&refused_limit, now_ns(), LOG_LEVEL_WARNING, "host %s at %s was refused by %s, queue %u: %s",
			 printable_host_name(refusal->host_nqn, host), refusal->peer_address,
			 printable_host_name(refusal->subsystem_nqn, nqn), refusal->qid, nvmf_refusal_text(refusal));
	free(refusal);
}

void nvmf_host_log_refused(struct nvmf_refusal *refusal)
{
	thread_send_msg(thread_control(), log_refused, refusal);
}
