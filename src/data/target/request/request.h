/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * request - one NVMe command on its way through the target, and the queue pair it came on: what a transport and the target
 * share. The target knows no socket; the transport knows no opcode.
 *
 *   transport                                      target
 *   ---------                                      ------
 *   a capsule has come: take a request, fill cmd
 *   nvmf_req_received()  ------------------------> checks, says what data moves and how much
 *   NVMF_TRANSFER_H2C: fetch it into iov (R2T)
 *   NVMF_TRANSFER_C2H: give a buffer in iov
 *   nvmf_req_execute()   ------------------------> runs the command ...
 *   qpair->ops->complete() <---------------------- ... cpl is filled; for C2H, data_bytes of iov are to be sent
 *   nvmf_req_sending()  -------------------------> the response is offered to the socket
 *   send, then nvmf_req_sent()  -----------------> the request is free, or parked
 *                                                 ... its device gives its data back ...
 *   qpair->ops->returned() <---------------------- now it is free
 *
 * A request is *lent* while a device that does not answer holds its I/O and its data, although the command has been
 * answered (its namespace was removed, its connection closed). Until the device returns them it is parked: the transport
 * keeps it and its buffers, and uses neither. All that is done to it in the end is done by the device's completion.
 *
 * A request lives on its queue pair's poll group thread; nothing here takes a lock. Its first part, the story, lies in the
 * trace file.
 */
#ifndef TARGET_REQUEST_REQUEST_H
#define TARGET_REQUEST_REQUEST_H

#include <sys/uio.h>

#include "base/list.h"
#include "data/nvme/command.h"
#include "data/nvme/status.h"
#include "fathom/trace/trace.h"
#include "data/store/bdev/bdev.h"
#include "data/target/request/states.gen.h"

enum {
	NVMF_IO_BYTES_MAX = 8 << 20, /* what max_io_size, and so MDTS, may be */
	NVMF_IO_BYTES_DEFAULT = 131072,
	NVMF_IN_CAPSULE_BYTES_MAX = 65536, /* what in_capsule_data_size may be */
	NVMF_REQ_IOV_MAX = 2,		   /* a transport's buffer has at most two pieces */
	NVMF_QUEUE_ENTRIES_MAX = 1024,	   /* what max_queue_depth, MQES + 1, may be */
	NVMF_QUEUE_ENTRIES_DEFAULT = 128,
	NVMF_ADMIN_QUEUE_ENTRIES_MAX = 256, /* what max_aq_depth may be */
	NVMF_ADDRESS_BYTES_MAX = 64,
	NVMF_NQN_BYTES_MAX = 224, /* with the NUL */
};

static_assert((int)NVMF_ADMIN_QUEUE_ENTRIES_MAX <= (int)NVMF_QUEUE_ENTRIES_MAX, "the longest queue is an I/O queue");
static_assert((int)NVMF_IO_BYTES_MAX <= (int)BDEV_ZEROES_BYTES, "any read fits the zeroes");
static_assert(NVMF_IO_BYTES_MAX % 4096 == 0, "MDTS counts pages");
static_assert((NVMF_IO_BYTES_MAX & (NVMF_IO_BYTES_MAX - 1)) == 0, "and tells a power of two of them");

struct nvmf_req;
struct nvmf_qpair;
struct nvmf_ctrlr;
struct nvmf_poll_group;
struct nvmf_group_subsystem;
struct nvmf_group_ns;

/*
 * Something that a group waits for, but not longer than to a deadline. `expired` is called once, on the group's thread, and
 * then it is disarmed. See data/target/drain.c.
 */
struct nvmf_drain {
	uint64_t deadline_tick; /* 0: not armed */
	void (*expired)(struct nvmf_drain *drain);
	TAILQ_ENTRY(nvmf_drain) link;
};

enum nvmf_transfer { NVMF_TRANSFER_NONE, NVMF_TRANSFER_H2C, NVMF_TRANSFER_C2H, NVMF_TRANSFERS_MAX };

/* What a transport does for its queue pairs. All on the poll group's thread. */
struct nvmf_qpair_ops {
	/* `req` is complete, in state COMPLETED. May be called from inside nvmf_req_execute(). */
	void (*complete)(struct nvmf_req *req, uint64_t now);
	/*
	 * The Connect has been accepted and qpair->queue_entries, qid and the owner's text are set: make room for as many
	 * requests. -ENOMEM refuses the connection. Called before the Connect's own complete().
	 */
	int (*connected)(struct nvmf_qpair *qpair);
	/* Close the connection, soon: keep-alive expired, controller reset, subsystem gone. Idempotent. */
	void (*disconnect)(struct nvmf_qpair *qpair, const char *reason);
	/* A device has returned `req`, which nvmf_req_sent() had parked: it is FREE, with its buffers. */
	void (*returned)(struct nvmf_req *req, uint64_t now);
};

