/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Credentials: who a client is, as the kernel says it, with the names that this host has for its numbers, signed.
 *
 *     REQUEST_CREDS -> identity of (uid, gid): known and young -> sign, answer
 *                                              else a worker thread looks it up; calls of the same user wait together
 *
 * The user database may block (LDAP). A wait ends after LOOKUP_SECONDS with a fault; at most AGENT_LOOKUPS_MAX users are
 * looked up at a time. A user that the database does not know is taken from the configuration, or refused.
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "control/agent/internal.h"
#include "control/agent/probes.gen.h"

enum { LOOKUP_SECONDS = 10, IDENTITIES_MAX = 1024, DATABASE_BYTES_MAX = 1 << 20, DATABASE_BYTES = 4096 };

/* A client, or a part of the agent. */
struct credential_waiter {
	TAILQ_ENTRY(credential_waiter) link;
	struct drpc_call *call; /* NULL: `done` waits */
	credential_done_fn done;
	void *ctx;
};

struct identity {
	TAILQ_ENTRY(identity) link;
	struct worker_job job;
	struct agent *agent;
	uid_t uid;
	gid_t gid;
	bool is_looking, is_abandoned; /* abandoned: no longer in the list; freed when the worker ends */
	uint64_t at_ns;		       /* 0: never looked up */
	struct deadline give_up;
	TAILQ_HEAD(, credential_waiter) waiters;
	/* written by the worker while is_looking */
	int error;
	char *user, *group, *groups[CREDENTIAL_GROUPS_MAX];
	size_t group_count;
};

/* ---- the database; on a worker thread ---- */

static char *copy_text(const char *text)
{
	char *copy = strdup(text);

	must(copy);
	return copy;
}

static void forget_names(struct identity *identity)
{
	free(identity->user);
	free(identity->group);
	for (size_t i = 0; i < identity->group_count; i++)
		free(identity->groups[i]);
	identity->user = identity->group = NULL;
	identity->group_count = 0;
}

/* The name of a group; NULL: it has none. The caller frees it. */
static char *find_group(gid_t gid)
{
	char *buffer = NULL, *name = NULL;
	struct group entry, *found = NULL;
	int error = ERANGE;

	for (size_t bytes = DATABASE_BYTES; error == ERANGE && bytes <= DATABASE_BYTES_MAX; bytes *= 4) {
		free(buffer);
		buffer = malloc(bytes);
		must(buffer);
		error = getgrgid_r(gid, &entry, buffer, bytes, &found);
	}
	if (error == 0 && found)
		name = copy_text(entry.gr_name);
	free(buffer);
	return name;
}

static void find_groups(struct identity *identity)
{
	gid_t gids[CREDENTIAL_GROUPS_MAX];
	int count = CREDENTIAL_GROUPS_MAX;

	if (getgrouplist(identity->user, identity->gid, gids, &count) < 0)
		count = CREDENTIAL_GROUPS_MAX; /* it is in more groups: the first ones count */
	for (int i = 0; i < count; i++) {
		char *name = gids[i] == identity->gid ? NULL : find_group(gids[i]);

		if (name)
			identity->groups[identity->group_count++] = name;
	}
}

static int find_user(struct identity *identity)
{
	char *buffer = NULL;
	struct passwd entry, *found = NULL;
	int error = ERANGE;

	for (size_t bytes = DATABASE_BYTES; error == ERANGE && bytes <= DATABASE_BYTES_MAX; bytes *= 4) {
		free(buffer);
		buffer = malloc(bytes);
		must(buffer);
		error = getpwuid_r(identity->uid, &entry, buffer, bytes, &found);
	}
	if (error == 0 && found)
		identity->user = copy_text(entry.pw_name);
	free(buffer);
	return identity->user ? 0 : -ENOENT;
}

