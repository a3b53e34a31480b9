/* SPDX-License-Identifier: BSD-2-Clause */
/* subsystem - create, find and destroy subsystems. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/observe/trace/points.gen.h"
#include "data/target/probes.gen.h"

void nvmf_subsystem_options_init(struct nvmf_subsystem_options *options)
{
	*options = (struct nvmf_subsystem_options){
		.serial_number = "00000000000000000000",
		.model_number = "Fathom bdev Controller",
		.max_namespaces = NVMF_NAMESPACES_DEFAULT,
		.min_cntlid = NVMF_CNTLID_MIN,
		.max_cntlid = NVMF_CNTLID_MAX,
		.max_host_controllers = NVMF_HOST_CONTROLLERS_DEFAULT,
		.dmrsl = 2097152,
		.wzsl = 12,
	};
}

/* ---- names ---- */

/* "nqn.YYYY-MM." and a reverse domain; after a colon anything printable. */
bool nvmf_nqn_valid(const char *nqn)
{
	static const char shape[] = "nqn.dddd-dd.";
	size_t bytes = strlen(nqn);
	unsigned int month;

	if (bytes < NVME_NQN_BYTES_MIN || bytes > NVME_NQN_BYTES_MAX || bytes < sizeof(shape))
		return false;
	for (size_t i = 0; i < sizeof(shape) - 1; i++) {
		if (shape[i] == 'd' ? !isdigit((unsigned char)nqn[i]) : nqn[i] != shape[i])
			return false;
	}
	month = (unsigned int)(nqn[9] - '0') * 10 + (unsigned int)(nqn[10] - '0');
	if (month < 1 || month > 12)
		return false;
	for (const char *at = nqn + sizeof(shape) - 1; *at != '\0'; at++) {
		unsigned char c = (unsigned char)*at;

		if (c <= ' ' || c == 0x7f)
			return false;
	}
	return isalnum((unsigned char)nqn[sizeof(shape) - 1]);
}

static bool printable(const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text < ' ' || *text > '~')
			return false;
	}
	return true;
}

static int check_options(struct nvmf_subsystem_options *options, struct fathom_fault *why)
{
	if (!nvmf_nqn_valid(options->nqn))
		return fault(why, -EINVAL, "'%s' is no NQN", options->nqn);
	if (!printable(options->serial_number) || !printable(options->model_number))
		return fault(why, -EINVAL, "serial and model number of '%s' must be printable ASCII", options->nqn);
	if (options->max_namespaces == 0)
		options->max_namespaces = NVMF_NAMESPACES_DEFAULT;
	if (options->max_namespaces > NVMF_NAMESPACES_MAX)
		return fault(why, -EINVAL, "max_namespaces is %u; it must be at most %d", options->max_namespaces,
			     NVMF_NAMESPACES_MAX);
	if (options->max_host_controllers == 0 || options->max_host_controllers > NVMF_CONTROLLERS_MAX)
		return fault(why, -EINVAL, "max_host_controllers is %u; it must be 1 to %d", options->max_host_controllers,
			     NVMF_CONTROLLERS_MAX);
	if (options->min_cntlid < NVMF_CNTLID_MIN || options->max_cntlid > NVMF_CNTLID_MAX ||
	    options->min_cntlid > options->max_cntlid)
		return fault(why, -EINVAL, "cntlid range %u to %u is not within %d to %d", options->min_cntlid,
			     options->max_cntlid, NVMF_CNTLID_MIN, NVMF_CNTLID_MAX);
	return 0;
}

/* ---- create and free ---- */

static struct nvmf_subsystem *create_subsystem(const struct nvmf_subsystem_options *options, enum nvmf_subsystem_type type,
					       uint32_t id)
{
	struct nvmf_subsystem *subsystem = nvmf_alloc(sizeof(*subsystem));

	must_be_on(thread_control());
	must(id < NVMF_SUBSYSTEMS_MAX);
	must(!nvmf_tgt.by_id[id]);
	must(options->max_namespaces <= NVMF_NAMESPACES_MAX);
	must(options->min_cntlid >= NVMF_CNTLID_MIN);
	must(options->max_cntlid <= NVMF_CNTLID_MAX);
	trace_object_init(&subsystem->trace, TRACE_OBJECT_NVMF_SUBSYSTEM);
	subsystem->type = type;
	subsystem->id = id;
	subsystem->options = *options;
	subsystem->nqn_istr = trace_intern(options->nqn);
	memcpy(subsystem->crdt, nvmf_tgt.crdt, sizeof(subsystem->crdt));
	subsystem->namespaces = nvmf_alloc(options->max_namespaces * sizeof(struct nvmf_ns *) + 1);
	subsystem->generation_next = 1;
	subsystem->cntlid_next = options->min_cntlid;
	TAILQ_INIT(&subsystem->hosts);
	TAILQ_INIT(&subsystem->listeners);
	TAILQ_INIT(&subsystem->ctrlrs);
	TAILQ_INIT(&subsystem->states.ops);
	TAILQ_INIT(&subsystem->access.ops);
	TAILQ_INIT(&subsystem->ns_waiting);
	TAILQ_INIT(&subsystem->waiters);
	nvmf_tgt.by_id[id] = subsystem;
	nvmf_tgt.subsystem_count++;
	LIST_INSERT_HEAD(&nvmf_tgt.by_nqn[text_hash(options->nqn) % NVMF_NQN_BUCKETS], subsystem, by_nqn);
	TAILQ_INSERT_TAIL(&nvmf_tgt.subsystems, subsystem, link);
	probe_nvmf_subsystem_create(reactor_now(), subsystem->nqn_istr);
	return subsystem;
}

