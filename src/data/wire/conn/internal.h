/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * internal - a connection, its requests, and what the connections of a poll group share.
 *
 *   conn.c     life: accept, negotiate, terminate, close          receive.c  bytes in: PDUs to requests
 *   send.c     bytes out: R2Ts, data, responses                   group.c    polling, receive buffer
 *   lend.c     data buffers: lent, waited for, returned           share.c    limits per host and device; pure
 *   memory.c   their memory                                       transport.c  the target's transport interface
 *   request.c  requests of a group, tags and slots of a connection
 *   admission.c  limits on the number of connections
 *   send_sample.c  how long bytes stay in the kernel's send buffer
 *   kernel_info.c  what the kernel counts for a connection: time with a closed window, lost packets
 *
 * A free request belongs to the group; from its capsule to its response it belongs to a connection. The connection gives it
 * a tag, which is the TTAG of its R2T and the number of its slot. An idle connection has no requests, and memory only for
 * recently used slots: memory use follows the commands in flight, not the queue depths.
 *
 * Location of a request's data. Up to slot_bytes: in the slot of its tag, in the connection's own pages. More: in a buffer
 * of the group, for which the request may have to wait. A read of zeroes sends a shared page of zeroes. A write that lies
 * whole in the receive buffer, and whose device consumes it at once, uses the receive buffer.
 *
 * A write is granted its buffer bytes before the R2T is sent. So the stream never waits for memory, and connections cannot
 * deadlock by holding buffers. The buffer itself is chosen when the data arrive: the one returned last, which is in the
 * cache.
 */
#ifndef WIRE_CONN_INTERNAL_H
#define WIRE_CONN_INTERNAL_H

#include "base/list.h"
#include "data/target/request/request.h"
#include "data/target/target.h"
#include "data/wire/conn/memory.h"
#include "data/wire/conn/share.h"
#include "data/wire/conn/states.gen.h"
#include "data/wire/pdu/pdu.h"
#include "data/wire/sock/sock.h"

enum {
	TCP_RECEIVE_BYTES = 256 * 1024, /* window: bytes received from a socket at a time */
	/* window while large data that need their own buffer are expected: data received into the window are copied */
	TCP_RECEIVE_SHORT_BYTES = 4096,
	/* window while the expected data are used in the receive buffer: one PDU and a little of the next */
	TCP_RECEIVE_PDU_BYTES = 128 * 1024 + 4096,
	TCP_CARRY_BYTES = PDU_WINDOW_BYTES_MIN,
	TCP_SLOT_BYTES_MIN = 8192, /* per tag; larger if the transport allows more in-capsule data */
	TCP_FAIR_BYTES = 32 << 20, /* of a group's data buffers, for all its hosts together: see share.h */
	TCP_FAIR_REQS_MIN = 8,	   /* the fair bytes hold at least this many requests of the largest size */
	TCP_PARKED_MAX = 256,	   /* parked requests of a connection; with more it is closed */
	TCP_TAGS_MAX = NVMF_QUEUE_ENTRIES_MAX + 1 + TCP_PARKED_MAX, /* 1: the Connect may still be under way */
	TCP_REQS_OF_CHUNK = 64,					    /* requests are allocated in chunks of this size */
	TCP_H2C_BYTES_MAX = 131072, /* MAXH2CDATA: of one PDU; a transfer may have several */
	TCP_CONTROL_BYTES = PDU_PUT_BYTES_MAX + PDU_TERM_REQ_BYTES_MAX, /* ICResp, TermReq */
	TCP_HEADER_BYTES = PDU_PUT_BYTES_MAX,				/* of C2HData, padded */
	TCP_RESPONSE_BYTES = sizeof(struct nvme_tcp_capsule_resp) + PDU_DIGEST_BYTES,
	TCP_R2T_BYTES = sizeof(struct nvme_tcp_r2t) + PDU_DIGEST_BYTES,
	TCP_BATCH_MAX = 250,		    /* responses sent at a time */
	TCP_BATCH_BYTES = 2 * 1024 * 1024,  /* data sent at a time; the request that reaches it is included */
	TCP_BATCH_MIXED_BYTES = 256 * 1024, /* the same while other commands are in flight, whose responses would wait */
	TCP_SEND_IOV_MAX = 3 + 4 * TCP_BATCH_MAX,
	TCP_ADMIN_IN_CAPSULE_BYTES = 8192,
	TCP_SEND_SAMPLE_CHECK_NS = 100000,
};
static_assert(TCP_SEND_IOV_MAX < 1024, "IOV_MAX");
static_assert((int)TCP_SLOT_BYTES_MIN >= (int)TCP_ADMIN_IN_CAPSULE_BYTES, "in-capsule data has a place");
static_assert((int)TCP_TAGS_MAX <= UINT16_MAX, "a TTAG has 16 bits");

