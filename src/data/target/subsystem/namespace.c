/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * namespace - namespaces on block devices.
 *
 * A namespace holds its device open and claimed. Adding one sends each group a message to take it, removing one a message
 * to release it; groups do not wait for each other. The device is closed when no group holds the namespace any more. That
 * is at the end of the removal, or later if the device has not returned commands that were given up (group_ns.c). When a
 * device is removed, its namespace is removed too.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "data/target/controller/controller.h"
#include "data/target/probes.gen.h"

/* A running change: a message to each group, and the answers. Control thread only, except the parts of groups. */
struct nvmf_ns_part {
	struct nvmf_ns_change *change;
	struct nvmf_poll_group *group;
	int status; /* of taking */
};

struct nvmf_ns_change {
	struct nvmf_subsystem *subsystem;
	/* Called when no start or stop runs. Must end with change_free(), at once or later. */
	void (*begin)(struct nvmf_ns_change *change);
	struct nvmf_ns *ns;  /* NULL: not started */
	uint32_t nsid;	     /* 0: the lowest free */
	uint32_t generation; /* remove only the namespace of this generation; 0: any */
	uint32_t drain_ms;
	uint64_t deadline_tick;
	unsigned int untaken, unbegun, unleft; /* groups that have not yet taken it; not started, not ended its release */
	int rc;
	struct fathom_fault why;
	struct nvmf_ns_options options;
	char bdev_name[BDEV_NAME_BYTES_MAX];
	nvmf_add_ns_done_fn added;
	nvmf_done_fn removed;
	void *ctx;
	TAILQ_ENTRY(nvmf_ns_change) link; /* in subsystem->ns_waiting */
	struct nvmf_ns_part parts[];
};

void nvmf_ns_options_init(struct nvmf_ns_options *options)
{
	*options = (struct nvmf_ns_options){ 0 };
}

struct nvmf_ns *nvmf_subsystem_ns(const struct nvmf_subsystem *subsystem, uint32_t nsid)
{
	if (nsid == 0 || nsid > subsystem->options.max_namespaces)
		return NULL;
	return subsystem->namespaces[nsid - 1];
}

/* ---- holders ---- */

static void ns_close(struct nvmf_ns *ns)
{
	must_be_on(thread_control());
	must(ns->holders == 0);
	nvmf_ns_state_move(reactor_now(), ns, NVMF_NS_GONE);
	if (ns->claimed)
		bdev_release(ns->bdev);
	bdev_close(ns->desc);
	free(ns);
}

void nvmf_ns_let_go(struct nvmf_ns *ns)
{
	must_be_on(thread_control());
	must(ns->state != NVMF_NS_LENT);
	if (ns->state != NVMF_NS_REMOVING)
		nvmf_ns_state_move(reactor_now(), ns, NVMF_NS_REMOVING);
	ns->subsystem = NULL;
	if (ns->holders == 0) {
		ns_close(ns);
		return;
	}
	nvmf_tgt.lent_ns_count++;
	nvmf_ns_state_move(reactor_now(), ns, NVMF_NS_LENT);
}

void nvmf_ns_held(void *ctx)
{
	struct nvmf_ns *ns = ctx;

	must_be_on(thread_control());
	ns->holders++;
}

void nvmf_ns_released(void *ctx)
{
	struct nvmf_ns *ns = ctx;

	must_be_on(thread_control());
	must(ns->holders > 0);
	ns->holders--;
	if (ns->holders == 0 && ns->state == NVMF_NS_LENT) {
		must(nvmf_tgt.lent_ns_count > 0);
		nvmf_tgt.lent_ns_count--;
		ns_close(ns);
	}
}

/* ---- changes ---- */

static struct nvmf_ns_change *change_create(struct nvmf_subsystem *subsystem, void (*begin)(struct nvmf_ns_change *change),
					    void *ctx)
{
	struct nvmf_ns_change *change = nvmf_alloc(sizeof(*change) + nvmf_tgt.group_count * sizeof(struct nvmf_ns_part));

	change->subsystem = subsystem;
	change->begin = begin;
	change->ctx = ctx;
	for (unsigned int i = 0; i < nvmf_tgt.group_count; i++) {
		change->parts[i].change = change;
		change->parts[i].group = nvmf_tgt.groups[i];
	}
	return change;
}