static int use_configured_user(struct identity *identity)
{
	const struct config_list *list = &identity->agent->config->credentials.users;
	const struct agent_user *users = list->items;

	for (size_t i = 0; i < list->count; i++) {
		if (users[i].uid != identity->uid)
			continue;
		identity->user = copy_text(users[i].user);
		identity->group = copy_text(users[i].group);
		for (size_t k = 0; k < users[i].groups.count && k < CREDENTIAL_GROUPS_MAX; k++)
			identity->groups[identity->group_count++] = copy_text(users[i].groups.items[k]);
		return 0;
	}
	return -ENOENT;
}

static void look_up(struct worker_job *job)
{
	struct identity *identity = container_of(job, struct identity, job);

	forget_names(identity);
	identity->error = find_user(identity);
	if (identity->error) {
		identity->error = use_configured_user(identity);
		return;
	}
	identity->group = find_group(identity->gid);
	if (identity->group)
		find_groups(identity);
	else
		identity->error = -ENOENT;
}

/* ---- answers ---- */

static void reply_credential(struct agent *agent, struct drpc_call *call, int status, Auth__Credential *credential)
{
	Auth__GetCredResp response = AUTH__GET_CRED_RESP__INIT;
	const struct drpc_peer *peer = drpc_call_peer(call);

	response.status = status;
	response.cred = credential;
	if (status)
		agent->stats.credential_failures++;
	else
		agent->stats.credentials++;
	probe_agent_credential(reactor_now(), agent, peer->pid, peer->uid, status);
	drpc_reply(call, &response.base);
}

static void finish(struct agent *agent, const struct credential_waiter *waiter, int status, Auth__Credential *credential)
{
	if (waiter->call)
		reply_credential(agent, waiter->call, status, credential);
	else
		waiter->done(waiter->ctx, status, credential);
}

static void answer(struct identity *identity, const struct credential_waiter *waiter)
{
	static struct log_limit limit = LOG_LIMIT(5, NS_PER_SEC);
	struct agent *agent = identity->agent;
	const struct credential_identity who = {
		.machine = agent->machine,
		.user = identity->user,
		.group = identity->group,
		.groups = identity->groups,
		.group_count = identity->group_count,
	};
	Auth__Credential *credential;
	struct fathom_fault why;

	must(!identity->is_looking);
	if (identity->error) {
		log_line_limited(&limit, clock_monotonic_ns(), LOG_LEVEL_WARNING,
				 "no credential for uid %u, gid %u: this host does not know them; client_user_map can",
				 identity->uid, identity->gid);
		finish(agent, waiter, AGENT_STATUS_NOT_FOUND, NULL);
		return;
	}
	if (credential_make(&who, agent->key, &credential, &why) != 0) {
		agent_log_fault(LOG_LEVEL_ERROR, "no credential: ", &why);
		finish(agent, waiter, AGENT_STATUS_MISC, NULL);
		return;
	}
	finish(agent, waiter, 0, credential);
	auth__credential__free_unpacked(credential, NULL);
}

/* `status` 0: answer; else fail. */
static void end_waiters(struct identity *identity, int status)
{
	struct credential_waiter *waiter;

	while ((waiter = TAILQ_FIRST(&identity->waiters))) {
		TAILQ_REMOVE(&identity->waiters, waiter, link);
		if (status)
			finish(identity->agent, waiter, status, NULL);
		else
			answer(identity, waiter);
		free(waiter);
	}
}

static void identity_remove(struct identity *identity)
{
	struct identities *identities = &identity->agent->identities;

	TAILQ_REMOVE(&identities->known, identity, link);
	must(identities->count > 0);
	identities->count--;
	deadline_clear(&identity->agent->deadlines, &identity->give_up);
}

static void identity_free(struct identity *identity)
{
	must(!identity->is_looking);
	must(!TAILQ_FIRST(&identity->waiters));
	forget_names(identity);
	free(identity);
}

/* The database hangs: later calls of this user look it up again. */
static void abandon(struct deadline *deadline)
{
	struct identity *identity = container_of(deadline, struct identity, give_up);

	must(identity->is_looking);
	identity_remove(identity);
	identity->is_abandoned = true;
	end_waiters(identity, AGENT_STATUS_TIMED_OUT);
}

