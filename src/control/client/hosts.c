/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls to hosts: what the table of operations (src/control/operation) cannot declare; generated configurations. */
#include "base/bits.h"
#include "control/client/internal.h"
#include "rpc/proto/ctl.pb-c.h"
#include "rpc/proto/fathom.pb-c.h"

static char *text_of(const char *text)
{
	return (char *)(text ? text : "");
}

/* So that hosts with equal networks are reported together. */
void count_left_out(Ctl__NetworkScanResp *response, struct fathom_control_answer *answer)
{
	answer->left_out = response->left_out;
	response->left_out = 0;
}

void take_server_version(struct arena *arena, ProtobufCMessage *message, struct fathom_control_answer *answer)
{
	Fathom__EngineQueryResp *response = (Fathom__EngineQueryResp *)message;

	answer->version = response->version[0] ? arena_text(arena, response->version) : "unknown";
	/* drop the engines: only the version is compared */
	for (size_t i = 0; i < response->n_engines; i++)
		protobuf_c_message_free_unpacked(&response->engines[i]->base, NULL);
	response->n_engines = 0;
}

void take_masks(struct arena *arena, ProtobufCMessage *message, struct fathom_control_answer *answer)
{
	const Ctl__SetLogMasksResp *response = (const Ctl__SetLogMasksResp *)message;
	struct fathom_control_masks *masks = arena_array(arena, struct fathom_control_masks, 1);
	const char **errors = arena_array(arena, const char *, response->n_errors);

	for (size_t i = 0; i < response->n_errors; i++) {
		if (response->errors[i][0]) /* "": the engine succeeded */
			errors[masks->error_count++] = arena_text(arena, response->errors[i]);
	}
	masks->errors = errors;
	answer->masks = masks;
}

/* ---- configurations ---- */

#define FILE_BYTES_DEFAULT (16ull << 30)

/* Remove comments before the comparison: they contain addresses and sizes, which differ between similar hosts. */
static void strip_comments(char *text)
{
	char *to = text;
	bool in_comment = false;

	for (const char *from = text; *from; from++) {
		if (*from == '\n')
			in_comment = false;
		else if (*from == '#')
			in_comment = true;
		if (!in_comment)
			*to++ = *from;
	}
	*to = '\0';
}

static void take_proposal(struct arena *arena, ProtobufCMessage *message, struct fathom_control_answer *answer)
{
	Fathom__ConfigGenerateResp *response = (Fathom__ConfigGenerateResp *)message;
	struct fathom_control_proposal *proposal = arena_array(arena, struct fathom_control_proposal, 1);

	copy_proposal(arena, response, proposal);
	if (response->text[0])
		strip_comments(response->text);
	answer->proposal = proposal;
}

int fathom_control_propose(struct fathom_control *control, const struct fathom_control_wish *wish,
			   struct fathom_control_answers **ret, struct fathom_fault *why)
{
	Fathom__ConfigGenerateReq message = FATHOM__CONFIG_GENERATE_REQ__INIT;
	struct hosts_request request = {
		.request = { .path = "/fathom.ControlSvc/ConfigGenerate",
			     .name = "config generate",
			     .message = &message.base,
			     .response = &fathom__config_generate_resp__descriptor },
		.take = take_proposal,
	};
	struct host_address first;

	message.sys = control->system;
	/* omit the port of the current connection: the new server may listen on another one, which only the wish sets */
	host_address(host_set_at(control->hosts, 0), 0, &first);
	message.replica = wish->replica ? text_of(wish->replica) : first.host;
	message.interface = text_of(wish->interface);
	message.folder = text_of(wish->folder);
	message.folder_bytes = wish->file_bytes ? wish->file_bytes : FILE_BYTES_DEFAULT;
	message.engines = wish->engines;
	message.port = wish->port;
	message.net_class = text_of(wish->net_class);
	message.metadata = text_of(wish->metadata);
	message.fabric_ports = (uint32_t *)wish->fabric_ports;
	message.n_fabric_ports = wish->fabric_port_count;
	message.insecure = !control->tls;
	return call_hosts(control, &request, ret, why);
}
