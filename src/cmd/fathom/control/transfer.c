/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/fathom/control/transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "base/clock.h"
#include "control/fault/fault.h"

enum { ALONE_TRIALS = 100, ALONE_PAUSE_US = 200000 };

static struct {
	uint64_t printed_ns;
	bool is_shown;
} progress;

int transfer_find(const struct control_run *run, const char *name, struct fathom_control_volumes **list_ret,
		  const struct fathom_control_volume **volume_ret, struct fathom_fault *why)
{
	int error = fathom_control_volume_list(run->control, NULL, name, NULL, list_ret, why);

	if (error)
		return error;
	if ((*list_ret)->count == 1) {
		*volume_ret = &(*list_ret)->volumes[0];
		return 0;
	}
	fathom_control_free(*list_ret);
	return fault_no_such_volume(why, name);
}

int transfer_wait_alone(const struct control_run *run, const char *name, const char *host, bool *is_there_ret,
			struct fathom_fault *why)
{
	for (int trial = 0; trial < ALONE_TRIALS && !control_was_interrupted(); trial++) {
		const struct fathom_control_volume *volume;
		struct fathom_control_volumes *list;
		bool is_connected = false;
		int error = transfer_find(run, name, &list, &volume, why);

		if (error)
			return error;
		*is_there_ret = false;
		for (size_t i = 0; i < volume->host_count; i++) {
			if (strcmp(volume->hosts[i].nqn, host) != 0)
				continue;
			*is_there_ret = true;
			is_connected = volume->hosts[i].connections > 0;
		}
		fathom_control_free(list);
		if (!is_connected)
			return 0;
		(void)usleep(ALONE_PAUSE_US); /* a signal makes it shorter */
	}
	return fault(why, -EBUSY, "another export or import uses volume %s now", name);
}

/* ---- files ---- */

int transfer_read_file(int fd, uint8_t *data, size_t bytes, size_t *got_ret, struct fathom_fault *why)
{
	size_t got = 0;

	while (got < bytes) {
		ssize_t count = read(fd, data + got, bytes - got);

		if (count < 0 && errno == EINTR && !control_was_interrupted())
			continue;
		if (count < 0)
			return fault(why, -errno, "cannot read the stream: %s", strerror(errno));
		if (count == 0)
			break;
		got += (size_t)count;
	}
	*got_ret = got;
	return 0;
}

static int too_short(struct fathom_fault *why)
{
	return fault(why, -ENODATA, "it ends before its end record");
}

int transfer_take_header(struct stream *stream, int fd, struct fathom_fault *why)
{
	uint8_t header[STREAM_HEADER_BYTES];
	size_t got;
	int error = transfer_read_file(fd, header, sizeof(header), &got, why);

	if (!error && got < sizeof(header))
		error = too_short(why);
	return error ? error : stream_take_header(stream, header, why);
}

int transfer_take_record(struct stream *stream, int fd, struct stream_record *record_ret, uint8_t *data,
			 struct fathom_fault *why)
{
	uint8_t text[STREAM_RECORD_BYTES];
	size_t got;
	int error = transfer_read_file(fd, text, sizeof(text), &got, why);

	if (!error && got < sizeof(text))
		error = too_short(why);
	if (!error)
		error = stream_take_record(stream, text, record_ret, why);
	if (!error)
		error = transfer_read_file(fd, data, record_ret->data_bytes, &got, why);
	if (!error && got < record_ret->data_bytes)
		error = too_short(why);
	return error ? error : stream_take_data(stream, data, why);
}

int transfer_bad_stream(const struct stream *stream, const struct fathom_fault *reason, struct fathom_fault *why)
{
	struct stream_totals totals;

	stream_get_totals(stream, &totals);
	if (reason->error != -EBADMSG && reason->error != -EPROTO && reason->error != -ENODATA)
		return fault(why, reason->error, "%s", reason->text);
	if (totals.stream_bytes == 0)
		return fault_stream_unreadable(why, reason->text);
	return fault_stream_damaged(why, totals.stream_bytes, totals.records, reason->text);
}

/* ---- what people see ---- */

void transfer_progress(const struct stream *stream, const char *verb)
{
	uint64_t now = clock_monotonic_ns();
	struct stream_totals totals;

	if (!isatty(STDERR_FILENO) || now - progress.printed_ns < NS_PER_SEC)
		return;
	progress.printed_ns = now;
	progress.is_shown = true;
	stream_get_totals(stream, &totals);
	fprintf(stderr, "\r%s: %" PRIu64 " %%, %" PRIu64 " MiB of data \033[K", verb,
		totals.next * 100 / stream_get_header(stream)->size_bytes, totals.data_bytes >> 20);
}

void transfer_progress_end(void)
{
	if (progress.is_shown)
		fputs("\r\033[K", stderr);
	progress.is_shown = false;
}

json_t *transfer_json(const struct stream *stream, const char *name)
{
	const struct stream_header *header = stream_get_header(stream);
	char uuid[UUID_STR_LEN], base[UUID_STR_LEN] = "";
	struct stream_totals totals;

	stream_get_totals(stream, &totals);
	uuid_unparse_lower(header->snapshot_uuid, uuid);
	if (!uuid_is_null(header->base_uuid))
		uuid_unparse_lower(header->base_uuid, base);
	return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "name", name, "snapshot_uuid", uuid, "base_uuid", base,
			 "size_bytes", (json_int_t)header->size_bytes, "data_bytes", (json_int_t)totals.data_bytes,
			 "zero_bytes", (json_int_t)totals.zero_bytes, "records", (json_int_t)totals.records, "stream_bytes",
			 (json_int_t)totals.stream_bytes);
}
