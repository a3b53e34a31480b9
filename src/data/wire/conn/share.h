/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * share - how much data memory each user of a poll group may hold. Pure: counts bytes, owns no buffer, knows no socket.
 *
 * A *share* belongs to one connection on one block device. It exists from the first large command until it has been idle
 * for a while. All shares of one host NQN together are that host's, so a host gains nothing from more connections.
 *
 *   limit of a share = fair bytes / hosts that have shares / shares of this host
 *
 * A device that hangs holds the bytes of its own shares only. A host that does not read or send holds its own only. Nothing
 * lent can be taken back, so a host that came first may hold more than the limit of today. Therefore memory is not one
 * pool of `fair` bytes: hosts that come one after another, and never give back, hold fair * (1 + 1/2 + 1/3 ...). `most` is
 * SHARE_GROWTH times `fair`, which covers more hosts than a group serves; it is address space, touched only where used.
 *
 * Beyond that, one rule keeps a reserve: nobody's request is granted if its host, or its device, would then hold more than
 * what is left. So the first device that hangs for many hosts takes half at most, the second a quarter, and there is always
 * something left for the next.
 *
 * A share that holds nothing may hold one request of any size, however small its limit is.
 */
#ifndef WIRE_CONN_SHARE_H
#define WIRE_CONN_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "data/nvme/fabrics.h"

enum {
	SHARE_GROWTH = 8, /* 1 + 1/2 + ... + 1/1600 */
};

struct tcp_req;
struct trace_istr;
STAILQ_HEAD(tcp_req_queue, tcp_req);

struct share_host {
	char nqn[NVME_NQN_FIELD_BYTES];
	uint32_t share_count;
	uint64_t lent_bytes;
	TAILQ_ENTRY(share_host) link;
};

struct share_device {
	const void *key; /* its identity; NULL: none, as for admin commands */
	const struct trace_istr *name;
	uint32_t share_count;
	uint64_t lent_bytes;
	TAILQ_ENTRY(share_device) link;
};

struct share {
	struct share_host *host;
	struct share_device *device;
	uint64_t lent_bytes;
	uint32_t waiting_count;	      /* of `waiting`, which are the caller's */
	struct tcp_req_queue waiting; /* oldest first */
	uint8_t idle_rounds;
	TAILQ_ENTRY(share) link, conn_link, waiting_link;
};
TAILQ_HEAD(share_list, share);

struct share_pool {
	uint64_t fair_bytes, most_bytes, lent_bytes;
	uint32_t host_count;
	TAILQ_HEAD(, share_host) hosts;
	TAILQ_HEAD(, share_device) devices;
	struct share_list shares;
};

enum share_answer {
	SHARE_GRANTED,
	SHARE_FULL,   /* this share's own limit: only what it gives back itself helps */
	SHARE_SCARCE, /* the reserve: what anybody gives back helps */
};

/* `most_bytes` at least `fair_bytes`. Pair: share_pool_deinit(), when no share is left. */
void share_pool_init(struct share_pool *pool, uint64_t fair_bytes, uint64_t most_bytes);
void share_pool_deinit(struct share_pool *pool);

/*
 * The share of the connection whose shares are `conn_shares` on the device `key`; made if there is none. `nqn` is its
 * host's, borrowed; `name` the device's. Pair: share_drop().
 */
struct share *share_find(struct share_pool *pool, struct share_list *conn_shares, const char *nqn, const void *key,
			 const struct trace_istr *name);
/* Nothing is lent and nothing waits. Other shares' limits may grow with this. */
void share_drop(struct share_pool *pool, struct share_list *conn_shares, struct share *share);

/* Bytes that `share` may hold now. */
uint64_t share_limit(const struct share_pool *pool, const struct share *share);

/* Whether `share` may take `bytes` more. */
enum share_answer share_ask(const struct share_pool *pool, const struct share *share, uint64_t bytes);
void share_take(struct share_pool *pool, struct share *share, uint64_t bytes);
void share_give(struct share_pool *pool, struct share *share, uint64_t bytes);

/* To be called once a second: true if `share` has been unused for SHARE_IDLE_ROUNDS and may be dropped. */
bool share_grow_old(struct share *share);

#endif
