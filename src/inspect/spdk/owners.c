/* SPDX-License-Identifier: BSD-2-Clause */
/* owners - translates SPDK's owners, also new ones of a followed target. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "inspect/spdk/image.h"

enum {
	OWNER_TRIES = 8,
	OWNER_STRIDE = (offsetof(struct trace_owner, text) + SPDK_OWNER_TEXT_BYTES + 7) / 8 * 8,
	OWNERS_AT_A_TIME = 64, /* at most 64 KiB each */
};

/* Copy a row such that no update falls into the copy, as far as comparing twice can tell. */
static void copy_owner_row(uint8_t *to, const uint8_t *from, size_t bytes)
{
	for (int try = 0; try < OWNER_TRIES; try++) {
		memcpy(to, from, bytes);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (memcmp(to, from, bytes) == 0)
			return;
	}
}

/* SPDK's rows within the file. */
struct owner_rows {
	const uint8_t *at;
	uint64_t count, bytes; /* rows; size of each */
	uint16_t text_bytes;
};

static struct owner_rows owner_rows(struct source *source)
{
	uint64_t offset = source->header.sections[SPDK_SECTION_OWNERS];
	const uint8_t *at = source_at(source, offset, SPDK_SECTION_HEAD_BYTES);
	struct spdk_owners_head head = { 0 };
	struct owner_rows rows = { 0 };

	if (at)
		memcpy(&head, at, sizeof(head));
	rows.text_bytes = head.text_bytes;
	rows.bytes = sizeof(struct spdk_owner) + head.text_bytes;
	rows.count = at ? min_u64(head.count, (source->bytes - offset - SPDK_SECTION_HEAD_BYTES) / rows.bytes) : 0;
	rows.at = rows.count ? at + SPDK_SECTION_HEAD_BYTES : NULL;
	if (!at || rows.count < head.count)
		source_problem(source, "owners are missing");
	return rows;
}

/* Convert a row into OWNER_STRIDE zeroed bytes: our format with more text. False: the id was never used. */
static bool convert_owner(const struct owner_rows *rows, uint64_t index, struct trace_owner *owner)
{
	uint8_t row[sizeof(struct spdk_owner) + UINT16_MAX];
	struct spdk_owner source_owner;

	copy_owner_row(row, rows->at + index * rows->bytes, rows->bytes);
	memcpy(&source_owner, row, sizeof(source_owner));
	if (source_owner.tick == 0)
		return false;
	owner->tick_from = source_owner.tick;
	owner->type = source_owner.type;
	memcpy((uint8_t *)owner + offsetof(struct trace_owner, text), row + sizeof(source_owner),
	       min_u64(rows->text_bytes, SPDK_OWNER_TEXT_BYTES - 1));
	return true;
}

/* Number of rows that the image needs: rows behind the last used one are left out. */
static uint64_t count_used(const struct owner_rows *source_rows)
{
	uint64_t count = source_rows->count;

	for (; count > 0; count--) {
		uint64_t tick;

		memcpy(&tick, source_rows->at + (count - 1) * source_rows->bytes, sizeof(tick));
		if (tick)
			break;
		if (count % OWNERS_AT_A_TIME == 0)
			forget_pages(source_rows->at + (count - 1) * source_rows->bytes,
				     OWNERS_AT_A_TIME * source_rows->bytes);
	}
	return count;
}

/* In batches: there may be 65535 owners, each with 64 KiB of text. */
int owners_append(struct build *build)
{
	struct owner_rows source_rows = owner_rows(build->source);
	uint64_t used = build->source->live ? source_rows.count : count_used(&source_rows), batch;
	uint8_t *rows = malloc(OWNERS_AT_A_TIME * OWNER_STRIDE);
	int rc = rows ? 0 : -ENOMEM;

	build->owners_offset = image_place(build, TRACE_SECTION_OWNERS, OWNER_STRIDE, used * OWNER_STRIDE, used);
	build->owner_count = (uint32_t)used;
	if (build->source->live) {
		build->owner_ticks = calloc(used + 1, sizeof(*build->owner_ticks));
		rc = rc == 0 && !build->owner_ticks ? -ENOMEM : rc;
	}
	for (uint64_t from = 0; rc == 0 && from < used; from += batch) {
		batch = min_u64(OWNERS_AT_A_TIME, used - from);
		memset(rows, 0, batch * OWNER_STRIDE);
		for (uint64_t i = 0; i < batch; i++) {
			struct trace_owner *row = (struct trace_owner *)(rows + i * OWNER_STRIDE);

			if (convert_owner(&source_rows, from + i, row) && build->source->live)
				build->owner_ticks[from + i] = row->tick_from;
		}
		rc = file_write_at(build->fd, rows, batch * OWNER_STRIDE, build->owners_offset + from * OWNER_STRIDE);
		forget_pages(source_rows.at + from * source_rows.bytes, batch * source_rows.bytes);
	}
	free(rows);
	return rc;
}

int owners_follow(struct build *build, uint16_t owner)
{
	uint8_t row[OWNER_STRIDE] = { 0 };
	struct owner_rows source_rows;
	uint64_t tick;

	if (owner >= build->owner_count)
		return 0;
	source_rows = owner_rows(build->source);
	must(owner < source_rows.count);
	memcpy(&tick, source_rows.at + owner * source_rows.bytes, sizeof(tick));
	if (tick == build->owner_ticks[owner] || !convert_owner(&source_rows, owner, (struct trace_owner *)row))
		return 0;
	build->owner_ticks[owner] = ((const struct trace_owner *)row)->tick_from;
	return file_write_at(build->fd, row, sizeof(row), build->owners_offset + owner * OWNER_STRIDE);
}
