/* SPDX-License-Identifier: BSD-2-Clause */
/* operator - see operator.h. */
#include <errno.h>
#include <string.h>

#include "host.h"
#include "ledger.h"
#include "operator.h"
#include "base/reactor/reactor.h"
#include "sim.h"
#include "data/store/backend/backend.h"
#include "data/target/target.h"
#include "data/wire/conn/conn.h"

#define NQN "nqn.2024-01.io.fathom:sim0"
#define EXTRA_NQN "nqn.2024-01.io.fathom:extra"
#define EXTRA_HOST "nqn.2024-01.io.fathom:extra-host"
enum {
	MALLOC_BLOCKS = 500,
	MALLOC_BLOCK_BYTES = 512,
	LARGE_HUNG_MIN = 16,
	CHANGE_SEC = 2,
	REMOVE_HUNG_SEC = 15,
	/* in seeds with hangs; good hosts use at most half of that, including closing connections */
	HOST_CONNECTIONS_MAX = 64,
	HOST_CONTROLLERS_MAX = 32,
};

static struct {
	unsigned int stage; /* stage of the set-up */
	bool ready, done;
	unsigned int under_way; /* operations in progress */
	bool paused, pausing, ns_there, listening, disk_removed, few_connections;
	struct host *shut_out;
	/* the connections reported by the target */
	unsigned int answers;
	size_t left;
	bool asked;
} op;

/* ---- set-up, step by step ---- */

static void set_up(void *ctx);

static void next(void *ctx, int rc, const struct fathom_fault *why)
{
	sim_check(rc == 0, "set-up stage %u: %s", op.stage, why->text);
	op.stage++;
	set_up(NULL);
}

static void ns_added(void *ctx, int rc, const struct fathom_fault *why, uint32_t nsid)
{
	sim_check(rc == 0 && nsid == (uintptr_t)ctx, "namespace %lu: %s", (unsigned long)(uintptr_t)ctx, why->text);
	next(NULL, rc, why);
}

static void listener_call(const char *service, bool add, nvmf_done_fn done, void *ctx)
{
	struct nvmf_address address = { .trtype = "TCP", .adrfam = "IPv4", .traddr = "10.0.0.1" };

	snprintf(address.trsvcid, sizeof(address.trsvcid), "%s", service);
	if (add)
		nvmf_subsystem_add_listener(NQN, &address, NULL, done, ctx);
	else
		nvmf_subsystem_remove_listener(NQN, &address, done, ctx);
}

static void add_ns(unsigned int ns, nvmf_add_ns_done_fn done)
{
	struct nvmf_ns_options options;
	char name[16];

	nvmf_ns_options_init(&options);
	snprintf(name, sizeof(name), sim_disks[ns] ? "disk%u" : ns_swallows[ns] ? "null%u" : "malloc%u", ns);
	options.nsid = ns + 1;
	options.bdev_name = name;
	nvmf_subsystem_add_ns(NQN, &options, done, (void *)(uintptr_t)(ns + 1));
}

static void create_devices(void)
{
	struct malloc_options options = {
		.name = "malloc1", .block_count = MALLOC_BLOCKS, .block_bytes = MALLOC_BLOCK_BYTES, .uuid = { 77 }
	};
	struct null_options null = {
		.name = "null1", .block_count = MALLOC_BLOCKS, .block_bytes = MALLOC_BLOCK_BYTES, .uuid = { 78 }
	};
	struct fathom_fault why;

	sim_disks[0] = disk_create(0);
	sim_disks[2] = disk_create(2);
	if (sim.hangs) {
		sim_disks[HUNG_NS] = disk_create(HUNG_NS);
		disk_hang_for_ever(sim_disks[HUNG_NS], sim_chance(1, 2) ? 1000 : (uint32_t)sim_between(100, 999));
	}
	if (sim_chance(1, 4)) {
		ns_swallows[1] = true;
		sim_check(null_create(&null, &why) == 0, "null1: %s", why.text);
		ledger_init(1, MALLOC_BLOCKS, MALLOC_BLOCK_BYTES);
		return;
	}
	if (sim_chance(1, 2)) {
		sim_disks[1] = disk_create(1);
		return;
	}
	sim_check(malloc_create(&options, &why) == 0, "malloc1: %s", why.text);
	ledger_init(1, MALLOC_BLOCKS, MALLOC_BLOCK_BYTES);
}

