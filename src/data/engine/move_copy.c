/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/engine/move_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/text.h"
#include "data/engine/control.h"
#include "fathom/initiator.h"

enum { NSID = 1, ADDRESS_BYTES = 128, IDLE_MS = 1000, BUFFER_ALIGNMENT = 4096 };

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
	uint8_t *memory;
	struct piece pieces[MOVE_COPY_DEPTH];
	size_t piece_bytes;
	uint64_t next, copied; /* `next`: the offset to read next */
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

/* The file reads as zeroes there, and has no blocks there if the volume is thin. */
static int write_zeroes(const struct move_copy *copy, const uint8_t *zeroes, size_t bytes, uint64_t offset)
{
	off_t data = lseek(copy->file, (off_t)offset, SEEK_DATA);

	if ((data < 0 && errno == ENXIO) || (data >= 0 && (uint64_t)data >= offset + bytes))
		return 0;
	if (!copy->is_thick &&
	    fallocate(copy->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes) == 0)
		return 0;
	return write_all(copy->file, zeroes, bytes, offset);
}

static int write_data(const struct move_copy *copy, const uint8_t *data, size_t bytes, uint64_t offset)
{
	if (copy->limit && !space_limit_take_missing(copy->limit, copy->file, offset, bytes))
		return -ENOSPC;
	return write_all(copy->file, data, bytes, offset);
}

/* ---- reads ---- */

static void fail(struct copying *copying, int error, const char *text)
{
	if (copying->error)
		return;
	copying->error = error;
	fill_fault(&copying->why, error, "%s", text);
}

static void piece_read(void *ctx, const struct fathom_completion *completion)
{
	struct piece *piece = ctx;
	struct copying *copying = piece->copying;
	char text[128];
	int error;

	must(piece->is_busy);
	piece->is_busy = false;
	if (copying->error)
		return;
	if (completion->error || completion->status) {
		fathom_completion_text(completion, text, sizeof(text));
		fail(copying, completion->error == -ECANCELED || !completion->error ? -EIO : completion->error, text);
		return;
	}
	error = is_zero(piece->iov.iov_base, piece->bytes)
			? write_zeroes(copying->copy, piece->iov.iov_base, piece->bytes, piece->offset)
			: write_data(copying->copy, piece->iov.iov_base, piece->bytes, piece->offset);
	if (error)
		fail(copying, error, strerror(-error));
	copying->copied += piece->bytes;
}

/* Start reads while there is a free piece. */
static void start_reads(struct copying *copying)
{
	const struct move_copy *copy = copying->copy;

	for (size_t i = 0; i < MOVE_COPY_DEPTH && !copying->error && find_next(copying); i++) {
		struct piece *piece = &copying->pieces[i];
		uint64_t end = (copying->next / copy->region_bytes + 1) * copy->region_bytes;
		int error;

		if (piece->is_busy)
			continue;
		piece->offset = copying->next;
		piece->bytes = min_u64(copying->piece_bytes, min_u64(end, copy->size_bytes) - copying->next);
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
	if (posix_memalign((void **)&copying->memory, BUFFER_ALIGNMENT, MOVE_COPY_DEPTH * MOVE_COPY_PIECE_BYTES) != 0)
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
	if (!error) {
		run_reads(&copying);
		error = copying.error;
	}
	fathom_qpair_destroy(copying.qpair); /* ends the reads in flight */
	fathom_disconnect(copying.controller);
	free(copying.memory);
	if (!error && fdatasync(copy->file) < 0)
		error = fault(&copying.why, -errno, "cannot sync the copy: %s", strerror(errno));
	if (error)
		*why = copying.why;
	else
		(void)posix_fadvise(copy->file, 0, 0, POSIX_FADV_DONTNEED); /* only a hint: its I/O is direct */
	return error;
}