static void change_submit(struct nvmf_ns_change *change)
{
	struct nvmf_subsystem *subsystem = change->subsystem;

	must_be_on(thread_control());
	if (nvmf_subsystem_is_turning(subsystem)) {
		TAILQ_INSERT_TAIL(&subsystem->ns_waiting, change, link);
		return;
	}
	subsystem->ns_changes++;
	change->begin(change);
}

void nvmf_ns_changes_go_on(struct nvmf_subsystem *subsystem)
{
	struct nvmf_ns_change *change;

	while (!nvmf_subsystem_is_turning(subsystem) && (change = TAILQ_FIRST(&subsystem->ns_waiting)) != NULL) {
		TAILQ_REMOVE(&subsystem->ns_waiting, change, link);
		subsystem->ns_changes++;
		change->begin(change);
	}
}

/* End a change whose callback was called. Runs operations that waited for it. */
static void change_free(struct nvmf_ns_change *change)
{
	struct nvmf_subsystem *subsystem = change->subsystem;

	free(change);
	must(subsystem->ns_changes > 0);
	if (--subsystem->ns_changes == 0)
		nvmf_subsystem_go_on(subsystem);
	nvmf_target_check_down();
}

static void send_to_groups(struct nvmf_ns_change *change, thread_fn fn)
{
	must(nvmf_tgt.group_count > 0);
	for (unsigned int i = 0; i < nvmf_tgt.group_count; i++)
		thread_send_msg(change->parts[i].group->thread, fn, &change->parts[i]);
}

/* Whether groups have parts of the subsystem: they do unless it is INACTIVE. */
static bool has_groups(const struct nvmf_subsystem *subsystem)
{
	must(subsystem->state != NVMF_SUBSYSTEM_ACTIVATING);
	must(subsystem->state != NVMF_SUBSYSTEM_DEACTIVATING);
	return subsystem->state != NVMF_SUBSYSTEM_INACTIVE;
}

/* ---- release, after a removal, or an addition that failed on a group ---- */

static void release_done(struct nvmf_ns_change *change);

static void released_on_control(void *ctx)
{
	struct nvmf_ns_change *change = ((struct nvmf_ns_part *)ctx)->change;

	must_be_on(thread_control());
	must(change->unbegun == 0 || change->unleft > change->unbegun);
	must(change->unleft > 0);
	if (--change->unleft == 0)
		release_done(change);
}

static void quiesced_on_control(void *ctx)
{
	struct nvmf_ns_change *change = ((struct nvmf_ns_part *)ctx)->change;

	must_be_on(thread_control());
	must(change->unbegun > 0);
	/* Send the event only now: no group reports the namespace any more, so hosts that rescan do not find it. */
	if (--change->unbegun == 0 && change->removed)
		nvmf_ns_changed(change->subsystem, change->nsid);
}

static void released_on_group(void *ctx)
{
	thread_send_msg(thread_control(), released_on_control, ctx);
}

static void release_on_group(void *ctx)
{
	struct nvmf_ns_part *part = ctx;
	const struct nvmf_ns_change *change = part->change;
	struct nvmf_group_subsystem *group_part = part->group->subsystems[change->subsystem->id];
	struct nvmf_group_ns *here = nvmf_group_ns(group_part, change->nsid);

	must_be_on(part->group->thread);
	must(!here || here->ns == change->ns);
	thread_send_msg(thread_control(), quiesced_on_control, part);
	if (here)
		nvmf_group_ns_quiesce(here, change->deadline_tick, released_on_group, part);
	else
		released_on_group(part); /* the addition failed on this group */
}