static void create_transport(void)
{
	struct nvmf_transport_options options;

	nvmf_transport_options_init(&options);
	options.c2h_success = sim_chance(1, 2);
	options.min_kato = 1000;
	if (op.few_connections) {
		options.max_connections_per_address = HOST_CONNECTIONS_MAX;
		options.max_connections = host_count * HOST_CONNECTIONS_MAX;
	}
	/* in seeds with hangs each other host must have a share */
	if (sim_chance(sim.hangs ? 3 : 1, 4))
		tcp_transport_limit_buffers(options.max_io_size *
					    (sim.hangs ? sim_between(LARGE_HUNG_MIN, 64) : sim_between(1, 8)));
	nvmf_transport_create("TCP", &options, next, NULL);
}

static void create_subsystem(void)
{
	struct nvmf_subsystem_options options;

	nvmf_subsystem_options_init(&options);
	snprintf(options.nqn, sizeof(options.nqn), NQN);
	if (sim.hangs && !op.few_connections) {
		options.max_host_controllers = HOST_CONTROLLERS_MAX;
		options.min_cntlid = 1;
		options.max_cntlid = (uint16_t)(host_count * HOST_CONTROLLERS_MAX);
	}
	nvmf_subsystem_create(&options, next, NULL);
}

static void set_up(void *ctx)
{
	switch (op.stage) {
	case 0:
		tcp_transport_register();
		nvmf_target_start(next, NULL);
		break;
	case 1:
		create_transport();
		break;
	case 2:
		create_devices();
		create_subsystem();
		break;
	case 3:
	case 4:
	case 5:
	case 6:
		if (op.stage - 3 == HUNG_NS && !sim.hangs)
			next(NULL, 0, NULL);
		else
			add_ns(op.stage - 3, ns_added);
		break;
	case 7:
		listener_call("4420", true, next, NULL);
		break;
	case 8:
		listener_call("4421", true, next, NULL);
		break;
	default:
		if (op.stage - 9 < host_count) {
			nvmf_subsystem_add_host(NQN, hosts[op.stage - 9].nqn, next, NULL);
			break;
		}
		op.ready = op.ns_there = op.listening = true;
		break;
	}
}

void operator_set_up(void)
{
	op.few_connections = sim.hangs && sim_chance(1, 2);
	thread_send_msg(thread_control(), set_up, NULL);
}

bool operator_is_ready(void)
{
	return op.ready;
}

/* ---- changes while the target is in use ---- */

static void ended(int rc, const struct fathom_fault *why, const char *what)
{
	sim_check(rc == 0, "%s: %s", what, why->text);
	must(op.under_way > 0);
	op.under_way--;
	sim_say("operator: %s done", what);
}

static void ns_removed(void *ctx, int rc, const struct fathom_fault *why)
{
	/* its disk may have been removed before */
	if (rc == -ENOENT && op.disk_removed)
		rc = 0;
	ended(rc, why, "remove_ns");
	op.ns_there = false;
}

static void ns_back(void *ctx, int rc, const struct fathom_fault *why, uint32_t nsid)
{
	if (rc == -ENODEV && op.disk_removed) {
		op.under_way--;
		return;
	}
	ended(rc, why, "add_ns");
	op.ns_there = true;
}

static void toggle_ns(void *ctx)
{
	if (op.ns_there)
		nvmf_subsystem_remove_ns(NQN, 3, NVMF_DRAIN_MS_DEFAULT, ns_removed, NULL);
	else
		add_ns(2, ns_back);
}

static void paused(void *ctx, int rc, const struct fathom_fault *why)
{
	ended(rc, why, "pause");
	for (unsigned int i = 0; i < NAMESPACES; i++)
		sim_check(!sim_disks[i] || disk_under_way(sim_disks[i]) == 0, "paused, and disk%u has %u I/Os", i,
			  disk_under_way(sim_disks[i]));
	op.paused = true;
}

static void resumed(void *ctx, int rc, const struct fathom_fault *why)
{
	ended(rc, why, "resume");
	op.paused = op.pausing = false;
}

