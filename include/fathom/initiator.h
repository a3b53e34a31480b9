/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * initiator - the host side of NVMe/TCP as a library.
 *
 *      fathom_connect()  ->  controller (the admin queue)  ->  fathom_qpair_create()  ->  fathom_read() ... -+
 *                                                                       ^                                    |
 *                                                                       +-------- fathom_qpair_poll() <------+
 *
 * A queue pair is one TCP connection. Submitting only queues a command. fathom_qpair_poll() sends all commands submitted
 * since its last call, reads the socket, and calls callbacks, which may submit more. A program must poll: the library has
 * no thread, except that of fathom_connect_begin(). Nothing is allocated after a queue pair has been created.
 *
 * Threads: one thread at a time uses a controller, and one thread at a time uses a queue pair. They may be different
 * threads. The controller's thread creates and destroys queue pairs; in between it may give them to others.
 *
 * Errors are 0 or a negative errno. `why` (may be NULL) gets the explanation. The result of a command is in its struct
 * fathom_completion, never in an errno. Broken rules of use, such as polling from a callback, abort the program.
 *
 * Strict C11 and POSIX. Numbers are in the host's byte order; raw commands are little-endian, as in the specification.
 */
#ifndef FATHOM_INITIATOR_H
#define FATHOM_INITIATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "fathom/fault.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FATHOM_MUST_CHECK __attribute__((warn_unused_result))
#else
#define FATHOM_MUST_CHECK
#endif

enum {
	FATHOM_NQN_BYTES = 224,
	FATHOM_HOSTID_BYTES = 16,
	FATHOM_COMMAND_BYTES = 64,
	FATHOM_IOV_MAX = 256,	 /* pieces of memory in one command */
	FATHOM_DEPTH_MAX = 4096, /* commands in flight on one queue pair */
	FATHOM_R2TS_MAX = 16,	 /* R2Ts in flight for one command */
	FATHOM_DSM_RANGES_MAX = 256,
};

/* ---- Controllers ---- */

struct fathom_controller;
struct fathom_qpair;

/* Start from fathom_connect_options_init(). Strings are borrowed for the call. */
struct fathom_connect_options {
	size_t bytes;	       /* of this structure when the program was compiled */
	const char *address;   /* name or number */
	const char *service;   /* port, 1 to 65535, or its name; default "4420" */
	const char *subnqn;    /* fathom_discovery_nqn for a discovery controller */
	const char *hostnqn;   /* NULL: made of a random UUID */
	const uint8_t *hostid; /* 16 bytes; NULL: that UUID, or another random one */
	/*
	 * Keep-alive time; 0: none; default 15 s. Call fathom_controller_poll() every quarter of it: it sends a keep alive.
	 * A keep alive without an answer for three quarters of it ends the connection, so a hung target is detected in
	 * this time.
	 */
	uint32_t keep_alive_ms;
	uint32_t connect_timeout_ms; /* of each step of connecting and of each admin command of the library; default 10 s */
	uint32_t command_timeout_ms; /* a command that takes longer ends its connection; 0: none; default 30 s */
	uint16_t io_queues;	     /* number of I/O queue pairs to request; default 16 */
	uint16_t r2ts_max;	     /* R2Ts in flight for one command, 1 to FATHOM_R2TS_MAX; default 4 */
	uint8_t data_align;	     /* HPDA: data to us starts at multiples of (this + 1) * 4, 0 to 31; default 0 */
	bool header_digest;	     /* connecting fails if the controller does not support a wanted digest */
	bool data_digest;
	bool no_flow_control; /* let the controller leave out responses (SUCCESS in C2HData), if it can */
	/*
	 * Called once for each step of connecting and each admin command of the library that has had no answer for a
	 * second; NULL: not called. `what`, for people, names the address and the step; it is valid for the call. Thread:
	 * the one that waits; of fathom_connect_begin() its own thread. `waiting_ctx` is lent until the controller is
	 * disconnected. After fathom_connect_cancel() and fathom_reconnect_destroy() a running attempt may still call it:
	 * then it must stay valid until the program ends.
	 */
	void (*waiting)(void *ctx, const char *what);
	void *waiting_ctx;
};

struct fathom_controller_info {
	uint16_t cntlid;
	bool discovery;
	char subnqn[FATHOM_NQN_BYTES];
	char hostnqn[FATHOM_NQN_BYTES];
	char serial[21];
	char model[41];
	char firmware[9];
	uint32_t version;	     /* VS: major << 16 | minor << 8 | tertiary */
	uint32_t depth_max;	     /* of an I/O queue pair */
	uint16_t io_queues;	     /* granted */
	uint32_t transfer_bytes_max; /* of one command; 0: no limit */
	uint32_t in_capsule_bytes;   /* of an I/O command */
	uint16_t optional_commands;  /* ONCS */
	bool volatile_cache;
};

