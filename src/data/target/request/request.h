/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * request - one NVMe command in the target, and its queue pair: the interface between a transport and the target. The
 * target uses no sockets; the transport knows no opcodes.
 *
 *   transport                                      target
 *   ---------                                      ------
 *   a capsule arrives: allocate a request, fill cmd
 *   nvmf_req_received()  ------------------------> checks it; sets direction and length of the data
 *   NVMF_TRANSFER_H2C: receive the data into iov (R2T)
 *   NVMF_TRANSFER_C2H: provide a buffer in iov
 *   nvmf_req_execute()   ------------------------> runs the command ...
 *   qpair->ops->complete() <---------------------- ... cpl is filled; for C2H, data_bytes of iov are to be sent
 *   nvmf_req_sending()  -------------------------> the response is offered to the socket
 *   send, then nvmf_req_sent()  -----------------> the request is free, or parked
 *                                                 ... the device returns the data of a parked request ...
 *   qpair->ops->returned() <---------------------- now it is free
 *
 * A request is *lent* while a device that does not answer holds its I/O and its data, although the command has been
 * answered (its namespace was removed, its connection closed). Until the device returns them the request is parked: the
 * transport must neither use nor free it and its buffers. Only the device's completion ends this.
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
	NVMF_IO_BYTES_MAX = 8 << 20, /* largest max_io_size, and so the largest MDTS */
	NVMF_IO_BYTES_DEFAULT = 131072,
	NVMF_IN_CAPSULE_BYTES_MAX = 65536, /* largest in_capsule_data_size */
	NVMF_REQ_IOV_MAX = 2,		   /* a transport's buffer has at most two pieces */
	NVMF_QUEUE_ENTRIES_MAX = 1024,	   /* largest max_queue_depth, which is MQES + 1 */
	NVMF_QUEUE_ENTRIES_DEFAULT = 128,
	NVMF_ADMIN_QUEUE_ENTRIES_MAX = 256, /* largest max_aq_depth */
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
struct nvmf_account;

/*
 * A wait of a poll group with a deadline. At the deadline the drain is disarmed and `expired` is called, once, on the
 * group's thread. See data/target/drain.c.
 */
struct nvmf_drain {
	uint64_t deadline_tick; /* 0: not armed */
	void (*expired)(struct nvmf_drain *drain);
	TAILQ_ENTRY(nvmf_drain) link;
};

enum nvmf_transfer { NVMF_TRANSFER_NONE, NVMF_TRANSFER_H2C, NVMF_TRANSFER_C2H, NVMF_TRANSFERS_MAX };

/* Operations of a transport on its queue pairs. All are called on the poll group's thread. */
struct nvmf_qpair_ops {
	/* `req` is complete, in state COMPLETED: send its response. May be called from inside nvmf_req_execute(). */
	void (*complete)(struct nvmf_req *req, uint64_t now);
	/*
	 * The Connect was accepted; qpair->queue_entries, qid and the owner's text are set. Allow that many requests.
	 * -ENOMEM rejects the Connect. Called before the Connect's own complete().
	 */
	int (*connected)(struct nvmf_qpair *qpair);
	/* Close the connection, soon: keep-alive expired, controller reset, subsystem gone. Idempotent. */
	void (*disconnect)(struct nvmf_qpair *qpair, const char *reason);
	/* The device returned `req`, which nvmf_req_sent() had parked. It is FREE, and its buffers can be reused. */
	void (*returned)(struct nvmf_req *req, uint64_t now);
};

/*
 * The time of a queue's commands, from the arrival of the capsule to the result: it includes the wait for a buffer, the
 * data that the host sends, and the device, but not the sending of the response.
 */
enum nvmf_timed { NVMF_TIMED_OTHER, NVMF_TIMED_WRITE, NVMF_TIMED_READ, NVMF_TIMED_MAX }; /* by opcode of an I/O queue */

struct nvmf_time {
	uint64_t ops, ticks;
};

/* Embedded in a transport's connection. The transport sets the fields above the line, the target those below. */
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
	bool flow_control_off;			 /* the host disabled SQ flow control in Connect */
	uint32_t req_count;			 /* requests held by the target */
	uint64_t command_count;			 /* since it connected */
	uint64_t data_bytes[NVMF_TRANSFERS_MAX]; /* likewise: moved each way by commands that succeeded */
	struct nvmf_time times[NVMF_TIMED_MAX];	 /* likewise, of commands that succeeded */
	struct nvmf_group_subsystem *subsystem;	 /* its group's part of the subsystem; NULL like ctrlr */
	struct nvmf_account *account;		 /* of its host in the subsystem; NULL: none (accounts.c) */
	uint32_t io_bytes_max;			 /* MDTS */
	bool write_through;			 /* the host disabled the write cache: a flush follows each write */
	bool going;				 /* ops->disconnect() was called */
	bool error_told; /* a message with an error is on its way to the controller; further errors are only counted */
	uint32_t errors_untold;
	const struct trace_istr *end_reason; /* why it closes; set by the transport before nvmf_qpair_close(), or NULL */
	void (*closed)(void *ctx);	     /* see nvmf_qpair_close() */
	void *closed_ctx;
	struct nvmf_drain drain; /* armed while it closes and devices hold its commands */
	uint32_t parked_count;
	TAILQ_ENTRY(nvmf_qpair) group_link, ctrlr_link;
	TAILQ_HEAD(, nvmf_req) reqs;   /* held by the target: received, not yet sent */
	TAILQ_HEAD(, nvmf_req) parked; /* held by devices: answered, sent, not yet returned */
};

