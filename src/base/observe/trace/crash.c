/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crash - the signal handler. The addresses of the program and its libraries and the file's name are prepared before. The
 * handler uses only system calls, plain stores, and functions documented as async-signal-safe.
 */
#include "base/observe/trace/crash.h"

#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/observe/trace/crash_report.h"
#include "base/observe/trace/internal.h"

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || HAS_FEATURE(address_sanitizer) ||                     \
	HAS_FEATURE(thread_sanitizer)
#define SANITIZED true
#else
#define SANITIZED false
#endif

static const struct {
	int number;
	const char *suffix, *name;
} signals[] = {
	{ SIGSEGV, ".sigsegv", "SIGSEGV" }, { SIGBUS, ".sigbus", "SIGBUS" },	{ SIGILL, ".sigill", "SIGILL" },
	{ SIGFPE, ".sigfpe", "SIGFPE" },    { SIGABRT, ".sigabrt", "SIGABRT" },
};

/* An executable segment of the program or a library. */
struct module {
	uint64_t from, to, base;
	char path[sizeof(((struct trace_frozen *)0)->place)];
};

static struct {
	bool on;
	trace_crash_note_fn note;
	int taken; /* the first thread handles its signal; the others wait until the process ends */
	uint32_t module_count;
	struct module modules[TRACE_CRASH_MODULES_MAX];
} crash;

/* ---- preparation ---- */

static int note_module(struct dl_phdr_info *info, size_t bytes, void *ctx)
{
	for (int i = 0; i < info->dlpi_phnum && crash.module_count < TRACE_CRASH_MODULES_MAX; i++) {
		struct module *module = &crash.modules[crash.module_count];
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type != PT_LOAD || !(header->p_flags & PF_X))
			continue;
		module->base = info->dlpi_addr;
		module->from = module->base + header->p_vaddr;
		module->to = module->from + header->p_memsz;
		(void)text_copy(module->path, sizeof(module->path), info->dlpi_name); /* may be truncated */
		/* the program itself has no name here */
		if (!module->path[0]) {
			if (readlink("/proc/self/exe", module->path, sizeof(module->path) - 1) < 0)
				module->path[0] = '\0';
			trace_crash_symbols_open(module->base);
		}
		crash.module_count++;
	}
	return 0;
}

void trace_crash_stack_give(void)
{
	stack_t stack = { .ss_size = TRACE_CRASH_STACK_BYTES };

	if (!crash.on)
		return;
	stack.ss_sp = mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack.ss_sp == MAP_FAILED)
		return; /* the handler then runs on the thread's own stack */
	if (sigaltstack(&stack, NULL) != 0)
		munmap(stack.ss_sp, stack.ss_size);
}

void trace_crash_stack_take(void)
{
	const stack_t none = { .ss_flags = SS_DISABLE };
	stack_t stack;

	if (crash.on && sigaltstack(&none, &stack) == 0 && !(stack.ss_flags & SS_DISABLE))
		munmap(stack.ss_sp, stack.ss_size);
}

/* ---- in the handler ---- */

static const struct module *find_module(uint64_t address)
{
	for (uint32_t i = 0; i < crash.module_count; i++) {
		if (address >= crash.modules[i].from && address < crash.modules[i].to)
			return &crash.modules[i];
	}
	return NULL;
}

bool trace_crash_module_of(uint64_t address, struct trace_crash_module *module_ret)
{
	const struct module *module = find_module(address);

	if (module)
		*module_ret = (struct trace_crash_module){ module->from, module->to, module->base, module->path };
	return module != NULL;
}

static void copy_text(char *to, size_t to_bytes, const char *from)
{
	size_t at = 0;

	for (; from[at] && at + 1 < to_bytes; at++)
		to[at] = from[at];
	to[at] = '\0';
}

/* Create the file's second name; it replaces one that an earlier process with this pid left. */
static void link_as(const char *suffix)
{
	char path[sizeof(trace_file.path) + 16];
	size_t bytes = strlen(trace_file.path);

	if (!bytes || trace_file.in_memory)
		return;
	copy_text(path, sizeof(path), trace_file.path);
	copy_text(path + bytes, sizeof(path) - bytes, suffix);
	if (link(trace_file.path, path) != 0 && errno == EEXIST) {
		unlink(path);
		(void)!link(trace_file.path, path); /* on failure the file keeps its first name */
	}
}

static uint64_t realtime_ns(void)
{
	struct timespec now = { 0 };

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec;
}

/* Return the file's frozen section to fill; NULL: no file, or the section is already filled. */
static struct trace_frozen *begin_frozen(void)
{
	struct trace_frozen *frozen = trace_file.frozen;

