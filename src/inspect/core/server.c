/* SPDX-License-Identifier: BSD-2-Clause */
/* server - lists of a server's members, instances, calls and connections. */
#include <inttypes.h>
#include <string.h>

#include "inspect/core/internal.h"
#include "inspect/core/lists.h"

/* The open server; NULL: none. `frame_ret`: its frame. */
static const uint8_t *open_server(struct core_layout *layout, const uint8_t **frame_ret)
{
	const uint8_t *process = core_object_of(layout, layout->variables[CORE_VARIABLE_server],
						CORE_STRUCTURE_variable_server);

	*frame_ret = process ? core_object_of(layout, core_number(layout, process, CORE_FIELD_variable_server_frame),
					      CORE_STRUCTURE_server_frame)
			     : NULL;
	return *frame_ret ? core_part_of(layout, *frame_ret, CORE_FIELD_server_frame_server) : NULL;
}

#define SERVER_NEEDS CORE_STRUCTURE_variable_server, CORE_STRUCTURE_server_frame, CORE_STRUCTURE_server

/* ---- members ---- */

static const struct core_column member_columns[] = {
	{ "RANK", "rank", CORE_CELL_NUMBER },	      { "STATE", "state", CORE_CELL_TEXT },
	{ NULL, "incarnation", CORE_CELL_NUMBER },    { "ADDRESS", "address", CORE_CELL_TEXT },
	{ "DOMAIN", "fault_domain", CORE_CELL_TEXT }, { "REASON", "info", CORE_CELL_TEXT },
};

static void fill_members(struct core_rows *rows)
{
	struct core_layout *layout = rows->layout;
	const uint8_t *frame, *server = open_server(layout, &frame), *mgmt = NULL, *system = NULL, *member;
	uint64_t members = 0, count = 0, at;

	if (server) {
		const uint8_t *of_call = core_part_of(layout, server, CORE_FIELD_server_of_call);

		mgmt = core_object_of(layout, core_number(layout, of_call, CORE_FIELD_mgmt_of_call_mgmt),
				      CORE_STRUCTURE_mgmt);
	}
	if (mgmt)
		system = core_object_of(layout, core_number(layout, mgmt, CORE_FIELD_mgmt_system), CORE_STRUCTURE_system);
	if (system) {
		members = core_number(layout, system, CORE_FIELD_system_members);
		count = min_u64(core_number(layout, system, CORE_FIELD_system_count), 1 << 20);
	}
	for (uint64_t i = 0; members && i < count; i++) {
		if (!core_read(layout->core, members + i * sizeof(at), &at, sizeof(at)) ||
		    !(member = core_object_of(layout, at, CORE_STRUCTURE_system_member))) {
			rows->problem = "a member is not in the core";
			return;
		}
		member = core_part_of(layout, member, CORE_FIELD_system_member_record);
		core_add_number(rows, core_number(layout, member, CORE_FIELD_member_rank));
		core_add_text(rows, core_enum_text(layout, member, CORE_FIELD_member_state));
		core_add_number(rows, core_number(layout, member, CORE_FIELD_member_incarnation));
		core_add_text(rows, core_chars(layout, member, CORE_FIELD_member_address));
		core_add_text(rows, core_chars(layout, member, CORE_FIELD_member_domain));
		core_add_text(rows, core_chars(layout, member, CORE_FIELD_member_info));
	}
}

const struct core_list_kind core_members = {
	.name = "members",
	.about = "members of the system, on the host with its database",
	.program = CORE_SERVER,
	CORE_COLUMNS(member_columns),
	CORE_NEEDS(SERVER_NEEDS, CORE_STRUCTURE_mgmt_of_call, CORE_STRUCTURE_mgmt, CORE_STRUCTURE_system,
		   CORE_STRUCTURE_system_member, CORE_STRUCTURE_member),
	.fill = fill_members,
};

/* ---- instances ---- */

static const struct core_column instance_columns[] = {
	{ "INSTANCE", "index", CORE_CELL_NUMBER }, { "STATE", "state", CORE_CELL_TEXT },
	{ "RANK", "rank", CORE_CELL_TEXT },	   { "PID", "pid", CORE_CELL_NUMBER },
	{ "STARTS", "starts", CORE_CELL_NUMBER },  { "CODE", "code", CORE_CELL_NUMBER },
	{ "FAULT", "fault", CORE_CELL_TEXT },
};

