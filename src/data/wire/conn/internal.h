/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * internal - a connection, its requests, and what the connections of a poll group share.
 *
 *   conn.c     life: accept, negotiate, terminate, close          receive.c  bytes in: PDUs to requests
 *   send.c     bytes out: R2Ts, data, responses                   group.c    polling, receive buffer
 *   lend.c     data buffers: lent, waited for, given back         share.c    who may hold how many; pure
 *   memory.c   where they lie                                     transport.c  what the target asks of a transport
 *   request.c  requests of a group, tags and slots of a connection
 *   admission.c  how many connections there may be
 *   send_sample.c  how long bytes stay in the kernel's send buffer
 *
 * A request is the group's while it is free, and a connection's from its capsule to its response. The connection gives it a
 * tag: the TTAG of an R2T, and the number of its slot. So an idle connection has no request, and of its slots only pages
 * that were used lately: memory follows what is under way, not the queues' depths.
 *
 * Where the data of a request lies: up to slot_bytes in the slot of its tag, pages of the connection's; more in
 * one of the group's buffers, for which it may have to wait; nowhere if they are read as zeroes (zeroes are sent) or
 * if they lie whole in the receive buffer and the device takes them at once (then the receive buffer is pointed at).
 * A write counts as holding a buffer before its host is asked for the data. So the stream itself never waits for memory,
 * and no two connections can block each other by holding it back. Which buffer it is, is chosen when the data come: the
 * one that was given back last, which is in the cache.
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
	TCP_RECEIVE_BYTES = 256 * 1024, /* taken from a socket at a time */
	/* the same while large data are to come that need a place of their own: the more, the more would be copied twice */
	TCP_RECEIVE_SHORT_BYTES = 4096,
	/* or that are used where they were received: one PDU, and few bytes of the next */
	TCP_RECEIVE_PDU_BYTES = 128 * 1024 + 4096,
	TCP_CARRY_BYTES = PDU_WINDOW_BYTES_MIN,
	TCP_SLOT_BYTES_MIN = 8192, /* of a connection's tag; more if in-capsule data may be */
	TCP_FAIR_BYTES = 32 << 20, /* of a group's data buffers, for all its hosts together: see share.h */
	TCP_FAIR_REQS_MIN = 8,	   /* at least so many of the largest requests */
	TCP_PARKED_MAX = 256,	   /* of a connection; one with more is closed */
	TCP_TAGS_MAX = NVMF_QUEUE_ENTRIES_MAX + 1 + TCP_PARKED_MAX, /* 1: the Connect may still be under way */
	TCP_REQS_OF_CHUNK = 64,					    /* requests come to a group so many at a time */
	TCP_H2C_BYTES_MAX = 131072,				    /* MAXH2CDATA: of one PDU; a transfer may have many */
	TCP_CONTROL_BYTES = PDU_PUT_BYTES_MAX + PDU_TERM_REQ_BYTES_MAX, /* ICResp, TermReq */
	TCP_HEADER_BYTES = PDU_PUT_BYTES_MAX,				/* of C2HData, padded */
	TCP_RESPONSE_BYTES = sizeof(struct nvme_tcp_capsule_resp) + PDU_DIGEST_BYTES,
	TCP_R2T_BYTES = sizeof(struct nvme_tcp_r2t) + PDU_DIGEST_BYTES,
	TCP_BATCH_MAX = 250,		    /* responses sent at a time */
	TCP_BATCH_BYTES = 2 * 1024 * 1024,  /* of data sent at a time, and the request that reaches it */
	TCP_BATCH_MIXED_BYTES = 256 * 1024, /* the same while other commands are under way, whose answers would wait */
	TCP_SEND_IOV_MAX = 3 + 4 * TCP_BATCH_MAX,
	TCP_ADMIN_IN_CAPSULE_BYTES = 8192,
	TCP_SEND_SAMPLE_CHECK_NS = 100000,
};
static_assert(TCP_SEND_IOV_MAX < 1024, "IOV_MAX");
static_assert((int)TCP_SLOT_BYTES_MIN >= (int)TCP_ADMIN_IN_CAPSULE_BYTES, "in-capsule data has a place");
static_assert((int)TCP_TAGS_MAX <= UINT16_MAX, "a TTAG has 16 bits");

struct tcp_req {
	struct nvmf_req req;   /* first */
	struct tcp_conn *conn; /* whose it is; NULL: free */
	struct tcp_chunk *chunk;
	uint8_t *slot;	     /* of its tag: slot_bytes of its group */
	uint8_t *lent;	     /* a buffer of the group's, or NULL: none, or not chosen yet */
	uint32_t lent_bytes; /* its size; while it waits, the size that it waits for */
	struct share *share; /* that it counts against, while it holds a buffer or waits for one */
	uint16_t ttag;	     /* its tag on the connection */
	bool waiting;	     /* in its share's queue for a buffer */
	bool digest_bad;     /* data of it came with a wrong digest */
	uint32_t h2c_bytes;  /* received of data_bytes */
	uint64_t send_end;   /* position in the connection's stream where its response ends */
	uint32_t data_digest;
	STAILQ_ENTRY(tcp_req) link;	  /* free, done, sending, r2t; a share's waiting */
	uint8_t header[TCP_HEADER_BYTES]; /* of C2HData */
};

