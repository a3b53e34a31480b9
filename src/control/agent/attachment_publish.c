/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ask the management service to publish a volume to this host, or to unpublish it. Only root of the host can attach, so the
 * agent asks in the name of root, with a credential that it makes as for a client. The pool's access control list decides;
 * what this host's agent has published it may always unpublish.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <uuid/uuid.h>

#include "base/text.h"
#include "control/agent/attachment.h"

enum { ROOT = 0 };

static Auth__Credential *copy_credential(const Auth__Credential *credential)
{
	size_t bytes = auth__credential__get_packed_size(credential);
	uint8_t *packed = malloc(bytes + 1);
	Auth__Credential *copy;

	must(packed);
	must(auth__credential__pack(credential, packed) == bytes);
	copy = auth__credential__unpack(NULL, bytes, packed);
	must(copy);
	free(packed);
	return copy;
}

static void answered(void *ctx, const ProtobufCMessage *response, const struct fathom_fault *why)
{
	struct attachment *attachment = ctx;

	auth__credential__free_unpacked(attachment->credential, NULL);
	attachment->credential = NULL;
	attachment->ask_done(attachment, response, why);
}

static void start_call(struct attachment *attachment)
{
	struct service_request request = {
		.path = "/fathom.ControlSvc/VolumePublish",
		.name = "publishing of a volume",
		.message = &attachment->publish.base,
		.response = &fathom__volume_resp__descriptor,
		.timeout_ns = attachment->ask_ns,
		.done = answered,
		.ctx = attachment,
	};

	if (attachment->is_unpublish) {
		request.path = "/fathom.ControlSvc/VolumeUnpublish";
		request.name = "unpublishing of a volume";
		request.message = &attachment->unpublish.base;
	}
	service_start(attachment->agent, &request);
}

static void credential_made(void *ctx, int status, Auth__Credential *credential)
{
	struct attachment *attachment = ctx;
	struct agent *agent = attachment->agent;
	struct fathom_fault why = { 0 };

	if (agent->state == AGENT_LEAVING)
		why.error = fault(&why, -ECANCELED, "the agent ends");
	else if (status)
		why.error = fault(&why, -EHOSTUNREACH,
				  "no credential for root: this host did not tell its name and groups");
	if (why.error) {
		attachment->ask_done(attachment, NULL, &why);
		return;
	}
	must(!attachment->credential);
	attachment->credential = copy_credential(credential);
	attachment->publish.credential = attachment->unpublish.credential = attachment->credential;
	start_call(attachment);
}

static void ask(struct attachment *attachment, uint64_t timeout_ns, service_done_fn done)
{
	attachment->ask_ns = timeout_ns;
	attachment->ask_done = done;
	identities_ask(attachment->agent, ROOT, ROOT, credential_made, attachment);
}

void attachment_ask_publish(struct attachment *attachment, uint64_t timeout_ns, service_done_fn done)
{
	fathom__volume_publish_req__init(&attachment->publish);
	attachment->publish.sys = attachment->agent->system;
	attachment->publish.host = attachment->options.host_nqn;
	(void)text_copy(attachment->asked, sizeof(attachment->asked), /* as large as the name */
			attachment->record.uuid[0] ? attachment->record.uuid : attachment->record.name);
	attachment->publish.name = attachment->asked;
	/* By itself the agent never publishes what was taken from this host: only a request of root's does. */
	attachment->publish.renew = attachment->record.uuid[0] && !attachment->call && !attachment->is_new;
	attachment->is_unpublish = false;
	ask(attachment, timeout_ns, done);
}

void attachment_ask_unpublish(struct attachment *attachment, uint64_t timeout_ns, service_done_fn done)
{
	must(attachment->options.host_nqn[0]); /* else the request would be about all hosts */
	fathom__volume_unpublish_req__init(&attachment->unpublish);
	attachment->unpublish.sys = attachment->agent->system;
	attachment->unpublish.host = attachment->options.host_nqn;
	attachment->unpublish.name = attachment->record.uuid[0] ? attachment->record.uuid : attachment->asked;
	/* The engine may not have seen the end of the connections yet. Without a UUID there was none from here. */
	attachment->unpublish.force = attachment->record.uuid[0] != '\0';
	attachment->is_unpublish = true;
	ask(attachment, timeout_ns, done);
}

bool attachment_take_volume(struct attachment *attachment, const Fathom__Volume *volume)
{
	struct attach_record *record = &attachment->record, taken = *record;
	uuid_t uuid;

	if (!volume || uuid_parse(volume->uuid, uuid) != 0 || volume->n_addresses > ATTACH_ADDRESSES_MAX ||
	    !attach_name_is_valid(volume->name) || !volume->nqn[0] ||
	    text_copy(taken.name, sizeof(taken.name), volume->name) != 0 ||
	    text_copy(taken.nqn, sizeof(taken.nqn), volume->nqn) != 0)
		return false;
	uuid_unparse_lower(uuid, taken.uuid);
	if (record->uuid[0] && strcmp(record->uuid, taken.uuid) != 0)
		return false; /* the name is now another volume's */
	taken.address_count = 0;
	for (size_t i = 0; i < volume->n_addresses; i++) {
		if (text_copy(taken.addresses[taken.address_count++], ATTACH_ADDRESS_BYTES, volume->addresses[i]) != 0)
			return false;
	}
	*record = taken;
	return true;
}
