/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections, hosts and buffers. The last answer of the reactors is kept, for a collection that one does not answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/observe/trace/points.gen.h"
#include "data/engine/figures/figures.h"
#include "data/nvme/names.h"
#include "data/target/target.h"
#include "data/wire/conn/conn.h"

static struct {
	struct nvmf_accounts *accounts; /* NULL: none yet */
	uint64_t tick;
	void (*done)(void);
} last;

static void answered(void *ctx, struct nvmf_accounts *accounts)
{
	if (!last.done) { /* the engine stops */
		nvmf_accounts_destroy(accounts);
		return;
	}
	nvmf_accounts_destroy(last.accounts);
	last.accounts = accounts;
	last.tick = clock_ticks();
	last.done();
}

bool engine_figures_ask(void (*done)(void))
{
	if (nvmf_target_state() != NVMF_TGT_RUNNING)
		return false;
	last.done = done;
	nvmf_target_get_accounts(answered, NULL);
	return true;
}

uint64_t engine_figures_asked_tick(void)
{
	return last.tick;
}

void engine_figures_forget(void)
{
	nvmf_accounts_destroy(last.accounts);
	last.accounts = NULL;
	last.tick = 0;
	last.done = NULL;
}

/* ---- hosts ---- */

/* A host in a subsystem. */
struct host {
	const char *nqn, *host_nqn;
	uint64_t commands, bytes_read, bytes_written;
	uint32_t controllers, admin_qpairs, io_qpairs;
	bool is_account; /* it was counted */
	uint64_t ends[NVMF_ENDS_MAX];
	bool has_ended;
};

struct hosts {
	struct host *hosts;
	size_t count, room;
};

static struct host *add_host(struct hosts *hosts, const char *nqn, const char *host_nqn)
{
	if (hosts->count == hosts->room) {
		hosts->room = hosts->room ? 2 * hosts->room : 64;
		hosts->hosts = realloc(hosts->hosts, hosts->room * sizeof(*hosts->hosts));
		must(hosts->hosts);
	}
	hosts->hosts[hosts->count] = (struct host){ .nqn = nqn, .host_nqn = host_nqn };
	return &hosts->hosts[hosts->count++];
}

static int compare_hosts(const void *a, const void *b)
{
	const struct host *x = a, *y = b;
	int order = strcmp(x->nqn, y->nqn);

	return order ? order : strcmp(x->host_nqn, y->host_nqn);
}

/* Join the rows of each pair. */
static void join_hosts(struct hosts *hosts)
{
	size_t kept = 0;

	if (hosts->count > 0)
		qsort(hosts->hosts, hosts->count, sizeof(*hosts->hosts), compare_hosts);
	for (size_t i = 0; i < hosts->count; i++) {
		struct host *from = &hosts->hosts[i], *to = kept > 0 ? &hosts->hosts[kept - 1] : NULL;

		if (!to || compare_hosts(to, from) != 0) {
			hosts->hosts[kept++] = *from;
			continue;
		}
		to->commands += from->commands;
		to->bytes_read += from->bytes_read;
		to->bytes_written += from->bytes_written;
		to->controllers += from->controllers;
		to->admin_qpairs += from->admin_qpairs;
		to->io_qpairs += from->io_qpairs;
		to->is_account |= from->is_account;
		to->has_ended |= from->has_ended;
		for (int end = 0; end < NVMF_ENDS_MAX; end++)
			to->ends[end] += from->ends[end];
	}
	hosts->count = kept;
}

struct visit {
	struct hosts *hosts;
	const char *nqn;
};

static void add_controller(void *ctx, const struct nvmf_connection *connection)
{
	struct visit *visit = ctx;

	add_host(visit->hosts, visit->nqn, connection->host_nqn)->controllers = 1;
}

static void add_end(void *ctx, const char *nqn, const char *host_nqn, const uint64_t counts[static NVMF_ENDS_MAX])
{
	struct host *host = add_host(ctx, nqn, host_nqn);

	host->has_ended = true;
	memcpy(host->ends, counts, sizeof(host->ends));
}

