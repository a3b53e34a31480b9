/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attachments: volumes that this host has as block devices. docs/states.md draws the machine.
 *
 *     ATTACH:  publish -> record, connect, wait for the device, link -> attached. A failure withdraws all of it,
 *              until the service has confirmed that the volume is not published.
 *     start:   for each record the same. If no server answers, the recorded addresses are connected: the engine knows the
 *              host from the time when the volume was published. A failure is tried again, for ever.
 *     DETACH:  mark the record, disconnect -> unpublish -> remove the record. What a kill interrupts, the next start ends.
 *     attached: if no connection is live, publish again: the volume may have other addresses. But if it was taken from
 *              this host, by an eviction or by unpublish, it waits for another ATTACH, or for DETACH.
 *
 * One request at a time for a volume; others get attachment_busy. Only root may make them. A request may name a volume
 * that is attached under its former name: the answer to publish shows it, and that attachment takes the request over.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/agent/attachment.h"
#include "control/agent/probes.gen.h"
#include "control/fault/fault.h"

enum {
	RETRY_MIN_MS = 1000,
	RETRY_MAX_MS = 30000,
	CHECK_SECONDS = 30,
	PUBLISH_SECONDS = 10, /* without a caller */
	TIMEOUT_MS_DEFAULT = 60000,
	TIMEOUT_MS_MAX = 600000,
};

static void begin_publish(struct attachment *attachment);
static void begin_unpublish(struct attachment *attachment);
static void begin_detach(struct attachment *attachment);
static void begin_attach(struct attachment *attachment, struct drpc_call *call, bool is_temporary, uint64_t end_ns);

/* Answer the caller, if there is one. */
static void answer_caller(struct attachment *attachment, const struct fathom_fault *why)
{
	struct drpc_call *call = attachment->call;

	attachment->call = NULL;
	if (!call)
		return;
	if (why)
		attachment_reply_fault(call, why);
	else
		attachment_reply(call, attachment);
}

/* ---- life ---- */

static struct attachment *attachment_create(struct agent *agent, const char *name)
{
	struct attachment *attachment = calloc(1, sizeof(*attachment));

	must(attachment);
	trace_object_init(&attachment->trace, TRACE_OBJECT_ATTACHMENT);
	attachment->agent = agent;
	(void)text_copy(attachment->record.name, sizeof(attachment->record.name), name); /* the callers check it */
	TAILQ_INSERT_TAIL(&agent->attachments.list, attachment, link);
	agent->attachments.count++;
	return attachment;
}

static void attachment_destroy(struct attachment *attachment)
{
	struct agent *agent = attachment->agent;

	must(!attachment->call);
	must(!attachment->is_working);
	deadline_clear(&agent->deadlines, &attachment->due);
	if (attachment->state != ATTACHMENT_NONE)
		attachment_state_move(reactor_now(), attachment, ATTACHMENT_NONE);
	TAILQ_REMOVE(&agent->attachments.list, attachment, link);
	must(agent->attachments.count > 0);
	agent->attachments.count--;
	free(attachment);
}

static struct attachment *attachment_find(struct agent *agent, const char *name)
{
	struct attachment *attachment;

	TAILQ_FOREACH (attachment, &agent->attachments.list, link) {
		if (strcmp(attachment->record.name, name) == 0 || strcasecmp(attachment->record.uuid, name) == 0)
			return attachment;
	}
	return NULL;
}

static bool is_busy(const struct attachment *attachment)
{
	return attachment->call || attachment->is_working ||
	       (attachment->state != ATTACHMENT_ATTACHED && attachment->state != ATTACHMENT_WAITING);
}

static void record_step(struct attachment *attachment, int error)
{
	probe_attachment_step(reactor_now(), attachment, trace_intern_foreign(attachment->record.name), error);
}

static uint64_t time_left(const struct attachment *attachment)
{
	uint64_t now = clock_monotonic_ns();

	return attachment->end_ns > now ? attachment->end_ns - now : 1;
}