/* send_sample.c */
struct tcp_send_sample {
	struct trace_story story;
	uint64_t position;    /* of the stream: the sample ends when the kernel has sent so far */
	uint64_t due;	      /* tick at which the next one may begin */
	uint64_t due_blocked; /* likewise if the socket took less than it was offered */
	uint64_t check;	      /* tick before which looking again is too early */
	TAILQ_ENTRY(tcp_conn) link;
};

/* A tag in use has its request. One that is not has twice the next free one and one. */
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
	TAILQ_ENTRY(tcp_conn) link;	   /* of the group's connections */
	TAILQ_ENTRY(tcp_conn) flush_link;  /* of those with something to send */
	TAILQ_ENTRY(tcp_conn) active_link; /* of those that are asked for bytes */
	bool in_flush, active, closed_by_target, close_after_send;
	uint64_t active_until; /* tick */
	uint64_t deadline;     /* tick by which it must have connected, or have gone; 0: none */

	/* receiving */
	struct pdu_decoder decoder;
	uint8_t carry[TCP_CARRY_BYTES];
	uint32_t carry_bytes;
	struct tcp_req *current;	    /* whose data come now; NULL: they are dropped */
	uint8_t *current_at;		    /* where they go; NULL: nowhere yet (still in the window) */
	uint32_t asked_whole, asked_pieces; /* R2Ts of large writes whose data are to come: comes_whole(), or not */

	/* tags; address space for as many as any queue may have, touched as far as they are used */
	uint8_t *region; /* slots, then tags, responses, r2ts */
	union tcp_tag *tags;
	uint16_t tag_free;  /* used last of those that are free; TAG_NONE */
	uint16_t tag_next;  /* the first that was never used */
	uint16_t tag_count; /* that the queue may have */
	uint16_t tags_used; /* in use now, those of parked requests included */
	uint16_t parked_count;
	uint8_t idle_rounds;

	struct share_list shares; /* on each device that it used large buffers for */

	/* sending: what is done, what has been given to the socket */
	struct pdu_terms send_terms;
	bool c2h_success;
	struct tcp_req_queue done, sending, r2t;
	uint32_t done_count;
	uint8_t control[TCP_CONTROL_BYTES]; /* the ICResp and perhaps a TermReq, each once: nothing is written twice */
	uint32_t control_at, control_bytes; /* what of it is to be sent */
	uint8_t *responses, *r2ts;	    /* room for one of each tag */
	uint64_t send_position, send_end;   /* of the stream: taken by the socket, and put together */
	struct iovec *left;		    /* what a short send left: at left_first of left_count */
	uint32_t left_first, left_count;
	const struct trace_istr *close_reason;
	bool overrun;	       /* its host sent more commands than its queue has entries */
	struct tcp_peer *peer; /* the control thread's: given back when this is freed */
	struct tcp_send_sample sample;
};

/* So many requests in one trace pool. */
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
	const struct trace_istr *no_device; /* the name that admin commands' share has for one */
	struct memory memory;		    /* data buffers */
	struct share_pool pool;
	struct share_list waiting; /* shares for which requests wait; the one served last is last */
	bool scarce;		   /* requests wait because all memory is lent, not because of their own share */
	bool serving;		   /* handing buffers to those that wait */
	bool serve_all;		   /* somebody gave a buffer back meanwhile */
	void *zeroes;		   /* bdev_zeroes() */
	struct iovec iov[TCP_SEND_IOV_MAX];
	struct tcp_chunk_list chunks, chunks_free; /* all; those that have a free request, the one to take from first */
	uint32_t chunk_count;
	uint32_t index;
	uint32_t in_capsule_bytes, slot_bytes;
	uint32_t tags_max; /* of a connection's region */
	bool c2h_success;
	void (*destroyed)(void *ctx); /* set: it goes when it is empty */
	void *destroyed_ctx;
};

/* conn.c */
void tcp_conn_fail(struct tcp_conn *conn, const char *reason);
void tcp_conn_terminate(struct tcp_conn *conn, enum nvme_tcp_fes fes, uint32_t fei, const uint8_t *header,
			size_t header_bytes, uint64_t now);
int tcp_conn_negotiate(struct tcp_conn *conn, const struct nvme_tcp_icreq *icreq, uint64_t now);
void tcp_conn_check_deadline(struct tcp_conn *conn, uint64_t now);
/* Connections are scarce: close it if it has been without a Connect for longer than HURRIED_TIMEOUT_MS. */
void tcp_conn_hurry(struct tcp_conn *conn, uint64_t now);
/*
 * It holds a buffer for data that its host was asked for long ago and does not send, or was sent and does not read.
 */
