/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/signals.h"

#include <pthread.h>
#include <sys/mman.h>

#include "base/must.h"

static pthread_key_t stack_key;
static pthread_once_t stack_once = PTHREAD_ONCE_INIT;

void signals_of_others(sigset_t *signals_ret)
{
	sigfillset(signals_ret);
	sigdelset(signals_ret, SIGSEGV);
	sigdelset(signals_ret, SIGBUS);
	sigdelset(signals_ret, SIGILL);
	sigdelset(signals_ret, SIGFPE);
	sigdelset(signals_ret, SIGABRT);
}

static void free_stack(void *stack)
{
	const stack_t none = { .ss_flags = SS_DISABLE };

	if (sigaltstack(&none, NULL) == 0)
		munmap(stack, SIGNALS_STACK_BYTES);
}

static void make_key(void)
{
	must(pthread_key_create(&stack_key, free_stack) == 0);
}

void signals_give_stack(void)
{
	stack_t stack = { .ss_size = SIGNALS_STACK_BYTES }, before;

	if (SIGNALS_SANITIZED || sigaltstack(NULL, &before) != 0 || !(before.ss_flags & SS_DISABLE))
		return;
	must(pthread_once(&stack_once, make_key) == 0);
	stack.ss_sp = mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack.ss_sp == MAP_FAILED)
		return;
	if (sigaltstack(&stack, NULL) != 0 || pthread_setspecific(stack_key, stack.ss_sp) != 0)
		free_stack(stack.ss_sp);
}
