/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/events/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/inject/inject.h"
#include "control/events/spool_internal.h"
#include "control/fault/fault.h"
#include "rpc/ras/event.h"

int spool_failed(const char *path, int error, const char *operation, struct fathom_fault *why)
{
	int result;

	must(error < 0);
	result = fault_spool_failed(why, path, operation, strerror(-error));
	if (why)
		why->error = error;
	maybe(result == error);
	return error;
}

static int report_failure(const struct spool *spool, int error, const char *operation, struct fathom_fault *why)
{
	return spool_failed(spool->path, error, operation, why);
}

int spool_lock(int fd, const char *path, struct fathom_fault *why)
{
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	return errno == EWOULDBLOCK ? fault_spool_in_use(why, path) : spool_failed(path, -errno, "be locked", why);
}

/* The counts of an open spool, between calls. */
static void check_spool(const struct spool *spool)
{
	must(spool->fd >= 0);
	must(spool->taken <= spool->last);
	must(spool->place_count == spool->last - spool->taken);
	must(spool->place_first + spool->place_count <= spool->place_room);
	must(spool->bytes >= sizeof(struct spool_head));
	must(spool->synced <= spool->bytes);
	must(spool->pending_bytes <= spool->pending_room);
	must(spool->pending_count <= SPOOL_PENDING_MAX);
	must((spool->pending_count == 0) == (spool->pending_bytes == 0));
	must(spool->live_bytes >= spool->pending_bytes);
}

static int create_file(struct spool *spool, struct fathom_fault *why)
{
	int error;

	uuid_generate_random(spool->uuid);
	error = spool_rewrite(spool);
	return error ? report_failure(spool, error, "be made", why) : 0;
}

int spool_open(const char *path, uint64_t bytes_max, struct spool **spool_ret, uint64_t *cut_bytes_ret,
	       struct fathom_fault *why)
{
	struct spool *spool = calloc(1, sizeof(*spool));
	uint64_t cut_bytes = 0;
	int error = 0;

	if (!spool)
		return -ENOMEM;
	spool->fd = -1;
	spool->bytes_max = bytes_max ? bytes_max : SPOOL_BYTES_MAX;
	spool->path = strdup(path);
	if (!spool->path)
		error = -ENOMEM;
	if (!error) {
		spool->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
		if (spool->fd >= 0)
			error = spool_lock(spool->fd, path, why);
		else if (errno == ENOENT)
			error = create_file(spool, why);
		else
			error = report_failure(spool, -errno, "be opened", why);
	}
	if (!error && spool->bytes == 0)
		error = spool_load(spool, &cut_bytes, why);
	if (error) {
		spool_close(spool);
		return error;
	}
	check_spool(spool);
	must(spool->pending_count == 0);
	uuid_unparse_lower(spool->uuid, spool->source);
	if (cut_bytes_ret)
		*cut_bytes_ret = cut_bytes;
	*spool_ret = spool;
	return 0;
}

void spool_close(struct spool *spool)
{
	if (!spool)
		return;
	if (spool->fd >= 0)
		close(spool->fd);
	free(spool->path);
	free(spool->places);
	free(spool->pending);
	free(spool);
}

/* ---- known events of engines ---- */

bool spool_is_known(const struct spool *spool, const struct spool_origin *origin)
{
	const struct spool_known *known = spool->known[origin->instance];
	uint64_t oldest = UINT64_MAX;

	must(origin->instance < SPOOL_SOURCES_MAX);
	for (size_t i = 0; i < SPOOL_INCARNATIONS; i++) {
		if (known[i].incarnation == origin->incarnation)
			return origin->sequence <= known[i].sequence;
		oldest = min_u64(oldest, known[i].incarnation);
	}
	/* an incarnation older than all remembered ones was forgotten; it is not new */
	return origin->incarnation < oldest;
}

void spool_learn(struct spool *spool, const struct spool_origin *origin)
{
	struct spool_known *known = spool->known[origin->instance], *oldest = known;

	must(origin->instance < SPOOL_SOURCES_MAX);
	must(origin->incarnation > 0); /* 0 marks a free place */
	for (size_t i = 0; i < SPOOL_INCARNATIONS; i++) {
		if (known[i].incarnation == origin->incarnation) {
			known[i].sequence = max_u64(known[i].sequence, origin->sequence);
			return;
		}
		if (known[i].incarnation < oldest->incarnation)
			oldest = &known[i];
	}
	if (origin->incarnation > oldest->incarnation)
		*oldest = (struct spool_known){ origin->incarnation, origin->sequence };
}

