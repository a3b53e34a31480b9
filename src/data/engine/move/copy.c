/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/engine/move/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/text.h"
#include "data/engine/control.h"
#include "data/nvme/status.h"
#include "data/store/pool/sums.h"
#include "fathom/initiator.h"

enum { NSID = 1, ADDRESS_BYTES = 128, IDLE_MS = 1000, BUFFER_ALIGNMENT = 4096, SHARED_BYTES = 4096 };
static_assert((int)SHARED_BYTES == (int)SUMS_BLOCK_BYTES, "what is written has whole sums");

struct copying;

struct piece {
	struct copying *copying;
	struct iovec iov;
	uint64_t offset;
	size_t bytes;
	bool is_busy;
};

struct copying {
	struct move_copy *copy;
	struct fathom_controller *controller;
	struct fathom_qpair *qpair;
	uint8_t *memory; /* of the pieces, and of one to compare with */
	struct piece pieces[MOVE_COPY_DEPTH];
	size_t piece_bytes;
	uint64_t next, copied;	     /* `next`: the offset to read next */
	const struct piece *damaged; /* the first one in which the source found a damaged block; NULL: none */
	int error;
	struct fathom_fault why;
};

/* ---- regions ---- */

static bool has_region(const struct move_copy *copy, uint64_t region)
{
	return region / 8 < copy->regions_bytes && (copy->regions[region / 8] & (1u << (region % 8)));
}

uint64_t move_copy_bytes(const struct move_copy *copy)
{
	uint64_t bytes = 0;

	for (uint64_t at = 0, region = 0; at < copy->size_bytes; at += copy->region_bytes, region++)
		bytes += has_region(copy, region) ? min_u64(copy->region_bytes, copy->size_bytes - at) : 0;
	return bytes;
}

/* Go on to the next byte of a region at `next` or behind it. False: there is none. */
static bool find_next(struct copying *copying)
{
	const struct move_copy *copy = copying->copy;

	while (copying->next < copy->size_bytes && !has_region(copy, copying->next / copy->region_bytes))
		copying->next = (copying->next / copy->region_bytes + 1) * copy->region_bytes;
	return copying->next < copy->size_bytes;
}

/* ---- the file ---- */

static bool is_zero(const uint8_t *data, size_t bytes)
{
	return data[0] == 0 && memcmp(data, data + 1, bytes - 1) == 0;
}

static int write_all(int file, const uint8_t *data, size_t bytes, uint64_t offset)
{
	while (bytes > 0) {
		ssize_t written = pwrite(file, data, bytes, (off_t)offset);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return written < 0 ? -errno : -EIO;
		data += written;
		bytes -= (size_t)written;
		offset += (uint64_t)written;
	}
	return 0;
}

/* The sums of whole blocks; of zeroes there are none. */
static int write_sums(const struct move_copy *copy, const uint8_t *data, size_t bytes, uint64_t offset, bool are_zeroes)
{
	uint32_t sums[MOVE_COPY_PIECE_BYTES / SUMS_BLOCK_BYTES] = { 0 };
	size_t count = bytes / SUMS_BLOCK_BYTES;

	if (copy->sums_file < 0)
		return 0;
	must(bytes % SUMS_BLOCK_BYTES == 0 && offset % SUMS_BLOCK_BYTES == 0);
	must(count <= ARRAY_COUNT(sums));
	for (size_t i = 0; i < count && !are_zeroes; i++)
		sums[i] = sums_final(sums_update(SUMS_INIT, data + i * SUMS_BLOCK_BYTES, SUMS_BLOCK_BYTES));
	return write_all(copy->sums_file, (const uint8_t *)sums, count * sizeof(sums[0]),
			 sums_offset(offset / SUMS_BLOCK_BYTES));
}

/* The file reads as zeroes there, and has no blocks there if the volume is thin. */
static int write_zeroes(const struct move_copy *copy, const uint8_t *zeroes, size_t bytes, uint64_t offset)
{
	off_t data = lseek(copy->file, (off_t)offset, SEEK_DATA);
	int error = 0;

	if ((data < 0 && errno == ENXIO) || (data >= 0 && (uint64_t)data >= offset + bytes))
		return 0;
	if (copy->is_thick ||
	    fallocate(copy->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes) < 0)
		error = write_all(copy->file, zeroes, bytes, offset);
	return error ? error : write_sums(copy, zeroes, bytes, offset, true);
}

static int write_data(const struct move_copy *copy, const uint8_t *data, size_t bytes, uint64_t offset)
{
	int error;

	if (copy->limit && !(copy->is_shared ? space_limit_take(copy->limit, bytes)
					     : space_limit_take_missing(copy->limit, copy->file, offset, bytes)))
		return -ENOSPC;
	error = write_all(copy->file, data, bytes, offset);
	return error ? error : write_sums(copy, data, bytes, offset, false);
}

