/* SPDX-License-Identifier: BSD-2-Clause */
#include "rig.h"

#include <string.h>

#include "data/store/bdev/bdev.h"

static uint64_t now_tick;
static int listen_count, stalled = -1;
static struct {
	bool holds, within;
	nvmf_done_fn done; /* of the held operation; NULL: none */
	void *ctx;
} listening;
struct rig_op rig_last;

/* ---- time and reactor turns ---- */

uint64_t rig_now(void)
{
	return now_tick;
}

void rig_stall(int index)
{
	stalled = index;
}

void rig_run(void)
{
	bool busy = true;

	for (int turns = 0; busy; turns++) {
		busy = false;
		must(turns < 100000);
		now_tick += 1000;
		for (unsigned int i = 0; i < reactors_count(); i++)
			busy |= (int)i != stalled && reactor_step(reactor_at(i), now_tick);
		busy |= reactor_step(reactor_control(), now_tick);
	}
}

void rig_steps(int count)
{
	while (count-- > 0) {
		now_tick += 1000;
		for (unsigned int i = 0; i < reactors_count(); i++) {
			if ((int)i != stalled)
				(void)reactor_step(reactor_at(i), now_tick); /* its result is not needed */
		}
		(void)reactor_step(reactor_control(), now_tick);
	}
}

static uint64_t next_tick(void)
{
	uint64_t next = reactor_next_tick(reactor_control());

	for (unsigned int i = 0; i < reactors_count(); i++) {
		if ((int)i != stalled)
			next = min_u64(next, reactor_next_tick(reactor_at(i)));
	}
	return next;
}

void rig_advance(uint64_t ns)
{
	uint64_t until = now_tick + ns;

	rig_run();
	while (next_tick() <= until) {
		now_tick = max_u64(now_tick, next_tick());
		rig_run();
	}
	now_tick = max_u64(now_tick, until);
	rig_run();
}

void rig_call(struct fathom_thread *thread, thread_fn fn, void *ctx)
{
	thread_send_msg(thread, fn, ctx);
	rig_run();
}

/* ---- a transport ---- */

static int transport_create(struct nvmf_transport_options *options, void **transport_ret, struct fathom_fault *why)
{
	*transport_ret = &listen_count;
	return 0;
}

static int group_create(void *transport, struct nvmf_poll_group *group, void **group_state_ret)
{
	must_be_on(nvmf_poll_group_thread(group));
	*group_state_ret = group;
	return 0;
}

static void group_destroy(void *transport, void *group_state, void (*done)(void *ctx), void *ctx)
{
	must_be_on(nvmf_poll_group_thread(group_state));
	done(ctx);
}

static void listen_done(nvmf_done_fn done, void *ctx)
{
	struct fathom_fault why = { 0 };

	if (!listening.holds) {
		/*
		 * The target must not start the next listener inside this callback: with thousands the stack would
		 * overflow.
		 */
		must(!listening.within);
		listening.within = true;
		done(ctx, 0, &why);
		listening.within = false;
		return;
	}
	must(!listening.done);
	listening.done = done;
	listening.ctx = ctx;
}

static void listen_release(void *ctx)
{
	nvmf_done_fn done = listening.done;

	listening.done = NULL;
	if (done)
		listen_done(done, listening.ctx);
}

void rig_listen_hold(bool hold)
{
	listening.holds = hold;
	if (!hold)
		rig_call(thread_control(), listen_release, NULL);
}

static void listen_start(void *transport, const struct nvmf_address *address, nvmf_done_fn done, void *ctx)
{
	struct fathom_fault why = { 0 };

	if (strcmp(address->trsvcid, "9999") == 0) {
		int rc = fault(&why, -EADDRINUSE, "in use");

		done(ctx, rc, &why);
		return;
	}
	listen_count++;
	listen_done(done, ctx);
}

static void listen_stop(void *transport, const struct nvmf_address *address, nvmf_done_fn done, void *ctx)
{
	listen_count--;
	listen_done(done, ctx);
}

static const struct nvmf_transport_ops transport_ops = {
	.name = "TCP",
	.trtype = NVME_TRTYPE_TCP,
	.create = transport_create,
	.group_create = group_create,
	.group_destroy = group_destroy,
	.listen = listen_start,
	.stop_listen = listen_stop,
};

/* ---- operations ---- */

