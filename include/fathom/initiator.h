/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * initiator - the host side of NVMe/TCP as a library.
 *
 *      fathom_connect()  ->  controller (the admin queue)  ->  fathom_qpair_create()  ->  fathom_read() ... -+
 *                                                                       ^                                    |
 *                                                                       +-------- fathom_qpair_poll() <------+
 *
 * A queue pair is one TCP connection. Submitting only queues; fathom_qpair_poll() sends all that was submitted since
 * the last call at once, takes what has come in and calls the callbacks, from which more can be submitted. Nothing
 * happens without it: there is no thread inside, but for that of fathom_connect_begin(). Nothing is allocated after a queue
 * pair has been created.
 *
 * Threads: a controller is used by one thread at a time, and so is each of its queue pairs, each by a thread of its
 * own if so wished. Queue pairs are created and destroyed by the controller's thread, which may hand them over in
 * between.
 *
 * Errors are 0 or a negative errno. Functions that can fail for reasons worth a sentence take a `struct fathom_fault
 * *why` (NULL: not interested). How a command ended is in its struct fathom_completion, never in an errno.
 *
 * Strict C11 and POSIX; numbers are in the host's byte order, raw commands as the specification lays them out
 * (little-endian).
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
	size_t bytes;	       /* of this structure, as the program was compiled with it */
	const char *address;   /* name or number */
	const char *service;   /* port, 1 to 65535, or its name; default "4420" */
	const char *subnqn;    /* fathom_discovery_nqn for a discovery controller */
	const char *hostnqn;   /* NULL: made up from a random UUID */
	const uint8_t *hostid; /* 16 bytes; NULL: that UUID, or a random one */
	/*
	 * 0: none; default 15 s. fathom_controller_poll() is due every quarter of it. It sends a keep alive as often; one
	 * that has no answer for three quarters ends the connection: a target that stands still is noticed in this time.
	 */
	uint32_t keep_alive_ms;
	uint32_t connect_timeout_ms; /* for each step of connecting and each admin command of ours; default 10 s */
	uint32_t command_timeout_ms; /* a command that takes longer ends its connection; 0: none; default 30 s */
	uint16_t io_queues;	     /* how many I/O queue pairs to ask for; default 16 */
	uint16_t r2ts_max;	     /* for a command at a time, 1 to FATHOM_R2TS_MAX; default 4 */
	uint8_t data_align;	     /* HPDA: data to us starts at multiples of (this + 1) * 4, 0 to 31; default 0 */
	bool header_digest;	     /* refused by the controller: connecting fails */
	bool data_digest;
	bool no_flow_control; /* let the controller leave out responses (SUCCESS in C2HData), if it can */
	/*
	 * NULL, or called once for each step of connecting and each admin command of ours that has had no answer for a
	 * second. `what` says where and for what, for people; valid for the call. Thread: the one that waits (of
	 * fathom_connect_begin() its own). `waiting_ctx` is lent as long as there is the controller.
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

/* Defaults, for a structure of `bytes`: the library may know more fields than the program, or fewer. */
void fathom_connect_options_init_bytes(struct fathom_connect_options *options, size_t bytes);
#define fathom_connect_options_init(options) fathom_connect_options_init_bytes((options), sizeof(*(options)))

/*
 * Connect the admin queue, enable the controller and identify it. Blocks, each step at most connect_timeout_ms.
 * Pair: fathom_disconnect(). Errors: of socket and connect, -EINVAL (an option), -ETIMEDOUT, -EPROTO (not NVMe/TCP as
 * we know it), -ECONNREFUSED, -EACCES, -EIO (the controller refused; `why` says with which status).
 */
FATHOM_MUST_CHECK int fathom_connect(const struct fathom_connect_options *options, struct fathom_fault *why,
				     struct fathom_controller **controller_ret);

/* ---- Connecting without waiting ---- */

struct fathom_connecting;

/*
 * Begin what fathom_connect() does, in a thread that ends with it; the options are copied. Pair: fathom_connect_finish()
 * until it does not return -EINPROGRESS, or fathom_connect_cancel(). Errors: -EINVAL (an option), -ENOMEM, -EAGAIN (no
 * thread), -EMFILE.
 */
FATHOM_MUST_CHECK int fathom_connect_begin(const struct fathom_connect_options *options, struct fathom_fault *why,
					   struct fathom_connecting **connecting_ret);
/* For poll(2): readable when it has ended. Valid until finish or cancel. */
int fathom_connecting_fd(const struct fathom_connecting *connecting);
/* How it ended: -EINPROGRESS: it has not; else as fathom_connect(), and `connecting` is gone. Does not block. */
FATHOM_MUST_CHECK int fathom_connect_finish(struct fathom_connecting *connecting, struct fathom_fault *why,
					    struct fathom_controller **controller_ret);
