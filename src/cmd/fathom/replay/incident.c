/* SPDX-License-Identifier: BSD-2-Clause */
/* incident - files of operations: opened, read block by block, and written from a trace. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "cmd/fathom/replay/replay.h"

/* Read up to `bytes` at `offset`; fewer at the end of the file. Errors: -errno. */
static ssize_t read_at(int fd, void *to, size_t bytes, uint64_t offset)
{
	size_t count = 0;

	while (count < bytes) {
		ssize_t got = pread(fd, (uint8_t *)to + count, bytes - count, (off_t)(offset + count));

		if (got == 0)
			break;
		if (got < 0 && errno != EINTR)
			return -errno;
		count += got > 0 ? (size_t)got : 0;
	}
	return (ssize_t)count;
}

/* ---- write ---- */

/* The blocks of all operations. `*offset` becomes their end. */
static int write_blocks(struct replay_collector *collector, int fd, uint64_t *offset, struct fathom_fault *why)
{
	struct incident_encoder *encoder = malloc(sizeof(*encoder));
	struct replay_operation operation;
	bool more;
	int rc = encoder ? 0 : -ENOMEM;

	if (encoder)
		incident_encoder_init(encoder);
	while (rc == 0) {
		size_t bytes;

		while ((more = replay_collector_next(collector, &operation)) && incident_encoder_add(encoder, &operation))
			;
		bytes = incident_encoder_finish(encoder);
		rc = file_write_at(fd, encoder->bytes, bytes, *offset);
		*offset += bytes;
		if (!more)
			break;
		incident_encoder_next(encoder);
		must(incident_encoder_add(encoder, &operation));
	}
	free(encoder);
	return rc ? fault(why, rc, "cannot write: %s", strerror(-rc)) : 0;
}

static int write_description(const struct replay_summary *summary, int fd, uint64_t offset,
			     struct incident_header *header_ret, struct fathom_fault *why)
{
	struct incident_header header = { .operations = summary->operations,
					  .blocks_bytes = offset - INCIDENT_HEADER_BYTES };
	uint8_t out[INCIDENT_HEADER_BYTES];
	char *text;
	size_t bytes;
	int rc = incident_describe(summary, &text, &bytes, &header.description_crc);

	if (rc)
		return fault(why, rc, "cannot describe the incident: %s", strerror(-rc));
	header.description_bytes = (uint32_t)bytes;
	rc = file_write_at(fd, text, bytes, offset);
	free(text);
	incident_encode_header(&header, out);
	if (rc == 0)
		rc = file_write_at(fd, out, sizeof(out), 0);
	if (rc)
		return fault(why, rc, "cannot write: %s", strerror(-rc));
	*header_ret = header;
	return 0;
}

/* Write the operations of the trace to the file. */
static int write_trace(const struct replay_files *files, const struct replay_choice *choice, bool names,
		       struct incident_file *file, struct fathom_fault *why)
{
	const struct reader_filter_spec spec = { .owner = choice->owner, .since = choice->from, .until = choice->to };
	struct replay_collector *collector = NULL;
	struct reader *readers[REPLAY_FILES_MAX] = { NULL };
	uint64_t offset = INCIDENT_HEADER_BYTES;
	uint32_t count = 0;
	int rc = 0;

	for (; count < files->count && rc == 0; count += rc == 0)
		rc = reader_open(files->paths[count], &readers[count], why);
	if (rc == 0)
		rc = replay_collector_create(readers, count, &spec, &collector, why);
	if (rc == 0)
		rc = write_blocks(collector, file->fd, &offset, why);
	if (rc == 0) {
		rc = replay_collector_summary(collector, names, &file->summary);
		if (rc)
			fill_fault(why, rc, "out of memory");
	}
	replay_collector_destroy(collector);
	while (count > 0)
		reader_close(readers[--count]);
	if (rc)
		return rc;
	rc = write_description(&file->summary, file->fd, offset, &file->header, why);
	if (rc)
		replay_summary_deinit(&file->summary);
	return rc;
}

