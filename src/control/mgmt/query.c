/* SPDX-License-Identifier: BSD-2-Clause */
/* Queries that change nothing: members, leader, attach information. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/mgmt/internal.h"

enum { TIME_BYTES = 40 };

/* A member as a message, with the storage of its texts. */
struct shown_member {
	Mgmt__SystemMember message;
	char uuid[MEMBER_UUID_TEXT_BYTES], updated[TIME_BYTES], info[2 * MEMBER_INFO_BYTES];
	struct mgmt_health health;
	Shared__StorageHealth storage;
	char *secondary_uris[MEMBER_FABRICS_MAX];
};

/* Format without trailing zeroes in the fraction, like Go, so that Go programs reproduce the text unchanged. */
static void write_time(uint64_t ns, char *text)
{
	uint32_t fraction = (uint32_t)(ns % NS_PER_SEC), digits = 9;
	time_t seconds = (time_t)(ns / NS_PER_SEC);
	char date[TIME_BYTES];
	struct tm tm;

	must(gmtime_r(&seconds, &tm));
	must(strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm) > 0);
	for (; digits > 0 && fraction % 10 == 0; fraction /= 10)
		digits--;
	if (digits)
		snprintf(text, TIME_BYTES, "%.19s.%0*uZ", date, (int)digits, fraction);
	else
		snprintf(text, TIME_BYTES, "%.19sZ", date);
}

/* "2 volumes ERRORED, 1 volume READ_ONLY since 2026-11-28T20:00:00Z: p/a: ..." */
static void write_health(const struct mgmt_health *health, char *text, size_t bytes)
{
	const struct {
		uint32_t count;
		const char *what, *state;
	} rows[] = { { health->errored_volumes, "volume", "ERRORED" },
		     { health->read_only_volumes, "volume", "READ_ONLY" },
		     { health->errored_pools, "pool", "ERRORED" } };
	char since[TIME_BYTES] = "";
	size_t used = 0;

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		if (rows[i].count > 0)
			used += (size_t)snprintf(text + used, bytes - used, "%s%u %s%s %s", used ? ", " : "", rows[i].count,
						 rows[i].what, rows[i].count == 1 ? "" : "s", rows[i].state);
		must(used < bytes);
	}
	if (health->since_ns)
		write_time(health->since_ns, since);
	snprintf(text + used, bytes - used, "%s%s: %s", *since ? " since " : "", since, health->reason);
}

/* What is wrong with the storage. It is also the reason of a state without one, for programs that do not know more. */
static void fill_health(const struct mgmt_health *health, struct shown_member *shown)
{
	Shared__StorageHealth *storage = &shown->storage;

	shared__storage_health__init(storage);
	storage->failed = health->is_failed;
	storage->errored_volumes = health->errored_volumes;
	storage->read_only_volumes = health->read_only_volumes;
	storage->errored_pools = health->errored_pools;
	storage->reason = (char *)health->reason;
	storage->since_ns = health->since_ns;
	shown->message.storage = storage;
	if (shown->message.info[0] || health->is_failed)
		return;
	write_health(health, shown->info, sizeof(shown->info));
	shown->message.info = shown->info;
}

static void fill_member_message(const struct mgmt *mgmt, const struct member *member, struct shown_member *shown)
{
	Mgmt__SystemMember *message = &shown->message;

	mgmt__system_member__init(message);
	write_time(member->updated_ns, shown->updated);
	message->addr = (char *)member->address;
	message->uuid = (char *)member_uuid_format(member->uuid, shown->uuid);
	message->rank = member->rank;
	message->incarnation = member->incarnation;
	message->state = (char *)member_state_wire(member->state);
	message->fabric_uri = (char *)member->fabrics[0].uri;
	message->fabric_contexts = member->fabrics[0].contexts;
	message->info = (char *)member->info;
	message->fault_domain = (char *)member->domain;
	message->last_update = shown->updated;
	must(member->fabric_count > 0 && member->fabric_count <= MEMBER_FABRICS_MAX);
	for (uint32_t i = 1; i < member->fabric_count; i++)
		shown->secondary_uris[message->n_secondary_fabric_uris++] = (char *)member->fabrics[i].uri;
	message->secondary_fabric_uris = shown->secondary_uris;
	if (mgmt_find_health(mgmt, member, &shown->health))
		fill_health(&shown->health, shown);
}

