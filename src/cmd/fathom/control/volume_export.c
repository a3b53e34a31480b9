/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom volume export - a snapshot as a stream (docs/formats/volume-stream.md).
 *
 *     clone the snapshot -> publish the clone to a host NQN of this run -> read the changed ranges -> destroy the clone
 *
 * The clone is named export-UUID, of the snapshot: so a run finds and destroys what an interrupted one left. A file that
 * an interrupted run left is continued with --resume: its records are checked, and what follows the last complete one is
 * cut off. A snapshot never changes, so the rest of the list of ranges is the same as before.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/file.h"
#include "cmd/fathom/control/transfer.h"

enum { GAP_BYTES_MAX = 32 << 10 };

struct exporter {
	struct control_run *run;
	char volume[TRANSFER_NAME_BYTES], clone[TRANSFER_NAME_BYTES], host[TRANSFER_NAME_BYTES];
	struct stream_header header;
	struct stream *stream;
	struct transfer_io *io;
	int fd;
	uint8_t *data; /* TRANSFER_BYTES_MAX */
};

/* ---- what is exported ---- */

static const struct fathom_control_snapshot *find_snapshot(const struct fathom_control_volume *volume, const char *name)
{
	for (size_t i = 0; i < volume->snapshot_count; i++) {
		if (strcmp(volume->snapshots[i].name, name) == 0)
			return &volume->snapshots[i];
	}
	return NULL;
}

static int fill_header(struct exporter *self, const struct fathom_control_volume *volume, const char *name,
		       struct fathom_fault *why)
{
	const struct fathom_control_snapshot *snapshot = find_snapshot(volume, name), *base = NULL;
	struct stream_header *header = &self->header;
	const char *from = self->run->values.from;

	if (!snapshot)
		return fault(why, -ENOENT, "volume %s has no snapshot \"%s\"", volume->name, name);
	if (from && !(base = find_snapshot(volume, from)))
		return fault(why, -ENOENT, "volume %s has no snapshot \"%s\"", volume->name, from);
	header->size_bytes = snapshot->size_bytes;
	header->block_bytes = volume->block_bytes;
	header->base_bytes = base ? base->size_bytes : 0;
	if (uuid_parse(volume->uuid, header->volume_uuid) || uuid_parse(snapshot->uuid, header->snapshot_uuid) ||
	    (base && uuid_parse(base->uuid, header->base_uuid)))
		return fault(why, -EPROTO, "the UUIDs of volume %s are not valid", volume->name);
	if (!stream_header_is_valid(header))
		return fault(why, -EPROTO,
			     "snapshot %s of volume %s has an invalid size: %" PRIu64 " bytes in blocks of %" PRIu32,
			     snapshot->name, volume->name, header->size_bytes, header->block_bytes);
	snprintf(header->pool, sizeof(header->pool), "%.*s", (int)strcspn(volume->name, "/"), volume->name);
	snprintf(header->volume, sizeof(header->volume), "%.63s", volume->name + strcspn(volume->name, "/") + 1);
	snprintf(header->snapshot, sizeof(header->snapshot), "%.63s", snapshot->name);
	snprintf(header->base, sizeof(header->base), "%.63s", base ? base->name : "");
	snprintf(self->clone, sizeof(self->clone), "%s/export-%s", header->pool, snapshot->uuid);
	return 0;
}

static int find_source(struct exporter *self, struct fathom_fault *why)
{
	const char *text = self->run->argv[0], *at = strchr(text, '@');
	const struct fathom_control_volume *volume;
	struct fathom_control_volumes *list;
	int error;

	must(at);
	snprintf(self->volume, sizeof(self->volume), "%.*s", (int)(at - text), text);
	error = transfer_find(self->run, self->volume, &list, &volume, why);
	if (error)
		return error;
	error = fill_header(self, volume, at + 1, why);
	fathom_control_free(list);
	return error;
}

/* ---- the clone ---- */