int incident_write(const struct replay_options *options, struct replay_summary *summary_ret, struct fathom_fault *why)
{
	struct incident_file file = { .fd = -1 };
	char temporary[PATH_MAX];
	int rc = file_check_new(options->output, options->force, why);

	if (rc)
		return rc;
	if (snprintf(temporary, sizeof(temporary), "%s.XXXXXX", options->output) >= (int)sizeof(temporary))
		return fault(why, -ENAMETOOLONG, "the name of the file is too long");
	file.fd = mkostemp(temporary, O_CLOEXEC);
	if (file.fd < 0)
		return fault(why, -errno, "cannot create %s: %s", options->output, strerror(errno));
	rc = write_trace(&options->files, &options->choice, options->names, &file, why);
	if (rc == 0) {
		rc = file_give_name(temporary, options->output, options->force);
		if (rc)
			fill_fault(why, rc, "cannot create %s: %s", options->output, strerror(-rc));
	}
	if (rc)
		(void)unlink(temporary); /* the error is reported */
	close(file.fd);
	if (rc == 0)
		*summary_ret = file.summary;
	else
		replay_summary_deinit(&file.summary);
	return rc;
}

/* ---- open ---- */

static int open_incident(struct incident_file *file, struct fathom_fault *why)
{
	uint8_t head[INCIDENT_HEADER_BYTES];
	ssize_t got = read_at(file->fd, head, sizeof(head), 0);
	char *text;
	int rc;

	if (got < 0)
		return fault(why, (int)got, "cannot read: %s", strerror((int)-got));
	rc = incident_decode_header(head, (size_t)got, &file->header, why);
	if (rc)
		return rc;
	text = malloc(file->header.description_bytes + 1);
	must(text); /* at most 1 MiB */
	got = read_at(file->fd, text, file->header.description_bytes, INCIDENT_HEADER_BYTES + file->header.blocks_bytes);
	rc = got < 0 ? fault(why, (int)got, "cannot read: %s", strerror((int)-got))
		     : incident_parse_description(&file->header, text, (size_t)got, &file->summary, why);
	free(text);
	return rc;
}

/* A file without a name, in $TMPDIR or /var/tmp. */
static int open_temporary(struct fathom_fault *why)
{
	const char *directory = getenv("TMPDIR");
	char name[PATH_MAX];
	int fd;

	directory = directory && *directory ? directory : "/var/tmp";
	if (snprintf(name, sizeof(name), "%s/fathom-replay.XXXXXX", directory) >= (int)sizeof(name))
		return fault(why, -ENAMETOOLONG, "the name in $TMPDIR is too long");
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return fault(why, -errno, "cannot create a file in %s: %s", directory, strerror(errno));
	(void)unlink(name); /* then it stays, as a file of this process would */
	return fd;
}

static bool is_incident(int fd)
{
	uint8_t begin[8];

	return read_at(fd, begin, sizeof(begin), 0) == sizeof(begin) && incident_recognise(begin, sizeof(begin));
}

int incident_open(const struct replay_files *files, const struct replay_choice *choice, bool names,
		  struct incident_file *file_ret, struct fathom_fault *why)
{
	const char *path = files->paths[0];
	struct incident_file file = { .fd = open(path, O_RDONLY | O_CLOEXEC) };
	struct fathom_fault reason = { 0 };
	int rc;

	if (file.fd < 0)
		return fault(why, -errno, "%s: %s", path, strerror(errno));
	if (is_incident(file.fd)) {
		rc = files->count > 1 ? fault(&reason, -EINVAL, "an incident is replayed alone, and %s is another file",
					      files->paths[1])
				      : open_incident(&file, &reason);
	} else {
		close(file.fd);
		file.is_trace = true;
		file.fd = rc = open_temporary(&reason);
		if (rc >= 0)
			rc = write_trace(files, choice, names, &file, &reason);
	}
	if (rc < 0) {
		if (file.fd >= 0)
			close(file.fd);
		/* the reader of traces names its file */
		return file.is_trace ? fault(why, rc, "%s", reason.text) : fault(why, rc, "%s: %s", path, reason.text);
	}
	*file_ret = file;
	return 0;
}

void incident_close(struct incident_file *file)
{
	replay_summary_deinit(&file->summary);
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}

/* ---- select ---- */

/* "5s" after the start, "-5s" before the end. Errors (explained): -EINVAL. */
static int parse_time(const char *text, uint64_t span_ns, uint64_t *ns_ret, struct fathom_fault *why)
{
	uint64_t ns;

	if (text_parse_duration(text[0] == '-' ? text + 1 : text, &ns) != 0)
		return fault(why, -EINVAL, "\"%s\" is not a time in an incident, such as 5s or -5s", text);
	*ns_ret = text[0] != '-' ? ns : ns < span_ns ? span_ns - ns : 0;
	return 0;
}

