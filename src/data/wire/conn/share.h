/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * share - how much data memory each user of a poll group may hold. Pure: counts bytes, owns no buffer, uses no socket.
 *
 * A *share* accounts for one connection on one block device. It exists from the first large command until it has been idle
 * for SHARE_IDLE_ROUNDS seconds. The limit of a host NQN is divided by its shares, so more connections do not raise it.
 *
 *   limit of a share = fair bytes / hosts that have shares / shares of this host
 *
 * A hung device holds only the bytes of its own shares; a host that does not read or send holds only its own. Lent bytes
 * cannot be reclaimed, so an early host may hold more than its present limit. Therefore the memory is larger than `fair`
 * bytes: hosts that arrive one by one, and return nothing, hold fair * (1 + 1/2 + 1/3 ...). `most` is SHARE_GROWTH times
 * `fair`, enough for more hosts than a group serves. It is address space, touched only where used.
 *
 * Besides, a reserve is kept: a request is granted only if its host and its device then hold no more than what is left. So
 * the first device that hangs for many hosts takes at most half, the second a quarter, and some is left for the next.
 *
 * A share that holds nothing may hold one request of any size, regardless of its limit.
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
	const void *key; /* identifies the device; NULL: no device (admin commands) */
	const struct trace_istr *name;
	uint32_t share_count;
	uint64_t lent_bytes;
	TAILQ_ENTRY(share_device) link;
};

struct share {
	struct share_host *host;
	struct share_device *device;
	uint64_t lent_bytes;
	uint32_t waiting_count;	      /* length of `waiting`; the caller maintains both */
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
	SHARE_FULL,   /* this share's own limit: the request must wait for bytes of the same share */
	SHARE_SCARCE, /* the reserve: the request must wait for bytes of any share */
};

/* `most_bytes` must be at least `fair_bytes`. Pair: share_pool_deinit(), when no share is left. */
void share_pool_init(struct share_pool *pool, uint64_t fair_bytes, uint64_t most_bytes);
void share_pool_deinit(struct share_pool *pool);

/*
 * Find or create the share on the device `key` in `conn_shares`, the list of one connection. `nqn` is the connection's host
 * (borrowed), `name` the device's. Pair: share_drop().
 */
struct share *share_find(struct share_pool *pool, struct share_list *conn_shares, const char *nqn, const void *key,
			 const struct trace_istr *name);
/* Free a share without lent bytes and waiting requests. The limits of other shares may grow. */
void share_drop(struct share_pool *pool, struct share_list *conn_shares, struct share *share);

/* The limit of `share` in bytes, at present. */
uint64_t share_limit(const struct share_pool *pool, const struct share *share);

/* Whether `share` may take `bytes` more. Changes nothing. */
enum share_answer share_ask(const struct share_pool *pool, const struct share *share, uint64_t bytes);
void share_take(struct share_pool *pool, struct share *share, uint64_t bytes);
void share_give(struct share_pool *pool, struct share *share, uint64_t bytes);

/* Must be called once a second. True: `share` has been unused for SHARE_IDLE_ROUNDS calls and may be dropped. */
bool share_grow_old(struct share *share);

#endif