static void start_job(struct attachment *attachment, enum attachment_job what)
{
	struct agent *agent = attachment->agent;

	must(!attachment->is_working);
	attachment->job_kind = what;
	attachment->job_why = (struct fathom_fault){ 0 };
	attachment->job = (struct worker_job){ .work = attachment_work, .done = attachment_worked };
	attachment->is_working = true;
	if (agent_job_start(agent, &attachment->job) == 0)
		return;
	/* no thread: try again later, as after any failure */
	attachment->is_working = false;
	attachment->job_why.error = fault(&attachment->job_why, -EAGAIN, "no thread can be started");
	attachment_settle(attachment);
}

/* ---- failures ---- */

/* Without a UUID it was only asked for: it has no record and no connection. */
static void undo(struct attachment *attachment)
{
	if (attachment->record.uuid[0])
		begin_detach(attachment);
	else
		begin_unpublish(attachment);
}

static void try_again(struct deadline *due)
{
	struct attachment *attachment = container_of(due, struct attachment, due);

	if (attachment->state == ATTACHMENT_ATTACHED && !attachment->why.error && attachment_is_live(attachment)) {
		deadline_set(&attachment->agent->deadlines, &attachment->due, CHECK_SECONDS * NS_PER_SEC, try_again);
		return;
	}
	attachment->end_ns = clock_monotonic_ns() + PUBLISH_SECONDS * NS_PER_SEC;
	if (attachment->is_withdrawn || attachment->record.is_detaching)
		undo(attachment);
	else
		begin_publish(attachment);
}

static void wait_and_retry(struct attachment *attachment)
{
	struct agent *agent = attachment->agent;
	uint64_t pause_ms = min_u64((uint64_t)RETRY_MIN_MS << min_u64(attachment->failures++, 10), RETRY_MAX_MS);

	if (attachment->failures == 1) {
		char about[ATTACH_NAME_BYTES + 16];

		snprintf(about, sizeof(about), "volume %s: ", attachment->record.name);
		agent_log_fault(LOG_LEVEL_WARNING, about, &attachment->why);
	}
	attachment_state_move(reactor_now(), attachment, ATTACHMENT_WAITING);
	if (agent->state != AGENT_LEAVING)
		deadline_set(&agent->deadlines, &attachment->due, pause_ms * NS_PER_MS, try_again);
}

/* Whether a call that failed may have been carried out, or will be: its answer was lost, or came too late. */
static bool may_be_done(const struct fathom_fault *why)
{
	return why->error == -ETIMEDOUT || why->error == -ECONNRESET || why->error == -EPIPE ||
	       why->code == FAULT_TIMED_OUT || why->code == FAULT_STORAGE_WAITS;
}

/*
 * A step failed, with `why` (not the attachment's own). The caller gets it. A new attachment is withdrawn: also if it is
 * not known whether the volume was published, and until the service confirms that it is not.
 */
static void fail(struct attachment *attachment, const struct fathom_fault *why)
{
	struct agent *agent = attachment->agent;

	attachment->why = *why;
	agent->stats.attach_failures++;
	answer_caller(attachment, why);
	if (!attachment->is_new || agent->state == AGENT_LEAVING) {
		wait_and_retry(attachment);
		return;
	}
	if (!attachment->record.uuid[0] && !may_be_done(why)) {
		attachment_destroy(attachment);
		return;
	}
	attachment->is_withdrawn = true;
	attachment->is_forced = true; /* its device has no users */
	attachment_state_move(reactor_now(), attachment, ATTACHMENT_WAITING);
	attachment->end_ns = clock_monotonic_ns() + PUBLISH_SECONDS * NS_PER_SEC;
	undo(attachment);
}

/* ---- attaching ---- */

static void begin_connect(struct attachment *attachment)
{
	attachment_state_move(reactor_now(), attachment, ATTACHMENT_CONNECTING);
	start_job(attachment, ATTACHMENT_JOB_CONNECT);
}

/* The service was not reached, so the volume may be as it was recorded. */
static bool is_unreached(const struct fathom_fault *why)
{
	return why->error == -ECONNREFUSED || why->error == -ETIMEDOUT || why->error == -EHOSTUNREACH ||
	       why->error == -ENETUNREACH || why->error == -ECONNRESET || why->code == FAULT_NOT_STARTED ||
	       why->code == FAULT_HOST_UNKNOWN || why->code == FAULT_SERVICE_UNREACHABLE;
}