/* Is the row with this number or name wanted? `part`: a part of the name suffices. */
static bool is_named(const char *want, uint32_t number, const char *name, bool part)
{
	char digits[16];

	if (!want)
		return true;
	snprintf(digits, sizeof(digits), "%" PRIu32, number);
	return strcmp(want, digits) == 0 || (name[0] && (part ? strcasestr(name, want) != NULL : strcmp(name, want) == 0));
}

int incident_select(const struct incident_file *file, const struct replay_choice *choice,
		    struct incident_selection *selection_ret, struct fathom_fault *why)
{
	const struct replay_summary *summary = &file->summary;
	struct incident_selection selection = { .to_ns = UINT64_MAX };
	const char *owner = file->is_trace ? NULL : choice->owner; /* a trace has only what was chosen */
	bool any_queue = false, any_device = false;
	int rc = 0;

	if (!file->is_trace && choice->from)
		rc = parse_time(choice->from, summary->span_ns, &selection.from_ns, why);
	if (!file->is_trace && choice->to && rc == 0)
		rc = parse_time(choice->to, summary->span_ns, &selection.to_ns, why);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < summary->queue_count; i++) {
		const struct replay_queue *queue = &summary->queues[i];

		selection.queues[i] = queue->operations > 0 && is_named(owner, queue->host_number, queue->host, true);
		any_queue |= selection.queues[i];
	}
	for (uint32_t i = 0; i < summary->device_count; i++) {
		const struct replay_device *device = &summary->devices[i];

		selection.devices[i] = device->operations > 0 && is_named(choice->device, i + 1, device->name, false);
		any_device |= selection.devices[i];
	}
	if (summary->operations == 0)
		return fault(why, -ENOENT, "the file has no operation of a host%s",
			     choice->owner || choice->from || choice->to ? " that is selected" : "");
	if (!any_queue || !any_device)
		return fault(why, -ENOENT, "the file has no operation of %s \"%s\"", any_queue ? "device" : "host",
			     any_queue ? choice->device : owner);
	*selection_ret = selection;
	return 0;
}

/* ---- read ---- */

/* Read the block at the stream's offset. 1: there is one; 0: the end. */
static int read_block(struct incident_stream *stream, struct fathom_fault *why)
{
	const struct incident_file *file = stream->file;
	uint64_t left = file->header.blocks_bytes - stream->offset;
	size_t bytes = 0;
	ssize_t got;
	int rc;

	if (left == 0) {
		if (stream->number == file->header.operations)
			return 0;
		return fault(why, -EBADMSG, "the file has %" PRIu64 " operations, and its header says %" PRIu64,
			     stream->number, file->header.operations);
	}
	got = read_at(file->fd, stream->block, min_u64(left, sizeof(stream->block)),
		      INCIDENT_HEADER_BYTES + stream->offset);
	if (got < 0)
		return fault(why, (int)got, "cannot read: %s", strerror((int)-got));
	rc = incident_block_bytes(stream->block, (size_t)got, &bytes, why);
	if (rc)
		return rc;
	if (bytes > (size_t)got)
		return fault(why, -EBADMSG, "the file ends within a block");
	rc = incident_decoder_begin(&stream->decoder, stream->block, bytes, stream->number, &file->summary, why);
	stream->offset += bytes;
	return rc ? rc : 1;
}

int incident_stream_next(struct incident_stream *stream, struct replay_operation *operation_ret, uint64_t *number_ret,
			 struct fathom_fault *why)
{
	const struct incident_selection *selection = stream->selection;
	int rc;

	for (;;) {
		rc = stream->has_block ? incident_decoder_next(&stream->decoder, operation_ret, why) : 0;
		if (rc < 0)
			return rc;
		if (rc == 0) {
			rc = read_block(stream, why);
			stream->has_block = rc > 0;
			if (rc <= 0)
				return rc;
			continue;
		}
		*number_ret = stream->number++;
		if (operation_ret->start_ns < selection->from_ns || !selection->queues[operation_ret->queue] ||
		    !selection->devices[operation_ret->device])
			continue;
		if (operation_ret->start_ns > selection->to_ns)
			return 0;
		operation_ret->start_ns -= selection->from_ns;
		return 1;
	}
}