bool tcp_conn_hoards(const struct tcp_conn *conn, uint64_t now);
/* `count` requests with transfer tags from `first_ttag` on join the free ones. */
struct tcp_req *tcp_reqs_create(struct tcp_conn *conn, uint32_t count, uint16_t first_ttag, uint8_t *slots);
extern const struct nvmf_qpair_ops tcp_qpair_ops;

/* receive.c */
/* One receive and all that follows from it. True: bytes came, or the connection ended. */
bool tcp_conn_receive(struct tcp_conn *conn);
/* A buffer is there for `req`: go on where it had to wait. */
void tcp_req_got_buffer(struct tcp_req *req, uint64_t now);

/* send.c */
void tcp_conn_want_flush(struct tcp_conn *conn);
void tcp_conn_flush(struct tcp_conn *conn);
void tcp_req_release(struct tcp_req *req, uint64_t now); /* its response has left, or never will */
void tcp_req_free(struct tcp_req *req, uint64_t now);	 /* nobody holds anything of it */

/* request.c */
/* Address space for a connection's tags; one may be used until tcp_conn_allow_tags(). -ENOMEM. Pair: free. */
MUST_CHECK int tcp_conn_create_tags(struct tcp_conn *conn);
void tcp_conn_free_tags(struct tcp_conn *conn);
/* From now on up to `count` requests at a time. */
void tcp_conn_allow_tags(struct tcp_conn *conn, uint32_t count);
/* Once a second: pages of a connection that has been idle for a while go back. */
void tcp_conn_trim(struct tcp_conn *conn);
/* A free request, with a tag of `conn`. NULL: it has as many as it may. Pair: put. */
struct tcp_req *tcp_req_get(struct tcp_conn *conn);
void tcp_req_put(struct tcp_req *req);
/*
 * Its response has left, and a device holds its data: it keeps its tag, and the connection may have one more, up to a limit
 * at which it is closed.
 */
void tcp_req_parked(struct tcp_req *req, uint64_t now) COLD;
/* The device has returned it. */
void tcp_req_returned(struct nvmf_req *req, uint64_t now);
/* The request of `ttag`, which a host may have made up. NULL: there is none. */
struct tcp_req *tcp_req_find(const struct tcp_conn *conn, uint16_t ttag);
/* Once a second: requests that nobody uses go. */
void tcp_group_trim_requests(struct tcp_group *group);
void tcp_group_free_requests(struct tcp_group *group);

/* send_sample.c */
void tcp_send_sample_init(struct tcp_conn *conn);
/* The socket took something, or nothing, at `now`, when a sample was due. */
void tcp_send_sample_begin(struct tcp_conn *conn, uint64_t now);
/* The connection ends. */
void tcp_send_sample_end(struct tcp_conn *conn, uint64_t now);
/* Poller, each TCP_SEND_SAMPLE_CHECK_NS while samples of the group are open. */
int tcp_send_samples_check(void *group);

/* transport.c */
struct tcp_group *tcp_group_of(struct nvmf_poll_group *poll_group);
/* The host broke the protocol: a line in the log, by a message to the control thread. */
void tcp_transport_log_breach(const struct tcp_conn *conn, enum nvme_tcp_fes fes);
/* Control thread: a connection of `peer` has been freed. */
void tcp_transport_peer_left(void *peer);

/* group.c */
/* NULL: no memory. */
void *tcp_group_create(struct nvmf_poll_group *poll_group, const struct nvmf_transport_options *options);
/* Ends its connections; `done(ctx)` when the last has gone, and it is freed. */
void tcp_group_destroy_when_empty(struct tcp_group *group, void (*done)(void *ctx), void *ctx);
void tcp_group_add(struct tcp_group *group, struct tcp_conn *conn);
void tcp_group_remove(struct tcp_group *group, struct tcp_conn *conn);
/* tcp_conn_hurry() for the connections from `address`; "": all. */
void tcp_group_hurry(struct tcp_group *group, const char *address, uint64_t now);
void tcp_group_activate(struct tcp_group *group, struct tcp_conn *conn, uint64_t now);

/* lend.c */
/* `req` may hold a buffer: true. Or it waits; tcp_req_got_buffer() is called then. Pair: tcp_req_give_back(). */
bool tcp_req_borrow(struct tcp_req *req, uint64_t now);
/* The buffer itself, from now on in req->lent. */
void tcp_req_choose_buffer(struct tcp_req *req);
/* It waits no longer. */
void tcp_req_stop_waiting(struct tcp_req *req);
/* Give its buffer back, if it has one; requests that wait go on. */
void tcp_req_give_back(struct tcp_req *req, uint64_t now);
/* Its requests are gone: its shares end. */
void tcp_conn_drop_shares(struct tcp_conn *conn, uint64_t now);
/* Once a second. */
void tcp_group_tidy_shares(struct tcp_group *group, uint64_t now);
void tcp_group_buffers(const struct tcp_group *group, struct nvmf_buffer_stats *stats_ret, nvmf_buffer_user_fn fn,
		       void *ctx);

#endif
