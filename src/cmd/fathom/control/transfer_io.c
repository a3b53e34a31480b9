/* SPDX-License-Identifier: BSD-2-Clause */
/* transfer_io - reads and writes a published volume by our own initiator. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/text.h"
#include "cmd/fathom/control/transfer.h"
#include "fathom/initiator.h"

enum { DEPTH = 16, PIECE_BYTES = 128 << 10, ZERO_BLOCKS_MAX = 65536, WAIT_MS = 500, ADDRESS_BYTES_MAX = 128 };
static_assert(DEPTH * PIECE_BYTES >= TRANSFER_BYTES_MAX, "all pieces of a transfer are in flight together");

struct piece {
	struct transfer_io *io;
	struct iovec iov;
};

struct transfer_io {
	struct fathom_controller *controller;
	struct fathom_qpair *qpair;
	struct fathom_namespace_info ns;
	uint32_t piece_bytes;
	struct piece pieces[DEPTH];
	uint32_t in_flight;
	int error; /* of the transfer: the first */
	char reason[192];
};

/* ---- connect ---- */

/* "ADDRESS:PORT", "[ADDRESS]:PORT" */
static int split_address(const char *text, char *address, const char **port_ret)
{
	char *colon;

	if (text_copy(address, ADDRESS_BYTES_MAX, text) != 0 || !(colon = strrchr(address, ':')))
		return -EINVAL;
	*colon = '\0';
	*port_ret = text + (colon - address) + 1;
	if (address[0] == '[' && colon[-1] == ']') {
		colon[-1] = '\0';
		memmove(address, address + 1, strlen(address));
	}
	return 0;
}

static int connect_volume(struct transfer_io *io, const struct fathom_control_volume *volume, const char *host,
			  struct fathom_fault *why)
{
	struct fathom_connect_options options;
	char address[ADDRESS_BYTES_MAX];
	uint8_t hostid[FATHOM_HOSTID_BYTES];
	uint32_t nsid;
	size_t count;
	int error;

	fathom_connect_options_init(&options);
	uuid_generate(hostid);
	options.address = address;
	options.subnqn = volume->nqn;
	options.hostnqn = host;
	options.hostid = hostid;
	options.keep_alive_ms = 0; /* files and pipes may block for long; the end of the connection is seen */
	options.io_queues = 1;
	if (volume->address_count == 0 || split_address(volume->addresses[0], address, &options.service))
		return fault(why, -EADDRNOTAVAIL,
			     "the engine of volume %s has no address for hosts: start it with --listen", volume->name);
	error = fathom_connect(&options, why, &io->controller);
	if (!error)
		error = fathom_namespace_list(io->controller, 0, why, &nsid, 1, &count);
	if (!error && count == 0)
		error = fault(why, -ENXIO, "volume %s has no namespace", volume->name);
	if (!error)
		error = fathom_namespace_info(io->controller, nsid, why, &io->ns);
	return error ? error : fathom_qpair_create(io->controller, DEPTH, why, &io->qpair);
}

int transfer_io_open(const struct fathom_control_volume *volume, const char *host, struct transfer_io **io_ret,
		     struct fathom_fault *why)
{
	struct transfer_io *io = calloc(1, sizeof(*io));
	struct fathom_fault reason;
	uint32_t limit;
	int error;

	must(io);
	error = connect_volume(io, volume, host, &reason);
	if (error) {
		transfer_io_close(io);
		return fault(why, error, "cannot connect to volume %s: %.300s", volume->name, reason.text);
	}
	limit = fathom_controller_info(io->controller)->transfer_bytes_max;
	io->piece_bytes = limit > 0 && limit < PIECE_BYTES ? limit : PIECE_BYTES;
	for (int i = 0; i < DEPTH; i++)
		io->pieces[i].io = io;
	*io_ret = io;
	return 0;
}

void transfer_io_close(struct transfer_io *io)
{
	if (!io)
		return;
	if (io->qpair)
		fathom_qpair_destroy(io->qpair);
	fathom_disconnect(io->controller);
	free(io);
}

/* ---- commands ---- */

static void note_completion(void *ctx, const struct fathom_completion *completion)
{
	struct piece *piece = ctx;
	struct transfer_io *io = piece->io;

	must(io->in_flight > 0);
	io->in_flight--;
	piece->iov.iov_len = 0;
	if ((completion->error || completion->status) && !io->error) {
		io->error = completion->error ? completion->error : -EIO;
		(void)fathom_completion_text(completion, io->reason, sizeof(io->reason)); /* returns its argument */
	}
}

static struct piece *find_free(struct transfer_io *io)
{
	for (int i = 0; i < DEPTH; i++) {
		if (io->pieces[i].iov.iov_len == 0)
			return &io->pieces[i];
	}
	return NULL;
}