/* ---- adding ---- */

static int check_event(const struct spool_origin *origin, const Shared__RASEvent *event, struct fathom_fault *why)
{
	struct fathom_fault of_event = { 0 };

	if (ras_event_check(event, &of_event) < 0)
		return fault_event_bad(why, of_event.text);
	if (!origin)
		return 0;
	if (origin->instance >= SPOOL_SOURCES_MAX)
		return fault_event_bad(why, "there is no such instance");
	if (origin->incarnation == 0 || origin->sequence == 0)
		return fault_event_bad(why, "its incarnation or its sequence is 0");
	return 0;
}

int spool_add(struct spool *spool, const struct spool_origin *origin, const Shared__RASEvent *event,
	      struct fathom_fault *why)
{
	size_t payload_bytes = shared__rasevent__get_packed_size(event);
	size_t bytes = sizeof(struct spool_record) + payload_bytes;
	struct spool_record record;
	uint8_t *at;
	int error = check_event(origin, event, why);

	if (error)
		return error;
	if (payload_bytes > SPOOL_PAYLOAD_MAX)
		return fault_event_bad(why, "it is too long");
	if (origin && spool_is_known(spool, origin))
		return -EALREADY;
	if (spool->pending_count == SPOOL_PENDING_MAX)
		return -ENOBUFS;
	if (spool->live_bytes + bytes > spool->bytes_max)
		return fault_spool_full(why, spool->path, spool_untaken(spool) + spool->pending_count);
	error = buffer_reserve(&spool->pending, &spool->pending_room, spool->pending_bytes + bytes, SIZE_MAX);
	if (error)
		return error;
	at = spool->pending + spool->pending_bytes;
	must(shared__rasevent__pack(event, at + sizeof(record)) == payload_bytes);
	spool_record_fill(&record, &(struct spool_contents){
					   .kind = SPOOL_EVENT,
					   .number = spool->last + spool->pending_count + 1,
					   .origin = origin,
					   .payload = at + sizeof(record),
					   .payload_bytes = payload_bytes,
					   .synced = spool->synced,
				   });
	memcpy(at, &record, sizeof(record));
	spool->pending_bytes += bytes;
	spool->pending_count++;
	spool->live_bytes += bytes;
	if (origin)
		spool_learn(spool, origin);
	must(!origin || spool_is_known(spool, origin));
	check_spool(spool);
	return 0;
}

/* The pending records are now in the file, at offset `bytes`. */
static void mark_written(struct spool *spool)
{
	size_t at = 0;

	while (at < spool->pending_bytes) {
		struct spool_record record;

		memcpy(&record, spool->pending + at, sizeof(record));
		must(record.number == spool->last + 1);
		must(record.magic == SPOOL_RECORD_MAGIC);
		must(record.kind == SPOOL_EVENT);
		spool_places_add(spool, spool->bytes + at, record.payload_bytes);
		spool->last++;
		at += sizeof(record) + record.payload_bytes;
	}
	must(at == spool->pending_bytes);
	spool->bytes += spool->pending_bytes;
	spool->synced = spool->bytes;
	spool->pending_bytes = spool->pending_count = 0;
}

int spool_flush(struct spool *spool, struct fathom_fault *why)
{
	int error;

	if (spool->pending_count == 0)
		return 0;
	error = spool_places_reserve(spool, spool->pending_count);
	if (error)
		return error;
	/* a retry writes at the same offset, and so overwrites the rest of a failed attempt */
	error = inject(INJECT_SPOOL_WRITE);
	if (!error)
		error = file_write_at(spool->fd, spool->pending, spool->pending_bytes, spool->bytes);
	if (error)
		return report_failure(spool, error, "be written", why);
	if (fdatasync(spool->fd) < 0)
		return report_failure(spool, -errno, "be synced", why);
	mark_written(spool);
	check_spool(spool);
	must(spool->synced == spool->bytes);
	return 0;
}

/* ---- handing over ---- */

