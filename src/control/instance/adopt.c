/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds a running engine and adopts it. The process that listens at the socket is sent DESCRIBE; its process is opened
 * (pidfd), and DESCRIBE is sent again. The same answer from the same process proves that the pidfd is not that of a later
 * process with a reused pid. Only an engine with the UUID of the superblock and the index of this instance is adopted. Any
 * other process there is a fault: the server neither kills it nor starts an engine beside it.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/instance/internal.h"
#include "control/instance/probes.gen.h"

static void send_describe(struct instance *instance);

void instance_forget_described(struct instance *instance)
{
	if (instance->described)
		fathom__describe_resp__free_unpacked(instance->described, NULL);
	instance->described = NULL;
	if (instance->described_fd > 0)
		close(instance->described_fd);
	instance->described_fd = 0;
}

/* ---- no engine runs ---- */

static void forget_heard(struct instance *instance)
{
	if (instance->heard)
		srv__notify_ready_req__free_unpacked(instance->heard, NULL);
	instance->heard = NULL;
}

static void handle_no_engine(struct instance *instance)
{
	bool stop = instance_waits(instance, INSTANCE_DO_STOP) && !instance_waits(instance, INSTANCE_DO_START);

	forget_heard(instance);
	instance->hooks.gone(instance->hooks.ctx, instance);
	instance_raise_recorded_death(instance);
	instance_answer_all(instance, INSTANCE_DO_LOOK, NULL);
	switch (instance->purpose) {
	case INSTANCE_DO_STOP:
		instance->why.error = 0;
		instance_begin_stopping(instance, false);
		break;
	case INSTANCE_DO_FORMAT:
		instance_answer_all(instance, INSTANCE_DO_STOP, NULL); /* it does not run */
		instance->purpose = stop ? INSTANCE_DO_STOP : INSTANCE_DO_FORMAT;
		instance_move(instance, INSTANCE_FORMATTING);
		instance_do_format(instance);
		break;
	case INSTANCE_DO_LOOK:
		instance_restore(instance);
		break;
	default:
		instance_move(instance, INSTANCE_CHECKING);
		instance_check_storage(instance);
		break;
	}
}

/* ---- a process runs that cannot be adopted ---- */

static void fail_foreign(struct instance *instance, const char *reason)
{
	struct fathom_fault why;

	fill_fault_engine_foreign(&why, instance->options.index, instance->socket_path, reason); /* reported */
	instance_answer_all(instance, INSTANCE_DO_STOP, &why); /* unknown whether the engine runs */
	instance_fail(instance, &why, NULL);
}

/*
 * The engine is to be stopped and does not answer. A server of this host started the process of the pid file, so it may be
 * stopped without an answer. False: no stop is requested, or there is no such process.
 */
static bool stop_recorded_process(struct instance *instance)
{
	pid_t pid;
	int pid_fd;

	if (!instance_waits(instance, INSTANCE_DO_STOP) || instance_waits(instance, INSTANCE_DO_START) ||
	    instance_open_pid_file_process(instance, &pid, &pid_fd) != 0)
		return false;
	if (instance_process_take(instance, pid, pid_fd) != 0)
		return false;
	instance->process.adopted = true;
	instance->mounted = instance->options.storage == INSTANCE_STORAGE_DEVICE; /* the engine has it open */
	probe_instance_adopted(reactor_now(), instance, pid, 0);
	instance->why.error = 0;
	instance_answer_all(instance, INSTANCE_DO_LOOK, NULL);
	instance_begin_stopping(instance, false);
	return true;
}

static void fail_silent(struct instance *instance)
{
	enum instance_cause cause = INSTANCE_FAILED;
	bool start = instance->purpose == INSTANCE_DO_START;
	struct fathom_fault why;

	if (stop_recorded_process(instance))
		return;
	fill_fault_engine_silent(&why, instance->options.index, instance->socket_path); /* reported */
	instance_answer_all(instance, INSTANCE_DO_STOP, &why);				/* a process listens there */
	instance_fail(instance, &why, start ? &cause : NULL);
}

static void describe_again(struct deadline *deadline)
{
	struct instance *instance = container_of(deadline, struct instance, again);

	send_describe(instance);
}

/* The two answers differ, or the process has ended: an engine is ending or starting. */
static void retry_describe(struct instance *instance)
{
	instance_forget_described(instance);
	if (++instance->tries >= INSTANCE_TRIES_MAX)
		fail_silent(instance);
	else
		deadline_set(&instance->deadlines, &instance->again, INSTANCE_AGAIN_MS * NS_PER_MS, describe_again);
}

static void on_listen_timeout(struct deadline *deadline)
{
	fail_silent(container_of(deadline, struct instance, limit));
}

/* An earlier server has just started it: it does not listen yet. */
static void wait_for_listen(struct instance *instance)
{
	instance_forget_described(instance);
	if (!instance->limit.set)
		deadline_set(&instance->deadlines, &instance->limit, instance->options.ready_timeout_ns, on_listen_timeout);
	deadline_set(&instance->deadlines, &instance->again, INSTANCE_AGAIN_MS * NS_PER_MS / 10, describe_again);
}

/* ---- it is ours ---- */

static void reject_storage_calls(struct instance *instance)
{
	struct fathom_fault why;

	fill_fault_engine_running(&why, instance->options.index, "formatting"); /* reported */
	instance_answer_all(instance, INSTANCE_DO_FORMAT, &why);
	fill_fault_engine_running(&why, instance->options.index, "erasing");
	instance_answer_all(instance, INSTANCE_DO_ERASE, &why);
}