static void start_release(struct nvmf_ns_change *change)
{
	must_be_on(thread_control());
	nvmf_ns_state_move(reactor_now(), change->ns, NVMF_NS_REMOVING);
	if (!has_groups(change->subsystem)) {
		if (change->removed)
			nvmf_ns_changed(change->subsystem, change->nsid);
		release_done(change);
		return;
	}
	change->deadline_tick = nvmf_drain_deadline(change->drain_ms);
	change->unbegun = change->unleft = nvmf_tgt.group_count;
	send_to_groups(change, release_on_group);
}

static void release_done(struct nvmf_ns_change *change)
{
	struct nvmf_subsystem *subsystem = change->subsystem;

	must(subsystem->namespaces[change->nsid - 1] == change->ns);
	subsystem->namespaces[change->nsid - 1] = NULL;
	nvmf_ns_let_go(change->ns);
	if (change->removed) {
		probe_nvmf_subsystem_remove_ns(reactor_now(), subsystem->nqn_istr, change->nsid);
		change->removed(change->ctx, 0, &change->why);
	} else {
		must(change->rc < 0);
		change->added(change->ctx, change->rc, &change->why, 0);
	}
	change_free(change);
}

/* ---- removal ---- */

static void remove_begin(struct nvmf_ns_change *change)
{
	struct nvmf_subsystem *subsystem = change->subsystem;
	struct nvmf_ns *ns = nvmf_subsystem_ns(subsystem, change->nsid);
	struct fathom_fault why = { 0 };
	int rc = 0;

	if (!ns || ns->state == NVMF_NS_REMOVING || (change->generation != 0 && ns->generation != change->generation))
		rc = fault(&why, -ENOENT, "subsystem '%s' has no namespace %u%s", subsystem->options.nqn, change->nsid,
			   ns && change->generation == 0 ? " any more: it is being removed" : "");
	else if (ns->state == NVMF_NS_ADDING)
		rc = fault(&why, -EBUSY, "namespace %u of subsystem '%s' is being added", change->nsid,
			   subsystem->options.nqn);
	if (rc) {
		change->removed(change->ctx, rc, &why);
		change_free(change);
		return;
	}
	must(ns->nsid == change->nsid);
	must(ns->subsystem == subsystem);
	change->ns = ns;
	start_release(change);
}

void nvmf_subsystem_remove_ns(const char *nqn, uint32_t nsid, uint32_t drain_ms, nvmf_done_fn done, void *ctx)
{
	struct nvmf_subsystem *subsystem = nvmf_subsystem_or_refuse(nqn, done, ctx);
	struct nvmf_ns_change *change;

	if (!subsystem)
		return;
	must(done);
	change = change_create(subsystem, remove_begin, ctx);
	change->nsid = nsid;
	change->drain_ms = (uint32_t)min_u64(drain_ms, NVMF_DRAIN_MS_MAX);
	change->removed = done;
	change_submit(change);
}

static void ignore_result(void *ctx, int rc, const struct fathom_fault *why)
{
	maybe(rc != 0); /* the namespace may have been removed meanwhile */
}

/* The block device is being removed; the removal waits until we close it. */
static void bdev_removed(void *ctx)
{
	struct nvmf_ns *ns = ctx;
	struct nvmf_ns_change *change;

	must_be_on(thread_control());
	if (ns->state == NVMF_NS_ADDING)
		ns->device_goes = true;
	if (ns->state != NVMF_NS_ACTIVE)
		return;
	change = change_create(ns->subsystem, remove_begin, NULL);
	change->nsid = ns->nsid;
	change->generation = ns->generation;
	change->drain_ms = nvmf_tgt.drain_ms;
	change->removed = ignore_result;
	change_submit(change);
}

/* ---- another length of the device; or it became read-only ---- */

/* The namespace of a change, unless it was removed meanwhile. */
static struct nvmf_ns *find_unchanged(const struct nvmf_ns_change *change)
{
	struct nvmf_ns *ns = nvmf_subsystem_ns(change->subsystem, change->nsid);

	return ns && ns->generation == change->generation && ns->state == NVMF_NS_ACTIVE ? ns : NULL;
}

