/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * internal - what the files of the initiator share. The door is fathom/initiator.h.
 *
 *      controller.c   connect, enable, identify, keep alive: a sequence of admin commands
 *      command_wait.c run one of these commands and wait for its completion
 *      connecting.c   connect without blocking the caller; reconnect after a loss
 *      inquiry.c      namespaces, the discovery log
 *      commands.c     Read, Write ...: 64 bytes each, into submit()
 *      qpair.c        life of a queue pair; slots; submit, complete, poll, lose
 *      send.c         slots and R2Ts -> one batch of bytes and lent memory -> sendmsg()
 *      receive.c      recv() -> pdu_step() -> data into place, R2Ts, completions
 *      sock.c         a connected non-blocking socket
 *      verify.c       for fathom perf, see its header
 *
 * A command has a slot from submit to its callback:
 *
 *      FREE --submit--> QUEUED --encoded--> SENT --response--> (callback) FREE
 *                                             +--response, but a batch still lends its memory--> HELD --batch gone--^
 *
 * The low bits of a command identifier are the slot's index, the high bits count the slot's uses. So a late or duplicate
 * response does not match.
 */
#ifndef INITIATOR_INTERNAL_H
#define INITIATOR_INTERNAL_H

#include "base/bits.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/must.h"
#include "fathom/initiator.h"
#include "data/nvme/command.h"
#include "data/nvme/fabrics.h"
#include "data/nvme/identify.h"
#include "data/wire/pdu/pdu.h"

enum {
	RECEIVE_BYTES = 256 * 1024,
	RECEIVE_HEAD_BYTES = 4096, /* of the next PDU, while PDUs are large: its data is received in place */
	RECEIVE_LARGE_BYTES = 32 * 1024,
	RECEIVE_DIRECT_BYTES = 1024, /* receive in place if at least this much of a PDU's data is to come */
	RECEIVE_ROUNDS_MAX = 8,	     /* full buffers in one poll */
	BATCH_BYTES = 64 * 1024,     /* headers and digests */
	BATCH_IOVS = 1024,	     /* IOV_MAX */
	ADMIN_ENTRIES = 32,
	ADMIN_IN_CAPSULE_BYTES = 8192,
	TIMEOUT_SCAN_MS = 250,
};
static_assert((int)RECEIVE_BYTES >= (int)PDU_WINDOW_BYTES_MIN, "");
static_assert((int)RECEIVE_HEAD_BYTES >= (int)PDU_WINDOW_BYTES_MIN, "");
static_assert(FATHOM_IOV_MAX + 2 <= BATCH_IOVS, "any one PDU fits into an empty batch");
enum slot_state { SLOT_FREE, SLOT_QUEUED, SLOT_SENT, SLOT_HELD };

struct slot {
	fathom_done_fn done;
	void *ctx;
	const struct iovec *iov; /* lent by the caller */
	int iov_count;
	uint32_t data_bytes; /* of the command */
	uint32_t data_done;  /* received, or requested by R2Ts */
	uint16_t cid;
	uint8_t state;	  /* enum slot_state */
	uint8_t transfer; /* enum nvme_transfer */
	bool digest_failed;
	bool in_capsule;
	uint16_t r2ts;			     /* received, and not all of their data encoded */
	uint64_t batch;			     /* the last one that borrows this command's memory */
	uint64_t seen_tick;		     /* when scan_for_timeouts() first saw it; 0: not yet */
	struct fathom_completion completion; /* while HELD */
	struct nvme_command command;	     /* while QUEUED */
};

/* Waits to be encoded: a command (bytes == 0), or the rest of an R2T's data. */
struct pending {
	uint16_t cid;
	uint16_t ttag;
	uint32_t offset;
	uint32_t bytes;
};

/* Bytes to send. Headers and digests are in `bytes`, data in the caller's memory. */
struct batch {
	uint64_t number; /* counts batches; 1 is the first */
	int iov_count;
	int iov_sent;
	uint32_t bytes_used;
	struct iovec iov[BATCH_IOVS];
	uint8_t bytes[BATCH_BYTES];
};