static int read_event(const struct spool *spool, uint64_t number, Fathom__NumberedEvent **event_ret,
		      struct fathom_fault *why)
{
	const struct spool_place *place = spool_place(spool, number);
	uint8_t bytes[sizeof(struct spool_record) + SPOOL_PAYLOAD_MAX];
	size_t count = sizeof(struct spool_record) + place->payload_bytes;
	struct spool_record record;
	Fathom__NumberedEvent *event;
	ssize_t got;

	must(place->offset >= sizeof(struct spool_head));
	must(place->offset + count <= spool->bytes);
	must(count <= sizeof(bytes));
	got = pread(spool->fd, bytes, count, (off_t)place->offset);
	if (got < 0)
		return report_failure(spool, -errno, "be read", why);
	memcpy(&record, bytes, sizeof(record));
	if ((size_t)got != count || record.magic != SPOOL_RECORD_MAGIC || record.number != number ||
	    record.sum != spool_sum(&record, bytes + sizeof(record)))
		return fault_spool_damaged(why, spool->path, "a record has changed since it was written");
	event = malloc(sizeof(*event));
	if (!event)
		return -ENOMEM;
	fathom__numbered_event__init(event);
	event->number = number;
	event->event = shared__rasevent__unpack(NULL, place->payload_bytes, bytes + sizeof(record));
	if (!event->event) {
		free(event);
		return fault_spool_damaged(why, spool->path, "a record is no event");
	}
	*event_ret = event;
	return 0;
}

int spool_batch(struct spool *spool, size_t max, size_t bytes_max, struct spool_batch *batch_ret, struct fathom_fault *why)
{
	size_t bytes = 0;

	must(max > 0);
	batch_ret->count = 0;
	for (uint64_t number = spool->taken + 1; number <= spool->last && batch_ret->count < min_u64(max, SPOOL_BATCH_MAX);
	     number++) {
		int error;

		bytes += spool_place(spool, number)->payload_bytes;
		if (batch_ret->count > 0 && bytes > bytes_max)
			break;
		error = read_event(spool, number, &batch_ret->events[batch_ret->count], why);
		if (error) {
			spool_batch_deinit(batch_ret);
			return error;
		}
		must(batch_ret->events[batch_ret->count]->number == number);
		batch_ret->count++;
	}
	return 0;
}

void spool_batch_deinit(struct spool_batch *batch)
{
	for (size_t i = 0; i < batch->count; i++)
		fathom__numbered_event__free_unpacked(batch->events[i], NULL);
	batch->count = 0;
}

int spool_taken(struct spool *spool, uint64_t number, struct fathom_fault *why)
{
	struct spool_record record;
	int error;

	must(number <= spool->last);
	if (number <= spool->taken)
		return 0;
	for (uint64_t taken = spool->taken + 1; taken <= number; taken++) {
		uint64_t bytes = sizeof(record) + spool_place(spool, taken)->payload_bytes;

		must(spool->live_bytes >= bytes);
		spool->live_bytes -= bytes;
	}
	spool_places_drop(spool, number - spool->taken);
	spool->taken = number;
	check_spool(spool);
	/* no rewrite with pending events: the new file would mark them as known, although they are not on disk */
	if (spool->pending_count == 0 && spool->bytes > SPOOL_COMPACT_BYTES && spool->live_bytes < spool->bytes / 2) {
		error = spool_rewrite(spool);
		return error ? report_failure(spool, error, "be made smaller", why) : 0;
	}
	spool_record_fill(&record,
			  &(struct spool_contents){ .kind = SPOOL_TAKEN, .number = number, .synced = spool->synced });
	error = file_write_at(spool->fd, &record, sizeof(record), spool->bytes);
	if (error)
		return report_failure(spool, error, "be written", why);
	spool->bytes += sizeof(record);
	return 0;
}

const char *spool_source(const struct spool *spool)
{
	return spool->source;
}

uint64_t spool_last(const struct spool *spool)
{
	return spool->last;
}

uint64_t spool_pending(const struct spool *spool)
{
	return spool->pending_count;
}

uint64_t spool_untaken(const struct spool *spool)
{
	return spool->last - spool->taken;
}

uint64_t spool_bytes(const struct spool *spool)
{
	return spool->bytes;
}
