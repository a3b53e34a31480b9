/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom volume import - a stream (docs/formats/volume-stream.md) into a volume.
 *
 *     without a base   create the volume -> publish -> write -> snapshot -> unpublish
 *     with a base      the volume has the base as a snapshot, and did not change since -> publish -> write -> ...
 *
 * Until an import is complete, the volume is published to a host NQN with the UUID of the stream's snapshot. It is durable
 * in the volume's record. So a later run knows which import was interrupted, and only the same stream continues it, with
 * --resume: the stream is read from its beginning again, and data that the volume has already are compared and not written.
 * So nothing depends on a note of how far an import came.
 *
 * The snapshot that ends an import has the name and the UUID of the stream's. By this UUID the next difference finds its
 * base. A stream that is damaged is refused at the first bad record: what was written before it stays, and the volume has
 * no such snapshot.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "cmd/fathom/control/transfer.h"
#include "control/fault/fault.h"

#define MARK "nqn.2014-08.org.nvmexpress:fathom-import:"

struct import {
	struct control_run *run;
	const char *name;
	char mark[TRANSFER_NAME_BYTES]; /* the host NQN */
	char snapshot_uuid[UUID_STR_LEN], base_uuid[UUID_STR_LEN];
	struct stream *stream;
	const struct stream_header *header;
	struct transfer_io *io;
	int fd;
	bool is_resumed;  /* an earlier run has begun */
	bool is_complete; /* and an earlier run has ended */
	bool has_no_snapshot;
	uint8_t *data, *found; /* TRANSFER_BYTES_MAX */
};

/* ---- may the stream go into this volume? ---- */

static bool has_snapshot(const struct fathom_control_volume *volume, const char *uuid, const char **name_ret)
{
	for (size_t i = 0; i < volume->snapshot_count; i++) {
		if (strcmp(volume->snapshots[i].uuid, uuid) != 0)
			continue;
		*name_ret = volume->snapshots[i].name;
		return true;
	}
	return false;
}

/* Hosts that may change the volume meanwhile; the mark of an interrupted import. */
static int check_hosts(struct import *import, const struct fathom_control_volume *volume, struct fathom_fault *why)
{
	for (size_t i = 0; i < volume->host_count; i++) {
		const struct fathom_control_volume_host *host = &volume->hosts[i];

		if (strncmp(host->nqn, MARK, strlen(MARK)) != 0)
			return fault(why, -EBUSY, "volume %s is published to host %s: unpublish it first", import->name,
				     host->nqn);
		if (strcmp(host->nqn, import->mark) != 0 || !import->run->values.resume)
			return fault_import_interrupted(why, import->name, host->nqn + strlen(MARK));
		import->is_resumed = true;
	}
	return 0;
}

/* Whether the volume was written since the base. */
static int check_unchanged(struct import *import, const char *base, struct fathom_fault *why)
{
	struct fathom_control_changes *changes;
	struct fathom_control_volumes *restored;
	char name[TRANSFER_NAME_BYTES];
	uint64_t offset = 0;
	bool is_changed = false, is_last = false;
	int error;

	while (!is_changed && !is_last) {
		error = fathom_control_snapshot_changes(import->run->control, import->name, base, offset, &changes, why);
		if (error)
			return error;
		is_changed = changes->range_count > 0;
		is_last = changes->next_offset >= changes->size_bytes || changes->next_offset <= offset;
		offset = changes->next_offset;
		fathom_control_free(changes);
	}
	if (!is_changed)
		return 0;
	if (!import->run->values.force)
		return fault_stream_not_fitting(why, import->name,
						"the volume was written since its snapshot that the stream begins with; "
						"--force goes back to it");
	snprintf(name, sizeof(name), "%.190s@%.63s", import->name, base);
	error = fathom_control_snapshot_restore(import->run->control, name, true, &restored, why);
	if (!error)
		fathom_control_free(restored);
	return error;
}

/* A stream with a base. */
static int check_base(struct import *import, const struct fathom_control_volume *volume, struct fathom_fault *why)
{
	char text[TRANSFER_NAME_BYTES];
	const char *base;

	if (!has_snapshot(volume, import->base_uuid, &base)) {
		snprintf(text, sizeof(text), "it is the difference from snapshot %s (%s), which the volume does not have",
			 import->base_uuid, import->header->base);
		return fault_stream_not_fitting(why, import->name, text);
	}
	if (volume->block_bytes != import->header->block_bytes || volume->size_bytes > import->header->size_bytes) {
		snprintf(text, sizeof(text),
			 "its volume has %" PRIu64 " bytes in blocks of %" PRIu32 ", and this one %" PRIu64
			 " in blocks of %" PRIu32,
			 import->header->size_bytes, import->header->block_bytes, volume->size_bytes, volume->block_bytes);
		return fault_stream_not_fitting(why, import->name, text);
	}
	return import->is_resumed ? 0 : check_unchanged(import, base, why);
}

