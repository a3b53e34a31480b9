/* SPDX-License-Identifier: BSD-2-Clause */
/* requests - lists of an engine's queue pairs, and of the requests in progress, with the block device I/O of each. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fathom/trace/format.h"
#include "inspect/core/internal.h"
#include "inspect/core/lists.h"

/* ---- queue pairs ---- */

static const struct core_column qpair_columns[] = {
	{ NULL, "address", CORE_CELL_ADDRESS },
	{ "ID", "id", CORE_CELL_TEXT },
	{ "QID", "qid", CORE_CELL_NUMBER },
	{ "FROM", "peer", CORE_CELL_TEXT },
	{ "STATE", "state", CORE_CELL_TEXT },
	{ "REQUESTS", "request_count", CORE_CELL_NUMBER },
	{ "COMMANDS", "command_count", CORE_CELL_NUMBER },
	{ "CNTLID", "cntlid", CORE_CELL_TEXT },
	{ "HOST", "host_nqn", CORE_CELL_TEXT },
	{ "POLL GROUP", "group", CORE_CELL_TEXT },
};

#define QPAIR_NEEDS                                                                                                        \
	CORE_STRUCTURE_nvmf_target, CORE_STRUCTURE_nvmf_poll_group, CORE_STRUCTURE_nvmf_qpair, CORE_STRUCTURE_nvmf_ctrlr

/* Call `each` for all queue pairs. */
static void each_qpair(struct core_rows *rows,
		       void (*each)(struct core_rows *rows, const uint8_t *qpair, uint64_t address, void *ctx), void *ctx)
{
	struct core_layout *layout = rows->layout;
	const uint8_t *target = core_object_of(layout, layout->variables[CORE_VARIABLE_target], CORE_STRUCTURE_nvmf_target);
	uint64_t groups = target ? core_number(layout, target, CORE_FIELD_nvmf_target_groups) : 0;
	uint64_t count = target ? core_number(layout, target, CORE_FIELD_nvmf_target_group_count) : 0;

	for (uint64_t i = 0; groups && i < min_u64(count, CORE_THREADS_MAX); i++) {
		uint64_t at = 0, address;
		const uint8_t *group = core_read(layout->core, groups + i * sizeof(at), &at, sizeof(at))
					       ? core_object_of(layout, at, CORE_STRUCTURE_nvmf_poll_group)
					       : NULL;
		struct core_walk walk =
			core_walk_begin(group ? core_part_of(layout, group, CORE_FIELD_nvmf_poll_group_qpairs) : NULL,
					CORE_STRUCTURE_nvmf_qpair, CORE_FIELD_nvmf_qpair_group_link);
		const uint8_t *qpair;

		while ((qpair = core_walk_next(layout, &walk, &address)))
			each(rows, qpair, address, ctx);
		core_check_walk(rows, &walk);
	}
}

static uint32_t object_id(const uint8_t *identity)
{
	struct trace_object object;

	memcpy(&object, identity, sizeof(object));
	return object.id;
}

static const char *peer_of(struct core_layout *layout, const uint8_t *qpair)
{
	return core_format(layout, "%s:%s", core_chars(layout, qpair, CORE_FIELD_nvmf_qpair_peer_address),
			   core_chars(layout, qpair, CORE_FIELD_nvmf_qpair_peer_service));
}

static void add_qpair(struct core_rows *rows, const uint8_t *qpair, uint64_t address, void *ctx)
{
	struct core_layout *layout = rows->layout;
	const uint8_t *ctrlr = core_object_of(layout, core_number(layout, qpair, CORE_FIELD_nvmf_qpair_ctrlr),
					      CORE_STRUCTURE_nvmf_ctrlr);
	const uint8_t *group = core_object_of(layout, core_number(layout, qpair, CORE_FIELD_nvmf_qpair_group),
					      CORE_STRUCTURE_nvmf_poll_group);

	core_add_number(rows, address);
	core_add_text(rows,
		      core_format(layout, "q%u", object_id(core_part_of(layout, qpair, CORE_FIELD_nvmf_qpair_trace))));
	core_add_number(rows, core_number(layout, qpair, CORE_FIELD_nvmf_qpair_qid));
	core_add_text(rows, peer_of(layout, qpair));
	core_add_text(rows, core_enum_text(layout, qpair, CORE_FIELD_nvmf_qpair_state));
	core_add_number(rows, core_number(layout, qpair, CORE_FIELD_nvmf_qpair_req_count));
	core_add_number(rows, core_number(layout, qpair, CORE_FIELD_nvmf_qpair_command_count));
	core_add_text(rows,
		      ctrlr ? core_format(layout, "%" PRIu64, core_number(layout, ctrlr, CORE_FIELD_nvmf_ctrlr_cntlid))
			    : NULL);
	core_add_text(rows, ctrlr ? core_chars(layout, ctrlr, CORE_FIELD_nvmf_ctrlr_host_nqn) : NULL);
	core_add_text(rows, group ? core_chars(layout, group, CORE_FIELD_nvmf_poll_group_name) : NULL);
}