static void finish_resize(struct nvmf_ns_change *change)
{
	struct nvmf_ns *ns = find_unchanged(change);

	if (ns) {
		probe_nvmf_ns_resize(reactor_now(), ns, change->subsystem->nqn_istr, ns->nsid, ns->bdev->block_count);
		nvmf_ns_changed(change->subsystem, ns->nsid);
	}
	change_free(change);
}

static void resized_on_control(void *ctx)
{
	struct nvmf_ns_change *change = ((struct nvmf_ns_part *)ctx)->change;

	must_be_on(thread_control());
	must(change->untaken > 0);
	if (--change->untaken == 0)
		finish_resize(change);
}

static void resize_on_group(void *ctx)
{
	struct nvmf_ns_part *part = ctx;
	struct nvmf_group_subsystem *group_part = part->group->subsystems[part->change->subsystem->id];
	struct nvmf_group_ns *here = group_part ? nvmf_group_ns(group_part, part->change->nsid) : NULL;

	must_be_on(part->group->thread);
	if (here && here->ns->generation == part->change->generation) {
		here->block_count = bdev_block_count(here->ns->bdev);
		here->read_only = bdev_is_read_only(here->ns->bdev);
	}
	thread_send_msg(thread_control(), resized_on_control, part);
}

static void begin_resize(struct nvmf_ns_change *change)
{
	if (!find_unchanged(change) || !has_groups(change->subsystem)) {
		finish_resize(change);
		return;
	}
	change->untaken = nvmf_tgt.group_count;
	send_to_groups(change, resize_on_group);
}

/* The block device is longer, and its channels accept the new blocks; or it will be shorter; or it is read-only now. */
static void bdev_resized(void *ctx)
{
	struct nvmf_ns *ns = ctx;
	struct nvmf_ns_change *change;

	must_be_on(thread_control());
	if (ns->state == NVMF_NS_ADDING)
		ns->device_resized = true; /* add_done() calls again */
	if (ns->state != NVMF_NS_ACTIVE)
		return;
	change = change_create(ns->subsystem, begin_resize, NULL);
	change->nsid = ns->nsid;
	change->generation = ns->generation;
	change_submit(change);
}

/* ---- addition ---- */

static int choose_nsid(const struct nvmf_subsystem *subsystem, uint32_t *nsid_ret, struct fathom_fault *why)
{
	uint32_t wanted = *nsid_ret;

	if (wanted > subsystem->options.max_namespaces)
		return fault(why, -EINVAL, "nsid %u is above the subsystem's max_namespaces, %u", wanted,
			     subsystem->options.max_namespaces);
	if (wanted != 0 && subsystem->namespaces[wanted - 1])
		return fault(why, -EEXIST, "namespace %u of subsystem '%s' %s", wanted, subsystem->options.nqn,
			     subsystem->namespaces[wanted - 1]->state == NVMF_NS_REMOVING ? "is still being removed"
											  : "exists already");
	for (uint32_t nsid = 1; wanted == 0 && nsid <= subsystem->options.max_namespaces; nsid++) {
		if (!subsystem->namespaces[nsid - 1])
			wanted = nsid;
	}
	if (wanted == 0)
		return fault(why, -ENOSPC, "all %u namespaces of subsystem '%s' are taken",
			     subsystem->options.max_namespaces, subsystem->options.nqn);
	must(wanted <= subsystem->options.max_namespaces);
	must(!subsystem->namespaces[wanted - 1]);
	*nsid_ret = wanted;
	return 0;
}

static int check_uuid(const struct nvmf_subsystem *subsystem, const struct nvmf_ns *ns, struct fathom_fault *why)
{
	for (uint32_t i = 0; i < subsystem->options.max_namespaces; i++) {
		const struct nvmf_ns *other = subsystem->namespaces[i];

		if (other && other->state != NVMF_NS_REMOVING && memcmp(other->uuid, ns->uuid, sizeof(ns->uuid)) == 0)
			return fault(why, -EINVAL, "namespace %u has the same UUID", other->nsid);
	}
	return 0;
}

