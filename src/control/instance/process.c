/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine's process. It has its own session, standard descriptors and environment and none of our descriptors, so the
 * end of the server does not affect it. The server watches and signals it by a descriptor (pidfd): its number may be
 * reused.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/inject/inject.h"
#include "control/fault/fault.h"
#include "control/instance/internal.h"
#include "control/instance/probes.gen.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

/* ---- its end ---- */

/* `status_ret` as of waitpid(); -1: unknown. False: it has not ended. */
static bool reap_process(const struct instance_process *process, int *status_ret)
{
	siginfo_t info = { .si_pid = 0 };
	int rc;

	do
		rc = waitid((idtype_t)P_PIDFD, (id_t)process->pid_fd, &info, WEXITED | WNOHANG);
	while (rc != 0 && errno == EINTR);
	if (rc != 0) {
		*status_ret = -1; /* an adopted process is not our child */
		return true;
	}
	if (info.si_pid == 0)
		return false;
	*status_ret = info.si_code == CLD_EXITED ? info.si_status << 8
						 : info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
	return true;
}

static bool is_crash(int status)
{
	static const int signals[] = { SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS };

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		if (WTERMSIG(status) == signals[i])
			return true;
	}
	return WCOREDUMP(status);
}

static enum instance_cause find_end_cause(const struct instance_process *process, int status)
{
	bool by_us = status == -1 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

	if (process->given_up.error && by_us) /* else it ended before our SIGKILL */
		return process->given_up_cause;
	if (process->self_terminated)
		return INSTANCE_SELF_TERMINATED;
	if (status == -1)
		return INSTANCE_GONE;
	if (WIFEXITED(status))
		return WEXITSTATUS(status) == 0 ? INSTANCE_EXITED : INSTANCE_FAILED;
	return is_crash(status) ? INSTANCE_CRASHED : INSTANCE_KILLED;
}

static void describe_end(const struct instance_process *process, enum instance_cause cause, int status, char *how)
{
	if (cause == INSTANCE_NEVER_READY || cause == INSTANCE_HUNG)
		snprintf(how, INSTANCE_END_BYTES, "%.100s", process->given_up.text);
	else if (cause == INSTANCE_SELF_TERMINATED)
		snprintf(how, INSTANCE_END_BYTES, "it left because its rank was excluded");
	else if (status == -1)
		snprintf(how, INSTANCE_END_BYTES, "process %d has gone", process->pid);
	else if (WIFEXITED(status))
		snprintf(how, INSTANCE_END_BYTES, "exit status %d", WEXITSTATUS(status));
	else
		snprintf(how, INSTANCE_END_BYTES, "killed by signal %d%s", WTERMSIG(status),
			 WCOREDUMP(status) ? ", core dumped" : "");
}

static void forget_ready(struct instance *instance)
{
	if (instance->ready)
		srv__notify_ready_req__free_unpacked(instance->ready, NULL);
	instance->ready = NULL;
}

void instance_process_forget(struct instance *instance)
{
	struct instance_process *process = &instance->process;

	fd_watch_remove(&process->watch);
	if (process->pid_fd >= 0)
		close(process->pid_fd);
	*process = (struct instance_process){ .pid_fd = -1 };
	instance_forget_early(instance);
	forget_ready(instance);
}

static void on_process_ended(void *ctx, uint32_t events)
{
	struct instance *instance = ctx;
	struct instance_process *process = &instance->process;
	uint64_t incarnation = instance->ready ? instance->ready->incarnation : 0;
	bool asked = instance->state == INSTANCE_STOPPING;
	enum instance_cause cause;
	pid_t pid = process->pid;
	char how[INSTANCE_END_BYTES];
	int status;

	instance_check(instance);
	must(pid > 0);
	if (!reap_process(process, &status))
		return;
	instance_storage_process_ended(instance);
	instance->hooks.gone(instance->hooks.ctx, instance); /* collects its last events, maybe engine_self_terminated */
	cause = find_end_cause(process, status);
	describe_end(process, cause, status, how);
	if (cause == INSTANCE_FAILED)
		instance_describe_end(instance, (uint64_t)pid, how);
	memcpy(instance->last_end, how, sizeof(how));
	probe_instance_ended(reactor_now(), instance, pid, cause, status, asked);
	if (asked || process->recorded_incarnation == 0)
		instance_remove_pid_file(instance);
	instance_drop_group(instance);
	if (asked) {
		instance->why.error = 0; /* engine_unkillable does not apply any more */
		instance_process_forget(instance);
		deadline_clear(&instance->deadlines, &instance->limit);
		instance_stop_next(instance);
	} else {
		struct fathom_fault given_up = process->given_up;

		instance_process_forget(instance);
		if (cause == INSTANCE_NEVER_READY || cause == INSTANCE_HUNG)
			process->given_up = given_up;
		instance_died(instance, cause, how, pid, incarnation);
		process->given_up.error = 0;
	}
}

