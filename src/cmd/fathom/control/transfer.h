/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * transfer - what `fathom volume export` and `import` share: the data of a volume over NVMe/TCP, files, progress.
 *
 * The bytes do not pass through the servers: this program is a host of the volume, by our own initiator. An export reads a
 * clone of the snapshot, which has no other host and is destroyed afterwards. Which ranges to read comes from the engine
 * through the management service, because NVMe has no command for the difference of two snapshots.
 *
 * Both work in one thread, with up to TRANSFER_BYTES_MAX in flight.
 */
#ifndef CMD_FATHOM_CONTROL_TRANSFER_H
#define CMD_FATHOM_CONTROL_TRANSFER_H

#include "cmd/fathom/control/control.h"
#include "data/stream/stream.h"

enum { TRANSFER_BYTES_MAX = STREAM_DATA_BYTES_MAX, TRANSFER_NAME_BYTES = 256 };

/* ---- transfer_io.c: a published volume ---- */

struct transfer_io;

/* Connect as `host`. Pair: transfer_io_close(). Errors (explained): those of fathom_connect(); -ENXIO: no namespace. */
MUST_CHECK int transfer_io_open(const struct fathom_control_volume *volume, const char *host, struct transfer_io **io_ret,
				struct fathom_fault *why);
/* Accepts NULL. */
void transfer_io_close(struct transfer_io *io);
/* Whole blocks, at most TRANSFER_BYTES_MAX. Errors (explained): -EIO, -EINTR (a signal), those of the connection. */
MUST_CHECK int transfer_read(struct transfer_io *io, uint64_t offset, uint8_t *data, uint32_t bytes,
			     struct fathom_fault *why);
MUST_CHECK int transfer_write(struct transfer_io *io, uint64_t offset, const uint8_t *data, uint32_t bytes,
			      struct fathom_fault *why);
/* Make the range read as zeroes, and deallocate it. */
MUST_CHECK int transfer_zero(struct transfer_io *io, uint64_t offset, uint64_t bytes, struct fathom_fault *why);
MUST_CHECK int transfer_flush(struct transfer_io *io, struct fathom_fault *why);

/* ---- transfer.c ---- */

/* The volume "POOL/VOLUME" as it is now; the caller frees `*list_ret`. Errors (explained): -ENOENT. */
MUST_CHECK int transfer_find(const struct control_run *run, const char *name, struct fathom_control_volumes **list_ret,
			     const struct fathom_control_volume **volume_ret, struct fathom_fault *why);
/*
 * Wait until the host is not connected: the end of a process is seen a moment later. `is_there_ret`: it may connect.
 * Errors (explained): -EBUSY: it stays connected.
 */
MUST_CHECK int transfer_wait_alone(const struct control_run *run, const char *name, const char *host, bool *is_there_ret,
				   struct fathom_fault *why);
/* Read `bytes`, or up to the end of the file: `*got_ret`. */
MUST_CHECK int transfer_read_file(int fd, uint8_t *data, size_t bytes, size_t *got_ret, struct fathom_fault *why);
/*
 * Read a stream's next record with its data, of at most STREAM_DATA_BYTES_MAX. -ENODATA: the file ends before it. Other
 * errors (explained): -EBADMSG, -EPROTO, those of the file.
 */
MUST_CHECK int transfer_take_record(struct stream *stream, int fd, struct stream_record *record_ret, uint8_t *data,
				    struct fathom_fault *why);
MUST_CHECK int transfer_take_header(struct stream *stream, int fd, struct fathom_fault *why);
/* The stream is damaged or ends too early: the fault of that, with what was read. Returns its error. */
int transfer_bad_stream(const struct stream *stream, const struct fathom_fault *reason, struct fathom_fault *why);
/* On a terminal: print how far it is, at most each second. */
void transfer_progress(const struct stream *stream, const char *verb);
void transfer_progress_end(void);
/* The JSON of a stream that has passed. */
json_t *transfer_json(const struct stream *stream, const char *name);

#endif