/* The attachment that had this volume before; NULL: none. */
static struct attachment *find_earlier(const struct attachment *attachment)
{
	struct attachment *other;

	TAILQ_FOREACH (other, &attachment->agent->attachments.list, link) {
		if (other != attachment && strcasecmp(other->record.uuid, attachment->record.uuid) == 0)
			return other;
	}
	return NULL;
}

/* `earlier` has the volume: it takes the request over, and the new attachment ends, without a disconnect. */
static void give_way(struct attachment *attachment, struct attachment *earlier)
{
	struct drpc_call *call = attachment->call;
	struct fathom_fault why = { 0 };

	must(attachment->is_new);
	if (is_busy(earlier)) {
		why.error = fault_attachment_busy(&why, earlier->record.name, attachment_state_word(earlier));
		answer_caller(attachment, &why);
	} else {
		attachment->call = NULL;
		begin_attach(earlier, call, attachment->is_temporary, attachment->end_ns);
	}
	attachment_destroy(attachment);
}

static void published(void *ctx, const ProtobufCMessage *response, const struct fathom_fault *why)
{
	struct attachment *attachment = ctx, *earlier;
	const Fathom__VolumeResp *answer = (const Fathom__VolumeResp *)response;
	struct fathom_fault bad = { 0 };

	record_step(attachment, why && !answer ? why->error : 0);
	if (attachment->agent->state == AGENT_LEAVING) {
		fail(attachment, why ? why : &(struct fathom_fault){ .error = -ECANCELED, .text = "the agent ends" });
		return;
	}
	attachment->publish_why = answer ? bad : *why;
	if (answer && !attachment_take_volume(attachment, answer->volume)) {
		bad.error = fault(&bad, -EPROTO, "the answer about %s is not valid: another volume, or no NQN",
				  attachment->record.name);
		fail(attachment, &bad);
	} else if (answer && (earlier = find_earlier(attachment))) {
		give_way(attachment, earlier);
	} else if (answer || (!attachment->is_new && attachment->record.address_count > 0 && is_unreached(why))) {
		begin_connect(attachment);
	} else {
		fail(attachment, why);
	}
}

static void begin_publish(struct attachment *attachment)
{
	struct fathom_fault why = { 0 };

	deadline_clear(&attachment->agent->deadlines, &attachment->due);
	attachment_state_move(reactor_now(), attachment, ATTACHMENT_PUBLISHING);
	if (attachment_read_options(attachment, &why) != 0) {
		fail(attachment, &why);
		return;
	}
	attachment_ask_publish(attachment, time_left(attachment), published);
}

/* A temporary attachment becomes persistent by a request that is not temporary; never the other way. */
static void begin_attach(struct attachment *attachment, struct drpc_call *call, bool is_temporary, uint64_t end_ns)
{
	attachment->is_temporary = attachment->is_temporary && is_temporary;
	attachment->call = call;
	attachment->record.is_detaching = false; /* an interrupted detach gives way to the wish of now */
	attachment->is_forced = false;
	attachment->is_withdrawn = false;
	attachment->end_ns = end_ns;
	begin_publish(attachment);
}

static void attached(struct attachment *attachment)
{
	struct agent *agent = attachment->agent;
	bool is_first = attachment->is_new || attachment->failures > 0 || !attachment->device.path[0];

	attachment->why = attachment->publish_why;
	attachment->is_new = false;
	attachment->failures = 0;
	attachment->device = attachment->job_device;
	attachment_state_move(reactor_now(), attachment, ATTACHMENT_ATTACHED);
	if (is_first) {
		agent->stats.attaches++;
		log_notice("volume %s is attached: %s", attachment->record.name, attachment->device.path);
	}
	answer_caller(attachment, NULL);
	if (agent->state != AGENT_LEAVING)
		deadline_set(&agent->deadlines, &attachment->due, CHECK_SECONDS * NS_PER_SEC, try_again);
}

/* ---- detaching ---- */