static void toggle_pause(void *ctx)
{
	if (op.paused)
		nvmf_subsystem_resume(NQN, resumed, NULL);
	else
		nvmf_subsystem_pause(NQN, paused, NULL);
}

static void host_back(void *ctx, int rc, const struct fathom_fault *why)
{
	struct host *host = ctx;

	ended(rc, why, "add_host");
	host->forbidden = host->barred = false;
	op.shut_out = NULL;
}

static void host_out(void *ctx, int rc, const struct fathom_fault *why)
{
	ended(rc, why, "remove_host");
}

static void toggle_host(void *ctx)
{
	if (op.shut_out) {
		nvmf_subsystem_add_host(NQN, op.shut_out->nqn, host_back, op.shut_out);
		return;
	}
	op.shut_out = ctx;
	op.shut_out->forbidden = true;
	nvmf_subsystem_remove_host(NQN, op.shut_out->nqn, host_out, NULL);
}

static void listener_back(void *ctx, int rc, const struct fathom_fault *why)
{
	ended(rc, why, "add_listener");
	op.listening = true;
}

static void listener_gone(void *ctx, int rc, const struct fathom_fault *why)
{
	ended(rc, why, "remove_listener");
	op.listening = false;
}

static void toggle_listener(void *ctx)
{
	listener_call("4421", !op.listening, op.listening ? listener_gone : listener_back, NULL);
}

static void remove_disk(void *ctx)
{
	op.disk_removed = true;
	disk_remove(sim_disks[2]);
	op.under_way--;
}

static void got_controllers(void *ctx, int rc, const struct fathom_fault *why, const struct nvmf_controller_info *infos,
			    size_t count)
{
	ended(rc, why, "get_controllers");
	op.left += count;
	op.answers++;
}

static void got_qpairs(void *ctx, int rc, const struct fathom_fault *why, const struct nvmf_qpair_info *infos, size_t count)
{
	ended(rc, why, "get_qpairs");
	op.left += count;
	op.answers++;
}

static void ask(void *ctx)
{
	nvmf_subsystem_get_controllers(NQN, got_controllers, NULL);
	nvmf_subsystem_get_qpairs(NQN, got_qpairs, NULL);
}

static void start(thread_fn fn, void *ctx, unsigned int count)
{
	op.under_way += count;
	sim.operations += count;
	thread_send_msg(thread_control(), fn, ctx);
}

/* From now on the operator may disconnect each host of the second listener. */
static void forbid_by_listener(void)
{
	for (unsigned int i = 0; i < host_count; i++) {
		if (strcmp(hosts[i].service, "4421") == 0)
			hosts[i].forbidden = true;
	}
}

void operator_step(void)
{
	struct host *host = &hosts[sim_below(host_count)];

	if (op.under_way || !sim_chance(1, 100))
		return;
	switch (sim_below(7)) {
	case 0:
	case 1:
		if (!op.disk_removed && ns_changes[2])
			start(toggle_ns, NULL, 1);
		break;
	case 2:
	case 3:
		if (op.shut_out ? host_is_away(op.shut_out) : host->victim && !host->forbidden) {
			if (op.shut_out)
				op.shut_out->barred = true;
			start(toggle_host, host, 1);
		}
		break;
	case 4:
		if (sim_chance(1, 3)) {
			forbid_by_listener();
			start(toggle_listener, NULL, 1);
		}
		break;
	case 5:
		if (sim_chance(1, 30) && ns_changes[2] && !op.disk_removed)
			start(remove_disk, NULL, 1);
		else
			start(ask, NULL, 2);
		break;
	default:
		/* an explicit pause waits for all I/O */
		if (!sim.hangs)
			start(toggle_pause, NULL, 1);
		break;
	}
}

/* ---- each change once, while devices or hosts hang ---- */

static bool nothing_under_way(void)
{
	return op.under_way == 0;
}

static void change_done(void *ctx, int rc, const struct fathom_fault *why)
{
	ended(rc, why, ctx);
}

static void add_extra_host(void *ctx)
{
	nvmf_subsystem_add_host(NQN, EXTRA_HOST, change_done, "add_host");
}