/* Give up, also what has been connected. Does not wait for the thread. NULL is legal. */
void fathom_connect_cancel(struct fathom_connecting *connecting);

/* Start from fathom_reconnect_options_init(). */
struct fathom_reconnect_options {
	size_t bytes;	       /* of this structure, as the program was compiled with it */
	uint32_t delay_min_ms; /* after the first failure; doubles with each; default 1 s */
	uint32_t delay_max_ms; /* default 30 s */
	uint32_t attempts_max; /* 0: for ever */
};

struct fathom_reconnect;

void fathom_reconnect_options_init_bytes(struct fathom_reconnect_options *options, size_t bytes);
#define fathom_reconnect_options_init(options) fathom_reconnect_options_init_bytes((options), sizeof(*(options)))

/*
 * One host that connects, and again after each loss, by one name. `how`: NULL: the defaults. Pair:
 * fathom_reconnect_destroy(). Errors: -EINVAL, -ENOMEM, -EIO (no random numbers for the host's name).
 */
FATHOM_MUST_CHECK int fathom_reconnect_create(const struct fathom_connect_options *options,
					      const struct fathom_reconnect_options *how, struct fathom_fault *why,
					      struct fathom_reconnect **reconnect_ret);
/* A controller that it gave lives on. NULL is legal. */
void fathom_reconnect_destroy(struct fathom_reconnect *reconnect);

/*
 * Continue to reconnect. 0: the caller owns `*controller_ret`; after its loss, destroy its queue pairs, call
 * fathom_disconnect(), and call this again. -EINPROGRESS: not connected yet; `why` has the last failure, if any. Other
 * errors: attempts_max attempts have failed; a further call starts again. Does not block. Call it when fd is readable (-1:
 * none), or after the timeout (-1: none).
 */
FATHOM_MUST_CHECK int fathom_reconnect_poll(struct fathom_reconnect *reconnect, struct fathom_fault *why,
					    struct fathom_controller **controller_ret);
int fathom_reconnect_fd(const struct fathom_reconnect *reconnect);
int fathom_reconnect_timeout_ms(const struct fathom_reconnect *reconnect);

/* Shut the controller down and close. All its queue pairs have been destroyed. NULL is legal. */
void fathom_disconnect(struct fathom_controller *controller);

/* Valid until fathom_disconnect(). */
const struct fathom_controller_info *fathom_controller_info(const struct fathom_controller *controller);

/*
 * Keep alive: call it every now and then (see keep_alive_ms). Errors: as fathom_qpair_poll(); -ETIMEDOUT: the controller
 * does not answer. Destroy or abort its queue pairs then: what they have in flight may otherwise wait for
 * command_timeout_ms, or for ever.
 */
FATHOM_MUST_CHECK int fathom_controller_poll(struct fathom_controller *controller);

/* The admin queue pair, for raw commands: fathom_submit() and fathom_qpair_poll(). Not to be destroyed. */
struct fathom_qpair *fathom_controller_admin(struct fathom_controller *controller);

/* Blocks. Errors: -ENOENT (no such namespace), else as fathom_connect(). */
FATHOM_MUST_CHECK int fathom_namespace_info(struct fathom_controller *controller, uint32_t nsid, struct fathom_fault *why,
					    struct fathom_namespace_info *info_ret);

/* The first `nsids_max` active namespaces above `after`, ascending. Blocks. */
FATHOM_MUST_CHECK int fathom_namespace_list(struct fathom_controller *controller, uint32_t after, struct fathom_fault *why,
					    uint32_t *nsids, size_t nsids_max, size_t *count_ret);

/*
 * The discovery log of a discovery controller: at most `entries_max` entries; *count_ret is how many there are in all.
 * Blocks. Errors: as fathom_connect(); -EAGAIN (it kept changing).
 */
FATHOM_MUST_CHECK int fathom_discover(struct fathom_controller *controller, struct fathom_fault *why,
				      struct fathom_discovery_entry *entries, size_t entries_max, size_t *count_ret);

/* ---- Queue pairs ---- */

/*
 * An I/O queue pair for `depth` commands at a time, or as many as the controller allows (fathom_qpair_depth()). Blocks.
 * Pair: fathom_qpair_destroy(). Errors: as fathom_connect(); -ENOSPC (more queue pairs than granted).
 */
FATHOM_MUST_CHECK int fathom_qpair_create(struct fathom_controller *controller, uint32_t depth, struct fathom_fault *why,
					  struct fathom_qpair **qpair_ret);

/* Close. What was in flight ends with -ECANCELED, callbacks included. Not from a callback. NULL is legal. */
void fathom_qpair_destroy(struct fathom_qpair *qpair);

