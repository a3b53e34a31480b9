/* SPDX-License-Identifier: BSD-2-Clause */
/* description - the JSON behind the blocks: what a reader needs beside the operations, and what a person wants to know. */
#include <errno.h>
#include <inttypes.h>
#include <isa-l/crc.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "inspect/replay/incident.h"

static uint32_t sum(const char *text, size_t bytes)
{
	return ~crc32_iscsi((unsigned char *)text, (int)bytes, UINT32_MAX);
}

static void set_number(json_t *object, const char *key, uint64_t number)
{
	json_object_set_new(object, key, json_integer((json_int_t)number));
}

/* ---- write ---- */

static json_t *describe_queues(const struct replay_summary *summary)
{
	json_t *array = json_array(), *row;

	for (uint32_t i = 0; i < summary->queue_count; i++) {
		const struct replay_queue *queue = &summary->queues[i];

		row = json_object();
		set_number(row, "host", queue->host_number);
		if (queue->host[0])
			json_object_set_new(row, "host_name", json_string(queue->host));
		set_number(row, "qid", queue->qid);
		set_number(row, "depth", queue->depth);
		set_number(row, "operations", queue->operations);
		json_array_append_new(array, row);
	}
	return array;
}

static json_t *describe_devices(const struct replay_summary *summary)
{
	json_t *array = json_array(), *row;

	for (uint32_t i = 0; i < summary->device_count; i++) {
		const struct replay_device *device = &summary->devices[i];

		row = json_object();
		if (device->name[0])
			json_object_set_new(row, "name", json_string(device->name));
		set_number(row, "nsid", device->nsid);
		set_number(row, "block_bytes", device->block_bytes);
		set_number(row, "blocks_used", device->blocks_used);
		set_number(row, "operations", device->operations);
		json_array_append_new(array, row);
	}
	return array;
}

static json_t *describe(const struct replay_summary *summary)
{
	json_t *object = json_object(), *kinds = json_object(), *left_out = json_object();

	set_number(object, "incident", INCIDENT_VERSION);
	json_object_set_new(object, "encoding",
			    json_string("flags; since the operation before, ns; [queue]; [device]; place, blocks; "
					"[latency, ns; time at the device, ns, plus 1]"));
	if (summary->source[0])
		json_object_set_new(object, "source", json_string(summary->source));
	set_number(object, "operations", summary->operations);
	set_number(object, "span_ns", summary->span_ns);
	for (unsigned int kind = 0; kind < REPLAY_KINDS; kind++)
		set_number(kinds, replay_kind_name(kind), summary->kinds[kind]);
	json_object_set_new(object, "kinds", kinds);
	set_number(object, "records_missing", summary->records_missing);
	set_number(left_out, "partial", summary->left_out.partial);
	set_number(left_out, "unplaced", summary->left_out.unplaced);
	set_number(left_out, "block_size", summary->left_out.block_size);
	set_number(left_out, "tables", summary->left_out.tables);
	json_object_set_new(object, "left_out", left_out);
	json_object_set_new(object, "queues", describe_queues(summary));
	json_object_set_new(object, "devices", describe_devices(summary));
	return object;
}

int incident_describe(const struct replay_summary *summary, char **text_ret, size_t *bytes_ret, uint32_t *crc_ret)
{
	json_t *object = describe(summary);
	char *text = json_dumps(object, JSON_COMPACT | JSON_PRESERVE_ORDER);
	size_t bytes;

	json_decref(object);
	if (!text)
		return -ENOMEM;
	bytes = strlen(text);
	if (bytes > INCIDENT_DESCRIPTION_BYTES_MAX) {
		free(text);
		return -E2BIG;
	}
	*text_ret = text;
	*bytes_ret = bytes;
	*crc_ret = sum(text, bytes);
	return 0;
}

/* ---- read ---- */

/* A number of at most `max`; a missing one is 0. Clears `*good` if it is not one. */
static uint64_t get_number(const json_t *object, const char *key, uint64_t max, bool *good)
{
	const json_t *value = json_object_get(object, key);
	json_int_t number = json_integer_value(value);

	if (value && (!json_is_integer(value) || number < 0 || (uint64_t)number > max))
		*good = false;
	return *good ? (uint64_t)number : 0;
}

static void get_name(const json_t *object, const char *key, char name[REPLAY_NAME_BYTES])
{
	const char *text = json_string_value(json_object_get(object, key));

	text_copy_words(name, REPLAY_NAME_BYTES, text ? text : "");
}

