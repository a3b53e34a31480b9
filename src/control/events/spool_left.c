/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The spool of an engine that is dead: whatever became of the file, each record in it that is whole counts, for who reads
 * it knows the events that he has. It is read twice: the last record that something was taken may stand anywhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "control/events/spool_internal.h"
#include "control/fault/fault.h"

struct left {
	const uint8_t *data;
	uint64_t bytes, taken;
	struct spool_loss loss;
	spool_event_fn each;
	void *ctx;
};

/* The next whole record from `*at` on, and where it is; what was passed over is counted. False: there is none. */
static bool next(struct left *left, uint64_t *at, struct spool_record *record_ret)
{
	uint64_t from = *at;

	for (; *at < left->bytes; ++*at) {
		if (!spool_record_read(left->data, left->bytes, *at, record_ret))
			continue;
		left->loss.damaged_bytes += *at - from;
		return true;
	}
	left->loss.cut_bytes += left->bytes - from;
	return false;
}

static uint64_t bytes_of(const struct spool_record *record)
{
	return sizeof(*record) + record->payload_bytes;
}

static int hand_over(struct left *left, const struct spool_record *record, uint64_t at)
{
	const struct spool_origin origin = { record->instance, record->incarnation, record->sequence };
	Shared__RASEvent *event;
	int error;

	if (record->kind != SPOOL_EVENT || record->number <= left->taken)
		return 0;
	event = shared__rasevent__unpack(NULL, record->payload_bytes, left->data + at + sizeof(*record));
	if (!event || record->instance >= SPOOL_SOURCES_MAX || record->incarnation == 0 || record->sequence == 0) {
		left->loss.damaged_bytes += bytes_of(record);
		error = 0;
	} else {
		error = left->each(left->ctx, &origin, event);
	}
	if (event)
		shared__rasevent__free_unpacked(event, NULL);
	return error;
}

static int read_twice(struct left *left)
{
	struct spool_record record;
	struct spool_head head;
	/* without its head, all that stands before the first record is damage */
	uint64_t begin = spool_head_check(left->data, left->bytes, &head) ? 0 : sizeof(head);
	int error = 0;

	for (uint64_t at = begin; next(left, &at, &record); at += bytes_of(&record)) {
		if (record.kind == SPOOL_TAKEN)
			left->taken = max_u64(left->taken, record.number);
	}
	left->loss = (struct spool_loss){ 0 };
	for (uint64_t at = begin; error == 0 && next(left, &at, &record); at += bytes_of(&record))
		error = hand_over(left, &record, at);
	if (begin == 0) {
		left->loss.damaged_bytes += left->loss.cut_bytes;
		left->loss.cut_bytes = 0;
	}
	return error;
}

int spool_read_left(const char *path, spool_event_fn each, void *ctx, struct spool_loss *loss_ret, struct fault *why)
{
	struct left left = { .each = each, .ctx = ctx };
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), error;
	uint8_t *data = NULL;

	if (fd < 0)
		return spool_failed(path, -errno, "be opened", why);
	error = spool_lock(fd, path, why);
	if (!error) {
		error = spool_read_all(fd, &data, &left.bytes);
		if (error && error != -ENOMEM)
			error = spool_failed(path, error, "be read", why);
	}
	if (!error) {
		left.data = data;
		error = read_twice(&left);
	}
	free(data);
	close(fd);
	if (!error)
		*loss_ret = left.loss;
	return error;
}