struct fathom_namespace_info {
	uint32_t nsid;
	uint32_t block_bytes;
	uint32_t metadata_bytes;
	uint64_t blocks; /* NSZE */
	uint8_t nguid[16];
	uint8_t eui64[8];
};

/* One entry of a discovery log, strings trimmed. */
struct fathom_discovery_entry {
	uint8_t transport; /* TRTYPE: 3 is TCP */
	uint8_t family;	   /* ADRFAM: 1 IPv4, 2 IPv6 */
	uint8_t subtype;   /* 1 referral, 2 NVM subsystem, 3 this discovery subsystem */
	uint16_t portid;
	uint16_t cntlid;
	char service[33];
	char address[257];
	char subnqn[FATHOM_NQN_BYTES];
};

extern const char fathom_discovery_nqn[];

/* Set the defaults in a structure of `bytes`. The library may know more fields than the program, or fewer. Any thread. */
void fathom_connect_options_init_bytes(struct fathom_connect_options *options, size_t bytes);
#define fathom_connect_options_init(options) fathom_connect_options_init_bytes((options), sizeof(*(options)))

/*
 * Connect the admin queue, enable the controller and identify it. Blocks: each step at most connect_timeout_ms, for each
 * address of a name, and name resolution as long as the resolver takes. Pair: fathom_disconnect(). Errors: of socket() and
 * connect(), such as -ECONNREFUSED; -EHOSTUNREACH (also: the name has no address), -EINVAL (an option), -ENOMEM,
 * -ETIMEDOUT, -EPROTO (the peer violates NVMe/TCP), -EACCES (the controller does not allow this host, or requires
 * authentication), -EIO (the controller refused; `why` has the status).
 */
FATHOM_MUST_CHECK int fathom_connect(const struct fathom_connect_options *options, struct fathom_fault *why,
				     struct fathom_controller **controller_ret);

/* ---- Connecting without waiting ---- */

struct fathom_connecting;

/*
 * Run fathom_connect() in a thread of its own, which ends with it. The options are copied. Pair: call
 * fathom_connect_finish() until it does not return -EINPROGRESS, or fathom_connect_cancel(). Errors: -EINVAL (an option),
 * -ENOMEM, -EAGAIN (no thread), -EMFILE.
 */
FATHOM_MUST_CHECK int fathom_connect_begin(const struct fathom_connect_options *options, struct fathom_fault *why,
					   struct fathom_connecting **connecting_ret);
/* For poll(2): readable when the attempt has ended. Valid until finish or cancel. */
int fathom_connecting_fd(const struct fathom_connecting *connecting);
/*
 * Get the result. -EINPROGRESS: the attempt has not ended; else 0 or an error of fathom_connect(), and `connecting` is
 * freed. Does not block.
 */
FATHOM_MUST_CHECK int fathom_connect_finish(struct fathom_connecting *connecting, struct fathom_fault *why,
					    struct fathom_controller **controller_ret);
/*
 * Give up the attempt. Does not wait for its thread, which ends later. A controller that is already connected is
 * disconnected: that blocks for up to a second. Accepts NULL.
 */
void fathom_connect_cancel(struct fathom_connecting *connecting);

/* Start from fathom_reconnect_options_init(). */
struct fathom_reconnect_options {
	size_t bytes;	       /* of this structure when the program was compiled */
	uint32_t delay_min_ms; /* after the first failure; doubles with each further one; default 1 s */
	uint32_t delay_max_ms; /* the longest delay; default 30 s */
	uint32_t attempts_max; /* failures in a row before it gives up; 0: no limit (default) */
};

struct fathom_reconnect;

/* Set the defaults, as fathom_connect_options_init_bytes(). */
void fathom_reconnect_options_init_bytes(struct fathom_reconnect_options *options, size_t bytes);
#define fathom_reconnect_options_init(options) fathom_reconnect_options_init_bytes((options), sizeof(*(options)))

/*
 * A host that connects, and again after each loss, always with the same host NQN. `options` is copied. `how` NULL: the
 * defaults. It starts nothing: fathom_reconnect_poll() does. Pair: fathom_reconnect_destroy(). Errors: -EINVAL, -ENOMEM,
 * -EIO (no random numbers for the host's name). Thread: one at a time.
 */
FATHOM_MUST_CHECK int fathom_reconnect_create(const struct fathom_connect_options *options,
					      const struct fathom_reconnect_options *how, struct fathom_fault *why,
					      struct fathom_reconnect **reconnect_ret);
/* Controllers that it returned stay connected. A running attempt is cancelled: fathom_connect_cancel(). Accepts NULL. */
void fathom_reconnect_destroy(struct fathom_reconnect *reconnect);

