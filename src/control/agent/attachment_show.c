/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers about attachments: one of them, all of them, or why one failed. */
#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "control/agent/attachment.h"
#include "control/fault/fault.h"

const char *attachment_state_word(const struct attachment *attachment)
{
	static const char *const words[] = {
		[ATTACHMENT_NONE] = "unknown",
		[ATTACHMENT_PUBLISHING] = "publishing",
		[ATTACHMENT_CONNECTING] = "connecting",
		[ATTACHMENT_ATTACHED] = "attached",
		[ATTACHMENT_WAITING] = "waiting",
		[ATTACHMENT_DETACHING] = "detaching",
		[ATTACHMENT_UNPUBLISHING] = "unpublishing",
	};

	must(attachment->state < ARRAY_COUNT(words));
	return words[attachment->state];
}

struct shown_attachment {
	Agent__Attachment message;
	char *addresses[ATTACH_ADDRESSES_MAX];
};

static void show_attachment(const struct attachment *attachment, struct shown_attachment *shown)
{
	const struct attach_record *record = &attachment->record;
	Agent__Attachment *message = &shown->message;

	agent__attachment__init(message);
	message->name = (char *)record->name;
	message->uuid = (char *)record->uuid;
	message->nqn = (char *)record->nqn;
	message->addresses = shown->addresses;
	for (size_t i = 0; i < record->address_count; i++)
		shown->addresses[message->n_addresses++] = (char *)record->addresses[i];
	message->state = (char *)attachment_state_word(attachment);
	message->reason = (char *)attachment->why.text;
	message->temporary = attachment->is_temporary;
	if (attachment->state != ATTACHMENT_ATTACHED)
		return;
	message->device = (char *)attachment->device.path;
	message->size_bytes = attachment->device.bytes;
	message->link = (char *)attachment->link_path;
}

void attachment_reply_fault(struct drpc_call *call, const struct fathom_fault *why)
{
	Agent__AttachResp response = AGENT__ATTACH_RESP__INIT;
	struct fault_shown shown;

	must(why->error < 0);
	fault_show(why, &shown);
	response.status = why->error;
	response.code = (uint32_t)why->code;
	response.text = shown.description;
	response.resolution = shown.resolution;
	drpc_reply(call, &response.base);
}

void attachment_reply(struct drpc_call *call, const struct attachment *attachment)
{
	Agent__AttachResp response = AGENT__ATTACH_RESP__INIT;
	struct shown_attachment shown;

	show_attachment(attachment, &shown);
	response.attachment = &shown.message;
	drpc_reply(call, &response.base);
}

void call_list(struct drpc_call *call, const ProtobufCMessage *request)
{
	struct agent *agent = drpc_call_ctx(call);
	Agent__ListResp response = AGENT__LIST_RESP__INIT;
	struct shown_attachment *shown = calloc(agent->attachments.count + 1, sizeof(*shown));
	Agent__Attachment **list = calloc(agent->attachments.count + 1, sizeof(Agent__Attachment *));
	struct attachment *attachment;

	must(shown);
	must(list);
	TAILQ_FOREACH (attachment, &agent->attachments.list, link) {
		show_attachment(attachment, &shown[response.n_attachments]);
		list[response.n_attachments] = &shown[response.n_attachments].message;
		response.n_attachments++;
	}
	response.attachments = list;
	drpc_reply(call, &response.base);
	free(list);
	free(shown);
}