static int grow(struct import *import, uint64_t size_bytes, struct fathom_fault *why)
{
	struct fathom_control_volume *volume;
	int error;

	if (size_bytes >= import->header->size_bytes)
		return 0;
	error = fathom_control_volume_resize(import->run->control, import->name, import->header->size_bytes, false, &volume,
					     why);
	if (!error)
		fathom_control_free(volume);
	return error;
}

static int create_volume(struct import *import, struct fathom_fault *why)
{
	const struct fathom_control_new_volume new_volume = {
		.name = import->name,
		.size_bytes = import->header->size_bytes,
		.block_bytes = import->header->block_bytes,
		.thick = import->run->values.thick,
		.checksums = import->run->values.checksums,
		.ranks = import->run->values.ranks,
	};
	struct fathom_control_volume *volume;
	int error = fathom_control_volume_create(import->run->control, &new_volume, &volume, why);

	if (!error)
		fathom_control_free(volume);
	return error;
}

/*
 * Whether an earlier run may have ended between the creation of the volume and its mark: nothing else is known of it. The
 * zeroes of a stream without a base are in no record, so what the volume has elsewhere would stay.
 */
static bool is_fresh(struct import *import, const struct fathom_control_volume *volume)
{
	return import->run->values.resume && volume->host_count == 0 && volume->snapshot_count == 0 &&
	       volume->size_bytes == import->header->size_bytes && volume->block_bytes == import->header->block_bytes &&
	       (volume->allocated_bytes == 0 || (volume->thick && import->run->values.thick));
}

static int check_existing(struct import *import, const struct fathom_control_volume *volume, struct fathom_fault *why)
{
	bool has_base = !uuid_is_null(import->header->base_uuid);
	const char *name;
	int error;

	if (has_snapshot(volume, import->snapshot_uuid, &name)) { /* only the mark may be left */
		import->is_complete = true;
		return 0;
	}
	error = check_hosts(import, volume, why);
	if (error)
		return error;
	if (has_base)
		error = check_base(import, volume, why);
	else if (!import->is_resumed && !is_fresh(import, volume))
		error = fault_stream_not_fitting(
			why, import->name, "the stream is a whole volume, and becomes a new one, but this one exists");
	return error ? error : grow(import, volume->size_bytes, why);
}

static int prepare_volume(struct import *import, struct fathom_fault *why)
{
	const struct fathom_control_volume *volume;
	struct fathom_control_volumes *list;
	int error = transfer_find(import->run, import->name, &list, &volume, why);

	if (error == -ENOENT && uuid_is_null(import->header->base_uuid))
		return create_volume(import, why);
	if (error)
		return error;
	error = check_existing(import, volume, why);
	fathom_control_free(list);
	return error;
}

static int open_volume(struct import *import, struct fathom_fault *why)
{
	struct fathom_control_volume *volume;
	bool is_there;
	int error = transfer_wait_alone(import->run, import->name, import->mark, &is_there, why);

	if (!error)
		error = fathom_control_volume_publish(import->run->control, import->name, import->mark, &volume, why);
	if (error)
		return error;
	error = transfer_io_open(volume, import->mark, &import->io, why);
	fathom_control_free(volume);
	return error;
}

/* ---- records ---- */

/* After an interruption the volume may have the data already. */
static int write_data(struct import *import, const struct stream_record *record, struct fathom_fault *why)
{
	uint32_t bytes = (uint32_t)record->bytes;
	int error = 0;

	if (import->is_resumed) {
		error = transfer_read(import->io, record->offset, import->found, bytes, why);
		if (!error && memcmp(import->found, import->data, bytes) == 0)
			return 0;
	}
	return error ? error : transfer_write(import->io, record->offset, import->data, bytes, why);
}