/* Embedded in a transport's request. The request pool lies in the trace file (types NVMF_REQ and BDEV_IO, same ids). */
struct nvmf_req {
	struct trace_story story; /* first */
	struct nvmf_qpair *qpair;
	struct nvme_command cmd;
	struct nvme_completion cpl;
	enum nvmf_transfer transfer;
	bool reads_zeroes;   /* C2H, all data will be zeroes: iov may be a shared page of zeroes, which is never written */
	bool inline_done;    /* H2C, the device is done inside nvmf_req_execute(): iov may point into the receive buffer */
	uint32_t data_bytes; /* to transfer; set by nvmf_req_received(), may shrink before complete() */
	struct iovec iov[NVMF_REQ_IOV_MAX];
	int iov_count;
	uint64_t received_tick;
	TAILQ_ENTRY(nvmf_req) link;	 /* in qpair->reqs, or qpair->parked */
	TAILQ_ENTRY(nvmf_req) wait_link; /* in part->waiting, state WAIT_SUBSYSTEM */
	bool lent;			 /* answered, and a device still holds `io` and the memory of iov */
	bool counted;			 /* a pause waits for it; this and the next fields are valid while it executes */
	uint8_t stage;			 /* of a command that needs several I/Os */
	uint16_t range_index;		 /* next range of Dataset Management */
	uint64_t range_blocks;		 /* of the ranges before range_index */
	void *target_ctx;
	void *kept_data;	      /* copy of H2C data that must outlive the receive buffer; freed on completion */
	struct nvmf_group_ns *ns;     /* namespace whose device holds it; NULL: none does */
	struct bdev_channel *channel; /* of its namespace */
	struct bdev_io io;
};

/* Add `qpair`, with the transport's fields set, to `group`. On the group's thread. Pair: nvmf_qpair_close(). */
void nvmf_qpair_open(struct nvmf_qpair *qpair, struct nvmf_poll_group *group);

/*
 * Close `qpair`; the transport must receive nothing more on it. Waiting requests are completed at once with an abort
 * status, those at a device when they end or when the drain expires. complete() is called for each (the transport sends
 * nothing and calls nvmf_req_sent()). Then the queue pair leaves its controller. When no device holds a request any more,
 * `closed(ctx)` is called on this thread, never from inside nvmf_qpair_close(). From then on the target does not use
 * `qpair`.
 */
void nvmf_qpair_close(struct nvmf_qpair *qpair, void (*closed)(void *ctx), void *ctx);

/*
 * Check a new command: req->cmd was filled from a capsule at `now`, req->qpair is set. Moves it FREE -> RECEIVED and sets
 * transfer, data_bytes, reads_zeroes and inline_done. `capsule_bytes` is the size of the in-capsule data. Returns
 * NVME_SC_SUCCESS, or an error status, which the caller must pass to nvmf_req_fail().
 */
MUST_CHECK enum nvme_status nvmf_req_received(struct nvmf_req *req, uint32_t capsule_bytes, uint64_t now);

/* Run it at `now`. iov holds the data (H2C) or the buffer (C2H). State RECEIVED, WAIT_BUFFER or TRANSFER_IN. */
void nvmf_req_execute(struct nvmf_req *req, uint64_t now);

/* Complete it with `status` without running it. */
void nvmf_req_fail(struct nvmf_req *req, enum nvme_status status, uint64_t now);

/* NQN of the host of `qpair`; "" before its Connect. Valid as long as the qpair has requests. On its thread. */
const char *nvmf_qpair_host_nqn(const struct nvmf_qpair *qpair);

/* The block device for `req` after nvmf_req_received(); NULL: none, as for admin commands. On its thread. */
const struct bdev *nvmf_req_bdev(const struct nvmf_req *req);

/* The response is offered to the socket at `now`, or waits because the send buffer is full: COMPLETED -> SENDING. */
void nvmf_req_sending(struct nvmf_req *req, uint64_t now);

/* Whether the target has completed `req`, so that it waits only for the transport. */
static inline bool nvmf_req_is_answered(const struct nvmf_req *req)
{
	return req->story.state == NVMF_REQ_COMPLETED || req->story.state == NVMF_REQ_SENDING;
}

/*
 * The response was sent (or never will be): COMPLETED or SENDING -> FREE at `now`. False: a device still holds its data,
 * and it is PARKED; the transport must not use it or its buffers until ops->returned().
 */
MUST_CHECK bool nvmf_req_sent(struct nvmf_req *req, uint64_t now);

#endif