/*
 * Start an attempt if one is due, or collect its result. Does not block. 0: connected; the caller owns `*controller_ret`.
 * After its loss, destroy its queue pairs, call fathom_disconnect(), and call this again. -EINPROGRESS: not connected yet;
 * `why` has the last failure, if any. Other errors: attempts_max attempts have failed; a further call starts again.
 *
 * Call it when fathom_reconnect_fd() is readable (-1: no attempt is running) or fathom_reconnect_timeout_ms() has passed
 * (-1: an attempt is running; wait for the fd). Both change with each call of this function.
 */
FATHOM_MUST_CHECK int fathom_reconnect_poll(struct fathom_reconnect *reconnect, struct fathom_fault *why,
					    struct fathom_controller **controller_ret);
int fathom_reconnect_fd(const struct fathom_reconnect *reconnect);
int fathom_reconnect_timeout_ms(const struct fathom_reconnect *reconnect);

/*
 * Shut the controller down and free it. Blocks for up to a second if the target does not answer. Destroy its I/O queue
 * pairs first. Accepts NULL.
 */
void fathom_disconnect(struct fathom_controller *controller);

/* What the controller reported when it was connected. Valid until fathom_disconnect(). */
const struct fathom_controller_info *fathom_controller_info(const struct fathom_controller *controller);

/*
 * Poll the admin queue pair, and send a keep alive if one is due: call it every keep_alive_ms / 4. Does not block. Returns
 * 0 or an error of fathom_qpair_poll(); -ETIMEDOUT: the controller does not answer. After an error destroy or abort the I/O
 * queue pairs: their commands may otherwise wait for command_timeout_ms, or for ever.
 */
FATHOM_MUST_CHECK int fathom_controller_poll(struct fathom_controller *controller);

/* The admin queue pair, for raw commands: fathom_submit() and fathom_qpair_poll(). It belongs to the controller. */
struct fathom_qpair *fathom_controller_admin(struct fathom_controller *controller);

/* Identify a namespace. Blocks. Errors: -ENOENT (no such namespace), -EPROTO (its block size), else as fathom_connect(). */
FATHOM_MUST_CHECK int fathom_namespace_info(struct fathom_controller *controller, uint32_t nsid, struct fathom_fault *why,
					    struct fathom_namespace_info *info_ret);

/*
 * The ids of active namespaces above `after`, ascending; `*count_ret` of them, at most `nsids_max` and at most 1,024. Call
 * again with the last id until there are none. Blocks. Errors: as fathom_connect().
 */
FATHOM_MUST_CHECK int fathom_namespace_list(struct fathom_controller *controller, uint32_t after, struct fathom_fault *why,
					    uint32_t *nsids, size_t nsids_max, size_t *count_ret);

/*
 * Read the log of a discovery controller: at most `entries_max` entries; `*count_ret` is the number of entries in the log,
 * which may be larger. Blocks. Errors: as fathom_connect(); -EAGAIN (the log changed during five reads). After an error the
 * contents of `entries` are undefined.
 */
FATHOM_MUST_CHECK int fathom_discover(struct fathom_controller *controller, struct fathom_fault *why,
				      struct fathom_discovery_entry *entries, size_t entries_max, size_t *count_ret);

/* ---- Queue pairs ---- */

/*
 * Connect an I/O queue pair for `depth` commands in flight, or as many as the controller allows (fathom_qpair_depth()).
 * Blocks. Pair: fathom_qpair_destroy(). Errors: as fathom_connect(); -EINVAL: depth 0; -ENOSPC: info.io_queues queue pairs
 * have been created. Queue ids are not reused, so a destroyed queue pair counts, too.
 */
FATHOM_MUST_CHECK int fathom_qpair_create(struct fathom_controller *controller, uint32_t depth, struct fathom_fault *why,
					  struct fathom_qpair **qpair_ret);

/* Close and free. Commands in flight are called back with error -ECANCELED. Not from a callback. Accepts NULL. */
void fathom_qpair_destroy(struct fathom_qpair *qpair);

/*
 * Give up the connection, for example after the loss of its controller. The next fathom_qpair_poll() calls back the
 * commands in flight with error -ECANCELED, and polls return -ECANCELED from then on. Thread: the one that polls it; not
 * from a callback. The queue pair must still be destroyed.
 */
void fathom_qpair_abort(struct fathom_qpair *qpair);

/* The largest number of commands in flight. */
uint32_t fathom_qpair_depth(const struct fathom_qpair *qpair);

/* Number of commands submitted and not called back yet. */
uint32_t fathom_qpair_in_flight(const struct fathom_qpair *qpair);

/* For poll(2): wait until it is readable and, if fathom_qpair_wants_to_send(), until it is writable. Not to be closed. */
int fathom_qpair_fd(const struct fathom_qpair *qpair);
bool fathom_qpair_wants_to_send(const struct fathom_qpair *qpair);

