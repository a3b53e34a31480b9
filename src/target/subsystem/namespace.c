/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * namespace - namespaces on block devices.
 *
 * A namespace holds its device open and claimed. Removal takes it out of the table while the subsystem is paused; resuming,
 * each group puts its channel; only then is the device closed. The same happens by itself when the device goes away.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "target/controller/controller.h"
#include "target/probes.gen.h"

struct add_op {
	struct nvmf_subsystem_op op; /* first */
	struct nvmf_ns_options options;
	char bdev_name[BDEV_NAME_BYTES_MAX];
	nvmf_add_ns_done_fn done;
	struct nvmf_ns *ns;
};

struct remove_op {
	struct nvmf_subsystem_op op; /* first */
	uint32_t nsid;
	uint32_t generation; /* 0: whichever it is */
	struct nvmf_ns *ns;
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

void nvmf_ns_close(struct nvmf_ns *ns)
{
	must_be_on(thread_control());
	must(nvmf_subsystem_ns(ns->subsystem, ns->nsid) != ns || ns->subsystem->state == NVMF_SUBSYSTEM_INACTIVE);
	if (ns->claimed)
		bdev_release(ns->bdev);
	bdev_close(ns->desc);
	free(ns);
}

/* ---- removal ---- */

static int remove_apply(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	struct remove_op *remove = container_of(op, struct remove_op, op);
	struct nvmf_ns *ns = nvmf_subsystem_ns(subsystem, remove->nsid);

	if (!ns || (remove->generation != 0 && ns->generation != remove->generation))
		return fault(&op->why, -ENOENT, "subsystem '%s' has no namespace %u", subsystem->options.nqn, remove->nsid);
	must(ns->nsid == remove->nsid);
	must(ns->subsystem == subsystem);
	remove->ns = ns;
	subsystem->namespaces[remove->nsid - 1] = NULL;
	return 0;
}

static void remove_after(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	struct remove_op *remove = container_of(op, struct remove_op, op);

	must((op->rc == 0) == (remove->ns != NULL));
	if (remove->ns) {
		probe_nvmf_subsystem_remove_ns(reactor_now(), subsystem->nqn_istr, remove->nsid);
		nvmf_ns_close(remove->ns);
		nvmf_ns_changed(subsystem, remove->nsid);
	}
	nvmf_op_end(subsystem, op);
}

static void submit_removal(struct nvmf_subsystem *subsystem, uint32_t nsid, uint32_t generation, nvmf_done_fn done,
			   void *ctx)
{
	struct remove_op *remove = nvmf_op_create(sizeof(*remove), NVMF_OP_CHANGE, done, ctx);

	remove->op.apply = remove_apply;
	remove->op.after = remove_after;
	remove->nsid = nsid;
	remove->generation = generation;
	nvmf_op_submit(subsystem, &remove->op);
}

void nvmf_subsystem_remove_ns(const char *nqn, uint32_t nsid, nvmf_done_fn done, void *ctx)
{
	struct nvmf_subsystem *subsystem = nvmf_subsystem_or_refuse(nqn, done, ctx);

	if (!subsystem)
		return;
	/* Not worth a pause. */
	if (!nvmf_subsystem_ns(subsystem, nsid) && !subsystem->op) {
		nvmf_refuse(done, ctx, -ENOENT, "subsystem '%s' has no namespace %u", nqn, nsid);
		return;
	}
	submit_removal(subsystem, nsid, 0, done, ctx);
}

/* The block device goes away, and waits for us to close it. */
static void bdev_removed(void *ctx)
{
	struct nvmf_ns *ns = ctx;

	must_be_on(thread_control());
	must(ns->generation != 0);
	submit_removal(ns->subsystem, ns->nsid, ns->generation, NULL, NULL);
}

/* ---- addition ---- */

static int choose_nsid(const struct nvmf_subsystem *subsystem, uint32_t *nsid_ret, struct fault *why)
{
	uint32_t wanted = *nsid_ret;

	if (wanted > subsystem->options.max_namespaces)
		return fault(why, -EINVAL, "nsid %u is above the subsystem's max_namespaces, %u", wanted,
			     subsystem->options.max_namespaces);
	if (wanted != 0 && subsystem->namespaces[wanted - 1])
		return fault(why, -EEXIST, "namespace %u of subsystem '%s' exists already", wanted, subsystem->options.nqn);
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

static int check_uuid(const struct nvmf_subsystem *subsystem, const struct nvmf_ns *ns, struct fault *why)
{
	for (uint32_t i = 0; i < subsystem->options.max_namespaces; i++) {
		const struct nvmf_ns *other = subsystem->namespaces[i];

		if (other && memcmp(other->uuid, ns->uuid, sizeof(ns->uuid)) == 0)
			return fault(why, -EINVAL, "namespace %u has the same UUID", other->nsid);
	}
	return 0;
}

/* Open, claim and check; what has been got is in `ns` also after an error. */
static int open_device(struct nvmf_subsystem *subsystem, struct add_op *add, struct nvmf_ns *ns, struct fault *why)
{
	int rc = bdev_open(add->bdev_name, bdev_removed, ns, &ns->desc);

	if (rc)
		return fault(why, rc, "Unable to open bdev '%s': %s", add->bdev_name, strerror(-rc));
	ns->bdev = bdev_desc_bdev(ns->desc);
	rc = bdev_claim(ns->bdev);
	if (rc)
		return fault(why, rc, "bdev '%s' is in use already", add->bdev_name);
	ns->claimed = true;
	if (!is_power_of_two(ns->bdev->block_bytes))
		return fault(why, -EINVAL, "bdev '%s' has blocks of %u bytes; a namespace needs a power of two",
			     add->bdev_name, ns->bdev->block_bytes);
	if (is_all_zero(ns->uuid, sizeof(ns->uuid)))
		memcpy(ns->uuid, ns->bdev->uuid, sizeof(ns->uuid));
	if (is_all_zero(ns->nguid, sizeof(ns->nguid)))
		memcpy(ns->nguid, ns->uuid, sizeof(ns->nguid));
	return check_uuid(subsystem, ns, why);
}

static int add_apply(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	struct add_op *add = container_of(op, struct add_op, op);
	struct nvmf_ns *ns;
	int rc;

	rc = choose_nsid(subsystem, &add->options.nsid, &op->why);
	if (rc)
		return rc;
	ns = nvmf_alloc(sizeof(*ns));
	ns->subsystem = subsystem;
	ns->nsid = add->options.nsid;
	ns->generation = subsystem->generation_next++;
	memcpy(ns->uuid, add->options.uuid, sizeof(ns->uuid));
	memcpy(ns->nguid, add->options.nguid, sizeof(ns->nguid));
	memcpy(ns->eui64, add->options.eui64, sizeof(ns->eui64));
	ns->anagrpid = add->options.anagrpid;
	rc = open_device(subsystem, add, ns, &op->why);
	if (rc) {
		nvmf_ns_close(ns);
		return rc;
	}
	must(ns->claimed);
	must(is_power_of_two(ns->bdev->block_bytes));
	subsystem->namespaces[ns->nsid - 1] = ns;
	add->ns = ns;
	return 0;
}

static void add_undo(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	struct add_op *add = container_of(op, struct add_op, op);

	must(add->ns);
	must(subsystem->namespaces[add->ns->nsid - 1] == add->ns);
	subsystem->namespaces[add->ns->nsid - 1] = NULL;
}

static void add_after(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	struct add_op *add = container_of(op, struct add_op, op);

	must(op->rc != 0 || nvmf_subsystem_ns(subsystem, add->options.nsid) == add->ns);
	if (op->rc == 0) {
		probe_nvmf_subsystem_add_ns(reactor_now(), subsystem->nqn_istr, add->ns->nsid);
		nvmf_ns_changed(subsystem, add->ns->nsid);
	} else if (add->ns) {
		nvmf_ns_close(add->ns);
	}
	nvmf_op_end(subsystem, op);
}

static void add_finish(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	struct add_op *add = container_of(op, struct add_op, op);

	add->done(op->ctx, op->rc, &op->why, op->rc == 0 ? add->options.nsid : 0);
}

static int check_addition(const struct nvmf_subsystem *subsystem, const char *nqn, const struct nvmf_ns_options *options,
			  struct fault *why)
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
	struct fault why = { 0 };
	struct add_op *add;
	int rc;

	must_be_on(thread_control());
	rc = check_addition(subsystem, nqn, options, &why);
	if (rc) {
		done(ctx, rc, &why, 0);
		return;
	}
	add = nvmf_op_create(sizeof(*add), NVMF_OP_CHANGE, NULL, ctx);
	add->op.apply = add_apply;
	add->op.undo = add_undo;
	add->op.after = add_after;
	add->op.finish = add_finish;
	add->options = *options;
	add->done = done;
	(void)text_copy(add->bdev_name, sizeof(add->bdev_name), options->bdev_name); /* found: it fits */
	nvmf_op_submit(subsystem, &add->op);
}

/* ---- looking ---- */

bool nvmf_subsystem_next_ns(const struct nvmf_subsystem *subsystem, uint32_t nsid, struct nvmf_ns_info *info_ret)
{
	for (uint32_t i = nsid; i < subsystem->options.max_namespaces; i++) {
		const struct nvmf_ns *ns = subsystem->namespaces[i];

		if (!ns)
			continue;
		info_ret->nsid = ns->nsid;
		info_ret->bdev_name = ns->bdev->name;
		memcpy(info_ret->uuid, ns->uuid, sizeof(ns->uuid));
		memcpy(info_ret->nguid, ns->nguid, sizeof(ns->nguid));
		memcpy(info_ret->eui64, ns->eui64, sizeof(ns->eui64));
		info_ret->anagrpid = ns->anagrpid;
		info_ret->block_bytes = ns->bdev->block_bytes;
		info_ret->block_count = ns->bdev->block_count;
		return true;
	}
	return false;
}

void nvmf_ns_changed(struct nvmf_subsystem *subsystem, uint32_t nsid)
{
	struct nvmf_ctrlr *ctrlr;

	TAILQ_FOREACH (ctrlr, &subsystem->ctrlrs, link)
		nvmf_ctrlr_tell(ctrlr, NVMF_EVENT_NS_CHANGED, nsid);
}