static void add_instance(struct core_rows *rows, const uint8_t *instance)
{
	struct core_layout *layout = rows->layout;
	const uint8_t *superblock = core_part_of(layout, instance, CORE_FIELD_instance_superblock);
	const uint8_t *why = core_part_of(layout, instance, CORE_FIELD_instance_why);
	bool has_rank = core_number(layout, instance, CORE_FIELD_instance_has_superblock) &&
			core_number(layout, superblock, CORE_FIELD_superblock_has_rank);
	bool has_fault = core_number(layout, why, CORE_FIELD_fathom_fault_error) != 0;

	core_add_number(rows, core_number(layout, core_part_of(layout, instance, CORE_FIELD_instance_options),
					  CORE_FIELD_instance_options_index));
	core_add_text(rows, core_enum_text(layout, instance, CORE_FIELD_instance_state));
	core_add_text(rows, has_rank ? core_format(layout, "%" PRIu64,
						   core_number(layout, superblock, CORE_FIELD_superblock_rank))
				     : NULL);
	core_add_number(rows, core_number(layout, core_part_of(layout, instance, CORE_FIELD_instance_process),
					  CORE_FIELD_instance_process_pid));
	core_add_number(rows, core_number(layout, instance, CORE_FIELD_instance_starts));
	core_add_number(rows, has_fault ? core_number(layout, why, CORE_FIELD_fathom_fault_code) : 0);
	core_add_text(rows, has_fault ? core_chars(layout, why, CORE_FIELD_fathom_fault_text) : NULL);
}

static void fill_instances(struct core_rows *rows)
{
	struct core_layout *layout = rows->layout;
	const uint8_t *frame, *server = open_server(layout, &frame), *instance;
	uint64_t count = server ? core_number(layout, server, CORE_FIELD_server_instance_count) : 0;
	uint64_t room = layout->fields[CORE_FIELD_server_instances].bytes / sizeof(uint64_t);

	for (uint64_t i = 0; i < min_u64(count, room); i++) {
		uint64_t at;

		memcpy(&at, core_part_of(layout, server, CORE_FIELD_server_instances) + i * sizeof(at), sizeof(at));
		instance = core_object_of(layout, at, CORE_STRUCTURE_instance);
		if (instance)
			add_instance(rows, instance);
		else
			rows->problem = "an instance is not in the core";
	}
}

const struct core_list_kind core_instances = {
	.name = "instances",
	.about = "engines of the host",
	.program = CORE_SERVER,
	CORE_COLUMNS(instance_columns),
	CORE_NEEDS(SERVER_NEEDS, CORE_STRUCTURE_instance, CORE_STRUCTURE_instance_options, CORE_STRUCTURE_instance_process,
		   CORE_STRUCTURE_superblock, CORE_STRUCTURE_fathom_fault),
	.fill = fill_instances,
};

/* ---- calls and connections ---- */

static const struct core_column call_columns[] = {
	{ "WAY", "direction", CORE_CELL_TEXT }, { "PEER", "peer", CORE_CELL_TEXT },   { "ROLE", "role", CORE_CELL_TEXT },
	{ "CALL", "path", CORE_CELL_TEXT },	{ "STATE", "state", CORE_CELL_TEXT }, { "AGE", "age_ns", CORE_CELL_NS },
};

/* The links of a grpc_server or a grpc_client at the pointer `field` of `object`. */
static struct core_walk walk_links(struct core_layout *layout, const uint8_t *object, enum core_field field)
{
	bool is_server = field == CORE_FIELD_server_frame_grpc;
	const uint8_t *of = object ? core_object_of(layout, core_number(layout, object, field),
						    is_server ? CORE_STRUCTURE_grpc_server : CORE_STRUCTURE_grpc_client)
				   : NULL;

	return core_walk_begin(of ? core_part_of(layout, of,
						 is_server ? CORE_FIELD_grpc_server_links : CORE_FIELD_grpc_client_links)
				  : NULL,
			       CORE_STRUCTURE_grpc_link, CORE_FIELD_grpc_link_link);
}

