/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crash - the signal handler. The addresses of the program and its libraries and the file's name are prepared before. The
 * handler uses only system calls, plain stores, and functions documented as async-signal-safe.
 */
#include "base/observe/trace/crash.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
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
#include "base/signals.h"
#include "base/text.h"
#include "base/observe/trace/crash_report.h"
#include "base/observe/trace/internal.h"

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
	int32_t owner;	 /* the first thread handles its signal; the others wait until the process ends. 0: none has one */
	sigjmp_buf back; /* valid if can_go_back: to where a fault of the handler leads */
	volatile sig_atomic_t can_go_back, more;
	volatile uint32_t part; /* of the report: the next one */
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

bool trace_crash_is_caught(void)
{
	return crash.on;
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

static struct trace_crash_cause cause_of(int number, const siginfo_t *info, const void *context)
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
	return cause;
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

/* What the handler does. Each part may crash, and is then left. */
struct work {
	int number;
	const siginfo_t *info;
	const void *context;
};

static void do_freeze(const struct work *work)
{
	freeze_signal(work->number, work->info, instruction_of(work->context));
}

static void do_note(const struct work *work)
{
	if (crash.note)
		crash.note(work->number, work->info->si_code > 0 ? (uint64_t)(uintptr_t)work->info->si_addr : 0,
			   instruction_of(work->context), (int32_t)syscall(SYS_gettid));
}

static void do_report(const struct work *work)
{
	struct trace_crash_cause cause = cause_of(work->number, work->info, work->context);

	crash.more = trace_crash_report_part(&cause, crash.part++);
}

static void do_part(void (*part)(const struct work *work), const struct work *work)
{
	if (sigsetjmp(crash.back, 1) == 0) {
		crash.can_go_back = 1;
		part(work);
	}
	crash.can_go_back = 0;
}

/* A signal of the thread that is in the handler: a fault of the handler itself. */
static void leave_part(int number, const siginfo_t *info)
{
	const struct sigaction normal = { .sa_handler = SIG_DFL };

	if (info->si_code <= 0 && info->si_pid != getpid())
		return; /* another process sent it: the first signal ends this one in a moment */
	if (crash.can_go_back) {
		crash.can_go_back = 0;
		siglongjmp(crash.back, number);
	}
	sigaction(number, &normal, NULL); /* the fault repeats, and ends the process */
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	const struct sigaction normal = { .sa_handler = SIG_DFL };
	const struct work work = { .number = number, .info = info, .context = context };
	int32_t self = (int32_t)syscall(SYS_gettid), owner = 0;
	sigset_t all;

	if (!__atomic_compare_exchange_n(&crash.owner, &owner, self, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		if (owner == self) {
			leave_part(number, info);
			return;
		}
		for (;;)
			pause(); /* until the process ends */
	}
	do_part(do_freeze, &work);
	do_part(do_note, &work);
	do {
		crash.more = 1; /* also after a part that crashed */
		do_part(do_report, &work);
	} while (crash.more && crash.part < TRACE_CRASH_PARTS_MAX);
	/*
	 * raise it again: delivered with the default action when the handler returns, before the thread's next instruction
	 */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	sigaction(number, &normal, NULL);
	syscall(SYS_rt_tgsigqueueinfo, getpid(), self, number, info);
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
	/* the handler can be interrupted by its own faults only */
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };

	must(!crash.on);
	if (SIGNALS_SANITIZED)
		return;
	signals_give_stack();
	crash.on = true;
	crash.note = note;
	dl_iterate_phdr(note_module, NULL);
	sigfillset(&action.sa_mask);
	sigdelset(&action.sa_mask, SIGSEGV);
	sigdelset(&action.sa_mask, SIGBUS);
	sigdelset(&action.sa_mask, SIGILL);
	sigdelset(&action.sa_mask, SIGFPE);
	for (size_t i = 0; i < ARRAY_COUNT(signals); i++)
		must(sigaction(signals[i].number, &action, NULL) == 0);
}