/*
 * Send, receive, call back. Never blocks. Not from a callback. Returns the number of commands that ended. If the connection
 * is lost, all commands have been called back, and this and each later call returns the reason: -ECONNRESET, -EPROTO,
 * -ETIMEDOUT (command_timeout_ms), or another error of the socket; fathom_qpair_fault() explains it.
 */
FATHOM_MUST_CHECK int fathom_qpair_poll(struct fathom_qpair *qpair);

/*
 * Sleep until the socket is ready, a signal arrives, or `timeout_ms` have passed (-1: no limit). It does not wake up for
 * command_timeout_ms: only fathom_qpair_poll() checks that. Returns at once if the connection is lost.
 */
void fathom_qpair_wait(const struct fathom_qpair *qpair, int timeout_ms);

/* Why the connection was lost; `error` is 0 if it is not. Valid until the queue pair is destroyed. */
const struct fathom_fault *fathom_qpair_fault(const struct fathom_qpair *qpair);

/* ---- Commands ---- */

/* The result of a command. It succeeded if `error` and `status` are both 0. */
struct fathom_completion {
	/* of the host: -EBADMSG: data digest; -ENODATA: less data than requested; else why the connection was lost */
	int error;
	uint16_t status; /* the controller's: status code type << 8 | status code */
	bool do_not_retry;
	uint32_t data_bytes; /* received */
	uint64_t result;     /* dwords 0 and 1 of the completion */
};

/* Called once for each command submitted, in fathom_qpair_poll() or fathom_qpair_destroy(). `completion` is borrowed. */
typedef void (*fathom_done_fn)(void *ctx, const struct fathom_completion *completion);

/* The name of a status, "LBA Out of Range"; never NULL. Static. */
const char *fathom_status_name(uint16_t status);

/* Describe a failed completion in `text` of `text_bytes`, for people. Returns `text`. */
const char *fathom_completion_text(const struct fathom_completion *completion, char *text, size_t text_bytes);

/*
 * Submit a command on `blocks` logical blocks (1 to 65,536) from `lba` on. `iov`, the array and its memory, is lent until
 * `done`; the controller checks that its size matches. Thread: the one that polls the queue pair, also in a callback.
 * Errors, after which `done` is not called: -EAGAIN: the depth is in flight; -EINVAL: `blocks` or `iov_count` is out of
 * range, or the data have 2 GiB or more; -ENOTCONN: the connection is lost. The same for the functions below.
 */
FATHOM_MUST_CHECK int fathom_read(struct fathom_qpair *qpair, uint32_t nsid, uint64_t lba, uint32_t blocks,
				  const struct iovec *iov, int iov_count, fathom_done_fn done, void *ctx);
FATHOM_MUST_CHECK int fathom_write(struct fathom_qpair *qpair, uint32_t nsid, uint64_t lba, uint32_t blocks,
				   const struct iovec *iov, int iov_count, fathom_done_fn done, void *ctx);
FATHOM_MUST_CHECK int fathom_compare(struct fathom_qpair *qpair, uint32_t nsid, uint64_t lba, uint32_t blocks,
				     const struct iovec *iov, int iov_count, fathom_done_fn done, void *ctx);
/* Flush the namespace's volatile write cache. */
FATHOM_MUST_CHECK int fathom_flush(struct fathom_qpair *qpair, uint32_t nsid, fathom_done_fn done, void *ctx);
/* `deallocate`: the controller may deallocate the blocks (DEAC). */
FATHOM_MUST_CHECK int fathom_write_zeroes(struct fathom_qpair *qpair, uint32_t nsid, uint64_t lba, uint32_t blocks,
					  bool deallocate, fathom_done_fn done, void *ctx);

/* A range of Dataset Management, as the specification lays it out. */
struct fathom_dsm_range {
	uint32_t attributes;
	uint32_t blocks;
	uint64_t lba;
};

/*
 * Deallocate 1 to FATHOM_DSM_RANGES_MAX ranges. `iov` is one piece, an array of struct fathom_dsm_range; lent until `done`.
 */
FATHOM_MUST_CHECK int fathom_deallocate(struct fathom_qpair *qpair, uint32_t nsid, const struct iovec *iov,
					fathom_done_fn done, void *ctx);

/*
 * Submit any command. `command` has FATHOM_COMMAND_BYTES and is copied; the library fills in the command identifier, the
 * SGL and its flags. The opcode (of Fabrics commands: FCTYPE) determines the direction of the data. `iov_count` 0: no data.
 */
FATHOM_MUST_CHECK int fathom_submit(struct fathom_qpair *qpair, const void *command, const struct iovec *iov, int iov_count,
				    fathom_done_fn done, void *ctx);

#ifdef __cplusplus
}
#endif

#endif
