/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes samples in a thread, so that the screen reacts to keys while the target does not answer. */
#include <pthread.h>
#include <stdlib.h>

#include "cmd/fathom/top/top.h"

/* Owned by the thread while `under_way`; else by the caller. Only the thread uses the link. */
struct top_looker {
	struct top_link *link;
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool wanted, under_way, done, quit;
	uint32_t tabs; /* the requested tabs */
	struct top_look look;
};

static void *run(void *ctx)
{
	struct top_looker *looker = ctx;

	must(pthread_mutex_lock(&looker->mutex) == 0);
	while (!looker->quit) {
		if (!looker->wanted) {
			must(pthread_cond_wait(&looker->changed, &looker->mutex) == 0);
			continue;
		}
		looker->wanted = false;
		must(pthread_mutex_unlock(&looker->mutex) == 0);
		top_look_make(looker->link, looker->tabs, &looker->look);
		must(pthread_mutex_lock(&looker->mutex) == 0);
		looker->done = true;
	}
	must(pthread_mutex_unlock(&looker->mutex) == 0);
	return NULL;
}

struct top_looker *top_looker_create(struct top_link *link)
{
	struct top_looker *looker = calloc(1, sizeof(*looker));

	must(looker);
	looker->link = link;
	must(pthread_mutex_init(&looker->mutex, NULL) == 0);
	must(pthread_cond_init(&looker->changed, NULL) == 0);
	must(pthread_create(&looker->thread, NULL, run, looker) == 0);
	return looker;
}

bool top_looker_destroy(struct top_looker *looker)
{
	if (looker->under_way)
		return false;
	must(pthread_mutex_lock(&looker->mutex) == 0);
	looker->quit = true;
	must(pthread_cond_signal(&looker->changed) == 0);
	must(pthread_mutex_unlock(&looker->mutex) == 0);
	must(pthread_join(looker->thread, NULL) == 0);
	pthread_cond_destroy(&looker->changed);
	pthread_mutex_destroy(&looker->mutex);
	free(looker);
	return true;
}

bool top_looker_is_under_way(const struct top_looker *looker)
{
	return looker->under_way;
}

void top_looker_begin(struct top_looker *looker, uint32_t tabs)
{
	must(!looker->under_way);
	must(pthread_mutex_lock(&looker->mutex) == 0);
	looker->under_way = looker->wanted = true;
	looker->tabs = tabs;
	must(pthread_cond_signal(&looker->changed) == 0);
	must(pthread_mutex_unlock(&looker->mutex) == 0);
}

bool top_looker_end(struct top_looker *looker, struct top_look *look_ret)
{
	bool done;

	must(pthread_mutex_lock(&looker->mutex) == 0);
	done = looker->done;
	if (done) {
		*look_ret = looker->look;
		looker->done = looker->under_way = false;
	}
	must(pthread_mutex_unlock(&looker->mutex) == 0);
	return done;
}