void nvmf_subsystem_create_discovery(void)
{
	struct nvmf_subsystem_options options;

	must(TAILQ_EMPTY(&nvmf_tgt.subsystems));
	nvmf_subsystem_options_init(&options);
	(void)text_copy(options.nqn, sizeof(options.nqn), NVME_DISCOVERY_NQN); /* fits */
	options.allow_any_host = true;
	options.max_namespaces = 0;
	nvmf_tgt.discovery = create_subsystem(&options, NVMF_SUBSYSTEM_DISCOVERY, 0);
	nvmf_tgt.discovery_generation = 0;
}

void nvmf_subsystem_create(const struct nvmf_subsystem_options *options, nvmf_done_fn done, void *ctx)
{
	struct nvmf_subsystem_options checked = *options;
	struct nvmf_subsystem *subsystem;
	struct fathom_fault why = { 0 };
	uint32_t id = 1;
	int rc;

	must_be_on(thread_control());
	if (!nvmf_tgt.discovery || nvmf_tgt.state > NVMF_TGT_RUNNING) {
		nvmf_refuse(done, ctx, -EAGAIN, "the target is in state %s", nvmf_tgt_state_name(nvmf_tgt.state));
		return;
	}
	rc = check_options(&checked, &why);
	if (rc) {
		done(ctx, rc, &why);
		return;
	}
	if (nvmf_subsystem_find(checked.nqn)) {
		nvmf_refuse(done, ctx, -EEXIST, "Subsystem NQN '%s' already exists", checked.nqn);
		return;
	}
	if (nvmf_tgt.subsystem_count >= nvmf_tgt.subsystems_max) {
		nvmf_refuse(done, ctx, -ENOSPC, "there are %u subsystems already", nvmf_tgt.subsystem_count);
		return;
	}
	while (nvmf_tgt.by_id[id])
		id++;
	subsystem = create_subsystem(&checked, NVMF_SUBSYSTEM_NVME, id);
	nvmf_discovery_changed();
	if (nvmf_tgt.state >= NVMF_TGT_START_SUBSYSTEMS)
		nvmf_op_submit(subsystem, nvmf_op_create(sizeof(struct nvmf_subsystem_op), NVMF_OP_START, done, ctx));
	else
		done(ctx, 0, &why);
}

void nvmf_subsystem_free(struct nvmf_subsystem *subsystem)
{
	struct nvmf_host *host;

	must_be_on(thread_control());
	must(nvmf_tgt.by_id[subsystem->id] == subsystem);
	must(subsystem->ctrlr_count == 0);
	must(subsystem->state == NVMF_SUBSYSTEM_INACTIVE);
	must(nvmf_subsystem_is_idle(subsystem));
	must(TAILQ_EMPTY(&subsystem->ctrlrs));
	must(TAILQ_EMPTY(&subsystem->listeners));
	must(TAILQ_EMPTY(&subsystem->waiters));
	probe_nvmf_subsystem_destroy(reactor_now(), subsystem->nqn_istr);
	for (uint32_t i = 0; i < subsystem->options.max_namespaces; i++) {
		struct nvmf_ns *ns = subsystem->namespaces[i];

		subsystem->namespaces[i] = NULL;
		if (ns)
			nvmf_ns_let_go(ns);
	}
	while ((host = TAILQ_FIRST(&subsystem->hosts)) != NULL) {
		TAILQ_REMOVE(&subsystem->hosts, host, link);
		free(host);
	}
	if (subsystem == nvmf_tgt.discovery)
		nvmf_tgt.discovery = NULL;
	nvmf_tgt.by_id[subsystem->id] = NULL;
	nvmf_tgt.subsystem_count--;
	LIST_REMOVE(subsystem, by_nqn);
	TAILQ_REMOVE(&nvmf_tgt.subsystems, subsystem, link);
	free(subsystem->namespaces);
	free(subsystem);
}

/* ---- destruction by request: stop, stop listening, wait for the controllers, free ---- */

struct destruction {
	struct nvmf_subsystem *subsystem;
	nvmf_done_fn done;
	void *ctx;
};

static bool is_any_ctrlr(const struct nvmf_ctrlr *ctrlr, const void *what)
{
	return true;
}

static void destroy_finish(void *ctx)
{
	struct destruction *destruction = ctx;
	struct nvmf_subsystem *subsystem = destruction->subsystem;
	struct fathom_fault why = { 0 };

	if (!nvmf_subsystem_is_idle(subsystem) || !TAILQ_EMPTY(&subsystem->waiters)) {
		/* An earlier operation has not ended; it needs only a turn or two. Try again in the next turn. */
		thread_send_msg(thread_control(), destroy_finish, destruction);
		return;
	}
	must(subsystem->destroying);
	nvmf_subsystem_free(subsystem);
	nvmf_discovery_changed();
	destruction->done(destruction->ctx, 0, &why);
	free(destruction);
}

