/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/wire/conn/admission.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/inject/inject.h"
#include "base/text.h"

enum { HURRY_INTERVAL_SEC = 1 };

void tcp_admission_init(struct tcp_admission *admission, uint32_t connections_max, uint32_t per_address_max,
			uint32_t admitted_max)
{
	memset(admission, 0, sizeof(*admission));
	admission->connections_max = connections_max
					     ? connections_max
					     : (uint32_t)max_u64(1, min_u64(TCP_CONNECTIONS_MAX_DEFAULT, admitted_max));
	admission->connections_per_address_max = per_address_max ? per_address_max
								 : (uint32_t)max_u64(1, admission->connections_max / 2);
	for (uint32_t i = 0; i < TCP_PEER_BUCKETS; i++)
		LIST_INIT(&admission->buckets[i]);
}

/* FNV-1a */
static uint32_t bucket_of(const char *address)
{
	uint32_t hash = 0x811c9dc5;

	static_assert((TCP_PEER_BUCKETS & (TCP_PEER_BUCKETS - 1)) == 0, "a mask chooses one");
	for (; *address; address++)
		hash = (hash ^ (uint8_t)*address) * 0x01000193;
	return hash & (TCP_PEER_BUCKETS - 1);
}

static struct tcp_peer *find_peer(const struct tcp_admission *admission, const char *address)
{
	struct tcp_peer *peer;

	LIST_FOREACH (peer, &admission->buckets[bucket_of(address)], link) {
		if (strcmp(peer->address, address) == 0)
			return peer;
	}
	return NULL;
}

int tcp_admission_enter(struct tcp_admission *admission, const char *address, struct tcp_peer **peer_ret)
{
	struct tcp_peer *peer = find_peer(admission, address);
	int error = inject(INJECT_HOST_ADMIT);

	if (error)
		return error;
	if (admission->connection_count >= admission->connections_max)
		return -EUSERS;
	if (peer && peer->connection_count >= admission->connections_per_address_max)
		return -EDQUOT;
	if (!peer) {
		peer = calloc(1, sizeof(*peer));
		if (!peer)
			return -ENOMEM;
		(void)text_copy(peer->address, sizeof(peer->address), address); /* the source has the same size */
		LIST_INSERT_HEAD(&admission->buckets[bucket_of(address)], peer, link);
	}
	peer->connection_count++;
	admission->connection_count++;
	*peer_ret = peer;
	return 0;
}

void tcp_admission_leave(struct tcp_admission *admission, struct tcp_peer *peer)
{
	must(peer->connection_count > 0);
	must(admission->connection_count >= peer->connection_count);
	admission->connection_count--;
	if (--peer->connection_count > 0)
		return;
	LIST_REMOVE(peer, link);
	free(peer);
}

bool tcp_admission_hurries(struct tcp_admission *admission, const char *address, bool of_address, uint64_t now_ns)
{
	struct tcp_peer *peer = of_address ? find_peer(admission, address) : NULL;
	uint64_t *hurried_ns = peer ? &peer->hurried_ns : &admission->hurried_ns;

	if (of_address && !peer)
		return false;
	if (*hurried_ns != 0 && now_ns < *hurried_ns + HURRY_INTERVAL_SEC * NS_PER_SEC)
		return false;
	*hurried_ns = now_ns;
	return true;
}