/*
 * Give the connection up, as after the loss of its controller: the next fathom_qpair_poll() ends what is in flight, and
 * returns -ECANCELED from then on. By the thread that polls it; not from a callback. fathom_qpair_destroy() is still due.
 */
void fathom_qpair_abort(struct fathom_qpair *qpair);

uint32_t fathom_qpair_depth(const struct fathom_qpair *qpair);

/* Commands submitted and not yet ended. */
uint32_t fathom_qpair_in_flight(const struct fathom_qpair *qpair);

/* For poll(2): readable, and writable where fathom_qpair_wants_to_send(). */
int fathom_qpair_fd(const struct fathom_qpair *qpair);
bool fathom_qpair_wants_to_send(const struct fathom_qpair *qpair);

/*
 * Send, receive, call back. Never blocks. Not from a callback. Returns how many commands ended, or, each time from
 * then on, why the connection is lost: -ECONNRESET, -EPROTO, -ETIMEDOUT or whatever the socket said; all commands have
 * been called back by then, and fathom_qpair_fault() has a sentence.
 */
FATHOM_MUST_CHECK int fathom_qpair_poll(struct fathom_qpair *qpair);

/* Sleep until poll has something to do, `timeout_ms` at most (-1: for ever). */
void fathom_qpair_wait(const struct fathom_qpair *qpair, int timeout_ms);

/* Why the connection was lost; error is 0 while it is not. */
const struct fathom_fault *fathom_qpair_fault(const struct fathom_qpair *qpair);

/* ---- Commands ---- */

/* How a command ended. Good: error and status are both 0. */
struct fathom_completion {
	int error; /* ours: -EBADMSG (data digest), -ENODATA (less data than asked for), or why the connection was lost */
	uint16_t status; /* the controller's: status code type << 8 | status code */
	bool do_not_retry;
	uint32_t data_bytes; /* received */
	uint64_t result;     /* dwords 0 and 1 of the completion */
};

/* Called once for each command submitted, in fathom_qpair_poll() or fathom_qpair_destroy(). `completion` is borrowed. */
typedef void (*fathom_done_fn)(void *ctx, const struct fathom_completion *completion);

/* What a status is called: "LBA Out of Range". */
const char *fathom_status_name(uint16_t status);

/* A sentence for a completion that is not good, in `text`, which is also returned. */
const char *fathom_completion_text(const struct fathom_completion *completion, char *text, size_t text_bytes);

/*
 * Submit. `iov`, the array and what it points at, is lent until done; its bytes make `blocks` blocks (not checked: the
 * controller does). Errors: -EAGAIN (depth commands in flight), -EINVAL (pieces, blocks or bytes out of range),
 * -ENOTCONN; `done` is then not called.
 */
FATHOM_MUST_CHECK int fathom_read(struct fathom_qpair *qpair, uint32_t nsid, uint64_t lba, uint32_t blocks,
				  const struct iovec *iov, int iov_count, fathom_done_fn done, void *ctx);
FATHOM_MUST_CHECK int fathom_write(struct fathom_qpair *qpair, uint32_t nsid, uint64_t lba, uint32_t blocks,
				   const struct iovec *iov, int iov_count, fathom_done_fn done, void *ctx);
FATHOM_MUST_CHECK int fathom_compare(struct fathom_qpair *qpair, uint32_t nsid, uint64_t lba, uint32_t blocks,
				     const struct iovec *iov, int iov_count, fathom_done_fn done, void *ctx);
FATHOM_MUST_CHECK int fathom_flush(struct fathom_qpair *qpair, uint32_t nsid, fathom_done_fn done, void *ctx);
FATHOM_MUST_CHECK int fathom_write_zeroes(struct fathom_qpair *qpair, uint32_t nsid, uint64_t lba, uint32_t blocks,
					  bool deallocate, fathom_done_fn done, void *ctx);

/* A range of Dataset Management, as the specification lays it out. */
struct fathom_dsm_range {
	uint32_t attributes;
	uint32_t blocks;
	uint64_t lba;
};

/* Deallocate 1 to FATHOM_DSM_RANGES_MAX ranges; `iov` is one piece that holds them as struct fathom_dsm_range. */
FATHOM_MUST_CHECK int fathom_deallocate(struct fathom_qpair *qpair, uint32_t nsid, const struct iovec *iov,
					fathom_done_fn done, void *ctx);

/*
 * Submit any command: FATHOM_COMMAND_BYTES of the capsule. The command identifier, the SGL and its flags are filled in.
 * The opcode (Fabrics: FCTYPE) gives the direction of the data, as in the specification. iov_count 0: no data.
 */
FATHOM_MUST_CHECK int fathom_submit(struct fathom_qpair *qpair, const void *command, const struct iovec *iov, int iov_count,
				    fathom_done_fn done, void *ctx);

#ifdef __cplusplus
}
#endif

#endif