static void add_received(struct core_rows *rows, const uint8_t *frame)
{
	struct core_layout *layout = rows->layout;
	const uint8_t *grpc = core_object_of(layout, core_number(layout, frame, CORE_FIELD_server_frame_grpc),
					     CORE_STRUCTURE_grpc_server);
	struct core_walk walk = core_walk_begin(grpc ? core_part_of(layout, grpc, CORE_FIELD_grpc_server_calls) : NULL,
						CORE_STRUCTURE_grpc_call, CORE_FIELD_grpc_call_in_server);
	const uint8_t *call;

	while ((call = core_walk_next(layout, &walk, NULL))) {
		core_add_text(rows, "received");
		core_add_text(rows, core_chars(layout, call, CORE_FIELD_grpc_call_peer));
		core_add_text(rows, core_enum_text(layout, call, CORE_FIELD_grpc_call_role));
		core_add_text(rows, core_interned_text(layout, call, CORE_FIELD_grpc_call_path));
		core_add_text(rows, core_enum_text(layout, call, CORE_FIELD_grpc_call_state));
		core_add_age(rows, core_number(layout, call, CORE_FIELD_grpc_call_received_tick));
	}
	core_check_walk(rows, &walk);
}

static void add_sent(struct core_rows *rows, const uint8_t *link)
{
	struct core_layout *layout = rows->layout;
	struct core_walk walk = core_walk_begin(core_part_of(layout, link, CORE_FIELD_grpc_link_client_calls),
						CORE_STRUCTURE_grpc_client_call, CORE_FIELD_grpc_client_call_link);
	const uint8_t *call;

	while ((call = core_walk_next(layout, &walk, NULL))) {
		core_add_text(rows, "sent");
		core_add_text(rows, core_chars(layout, call, CORE_FIELD_grpc_client_call_address));
		core_add_text(rows, NULL);
		core_add_text(rows, core_interned_text(layout, call, CORE_FIELD_grpc_client_call_path_name));
		core_add_text(rows, NULL);
		core_add_age(rows, core_number(layout, call, CORE_FIELD_grpc_client_call_begin_tick));
	}
	core_check_walk(rows, &walk);
}

static void fill_calls(struct core_rows *rows)
{
	struct core_layout *layout = rows->layout;
	const uint8_t *frame, *server = open_server(layout, &frame), *link;
	struct core_walk walk = walk_links(layout, server, CORE_FIELD_server_client);

	if (frame)
		add_received(rows, frame);
	while ((link = core_walk_next(layout, &walk, NULL)))
		add_sent(rows, link);
	core_check_walk(rows, &walk);
}

const struct core_list_kind core_calls = {
	.name = "calls",
	.about = "calls that have no response yet",
	.program = CORE_SERVER,
	CORE_COLUMNS(call_columns),
	CORE_NEEDS(SERVER_NEEDS, CORE_STRUCTURE_grpc_server, CORE_STRUCTURE_grpc_client, CORE_STRUCTURE_grpc_link,
		   CORE_STRUCTURE_grpc_call, CORE_STRUCTURE_grpc_client_call),
	.fill = fill_calls,
};

static const struct core_column connection_columns[] = {
	{ "WAY", "direction", CORE_CELL_TEXT },
	{ "PEER", "peer", CORE_CELL_TEXT },
	{ "STATE", "state", CORE_CELL_TEXT },
	{ "CALLS", "call_count", CORE_CELL_NUMBER },
};

static void add_links(struct core_rows *rows, struct core_walk walk, const char *direction)
{
	struct core_layout *layout = rows->layout;
	const uint8_t *link;

	while ((link = core_walk_next(layout, &walk, NULL))) {
		core_add_text(rows, direction);
		core_add_text(rows, core_chars(layout, link, CORE_FIELD_grpc_link_peer));
		core_add_text(rows, core_enum_text(layout, link, CORE_FIELD_grpc_link_state));
		core_add_number(rows, core_number(layout, link, CORE_FIELD_grpc_link_calls_open));
	}
	core_check_walk(rows, &walk);
}

static void fill_connections(struct core_rows *rows)
{
	const uint8_t *frame, *server = open_server(rows->layout, &frame);

	add_links(rows, walk_links(rows->layout, frame, CORE_FIELD_server_frame_grpc), "from");
	add_links(rows, walk_links(rows->layout, server, CORE_FIELD_server_client), "to");
}

const struct core_list_kind core_connections = {
	.name = "connections",
	.about = "connections of calls",
	.program = CORE_SERVER,
	CORE_COLUMNS(connection_columns),
	CORE_NEEDS(SERVER_NEEDS, CORE_STRUCTURE_grpc_server, CORE_STRUCTURE_grpc_client, CORE_STRUCTURE_grpc_link),
	.fill = fill_connections,
};
