/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * request - requests of a poll group, allocated in trace pools, and the tags and slots of a connection.
 *
 * A block device that does not answer keeps requests whose hosts already have a response (data/target/request/parking.c).
 * The host then reuses the queue entry and the command identifier. So a parked request keeps its tag, and the connection
 * may use one more tag for each. With more than TCP_PARKED_MAX the connection is closed, and the host must reconnect.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/observe/trace/points.gen.h"
#include "base/reactor/reactor.h"
#include "data/wire/conn/internal.h"
#include "data/wire/conn/probes.gen.h"

enum {
	TAG_NONE = UINT16_MAX,
	IDLE_ROUNDS = 5, /* seconds without a command before a connection's pages are returned */
	CHUNKS_KEPT = 1,
};
static_assert((int)TCP_TAGS_MAX < (int)TAG_NONE, "none is none");
static_assert(sizeof(struct tcp_req) % CACHE_LINE_BYTES == 0, "an array of them is the pool");

/* ---- a group's requests ---- */

static struct tcp_chunk *create_chunk(struct tcp_group *group)
{
	struct trace_pool_spec spec = {
		.type = TRACE_OBJECT_NVMF_REQ,
		.story_offset = offsetof(struct tcp_req, req.story),
		.also_type = TRACE_OBJECT_BDEV_IO,
		.also_offset = offsetof(struct tcp_req, req.io.story),
		.stride = sizeof(struct tcp_req),
		.count = TCP_REQS_OF_CHUNK,
	};
	struct tcp_chunk *chunk = calloc(1, sizeof(*chunk));

	must(chunk);
	chunk->reqs = trace_pool_create(&spec);
	STAILQ_INIT(&chunk->free);
	for (uint32_t i = 0; i < TCP_REQS_OF_CHUNK; i++) {
		chunk->reqs[i].chunk = chunk;
		STAILQ_INSERT_TAIL(&chunk->free, &chunk->reqs[i], link);
	}
	TAILQ_INSERT_TAIL(&group->chunks, chunk, link);
	TAILQ_INSERT_HEAD(&group->chunks_free, chunk, free_link);
	group->chunk_count++;
	return chunk;
}

static void destroy_chunk(struct tcp_group *group, struct tcp_chunk *chunk)
{
	must(chunk->used_count == 0);
	must(group->chunk_count > 0);
	group->chunk_count--;
	TAILQ_REMOVE(&group->chunks, chunk, link);
	TAILQ_REMOVE(&group->chunks_free, chunk, free_link);
	trace_pool_destroy(chunk->reqs);
	free(chunk);
}

void tcp_group_trim_requests(struct tcp_group *group)
{
	/* allocation takes from the front, so unused chunks are at the end; free one per second, keep CHUNKS_KEPT */
	struct tcp_chunk *chunk = TAILQ_LAST(&group->chunks_free, tcp_chunk_list);

	if (chunk && chunk->used_count == 0 && group->chunk_count > CHUNKS_KEPT)
		destroy_chunk(group, chunk);
}

void tcp_group_free_requests(struct tcp_group *group)
{
	struct tcp_chunk *chunk, *next;

	TAILQ_FOREACH_SAFE (chunk, &group->chunks, link, next)
		destroy_chunk(group, chunk);
}

/* ---- a connection's tags ---- */

static size_t slots_bytes(const struct tcp_group *group)
{
	return (size_t)group->tags_max * group->slot_bytes;
}

static size_t region_bytes(const struct tcp_group *group)
{
	return slots_bytes(group) +
	       round_up(group->tags_max * (sizeof(union tcp_tag) + TCP_RESPONSE_BYTES + TCP_R2T_BYTES), 4096);
}