static void read_hosts(struct hosts *hosts)
{
	const struct nvmf_subsystem *subsystem;
	const char *host_nqn;

	for (subsystem = nvmf_subsystem_first(); subsystem; subsystem = nvmf_subsystem_next(subsystem)) {
		struct visit visit = { hosts, nvmf_subsystem_get_options(subsystem)->nqn };

		for (unsigned int i = 0; (host_nqn = nvmf_subsystem_host_at(subsystem, i)); i++)
			add_host(hosts, visit.nqn, host_nqn);
		nvmf_subsystem_each_connection(subsystem, add_controller, &visit);
	}
	for (size_t i = 0; last.accounts && i < last.accounts->host_count; i++) {
		const struct nvmf_host_account *account = &last.accounts->hosts[i];
		struct host *host = add_host(hosts, account->nqn, account->host_nqn);

		host->is_account = true;
		host->commands = account->command_count;
		host->bytes_read = account->bytes_read;
		host->bytes_written = account->bytes_written;
		host->admin_qpairs = account->admin_qpairs;
		host->io_qpairs = account->io_qpairs;
	}
	nvmf_target_each_end(add_end, hosts);
	join_hosts(hosts);
}

static void print_host(struct figures *figures, const struct host *host)
{
	static const char *const reasons[NVMF_ENDS_MAX] = { "keep_alive", "closed", "other" };

	figure_host_connected(figures, host->nqn, host->host_nqn, host->controllers);
	if (host->is_account) {
		figure_host_operations(figures, host->nqn, host->host_nqn, (double)host->commands);
		figure_host_bytes(figures, host->nqn, host->host_nqn, "read", (double)host->bytes_read);
		figure_host_bytes(figures, host->nqn, host->host_nqn, "write", (double)host->bytes_written);
		figure_host_queue_pairs(figures, host->nqn, host->host_nqn, "admin", host->admin_qpairs);
		figure_host_queue_pairs(figures, host->nqn, host->host_nqn, "io", host->io_qpairs);
	}
	/* from 0 on, so that the first one is an increase */
	for (int end = 0; end < NVMF_ENDS_MAX && (host->is_account || host->has_ended); end++)
		figure_host_disconnects(figures, host->nqn, host->host_nqn, reasons[end], (double)host->ends[end]);
}

/* ---- connections ---- */

static void print_groups(struct figures *figures)
{
	double admin = 0, io = 0, unassociated = 0;

	for (size_t i = 0; i < last.accounts->group_count; i++) {
		const struct nvmf_group_account *group = &last.accounts->groups[i];
		char core[16];

		snprintf(core, sizeof(core), "%u", group->cpu);
		admin += group->current_admin_qpairs;
		io += group->current_io_qpairs;
		unassociated += group->current_unassociated_qpairs;
		figure_buffers_lent_bytes(figures, core, (double)group->buffers_lent_bytes);
		figure_buffers_limit_bytes(figures, core, (double)group->buffers_most_bytes);
		figure_buffers_waiting_requests(figures, core, group->buffers_waiting);
		engine_figures_note(FIGURE_CHECK_BUFFERS_EXHAUSTED, group->buffers_waiting);
	}
	figure_connections(figures, "admin", admin);
	figure_connections(figures, "io", io);
	figure_connections(figures, "unassociated", unassociated);
}

static void print_refusal(void *ctx, uint16_t status, uint64_t count)
{
	char text[16];

	snprintf(text, sizeof(text), "0x%x", status);
	figure_connects_refused(ctx, text, (double)count);
}

static void print_refused_connections(struct figures *figures)
{
	static const char *const reasons[] = {
		[TCP_REFUSAL_DESCRIPTORS] = "descriptors", [TCP_REFUSAL_CONNECTIONS] = "connections",
		[TCP_REFUSAL_ADDRESS] = "address",	   [TCP_REFUSAL_ADMITTED] = "not_admitted",
		[TCP_REFUSAL_MEMORY] = "memory",
	};

	for (unsigned int i = 0; i < ARRAY_COUNT(reasons); i++)
		figure_connections_refused(figures, reasons[i], (double)tcp_transport_refused((enum tcp_refusal)i));
}

void engine_figures_hosts(struct figures *figures)
{
	struct hosts hosts = { 0 };
	size_t count;

	read_hosts(&hosts);
	count = hosts.count < FIGURES_HOSTS_MAX ? hosts.count : FIGURES_HOSTS_MAX;
	for (size_t i = 0; i < count; i++)
		print_host(figures, &hosts.hosts[i]);
	figure_engine_series_dropped(figures, "hosts", (double)(hosts.count - count));
	free(hosts.hosts);
	if (last.accounts)
		print_groups(figures);
	nvmf_target_each_refusal(print_refusal, figures);
	print_refused_connections(figures);
}
