/* SPDX-License-Identifier: BSD-2-Clause */
/* The file of a spool: write a new one, and read one after a crash or damage. */
#include <errno.h>
#include <fcntl.h>
#include <isa-l/crc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/file.h"
#include "control/events/spool_internal.h"
#include "control/fault/fault.h"

enum { PATH_BYTES_MAX = 4096 };

#define NUMBER_MAX (UINT64_MAX / 2) /* larger numbers are damage; below it, additions cannot overflow */

static uint32_t crc_update(uint32_t sum, const void *data, size_t bytes)
{
	return crc32_iscsi((unsigned char *)(uintptr_t)data, (int)bytes, sum);
}

uint32_t spool_sum(const struct spool_record *record, const void *payload)
{
	uint32_t sum = crc_update(UINT32_MAX, &record->payload_bytes,
				  sizeof(*record) - offsetof(struct spool_record, payload_bytes));

	return record->payload_bytes > 0 ? crc_update(sum, payload, record->payload_bytes) : sum;
}

void spool_record_fill(struct spool_record *record, const struct spool_contents *contents)
{
	const struct spool_origin *origin = contents->origin;

	must(contents->payload_bytes <= SPOOL_PAYLOAD_MAX);
	must(contents->payload || contents->payload_bytes == 0);
	must(contents->kind >= SPOOL_EVENT && contents->kind <= SPOOL_MARK);
	*record = (struct spool_record){
		.magic = SPOOL_RECORD_MAGIC,
		.payload_bytes = (uint32_t)contents->payload_bytes,
		.kind = (uint16_t)contents->kind,
		.instance = origin ? (uint16_t)origin->instance : SPOOL_NO_INSTANCE,
		.number = contents->number,
		.incarnation = origin ? origin->incarnation : 0,
		.sequence = origin ? origin->sequence : 0,
		.synced = contents->synced,
	};
	record->sum = spool_sum(record, contents->payload);
}

/* ---- positions of events ---- */

struct spool_place *spool_place(const struct spool *spool, uint64_t number)
{
	must(number > spool->taken);
	must(number - spool->taken <= spool->place_count);
	must(spool->place_first + spool->place_count <= spool->place_room);
	return &spool->places[spool->place_first + (number - spool->taken - 1)];
}

int spool_places_reserve(struct spool *spool, size_t more)
{
	size_t room = max_u64(spool->place_room, 64);
	struct spool_place *places;

	if (spool->place_first > spool->place_count) {
		memmove(spool->places, spool->places + spool->place_first, spool->place_count * sizeof(*places));
		spool->place_first = 0;
	}
	while (room < spool->place_first + spool->place_count + more)
		room *= 2;
	if (room == spool->place_room)
		return 0;
	places = realloc(spool->places, room * sizeof(*places));
	if (!places)
		return -ENOMEM;
	spool->places = places;
	spool->place_room = room;
	return 0;
}

void spool_places_add(struct spool *spool, uint64_t offset, uint32_t payload_bytes)
{
	size_t at = spool->place_first + spool->place_count++;

	must(at < spool->place_room);
	must(offset >= sizeof(struct spool_head));
	must(payload_bytes <= SPOOL_PAYLOAD_MAX);
	spool->places[at] = (struct spool_place){ offset, payload_bytes };
}

void spool_places_drop(struct spool *spool, size_t count)
{
	must(count <= spool->place_count);
	spool->place_first += count;
	spool->place_count -= count;
}

/* ---- write a new file ---- */

/* A file being written. */
struct writing {
	int fd;
	uint64_t bytes;
	int error;
};

static void append_bytes(struct writing *writing, const void *data, size_t bytes)
{
	if (!writing->error)
		writing->error = file_write_at(writing->fd, data, bytes, writing->bytes);
	writing->bytes += bytes;
}

static void append_head(struct writing *writing, const struct spool *spool)
{
	struct spool_head head = { .magic = SPOOL_MAGIC, .version = SPOOL_VERSION, .head_bytes = sizeof(head) };

	must(writing->bytes == 0);
	memcpy(head.uuid, spool->uuid, sizeof(head.uuid));
	head.sum = crc_update(UINT32_MAX, &head, offsetof(struct spool_head, sum));
	append_bytes(writing, &head, sizeof(head));
}

static void append_marks(struct writing *writing, const struct spool *spool)
{
	struct spool_record record;

	for (uint32_t instance = 0; instance < SPOOL_SOURCES_MAX; instance++) {
		for (size_t i = 0; i < SPOOL_INCARNATIONS; i++) {
			const struct spool_known *known = &spool->known[instance][i];
			struct spool_origin origin = { instance, known->incarnation, known->sequence };

			if (known->incarnation == 0)
				continue;
			spool_record_fill(&record, &(struct spool_contents){ .kind = SPOOL_MARK, .origin = &origin });
			append_bytes(writing, &record, sizeof(record));
		}
	}
	spool_record_fill(&record, &(struct spool_contents){ .kind = SPOOL_TAKEN, .number = spool->taken });
	append_bytes(writing, &record, sizeof(record));
}

