/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/reactor/share.h"

void op_pool_init(struct op_pool *pool, uint32_t capacity, uint32_t common_max, uint32_t reserved, uint32_t share_max)
{
	must(reserved > 0);
	must(share_max >= reserved);
	must(common_max < capacity);
	*pool = (struct op_pool){
		.capacity = capacity,
		.common_max = common_max,
		.reserved = reserved,
		.share_max = share_max,
	};
	TAILQ_INIT(&pool->ready);
	TAILQ_INIT(&pool->starved);
}

void op_share_init(struct op_share *share)
{
	*share = (struct op_share){ .place = OP_SHARE_IDLE };
	share->first_end = &share->first;
}

void op_share_deinit(struct op_share *share)
{
	must(!share->first);
	must(share->used == 0);
	must(share->place == OP_SHARE_IDLE);
}

/* The place of `share` by its counts. */
static enum op_share_place find_place(const struct op_pool *pool, const struct op_share *share)
{
	if (!share->first)
		return OP_SHARE_IDLE;
	if (share->used >= pool->share_max)
		return OP_SHARE_FULL;
	if (pool->used >= pool->capacity)
		return OP_SHARE_STARVED;
	if (share->used >= pool->reserved && pool->common_used >= pool->common_max)
		return OP_SHARE_STARVED;
	return OP_SHARE_READY;
}

static void remove_from_list(struct op_pool *pool, struct op_share *share)
{
	if (share->place == OP_SHARE_READY)
		TAILQ_REMOVE(&pool->ready, share, link);
	else if (share->place == OP_SHARE_STARVED)
		TAILQ_REMOVE(&pool->starved, share, link);
	share->place = OP_SHARE_IDLE;
}

static void append_to_list(struct op_pool *pool, struct op_share *share)
{
	must(share->place == OP_SHARE_IDLE);
	share->place = find_place(pool, share);
	if (share->place == OP_SHARE_READY)
		TAILQ_INSERT_TAIL(&pool->ready, share, link);
	else if (share->place == OP_SHARE_STARVED)
		TAILQ_INSERT_TAIL(&pool->starved, share, link);
}

void op_push(struct op_pool *pool, struct op_share *share, struct uring_op *op)
{
	op->next = NULL;
	*share->first_end = op;
	share->first_end = &op->next;
	pool->waiting++;
	share->waiting++;
	if (share->place == OP_SHARE_IDLE)
		append_to_list(pool, share);
}

static struct uring_op *pop_op(struct op_pool *pool, struct op_share *share)
{
	struct uring_op *op = share->first;

	must(op);
	must(pool->waiting > 0);
	must(share->waiting > 0);
	share->first = op->next;
	if (!share->first)
		share->first_end = &share->first;
	pool->waiting--;
	share->waiting--;
	pool->used++;
	if (++share->used > pool->reserved)
		pool->common_used++;
	must(pool->used <= pool->capacity);
	must(share->used <= pool->share_max);
	must(pool->common_used <= pool->common_max);
	return op;
}

struct uring_op *op_take(struct op_pool *pool)
{
	struct op_share *share;
	struct uring_op *op;

	while ((share = TAILQ_FIRST(&pool->ready))) {
		remove_from_list(pool, share);
		/* other shares may have taken the places that were free when this one entered `ready` */
		if (find_place(pool, share) != OP_SHARE_READY) {
			append_to_list(pool, share);
			continue;
		}
		op = pop_op(pool, share);
		append_to_list(pool, share);
		return op;
	}
	return NULL;
}

void op_give_back(struct op_pool *pool, struct op_share *share)
{
	bool was_full = pool->used == pool->capacity, common = share->used > pool->reserved;
	struct op_share *first;

	must(share->used > 0);
	must(pool->used > 0);
	must(!common || pool->common_used > 0);
	share->used--;
	pool->used--;
	if (common)
		pool->common_used--;
	/* The share that starved longest gets the free place, before the share that released it. */
	first = TAILQ_FIRST(&pool->starved);
	if (first && (was_full || common)) {
		remove_from_list(pool, first);
		append_to_list(pool, first);
	}
	if (share->place == OP_SHARE_FULL || share->place == OP_SHARE_STARVED) {
		remove_from_list(pool, share);
		append_to_list(pool, share);
	}
}
