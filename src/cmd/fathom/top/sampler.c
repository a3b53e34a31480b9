/* SPDX-License-Identifier: BSD-2-Clause */
/* sampler - makes samples in a thread, so that the screen reacts to keys while the target does not answer. */
#include <pthread.h>
#include <stdlib.h>

#include "cmd/fathom/top/top.h"

/*
 * `mutex` guards `wanted`, `done`, `quit`, `tabs` and `reply`. Only the caller uses `under_way`, and only the thread the
 * link. `reply` is the thread's from `wanted` to `done`.
 */
struct top_sampler {
	struct top_link *link;
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool wanted, under_way, done, quit;
	uint32_t tabs; /* the requested tabs */
	struct top_reply reply;
};

static void *run_sampler(void *ctx)
{
	struct top_sampler *sampler = ctx;

	must(pthread_mutex_lock(&sampler->mutex) == 0);
	while (!sampler->quit) {
		if (!sampler->wanted) {
			must(pthread_cond_wait(&sampler->changed, &sampler->mutex) == 0);
			continue;
		}
		sampler->wanted = false;
		must(pthread_mutex_unlock(&sampler->mutex) == 0);
		top_reply_get(sampler->link, sampler->tabs, &sampler->reply);
		must(pthread_mutex_lock(&sampler->mutex) == 0);
		sampler->done = true;
	}
	must(pthread_mutex_unlock(&sampler->mutex) == 0);
	return NULL;
}

struct top_sampler *top_sampler_create(struct top_link *link)
{
	struct top_sampler *sampler = calloc(1, sizeof(*sampler));

	must(sampler);
	sampler->link = link;
	must(pthread_mutex_init(&sampler->mutex, NULL) == 0);
	must(pthread_cond_init(&sampler->changed, NULL) == 0);
	must(pthread_create(&sampler->thread, NULL, run_sampler, sampler) == 0);
	return sampler;
}

bool top_sampler_destroy(struct top_sampler *sampler)
{
	if (sampler->under_way)
		return false;
	must(pthread_mutex_lock(&sampler->mutex) == 0);
	sampler->quit = true;
	must(pthread_cond_signal(&sampler->changed) == 0);
	must(pthread_mutex_unlock(&sampler->mutex) == 0);
	must(pthread_join(sampler->thread, NULL) == 0);
	pthread_cond_destroy(&sampler->changed);
	pthread_mutex_destroy(&sampler->mutex);
	free(sampler);
	return true;
}

bool top_sampler_is_busy(const struct top_sampler *sampler)
{
	return sampler->under_way;
}

void top_sampler_begin(struct top_sampler *sampler, uint32_t tabs)
{
	must(!sampler->under_way);
	must(pthread_mutex_lock(&sampler->mutex) == 0);
	sampler->under_way = sampler->wanted = true;
	sampler->tabs = tabs;
	must(pthread_cond_signal(&sampler->changed) == 0);
	must(pthread_mutex_unlock(&sampler->mutex) == 0);
}

bool top_sampler_end(struct top_sampler *sampler, struct top_reply *reply_ret)
{
	bool done;

	must(pthread_mutex_lock(&sampler->mutex) == 0);
	done = sampler->done;
	if (done) {
		*reply_ret = sampler->reply;
		sampler->done = sampler->under_way = false;
	}
	must(pthread_mutex_unlock(&sampler->mutex) == 0);
	return done;
}