static int write_records(struct import *import, struct fathom_fault *why)
{
	struct stream_record record;
	struct fathom_fault reason;
	uint8_t more;
	size_t got;
	int error;

	for (;;) {
		error = transfer_take_record(import->stream, import->fd, &record, import->data, &reason);
		if (error)
			return transfer_bad_stream(import->stream, &reason, why);
		if (record.type == STREAM_END)
			break;
		error = record.type == STREAM_DATA ? write_data(import, &record, why)
						   : transfer_zero(import->io, record.offset, record.bytes, why);
		if (error)
			return error;
		transfer_progress(import->stream, "import");
	}
	error = transfer_read_file(import->fd, &more, 1, &got, why);
	if (!error && got > 0) {
		must(fault(&reason, -EBADMSG, "there are bytes behind its end") < 0);
		error = transfer_bad_stream(import->stream, &reason, why);
	}
	return error ? error : transfer_flush(import->io, why);
}

/* ---- the end ---- */

static int take_snapshot(struct import *import, struct fathom_fault *why)
{
	struct fathom_control_volumes *volumes;
	char name[TRANSFER_NAME_BYTES];
	const struct fathom_control_pair pair = { name, "" };
	int error;

	snprintf(name, sizeof(name), "%.190s@%s", import->name, import->header->snapshot);
	error = fathom_control_snapshot_create(import->run->control, &pair, 1, import->snapshot_uuid, &volumes, why);
	if (!error)
		fathom_control_free(volumes);
	if (error != -EOPNOTSUPP)
		return error;
	import->has_no_snapshot = true; /* a storage without reflinks: the data are complete */
	return 0;
}

static int remove_mark(struct import *import, struct fathom_fault *why)
{
	struct fathom_control_volume *volume;
	int error = fathom_control_volume_unpublish(import->run->control, import->name, import->mark, true, &volume, why);

	if (!error)
		fathom_control_free(volume);
	return error;
}

static int import_data(struct import *import, struct fathom_fault *why)
{
	int error = open_volume(import, why);

	if (!error)
		error = write_records(import, why);
	transfer_progress_end();
	transfer_io_close(import->io);
	if (!error)
		error = take_snapshot(import, why);
	return error ? error : remove_mark(import, why);
}

static int run_import(struct import *import, struct fathom_fault *why)
{
	const char *path = import->run->values.input;
	struct fathom_fault reason;
	int error;

	import->fd = STDIN_FILENO;
	if (path && strcmp(path, "-") != 0)
		import->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (import->fd < 0)
		return fault(why, -errno, "cannot read %s: %s", path, strerror(errno));
	error = transfer_take_header(import->stream, import->fd, &reason);
	if (error)
		return transfer_bad_stream(import->stream, &reason, why);
	import->header = stream_get_header(import->stream);
	uuid_unparse_lower(import->header->snapshot_uuid, import->snapshot_uuid);
	uuid_unparse_lower(import->header->base_uuid, import->base_uuid);
	snprintf(import->mark, sizeof(import->mark), MARK "%s", import->snapshot_uuid);
	error = prepare_volume(import, why);
	if (error)
		return error;
	return import->is_complete ? remove_mark(import, why) : import_data(import, why);
}

static void print_result(const struct import *import)
{
	struct stream_totals totals;

	stream_get_totals(import->stream, &totals);
	if (import->is_complete)
		printf("Volume %s has this snapshot already, as %s\n", import->name, import->snapshot_uuid);
	else
		printf("Volume %s is imported: %" PRIu64 " bytes of data\n", import->name, totals.data_bytes);
	if (import->has_no_snapshot)
		puts("Its storage has no snapshots, so no difference can be imported into it.");
}

int run_volume_import(struct control_run *run)
{
	struct import import = { .run = run, .name = run->argv[0], .fd = -1 };
	struct fathom_fault why;
	int status, error;

	if (!strchr(import.name, '/') || strchr(import.name, '@'))
		return control_bad(run, "\"%s\" is not POOL/VOLUME", import.name);
	import.stream = stream_create();
	import.data = malloc(TRANSFER_BYTES_MAX);
	import.found = malloc(TRANSFER_BYTES_MAX);
	must(import.data && import.found);
	error = run_import(&import, &why);
	if (!error && !control_is_json(run))
		print_result(&import);
	status = error ? control_fail(run, &why)
		       : control_finish(run, control_is_json(run) ? transfer_json(import.stream, import.name) : NULL, NULL);
	if (import.fd > STDERR_FILENO)
		must(close(import.fd) == 0 || errno != EBADF);
	stream_destroy(import.stream);
	free(import.data);
	free(import.found);
	return status;
}