/* ---- signals ---- */

void instance_signal(struct instance *instance, int signal)
{
	struct provider *os = instance->options.os;

	must(instance->process.pid > 0);
	/* if it has ended, the pidfd reports that; if we may not signal it, the time-out follows */
	(void)!os->calls->signal_process(os, instance->process.pid_fd, signal);
}

void instance_give_up(struct instance *instance, const struct fathom_fault *why, enum instance_cause cause)
{
	must(why->error < 0);
	must(instance->process.pid > 0);
	if (instance->process.given_up.error)
		return;
	instance->process.given_up = *why;
	instance->process.given_up_cause = cause;
	instance->why = *why;
	instance_kill(instance);
}

int instance_process_take(struct instance *instance, pid_t pid, int pid_fd)
{
	struct instance_process *process = &instance->process;

	must(process->pid == 0);
	must(pid > 0);
	must(pid_fd >= 0);
	must(!instance->ready);
	*process = (struct instance_process){ .pid = pid, .pid_fd = pid_fd };
	process->watch = fd_watch_add(pid_fd, EPOLLIN, on_process_ended, instance);
	if (process->watch)
		return 0;
	instance_process_forget(instance);
	return errno ? -errno : -ENOMEM;
}

/* ---- starting ---- */

static int start_process(struct instance *instance, pid_t *pid_ret)
{
	struct provider *os = instance->options.os;
	struct instance_words words;
	int error = inject(INJECT_ENGINE_START);

	if (!error)
		error = instance_words_make(instance, &words);
	if (error)
		return error;
	instance_remove_end_report(instance);
	error = os->calls->start(os, words.argv, words.env, instance->options.log_file, pid_ret);
	instance_words_free(&words);
	return error;
}

/* Kill a child that we cannot monitor. */
static int watch_or_kill(struct instance *instance, pid_t pid)
{
	struct provider *os = instance->options.os;
	int pid_fd = os->calls->open_process(os, pid), error = pid_fd < 0 ? pid_fd : 0;

	if (!error)
		error = instance_process_take(instance, pid, pid_fd);
	if (!error) {
		error = instance_write_pid_file(instance);
		if (!error)
			return 0;
		instance_process_forget(instance);
	}
	(void)kill(pid, SIGKILL); /* our child, and not waited for yet, so its pid is not reused */
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return error;
}

static void on_ready_timeout(struct deadline *deadline)
{
	struct instance *instance = container_of(deadline, struct instance, limit);
	struct fathom_fault why;

	instance_check(instance);
	must(instance->state == INSTANCE_STARTING);
	fill_fault_engine_not_ready(&why, instance->options.index,
				    (uint32_t)(instance->options.ready_timeout_ns / NS_PER_SEC),
				    instance_log(instance)); /* reported */
	instance_give_up(instance, &why, INSTANCE_NEVER_READY);
}

void instance_limit_start(struct instance *instance)
{
	must(instance->state == INSTANCE_STARTING);
	deadline_set(&instance->deadlines, &instance->limit, instance->options.ready_timeout_ns, on_ready_timeout);
}

void instance_spawn(struct instance *instance)
{
	enum instance_cause cause = INSTANCE_FAILED;
	struct fathom_fault why;
	pid_t pid;
	int error;

	/* never two engines on one storage, and none without a superblock */
	must(instance->state == INSTANCE_CHECKING);
	must(instance->process.pid == 0);
	must(instance->has_superblock);
	error = start_process(instance, &pid);
	if (!error)
		error = watch_or_kill(instance, pid);
	if (error) {
		bool passes = error == -ENOMEM || error == -EAGAIN || error == -EMFILE || error == -ENFILE;

		fill_fault_engine_not_started(&why, instance->options.program, strerror(-error)); /* reported */
		instance_fail(instance, &why, passes ? &cause : NULL);
		return;
	}
	instance->starts++;
	probe_instance_started(reactor_now(), instance, pid);
	instance_move(instance, INSTANCE_STARTING);
	instance_limit_start(instance);
}