/* kernel_info.c: the counters at the beginning of a wait. They wrap around; only differences count. */
struct tcp_mark {
	uint64_t tick; /* 0: none */
	uint32_t busy_us, closed_us, recovery_us, lost;
};

/* kernel_info.c */
struct tcp_kernel_info {
	struct sock_info info;	  /* as read at `tick` */
	uint64_t way_us;	  /* of info.window_closed_us: while bytes were on their way */
	uint64_t tick;		  /* 0: never read */
	struct tcp_mark recorded; /* at the latest tcp_info record */
	uint64_t send_position;	  /* at the latest sample */
	uint32_t quiet_seconds;
};

struct tcp_req {
	struct nvmf_req req;   /* first */
	struct tcp_conn *conn; /* owner; NULL: free */
	struct tcp_chunk *chunk;
	uint8_t *slot;	     /* memory of its tag, the group's slot_bytes */
	uint8_t *lent;	     /* a buffer of the group's; NULL: none, or not chosen yet */
	uint32_t lent_bytes; /* size of that buffer, granted or waited for */
	struct share *share; /* accounts for the buffer; NULL unless the request holds a buffer or waits for one */
	uint16_t ttag;	     /* its tag on the connection */
	bool waiting;	     /* in its share's queue for a buffer */
	bool digest_bad;     /* a PDU of its data had a wrong digest */
	uint32_t h2c_bytes;  /* bytes of data_bytes received so far */
	uint64_t send_end;   /* position in the connection's stream where its response ends */
	uint32_t data_digest;
	STAILQ_ENTRY(tcp_req) link;	  /* free, done, sending, r2t; a share's waiting */
	struct tcp_mark mark;		  /* when it began to wait for its data, or for room in the socket */
	uint8_t header[TCP_HEADER_BYTES]; /* of C2HData */
};

/* send_sample.c */
struct tcp_send_sample {
	struct trace_story story;
	uint64_t position;    /* in the stream: the sample ends when the kernel has sent up to here */
	uint64_t due;	      /* tick from which the next sample may start */
	uint64_t due_blocked; /* likewise after a short send */
	uint64_t check;	      /* tick before which the sample need not be checked again */
	TAILQ_ENTRY(tcp_conn) link;
};

/* A used tag holds its request. A free tag holds 2 * (next free tag) + 1, so bit 0 distinguishes them. */
union tcp_tag {
	struct tcp_req *treq;
	uintptr_t next;
};
static_assert(_Alignof(struct tcp_req) > 1, "bit 0 tells them apart");

struct tcp_conn {
	struct nvmf_qpair qpair;
	enum tcp_conn_state state;
	struct tcp_group *group;
	struct sock *sock;		   /* NULL: closed */
	TAILQ_ENTRY(tcp_conn) link;	   /* in group->conns */
	TAILQ_ENTRY(tcp_conn) flush_link;  /* in group->flush: has output */
	TAILQ_ENTRY(tcp_conn) active_link; /* in group->active: polled by receive() */
	bool in_flush, active, closed_by_target, close_after_send;
	uint64_t active_until; /* tick */
	uint64_t deadline;     /* tick by which the host must have sent a Connect, or have closed; 0: none */

	/* receiving */
	struct pdu_decoder decoder;
	uint8_t carry[TCP_CARRY_BYTES];
	uint32_t carry_bytes;
	struct tcp_req *current;	    /* the request whose data arrive now; NULL: the data are dropped */
	uint8_t *current_at;		    /* buffer for these data; NULL: not chosen yet, data are still in the window */
	uint32_t asked_whole, asked_pieces; /* R2Ts of large writes with data outstanding: comes_whole(), or not */

	/* tags; address space for the longest queue, touched only as far as it is used */
	uint8_t *region; /* slots, then tags, responses, r2ts */
	union tcp_tag *tags;
	uint16_t tag_free;  /* free tag that was used last; TAG_NONE */
	uint16_t tag_next;  /* lowest tag never used */
	uint16_t tag_count; /* tags the queue may use, without those of parked requests */
	uint16_t tags_used; /* in use now, including those of parked requests */
	uint16_t parked_count;
	uint8_t idle_rounds;

	struct share_list shares; /* one for each device for which it recently used large buffers */

