/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_drpc - any packets as dRPC chunks, and the messages in them as calls and requests.
 *
 *      u16 length, that many bytes of a packet; repeated
 *
 * Invariants: a message has the length in each of its chunks, consists of their bytes in order, and uses at most twice the
 * memory of the received bytes; after an error no message is returned. A message that is a Call is equal after packing
 * again; so is its body if it is a request of a method; an event in it is valid or refused. Built by clang
 * -fsanitize=fuzzer it fuzzes; otherwise it replays.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "rpc/drpc/chunk.h"
#include "rpc/proto/drpc.pb-c.h"
#include "rpc/proto/fathom.pb-c.h"
#include "rpc/proto/mgmt.pb-c.h"
#include "rpc/proto/srv.pb-c.h"
#include "rpc/ras/event.h"

enum { INPUT_BYTES_MAX = 1 << 20, LIMIT = 1 << 18 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * protobuf-c accepts field number 0 with an overlong tag (80 00), packs it as 00, and refuses to read that. True if `data`
 * may have such a tag.
 */
static bool has_long_tag_of_zero(const uint8_t *data, size_t bytes)
{
	for (size_t i = 0; i + 1 < bytes; i++) {
		size_t end = i + 1;

		while (end < bytes && data[end] == 0x80)
			end++;
		if ((data[i] & 0xf8) == 0x80 && end < bytes && data[end] == 0)
			return true;
	}
	return false;
}

/* Decode; if valid, assert that encoding and decoding again gives the same bytes. False: invalid. */
static bool check_message(const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t bytes)
{
	ProtobufCMessage *message = protobuf_c_message_unpack(type, NULL, bytes, data), *again;
	size_t packed_bytes;
	uint8_t *packed, *repacked;

	if (!message)
		return false;
	packed_bytes = protobuf_c_message_get_packed_size(message);
	packed = malloc(packed_bytes + 1);
	repacked = malloc(packed_bytes + 1);
	must(packed && repacked);
	must(protobuf_c_message_pack(message, packed) == packed_bytes);
	again = protobuf_c_message_unpack(type, NULL, packed_bytes, packed);
	if (again) {
		must(protobuf_c_message_get_packed_size(again) == packed_bytes);
		must(protobuf_c_message_pack(again, repacked) == packed_bytes);
		must(memcmp(packed, repacked, packed_bytes) == 0);
	} else {
		must(has_long_tag_of_zero(data, bytes));
	}
	if (type == &shared__cluster_event_req__descriptor) {
		const Shared__ClusterEventReq *request = (const Shared__ClusterEventReq *)message;
		char line[RAS_LINE_BYTES];
		struct fathom_fault why;

		if (request->event && ras_event_check(request->event, &why) == 0)
			must(strlen(ras_event_line(request->event, line)) < sizeof(line));
	}
	protobuf_c_message_free_unpacked(message, NULL);
	if (again)
		protobuf_c_message_free_unpacked(again, NULL);
	free(packed);
	free(repacked);
	return true;
}

/* Decode as a server and as a client. */
static void check_call(const uint8_t *data, size_t bytes)
{
	static const ProtobufCMessageDescriptor *const bodies[] = {
		&srv__notify_ready_req__descriptor,	 &shared__cluster_event_req__descriptor,
		&mgmt__set_rank_req__descriptor,	 &mgmt__group_update_req__descriptor,
		&mgmt__prep_shutdown_req__descriptor,	 &mgmt__daos_resp__descriptor,
		&shared__cluster_event_resp__descriptor, &fathom__describe_resp__descriptor,
	};
	Drpc__Call *call;

	(void)check_message(&drpc__response__descriptor, data, bytes);
	if (!check_message(&drpc__call__descriptor, data, bytes))
		return;
	call = drpc__call__unpack(NULL, bytes, data);
	must(call);
	for (size_t i = 0; i < ARRAY_COUNT(bodies); i++)
		(void)check_message(bodies[i], call->body.data, call->body.len);
	drpc__call__free_unpacked(call, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t collected[INPUT_BYTES_MAX];
	struct drpc_message message = { 0 };
	struct drpc_chunk_header header;
	enum drpc_chunk result = DRPC_CHUNK_MORE;
	size_t count = 0;

	while (size >= 2 && result <= DRPC_CHUNK_MESSAGE) {
		size_t bytes = min_u64((size_t)(data[0] | data[1] << 8), size - 2);

		result = drpc_message_take(&message, data + 2, bytes, LIMIT);
		must(drpc_chunk_text(result));
		if (result <= DRPC_CHUNK_MESSAGE) {
			must(bytes >= sizeof(header));
			memcpy(&header, data + 2, sizeof(header));
			must(header.chunk_bytes == bytes - sizeof(header));
			must(count + header.chunk_bytes <= sizeof(collected));
			memcpy(collected + count, data + 2 + sizeof(header), header.chunk_bytes);
			count += header.chunk_bytes;
			must(message.bytes == count);
			must(message.room <= max_u64(16, 2 * count));
		}
		if (result == DRPC_CHUNK_MESSAGE) {
			must(message.bytes == header.total_bytes);
			must(header.index == header.total_chunks - 1);
			must(count == 0 || memcmp(message.data, collected, count) == 0);
			check_call(message.data, message.bytes);
			drpc_message_clear(&message);
			count = 0;
		}
		data += 2 + bytes;
		size -= 2 + bytes;
	}
	drpc_message_clear(&message);
	return 0;
}

#if !defined(__clang__) || defined(FUZZ_REPLAY)

#include "replay.h"

/* Write a call with an event in one packet. */
static int write_call(const char *directory)
{
	Shared__RASEvent event = SHARED__RASEVENT__INIT;
	Shared__ClusterEventReq request = SHARED__CLUSTER_EVENT_REQ__INIT;
	Drpc__Call call = DRPC__CALL__INIT;
	struct drpc_chunk_header header = { .index = 0, .total_chunks = 1 };
	uint8_t body[256], packet[512];
	char path[512];
	FILE *file;
	size_t bytes;

	event.id = 2;
	event.type = 1;
	event.severity = 1;
	event.timestamp = (char *)"2026-11-22T12:00:00.000000+00:00";
	event.msg = (char *)"seed";
	event.hostname = (char *)"h";
	request.sequence = 1;
	request.event = &event;
	must(shared__cluster_event_req__get_packed_size(&request) <= sizeof(body));
	call.module = 3;
	call.method = 304;
	call.body = (ProtobufCBinaryData){ shared__cluster_event_req__pack(&request, body), body };
	bytes = drpc__call__get_packed_size(&call);
	must(2 + sizeof(header) + bytes <= sizeof(packet));
	header.total_bytes = header.chunk_bytes = bytes;
	packet[0] = (uint8_t)(sizeof(header) + bytes);
	packet[1] = (uint8_t)((sizeof(header) + bytes) >> 8);
	memcpy(packet + 2, &header, sizeof(header));
	must(drpc__call__pack(&call, packet + 2 + sizeof(header)) == bytes);
	snprintf(path, sizeof(path), "%s/seed-call", directory);
	file = fopen(path, "w");
	if (!file || fwrite(packet, 1, 2 + sizeof(header) + bytes, file) != 2 + sizeof(header) + bytes || fclose(file)) {
		perror(path);
		return 1;
	}
	return 0;
}

/* Write messages of 100 bytes in 1, 2 and 5 chunks, one after the other. */
static int write_seeds(const char *directory)
{
	static const uint32_t chunks[] = { 1, 2, 5 };

	for (size_t i = 0; i < ARRAY_COUNT(chunks); i++) {
		uint8_t packet[2 + sizeof(struct drpc_chunk_header) + 100] = { 0 };
		size_t bytes = 100 / chunks[i];
		char path[512];
		FILE *file;

		snprintf(path, sizeof(path), "%s/seed-%zu", directory, i);
		file = fopen(path, "w");
		for (uint32_t at = 0; file && at < chunks[i]; at++) {
			struct drpc_chunk_header header = { 100, bytes, at, chunks[i] };

			packet[0] = (uint8_t)(sizeof(header) + bytes);
			memcpy(packet + 2, &header, sizeof(header));
			if (fwrite(packet, 1, 2 + sizeof(header) + bytes, file) != 2 + sizeof(header) + bytes)
				return 1;
		}
		if (!file || fclose(file)) {
			perror(path);
			return 1;
		}
	}
	return write_call(directory);
}

int main(int argc, char **argv)
{
	static uint8_t data[INPUT_BYTES_MAX];

	return replay(argc, argv, write_seeds, data, sizeof(data));
}

#endif