static void fill_qpairs(struct core_rows *rows)
{
	each_qpair(rows, add_qpair, NULL);
}

const struct core_list_kind core_qpairs = {
	.name = "qpairs",
	.about = "queue pairs of hosts",
	.program = CORE_ENGINE,
	CORE_COLUMNS(qpair_columns),
	CORE_NEEDS(QPAIR_NEEDS),
	.fill = fill_qpairs,
};

/* ---- requests ---- */

static const struct core_column io_columns[] = {
	{ NULL, "address", CORE_CELL_ADDRESS },	   { "ID", "id", CORE_CELL_TEXT },
	{ "COMMAND", "opcode", CORE_CELL_TEXT },   { "CID", "cid", CORE_CELL_NUMBER },
	{ "NSID", "nsid", CORE_CELL_NUMBER },	   { "BYTES", "bytes", CORE_CELL_NUMBER },
	{ "STAGE", "stage", CORE_CELL_TEXT },	   { "FOR", "stage_ns", CORE_CELL_NS },
	{ "AGE", "age_ns", CORE_CELL_NS },	   { "DEVICE", "device", CORE_CELL_TEXT },
	{ "I/O", "io", CORE_CELL_TEXT },	   { "BLOCK", "block_index", CORE_CELL_NUMBER },
	{ NULL, "block_count", CORE_CELL_NUMBER }, { "I/O STAGE", "io_stage", CORE_CELL_TEXT },
	{ NULL, "io_stage_ns", CORE_CELL_NS },	   { "QID", "qid", CORE_CELL_NUMBER },
	{ "FROM", "peer", CORE_CELL_TEXT },	   { NULL, "host_nqn", CORE_CELL_TEXT },
};

struct request {
	uint64_t address, qpair_at, begin;
	const uint8_t *request, *qpair;
};

struct requests {
	struct request *rows;
	size_t count, room;
};

static struct trace_story story_at(const uint8_t *object)
{
	struct trace_story story;

	memcpy(&story, object, sizeof(story));
	story.state %= TRACE_STORY_STATES_MAX;
	return story;
}

static uint64_t begin_of(const struct trace_story *story)
{
	return story->ticks[0] & ~(uint64_t)TRACE_TICK_SHARED;
}

/* When it entered its state. */
static uint64_t entered(const struct trace_story *story)
{
	return story->path >> story->state & 1 ? story->ticks[story->state] & ~(uint64_t)TRACE_TICK_SHARED
					       : begin_of(story);
}

static void collect_requests(struct core_rows *rows, const uint8_t *qpair, uint64_t address, void *ctx)
{
	struct requests *requests = ctx;
	struct core_layout *layout = rows->layout;
	struct core_walk walk = core_walk_begin(core_part_of(layout, qpair, CORE_FIELD_nvmf_qpair_reqs),
						CORE_STRUCTURE_nvmf_req, CORE_FIELD_nvmf_req_link);
	const uint8_t *request;
	uint64_t at;

	while ((request = core_walk_next(layout, &walk, &at))) {
		struct trace_story story = story_at(core_part_of(layout, request, CORE_FIELD_nvmf_req_story));

		if (requests->count == requests->room) {
			requests->room = requests->room ? 2 * requests->room : 64;
			requests->rows = realloc(requests->rows, requests->room * sizeof(*requests->rows));
			must(requests->rows);
		}
		requests->rows[requests->count++] = (struct request){
			.address = at, .qpair_at = address, .begin = begin_of(&story), .request = request, .qpair = qpair
		};
	}
	if (walk.is_broken && !layout->core->trace)
		rows->problem = "requests are in the memory of the trace, which is not in this core (bit 3 of "
				"coredump_filter). The trace file "
				"may still exist: `fathom trace stuck`";
	else
		core_check_walk(rows, &walk);
}

static int compare_requests(const void *left, const void *right)
{
	const struct request *a = left, *b = right;

	if (a->begin != b->begin)
		return a->begin < b->begin ? -1 : 1;
	return a->address < b->address ? -1 : a->address > b->address;
}

