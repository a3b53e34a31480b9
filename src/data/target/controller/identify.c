/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * identify - the Identify command.
 *
 * Each structure is built in the group's scratch buffer and copied out. Namespaces are those in the group's own table;
 * their data are constant. For unsupported command sets (SPDK's hosts query key value and zoned) it returns zeroes, as
 * SPDK's target does. The list of combinations (CNS 1Ch) reports that they are unsupported. Lists of controllers are built
 * by the control thread.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "data/nvme/identify.h"
#include "data/target/controller/controller.h"
#include "data/target/probes.gen.h"
#include "data/target/request/internal.h"

#define FIRMWARE_REVISION "0.1"

static uint32_t cdw10_cns(const struct nvmf_req *req)
{
	return req->cmd.cdw10 & NVME_IDENTIFY_CDW10_CNS_MASK;
}

static uint32_t cdw11_csi(const struct nvmf_req *req)
{
	return req->cmd.cdw11 >> NVME_IDENTIFY_CDW11_CSI_SHIFT;
}

/* Copy text into a space-padded field without NUL. */
static void put_text(char *field, size_t bytes, const char *text)
{
	size_t length = strnlen(text, bytes);

	memset(field, ' ', bytes);
	memcpy(field, text, length);
}

/* ---- the controller ---- */

static void fill_common(const struct nvmf_ctrlr *ctrlr, const struct nvmf_qpair *qpair, struct nvme_identify_controller *id)
{
	const struct nvmf_transport_options *rules = nvmf_transport_rules();
	const struct nvmf_subsystem_options *options = &ctrlr->subsystem->options;

	must(is_power_of_two(qpair->io_bytes_max));
	must(qpair->io_bytes_max >= NVME_IDENTIFY_BYTES);
	put_text(id->fr, sizeof(id->fr), FIRMWARE_REVISION);
	id->mdts = (uint8_t)(__builtin_ctz(qpair->io_bytes_max) - 12);
	id->cntlid = ctrlr->cntlid;
	id->ver = NVME_VERSION_2_0;
	id->ctratt = NVME_CTRATT_HOSTID_128;
	id->aerl = NVMF_EVENT_REQS_MAX - 1;
	id->lpa = NVME_LPA_EXTENDED_DATA;
	id->elpe = NVMF_ERROR_ENTRIES - 1;
	id->kas = rules->kas;
	id->maxcmd = rules->max_queue_depth;
	id->sgls = NVME_SGLS_SUPPORTED | NVME_SGLS_OFFSET | NVME_SGLS_TRANSPORT;
	(void)text_copy(id->subnqn, sizeof(id->subnqn), options->nqn); /* an NQN is shorter than the field */
	id->ioccsz = (uint32_t)(NVME_COMMAND_BYTES + rules->in_capsule_data_size) / 16;
	id->iorcsz = NVME_COMPLETION_BYTES / 16;
	id->msdbd = 1;
	memcpy(id->crdt, ctrlr->subsystem->crdt, sizeof(id->crdt));
}

static void fill_controller(const struct nvmf_ctrlr *ctrlr, const struct nvmf_qpair *qpair,
			    struct nvme_identify_controller *id)
{
	const struct nvmf_subsystem_options *options = &ctrlr->subsystem->options;

	fill_common(ctrlr, qpair, id);
	if (ctrlr->discovery) {
		id->cntrltype = NVME_CNTRLTYPE_DISCOVERY;
		id->oaes = NVME_OAES_DISCOVERY_LOG;
		return;
	}
	static_assert(sizeof(id->sn) == NVMF_SERIAL_BYTES, "nothing is cut off");
	static_assert(sizeof(id->mn) == NVMF_MODEL_BYTES, "likewise");
	put_text(id->sn, sizeof(id->sn), options->serial_number);
	put_text(id->mn, sizeof(id->mn), options->model_number);
	id->cntrltype = NVME_CNTRLTYPE_IO;
	id->rab = 6;
	id->cmic = NVME_CMIC_MULTI_PORT | NVME_CMIC_MULTI_CONTROLLER;
	id->oaes = NVME_OAES_NS_ATTRIBUTE;
	id->acl = NVMF_ABORTS_MAX - 1;
	id->frmw = NVME_FRMW_SLOT1_READ_ONLY | 1 << NVME_FRMW_SLOTS_SHIFT;
	id->lpa |= NVME_LPA_COMMAND_EFFECTS | NVME_LPA_SUPPORTED_PAGES;
	id->sqes = NVMF_IOSQES << 4 | NVMF_IOSQES;
	id->cqes = NVMF_IOCQES << 4 | NVMF_IOCQES;
	id->nn = options->max_namespaces;
	id->mnan = options->max_namespaces;
	/*
	 * With the DSM bit set, blocks beyond the limits are ignored and the command succeeds. Without it such a command
	 * would have to fail. Then hosts that ignore the limits would conclude that deallocation is unsupported.
	 */
	id->oncs = NVME_ONCS_COMPARE | NVME_ONCS_DSM | NVME_ONCS_WRITE_ZEROES;
	/* Always set: a device with a cache may be added later, and hosts read this field only once. */
	id->vwc = NVME_VWC_PRESENT | NVME_VWC_FLUSH_ALL_NOT_SUPPORTED;
}

static void fill_controller_nvm(const struct nvmf_ctrlr *ctrlr, struct nvme_identify_controller_nvm *id)
{
	const struct nvmf_dsm_limits dsm = nvmf_subsystem_dsm_limits(ctrlr->subsystem);

	id->wzsl = ctrlr->subsystem->options.wzsl;
	id->dmrl = dsm.ranges;
	id->dmrsl = dsm.range_blocks;
	id->dmsl = dsm.blocks;
}

/* ---- namespaces ---- */

/* `block_count`: that of this group. A device that grew is reported to hosts when all groups accept its new blocks. */
static void fill_ns(const struct nvmf_ns *ns, uint64_t block_count, struct nvme_identify_ns *id)
{
	const struct bdev *bdev = ns->bdev;
	uint32_t physical = bdev->physical_block_bytes / bdev->block_bytes;

	must(block_count > 0);
	must(is_power_of_two(bdev->block_bytes));
	id->nsze = block_count;
	id->ncap = block_count;
	id->nuse = block_count;
	id->lbaf[0].lbads = (uint8_t)__builtin_ctz(bdev->block_bytes);
	id->nmic = NVME_NMIC_SHARED;
	if (bdev_supports(bdev, IO_TYPE_UNMAP))
		id->dlfeat = NVME_DLFEAT_READ_ZEROES | NVME_DLFEAT_WRITE_ZEROES_DEALLOCATE;
	if (physical > 1) {
		id->nsfeat |= NVME_NSFEAT_OPTPERF;
		id->npwg = (uint16_t)(physical - 1);
		id->npwa = id->npwg;
		id->npdg = id->npwg;
		id->npda = id->npwg;
	}
	if (bdev->boundary_blocks > 0 && bdev->boundary_blocks <= UINT16_MAX)
		id->noiob = (uint16_t)bdev->boundary_blocks;
	if (bdev_is_read_only(bdev))
		id->nsattr = NVME_NSATTR_WRITE_PROTECTED;
	memcpy(id->nguid, ns->nguid, sizeof(id->nguid));
	memcpy(id->eui64, ns->eui64, sizeof(id->eui64));
}

static void fill_ns_independent(const struct nvmf_ns *ns, struct nvme_identify_ns_independent *id)
{
	enum { NO_WRITE_CACHE = 1 << 5 };

	id->nmic = NVME_NMIC_SHARED;
	id->nstat = NVME_NSTAT_READY;
	if (!ns->bdev->write_cache)
		id->nsfeat |= NO_WRITE_CACHE;
	if (bdev_is_read_only(ns->bdev))
		id->nsattr = NVME_NSATTR_WRITE_PROTECTED;
}

static uint8_t *put_descriptor(uint8_t *at, enum nvme_nidt type, const void *bytes, uint8_t count)
{
	struct nvme_ns_descriptor *descriptor = (struct nvme_ns_descriptor *)at;

	descriptor->nidt = (uint8_t)type;
	descriptor->nidl = count;
	memcpy(descriptor->nid, bytes, count);
	return at + sizeof(*descriptor) + count;
}

static void fill_descriptors(const struct nvmf_ns *ns, uint8_t *page)
{
	static const uint8_t none[sizeof(ns->eui64)];
	const uint8_t csi = NVME_CSI_NVM;

	if (memcmp(ns->eui64, none, sizeof(ns->eui64)) != 0)
		page = put_descriptor(page, NVME_NIDT_EUI64, ns->eui64, NVME_NIDL_EUI64);
	page = put_descriptor(page, NVME_NIDT_NGUID, ns->nguid, NVME_NIDL_NGUID);
	page = put_descriptor(page, NVME_NIDT_UUID, ns->uuid, NVME_NIDL_UUID);
	(void)put_descriptor(page, NVME_NIDT_CSI, &csi, NVME_NIDL_CSI); /* zeroes after it end the list */
}

/* Structures about one namespace. For a valid but inactive nsid some of them are all zeroes, others an error. */
static enum nvme_status identify_ns(const struct nvmf_req *req, uint8_t *page)
{
	const struct nvmf_group_subsystem *part = req->qpair->subsystem;
	uint32_t nsid = req->cmd.nsid, cns = cdw10_cns(req);
	const struct nvmf_group_ns *here = nvmf_group_ns(part, nsid);
	const struct nvmf_ns *ns;

	if (nsid == 0 || nsid > part->ns_count)
		return NVME_SC_INVALID_NAMESPACE;
	if (!here)
		return cns == NVME_CNS_NS_DESCRIPTORS ? NVME_SC_INVALID_NAMESPACE : NVME_SC_SUCCESS;
	ns = here->ns;
	switch (cns) {
	case NVME_CNS_NS:
	case NVME_CNS_ALLOCATED_NS:
		fill_ns(ns, here->block_count, (struct nvme_identify_ns *)page);
		break;
	case NVME_CNS_NS_DESCRIPTORS:
		fill_descriptors(ns, page);
		break;
	case NVME_CNS_NS_INDEPENDENT:
		fill_ns_independent(ns, (struct nvme_identify_ns_independent *)page);
		break;
	default:
		/* NS_IOCS: no protection information, so all zeroes */
		must(cns == NVME_CNS_NS_IOCS);
		break;
	}
	return NVME_SC_SUCCESS;
}

static enum nvme_status identify_ns_list(const struct nvmf_req *req, uint8_t *page)
{
	const struct nvmf_group_subsystem *part = req->qpair->subsystem;
	struct nvme_ns_list *list = (struct nvme_ns_list *)page;
	uint32_t nsid = req->cmd.nsid, count = 0;

	if (nsid >= NVME_NSID_ALL - 1)
		return NVME_SC_INVALID_NAMESPACE;
	while (++nsid <= part->ns_count && count < NVME_NS_LIST_ENTRIES) {
		if (part->ns[nsid - 1])
			list->nsid[count++] = nsid;
	}
	return NVME_SC_SUCCESS;
}

/* ---- lists of controllers ---- */

struct controller_list {
	struct nvmf_req *req;
	struct nvmf_ctrlr *ctrlr;
	uint32_t least;
	struct nvme_controller_list list;
};

static void list_on_ctrlr_thread(void *ctx)
{
	struct controller_list *fetch = ctx;

	must_be_on(fetch->ctrlr->group->thread);
	must(fetch->req->counted);
	must(fetch->list.count <= NVME_CONTROLLER_LIST_ENTRIES);
	nvmf_req_put_data(fetch->req, &fetch->list, sizeof(fetch->list));
	nvmf_req_complete(fetch->req, NVME_SC_SUCCESS, reactor_now());
	free(fetch);
}

static void list_on_control(void *ctx)
{
	struct controller_list *fetch = ctx;
	const struct nvmf_ctrlr *ctrlr;

	must_be_on(thread_control());
	TAILQ_FOREACH (ctrlr, &fetch->ctrlr->subsystem->ctrlrs, link) {
		if (ctrlr->cntlid >= fetch->least && fetch->list.count < NVME_CONTROLLER_LIST_ENTRIES)
			fetch->list.cntlid[fetch->list.count++] = ctrlr->cntlid;
	}
	thread_send_msg(fetch->ctrlr->group->thread, list_on_ctrlr_thread, fetch);
}

static void identify_controllers(struct nvmf_req *req, uint64_t now)
{
	struct nvmf_ctrlr *ctrlr = req->qpair->ctrlr;
	struct controller_list *fetch;

	if (cdw10_cns(req) == NVME_CNS_NS_CONTROLLER_LIST && !nvmf_group_ns(req->qpair->subsystem, req->cmd.nsid)) {
		nvmf_req_complete(req, NVME_SC_INVALID_NAMESPACE, now);
		return;
	}
	fetch = nvmf_alloc(sizeof(*fetch));
	fetch->req = req;
	fetch->ctrlr = ctrlr;
	fetch->least = req->cmd.cdw10 >> NVME_IDENTIFY_CDW10_CNTID_SHIFT;
	thread_send_msg(thread_control(), list_on_control, fetch);
}

/* ---- dispatch ---- */

static enum nvme_status build_structure(const struct nvmf_req *req, uint8_t *page)
{
	const struct nvmf_ctrlr *ctrlr = req->qpair->ctrlr;

	switch (cdw10_cns(req)) {
	case NVME_CNS_NS:
	case NVME_CNS_NS_DESCRIPTORS:
	case NVME_CNS_ALLOCATED_NS:
	case NVME_CNS_NS_INDEPENDENT:
		return identify_ns(req, page);
	case NVME_CNS_NS_IOCS:
		/* Zeroes for every command set: NVM has no protection information, and the others are unsupported. */
		return identify_ns(req, page);
	case NVME_CNS_CONTROLLER_IOCS:
		if (cdw11_csi(req) == NVME_CSI_NVM)
			fill_controller_nvm(ctrlr, (struct nvme_identify_controller_nvm *)page);
		return NVME_SC_SUCCESS;
	case NVME_CNS_ACTIVE_NS_LIST:
	case NVME_CNS_ALLOCATED_NS_LIST:
		return identify_ns_list(req, page);
	case NVME_CNS_ACTIVE_NS_LIST_IOCS:
		/* no namespace has another command set */
		return cdw11_csi(req) == NVME_CSI_NVM ? identify_ns_list(req, page) : NVME_SC_SUCCESS;
	case NVME_CNS_IOCS:
		((struct nvme_identify_iocs *)page)->combination[0] = BIT(NVME_CSI_NVM);
		return NVME_SC_SUCCESS;
	default:
		return NVME_SC_INVALID_FIELD;
	}
}

void nvmf_identify(struct nvmf_req *req, uint64_t now)
{
	struct nvmf_ctrlr *ctrlr = req->qpair->ctrlr;
	uint32_t cns = cdw10_cns(req);
	uint8_t *page = req->qpair->group->scratch;
	enum nvme_status status;

	must(req->counted);
	must(req->data_bytes >= NVME_IDENTIFY_BYTES);
	memset(page, 0, NVME_IDENTIFY_BYTES);
	if (cns == NVME_CNS_CONTROLLER) {
		fill_controller(ctrlr, req->qpair, (struct nvme_identify_controller *)page);
		status = NVME_SC_SUCCESS;
	} else if (ctrlr->discovery) {
		status = NVME_SC_INVALID_FIELD;
	} else if (cns == NVME_CNS_CONTROLLER_LIST || cns == NVME_CNS_NS_CONTROLLER_LIST) {
		identify_controllers(req, now);
		return;
	} else {
		status = build_structure(req, page);
	}
	if (status == NVME_SC_SUCCESS)
		nvmf_req_put_data(req, page, NVME_IDENTIFY_BYTES);
	nvmf_req_complete(req, status, now);
}