static void append_events(struct writing *writing, const struct spool *spool)
{
	uint8_t bytes[sizeof(struct spool_record) + SPOOL_PAYLOAD_MAX];

	for (uint64_t number = spool->taken + 1; number <= spool->last && !writing->error; number++) {
		const struct spool_place *place = spool_place(spool, number);
		size_t count = sizeof(struct spool_record) + place->payload_bytes;
		ssize_t got;

		must(count <= sizeof(bytes));
		must(place->offset + count <= spool->bytes);
		got = pread(spool->fd, bytes, count, (off_t)place->offset);
		if (got < 0)
			writing->error = -errno;
		else if ((size_t)got != count)
			writing->error = -EIO;
		else
			append_bytes(writing, bytes, count);
	}
}

/* In the new file the events are adjacent, from `events_at` to the end. */
static void update_places(struct spool *spool, uint64_t events_at)
{
	for (uint64_t number = spool->taken + 1; number <= spool->last; number++) {
		struct spool_place *place = spool_place(spool, number);

		place->offset = events_at;
		events_at += sizeof(struct spool_record) + place->payload_bytes;
	}
	must(events_at == spool->bytes);
}

int spool_rewrite(struct spool *spool)
{
	char path[PATH_BYTES_MAX];
	struct writing writing = { .fd = -1 };
	uint64_t events_at;

	must(spool->pending_count == 0); /* the new file would mark pending events as known */
	if ((size_t)snprintf(path, sizeof(path), "%s.new", spool->path) >= sizeof(path))
		return -ENAMETOOLONG;
	writing.fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (writing.fd < 0)
		return -errno;
	if (flock(writing.fd, LOCK_EX | LOCK_NB) < 0)
		writing.error = -errno;
	append_head(&writing, spool);
	append_marks(&writing, spool);
	events_at = writing.bytes;
	append_events(&writing, spool);
	if (!writing.error && fsync(writing.fd) < 0)
		writing.error = -errno;
	if (!writing.error && rename(path, spool->path) < 0)
		writing.error = -errno;
	if (writing.error) {
		close(writing.fd);
		(void)unlink(path); /* if it stays, the next rewrite overwrites it */
		return writing.error;
	}
	if (spool->fd >= 0)
		close(spool->fd);
	spool->fd = writing.fd;
	spool->bytes = spool->synced = writing.bytes;
	update_places(spool, events_at);
	return file_sync_folder(spool->path);
}

/* ---- read ---- */

struct reading {
	struct spool *spool;
	const uint8_t *data;
	uint64_t bytes;
	bool has_number; /* the first TAKEN or EVENT has been seen */
};

bool spool_record_read(const uint8_t *data, uint64_t bytes, uint64_t at, struct spool_record *record_ret)
{
	must(at <= bytes);
	if (bytes - at < sizeof(*record_ret))
		return false;
	memcpy(record_ret, data + at, sizeof(*record_ret));
	return record_ret->magic == SPOOL_RECORD_MAGIC && record_ret->payload_bytes <= SPOOL_PAYLOAD_MAX &&
	       record_ret->payload_bytes <= bytes - at - sizeof(*record_ret) &&
	       record_ret->sum == spool_sum(record_ret, data + at + sizeof(*record_ret));
}

static bool read_record(const struct reading *reading, uint64_t at, struct spool_record *record_ret)
{
	return spool_record_read(reading->data, reading->bytes, at, record_ret);
}

/*
 * An invalid record at `at` is an incomplete write of a crash, unless a later record says that these bytes were synced.
 */
static bool is_damage(const struct reading *reading, uint64_t at)
{
	struct spool_record record;

	for (uint64_t later = at + 1; later < reading->bytes; later++) {
		if (read_record(reading, later, &record) && record.synced > at)
			return true;
	}
	return false;
}

static int load_event(struct reading *reading, const struct spool_record *record, uint64_t at)
{
	struct spool *spool = reading->spool;
	int error;

	if (record->number != spool->last + 1)
		return -EBADMSG;
	error = spool_places_reserve(spool, 1);
	if (error)
		return error;
	spool_places_add(spool, at, record->payload_bytes);
	spool->last++;
	spool->live_bytes += sizeof(*record) + record->payload_bytes;
	return 0;
}

static int load_taken(struct reading *reading, const struct spool_record *record)
{
	struct spool *spool = reading->spool;

	if (!reading->has_number)
		spool->last = spool->taken = record->number; /* a rewrite dropped the events before */
	if (record->number < spool->taken || record->number > spool->last)
		return -EBADMSG;
	for (uint64_t number = spool->taken + 1; number <= record->number; number++) {
		uint64_t bytes = sizeof(*record) + spool_place(spool, number)->payload_bytes;

		must(spool->live_bytes >= bytes);
		spool->live_bytes -= bytes;
	}
	spool_places_drop(spool, record->number - spool->taken);
	spool->taken = record->number;
	return 0;
}

