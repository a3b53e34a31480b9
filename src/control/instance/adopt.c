/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Is there an engine already? Whoever listens at its socket is asked who he is; his process is taken by a descriptor, and
 * he is asked again: the same answer from the same process says that the descriptor is his, and no later bearer's of his
 * number. Only the engine of our superblock, of our instance, is taken up. Anybody else there is a fault: we neither kill
 * him nor start one beside him.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/instance/internal.h"
#include "control/instance/probes.gen.h"

static void describe(struct instance *instance);

void instance_forget_described(struct instance *instance)
{
	if (instance->described)
		fathom__describe_resp__free_unpacked(instance->described, NULL);
	instance->described = NULL;
	if (instance->described_fd > 0)
		close(instance->described_fd);
	instance->described_fd = 0;
}

/* ---- nobody is there ---- */

static void forget_heard(struct instance *instance)
{
	if (instance->heard)
		srv__notify_ready_req__free_unpacked(instance->heard, NULL);
	instance->heard = NULL;
}

static void nobody(struct instance *instance)
{
	bool stop = instance_waits(instance, INSTANCE_DO_STOP) && !instance_waits(instance, INSTANCE_DO_START);

	forget_heard(instance);
	instance->hooks.gone(instance->hooks.ctx, instance);
	instance_tell_noted(instance);
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

/* ---- somebody is, and is not ours ---- */

static void foreign(struct instance *instance, const char *reason)
{
	struct fault why;

	(void)!fault_engine_foreign(&why, instance->options.index, instance->socket_path, reason); /* reported */
	instance_answer_all(instance, INSTANCE_DO_STOP, &why); /* nobody can say that it does not run */
	instance_fail(instance, &why, NULL);
}

/* It is to be stopped, and cannot be asked. What a server has started and noted is ours, whatever it does. */
static bool stop_noted(struct instance *instance)
{
	pid_t pid;
	int pid_fd;

	if (!instance_waits(instance, INSTANCE_DO_STOP) || instance_waits(instance, INSTANCE_DO_START) ||
	    instance_noted_open(instance, &pid, &pid_fd) != 0)
		return false;
	if (instance_process_take(instance, pid, pid_fd) != 0)
		return false;
	instance->process.adopted = true;
	instance->mounted = instance->options.storage == INSTANCE_STORAGE_DEVICE; /* it stands on it */
	probe_instance_adopted(reactor_now(), instance, pid, 0);
	instance->why.error = 0;
	instance_answer_all(instance, INSTANCE_DO_LOOK, NULL);
	instance_begin_stopping(instance, false);
	return true;
}

static void silent(struct instance *instance)
{
	enum instance_cause cause = INSTANCE_FAILED;
	bool start = instance->purpose == INSTANCE_DO_START;
	struct fault why;

	if (stop_noted(instance))
		return;
	(void)!fault_engine_silent(&why, instance->options.index, instance->socket_path); /* reported */
	instance_answer_all(instance, INSTANCE_DO_STOP, &why);				  /* something runs there */
	instance_fail(instance, &why, start ? &cause : NULL);
}

static void look_again(struct deadline *deadline)
{
	struct instance *instance = container_of(deadline, struct instance, again);

	describe(instance);
}

/* It changed while we looked: an engine that ends, or begins. */
static void unsteady(struct instance *instance)
{
	instance_forget_described(instance);
	if (++instance->tries >= INSTANCE_TRIES_MAX)
		silent(instance);
	else
		deadline_set(&instance->deadlines, &instance->again, INSTANCE_AGAIN_MS * NS_PER_MS, look_again);
}

static void never_listens(struct deadline *deadline)
{
	silent(container_of(deadline, struct instance, limit));
}

/* A server before us has started it just now: it will listen. */
static void not_yet(struct instance *instance)
{
	instance_forget_described(instance);
	if (!instance->limit.set)
		deadline_set(&instance->deadlines, &instance->limit, instance->options.ready_timeout_ns, never_listens);
	deadline_set(&instance->deadlines, &instance->again, INSTANCE_AGAIN_MS * NS_PER_MS / 10, look_again);
}

/* ---- it is ours ---- */

static void refuse_requests(struct instance *instance)
{
	struct fault why;

	(void)!fault_engine_running(&why, instance->options.index, "formatting"); /* reported */
	instance_answer_all(instance, INSTANCE_DO_FORMAT, &why);
	(void)!fault_engine_running(&why, instance->options.index, "erasing");
	instance_answer_all(instance, INSTANCE_DO_ERASE, &why);
}

/* Where it stands, we go on. */
static void go_on(struct instance *instance, const Fathom__DescribeResp *is)
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

static void adopt(struct instance *instance, const Fathom__DescribeResp *is, pid_t pid)
{
	int pid_fd = instance->described_fd, error;

	instance->described_fd = 0;
	error = instance_process_take(instance, pid, pid_fd);
	if (error) {
		foreign(instance, strerror(-error));
		return;
	}
	instance->process.adopted = true;
	instance->mounted = instance->options.storage == INSTANCE_STORAGE_DEVICE; /* it stands on it */
	probe_instance_adopted(reactor_now(), instance, pid, is->ready ? is->ready->incarnation : 0);
	refuse_requests(instance);
	instance_answer_all(instance, INSTANCE_DO_LOOK, NULL);
	go_on(instance, is);
}

/* Whose engine is it? */
static void check_identity(struct instance *instance, const Fathom__DescribeResp *is, pid_t pid)
{
	uint8_t uuid[MEMBER_UUID_BYTES];
	struct fault why;
	int error;

	if (is->ready && is->ready->instanceidx != instance->options.index) {
		foreign(instance, "it is another instance's");
		return;
	}
	if (member_uuid_parse(is->uuid, uuid) != 0) {
		foreign(instance, "it has no UUID");
		return;
	}
	error = instance_read_superblock(instance, &why);
	if (error == -ENOENT)
		foreign(instance, "there is no superblock for it");
	else if (error)
		instance_fail(instance, &why, NULL);
	else if (memcmp(uuid, instance->superblock.uuid, sizeof(uuid)) != 0)
		foreign(instance, "its UUID is another one than that of the superblock");
	else
		adopt(instance, is, pid);
}

static bool is_same(const struct instance *instance, const Fathom__DescribeResp *is, pid_t pid)
{
	const Fathom__DescribeResp *was = instance->described;
	uint64_t before = was->ready ? was->ready->incarnation : 0;

	return pid == instance->described_pid && is->pid == was->pid && strcmp(is->uuid, was->uuid) == 0 &&
	       (before == 0 || (is->ready && is->ready->incarnation == before));
}

static Fathom__DescribeResp *copy(const struct drpc_result *result)
{
	return fathom__describe_resp__unpack(NULL, result->body_bytes, result->body);
}

static void first_answer(struct instance *instance, const struct drpc_result *result)
{
	struct provider *os = instance->options.os;
	int fd = os->calls->open_process(os, result->peer.pid);

	if (fd < 0) {
		unsteady(instance);
		return;
	}
	must(fd > 0);
	instance->described_fd = fd;
	instance->described_pid = result->peer.pid;
	instance->described = copy(result);
	must(instance->described);
	describe(instance);
}

static void described(struct instance *instance, const struct drpc_result *result)
{
	const Fathom__DescribeResp *is = (const Fathom__DescribeResp *)result->response;
	bool nobody_there;

	must(instance->state == INSTANCE_ADOPTING);
	nobody_there = result->error == -ENOENT || result->error == -ECONNREFUSED || result->error == -ENOTDIR;
	if (nobody_there && instance_noted_lives(instance)) {
		not_yet(instance);
	} else if (nobody_there) {
		instance_forget_described(instance);
		nobody(instance);
	} else if (result->error == -ETIMEDOUT) {
		silent(instance);
	} else if (result->error == -EPROTO) {
		foreign(instance, "it does not speak as an engine does");
	} else if (result->error) {
		unsteady(instance);
	} else if (result->status != DRPC_SUCCESS || !is) {
		foreign(instance, "it does not say who it is");
	} else if (!instance->described) {
		first_answer(instance, result);
	} else if (!is_same(instance, is, result->peer.pid)) {
		unsteady(instance);
	} else {
		check_identity(instance, is, result->peer.pid);
	}
}

static void describe(struct instance *instance)
{
	instance_ask_engine(instance, DRPC_MODULE_FATHOM, DRPC_FATHOM_DESCRIBE, NULL, &fathom__describe_resp__descriptor,
			    instance->options.answer_timeout_ns, described);
}

void instance_look(struct instance *instance)
{
	must(instance->state == INSTANCE_ADOPTING);
	describe(instance);
}