static void remove_extra_host(void *ctx)
{
	nvmf_subsystem_remove_host(NQN, EXTRA_HOST, change_done, "remove_host");
}

static void add_extra_listener(void *ctx)
{
	listener_call("4422", true, change_done, "add_listener");
}

static void remove_extra_listener(void *ctx)
{
	listener_call("4422", false, change_done, "remove_listener");
}

static void create_extra_subsystem(void *ctx)
{
	struct nvmf_subsystem_options options;

	nvmf_subsystem_options_init(&options);
	snprintf(options.nqn, sizeof(options.nqn), EXTRA_NQN);
	nvmf_subsystem_create(&options, change_done, "create_subsystem");
}

static void destroy_extra_subsystem(void *ctx)
{
	nvmf_subsystem_destroy(EXTRA_NQN, change_done, "delete_subsystem");
}

static void toggle_ns_if_there(void *ctx)
{
	if (op.disk_removed)
		op.under_way--;
	else
		toggle_ns(NULL);
}

static void remove_hung_ns(void *ctx)
{
	nvmf_subsystem_remove_ns(NQN, HUNG_NS + 1, NVMF_DRAIN_MS_DEFAULT, change_done, "remove_ns of what hangs");
}

void operator_exercise(void (*meanwhile)(void))
{
	static const struct {
		thread_fn fn;
		const char *what;
		unsigned int count;
	} changes[] = {
		{ add_extra_host, "add_host", 1 },
		{ remove_extra_host, "remove_host", 1 },
		{ add_extra_listener, "add_listener", 1 },
		{ remove_extra_listener, "remove_listener", 1 },
		{ create_extra_subsystem, "create_subsystem", 1 },
		{ destroy_extra_subsystem, "delete_subsystem", 1 },
		{ toggle_ns_if_there, "remove_ns or add_ns of another namespace", 1 },
		{ toggle_ns_if_there, "add_ns or remove_ns of another namespace", 1 },
		{ ask, "get_controllers and get_qpairs", 2 },
	};

	for (size_t i = 0; i < ARRAY_COUNT(changes); i++) {
		start(changes[i].fn, NULL, changes[i].count);
		world_until(nothing_under_way, CHANGE_SEC, changes[i].what);
	}
	if (sim_chance(1, 2))
		return;
	start(remove_hung_ns, NULL, 1);
	meanwhile();
	world_until(nothing_under_way, REMOVE_HUNG_SEC, "remove_ns of the device that hangs");
}

bool operator_settle(void)
{
	if (op.under_way)
		return false;
	if (op.paused)
		start(toggle_pause, NULL, 1);
	return !op.paused;
}

bool operator_check_empty(void)
{
	if (!op.asked) {
		op.asked = true;
		op.answers = 0;
		op.left = 0;
		start(ask, NULL, 2);
	}
	if (op.answers < 2)
		return false;
	op.asked = false;
	return op.left == 0;
}

/* ---- taking the target down ---- */

static void malloc_gone(void *ctx)
{
	op.done = true;
}

static void stopped(void *ctx, int rc, const struct fathom_fault *why)
{
	sim_check(rc == 0, "nvmf_target_stop: %s", why->text);
	sim_check(nvmf_target_state() == NVMF_TGT_STOPPED, "the target stopped into %s",
		  nvmf_tgt_state_name(nvmf_target_state()));
	nvmf_target_reset();
	for (unsigned int i = 0; i < NAMESPACES; i++) {
		if (sim_disks[i])
			disk_remove(sim_disks[i]);
		else if (i == 1)
			sim_check(backend_delete(ns_swallows[i] ? "null1" : "malloc1", NULL, malloc_gone, NULL) == 0,
				  "namespace 2's device cannot be deleted");
	}
	if (sim_disks[1])
		op.done = true;
}

static void stop(void *ctx)
{
	nvmf_target_stop(stopped, NULL);
}

void operator_take_down(void)
{
	thread_send_msg(thread_control(), stop, NULL);
}

bool operator_is_done(void)
{
	for (unsigned int i = 0; i < NAMESPACES; i++) {
		if (sim_disks[i] && !disk_is_gone(sim_disks[i]))
			return false;
	}
	return op.done;
}