static void detached(struct attachment *attachment)
{
	attachment->agent->stats.detaches++;
	log_notice("volume %s is detached", attachment->record.name);
	answer_caller(attachment, NULL);
	attachment_destroy(attachment);
}

static void unpublished(void *ctx, const ProtobufCMessage *response, const struct fathom_fault *why)
{
	struct attachment *attachment = ctx;
	bool is_gone = !response && why->error == -ENOENT && why->code != FAULT_HOST_UNKNOWN;
	bool is_given_up = attachment->is_forced && !attachment->is_withdrawn && attachment->agent->state != AGENT_LEAVING;

	/* asked for by a name only: this host uses it by another one */
	is_gone |= !response && !attachment->record.uuid[0] && why->code == FAULT_STORAGE_IN_USE;
	record_step(attachment, response ? 0 : why->error);
	if (response || is_gone || is_given_up) {
		if (!response && !is_gone)
			log_warning("volume %s was not unpublished: %s", attachment->record.name, why->text);
		if (attachment->record.uuid[0])
			start_job(attachment, ATTACHMENT_JOB_FORGET);
		else
			detached(attachment);
		return;
	}
	attachment->why = *why;
	answer_caller(attachment, why);
	wait_and_retry(attachment);
}

static void begin_unpublish(struct attachment *attachment)
{
	struct fathom_fault why = { 0 };

	deadline_clear(&attachment->agent->deadlines, &attachment->due);
	attachment_state_move(reactor_now(), attachment, ATTACHMENT_UNPUBLISHING);
	if (!attachment->options.host_nqn[0]) { /* without a host the request would be about all hosts */
		why.error = fault_host_nqn_missing(&why, attachment->agent->config->attach.host_nqn_file,
						   "it was not read");
		unpublished(attachment, NULL, &why);
		return;
	}
	attachment_ask_unpublish(attachment, time_left(attachment), unpublished);
}

static void begin_detach(struct attachment *attachment)
{
	struct fathom_fault why = { 0 };

	deadline_clear(&attachment->agent->deadlines, &attachment->due);
	attachment_state_move(reactor_now(), attachment, ATTACHMENT_DETACHING);
	why.error = attachment_read_options(attachment, &why);
	if (why.error && (!attachment->is_forced || attachment->is_withdrawn)) { /* the service could not be asked later */
		attachment->job_kind = ATTACHMENT_JOB_DISCONNECT;
		attachment->job_why = why;
		attachment_settle(attachment);
		return;
	}
	start_job(attachment, ATTACHMENT_JOB_DISCONNECT);
}

/* ---- the end of a job ---- */

static void settle_failed(struct attachment *attachment)
{
	const struct fathom_fault why = attachment->job_why;

	switch (attachment->job_kind) {
	case ATTACHMENT_JOB_CONNECT:
		fail(attachment, &why);
		break;
	case ATTACHMENT_JOB_DISCONNECT:
		answer_caller(attachment, &why);
		attachment->why = why;
		if (attachment->record.is_detaching) {
			wait_and_retry(attachment);
			break;
		}
		/* in use, or its record cannot be marked: it stays */
		attachment_state_move(reactor_now(), attachment,
				      attachment->device.path[0] ? ATTACHMENT_ATTACHED : ATTACHMENT_WAITING);
		attachment->why = (struct fathom_fault){ 0 };
		deadline_set(&attachment->agent->deadlines, &attachment->due, CHECK_SECONDS * NS_PER_SEC, try_again);
		break;
	case ATTACHMENT_JOB_FORGET:
		attachment->why = why;
		answer_caller(attachment, &why);
		wait_and_retry(attachment);
		break;
	}
}

/* The agent ends: its next start unpublishes the volume, because the record says that it is being detached. */
static void stop_detaching(struct attachment *attachment)
{
	attachment->why.error = fault(&attachment->why, -ECANCELED, "the agent ends");
	answer_caller(attachment, &attachment->why);
	wait_and_retry(attachment);
}