static int load_record(struct reading *reading, const struct spool_record *record, uint64_t at)
{
	struct spool_origin origin = { record->instance, record->incarnation, record->sequence };
	int error = -EBADMSG;

	if (record->number > NUMBER_MAX)
		return -EBADMSG;
	if (record->instance != SPOOL_NO_INSTANCE) {
		if (record->instance >= SPOOL_SOURCES_MAX || record->incarnation == 0)
			return -EBADMSG;
		spool_learn(reading->spool, &origin);
	}
	if (record->kind == SPOOL_MARK)
		return record->payload_bytes == 0 && record->instance != SPOOL_NO_INSTANCE ? 0 : -EBADMSG;
	if (record->kind == SPOOL_EVENT)
		error = load_event(reading, record, at);
	else if (record->kind == SPOOL_TAKEN && record->payload_bytes == 0)
		error = load_taken(reading, record);
	reading->has_number = true;
	return error;
}

const char *spool_head_check(const uint8_t *data, uint64_t bytes, struct spool_head *head_ret)
{
	if (bytes < sizeof(*head_ret))
		return "it is shorter than its head";
	memcpy(head_ret, data, sizeof(*head_ret));
	if (memcmp(head_ret->magic, SPOOL_MAGIC, sizeof(head_ret->magic)) != 0)
		return "it is no spool of events";
	if (head_ret->sum != crc_update(UINT32_MAX, head_ret, offsetof(struct spool_head, sum)))
		return "its head has changed since it was written";
	if (head_ret->version != SPOOL_VERSION || head_ret->head_bytes != sizeof(*head_ret))
		return "it is of another version";
	return NULL;
}

static int read_head(struct reading *reading, struct fathom_fault *why)
{
	struct spool_head head;
	const char *wrong = spool_head_check(reading->data, reading->bytes, &head);

	if (wrong)
		return fault_spool_damaged(why, reading->spool->path, wrong);
	memcpy(reading->spool->uuid, head.uuid, sizeof(head.uuid));
	return 0;
}

static int read_records(struct reading *reading, uint64_t *good_bytes_ret, struct fathom_fault *why)
{
	struct spool_record record;
	uint64_t at = sizeof(struct spool_head);
	int error;

	for (; at < reading->bytes && read_record(reading, at, &record); at += sizeof(record) + record.payload_bytes) {
		error = load_record(reading, &record, at);
		if (error == -EBADMSG)
			return fault_spool_damaged(why, reading->spool->path, "a record contradicts those before it");
		if (error)
			return error;
	}
	if (at < reading->bytes && is_damage(reading, at))
		return fault_spool_damaged(why, reading->spool->path, "a record has changed since it was written");
	*good_bytes_ret = at;
	return 0;
}

int spool_read_all(int fd, uint8_t **data_ret, uint64_t *bytes_ret)
{
	struct stat about;
	uint8_t *data;
	uint64_t used = 0;
	ssize_t got = 1;

	if (fstat(fd, &about) < 0)
		return -errno;
	if (!S_ISREG(about.st_mode))
		return -EINVAL;
	data = malloc((size_t)about.st_size + 1);
	if (!data)
		return -ENOMEM;
	while (got > 0 && used < (uint64_t)about.st_size) {
		got = pread(fd, data + used, (size_t)about.st_size - used, (off_t)used);
		used += got > 0 ? (uint64_t)got : 0;
	}
	if (got < 0) {
		free(data);
		return -errno;
	}
	must(used <= (uint64_t)about.st_size);
	*data_ret = data;
	*bytes_ret = used;
	return 0;
}

int spool_load(struct spool *spool, uint64_t *cut_bytes_ret, struct fathom_fault *why)
{
	struct reading reading = { .spool = spool };
	uint64_t good_bytes = 0;
	uint8_t *data = NULL;
	int error = spool_read_all(spool->fd, &data, &reading.bytes);

	if (error == -ENOMEM)
		return error;
	if (error)
		return fault_spool_failed(why, spool->path, "be read", strerror(-error));
	reading.data = data;
	error = read_head(&reading, why);
	if (!error)
		error = read_records(&reading, &good_bytes, why);
	free(data);
	if (error)
		return error;
	must(good_bytes >= sizeof(struct spool_head));
	must(good_bytes <= reading.bytes);
	if (good_bytes < reading.bytes && ftruncate(spool->fd, (off_t)good_bytes) < 0)
		return fault_spool_failed(why, spool->path, "be cut", strerror(errno));
	/* sync what was read, so that a later crash cannot lose it */
	if (fdatasync(spool->fd) < 0)
		return fault_spool_failed(why, spool->path, "be synced", strerror(errno));
	*cut_bytes_ret = reading.bytes - good_bytes;
	spool->bytes = spool->synced = good_bytes;
	return 0;
}