/* Destroy the clone of this run or of an interrupted one. It is no error if there is none. */
static int destroy_clone(struct exporter *self, struct fathom_fault *why)
{
	struct fathom_control_volume *volume;
	int error = fathom_control_volume_destroy(self->run->control, self->clone, true, &volume, why);

	if (error == -ENOENT)
		return 0;
	if (!error)
		fathom_control_free(volume);
	return error;
}

static int destroy_leftover(struct exporter *self, struct fathom_fault *why)
{
	const struct fathom_control_volume *volume;
	struct fathom_control_volumes *list;
	bool is_there = false;
	int error = transfer_find(self->run, self->clone, &list, &volume, why);

	if (error == -ENOENT)
		return 0;
	if (error)
		return error;
	if (volume->host_count > 0)
		snprintf(self->host, sizeof(self->host), "%s", volume->hosts[0].nqn);
	fathom_control_free(list);
	if (self->host[0])
		error = transfer_wait_alone(self->run, self->clone, self->host, &is_there, why);
	return error ? error : destroy_clone(self, why);
}

static int open_clone(struct exporter *self, struct fathom_fault *why)
{
	const struct fathom_control_new_volume new_volume = { .name = self->clone,
							      .from = self->run->argv[0],
							      .read_only = true };
	struct fathom_control *control = self->run->control;
	struct fathom_control_volume *volume;
	char uuid[UUID_STR_LEN];
	uuid_t random;
	int error = destroy_leftover(self, why);

	if (!error)
		error = fathom_control_volume_create(control, &new_volume, &volume, why);
	if (error)
		return error;
	fathom_control_free(volume);
	uuid_generate(random);
	uuid_unparse_lower(random, uuid);
	snprintf(self->host, sizeof(self->host), "nqn.2014-08.org.nvmexpress:uuid:%s", uuid);
	error = fathom_control_volume_publish(control, self->clone, self->host, &volume, why);
	if (error)
		return error;
	error = transfer_io_open(volume, self->host, &self->io, why);
	fathom_control_free(volume);
	return error;
}

/* ---- the file ---- */

/* Read the file of an interrupted run up to its last complete record. */
static int read_begun(struct exporter *self, struct fathom_fault *why)
{
	struct stream_record record;
	struct stream_totals totals;
	struct fathom_fault end;
	int error = transfer_take_header(self->stream, self->fd, &end);

	if (error)
		return transfer_bad_stream(self->stream, &end, why);
	if (memcmp(stream_get_header(self->stream), &self->header, sizeof(self->header)) != 0)
		return fault(why, -EEXIST, "%s has another snapshot, or the difference from another",
			     self->run->values.output);
	do {
		error = transfer_take_record(self->stream, self->fd, &record, self->data, &end);
		stream_get_totals(self->stream, &totals);
	} while (!error && !totals.is_complete);
	if (error && error != -EBADMSG && error != -ENODATA)
		return fault(why, error, "%s", end.text);
	if (ftruncate(self->fd, (off_t)totals.stream_bytes) != 0 || lseek(self->fd, 0, SEEK_END) < 0)
		return fault(why, -errno, "cannot cut %s: %s", self->run->values.output, strerror(errno));
	return 0;
}

static int put_bytes(struct exporter *self, const void *data, size_t bytes, struct fathom_fault *why)
{
	int error = file_write(self->fd, data, bytes);

	return error ? fault(why, error, "cannot write the stream: %s", strerror(-error)) : 0;
}

static int begin_stream(struct exporter *self, struct fathom_fault *why)
{
	uint8_t out[STREAM_HEADER_BYTES];

	if (self->run->values.resume && lseek(self->fd, 0, SEEK_END) > 0) {
		must(lseek(self->fd, 0, SEEK_SET) == 0);
		return read_begun(self, why);
	}
	stream_put_header(self->stream, &self->header, out);
	return put_bytes(self, out, sizeof(out), why);
}

static int open_output(struct exporter *self, struct fathom_fault *why)
{
	const char *path = self->run->values.output;

	self->fd = STDOUT_FILENO;
	if (!path || strcmp(path, "-") == 0)
		return 0;
	self->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | (self->run->values.resume ? 0 : O_EXCL), 0600);
	if (self->fd < 0)
		return fault(why, -errno, "cannot create %s: %s%s", path, strerror(errno),
			     errno == EEXIST ? "; --resume continues an interrupted export" : "");
	return 0;
}

