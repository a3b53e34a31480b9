/* SPDX-License-Identifier: BSD-2-Clause */
/* share - see share.h. */
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/text.h"
#include "data/wire/conn/share.h"

enum { SHARE_IDLE_ROUNDS = 2 };

void share_pool_init(struct share_pool *pool, uint64_t fair_bytes, uint64_t most_bytes)
{
	must(fair_bytes > 0);
	must(most_bytes >= fair_bytes);
	*pool = (struct share_pool){ .fair_bytes = fair_bytes, .most_bytes = most_bytes };
	TAILQ_INIT(&pool->hosts);
	TAILQ_INIT(&pool->devices);
	TAILQ_INIT(&pool->shares);
}

void share_pool_deinit(struct share_pool *pool)
{
	must(pool->lent_bytes == 0);
	must(pool->host_count == 0);
	must(TAILQ_EMPTY(&pool->shares));
	must(TAILQ_EMPTY(&pool->devices));
}

static struct share_host *find_host(struct share_pool *pool, const char *nqn)
{
	struct share_host *host;

	TAILQ_FOREACH (host, &pool->hosts, link) {
		if (strcmp(host->nqn, nqn) == 0)
			return host;
	}
	host = calloc(1, sizeof(*host));
	must(host);
	(void)text_copy(host->nqn, sizeof(host->nqn), nqn); /* fits: it comes from a field of this size */
	TAILQ_INSERT_TAIL(&pool->hosts, host, link);
	pool->host_count++;
	return host;
}

static struct share_device *find_device(struct share_pool *pool, const void *key, const struct trace_istr *name)
{
	struct share_device *device;

	TAILQ_FOREACH (device, &pool->devices, link) {
		if (device->key == key)
			return device;
	}
	device = calloc(1, sizeof(*device));
	must(device);
	device->key = key;
	device->name = name;
	TAILQ_INSERT_TAIL(&pool->devices, device, link);
	return device;
}

struct share *share_find(struct share_pool *pool, struct share_list *conn_shares, const char *nqn, const void *key,
			 const struct trace_istr *name)
{
	struct share *share;

	TAILQ_FOREACH (share, conn_shares, conn_link) {
		if (share->device->key != key)
			continue;
		/* move to front: the share used last is found first */
		if (share != TAILQ_FIRST(conn_shares)) {
			TAILQ_REMOVE(conn_shares, share, conn_link);
			TAILQ_INSERT_HEAD(conn_shares, share, conn_link);
		}
		return share;
	}
	share = calloc(1, sizeof(*share));
	must(share);
	STAILQ_INIT(&share->waiting);
	share->host = find_host(pool, nqn);
	share->device = find_device(pool, key, name);
	share->host->share_count++;
	share->device->share_count++;
	TAILQ_INSERT_HEAD(conn_shares, share, conn_link);
	TAILQ_INSERT_TAIL(&pool->shares, share, link);
	return share;
}

void share_drop(struct share_pool *pool, struct share_list *conn_shares, struct share *share)
{
	must(share->lent_bytes == 0);
	must(share->waiting_count == 0);
	must(STAILQ_EMPTY(&share->waiting));
	TAILQ_REMOVE(conn_shares, share, conn_link);
	TAILQ_REMOVE(&pool->shares, share, link);
	if (--share->host->share_count == 0) {
		must(share->host->lent_bytes == 0);
		must(pool->host_count > 0);
		pool->host_count--;
		TAILQ_REMOVE(&pool->hosts, share->host, link);
		free(share->host);
	}
	if (--share->device->share_count == 0) {
		must(share->device->lent_bytes == 0);
		TAILQ_REMOVE(&pool->devices, share->device, link);
		free(share->device);
	}
	free(share);
}

uint64_t share_limit(const struct share_pool *pool, const struct share *share)
{
	must(pool->host_count > 0);
	must(share->host->share_count > 0);
	return pool->fair_bytes / pool->host_count / share->host->share_count;
}

enum share_answer share_ask(const struct share_pool *pool, const struct share *share, uint64_t bytes)
{
	uint64_t left;

	if (share->lent_bytes > 0 && share->lent_bytes + bytes > share_limit(pool, share))
		return SHARE_FULL;
	if (pool->lent_bytes == 0)
		return bytes <= pool->most_bytes ? SHARE_GRANTED : SHARE_SCARCE;
	if (pool->lent_bytes + bytes > pool->most_bytes)
		return SHARE_SCARCE;
	left = pool->most_bytes - pool->lent_bytes - bytes;
	if (share->host->lent_bytes + bytes > left || share->device->lent_bytes + bytes > left)
		return SHARE_SCARCE;
	return SHARE_GRANTED;
}

void share_take(struct share_pool *pool, struct share *share, uint64_t bytes)
{
	must(bytes > 0);
	must(pool->lent_bytes + bytes <= pool->most_bytes);
	pool->lent_bytes += bytes;
	share->lent_bytes += bytes;
	share->host->lent_bytes += bytes;
	share->device->lent_bytes += bytes;
	share->idle_rounds = 0;
}

void share_give(struct share_pool *pool, struct share *share, uint64_t bytes)
{
	must(share->lent_bytes >= bytes);
	must(share->host->lent_bytes >= bytes);
	must(share->device->lent_bytes >= bytes);
	must(pool->lent_bytes >= bytes);
	pool->lent_bytes -= bytes;
	share->lent_bytes -= bytes;
	share->host->lent_bytes -= bytes;
	share->device->lent_bytes -= bytes;
}

bool share_grow_old(struct share *share)
{
	if (share->lent_bytes > 0 || share->waiting_count > 0) {
		share->idle_rounds = 0;
		return false;
	}
	if (share->idle_rounds < SHARE_IDLE_ROUNDS)
		share->idle_rounds++;
	return share->idle_rounds >= SHARE_IDLE_ROUNDS;
}