/* Continue in the state that the engine reports. */
static void continue_adopted(struct instance *instance, const Fathom__DescribeResp *is)
{
	Srv__NotifyReadyReq *ready = is->ready ? instance_copy_ready(is->ready) : NULL;
	bool has_said = instance->heard && instance->heard_pid == instance->process.pid;
	bool stop = instance_waits(instance, INSTANCE_DO_STOP) || is->state == FATHOM__DESCRIBE_RESP__STATE__DRAINING;

	instance->process.serving = is->state == FATHOM__DESCRIBE_RESP__STATE__SERVING;
	instance->process.prepared = is->state == FATHOM__DESCRIBE_RESP__STATE__DRAINING;
	instance->why.error = 0;
	instance->group_version = is->map_version;
	if (stop) {
		instance->ready = ready;
		instance_begin_stopping(instance, false);
	} else if (ready && (is->state != FATHOM__DESCRIBE_RESP__STATE__STARTING || has_said)) {
		instance_became_ready(instance, ready);
	} else {
		if (ready)
			srv__notify_ready_req__free_unpacked(ready, NULL);
		instance_move(instance, INSTANCE_STARTING);
		instance_limit_start(instance);
	}
	forget_heard(instance);
}

static void adopt_engine(struct instance *instance, const Fathom__DescribeResp *is, pid_t pid)
{
	int pid_fd = instance->described_fd, error;

	instance->described_fd = 0;
	error = instance_process_take(instance, pid, pid_fd);
	if (error) {
		fail_foreign(instance, strerror(-error));
		return;
	}
	instance->process.adopted = true;
	instance->mounted = instance->options.storage == INSTANCE_STORAGE_DEVICE; /* the engine has it open */
	probe_instance_adopted(reactor_now(), instance, pid, is->ready ? is->ready->incarnation : 0);
	reject_storage_calls(instance);
	instance_answer_all(instance, INSTANCE_DO_LOOK, NULL);
	continue_adopted(instance, is);
}

/* Adopt it if it has the index of this instance and the UUID of the superblock. */
static void check_identity(struct instance *instance, const Fathom__DescribeResp *is, pid_t pid)
{
	uint8_t uuid[MEMBER_UUID_BYTES];
	struct fathom_fault why;
	int error;

	if (is->ready && is->ready->instanceidx != instance->options.index) {
		fail_foreign(instance, "it is another instance's");
		return;
	}
	if (member_uuid_parse(is->uuid, uuid) != 0) {
		fail_foreign(instance, "it has no UUID");
		return;
	}
	error = instance_read_superblock(instance, &why);
	if (error == -ENOENT)
		fail_foreign(instance, "there is no superblock for it");
	else if (error)
		instance_fail(instance, &why, NULL);
	else if (memcmp(uuid, instance->superblock.uuid, sizeof(uuid)) != 0)
		fail_foreign(instance, "its UUID is another one than that of the superblock");
	else
		adopt_engine(instance, is, pid);
}

static bool is_same_engine(const struct instance *instance, const Fathom__DescribeResp *is, pid_t pid)
{
	const Fathom__DescribeResp *was = instance->described;
	uint64_t before = was->ready ? was->ready->incarnation : 0;

	return pid == instance->described_pid && is->pid == was->pid && strcmp(is->uuid, was->uuid) == 0 &&
	       (before == 0 || (is->ready && is->ready->incarnation == before));
}

static Fathom__DescribeResp *copy_described(const struct drpc_result *result)
{
	return fathom__describe_resp__unpack(NULL, result->body_bytes, result->body);
}

static void keep_first_answer(struct instance *instance, const struct drpc_result *result)
{
	struct provider *os = instance->options.os;
	int fd = os->calls->open_process(os, result->peer.pid);

	if (fd < 0) {
		retry_describe(instance);
		return;
	}
	must(fd > 0);
	instance->described_fd = fd;
	instance->described_pid = result->peer.pid;
	instance->described = copy_described(result);
	must(instance->described);
	send_describe(instance);
}

static void on_described(struct instance *instance, const struct drpc_result *result)
{
	const Fathom__DescribeResp *is = (const Fathom__DescribeResp *)result->response;
	bool nobody_there;

	must(instance->state == INSTANCE_ADOPTING);
	nobody_there = result->error == -ENOENT || result->error == -ECONNREFUSED || result->error == -ENOTDIR;
	if (nobody_there && instance_pid_file_process_lives(instance)) {
		wait_for_listen(instance);
	} else if (nobody_there) {
		instance_forget_described(instance);
		handle_no_engine(instance);
	} else if (result->error == -ETIMEDOUT) {
		fail_silent(instance);
	} else if (result->error == -EPROTO) {
		fail_foreign(instance, "it does not speak as an engine does");
	} else if (result->error) {
		retry_describe(instance);
	} else if (result->status != DRPC_SUCCESS || !is) {
		fail_foreign(instance, "it does not say who it is");
	} else if (!instance->described) {
		keep_first_answer(instance, result);
	} else if (!is_same_engine(instance, is, result->peer.pid)) {
		retry_describe(instance);
	} else {
		check_identity(instance, is, result->peer.pid);
	}
}

static void send_describe(struct instance *instance)
{
	instance_ask_engine(instance,
			    &(struct drpc_request){
				    .module = DRPC_MODULE_FATHOM,
				    .method = DRPC_FATHOM_DESCRIBE,
				    .message = NULL,
				    .response = &fathom__describe_resp__descriptor,
				    .timeout_ns = instance->options.answer_timeout_ns,
			    },
			    on_described);
}

void instance_find_engine(struct instance *instance)
{
	must(instance->state == INSTANCE_ADOPTING);
	send_describe(instance);
}