/* Copy "ofi+tcp" of "ofi+tcp://..." to `provider`, of MEMBER_URI_BYTES. */
static void write_provider(const struct member *member, char *provider)
{
	size_t bytes = member_provider_bytes(member->fabrics[0].uri);

	must(bytes < MEMBER_URI_BYTES);
	memcpy(provider, member->fabrics[0].uri, bytes);
	provider[bytes] = '\0';
}

static void reply_members(struct grpc_call *call, const struct mgmt *mgmt, const Mgmt__SystemQueryReq *asked,
			  const struct mgmt_selection *selection, struct shown_member *shown, Mgmt__SystemMember **places)
{
	Mgmt__SystemQueryResp response = MGMT__SYSTEM_QUERY_RESP__INIT;
	char provider[MEMBER_URI_BYTES], *providers[] = { provider };

	for (size_t i = 0; i < selection->ranks.count; i++) {
		const struct member *member = system_member_by_rank(mgmt->system, selection->ranks.ranks[i]);

		must(member);
		if (asked->state_mask != 0 && !(asked->state_mask & member_state_bit(member->state)))
			continue;
		fill_member_message(mgmt, member, &shown[response.n_members]);
		places[response.n_members] = &shown[response.n_members].message;
		response.n_members++;
	}
	must(response.n_members <= selection->ranks.count);
	write_provider(system_member_at(mgmt->system, 0), provider);
	response.members = places;
	if (selection->absent_ranks)
		response.absentranks = selection->absent_ranks;
	if (selection->absent_hosts)
		response.absenthosts = selection->absent_hosts;
	response.data_version = system_version(mgmt->system);
	response.n_providers = 1;
	response.providers = providers;
	response.sys_self_heal_policy = (char *)system_property(mgmt->system, "self_heal");
	grpc_reply(call, &response.base);
}

void mgmt_system_query(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__SystemQueryReq *asked = (const Mgmt__SystemQueryReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct mgmt_selection selection;
	struct shown_member *shown = NULL;
	Mgmt__SystemMember **places = NULL;
	struct fathom_fault why = { 0 };
	int error;

	if (!mgmt)
		return;
	mgmt->stats.queries++;
	error = mgmt_select(mgmt, asked->ranks, asked->hosts, &selection, &why);
	if (!error) {
		shown = calloc(selection.ranks.count + 1, sizeof(*shown));
		places = calloc(selection.ranks.count + 1, sizeof(*places));
		error = shown && places ? 0 : -ENOMEM;
	}
	if (error)
		mgmt_fail(call, error, &why);
	else
		reply_members(call, mgmt, asked, &selection, shown, places);
	free(shown);
	free(places);
	mgmt_selection_deinit(&selection);
}

void mgmt_leader_query(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__LeaderQueryReq *asked = (const Mgmt__LeaderQueryReq *)request;
	Mgmt__LeaderQueryResp response = MGMT__LEADER_QUERY_RESP__INIT;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, false);

	if (!mgmt)
		return;
	mgmt->stats.queries++;
	/* a system without members has no leader yet */
	if (system_member_count(mgmt->system) > 0)
		response.current_leader = mgmt->address;
	response.n_replicas = mgmt->replica_count;
	response.replicas = mgmt->replicas;
	grpc_reply(call, &response.base);
}

/* ---- attach information: how a client reaches the engines ---- */

struct attach {
	Mgmt__GetAttachInfoResp__RankUri *uris, **first, **secondary;
	size_t uri_count, room;
	uint32_t *ms_ranks;
};