static void looked_up(struct worker_job *job)
{
	struct identity *identity = container_of(job, struct identity, job);
	struct agent *agent = identity->agent;

	must(agent->identities.lookups > 0);
	agent->identities.lookups--;
	identity->is_looking = false;
	identity->at_ns = clock_monotonic_ns();
	if (identity->is_abandoned) {
		identity_free(identity);
	} else {
		deadline_clear(&agent->deadlines, &identity->give_up);
		end_waiters(identity, 0);
	}
	agent_job_done(agent);
}

/* ---- the list ---- */

/* Make room for a new one: forget the oldest that is not in use. */
static bool make_room(struct identities *identities)
{
	struct identity *identity;

	if (identities->count < IDENTITIES_MAX)
		return true;
	TAILQ_FOREACH (identity, &identities->known, link) {
		if (identity->is_looking)
			continue;
		identity_remove(identity);
		identity_free(identity);
		return true;
	}
	return false;
}

/* NULL: too many are being looked up. */
static struct identity *identity_find(struct agent *agent, uid_t uid, gid_t gid)
{
	struct identities *identities = &agent->identities;
	struct identity *identity;

	TAILQ_FOREACH (identity, &identities->known, link) {
		if (identity->uid == uid && identity->gid == gid)
			return identity;
	}
	if (!make_room(identities))
		return NULL;
	identity = calloc(1, sizeof(*identity));
	must(identity);
	identity->agent = agent;
	identity->uid = uid;
	identity->gid = gid;
	TAILQ_INIT(&identity->waiters);
	TAILQ_INSERT_TAIL(&identities->known, identity, link);
	identities->count++;
	return identity;
}

static bool start_lookup(struct identity *identity)
{
	struct agent *agent = identity->agent;

	if (agent->identities.lookups == AGENT_LOOKUPS_MAX)
		return false;
	identity->job = (struct worker_job){ .work = look_up, .done = looked_up };
	if (agent_job_start(agent, &identity->job) != 0)
		return false;
	agent->identities.lookups++;
	identity->is_looking = true;
	deadline_set(&agent->deadlines, &identity->give_up, LOOKUP_SECONDS * NS_PER_SEC, abandon);
	return true;
}

/* `wanted` waits for a credential of this user. */
static void ask(struct agent *agent, uid_t uid, gid_t gid, const struct credential_waiter *wanted)
{
	uint64_t keep_ns = agent_duration_ns(agent->config->credentials.cache_expiration);
	struct identity *identity = identity_find(agent, uid, gid);
	struct credential_waiter *waiter;

	if (!identity) {
		finish(agent, wanted, AGENT_STATUS_BUSY, NULL);
		return;
	}
	if (!identity->is_looking && identity->at_ns && clock_monotonic_ns() - identity->at_ns < keep_ns) {
		answer(identity, wanted);
		return;
	}
	if (!identity->is_looking && !start_lookup(identity)) {
		finish(agent, wanted, AGENT_STATUS_BUSY, NULL);
		return;
	}
	waiter = calloc(1, sizeof(*waiter));
	must(waiter);
	*waiter = *wanted;
	TAILQ_INSERT_TAIL(&identity->waiters, waiter, link);
}

void call_request_credentials(struct drpc_call *call, const ProtobufCMessage *request)
{
	const struct drpc_peer *peer = drpc_call_peer(call);

	ask(drpc_call_ctx(call), peer->uid, peer->gid, &(struct credential_waiter){ .call = call });
}

void identities_ask(struct agent *agent, uid_t uid, gid_t gid, credential_done_fn done, void *ctx)
{
	ask(agent, uid, gid, &(struct credential_waiter){ .done = done, .ctx = ctx });
}

void identities_open(struct agent *agent)
{
	TAILQ_INIT(&agent->identities.known);
}

void identities_close(struct agent *agent)
{
	struct identity *identity;

	must(agent->identities.lookups == 0);
	while ((identity = TAILQ_FIRST(&agent->identities.known))) {
		identity_remove(identity);
		identity_free(identity);
	}
	must(agent->identities.count == 0);
}