/* Open, claim and check the device. On an error the caller must still release what is set in `ns`. */
static int open_device(struct nvmf_subsystem *subsystem, const char *name, struct nvmf_ns *ns, struct fathom_fault *why)
{
	int rc = bdev_open(name, bdev_removed, ns, &ns->desc);

	if (rc)
		return fault(why, rc, "Unable to open bdev '%s': %s", name, strerror(-rc));
	bdev_on_resized(ns->desc, bdev_resized);
	ns->bdev = bdev_desc_bdev(ns->desc);
	rc = bdev_claim(ns->bdev);
	if (rc)
		return fault(why, rc, "bdev '%s' is in use already, or has not returned commands of a namespace it was",
			     name);
	ns->claimed = true;
	if (!is_power_of_two(ns->bdev->block_bytes))
		return fault(why, -EINVAL, "bdev '%s' has blocks of %u bytes; a namespace needs a power of two", name,
			     ns->bdev->block_bytes);
	if (is_all_zero(ns->uuid, sizeof(ns->uuid)))
		memcpy(ns->uuid, ns->bdev->uuid, sizeof(ns->uuid));
	if (ns->bdev->has_identity && memcmp(ns->uuid, ns->bdev->uuid, sizeof(ns->uuid)) != 0)
		return fault(why, -ESTALE, "bdev '%s' is another volume than the one with this UUID, which had its name",
			     name);
	if (is_all_zero(ns->nguid, sizeof(ns->nguid)))
		memcpy(ns->nguid, ns->uuid, sizeof(ns->nguid));
	return check_uuid(subsystem, ns, why);
}

static struct nvmf_ns *ns_create(struct nvmf_ns_change *change)
{
	const struct nvmf_ns_options *options = &change->options;
	struct nvmf_ns *ns = nvmf_alloc(sizeof(*ns));

	trace_object_init(&ns->trace, TRACE_OBJECT_NVMF_NS);
	nvmf_ns_state_move(reactor_now(), ns, NVMF_NS_ADDING);
	ns->subsystem = change->subsystem;
	ns->nqn_istr = change->subsystem->nqn_istr;
	ns->nsid = change->nsid;
	ns->generation = change->subsystem->generation_next++;
	memcpy(ns->uuid, options->uuid, sizeof(ns->uuid));
	memcpy(ns->nguid, options->nguid, sizeof(ns->nguid));
	memcpy(ns->eui64, options->eui64, sizeof(ns->eui64));
	ns->anagrpid = options->anagrpid;
	return ns;
}

static void add_done(struct nvmf_ns_change *change)
{
	struct nvmf_subsystem *subsystem = change->subsystem;
	struct nvmf_ns *ns = change->ns;
	bool device_goes = ns->device_goes, device_resized = ns->device_resized;

	nvmf_ns_state_move(reactor_now(), ns, NVMF_NS_ACTIVE);
	probe_nvmf_subsystem_add_ns(reactor_now(), subsystem->nqn_istr, ns->nsid);
	nvmf_ns_changed(subsystem, ns->nsid);
	change->added(change->ctx, 0, &change->why, ns->nsid);
	if (device_goes)
		bdev_removed(ns);
	else if (device_resized)
		bdev_resized(ns);
	change_free(change);
}

static void taken_on_control(void *ctx)
{
	struct nvmf_ns_part *part = ctx;
	struct nvmf_ns_change *change = part->change;

	must_be_on(thread_control());
	must(change->untaken > 0);
	if (part->status != 0 && change->rc == 0)
		change->rc = fault(&change->why, part->status, "a poll group cannot use bdev '%s': %s", change->bdev_name,
				   strerror(-part->status));
	if (--change->untaken > 0)
		return;
	if (change->rc == 0)
		add_done(change);
	else
		start_release(change);
}

static void take_on_group(void *ctx)
{
	struct nvmf_ns_part *part = ctx;
	const struct nvmf_ns_change *change = part->change;
	struct nvmf_group_subsystem *group_part = part->group->subsystems[change->subsystem->id];

	must_be_on(part->group->thread);
	must(group_part);
	part->status = nvmf_group_ns_take(group_part, change->ns);
	thread_send_msg(thread_control(), taken_on_control, part);
}

