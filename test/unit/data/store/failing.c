/* SPDX-License-Identifier: BSD-2-Clause */
#include "failing.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "base/reactor/reactor.h"
#include "data/store/backend/file_internal.h"
#include "data/store/bdev/bdev.h"

enum { HELD_MAX = 256, BLOCK_BYTES = 512 };

static struct {
	bool counting;
	enum failing_kind kind;
	uint32_t left; /* allocations until one fails; 0: it has failed */
	void *held[HELD_MAX];
	uint32_t held_count;
} failing;

bool failing_no_direct_rules;
uint32_t failing_direct_offset;

void failing_begin(enum failing_kind kind, uint32_t n)
{
	must(!failing.counting);
	must(n > 0);
	failing.counting = true;
	failing.kind = kind;
	failing.left = n;
}

bool failing_end(void)
{
	must(failing.counting);
	failing.counting = false;
	return failing.left == 0;
}

uint32_t failing_held(void)
{
	return failing.held_count;
}

/* Count an allocation; true: it must fail. */
static bool fails(void)
{
	if (!failing.counting)
		return false;
	if (failing.left == 0)
		return failing.kind == FAILING_LONG;
	return --failing.left == 0;
}

static void *hold(void *memory)
{
	if (failing.counting && memory && memory != MAP_FAILED) {
		must(failing.held_count < HELD_MAX);
		failing.held[failing.held_count++] = memory;
	}
	return memory;
}

static void *release(void *memory)
{
	for (uint32_t i = 0; memory && i < failing.held_count; i++) {
		if (failing.held[i] == memory) {
			failing.held[i] = failing.held[--failing.held_count];
			break;
		}
	}
	return memory;
}

/* ---- allocations that fail ---- */

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *memory);
void __wrap_free(void *memory);
void *__real_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *memory, size_t bytes);
int __wrap_munmap(void *memory, size_t bytes);

static void *ended(void)
{
	errno = ENOMEM;
	return NULL;
}

void *__wrap_malloc(size_t bytes)
{
	return fails() ? ended() : hold(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	return fails() ? ended() : hold(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *memory, size_t bytes)
{
	return fails() ? ended() : __real_realloc(release(memory), bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
	return fails() ? ended() : hold(__real_aligned_alloc(alignment, bytes));
}

void __wrap_free(void *memory)
{
	__real_free(release(memory));
}

void *__wrap_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	void *memory;

	if (fails()) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	memory = __real_mmap64(at, bytes, protection, flags, fd, offset);
	return protection == PROT_READ ? memory : hold(memory); /* bdev_zeroes() is never unmapped */
}

int __wrap_munmap(void *memory, size_t bytes)
{
	return __real_munmap(release(memory), bytes);
}

/* ---- calls that end the program when out of memory, by contract ---- */

void *__real_fathom_trace_pool_create(const struct trace_pool_spec *spec);
void *__wrap_fathom_trace_pool_create(const struct trace_pool_spec *spec);
void __real_fathom_trace_pool_destroy(void *memory);
void __wrap_fathom_trace_pool_destroy(void *memory);
const struct trace_istr *__real_fathom_trace_intern(const char *text);
const struct trace_istr *__wrap_fathom_trace_intern(const char *text);
void __real_device_register(void *device, channel_create_fn create, channel_destroy_fn destroy, size_t ctx_bytes,
			    const char *name);
void __wrap_device_register(void *device, channel_create_fn create, channel_destroy_fn destroy, size_t ctx_bytes,
			    const char *name);
void __real_thread_send_msg(struct fathom_thread *thread, thread_fn fn, void *ctx);
void __wrap_thread_send_msg(struct fathom_thread *thread, thread_fn fn, void *ctx);

/* Stop counting. Return whether it was on. */
static bool pause_counting(void)
{
	bool was = failing.counting;

	failing.counting = false;
	return was;
}

void *__wrap_fathom_trace_pool_create(const struct trace_pool_spec *spec)
{
	bool was = pause_counting();
	void *memory = __real_fathom_trace_pool_create(spec);

	failing.counting = was;
	return hold(memory);
}

void __wrap_fathom_trace_pool_destroy(void *memory)
{
	__real_fathom_trace_pool_destroy(release(memory));
}

const struct trace_istr *__wrap_fathom_trace_intern(const char *text)
{
	bool was = pause_counting();
	const struct trace_istr *name = __real_fathom_trace_intern(text);

	failing.counting = was;
	return name;
}

void __wrap_device_register(void *device, channel_create_fn create, channel_destroy_fn destroy, size_t ctx_bytes,
			    const char *name)
{
	bool was = pause_counting();

	__real_device_register(device, create, destroy, ctx_bytes, name);
	failing.counting = was;
}

void __wrap_thread_send_msg(struct fathom_thread *thread, thread_fn fn, void *ctx)
{
	bool was = pause_counting();

	__real_thread_send_msg(thread, fn, ctx);
	failing.counting = was;
}

/* ---- calls whose answer a test can change ---- */

bool __real_file_direct_rules(int fd, struct direct_rules *rules_ret);
bool __wrap_file_direct_rules(int fd, struct direct_rules *rules_ret);

bool __wrap_file_direct_rules(int fd, struct direct_rules *rules_ret)
{
	if (failing_direct_offset) {
		*rules_ret = (struct direct_rules){ BLOCK_BYTES, failing_direct_offset };
		return true;
	}
	return !failing_no_direct_rules && __real_file_direct_rules(fd, rules_ret);
}