static const char *opcode_of(struct core_layout *layout, const uint8_t *command, bool is_admin)
{
	uint64_t opcode = core_number(layout, command, CORE_FIELD_nvme_command_opc);
	const char *name = core_enum_value_text(layout, is_admin ? CORE_ENUM_nvme_admin_opcode : CORE_ENUM_nvme_nvm_opcode,
						(int64_t)opcode);

	return name ? name : core_format(layout, "0x%02" PRIx64, opcode);
}

/* The cells of the block device I/O that is a part of the request. */
static void add_io(struct core_rows *rows, const uint8_t *io)
{
	struct core_layout *layout = rows->layout;
	struct trace_story story = story_at(core_part_of(layout, io, CORE_FIELD_bdev_io_story));
	const uint8_t *channel = core_object_of(layout, core_number(layout, io, CORE_FIELD_bdev_io_channel),
						CORE_STRUCTURE_bdev_channel);
	const uint8_t *bdev = channel ? core_object_of(layout, core_number(layout, channel, CORE_FIELD_bdev_channel_bdev),
						       CORE_STRUCTURE_bdev)
				      : NULL;
	bool has_begun = story.state != 0;

	core_add_text(rows, has_begun && bdev ? core_chars(layout, bdev, CORE_FIELD_bdev_name) : NULL);
	core_add_text(rows, has_begun ? core_format(layout, "i%u", story.trace.id) : NULL);
	core_add_number(rows, has_begun ? core_number(layout, io, CORE_FIELD_bdev_io_block_index) : 0);
	core_add_number(rows, has_begun ? core_number(layout, io, CORE_FIELD_bdev_io_block_count) : 0);
	core_add_text(rows, has_begun ? core_enum_value_text(layout, CORE_ENUM_bdev_io_state, story.state) : NULL);
	if (has_begun)
		core_add_age(rows, entered(&story));
	else
		core_add_ticks(rows, 0);
}

static void add_request(struct core_rows *rows, const struct request *row)
{
	struct core_layout *layout = rows->layout;
	const uint8_t *command = core_part_of(layout, row->request, CORE_FIELD_nvmf_req_cmd);
	struct trace_story story = story_at(core_part_of(layout, row->request, CORE_FIELD_nvmf_req_story));
	const uint8_t *ctrlr = core_object_of(layout, core_number(layout, row->qpair, CORE_FIELD_nvmf_qpair_ctrlr),
					      CORE_STRUCTURE_nvmf_ctrlr);
	uint64_t qid = core_number(layout, row->qpair, CORE_FIELD_nvmf_qpair_qid);

	core_add_number(rows, row->address);
	core_add_text(rows, core_format(layout, "r%u", story.trace.id));
	core_add_text(rows, opcode_of(layout, command, qid == 0));
	core_add_number(rows, core_number(layout, command, CORE_FIELD_nvme_command_cid));
	core_add_number(rows, core_number(layout, command, CORE_FIELD_nvme_command_nsid));
	core_add_number(rows, core_number(layout, row->request, CORE_FIELD_nvmf_req_data_bytes));
	core_add_text(rows, core_enum_value_text(layout, CORE_ENUM_nvmf_req_state, story.state));
	core_add_age(rows, entered(&story));
	core_add_age(rows, begin_of(&story));
	add_io(rows, core_part_of(layout, row->request, CORE_FIELD_nvmf_req_io));
	core_add_number(rows, qid);
	core_add_text(rows, peer_of(layout, row->qpair));
	core_add_text(rows, ctrlr ? core_chars(layout, ctrlr, CORE_FIELD_nvmf_ctrlr_host_nqn) : NULL);
}

static void fill_io(struct core_rows *rows)
{
	struct requests requests = { 0 };

	if (rows->layout->fields[CORE_FIELD_nvmf_req_story].bytes != sizeof(struct trace_story) ||
	    rows->layout->fields[CORE_FIELD_bdev_io_story].bytes != sizeof(struct trace_story)) {
		rows->problem = "struct trace_story of this program has another size";
		return;
	}
	each_qpair(rows, collect_requests, &requests);
	if (requests.count)
		qsort(requests.rows, requests.count, sizeof(*requests.rows), compare_requests);
	for (size_t i = 0; i < requests.count; i++)
		add_request(rows, &requests.rows[i]);
	free(requests.rows);
}

const struct core_list_kind core_io = {
	.name = "io",
	.about = "requests in progress, the oldest first",
	.program = CORE_ENGINE,
	CORE_COLUMNS(io_columns),
	CORE_NEEDS(QPAIR_NEEDS, CORE_STRUCTURE_nvmf_req, CORE_STRUCTURE_nvme_command, CORE_STRUCTURE_bdev_io,
		   CORE_STRUCTURE_bdev_channel, CORE_STRUCTURE_bdev),
	.fill = fill_io,
	.fill_by_trace = core_fill_io_by_trace,
};