static void add_begin(struct nvmf_ns_change *change)
{
	struct nvmf_subsystem *subsystem = change->subsystem;
	struct nvmf_ns *ns;
	int rc;

	rc = choose_nsid(subsystem, &change->nsid, &change->why);
	if (rc) {
		change->added(change->ctx, rc, &change->why, 0);
		change_free(change);
		return;
	}
	ns = ns_create(change);
	rc = open_device(subsystem, change->bdev_name, ns, &change->why);
	if (rc) {
		nvmf_ns_let_go(ns);
		change->added(change->ctx, rc, &change->why, 0);
		change_free(change);
		return;
	}
	must(ns->claimed);
	must(is_power_of_two(ns->bdev->block_bytes));
	subsystem->namespaces[ns->nsid - 1] = ns;
	change->ns = ns;
	if (!has_groups(subsystem)) {
		add_done(change);
		return;
	}
	change->untaken = nvmf_tgt.group_count;
	send_to_groups(change, take_on_group);
}

static int check_addition(const struct nvmf_subsystem *subsystem, const char *nqn, const struct nvmf_ns_options *options,
			  struct fathom_fault *why)
{
	if (!subsystem || subsystem->destroying)
		return fault(why, -ENOENT, "Subsystem with NQN '%s' not found", nqn);
	if (subsystem->type == NVMF_SUBSYSTEM_DISCOVERY)
		return fault(why, -EPERM, "the discovery subsystem has no namespaces");
	if (options->no_auto_visible)
		return fault(why, -EINVAL, "no_auto_visible is not supported");
	if (!bdev_find(options->bdev_name))
		return fault(why, -ENODEV, "Unable to open bdev '%s': No such device", options->bdev_name);
	return 0;
}

void nvmf_subsystem_add_ns(const char *nqn, const struct nvmf_ns_options *options, nvmf_add_ns_done_fn done, void *ctx)
{
	struct nvmf_subsystem *subsystem = nvmf_subsystem_find(nqn);
	struct nvmf_ns_change *change;
	struct fathom_fault why = { 0 };
	int rc;

	must_be_on(thread_control());
	rc = check_addition(subsystem, nqn, options, &why);
	if (rc) {
		done(ctx, rc, &why, 0);
		return;
	}
	change = change_create(subsystem, add_begin, ctx);
	change->options = *options;
	change->nsid = options->nsid;
	change->added = done;
	change->drain_ms = nvmf_tgt.drain_ms;
	(void)text_copy(change->bdev_name, sizeof(change->bdev_name), options->bdev_name); /* found: it fits */
	change_submit(change);
}

/* ---- getters ---- */

bool nvmf_subsystem_next_ns(const struct nvmf_subsystem *subsystem, uint32_t nsid, struct nvmf_ns_info *info_ret)
{
	for (uint32_t i = nsid; i < subsystem->options.max_namespaces; i++) {
		const struct nvmf_ns *ns = subsystem->namespaces[i];

		if (!ns || ns->state != NVMF_NS_ACTIVE)
			continue;
		info_ret->nsid = ns->nsid;
		info_ret->bdev_name = ns->bdev->name;
		memcpy(info_ret->uuid, ns->uuid, sizeof(ns->uuid));
		memcpy(info_ret->nguid, ns->nguid, sizeof(ns->nguid));
		memcpy(info_ret->eui64, ns->eui64, sizeof(ns->eui64));
		info_ret->anagrpid = ns->anagrpid;
		info_ret->block_bytes = ns->bdev->block_bytes;
		info_ret->block_count = ns->bdev->block_count; /* the control thread changes it */
		return true;
	}
	return false;
}

void nvmf_ns_changed(struct nvmf_subsystem *subsystem, uint32_t nsid)
{
	struct nvmf_ctrlr *ctrlr;

	TAILQ_FOREACH (ctrlr, &subsystem->ctrlrs, link)
		nvmf_ctrlr_send_event(ctrlr, NVMF_EVENT_NS_CHANGED, nsid);
}
