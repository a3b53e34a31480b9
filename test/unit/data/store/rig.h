/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rig - reactors, and I/O with functions that wait for it. The test's pthread is a foreign one. If simulated, it also
 * drives the reactors; otherwise the rig starts a pthread for the control reactor.
 *
 * In callbacks on reactors use must(): cmocka's assertions work only on the test's pthread.
 */
#ifndef TEST_UNIT_STORE_RIG_H
#define TEST_UNIT_STORE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>

#include "base/bits.h"
#include "base/random.h"
#include "base/reactor/reactor.h"
#include "data/store/backend/backend.h"
#include "data/store/bdev/bdev.h"

/* Start two data reactors with a thread on each: rig_thread(0) and (1). */
void rig_start(bool simulated);
void rig_stop(void);
/* Fixture of a case: the two reactors, simulated. */
int rig_setup(void **state);
int rig_teardown(void **state);
struct fathom_thread *rig_thread(unsigned int index);

/* Run `fn(ctx)` on `thread` and return when it has returned. */
void rig_on(struct fathom_thread *thread, thread_fn fn, void *ctx);
/* Wait until *count, changed on reactors, is `to`. Simulated time passes meanwhile. */
void rig_wait(const uint32_t *count, uint32_t to);
/* Run the reactors until only timers are left. Simulated only. */
void rig_settle(void);
/* Simulated only. */
void rig_pass_time(uint64_t ns);

/* ---- operations on the control thread, called on the test's pthread ---- */

struct bdev_desc *rig_open(const char *name);
/* As rig_open(); *removed counts removal callbacks. */
struct bdev_desc *rig_open_watched(const char *name, uint32_t *removed);
void rig_close(struct bdev_desc *desc);
void rig_null(const char *name, uint64_t block_count, uint32_t block_bytes);
void rig_malloc(const char *name, uint64_t block_count, uint32_t block_bytes);
int rig_file(const struct file_options *options, struct fathom_fault *why);
/* The same, with a limit of its writes. */
int rig_limited_file(const struct file_options *options, struct space_limit *limit, struct fathom_fault *why);
/* The same as rig_file(), on the control thread. */
int rig_create_file(const struct file_options *options, struct fathom_fault *why);
int rig_register(struct bdev *bdev, struct fathom_fault *why);
/* Delete the bdev and wait until it is gone. */
void rig_delete(const char *name);
/* Delete the bdev without waiting; rig_delete_gone() counts those gone since the last rig_start(). */
void rig_delete_begin(const char *name);
uint32_t rig_delete_gone(void);
struct bdev *rig_find(const char *name);
struct bdev_stats rig_stats(const char *name);

struct bdev_channel *rig_channel_get(struct fathom_thread *thread, struct bdev_desc *desc);
void rig_channel_put(struct fathom_thread *thread, struct bdev_channel *channel);

/* ---- one I/O at a time ---- */

struct rig_io {
	struct bdev_io io; /* must be the first member */
	struct fathom_thread *thread;
	struct bdev_channel *channel;
	enum io_type type;
	struct iovec iov[64];
	int iov_count;
	uint64_t block_index, block_count;
	enum io_status status;
	uint32_t done; /* number of completions */
};

/* `buffer`: one piece; NULL: no buffer. */
void rig_io_init(struct rig_io *io, struct fathom_thread *thread, struct bdev_channel *channel);
void rig_io_begin(struct rig_io *io, enum io_type type, void *buffer, uint64_t block_index, uint64_t block_count);
enum io_status rig_io_end(struct rig_io *io);
enum io_status rig_io(struct fathom_thread *thread, struct bdev_channel *channel, enum io_type type, void *buffer,
		      uint64_t block_index, uint64_t block_count);

#endif