enum qpair_phase { QPAIR_IC, QPAIR_RUNNING, QPAIR_LOST };

/* Parameters of qpair_open(). */
struct qpair_params {
	uint32_t depth;
	uint32_t in_capsule_bytes;
	uint32_t r2ts_max;
	uint32_t timeout_ms; /* 0: none */
	uint8_t data_align;  /* HPDA */
	bool header_digest;
	bool data_digest;
};

struct fathom_qpair {
	int fd; /* owned; -1: none */
	uint8_t phase;
	bool polling;
	uint8_t cid_shift; /* a cid: slot index below this bit, use count from it on */
	struct qpair_params params;
	uint32_t maxh2cdata; /* of ICResp */
	struct pdu_terms send_terms;
	struct pdu_decoder decoder;

	struct slot *slots;
	uint16_t *free; /* a stack of indexes */
	uint32_t free_count;
	uint32_t held_count;
	uint32_t ended; /* callbacks during this poll */

	struct pending *pending; /* a ring; mask pending_mask */
	uint32_t pending_mask;
	uint32_t pending_head;
	uint32_t pending_tail;

	struct slot *data_slot; /* the command of the C2HData PDU that is being received */
	uint32_t data_offset;	/* where that PDU's data begins in the command's data */
	uint8_t data_flags;
	uint32_t receive_limit;
	uint32_t window_begin; /* in `receive` */
	uint32_t window_end;

	uint64_t timeout_ticks;
	uint64_t scan_tick;
	struct fathom_fault fault;
	struct batch batch;
	uint8_t receive[RECEIVE_BYTES];
};

struct fathom_controller {
	struct fathom_qpair *admin;
	struct fathom_connect_options options; /* strings below */
	struct fathom_controller_info info;
	char *address;
	char *service;
	uint8_t hostid[FATHOM_HOSTID_BYTES];
	uint16_t next_qid;
	uint64_t cap;
	bool keep_alive_sent;
	uint64_t keep_alive_tick;	/* of the last one */
	uint64_t keep_alive_ticks;	/* from one to the next */
	uint64_t keep_alive_late_ticks; /* an unanswered one counts as lost after this time */
	void *page;			/* NVME_IDENTIFY_BYTES, for admin commands */
};

/* ---- controller.c ---- */

/*
 * Check the program's options as far as that needs no network, and copy them. Fields beyond options->bytes, which an older
 * program does not have, get their defaults. -EINVAL (explained).
 */
MUST_CHECK int controller_take_options(const struct fathom_connect_options *options, struct fathom_fault *why,
				       struct fathom_connect_options *taken_ret);

/* Options, with copies of the strings that they point to. */
struct controller_words {
	struct fathom_connect_options options;
	char *address, *service, *subnqn, *hostnqn;
	uint8_t hostid[FATHOM_HOSTID_BYTES];
};

/* Pair: controller_words_free(), also after an error. -ENOMEM. */
MUST_CHECK int controller_words_copy(const struct fathom_connect_options *options, struct controller_words *words_ret);
void controller_words_free(struct controller_words *words);
/* Choose the host's name and identifier, where the options leave them open. -EIO, -ENOMEM. */
MUST_CHECK int controller_words_fix_host(struct controller_words *words);

/* Choose the interval and the time limit of keep alives so that a silent controller is lost within `keep_alive_ms`. */
void controller_set_keep_alive(struct fathom_controller *controller, uint32_t keep_alive_ms);

/* Identify into controller->page. Errors: as controller_admin(). */
MUST_CHECK int controller_identify(struct fathom_controller *controller, enum nvme_cns cns, uint32_t nsid, const char *what,
				   struct fathom_fault *why);

/* A field of `bytes` bytes, padded with spaces or NULs, as a string; `to` has room for one byte more. */
void controller_trim(char *to, const char *from, size_t bytes);

/* ---- command_wait.c ---- */

enum { CONTROLLER_WAITING_MS = 1000 }; /* a step unanswered for this long is reported to options.waiting */

/* Call options.waiting, if set, with "ADDRESS port SERVICE WHAT". */
void controller_report_waiting(const struct fathom_connect_options *options, const char *what);

