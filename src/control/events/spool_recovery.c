/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Read the spool of a dead engine. Every intact record counts, whatever else is damaged; the receiver recognises events
 * that it already has. The file is read twice, because the last SPOOL_TAKEN record may be anywhere in it.
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

/* Find the next intact record from offset `*at` on, and move `*at` to it. Skipped bytes are counted. false: none left. */
static bool find_record(struct left *left, uint64_t *at, struct spool_record *record_ret)
{
	uint64_t from = *at;

	must(from <= left->bytes);
	for (; *at < left->bytes; ++*at) {
		if (!spool_record_read(left->data, left->bytes, *at, record_ret))
			continue;
		left->loss.damaged_bytes += *at - from;
		return true;
	}
	left->loss.cut_bytes += left->bytes - from;
	return false;
}

static uint64_t record_bytes(const struct spool_record *record)
{
	return sizeof(*record) + record->payload_bytes;
}

static int pass_event(struct left *left, const struct spool_record *record, uint64_t at)
{
	const struct spool_origin origin = { record->instance, record->incarnation, record->sequence };
	Shared__RASEvent *event;
	int error;

	must(at + record_bytes(record) <= left->bytes);
	if (record->kind != SPOOL_EVENT || record->number <= left->taken)
		return 0;
	event = shared__rasevent__unpack(NULL, record->payload_bytes, left->data + at + sizeof(*record));
	if (!event || record->instance >= SPOOL_SOURCES_MAX || record->incarnation == 0 || record->sequence == 0) {
		left->loss.damaged_bytes += record_bytes(record);
		error = 0;
	} else {
		error = left->each(left->ctx, &origin, event);
	}
	if (event)
		shared__rasevent__free_unpacked(event, NULL);
	return error;
}

static int read_events(struct left *left)
{
	struct spool_record record;
	struct spool_head head;
	/* without a valid header, all bytes before the first record count as damaged */
	uint64_t begin = spool_head_check(left->data, left->bytes, &head) ? 0 : sizeof(head);
	int error = 0;

	must(begin <= left->bytes);
	for (uint64_t at = begin; find_record(left, &at, &record); at += record_bytes(&record)) {
		if (record.kind == SPOOL_TAKEN)
			left->taken = max_u64(left->taken, record.number);
	}
	left->loss = (struct spool_loss){ 0 };
	for (uint64_t at = begin; error == 0 && find_record(left, &at, &record); at += record_bytes(&record))
		error = pass_event(left, &record, at);
	if (begin == 0) {
		left->loss.damaged_bytes += left->loss.cut_bytes;
		left->loss.cut_bytes = 0;
	}
	return error;
}

int spool_recover(const char *path, spool_event_fn each, void *ctx, struct spool_loss *loss_ret, struct fathom_fault *why)
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
		error = read_events(&left);
	}
	free(data);
	close(fd);
	if (!error)
		*loss_ret = left.loss;
	return error;
}