static bool is_replica(const struct mgmt *mgmt, const char *address)
{
	for (size_t i = 0; i < mgmt->replica_count; i++) {
		if (strcmp(mgmt->replicas[i], address) == 0)
			return true;
	}
	return false;
}

static void add_uris(const struct member *member, struct attach *attach, Mgmt__GetAttachInfoResp *response)
{
	must(attach->uri_count + member->fabric_count <= attach->room);
	for (uint32_t i = 0; i < member->fabric_count; i++) {
		Mgmt__GetAttachInfoResp__RankUri *uri = &attach->uris[attach->uri_count++];

		mgmt__get_attach_info_resp__rank_uri__init(uri);
		uri->rank = member->rank;
		uri->uri = (char *)member->fabrics[i].uri;
		uri->provider_idx = i;
		uri->num_ctxs = member->fabrics[i].contexts;
		if (i == 0)
			attach->first[response->n_rank_uris++] = uri;
		else
			attach->secondary[response->n_secondary_rank_uris++] = uri;
	}
}

static void fill_ranks(const struct mgmt *mgmt, bool all_ranks, struct attach *attach, Mgmt__GetAttachInfoResp *response)
{
	for (size_t i = 0; i < system_member_count(mgmt->system); i++) {
		const struct member *member = system_member_at(mgmt->system, i);
		bool is_ms = is_replica(mgmt, member->address);

		if (!system_is_in_map(member))
			continue;
		if (is_ms)
			attach->ms_ranks[response->n_ms_ranks++] = member->rank;
		if (is_ms || all_ranks)
			add_uris(member, attach, response);
	}
	must(response->n_rank_uris + response->n_secondary_rank_uris == attach->uri_count);
	must(response->n_ms_ranks <= system_member_count(mgmt->system));
	response->rank_uris = attach->first;
	response->secondary_rank_uris = attach->secondary;
	response->ms_ranks = attach->ms_ranks;
}

static void reply_attach(struct grpc_call *call, const struct mgmt *mgmt, bool all_ranks, struct attach *attach)
{
	Mgmt__GetAttachInfoResp response = MGMT__GET_ATTACH_INFO_RESP__INIT;
	Mgmt__ClientNetHint hint = MGMT__CLIENT_NET_HINT__INIT;
	Mgmt__BuildInfo build = MGMT__BUILD_INFO__INIT;
	char provider[MEMBER_URI_BYTES];
	int numbers;

	fill_ranks(mgmt, all_ranks, attach, &response);
	write_provider(system_member_at(mgmt->system, 0), provider);
	hint.provider = provider;
	hint.net_dev_class = mgmt->net_dev_class;
	numbers = sscanf(mgmt->version, "%u.%u.%u", &build.major, &build.minor, &build.patch);
	maybe(numbers == 3);
	response.client_net_hint = &hint;
	response.data_version = system_version(mgmt->system);
	response.sys = mgmt->name;
	response.build_info = &build;
	grpc_reply(call, &response.base);
}

void mgmt_get_attach_info(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__GetAttachInfoReq *asked = (const Mgmt__GetAttachInfoReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct attach attach = { 0 };
	struct fathom_fault why = { 0 };
	size_t count;

	if (!mgmt)
		return;
	mgmt->stats.queries++;
	count = system_member_count(mgmt->system) * MEMBER_FABRICS_MAX;
	must(count > 0); /* mgmt_enter() requires members */
	attach.room = count;
	attach.uris = calloc(count, sizeof(*attach.uris));
	attach.first = calloc(count, sizeof(*attach.first));
	attach.secondary = calloc(count, sizeof(*attach.secondary));
	attach.ms_ranks = calloc(count, sizeof(*attach.ms_ranks));
	if (attach.uris && attach.first && attach.secondary && attach.ms_ranks)
		reply_attach(call, mgmt, asked->all_ranks, &attach);
	else
		mgmt_fail(call, -ENOMEM, &why);
	free(attach.uris);
	free(attach.first);
	free(attach.secondary);
	free(attach.ms_ranks);
}