void rig_done(void *ctx, int rc, const struct fathom_fault *why)
{
	struct rig_op *op = ctx;

	must_be_on(thread_control());
	must(!op->done);
	must(rc == 0 || why->text[0] != '\0');
	op->done = true;
	op->rc = rc;
	snprintf(op->why, sizeof(op->why), "%s", rc ? why->text : "");
}

void rig_ns_done(void *ctx, int rc, const struct fathom_fault *why, uint32_t nsid)
{
	((struct rig_op *)ctx)->nsid = nsid;
	rig_done(ctx, rc, why);
}

struct call {
	enum {
		CALL_NQN,
		CALL_HOST,
		CALL_ALLOW,
		CALL_CREATE,
		CALL_ADD_NS,
		CALL_REMOVE_NS,
		CALL_ADDRESS,
		CALL_START,
		CALL_STOP
	} what;
	rig_nqn_fn nqn_fn;
	rig_host_fn host_fn;
	const char *nqn, *host;
	bool flag;
	uint32_t nsid, drain_ms;
	const struct nvmf_subsystem_options *options;
	struct nvmf_address address;
	struct rig_op *op;
};

static void call_on_control(void *ctx)
{
	struct call *call = ctx;
	struct nvmf_ns_options ns;

	switch (call->what) {
	case CALL_NQN:
		call->nqn_fn(call->nqn, rig_done, call->op);
		break;
	case CALL_HOST:
		call->host_fn(call->nqn, call->host, rig_done, call->op);
		break;
	case CALL_ALLOW:
		nvmf_subsystem_set_allow_any_host(call->nqn, call->flag, rig_done, call->op);
		break;
	case CALL_CREATE:
		nvmf_subsystem_create(call->options, rig_done, call->op);
		break;
	case CALL_ADD_NS:
		nvmf_ns_options_init(&ns);
		ns.bdev_name = call->host;
		ns.nsid = call->nsid;
		nvmf_subsystem_add_ns(call->nqn, &ns, rig_ns_done, call->op);
		break;
	case CALL_REMOVE_NS:
		nvmf_subsystem_remove_ns(call->nqn, call->nsid, call->drain_ms, rig_done, call->op);
		break;
	case CALL_ADDRESS:
		if (call->flag)
			nvmf_subsystem_add_listener(call->nqn, &call->address, NULL, rig_done, call->op);
		else
			nvmf_subsystem_remove_listener(call->nqn, &call->address, rig_done, call->op);
		break;
	case CALL_START:
		nvmf_target_start(rig_done, call->op);
		break;
	case CALL_STOP:
		nvmf_target_stop(rig_done, call->op);
		break;
	}
}

static int finish(struct call *call)
{
	rig_last = (struct rig_op){ 0 };
	call->op = &rig_last;
	rig_call(thread_control(), call_on_control, call);
	assert_true(rig_last.done);
	return rig_last.rc;
}

void rig_begin(rig_nqn_fn fn, const char *nqn, struct rig_op *op)
{
	struct call call = { .what = CALL_NQN, .nqn_fn = fn, .nqn = nqn, .op = op };

	*op = (struct rig_op){ 0 };
	rig_call(thread_control(), call_on_control, &call);
}

int rig_subsystem(rig_nqn_fn fn, const char *nqn)
{
	return finish(&(struct call){ .what = CALL_NQN, .nqn_fn = fn, .nqn = nqn });
}

int rig_host(rig_host_fn fn, const char *nqn, const char *host)
{
	return finish(&(struct call){ .what = CALL_HOST, .host_fn = fn, .nqn = nqn, .host = host });
}

int rig_allow_any(const char *nqn, bool allow)
{
	return finish(&(struct call){ .what = CALL_ALLOW, .nqn = nqn, .flag = allow });
}

int rig_create(const struct nvmf_subsystem_options *options)
{
	return finish(&(struct call){ .what = CALL_CREATE, .options = options });
}

int rig_add_ns(const char *bdev, uint32_t nsid, uint32_t *nsid_ret)
{
	int rc = finish(&(struct call){ .what = CALL_ADD_NS, .nqn = RIG_NQN, .host = bdev, .nsid = nsid });

	if (nsid_ret)
		*nsid_ret = rig_last.nsid;
	return rc;
}

int rig_add_ns_to(const char *nqn, const char *bdev, uint32_t nsid)
{
	return finish(&(struct call){ .what = CALL_ADD_NS, .nqn = nqn, .host = bdev, .nsid = nsid });
}

