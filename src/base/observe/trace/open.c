/* SPDX-License-Identifier: BSD-2-Clause */
/* open - the process's one trace: opening it by options, closing it, and unmapping it in a child of fork(). */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/observe/trace/internal.h"
#include "base/observe/trace/prune.h"

enum { POOL_BYTES_DEFAULT = 8 << 20 };

/* Replace each option that is 0 by its default. */
static struct trace_options with_defaults(const struct trace_options *options)
{
	struct trace_options all = *options;

	if (!all.thread_count)
		all.thread_count = TRACE_THREADS_DEFAULT;
	if (!all.small_thread_count)
		all.small_thread_count = TRACE_SMALL_THREADS_DEFAULT;
	if (!all.io_entries)
		all.io_entries = TRACE_IO_ENTRIES_DEFAULT;
	if (!all.rare_entries)
		all.rare_entries = TRACE_RARE_ENTRIES_DEFAULT;
	if (!all.pool_bytes)
		all.pool_bytes = POOL_BYTES_DEFAULT;
	return all;
}

static int check_entries(uint32_t entries, struct fathom_fault *why)
{
	if (is_power_of_two(entries) && entries >= TRACE_IO_ENTRIES_MIN && entries <= TRACE_IO_ENTRIES_MAX)
		return 0;
	return fault(why, -EINVAL, "trace entries: %u is not a power of two from %u to %u", entries, TRACE_IO_ENTRIES_MIN,
		     TRACE_IO_ENTRIES_MAX);
}

static int check_options(const struct trace_options *options, struct fathom_fault *why)
{
	int rc;

	if (!options->schema)
		return fault(why, -EINVAL, "trace_open() was given no schema: it is in the header that the generator made");
	if (options->schema->abi != TRACE_ABI)
		return fault(why, -EINVAL,
			     "the program's trace points were made for version %u of libfathom-trace, which is %u here",
			     options->schema->abi, TRACE_ABI);
	if (!options->name || !*options->name || strchr(options->name, '/') ||
	    strlen(options->name) >= TRACE_NAME_BYTES_MAX)
		return fault(why, -EINVAL, "the name of a trace has 1 to %d characters and no /", TRACE_NAME_BYTES_MAX - 1);
	rc = check_entries(options->io_entries, why);
	if (rc == 0)
		rc = check_entries(options->rare_entries, why);
	if (rc)
		return rc;
	if (options->thread_count > TRACE_THREADS_MAX || options->small_thread_count > TRACE_THREADS_MAX ||
	    options->thread_count + options->small_thread_count > TRACE_THREADS_MAX)
		return fault(why, -EINVAL, "a trace file has room for %d threads, and %u and %u others are more",
			     TRACE_THREADS_MAX, options->thread_count, options->small_thread_count);
	return 0;
}

static void clear_masks(void)
{
	memset(trace_masks, 0, sizeof(trace_masks));
	memset(trace_filter_masks, 0, sizeof(trace_filter_masks));
}

/* Stop all later calls from writing into the file's memory. Lock held. */
static void forget_file(void)
{
	clear_masks();
	trace_pools_forget();
	trace_strings_moved(NULL);
	memset(&trace_file, 0, sizeof(trace_file));
}

/* Close the file; unmap it unless attached threads still use it. Lock held. */
static void release_file(void)
{
	struct trace_file closed = trace_file;
	bool in_use = trace_threads_live();

	forget_file();
	if (!closed.in_memory) {
		trace_writer_unlock(closed.fd); /* explicitly, because a remaining mapping holds the lock */
		close(closed.fd);
	}
	/* threads that are still attached write into the memory, and read it when they end */
	if (!in_use)
		munmap(closed.memory, closed.bytes);
}

int trace_open(const struct trace_options *of_caller, struct fathom_fault *why_door)
{
	const struct trace_options options = with_defaults(of_caller);
	struct fathom_fault *why = why_door;
	int rc = check_options(&options, why);

	if (rc)
		return rc;
	pthread_mutex_lock(&trace_lock);
	if (trace_file.memory) {
		rc = fault(why, -EBUSY, "this process has a trace open: %s. Call trace_close() first",
			   trace_file.in_memory ? "in memory" : trace_file.path);
		pthread_mutex_unlock(&trace_lock);
		return rc;
	}
	trace_schema_set(options.schema);
	trace_threads_prepare();
	rc = trace_file_make(&options, why);
	if (rc == 0) {
		/* the magic, which makes the file valid, comes after all other contents; then the name */
		atomic_thread_fence(memory_order_release);
		memcpy(trace_file.header->magic, TRACE_MAGIC, sizeof(trace_file.header->magic));
		trace_clock_note();
		rc = trace_file_give_name(&options, why);
		if (rc)
			release_file();
		else if (!options.in_memory)
			trace_heartbeat_start(trace_file.header);
	}
	pthread_mutex_unlock(&trace_lock);
	if (rc)
		return rc;
	rc = options.groups ? trace_mask_set(options.groups, why_door) : 0;
	if (rc)
		trace_close();
	return rc;
}

static bool anything_recorded(void)
{
	for (uint32_t i = 0; i < trace_file.thread_count; i++) {
		for (int kind = 0; kind < TRACE_RINGS_PER_THREAD; kind++) {
			const struct trace_ring *ring =
				(const struct trace_ring *)(trace_file.memory + trace_file.threads[i].ring_offset[kind]);

			if (ring->head)
				return true;
		}
	}
	return false;
}

/*
 * The mapping is replaced, because it would hold the lock after the parent's end. Zeroed memory takes its place: the child
 * may still read requests there.
 */
void trace_leave_to_parent(void)
{
	struct trace_file left = trace_file;

	if (!left.memory)
		return;
	forget_file();
	if (left.in_memory)
		return;
	(void)mmap(left.memory, left.bytes, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		   -1, 0); /* fails only if out of memory; ignored */
	close(left.fd);
}

void trace_close(void)
{
	if (!trace_file.memory)
		return;
	trace_heartbeat_stop();
	trace_clock_note();
	trace_thread_detach();
	pthread_mutex_lock(&trace_lock);
	clear_masks();
	if (!trace_file.in_memory)
		trace_file.process->end_tick = clock_ticks();
	if (!trace_file.in_memory && !anything_recorded())
		unlink(trace_file.path);
	release_file();
	pthread_mutex_unlock(&trace_lock);
}