	/* sending: `done` are completed requests, `sending` those offered to the socket */
	struct pdu_terms send_terms;
	bool c2h_success;
	struct tcp_req_queue done, sending, r2t;
	uint32_t done_count;
	uint8_t control
		[TCP_CONTROL_BYTES]; /* the ICResp, then a TermReq; each at most once, so bytes are never overwritten */
	uint32_t control_at, control_bytes; /* part of it still to be sent */
	uint8_t *responses, *r2ts;	    /* room for one per tag */
	uint64_t send_position, send_end;   /* stream position: bytes accepted by the socket; send_end is unused */
	struct iovec *left;		    /* rest of a short send: at left_first of left_count */
	uint32_t left_first, left_count;
	const struct trace_istr *close_reason;
	bool overrun;	       /* the host sent more commands than the queue has entries */
	struct tcp_peer *peer; /* the control thread's: lent until the connection is freed */
	struct tcp_send_sample sample;
	struct tcp_kernel_info kernel;
};

/* TCP_REQS_OF_CHUNK requests in one trace pool. */
struct tcp_chunk {
	struct tcp_req *reqs;
	struct tcp_req_queue free;
	uint32_t used_count;
	TAILQ_ENTRY(tcp_chunk) link, free_link;
};
TAILQ_HEAD(tcp_chunk_list, tcp_chunk);

struct tcp_group {
	struct nvmf_poll_group *poll_group;
	struct poller *poller, *janitor;
	TAILQ_HEAD(, tcp_conn) conns, flush, active, sampled;
	struct poller *sampler; /* paused while `sampled` is empty */
	uint32_t active_count;
	uint8_t *receive;		    /* TCP_CARRY_BYTES in front, then TCP_RECEIVE_BYTES */
	const struct trace_istr *no_device; /* device name in the share of admin commands */
	struct memory memory;		    /* data buffers */
	struct share_pool pool;
	struct share_list waiting; /* shares with waiting requests; the one served last is last */
	bool scarce;		   /* a request waits because of the reserve, not because its own share is full */
	bool serving;		   /* serve_waiting() is on the stack: it must not recurse */
	bool serve_all;		   /* a buffer was returned meanwhile: serve all shares */
	void *zeroes;		   /* bdev_zeroes() */
	struct iovec iov[TCP_SEND_IOV_MAX];
	struct tcp_chunk_list chunks, chunks_free; /* all; those with a free request, allocated from the first */
	uint32_t chunk_count;
	uint32_t index;
	uint32_t in_capsule_bytes, slot_bytes;
	uint32_t tags_max; /* of a connection's region */
	bool c2h_success;
	void (*destroyed)(void *ctx); /* if set, the group is freed when it has no connections */
	void *destroyed_ctx;
};

/* conn.c */
void tcp_conn_fail(struct tcp_conn *conn, const char *reason);
void tcp_conn_terminate(struct tcp_conn *conn, enum nvme_tcp_fes fes, uint32_t fei, const uint8_t *header,
			size_t header_bytes, uint64_t now);
int tcp_conn_negotiate(struct tcp_conn *conn, const struct nvme_tcp_icreq *icreq, uint64_t now);
void tcp_conn_check_deadline(struct tcp_conn *conn, uint64_t now);
/* Connections are scarce: close this one if it has sent no Connect for HURRIED_TIMEOUT_MS. */
void tcp_conn_hurry(struct tcp_conn *conn, uint64_t now);
/* Whether it has held a buffer for DATA_TIMEOUT_MS because its host does not send, or does not read, the data. */
bool tcp_conn_hoards(const struct tcp_conn *conn, uint64_t now);
struct tcp_req *tcp_reqs_create(struct tcp_conn *conn, uint32_t count, uint16_t first_ttag, uint8_t *slots);
extern const struct nvmf_qpair_ops tcp_qpair_ops;

/* receive.c */
/* Receive once and process all PDUs received. True: bytes arrived, or the connection ended. */
bool tcp_conn_receive(struct tcp_conn *conn);
/* `req`, which waited for a buffer, was granted one: continue it. */
void tcp_req_got_buffer(struct tcp_req *req, uint64_t now);

/* send.c */
void tcp_conn_want_flush(struct tcp_conn *conn);
void tcp_conn_flush(struct tcp_conn *conn);
void tcp_req_release(struct tcp_req *req, uint64_t now); /* its response was sent, or will never be */
void tcp_req_free(struct tcp_req *req, uint64_t now);	 /* no device holds its data */