void attachment_settle(struct attachment *attachment)
{
	record_step(attachment, attachment->job_why.error);
	if (attachment->job_why.error)
		settle_failed(attachment);
	else if (attachment->job_kind == ATTACHMENT_JOB_CONNECT)
		attached(attachment);
	else if (attachment->job_kind == ATTACHMENT_JOB_DISCONNECT && attachment->agent->state != AGENT_LEAVING)
		begin_unpublish(attachment);
	else if (attachment->job_kind == ATTACHMENT_JOB_FORGET)
		detached(attachment);
	else
		stop_detaching(attachment);
}

/* ---- methods ---- */

static uint64_t timeout_of(uint32_t ms)
{
	return min_u64(ms ? ms : TIMEOUT_MS_DEFAULT, TIMEOUT_MS_MAX) * NS_PER_MS;
}

/* Root, and a valid name; else the fault. */
static int check_request(struct drpc_call *call, const char *name, const char *what, struct fathom_fault *why)
{
	uint32_t uid = drpc_call_peer(call)->uid;
	uuid_t uuid;

	if (uid != 0)
		return fault_agent_root_only(why, what, uid);
	if (!attach_name_is_valid(name) && uuid_parse(name, uuid) != 0)
		return fault_volume_name_bad(why, name);
	return 0;
}

static void attach(struct agent *agent, struct drpc_call *call, const Agent__AttachReq *request)
{
	struct attachment *attachment = attachment_find(agent, request->name);
	struct fathom_fault why = { 0 };

	if (attachment && is_busy(attachment)) {
		why.error = fault_attachment_busy(&why, request->name, attachment_state_word(attachment));
		attachment_reply_fault(call, &why);
		return;
	}
	if (!attachment && agent->attachments.count >= AGENT_ATTACHMENTS_MAX) {
		why.error = fault_attachments_full(&why, agent->attachments.count);
		attachment_reply_fault(call, &why);
		return;
	}
	if (!attachment) {
		attachment = attachment_create(agent, request->name);
		attachment->is_new = true;
		attachment->is_temporary = request->temporary;
	}
	begin_attach(attachment, call, request->temporary, clock_monotonic_ns() + timeout_of(request->timeout_ms));
}

void call_attach(struct drpc_call *call, const ProtobufCMessage *message)
{
	const Agent__AttachReq *request = (const Agent__AttachReq *)message;
	struct fathom_fault why = { 0 };

	if (check_request(call, request->name, "attach a volume", &why) != 0)
		attachment_reply_fault(call, &why);
	else
		attach(drpc_call_ctx(call), call, request);
}

void call_detach(struct drpc_call *call, const ProtobufCMessage *message)
{
	const Agent__DetachReq *request = (const Agent__DetachReq *)message;
	struct agent *agent = drpc_call_ctx(call);
	struct attachment *attachment = attachment_find(agent, request->name);
	struct fathom_fault why = { 0 };

	if (check_request(call, request->name, "detach a volume", &why) == 0) {
		if (!attachment)
			why.error = fault_not_attached(&why, request->name);
		else if (is_busy(attachment))
			why.error = fault_attachment_busy(&why, request->name, attachment_state_word(attachment));
	}
	if (why.error) {
		attachment_reply_fault(call, &why);
		return;
	}
	attachment->call = call;
	attachment->is_forced = request->force;
	attachment->is_withdrawn = attachment->is_withdrawn && !request->force;
	attachment->end_ns = clock_monotonic_ns() + timeout_of(request->timeout_ms);
	undo(attachment);
}

/* ---- start and end ---- */

void attachment_resume(struct agent *agent, const struct attach_record *record, bool is_temporary)
{
	struct attachment *attachment;

	if (attachment_find(agent, record->uuid) || agent->attachments.count >= AGENT_ATTACHMENTS_MAX)
		return;
	attachment = attachment_create(agent, record->name);
	attachment->record = *record;
	attachment->is_temporary = is_temporary;
	attachment->end_ns = clock_monotonic_ns() + PUBLISH_SECONDS * NS_PER_SEC;
	if (record->is_detaching)
		begin_detach(attachment);
	else
		begin_publish(attachment);
}

void attachments_close(struct agent *agent)
{
	struct attachment *attachment;

	while ((attachment = TAILQ_FIRST(&agent->attachments.list)))
		attachment_destroy(attachment);
	must(agent->attachments.count == 0);
}