	if (!frozen || trace_file.in_memory || __atomic_load_n(&frozen->tick, __ATOMIC_ACQUIRE) != 0)
		return NULL;
	frozen->tid = (int32_t)syscall(SYS_gettid);
	frozen->realtime_ns = realtime_ns();
	return frozen;
}

static void finish_frozen(struct trace_frozen *frozen, const char *suffix)
{
	__atomic_store_n(&frozen->tick, clock_ticks(), __ATOMIC_RELEASE);
	link_as(suffix);
}

static uint64_t instruction_of(const void *context)
{
	const ucontext_t *there = context;

#if defined(__x86_64__)
	return (uint64_t)there->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return there->uc_mcontext.pc;
#else
	(void)there;
	return 0;
#endif
}

static uint64_t frame_pointer_of(const void *context)
{
	const ucontext_t *there = context;

#if defined(__x86_64__)
	return (uint64_t)there->uc_mcontext.gregs[REG_RBP];
#elif defined(__aarch64__)
	return there->uc_mcontext.regs[29];
#else
	(void)there;
	return 0;
#endif
}

static void report(int number, const siginfo_t *info, const void *context)
{
	struct trace_crash_cause cause = {
		.signal = number,
		.code = info->si_code,
		.signal_name = "signal",
		.tid = (int32_t)syscall(SYS_gettid),
		.sender = info->si_code > 0 ? 0 : info->si_pid,
		.address = (uint64_t)(uintptr_t)info->si_addr,
		.has_address = info->si_code > 0,
		.instruction = instruction_of(context),
		.frame_pointer = frame_pointer_of(context),
	};

	for (size_t i = 0; i < ARRAY_COUNT(signals); i++) {
		if (signals[i].number == number)
			cause.signal_name = signals[i].name;
	}
	trace_crash_report(&cause);
}

static void freeze_signal(int number, const siginfo_t *info, uint64_t instruction)
{
	const struct module *module = find_module(instruction);
	struct trace_frozen *frozen = begin_frozen();

	if (!frozen)
		return;
	frozen->why = TRACE_FROZEN_SIGNAL;
	frozen->signal = (uint32_t)number;
	frozen->code = info->si_code;
	frozen->address = info->si_code > 0 ? (uint64_t)(uintptr_t)info->si_addr
					    : 0; /* else the field holds the sender's pid */
	frozen->instruction = instruction;
	if (module) {
		frozen->offset = instruction - module->base;
		copy_text(frozen->place, sizeof(frozen->place), module->path);
	}
	for (size_t i = 0; i < ARRAY_COUNT(signals); i++) {
		if (signals[i].number == number)
			finish_frozen(frozen, signals[i].suffix);
	}
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	const struct sigaction normal = { .sa_handler = SIG_DFL };
	uint64_t instruction = instruction_of(context);

	while (__atomic_exchange_n(&crash.taken, 1, __ATOMIC_ACQ_REL) != 0)
		pause(); /* all signals are blocked: waits until the process ends */
	freeze_signal(number, info, instruction);
	if (crash.note)
		crash.note(number, info->si_code > 0 ? (uint64_t)(uintptr_t)info->si_addr : 0, instruction,
			   (int32_t)syscall(SYS_gettid));
	report(number, info, context);
	/*
	 * raise it again: delivered with the default action when the handler returns, before the thread's next instruction
	 */
	sigaction(number, &normal, NULL);
	syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), number, info);
}

void trace_crash_must(const char *condition, const char *file, int line)
{
	struct trace_frozen *frozen = begin_frozen();
	char digits[12], *at = digits + sizeof(digits) - 1;
	size_t bytes;

	if (!frozen)
		return;
	frozen->why = TRACE_FROZEN_MUST;
	frozen->signal = SIGABRT;
	copy_text(frozen->text, sizeof(frozen->text), condition);
	for (*at = '\0'; line > 0; line /= 10)
		*--at = (char)('0' + line % 10);
	*--at = ':';
	copy_text(frozen->place, sizeof(frozen->place) - sizeof(digits), file);
	bytes = strlen(frozen->place);
	copy_text(frozen->place + bytes, sizeof(frozen->place) - bytes, at);
	finish_frozen(frozen, ".must");
}

void trace_crash_catch(trace_crash_note_fn note)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	must(!crash.on);
	if (SANITIZED)
		return;
	crash.on = true;
	crash.note = note;
	dl_iterate_phdr(note_module, NULL);
	sigfillset(&action.sa_mask);
	for (size_t i = 0; i < ARRAY_COUNT(signals); i++)
		must(sigaction(signals[i].number, &action, NULL) == 0);
}