/* request.c */
/* Reserve address space for a connection's tags; one is usable until tcp_conn_allow_tags(). -ENOMEM. Pair: free. */
MUST_CHECK int tcp_conn_create_tags(struct tcp_conn *conn);
void tcp_conn_free_tags(struct tcp_conn *conn);
/* Allow up to `count` requests at a time, not fewer than before. */
void tcp_conn_allow_tags(struct tcp_conn *conn, uint32_t count);
/* Called once a second: return the pages of a connection that has been idle for some seconds. */
void tcp_conn_trim(struct tcp_conn *conn);
/* A free request, with a tag of `conn`. NULL: the connection has all requests it may have. Pair: put. */
struct tcp_req *tcp_req_get(struct tcp_conn *conn);
void tcp_req_put(struct tcp_req *req);
/*
 * Its response was sent, and a device still holds its data. It keeps its tag, and the connection may use one more tag. With
 * more than TCP_PARKED_MAX of them the connection is closed.
 */
void tcp_req_parked(struct tcp_req *req, uint64_t now) COLD;
/* The device has returned a parked request: free it. */
void tcp_req_returned(struct nvmf_req *req, uint64_t now);
/* The request of `ttag`, any value a host may send. NULL: none. */
struct tcp_req *tcp_req_find(const struct tcp_conn *conn, uint16_t ttag);
/* Called once a second: free an unused chunk of requests. */
void tcp_group_trim_requests(struct tcp_group *group);
void tcp_group_free_requests(struct tcp_group *group);

/* send_sample.c */
void tcp_send_sample_init(struct tcp_conn *conn);
/* Start a sample after a send at `now`, when one was due. */
void tcp_send_sample_begin(struct tcp_conn *conn, uint64_t now);
/* End an open sample: the kernel has sent the bytes, or the connection closes. */
void tcp_send_sample_end(struct tcp_conn *conn, uint64_t now);
/* Poller, runs every TCP_SEND_SAMPLE_CHECK_NS while samples of the group are open. */
int tcp_send_samples_check(void *group);

/* kernel_info.c */
/* `req` begins to wait for its data or for room in the socket; or it waits already. */
void tcp_kernel_info_begin(struct tcp_req *req, uint64_t now);
/* Its wait, which is its present state, ends: record tcp_waited, if it was long. */
void tcp_kernel_info_waited(struct tcp_req *req, uint64_t now);
/* Called once a second: record tcp_info, if something changed. */
void tcp_kernel_info_sample(struct tcp_conn *conn, uint64_t now);

/* transport.c */
struct tcp_group *tcp_group_of(struct nvmf_poll_group *poll_group);
/* Log a protocol error of the host, by a message to the control thread. */
void tcp_transport_log_breach(const struct tcp_conn *conn, enum nvme_tcp_fes fes);
/* Control thread: a connection of `peer` has been freed. */
void tcp_transport_peer_left(void *peer);

/* group.c */
/* NULL: out of memory. */
void *tcp_group_create(struct nvmf_poll_group *poll_group, const struct nvmf_transport_options *options);
/* Close its connections. When the last is freed, the group is freed and `done(ctx)` is called. */
void tcp_group_destroy_when_empty(struct tcp_group *group, void (*done)(void *ctx), void *ctx);
void tcp_group_add(struct tcp_group *group, struct tcp_conn *conn);
void tcp_group_remove(struct tcp_group *group, struct tcp_conn *conn);
/* Call tcp_conn_hurry() for the connections from `address`; "": all. */
void tcp_group_hurry(struct tcp_group *group, const char *address, uint64_t now);
void tcp_group_activate(struct tcp_group *group, struct tcp_conn *conn, uint64_t now);

/* lend.c */
/* True: `req` was granted a buffer. False: it waits, and tcp_req_got_buffer() follows. Pair: tcp_req_give_back(). */
bool tcp_req_borrow(struct tcp_req *req, uint64_t now);
/* Choose the granted buffer and store it in req->lent. */
void tcp_req_choose_buffer(struct tcp_req *req);
/* Remove a waiting request from its share's queue. */
void tcp_req_stop_waiting(struct tcp_req *req);
/* Return its buffer, if it has one, and grant it to waiting requests, which continue from inside this call. */
void tcp_req_give_back(struct tcp_req *req, uint64_t now);
/* Drop the shares of a connection without requests. */
void tcp_conn_drop_shares(struct tcp_conn *conn, uint64_t now);
/* Called once a second: drop idle shares. */
void tcp_group_tidy_shares(struct tcp_group *group, uint64_t now);
/* The transport's group_buffers operation, see target.h. */
void tcp_group_buffers(const struct tcp_group *group, struct nvmf_buffer_stats *stats_ret, nvmf_buffer_user_fn fn,
		       void *ctx);

#endif