static void destroy_all_gone(void *ctx)
{
	/* Deferred: the caller is the removal of the last controller and still uses the subsystem. */
	thread_send_msg(thread_control(), destroy_finish, ctx);
}

static void destroy_not_listening(void *ctx)
{
	struct destruction *destruction = ctx;

	nvmf_subsystem_drop_ctrlrs(destruction->subsystem, is_any_ctrlr, NULL, "the subsystem is destroyed",
				   destroy_all_gone, destruction);
}

static void destroy_stopped(void *ctx, int rc, const struct fathom_fault *why)
{
	struct destruction *destruction = ctx;

	must(rc == 0);
	must(destruction->subsystem->destroying);
	nvmf_subsystem_stop_listening(destruction->subsystem, destroy_not_listening, destruction);
}

void nvmf_subsystem_destroy(const char *nqn, nvmf_done_fn done, void *ctx)
{
	struct nvmf_subsystem *subsystem = nvmf_subsystem_or_refuse(nqn, done, ctx);
	struct destruction *destruction;

	if (!subsystem)
		return;
	if (subsystem->type == NVMF_SUBSYSTEM_DISCOVERY) {
		nvmf_refuse(done, ctx, -EPERM, "the discovery subsystem cannot be deleted");
		return;
	}
	destruction = nvmf_alloc(sizeof(*destruction));
	destruction->subsystem = subsystem;
	destruction->done = done;
	destruction->ctx = ctx;
	subsystem->destroying = true;
	nvmf_op_submit(subsystem,
		       nvmf_op_create(sizeof(struct nvmf_subsystem_op), NVMF_OP_STOP, destroy_stopped, destruction));
}

/* ---- states by request ---- */

static void submit_state_change(const char *nqn, enum nvmf_op_kind kind, nvmf_done_fn done, void *ctx)
{
	struct nvmf_subsystem *subsystem = nvmf_subsystem_or_refuse(nqn, done, ctx);

	if (subsystem)
		nvmf_op_submit(subsystem, nvmf_op_create(sizeof(struct nvmf_subsystem_op), kind, done, ctx));
}

void nvmf_subsystem_start(const char *nqn, nvmf_done_fn done, void *ctx)
{
	submit_state_change(nqn, NVMF_OP_START, done, ctx);
}

void nvmf_subsystem_stop(const char *nqn, nvmf_done_fn done, void *ctx)
{
	submit_state_change(nqn, NVMF_OP_STOP, done, ctx);
}

void nvmf_subsystem_pause(const char *nqn, nvmf_done_fn done, void *ctx)
{
	submit_state_change(nqn, NVMF_OP_PAUSE, done, ctx);
}

void nvmf_subsystem_resume(const char *nqn, nvmf_done_fn done, void *ctx)
{
	submit_state_change(nqn, NVMF_OP_RESUME, done, ctx);
}

/* ---- getters ---- */

struct nvmf_subsystem *nvmf_subsystem_find(const char *nqn)
{
	struct nvmf_subsystem *subsystem;

	LIST_FOREACH (subsystem, &nvmf_tgt.by_nqn[text_hash(nqn) % NVMF_NQN_BUCKETS], by_nqn) {
		if (strcmp(subsystem->options.nqn, nqn) == 0)
			return subsystem;
	}
	return NULL;
}

struct nvmf_subsystem *nvmf_subsystem_first(void)
{
	return TAILQ_FIRST(&nvmf_tgt.subsystems);
}

struct nvmf_subsystem *nvmf_subsystem_next(const struct nvmf_subsystem *subsystem)
{
	return TAILQ_NEXT(subsystem, link);
}

uint32_t nvmf_subsystem_count(void)
{
	return nvmf_tgt.subsystem_count;
}

const struct nvmf_subsystem_options *nvmf_subsystem_get_options(const struct nvmf_subsystem *subsystem)
{
	return &subsystem->options;
}

struct nvmf_dsm_limits nvmf_subsystem_dsm_limits(const struct nvmf_subsystem *subsystem)
{
	enum { DMRL = NVME_DSM_RANGES_MAX - 1 }; /* the field has 8 bits, so it cannot report the maximum of 256 ranges */
	uint32_t dmrsl = subsystem->options.dmrsl;

	static_assert(DMRL <= UINT8_MAX, "the field has a byte");
	if (dmrsl == 0)
		return (struct nvmf_dsm_limits){ 0 };
	return (struct nvmf_dsm_limits){ .ranges = DMRL, .range_blocks = dmrsl, .blocks = (uint64_t)DMRL * dmrsl };
}

enum nvmf_subsystem_type nvmf_subsystem_get_type(const struct nvmf_subsystem *subsystem)
{
	return subsystem->type;
}

enum nvmf_subsystem_state nvmf_subsystem_get_state(const struct nvmf_subsystem *subsystem)
{
	return subsystem->state;
}