/* Wait for ICResp on a connection that was accepted. Errors (explained): the connection's. */
MUST_CHECK int controller_wait_icresp(const struct fathom_controller *controller, struct fathom_qpair *qpair,
				      struct fathom_fault *why);

/* A command of the library's own, and its data. */
struct controller_command {
	struct nvme_command nvme; /* without an identifier and a data pointer, which qpair_submit() fills in */
	void *data;		  /* sent or received, as the opcode says; NULL if data_bytes is 0 */
	size_t data_bytes;
	const char *name; /* in faults: "Identify Controller" */
};

/* Submit `command` and wait. A status other than success is no error here. Errors: the connection's. */
MUST_CHECK int controller_run(const struct fathom_controller *controller, struct fathom_qpair *qpair,
			      struct controller_command *command, struct fathom_fault *why,
			      struct fathom_completion *completion_ret);

/*
 * Submit an admin command and wait; it has to succeed. `result_ret` may be NULL. Errors: the connection's; -ENOENT (no such
 * namespace), -EIO (any other status).
 */
MUST_CHECK int controller_admin(struct fathom_controller *controller, struct controller_command *command,
				struct fathom_fault *why, uint64_t *result_ret);

/* ---- sock.c ---- */

/*
 * A connected, non-blocking socket to the options' address, tuned. Errors: of getaddrinfo and connect; -ETIMEDOUT. The
 * caller owns *fd_ret.
 */
MUST_CHECK int sock_connect(const struct fathom_connect_options *options, struct fathom_fault *why, int *fd_ret);

/* ---- qpair.c ---- */

/*
 * A queue pair on a connected, non-blocking stream socket, which it takes. The first poll sends ICReq.
 * Pair: fathom_qpair_destroy(). Errors: -ENOMEM (the socket is then closed too).
 */
MUST_CHECK int qpair_open(int fd, const struct qpair_params *params, struct fathom_qpair **qpair_ret);

/* As fathom_submit(); `iov_bytes` is the sum. */
MUST_CHECK int qpair_submit(struct fathom_qpair *qpair, struct nvme_command *command, const struct iovec *iov,
			    int iov_count, fathom_done_fn done, void *ctx);

/* The slot of a command that was sent and has not ended, or NULL. */
struct slot *qpair_find(struct fathom_qpair *qpair, uint16_t cid);

/* The command has ended. Call back now, or when no batch borrows its memory any more. */
void qpair_complete(struct fathom_qpair *qpair, struct slot *slot, const struct fathom_completion *completion);

/* All of a batch was sent. Call back for the commands whose memory it borrowed. */
void qpair_release_held(struct fathom_qpair *qpair);

/* End the connection. Only the first reason is kept. The callbacks follow at the end of the poll. */
void qpair_lose(struct fathom_qpair *qpair, int error, const char *format, ...) PRINTF_LIKE(3, 4);

/* ---- send.c ---- */

/* Encode the command into the batch if nothing waits and there is room, else queue it. */
void send_command(struct fathom_qpair *qpair, struct slot *slot, const struct nvme_command *command);

/* Queue an R2T's data. */
void send_r2t(struct fathom_qpair *qpair, const struct pending *r2t);

/* Append a whole PDU (ICReq, TermReq) to the batch. Dropped if the batch is full. */
void send_raw(struct fathom_qpair *qpair, const uint8_t *bytes, size_t bytes_count);

/* Encode what waits and send it, until the socket is full. May lose the connection. */
void send_flush(struct fathom_qpair *qpair);

/* Write to `to` the pieces of `bytes_count` bytes of the slot's data. Returns their number, at most slot->iov_count. */
int slot_slice(const struct slot *slot, uint32_t offset, uint32_t bytes_count, struct iovec *to);

static inline bool send_is_idle(const struct fathom_qpair *qpair)
{
	return qpair->batch.iov_sent == qpair->batch.iov_count && qpair->pending_head == qpair->pending_tail;
}

/* ---- receive.c ---- */

/* Receive and handle PDUs, RECEIVE_ROUNDS_MAX buffers at most. May lose the connection. */
void receive(struct fathom_qpair *qpair);

#endif
