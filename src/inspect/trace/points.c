/* SPDX-License-Identifier: BSD-2-Clause */
/* points - looks up the points, groups and enums of a schema, and the values of a point's arguments. */
#include <string.h>
#include <strings.h>

#include "base/bits.h"
#include "inspect/trace/internal.h"

const struct reader_point *reader_point_at(const struct reader *reader, uint32_t index)
{
	must(index < reader->schema.point_count);
	return &reader->schema.points[index];
}

const struct reader_point *reader_point_by_id(const struct reader *reader, uint16_t id)
{
	return id < TRACE_POINTS_MAX ? reader->schema.by_id[id] : NULL;
}

const struct reader_point *reader_point_by_name(const struct reader *reader, const char *name)
{
	for (uint32_t i = 0; i < reader->schema.point_count; i++) {
		if (strcasecmp(reader->schema.points[i].name, name) == 0)
			return &reader->schema.points[i];
	}
	return NULL;
}

const struct reader_group *reader_group_by_name(const struct reader *reader, const char *name)
{
	for (uint32_t i = 0; i < reader->schema.group_count; i++) {
		if (strcasecmp(reader->schema.groups[i].name, name) == 0)
			return &reader->schema.groups[i];
	}
	return NULL;
}

bool reader_point_enabled(const struct reader *reader, const struct reader_point *point)
{
	const struct trace_mask_words *masks = reader_element(reader, TRACE_SECTION_MASKS, 0);

	return masks && __atomic_load_n(&masks->words[point->id / 64], __ATOMIC_RELAXED) & BIT(point->id % 64);
}

uint64_t reader_point_total(const struct reader *reader, const struct reader_point *point)
{
	return reader->follower ? spdk_follow_total(reader->follower, point->id) : point->total;
}

const struct reader_enum *reader_enum_at(const struct reader *reader, uint32_t index)
{
	return index < reader->schema.enum_count ? &reader->schema.enums[index] : NULL;
}

const char *reader_label(const struct reader_enum *labels, int64_t value)
{
	/* values are recorded in 32 bits, so compare 32 bits */
	if ((uint64_t)value < labels->label_count && (uint32_t)labels->labels[value].value == (uint32_t)value)
		return labels->labels[value].text;
	for (uint32_t i = 0; i < labels->label_count; i++) {
		if ((uint32_t)labels->labels[i].value == (uint32_t)value)
			return labels->labels[i].text;
	}
	return NULL;
}

uint64_t reader_arg_value(const struct reader_arg *arg, const uint32_t *slots)
{
	uint64_t low = slots[arg->slot];

	switch (arg->type) {
	case READER_U64:
	case READER_I64:
	case READER_HEX64:
	case READER_PTR:
		return low | (uint64_t)slots[arg->slot + 1] << 32;
	case READER_I32:
		return (uint64_t)(int64_t)(int32_t)low;
	case READER_BOOL:
		return low != 0;
	case READER_U8:
	case READER_U16:
	case READER_U32:
	case READER_HEX8:
	case READER_HEX16:
	case READER_HEX32:
	case READER_STR:
	case READER_OBJ:
	case READER_REF:
		break;
	}
	return low;
}

bool reader_arg_object(const struct reader *reader, const struct reader_arg *arg, const uint32_t *slots,
		       const struct reader_object **object_ret, uint32_t *id_ret)
{
	uint32_t value = slots[arg->slot];

	if (value == READER_NO_OBJECT)
		return false;
	if (arg->type == READER_OBJ) {
		*object_ret = arg->object;
		*id_ret = value;
		return arg->object;
	}
	if (arg->type != READER_REF)
		return false;
	*object_ret = schema_object_by_id(&reader->schema, value >> 24);
	*id_ret = value & 0xffffff;
	return *object_ret;
}