static int read_all(int file, uint8_t *data, size_t bytes, uint64_t offset)
{
	while (bytes > 0) {
		ssize_t got = pread(file, data, bytes, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EIO;
		data += got;
		bytes -= (size_t)got;
		offset += (uint64_t)got;
	}
	return 0;
}

/* Write the blocks that differ from those of the file: the others stay shared with its snapshots. */
static int write_differing(const struct move_copy *copy, const struct piece *piece, uint8_t *old)
{
	const uint8_t *data = piece->iov.iov_base;
	int error = read_all(copy->file, old, piece->bytes, piece->offset);
	size_t begin = 0, at = 0;

	while (!error && at < piece->bytes) {
		size_t bytes = min_u64(SHARED_BYTES, piece->bytes - at);
		bool differs = memcmp(data + at, old + at, bytes) != 0;

		if (!differs && at > begin)
			error = write_data(copy, data + begin, at - begin, piece->offset + begin);
		at += bytes;
		if (!differs)
			begin = at;
	}
	if (!error && at > begin)
		error = write_data(copy, data + begin, at - begin, piece->offset + begin);
	return error;
}

/* Give a file the length `bytes`, with nothing but zeroes from `end` on. */
static int set_length(int file, uint64_t bytes, uint64_t end, bool is_thick)
{
	struct stat stat;
	off_t data;

	if (fstat(file, &stat) < 0 || ((uint64_t)stat.st_size != bytes && ftruncate(file, (off_t)bytes) < 0))
		return -errno;
	data = end < bytes ? lseek(file, (off_t)end, SEEK_DATA) : -1;
	if (data < 0)
		return end >= bytes || errno == ENXIO ? 0 : -errno;
	if (fallocate(file, FALLOC_FL_KEEP_SIZE | (is_thick ? FALLOC_FL_ZERO_RANGE : FALLOC_FL_PUNCH_HOLE), (off_t)end,
		      (off_t)(bytes - end)) < 0)
		return -errno;
	return 0;
}

/*
 * The snapshot before, if there is one, may have had another size. The file of sums is longer than the sums: what is behind
 * them must not be taken for sums when a later snapshot is larger.
 */
static int fit_files(const struct move_copy *copy)
{
	uint64_t bytes = max_u64(copy->size_bytes, copy->file_bytes), sums_bytes = sums_file_bytes(bytes);
	int error = set_length(copy->file, bytes, copy->size_bytes, copy->is_thick);

	if (!error && copy->sums_file >= 0)
		error = set_length(copy->sums_file, sums_bytes, sums_end(copy->size_bytes), copy->is_thick);
	return error;
}

/* ---- reads ---- */

static void fail(struct copying *copying, int error, const char *text)
{
	if (copying->error)
		return;
	copying->error = error;
	fill_fault(&copying->why, error, "%s", text);
}

/* The source found a block that it cannot read, or that does not fit its sum. */
static bool is_damage(const struct fathom_completion *completion)
{
	return !completion->error && completion->status >> 8 == NVME_SCT_MEDIA;
}

static void fail_read(struct piece *piece, const struct fathom_completion *completion)
{
	struct copying *copying = piece->copying;
	int error = completion->error;
	char text[128];

	if (!error || error == -ECANCELED || error == -EBADMSG)
		error = -EIO;
	if (is_damage(completion))
		copying->damaged = piece;
	fathom_completion_text(completion, text, sizeof(text));
	fail(copying, error, text);
}

static void piece_read(void *ctx, const struct fathom_completion *completion)
{
	struct piece *piece = ctx;
	struct copying *copying = piece->copying;
	int error;

	must(piece->is_busy);
	piece->is_busy = false;
	if (copying->error)
		return;
	if (completion->error || completion->status) {
		fail_read(piece, completion);
		return;
	}
	if (is_zero(piece->iov.iov_base, piece->bytes))
		error = write_zeroes(copying->copy, piece->iov.iov_base, piece->bytes, piece->offset);
	else if (copying->copy->is_shared)
		error = write_differing(copying->copy, piece, copying->memory + MOVE_COPY_DEPTH * MOVE_COPY_PIECE_BYTES);
	else
		error = write_data(copying->copy, piece->iov.iov_base, piece->bytes, piece->offset);
	if (error)
		fail(copying, error, strerror(-error));
	copying->copied += piece->bytes;
}

/* How long the piece at `next` is: also over several regions. */
static size_t piece_bytes_at(const struct copying *copying)
{
	const struct move_copy *copy = copying->copy;
	uint64_t limit = min_u64(copying->next + copying->piece_bytes, copy->size_bytes);
	uint64_t end = (copying->next / copy->region_bytes + 1) * copy->region_bytes;

	while (end < limit && has_region(copy, end / copy->region_bytes))
		end += copy->region_bytes;
	return min_u64(end, limit) - copying->next;
}

/* Start reads while there is a free piece. */
static void start_reads(struct copying *copying)
{
	const struct move_copy *copy = copying->copy;

	for (size_t i = 0; i < MOVE_COPY_DEPTH && !copying->error && find_next(copying); i++) {
		struct piece *piece = &copying->pieces[i];
		int error;

		if (piece->is_busy)
			continue;
		piece->offset = copying->next;
		piece->bytes = piece_bytes_at(copying);
		piece->iov.iov_len = piece->bytes;
		error = fathom_read(copying->qpair, NSID, piece->offset / copy->block_bytes,
				    (uint32_t)(piece->bytes / copy->block_bytes), &piece->iov, 1, piece_read, piece);
		if (error == -EAGAIN)
			return;
		if (error) {
			fail(copying, error, strerror(-error));
			return;
		}
		piece->is_busy = true;
		copying->next += piece->bytes;
	}
}

/* Wait for `fd`, at most `timeout_ms`. True: the copy was cancelled. */
static bool wait_for(const struct move_copy *copy, int fd, short events, int timeout_ms)
{
	struct pollfd fds[] = { { .fd = copy->cancel_fd, .events = POLLIN }, { .fd = fd, .events = events } };

	(void)poll(fds, ARRAY_COUNT(fds), timeout_ms); /* after an error the caller looks again */
	return fds[0].revents != 0;
}

static void run_reads(struct copying *copying)
{
	while (!copying->error) {
		short events = POLLIN;
		int ended, error;

		start_reads(copying);
		ended = fathom_qpair_poll(copying->qpair);
		if (ended < 0) {
			fail(copying, ended, fathom_qpair_fault(copying->qpair)->text);
			return;
		}
		copying->copy->progress(copying->copy->ctx, copying->copied);
		if (copying->error || (!find_next(copying) && fathom_qpair_in_flight(copying->qpair) == 0))
			return;
		error = fathom_controller_poll(copying->controller);
		if (error)
			fail(copying, error, strerror(-error));
		if (fathom_qpair_wants_to_send(copying->qpair))
			events |= POLLOUT;
		/* after the end of reads, others can start at once */
		if (wait_for(copying->copy, fathom_qpair_fd(copying->qpair), events, ended > 0 ? 0 : IDLE_MS))
			fail(copying, -ECANCELED, "the copy was cancelled");
	}
}

/* ---- a damaged block ---- */

/* Wait until no read is in flight, the connection is lost, or the copy is cancelled. */
static void finish_reads(struct copying *copying)
{
	while (fathom_qpair_poll(copying->qpair) >= 0 && fathom_qpair_in_flight(copying->qpair) > 0) {
		if (wait_for(copying->copy, fathom_qpair_fd(copying->qpair), POLLIN, IDLE_MS))
			return;
	}
}

struct block_read {
	bool is_done, is_damaged;
};

static void block_read(void *ctx, const struct fathom_completion *completion)
{
	struct block_read *read = ctx;

	read->is_done = true;
	read->is_damaged = is_damage(completion);
}

/* Read one block again, after the end of all other reads. False also if it cannot be read now. */
static bool is_damaged(struct copying *copying, uint64_t lba)
{
	struct iovec iov = { copying->memory, copying->copy->block_bytes };
	struct block_read read = { 0 };

	if (fathom_read(copying->qpair, NSID, lba, 1, &iov, 1, block_read, &read))
		return false;
	finish_reads(copying);
	if (!read.is_done) { /* lost, or cancelled: its end must not find `read` gone */
		fathom_qpair_destroy(copying->qpair);
		copying->qpair = NULL;
	}
	return read.is_damaged;
}

/* Say which block of the damaged piece it is. */
static void name_damage(struct copying *copying)
{
	const struct move_copy *copy = copying->copy;
	uint64_t first = copying->damaged->offset / copy->block_bytes;
	uint64_t count = copying->damaged->bytes / copy->block_bytes, lba = first;
	char reason[128], where[96];

	if (copy->snapshot[0])
		snprintf(where, sizeof(where), "in snapshot \"%.63s\"", copy->snapshot);
	else
		snprintf(where, sizeof(where), "there");
	(void)text_copy(reason, sizeof(reason), copying->why.text); /* a status: it is short */
	finish_reads(copying);
	while (copying->qpair && fathom_qpair_in_flight(copying->qpair) == 0 && lba < first + count &&
	       !is_damaged(copying, lba))
		lba++;
	copying->error = -EBADMSG;
	if (copying->qpair && lba < first + count)
		fill_fault(&copying->why, -EBADMSG, "LBA %" PRIu64 " is damaged %s: %s", lba, where, reason);
	else
		fill_fault(&copying->why, -EBADMSG, "one of the LBAs %" PRIu64 " to %" PRIu64 " is damaged %s: %s", first,
			   first + count - 1, where, reason);
}

/* ---- connecting ---- */

/* "127.0.0.1:4420" and "[::1]:4420" in parts. */
static int split_address(const char *address, char *host, char *service)
{
	const char *colon = strrchr(address, ':'), *end = colon;

	if (!colon)
		return -EINVAL;
	if (*address == '[') {
		address++;
		end--;
	}
	if (end <= address || end - address >= ADDRESS_BYTES || text_copy(service, ADDRESS_BYTES, colon + 1) < 0)
		return -EINVAL;
	memcpy(host, address, (size_t)(end - address));
	host[end - address] = '\0';
	return 0;
}

static int connect_to(struct copying *copying)
{
	const struct move_copy *copy = copying->copy;
	char host[ADDRESS_BYTES], service[ADDRESS_BYTES];
	struct fathom_connect_options options;
	struct fathom_connecting *connecting;
	int error = split_address(copy->address, host, service);

	if (error)
		return fault(&copying->why, error, "\"%.64s\" is not an address with a port", copy->address);
	fathom_connect_options_init(&options);
	options.address = host;
	options.service = service;
	options.subnqn = copy->subnqn;
	options.hostnqn = copy->hostnqn;
	options.connect_timeout_ms = MOVE_COPY_CONNECT_MS;
	options.io_queues = 1;
	options.data_digest = true;
	error = fathom_connect_begin(&options, &copying->why, &connecting);
	if (error)
		return error;
	while ((error = fathom_connect_finish(connecting, &copying->why, &copying->controller)) == -EINPROGRESS) {
		if (wait_for(copy, fathom_connecting_fd(connecting), POLLIN, IDLE_MS)) {
			fathom_connect_cancel(connecting);
			return fault(&copying->why, -ECANCELED, "the copy was cancelled");
		}
	}
	return error ? error : fathom_qpair_create(copying->controller, MOVE_COPY_DEPTH, &copying->why, &copying->qpair);
}

static int check_namespace(struct copying *copying)
{
	const struct move_copy *copy = copying->copy;
	struct fathom_namespace_info info;
	uint64_t limit = fathom_controller_info(copying->controller)->transfer_bytes_max;
	int error = fathom_namespace_info(copying->controller, NSID, &copying->why, &info);

	if (error)
		return error;
	if (info.block_bytes != copy->block_bytes || info.blocks != copy->size_bytes / copy->block_bytes)
		return fault(&copying->why, -EINVAL, "the volume there has another size");
	copying->piece_bytes = limit > 0 ? min_u64(limit, MOVE_COPY_PIECE_BYTES) : MOVE_COPY_PIECE_BYTES;
	copying->piece_bytes -= copying->piece_bytes % copy->block_bytes;
	must(copying->piece_bytes > 0);
	return 0;
}

static int make_pieces(struct copying *copying)
{
	if (posix_memalign((void **)&copying->memory, BUFFER_ALIGNMENT, (MOVE_COPY_DEPTH + 1) * MOVE_COPY_PIECE_BYTES) != 0)
		return fault(&copying->why, -ENOMEM, "out of memory");
	for (size_t i = 0; i < MOVE_COPY_DEPTH; i++) {
		copying->pieces[i].copying = copying;
		copying->pieces[i].iov.iov_base = copying->memory + i * MOVE_COPY_PIECE_BYTES;
	}
	return 0;
}

int move_copy_run(struct move_copy *copy, struct fathom_fault *why)
{
	struct copying copying = { .copy = copy };
	int error = connect_to(&copying);

	must(is_power_of_two(copy->region_bytes) && copy->region_bytes >= copy->block_bytes);
	if (!error)
		error = check_namespace(&copying);
	if (!error)
		error = make_pieces(&copying);
	if (!error && (error = fit_files(copy)))
		fill_fault(&copying.why, error, "cannot set the length of the copy: %s", strerror(-error));
	if (!error) {
		run_reads(&copying);
		if (copying.damaged)
			name_damage(&copying);
		error = copying.error;
	}
	fathom_qpair_destroy(copying.qpair); /* ends the reads in flight */
	fathom_disconnect(copying.controller);
	free(copying.memory);
	if (!error && (fdatasync(copy->file) < 0 || (copy->sums_file >= 0 && fdatasync(copy->sums_file) < 0)))
		error = fault(&copying.why, -errno, "cannot sync the copy: %s", strerror(errno));
	if (error)
		*why = copying.why;
	else
		(void)posix_fadvise(copy->file, 0, 0, POSIX_FADV_DONTNEED); /* only a hint: its I/O is direct */
	return error;
}
