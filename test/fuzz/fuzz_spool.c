/* SPDX-License-Identifier: BSD-2-Clause */
/* Fuzz: any file opens as a spool, or is refused with a fault that names it; an open spool accepts and returns events. */
#include <errno.h>
#include <isa-l/crc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "control/events/spool_internal.h"
#include "rpc/ras/event.h"

static char path[64];

static void end(void)
{
	unlink(path);
}

static void write_file(const uint8_t *data, size_t size)
{
	FILE *file;

	if (!path[0]) {
		snprintf(path, sizeof(path), "/dev/shm/fathom-spool-fuzz-%d", (int)getpid());
		atexit(end);
	}
	file = fopen(path, "w");
	must(file);
	must(fwrite(data, 1, size, file) == size);
	must(fclose(file) == 0);
}

/* Read all events, or get the report of damage. */
static void drain(struct spool *spool)
{
	struct spool_batch batch;
	struct fathom_fault why;

	while (spool_untaken(spool) > 0) {
		int error = spool_batch(spool, SPOOL_BATCH_MAX, SIZE_MAX, &batch, &why);

		must(error == 0 || error == -EBADMSG); /* a correct checksum of bytes that are not a valid message */
		if (error)
			return;
		must(batch.count > 0);
		must(spool_taken(spool, batch.events[batch.count - 1]->number, NULL) == 0);
		spool_batch_deinit(&batch);
	}
}

static int count_left(void *ctx, const struct spool_origin *origin, const Shared__RASEvent *event)
{
	must(origin->instance < SPOOL_SOURCES_MAX && event);
	++*(uint64_t *)ctx;
	return 0;
}

/* Recover any file: readable events are read, other bytes are counted. */
static void read_left(size_t size)
{
	struct spool_loss loss;
	uint64_t count = 0;

	must(spool_recover(path, count_left, &count, &loss, NULL) == 0);
	must(count * sizeof(struct spool_record) + loss.cut_bytes + loss.damaged_bytes <= size);
}

static void run(const uint8_t *data, size_t size)
{
	struct spool_origin origin = { 1, UINT64_MAX, 1 };
	struct spool *spool;
	struct ras_event event;
	struct fathom_fault why = { 0 };
	uint64_t cut, last;
	int error;

	write_file(data, size);
	read_left(size);
	error = spool_open(path, 0, &spool, &cut, &why);
	if (error) {
		must(error == -EBADMSG);
		must(strstr(why.text, path));
		return;
	}
	must(cut <= size);
	last = spool_last(spool);
	ras_event_init(&event, RAS_DEVICE_PLUGGED, "x");
	error = spool_add(spool, &origin, &event.message, NULL);
	must(error == 0 || error == -EALREADY || error == -ENOSPC);
	must(spool_flush(spool, NULL) == 0);
	must(spool_last(spool) == last + (error == 0));
	spool_close(spool);
	must(spool_open(path, 0, &spool, &cut, NULL) == 0); /* a repaired file is intact */
	must(cut == 0);
	must(spool_last(spool) == last + (error == 0));
	drain(spool);
	spool_close(spool);
}

/* Correct the checksums, so that the fuzzer reaches the checks after them. */
static void correct_checksums(uint8_t *data, size_t size)
{
	struct spool_head head;
	struct spool_record record;

	if (size < sizeof(head))
		return;
	memcpy(&head, data, sizeof(head));
	head.sum = crc32_iscsi(data, offsetof(struct spool_head, sum), UINT32_MAX);
	memcpy(data, &head, sizeof(head));
	for (size_t at = sizeof(head); size - at >= sizeof(record); at += sizeof(record) + record.payload_bytes) {
		memcpy(&record, data + at, sizeof(record));
		record.magic = SPOOL_RECORD_MAGIC;
		record.payload_bytes = (uint32_t)min_u64(record.payload_bytes % SPOOL_PAYLOAD_MAX,
							 size - at - sizeof(record));
		record.sum = spool_sum(&record, data + at + sizeof(record));
		memcpy(data + at, &record, sizeof(record));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *mended = malloc(size + 1);

	must(mended);
	run(data, size);
	memcpy(mended, data, size);
	correct_checksums(mended, size);
	run(mended, size);
	free(mended);
	return 0;
}

#if !defined(__clang__) || defined(FUZZ_REPLAY)

#include "replay.h"

/* A valid spool: some events of two engines, some of them acknowledged. */
static size_t make_seed(uint8_t *data, size_t room, uint64_t events, uint64_t taken)
{
	struct spool *spool;
	FILE *file;
	size_t bytes;

	write_file(NULL, 0);
	unlink(path);
	must(spool_open(path, 0, &spool, NULL, NULL) == 0);
	for (uint64_t i = 1; i <= events; i++) {
		struct spool_origin origin = { (uint32_t)(i % 2), 5, i };
		struct ras_event event;

		ras_event_init(&event, RAS_ENGINE_DIED, "%d", (int)i);
		must(spool_add(spool, i % 3 ? &origin : NULL, &event.message, NULL) == 0);
		must(spool_flush(spool, NULL) == 0);
	}
	must(spool_taken(spool, taken, NULL) == 0);
	spool_close(spool);
	file = fopen(path, "r");
	must(file);
	bytes = fread(data, 1, room, file);
	must(fclose(file) == 0);
	return bytes;
}

static int write_seeds(const char *folder)
{
	static uint8_t data[1 << 16];

	for (uint64_t i = 0; i < 4; i++) {
		char name[512];
		FILE *file;
		size_t bytes = make_seed(data, sizeof(data), 3 * i, i);

		snprintf(name, sizeof(name), "%s/spool-%d", folder, (int)i);
		file = fopen(name, "w");
		if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0)
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static uint8_t data[1 << 16];

	for (uint64_t i = 0; argc == 1 && i < 4; i++) {
		size_t bytes = make_seed(data, sizeof(data), 3 * i, i);

		LLVMFuzzerTestOneInput(data, bytes);
		LLVMFuzzerTestOneInput(data, bytes - bytes / 5);
	}
	return replay(argc, argv, write_seeds, data, sizeof(data));
}

#endif