/* ---- the data ---- */

static int put_zeroes(struct exporter *self, uint64_t offset, uint64_t bytes, struct fathom_fault *why)
{
	uint8_t out[STREAM_RECORD_BYTES];

	stream_put_zeroes(self->stream, offset, bytes, out);
	return put_bytes(self, out, sizeof(out), why);
}

static int put_piece(struct exporter *self, uint64_t offset, uint32_t bytes, struct fathom_fault *why)
{
	uint8_t out[STREAM_RECORD_BYTES];
	int error = transfer_read(self->io, offset, self->data, bytes, why);

	if (error)
		return error;
	stream_put_data(self->stream, offset, self->data, bytes, out);
	error = put_bytes(self, out, sizeof(out), why);
	if (!error)
		error = put_bytes(self, self->data, bytes, why);
	transfer_progress(self->stream, "export");
	return error;
}

static int put_run(struct exporter *self, uint64_t begin, uint64_t end, struct fathom_fault *why)
{
	int error = 0;

	for (uint64_t at = begin; !error && at < end; at += TRANSFER_BYTES_MAX)
		error = put_piece(self, at, (uint32_t)min_u64(end - at, TRANSFER_BYTES_MAX), why);
	return error;
}

/* The whole blocks of a range that are behind `from`. A file system's blocks may be smaller than the volume's. */
static struct fathom_control_range whole_blocks(const struct exporter *self, const struct fathom_control_range *range,
						uint64_t from)
{
	uint64_t block_bytes = self->header.block_bytes, end = range->offset + range->bytes;
	uint64_t first = range->offset / block_bytes * block_bytes,
		 last = (end + block_bytes - 1) / block_bytes * block_bytes;
	bool is_whole = first == range->offset && last == end;

	first = max_u64(first, from);
	return (struct fathom_control_range){ .offset = first,
					      .bytes = max_u64(first, last) - first,
					      .zero = range->zero && is_whole };
}

/* Ranges with a small gap between them are one run: what stands in the gap is as in the base, so it may be written, too. */
static int put_part(struct exporter *self, const struct fathom_control_changes *part, struct fathom_fault *why)
{
	struct stream_totals totals;
	uint64_t begin, end;
	int error = 0;

	stream_get_totals(self->stream, &totals);
	begin = end = totals.next;
	for (size_t i = 0; !error && i < part->range_count; i++) {
		const struct fathom_control_range range = whole_blocks(self, &part->ranges[i], end);

		if (range.bytes == 0)
			continue;
		if (range.zero || begin == end || range.offset - end > GAP_BYTES_MAX) {
			error = put_run(self, begin, end, why);
			begin = range.offset;
		}
		end = range.offset + range.bytes;
		if (!range.zero)
			continue;
		if (!error)
			error = put_zeroes(self, range.offset, range.bytes, why);
		begin = end;
	}
	return error ? error : put_run(self, begin, end, why);
}

/* Whether the ranges of a part are ascending from `offset`, not empty, and in the volume. */
static int check_ranges(const struct exporter *self, const struct fathom_control_changes *part, uint64_t offset,
			struct fathom_fault *why)
{
	uint64_t size_bytes = self->header.size_bytes, at = offset;

	for (size_t i = 0; i < part->range_count; i++) {
		const struct fathom_control_range *range = &part->ranges[i];

		if (range->offset < at || range->bytes == 0 || range->offset > size_bytes ||
		    range->bytes > size_bytes - range->offset)
			return fault(why, -EPROTO,
				     "the engine's list of changes has %" PRIu64 " bytes at %" PRIu64 ", which cannot be",
				     range->bytes, range->offset);
		at = range->offset + range->bytes;
	}
	return 0;
}

/* Whether a part of the list is about the snapshots of the header, is valid, and goes on. */
static int check_part(const struct exporter *self, const struct fathom_control_changes *part, uint64_t offset,
		      struct fathom_fault *why)
{
	uint8_t uuid[STREAM_UUID_BYTES], base[STREAM_UUID_BYTES] = { 0 };