int rig_remove_ns(uint32_t nsid)
{
	return finish(
		&(struct call){ .what = CALL_REMOVE_NS, .nqn = RIG_NQN, .nsid = nsid, .drain_ms = NVMF_DRAIN_MS_DEFAULT });
}

void rig_remove_ns_begin(uint32_t nsid, uint32_t drain_ms, struct rig_op *op)
{
	struct call call = { .what = CALL_REMOVE_NS, .nqn = RIG_NQN, .nsid = nsid, .drain_ms = drain_ms, .op = op };

	*op = (struct rig_op){ 0 };
	rig_call(thread_control(), call_on_control, &call);
}

void rig_stop_begin(struct rig_op *op)
{
	struct call call = { .what = CALL_STOP, .op = op };

	*op = (struct rig_op){ 0 };
	rig_call(thread_control(), call_on_control, &call);
}

static struct call address_call(bool add, const char *nqn, const char *traddr, const char *trsvcid)
{
	struct call call = { .what = CALL_ADDRESS, .nqn = nqn, .flag = add, .address = { .trtype = "tcp" } };

	snprintf(call.address.traddr, sizeof(call.address.traddr), "%s", traddr);
	snprintf(call.address.trsvcid, sizeof(call.address.trsvcid), "%s", trsvcid);
	return call;
}

int rig_address_op(bool add, const char *nqn, const char *traddr, const char *trsvcid)
{
	struct call call = address_call(add, nqn, traddr, trsvcid);

	return finish(&call);
}

void rig_address_begin(bool add, const char *nqn, const char *traddr, const char *trsvcid, struct rig_op *op)
{
	static struct call begun;

	*op = (struct rig_op){ 0 };
	begun = address_call(add, nqn, traddr, trsvcid);
	begun.op = op;
	thread_send_msg(thread_control(), call_on_control, &begun);
}

/* ---- up and down ---- */

static void make_transport(void *ctx)
{
	struct nvmf_transport_options options;

	nvmf_transport_options_init(&options);
	nvmf_transport_create("tcp", &options, rig_done, ctx);
}

int rig_setup(void **state)
{
	struct reactor_options reactors = { .simulated = true, .simulated_tick = 1000000 };
	struct nvmf_subsystem_options options;

	clock_fix_tick_rate(NS_PER_SEC); /* a tick is a nanosecond, as for simulated reactors */
	now_tick = reactors.simulated_tick;
	listen_count = 0;
	for (unsigned int cpu = 0; cpu < RIG_GROUPS; cpu++)
		cpuset_add(&reactors.cpus, cpu);
	assert_int_equal(reactors_start(&reactors), 0);
	nvmf_transport_register(&transport_ops);
	assert_int_equal(finish(&(struct call){ .what = CALL_START }), 0);
	assert_int_equal(nvmf_target_state(), NVMF_TGT_RUNNING);
	rig_last = (struct rig_op){ 0 };
	rig_call(thread_control(), make_transport, &rig_last);
	assert_true(rig_last.done && rig_last.rc == 0);
	nvmf_subsystem_options_init(&options);
	snprintf(options.nqn, sizeof(options.nqn), "%s", RIG_NQN);
	options.allow_any_host = true;
	assert_int_equal(rig_create(&options), 0);
	assert_int_equal(rig_address_op(true, RIG_NQN, "127.0.0.1", "4420"), 0);
	rig_malloc("m0", RIG_BLOCKS, RIG_BLOCK_BYTES);
	assert_int_equal(rig_add_ns("m0", 1, NULL), 0);
	return 0;
}

static void reset_target(void *ctx)
{
	nvmf_target_reset();
}

static void delete_all(void *ctx)
{
	while (bdev_first())
		must(bdev_unregister(bdev_first(), NULL, NULL) == 0);
}

int rig_teardown(void **state)
{
	assert_int_equal(finish(&(struct call){ .what = CALL_STOP }), 0);
	assert_int_equal(nvmf_target_state(), NVMF_TGT_STOPPED);
	assert_int_equal(listen_count, 0);
	rig_call(thread_control(), reset_target, NULL);
	nvmf_transport_unregister_all();
	rig_call(thread_control(), delete_all, NULL);
	rig_run();
	reactors_stop();
	return 0;
}