static int poll_once(struct transfer_io *io)
{
	int ended = fathom_qpair_poll(io->qpair);

	if (ended < 0 && !io->error) {
		io->error = ended;
		snprintf(io->reason, sizeof(io->reason), "%.180s", fathom_qpair_fault(io->qpair)->text);
	}
	if (ended == 0)
		fathom_qpair_wait(io->qpair, WAIT_MS);
	return ended;
}

/* Wait until at most `limit` commands are in flight. */
static void drain(struct transfer_io *io, uint32_t limit)
{
	while (io->in_flight > limit && poll_once(io) >= 0)
		;
}

static int end_transfer(struct transfer_io *io, const char *verb, struct fathom_fault *why)
{
	int error;

	drain(io, 0);
	error = io->error;
	io->error = 0;
	if (error)
		return fault(why, error, "cannot %s the volume: %s", verb, io->reason);
	if (control_was_interrupted())
		return fault(why, -EINTR, "interrupted by a signal");
	return 0;
}

static int submit(struct transfer_io *io, bool is_write, uint64_t offset, uint8_t *data, uint32_t bytes)
{
	struct piece *piece = find_free(io);
	uint32_t blocks = bytes / io->ns.block_bytes;
	uint64_t lba = offset / io->ns.block_bytes;
	int error;

	must(piece);
	piece->iov = (struct iovec){ data, bytes };
	io->in_flight++;
	error = is_write ? fathom_write(io->qpair, io->ns.nsid, lba, blocks, &piece->iov, 1, note_completion, piece)
			 : fathom_read(io->qpair, io->ns.nsid, lba, blocks, &piece->iov, 1, note_completion, piece);
	if (error) {
		io->in_flight--;
		piece->iov.iov_len = 0;
	}
	return error;
}

static int transfer(struct transfer_io *io, bool is_write, uint64_t offset, uint8_t *data, uint32_t bytes)
{
	uint32_t depth = fathom_qpair_depth(io->qpair);

	must(bytes <= TRANSFER_BYTES_MAX && bytes % io->ns.block_bytes == 0 && offset % io->ns.block_bytes == 0);
	if (depth > DEPTH)
		depth = DEPTH;
	for (uint32_t at = 0; at < bytes && !io->error; at += io->piece_bytes) {
		uint32_t length = bytes - at < io->piece_bytes ? bytes - at : io->piece_bytes;
		int error;

		drain(io, depth - 1);
		error = io->error ? 0 : submit(io, is_write, offset + at, data + at, length);
		if (error) {
			io->error = error;
			snprintf(io->reason, sizeof(io->reason), "%s", strerror(-error));
		}
	}
	return io->error;
}

int transfer_read(struct transfer_io *io, uint64_t offset, uint8_t *data, uint32_t bytes, struct fathom_fault *why)
{
	(void)transfer(io, false, offset, data, bytes); /* end_transfer() returns it */
	return end_transfer(io, "read", why);
}

int transfer_write(struct transfer_io *io, uint64_t offset, const uint8_t *data, uint32_t bytes, struct fathom_fault *why)
{
	(void)transfer(io, true, offset, (uint8_t *)(uintptr_t)data, bytes); /* end_transfer() returns it */
	return end_transfer(io, "write", why);
}

/* One command without data, and its end. */
static int run_alone(struct transfer_io *io, bool is_flush, uint64_t offset, uint64_t bytes)
{
	struct piece *piece = find_free(io);
	uint32_t blocks = (uint32_t)(bytes / io->ns.block_bytes);
	int error;

	must(piece);
	piece->iov.iov_len = 1; /* it is in use */
	io->in_flight++;
	error = is_flush ? fathom_flush(io->qpair, io->ns.nsid, note_completion, piece)
			 : fathom_write_zeroes(io->qpair, io->ns.nsid, offset / io->ns.block_bytes, blocks, true,
					       note_completion, piece);
	if (error) {
		io->in_flight--;
		piece->iov.iov_len = 0;
		io->error = error;
		snprintf(io->reason, sizeof(io->reason), "%s", strerror(-error));
	}
	drain(io, 0);
	return io->error;
}

int transfer_zero(struct transfer_io *io, uint64_t offset, uint64_t bytes, struct fathom_fault *why)
{
	uint64_t step = (uint64_t)ZERO_BLOCKS_MAX * io->ns.block_bytes;

	for (uint64_t at = 0; at < bytes && !control_was_interrupted(); at += step) {
		if (run_alone(io, false, offset + at, min_u64(step, bytes - at)))
			break;
	}
	return end_transfer(io, "write zeroes to", why);
}

int transfer_flush(struct transfer_io *io, struct fathom_fault *why)
{
	(void)run_alone(io, true, 0, 0); /* end_transfer() returns it */
	return end_transfer(io, "flush", why);
}