	if (uuid_parse(part->uuid, uuid) || (part->from_uuid[0] && uuid_parse(part->from_uuid, base)) ||
	    uuid_compare(uuid, self->header.snapshot_uuid) != 0 || uuid_compare(base, self->header.base_uuid) != 0)
		return fault(why, -ESTALE, "a snapshot was replaced during the export");
	if (part->next_offset <= offset)
		return fault(why, -EPROTO, "the engine's list of changes does not go on at %" PRIu64, offset);
	return check_ranges(self, part, offset, why);
}

static int put_changes(struct exporter *self, struct fathom_fault *why)
{
	struct fathom_control_changes *part;
	struct stream_totals totals;
	uint64_t offset;
	int error = 0;

	stream_get_totals(self->stream, &totals);
	offset = totals.next;
	while (!error && offset < self->header.size_bytes) {
		error = fathom_control_snapshot_changes(self->run->control, self->run->argv[0], self->run->values.from,
							offset, &part, why);
		if (error)
			break;
		error = check_part(self, part, offset, why);
		if (!error)
			error = put_part(self, part, why);
		offset = part->next_offset;
		fathom_control_free(part);
	}
	return error;
}

static int end_stream(struct exporter *self, struct fathom_fault *why)
{
	uint8_t out[STREAM_RECORD_BYTES + STREAM_DIGEST_BYTES];
	int error;

	stream_put_end(self->stream, out);
	error = put_bytes(self, out, sizeof(out), why);
	if (!error && self->fd != STDOUT_FILENO && fsync(self->fd) != 0)
		error = fault(why, -errno, "cannot sync the stream: %s", strerror(errno));
	return error;
}

static int export_data(struct exporter *self, struct fathom_fault *why)
{
	struct fathom_fault left;
	int error = open_clone(self, why);

	if (!error)
		error = put_changes(self, why);
	if (!error)
		error = end_stream(self, why);
	transfer_progress_end();
	transfer_io_close(self->io);
	/* after a signal the first call is cancelled */
	if (error != -EBUSY && destroy_clone(self, &left) && destroy_clone(self, &left))
		fprintf(stderr, "fathom: volume %s is left, and the next export of this snapshot destroys it: %s\n",
			self->clone, left.text);
	return error;
}

static int run_export(struct exporter *self, struct fathom_fault *why)
{
	struct stream_totals totals;
	int error = find_source(self, why);

	if (!error)
		error = open_output(self, why);
	if (!error)
		error = begin_stream(self, why);
	if (error)
		return error;
	stream_get_totals(self->stream, &totals);
	return totals.is_complete ? 0 : export_data(self, why);
}

int run_volume_export(struct control_run *run)
{
	struct exporter self = { .run = run, .fd = -1 };
	bool is_stdout = !run->values.output || strcmp(run->values.output, "-") == 0;
	struct stream_totals totals;
	struct fathom_fault why;
	int status, error;

	if (!strchr(run->argv[0], '@'))
		return control_bad(run, "\"%s\" is not POOL/VOLUME@SNAPSHOT", run->argv[0]);
	if (is_stdout && (isatty(STDOUT_FILENO) || control_is_json(run) || run->values.resume))
		return control_bad(run, "--output FILE is missing");
	(void)signal(SIGPIPE, SIG_IGN); /* a write fails instead, and the clone is destroyed */
	self.stream = stream_create();
	self.data = malloc(TRANSFER_BYTES_MAX);
	must(self.data);
	error = run_export(&self, &why);
	stream_get_totals(self.stream, &totals);
	if (!error && !is_stdout && !control_is_json(run))
		printf("Snapshot %s is exported: %" PRIu64 " bytes of data\n", run->argv[0], totals.data_bytes);
	status = error ? control_fail(run, &why)
		       : control_finish(run, control_is_json(run) ? transfer_json(self.stream, run->argv[0]) : NULL, NULL);
	if (self.fd > STDERR_FILENO)
		must(close(self.fd) == 0 || errno != EBADF);
	stream_destroy(self.stream);
	free(self.data);
	return status;
}
