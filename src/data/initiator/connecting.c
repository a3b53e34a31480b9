/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * connecting - run fathom_connect() without blocking the caller, and again after a loss.
 *
 * Connecting calls a resolver, which cannot be polled, and then waits at each of its steps. So each attempt has a pthread
 * of its own, the only one in this library. An eventfd becomes readable when it ends. fathom_connect_cancel() does not
 * wait for it: of the caller and the thread, the one that ends last frees the structure.
 *
 *   connecting:  thread under way -> ended (fd readable) -> finish
 *   reconnect:   WAITING (a delay, doubled each time) -> CONNECTING -> CONNECTED (the caller's) -> WAITING (no delay) ...
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/signals.h"
#include "data/initiator/internal.h"

enum { DELAY_MIN_MS = 1000, DELAY_MAX_MS = 30000 };

/* ---- One attempt ---- */

struct fathom_connecting {
	pthread_mutex_t lock;
	struct controller_words words; /* the thread's */
	int ended_fd;
	/* under the lock */
	bool ended, left; /* the thread has ended; the caller has cancelled */
	int error;
	struct fathom_fault why;
	struct fathom_controller *controller;
};

static void destroy_connecting(struct fathom_connecting *connecting)
{
	fathom_disconnect(connecting->controller);
	controller_words_free(&connecting->words);
	close(connecting->ended_fd);
	pthread_mutex_destroy(&connecting->lock);
	free(connecting);
}

static void *connect_thread(void *ctx)
{
	struct fathom_connecting *connecting = ctx;
	struct fathom_controller *controller = NULL;
	struct fathom_fault why = { 0 };
	const uint64_t one = 1;
	bool left;
	int error;

	signals_give_stack();
	error = fathom_connect(&connecting->words.options, &why, &controller);
	(void)pthread_mutex_lock(&connecting->lock);
	connecting->ended = true;
	connecting->error = error;
	connecting->why = why;
	connecting->controller = controller;
	left = connecting->left;
	if (!left)
		(void)!write(connecting->ended_fd, &one, sizeof(one)); /* cannot block: the counter is 0 */
	(void)pthread_mutex_unlock(&connecting->lock);
	if (left)
		destroy_connecting(connecting);
	return NULL;
}

/* All signals but those of its own faults are blocked in the thread: the program's own threads handle them. */
static int start_thread(struct fathom_connecting *connecting)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int error;

	if (pthread_attr_init(&attributes) != 0)
		return -ENOMEM;
	(void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	signals_of_others(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, &attributes, connect_thread, connecting);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attributes);
	return -error;
}

int fathom_connect_begin(const struct fathom_connect_options *options, struct fathom_fault *why_door,
			 struct fathom_connecting **connecting_ret)
{
	struct fathom_fault *why = why_door;
	struct fathom_connecting *connecting;
	struct fathom_connect_options taken;
	int error = controller_take_options(options, why, &taken);

	if (error)
		return error;
	connecting = calloc(1, sizeof(*connecting));
	if (!connecting)
		return fault(why, -ENOMEM, "out of memory: cannot connect");
	(void)pthread_mutex_init(&connecting->lock, NULL);
	connecting->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	error = connecting->ended_fd < 0 ? -errno : controller_words_copy(&taken, &connecting->words);
	if (error == 0)
		error = start_thread(connecting);
	if (error) {
		if (connecting->ended_fd >= 0)
			close(connecting->ended_fd);
		controller_words_free(&connecting->words);
		pthread_mutex_destroy(&connecting->lock);
		free(connecting);
		return fault(why, error, "cannot begin to connect: %s", strerror(-error));
	}
	*connecting_ret = connecting;
	return 0;
}

int fathom_connecting_fd(const struct fathom_connecting *connecting)
{
	return connecting->ended_fd;
}

static bool has_ended(struct fathom_connecting *connecting)
{
	bool ended;

	(void)pthread_mutex_lock(&connecting->lock);
	ended = connecting->ended;
	(void)pthread_mutex_unlock(&connecting->lock);
	return ended;
}

int fathom_connect_finish(struct fathom_connecting *connecting, struct fathom_fault *why_door,
			  struct fathom_controller **controller_ret)
{
	struct fathom_fault *why = why_door;
	int error;

	if (!has_ended(connecting))
		return fault(why, -EINPROGRESS, "still connecting");
	error = connecting->error;
	if (error == 0)
		*controller_ret = connecting->controller;
	else
		fill_fault(why, error, "%s", connecting->why.text); /* it is returned below */
	connecting->controller = NULL;
	destroy_connecting(connecting);
	return error;
}

void fathom_connect_cancel(struct fathom_connecting *connecting)
{
	bool ended;

	if (!connecting)
		return;
	(void)pthread_mutex_lock(&connecting->lock);
	ended = connecting->ended;
	connecting->left = true;
	(void)pthread_mutex_unlock(&connecting->lock);
	if (ended)
		destroy_connecting(connecting);
}