int tcp_conn_create_tags(struct tcp_conn *conn)
{
	const struct tcp_group *group = conn->group;
	uint8_t *region = mmap(NULL, region_bytes(group), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (region == MAP_FAILED)
		return -ENOMEM;
	must(group->tags_max <= TCP_TAGS_MAX);
	conn->region = region;
	conn->tags = (void *)(region + slots_bytes(group));
	conn->responses = (uint8_t *)(conn->tags + group->tags_max);
	conn->r2ts = conn->responses + (size_t)group->tags_max * TCP_RESPONSE_BYTES;
	conn->tag_free = TAG_NONE;
	conn->tag_count = 1; /* the Connect */
	return 0;
}

void tcp_conn_free_tags(struct tcp_conn *conn)
{
	must(conn->tags_used == 0);
	if (conn->region)
		munmap(conn->region, region_bytes(conn->group));
}

void tcp_conn_allow_tags(struct tcp_conn *conn, uint32_t count)
{
	must(count >= conn->tag_count);
	must(count <= conn->group->tags_max);
	conn->tag_count = (uint16_t)count;
}

void tcp_conn_trim(struct tcp_conn *conn)
{
	if (conn->tags_used > 0 || conn->tag_next == 0) {
		conn->idle_rounds = 0;
		return;
	}
	if (++conn->idle_rounds < IDLE_ROUNDS)
		return;
	/* no request is in flight, so all tags can be reset */
	(void)madvise(conn->region, (size_t)conn->tag_next * conn->group->slot_bytes,
		      MADV_DONTNEED); /* on an error the pages stay */
	conn->tag_free = TAG_NONE;
	conn->tag_next = 0;
	conn->idle_rounds = 0;
}

static uint16_t allocate_tag(struct tcp_conn *conn)
{
	uint16_t tag = conn->tag_free;

	if (tag == TAG_NONE) {
		must(conn->tag_next < conn->group->tags_max);
		tag = conn->tag_next++;
	} else {
		must(conn->tags[tag].next & 1);
		conn->tag_free = (uint16_t)(conn->tags[tag].next >> 1);
	}
	conn->tags_used++;
	return tag;
}

struct tcp_req *tcp_req_get(struct tcp_conn *conn)
{
	struct tcp_group *group = conn->group;
	struct tcp_chunk *chunk = TAILQ_FIRST(&group->chunks_free);
	struct tcp_req *treq;

	if (unlikely(conn->tags_used - conn->parked_count == conn->tag_count || conn->tags_used == group->tags_max))
		return NULL;
	if (unlikely(!chunk))
		chunk = create_chunk(group);
	treq = STAILQ_FIRST(&chunk->free);
	STAILQ_REMOVE_HEAD(&chunk->free, link);
	chunk->used_count++;
	if (unlikely(STAILQ_EMPTY(&chunk->free)))
		TAILQ_REMOVE(&group->chunks_free, chunk, free_link);
	treq->conn = conn;
	treq->ttag = allocate_tag(conn);
	treq->slot = conn->region + (size_t)treq->ttag * group->slot_bytes;
	conn->tags[treq->ttag].treq = treq;
	treq->req.qpair = &conn->qpair;
	treq->req.story.trace.owner = conn->qpair.trace.owner;
	return treq;
}

void tcp_req_put(struct tcp_req *treq)
{
	struct tcp_conn *conn = treq->conn;
	struct tcp_chunk *chunk = treq->chunk;

	must(treq->req.story.state == NVMF_REQ_FREE);
	must(conn->tags[treq->ttag].treq == treq);
	must(conn->tags_used > 0);
	must(chunk->used_count > 0);
	conn->tags[treq->ttag].next = (uintptr_t)conn->tag_free << 1 | 1;
	conn->tag_free = treq->ttag;
	conn->tags_used--;
	treq->conn = NULL;
	if (unlikely(STAILQ_EMPTY(&chunk->free)))
		TAILQ_INSERT_HEAD(&conn->group->chunks_free, chunk, free_link);
	STAILQ_INSERT_HEAD(&chunk->free, treq, link);
	chunk->used_count--;
}

struct tcp_req *tcp_req_find(const struct tcp_conn *conn, uint16_t ttag)
{
	if (ttag >= conn->tag_next || (conn->tags[ttag].next & 1))
		return NULL;
	return conn->tags[ttag].treq;
}

void tcp_req_parked(struct tcp_req *treq, uint64_t now)
{
	struct tcp_conn *conn = treq->conn;

	conn->parked_count++;
	must(conn->parked_count <= conn->tags_used);
	probe_tcp_req_parked(now, &treq->req, conn->parked_count);
	if (conn->state == TCP_CONN_READY && conn->parked_count > TCP_PARKED_MAX)
		tcp_qpair_ops.disconnect(&conn->qpair, "devices that do not answer hold too many of its commands");
}

void tcp_req_returned(struct nvmf_req *req, uint64_t now)
{
	struct tcp_req *treq = container_of(req, struct tcp_req, req);
	struct tcp_conn *conn = treq->conn;

	must(req->story.state == NVMF_REQ_FREE);
	must(conn->parked_count > 0);
	conn->parked_count--;
	tcp_req_free(treq, now);
}