static bool parse_queues(const json_t *array, struct replay_summary *summary)
{
	bool good = true;

	for (uint32_t i = 0; good && i < summary->queue_count; i++) {
		const json_t *row = json_array_get(array, i);
		struct replay_queue *queue = &summary->queues[i];

		queue->host_number = (uint32_t)get_number(row, "host", REPLAY_QUEUES_MAX, &good);
		queue->qid = (uint32_t)get_number(row, "qid", UINT16_MAX, &good);
		queue->depth = (uint32_t)get_number(row, "depth", UINT16_MAX, &good);
		queue->operations = get_number(row, "operations", INT64_MAX, &good);
		get_name(row, "host_name", queue->host);
		good = good && queue->host_number > 0 && queue->depth > 0;
	}
	return good;
}

static bool parse_devices(const json_t *array, struct replay_summary *summary)
{
	bool good = true;

	for (uint32_t i = 0; good && i < summary->device_count; i++) {
		const json_t *row = json_array_get(array, i);
		struct replay_device *device = &summary->devices[i];

		device->nsid = (uint32_t)get_number(row, "nsid", UINT32_MAX - 1, &good);
		device->block_bytes = (uint32_t)get_number(row, "block_bytes", REPLAY_BLOCK_BYTES_MAX, &good);
		device->blocks_used = get_number(row, "blocks_used", REPLAY_BLOCK_MAX + REPLAY_BLOCKS_MAX, &good);
		device->operations = get_number(row, "operations", INT64_MAX, &good);
		get_name(row, "name", device->name);
		good = good && (device->block_bytes == 0 ||
				(device->block_bytes >= REPLAY_BLOCK_BYTES_MIN && is_power_of_two(device->block_bytes)));
	}
	return good;
}

static bool parse_counts(const json_t *object, struct replay_summary *summary)
{
	const json_t *kinds = json_object_get(object, "kinds"), *left_out = json_object_get(object, "left_out");
	uint64_t total = 0;
	bool good = true;

	summary->span_ns = get_number(object, "span_ns", INT64_MAX, &good);
	summary->records_missing = get_number(object, "records_missing", INT64_MAX, &good);
	summary->left_out.partial = get_number(left_out, "partial", INT64_MAX, &good);
	summary->left_out.unplaced = get_number(left_out, "unplaced", INT64_MAX, &good);
	summary->left_out.block_size = get_number(left_out, "block_size", INT64_MAX, &good);
	summary->left_out.tables = get_number(left_out, "tables", INT64_MAX, &good);
	for (unsigned int kind = 0; good && kind < REPLAY_KINDS; kind++) {
		summary->kinds[kind] = get_number(kinds, replay_kind_name(kind), INT64_MAX / REPLAY_KINDS, &good);
		total += summary->kinds[kind];
	}
	return good && total == summary->operations;
}

static bool parse_all(const json_t *object, struct replay_summary *summary)
{
	const json_t *queues = json_object_get(object, "queues"), *devices = json_object_get(object, "devices");
	size_t queue_count = json_array_size(queues), device_count = json_array_size(devices);

	if (queue_count > REPLAY_QUEUES_MAX || device_count > REPLAY_DEVICES_MAX)
		return false;
	summary->queues = calloc(queue_count + 1, sizeof(*summary->queues));
	summary->devices = calloc(device_count + 1, sizeof(*summary->devices));
	must(summary->queues && summary->devices); /* at most 300 KB */
	summary->queue_count = (uint32_t)queue_count;
	summary->device_count = (uint32_t)device_count;
	get_name(object, "source", summary->source);
	return parse_queues(queues, summary) && parse_devices(devices, summary) && parse_counts(object, summary);
}

int incident_parse_description(const struct incident_header *header, const char *text, size_t bytes,
			       struct replay_summary *summary_ret, struct fathom_fault *why)
{
	struct replay_summary summary = { .operations = header->operations, .lacks_device_times = header->version < 2 };
	json_t *object;

	if (bytes != header->description_bytes || sum(text, bytes) != header->description_crc)
		return fault(why, -EBADMSG, "the description is damaged, or the file was cut");
	object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
	if (!object || !parse_all(object, &summary)) {
		json_decref(object);
		replay_summary_deinit(&summary);
		return fault(why, -EBADMSG, "the description is not valid");
	}
	json_decref(object);
	*summary_ret = summary;
	return 0;
}