/* ---- Reconnecting ---- */

struct fathom_reconnect {
	struct controller_words words;
	struct fathom_reconnect_options options;
	struct fathom_connecting *connecting;
	uint32_t attempts; /* since the last connection */
	uint32_t delay_ms; /* before the next */
	uint64_t due_ns;
	struct fathom_fault why; /* of the last attempt */
};

void fathom_reconnect_options_init_bytes(struct fathom_reconnect_options *options, size_t bytes)
{
	const struct fathom_reconnect_options known = {
		.bytes = bytes,
		.delay_min_ms = DELAY_MIN_MS,
		.delay_max_ms = DELAY_MAX_MS,
	};

	memset(options, 0, bytes);
	memcpy(options, &known, min_u64(bytes, sizeof(known)));
}

int fathom_reconnect_create(const struct fathom_connect_options *options, const struct fathom_reconnect_options *how,
			    struct fathom_fault *why_door, struct fathom_reconnect **reconnect_ret)
{
	struct fathom_fault *why = why_door;
	struct fathom_reconnect *reconnect;
	struct fathom_connect_options taken;
	int error = controller_take_options(options, why, &taken);

	if (error)
		return error;
	if (how && (how->bytes < sizeof(how->bytes) || how->delay_max_ms < how->delay_min_ms))
		return fault(why, -EINVAL, "the longest delay is below the shortest, or the options are not initialized");
	reconnect = calloc(1, sizeof(*reconnect));
	if (!reconnect)
		return fault(why, -ENOMEM, "out of memory: cannot connect");
	fathom_reconnect_options_init(&reconnect->options);
	if (how)
		memcpy(&reconnect->options, how, min_u64(how->bytes, sizeof(*how)));
	error = controller_words_copy(&taken, &reconnect->words);
	/* all attempts use one host NQN: the target may not allow another */
	if (error == 0)
		error = controller_words_fix_host(&reconnect->words);
	if (error) {
		controller_words_free(&reconnect->words);
		free(reconnect);
		return fault(why, error, "cannot begin to connect: %s", strerror(-error));
	}
	*reconnect_ret = reconnect;
	return 0;
}

void fathom_reconnect_destroy(struct fathom_reconnect *reconnect)
{
	if (!reconnect)
		return;
	fathom_connect_cancel(reconnect->connecting);
	controller_words_free(&reconnect->words);
	free(reconnect);
}

/* An attempt failed: set the time of the next, or give up. */
static int note_failure(struct fathom_reconnect *reconnect, int error)
{
	const struct fathom_reconnect_options *options = &reconnect->options;

	reconnect->attempts++;
	if (options->attempts_max && reconnect->attempts >= options->attempts_max) {
		reconnect->attempts = 0;
		reconnect->delay_ms = 0;
		reconnect->due_ns = 0;
		return error;
	}
	reconnect->delay_ms = reconnect->delay_ms ? (uint32_t)min_u64(2ull * reconnect->delay_ms, options->delay_max_ms)
						  : options->delay_min_ms;
	reconnect->due_ns = clock_monotonic_ns() + reconnect->delay_ms * NS_PER_MS;
	return -EINPROGRESS;
}

static int finish_attempt(struct fathom_reconnect *reconnect, struct fathom_controller **controller_ret)
{
	struct fathom_fault why = { 0 };
	int error = fathom_connect_finish(reconnect->connecting, &why, controller_ret);

	if (error == -EINPROGRESS)
		return error;
	reconnect->connecting = NULL;
	reconnect->why = why;
	if (error)
		return note_failure(reconnect, error);
	reconnect->attempts = 0;
	reconnect->delay_ms = 0;
	reconnect->due_ns = 0;
	return 0;
}

int fathom_reconnect_poll(struct fathom_reconnect *reconnect, struct fathom_fault *why_door,
			  struct fathom_controller **controller_ret)
{
	struct fathom_fault *why = why_door;
	int error = -EINPROGRESS;

	if (reconnect->connecting) {
		error = finish_attempt(reconnect, controller_ret);
	} else if (clock_monotonic_ns() >= reconnect->due_ns) {
		error = fathom_connect_begin(&reconnect->words.options, &reconnect->why, &reconnect->connecting);
		error = error ? note_failure(reconnect, error) : -EINPROGRESS;
	}
	if (error)
		fill_fault(why, error, "%s", reconnect->why.text[0] ? reconnect->why.text : "still connecting");
	return error;
}

int fathom_reconnect_fd(const struct fathom_reconnect *reconnect)
{
	return reconnect->connecting ? reconnect->connecting->ended_fd : -1;
}

int fathom_reconnect_timeout_ms(const struct fathom_reconnect *reconnect)
{
	uint64_t now = clock_monotonic_ns();

	if (reconnect->connecting)
		return -1;
	return reconnect->due_ns > now ? (int)min_u64((reconnect->due_ns - now) / NS_PER_MS + 1, INT32_MAX) : 0;
}