/* Embedded in a transport's connection. Fields up to the line are set by the transport, the others by the target. */
struct nvmf_qpair {
	const struct nvmf_qpair_ops *ops;
	struct nvmf_poll_group *group;
	struct trace_object trace; /* owner: the connection's */
	char peer_address[NVMF_ADDRESS_BYTES_MAX], peer_service[8];
	char local_address[NVMF_ADDRESS_BYTES_MAX], local_service[8];
	/* ---- */
	enum nvmf_qpair_state state;
	struct nvmf_ctrlr *ctrlr; /* NULL until a Connect has been accepted */
	uint16_t qid;
	uint16_t queue_entries; /* SQSIZE + 1; 0 until connected */
	uint16_t sq_head;
	bool flow_control_off;			 /* the host asked to do without SQ flow control */
	uint32_t req_count;			 /* requests that the target holds */
	uint64_t command_count;			 /* since it connected */
	uint64_t data_bytes[NVMF_TRANSFERS_MAX]; /* likewise: moved each way by commands that succeeded */
	struct nvmf_group_subsystem *subsystem;	 /* its group's part of the subsystem; as ctrlr */
	uint32_t io_bytes_max;			 /* MDTS */
	bool write_through; /* the host has switched the write cache off: each write is followed by a flush */
	bool going;	    /* told to disconnect */
	bool error_told;    /* an error is on its way to the controller's log; others meanwhile are only counted */
	uint32_t errors_untold;
	const struct trace_istr
		*end_reason;	   /* why it closes, which the transport says before nvmf_qpair_close(); or NULL */
	void (*closed)(void *ctx); /* see nvmf_qpair_close() */
	void *closed_ctx;
	struct nvmf_drain drain; /* it closes, and devices have commands of it */
	uint32_t parked_count;
	TAILQ_ENTRY(nvmf_qpair) group_link, ctrlr_link;
	TAILQ_HEAD(, nvmf_req) reqs;   /* held by the target: received, not yet sent */
	TAILQ_HEAD(, nvmf_req) parked; /* held by devices: answered, sent, and not yet returned */
};

/* Embedded in a transport's request, whose pool is in the trace file (types NVMF_REQ and BDEV_IO, same ids). */
struct nvmf_req {
	struct trace_story story; /* first */
	struct nvmf_qpair *qpair;
	struct nvme_command cmd;
	struct nvme_completion cpl;
	enum nvmf_transfer transfer;
	bool reads_zeroes;   /* C2H, and the data will be all zeroes: iov may be a shared page of them, never written */
	bool inline_done;    /* H2C: execution ends inside nvmf_req_execute(), so iov may point into the receive buffer */
	uint32_t data_bytes; /* to move; set by nvmf_req_received(), may be made smaller before complete() */
	struct iovec iov[NVMF_REQ_IOV_MAX];
	int iov_count;
	uint64_t received_tick;
	TAILQ_ENTRY(nvmf_req) link;	 /* in qpair->reqs, or qpair->parked */
	TAILQ_ENTRY(nvmf_req) wait_link; /* in the queue that its state names */
	bool lent;			 /* answered, and a device still holds `io` and what iov points to */
	bool counted;			 /* the target's, while it executes, as what follows: a pause waits for it */
	uint8_t stage;			 /* of a command that takes several I/Os */
	uint16_t range_index;		 /* likewise */
	uint64_t range_blocks;		 /* of the ranges before range_index */
	void *target_ctx;
	void *kept_data;	      /* H2C data that had to outlive the receive buffer; freed when it completes */
	struct nvmf_group_ns *ns;     /* whose device has it; NULL: none has */
	struct bdev_channel *channel; /* of its namespace */
	struct bdev_io io;
};

/*
 * `qpair`, filled to the line, joins `group`; on its thread. Pair: nvmf_qpair_close().
 */
void nvmf_qpair_open(struct nvmf_qpair *qpair, struct nvmf_poll_group *group);

/*
 * The connection is gone or going: nothing more is received on it. Requests that wait are completed at once with an abort
 * status, those at a backend when they end, or at the end of the target's patience; complete() is called for each as ever
 * (the transport sends nothing and calls nvmf_req_sent()). Then the queue pair leaves its controller. When besides no
 * device holds a request, `closed(ctx)` is called, on this thread, never from inside nvmf_qpair_close(); then the memory is
 * the transport's again.
 */
void nvmf_qpair_close(struct nvmf_qpair *qpair, void (*closed)(void *ctx), void *ctx);

/*
 * req->cmd has been filled from a capsule at `now`; req->qpair is set. Moves it FREE -> RECEIVED and decides what data
 * moves: sets transfer, data_bytes, reads_zeroes, inline_done. `capsule_bytes` of data came in the capsule.
 * Returns NVME_SC_SUCCESS, or the status that the command ends with: pass it to nvmf_req_fail() and it is completed.
 */
MUST_CHECK enum nvme_status nvmf_req_received(struct nvmf_req *req, uint32_t capsule_bytes, uint64_t now);

/* Run it at `now`: data, if H2C, is in iov; room, if C2H, is in iov. State RECEIVED, WAIT_BUFFER or TRANSFER_IN. */
void nvmf_req_execute(struct nvmf_req *req, uint64_t now);

/* Complete it with `status` without running it. */
void nvmf_req_fail(struct nvmf_req *req, enum nvme_status status, uint64_t now);

/* NQN of the host that `qpair` belongs to; "" before its Connect. Good as long as its requests are. On its thread. */
const char *nvmf_qpair_host_nqn(const struct nvmf_qpair *qpair);

/* The block device that `req`, which has been received, goes to; NULL: none, an admin command. On its thread. */
const struct bdev *nvmf_req_bdev(const struct nvmf_req *req);

/* The response is offered to the socket at `now`, or waits because the socket takes nothing: COMPLETED -> SENDING. */
void nvmf_req_sending(struct nvmf_req *req, uint64_t now);

/* Whether the target is done with `req`, and only the transport holds it. */
static inline bool nvmf_req_is_answered(const struct nvmf_req *req)
{
	return req->story.state == NVMF_REQ_COMPLETED || req->story.state == NVMF_REQ_SENDING;
}

/*
 * The response has left (or never will): COMPLETED or SENDING -> FREE at `now`. False: a device still holds its data, and
 * it is PARKED; the transport leaves it and its buffers alone until ops->returned().
 */
MUST_CHECK bool nvmf_req_sent(struct nvmf_req *req, uint64_t now);

#endif
