/* SPDX-License-Identifier: BSD-2-Clause */
/* inquiry - read a controller's namespaces, and a discovery controller's log of subsystems. */
#include <errno.h>
#include <string.h>

#include "data/initiator/internal.h"
#include "data/nvme/log.h"
#include "data/nvme/opcode.h"

enum { DISCOVERY_TRIES = 5 };

int fathom_namespace_info(struct fathom_controller *controller, uint32_t nsid, struct fathom_fault *why_door,
			  struct fathom_namespace_info *info_ret)
{
	const struct nvme_identify_ns *data = controller->page;
	struct fathom_fault *why = why_door;
	const struct nvme_lba_format *format;
	uint8_t index;
	int error = controller_identify(controller, NVME_CNS_NS, nsid, "Identify Namespace", why);

	if (error)
		return error;
	if (data->nsze == 0)
		return fault(why, -ENOENT, "there is no namespace %u", nsid);
	index = (uint8_t)((data->flbas & NVME_FLBAS_INDEX_MASK) | (data->flbas >> 5 & 3) << 4);
	format = &data->lbaf[index];
	if (format->lbads < 9 || format->lbads > 31)
		return fault(why, -EPROTO, "namespace %u has blocks of 2^%u bytes", nsid, format->lbads);
	*info_ret = (struct fathom_namespace_info){
		.nsid = nsid,
		.block_bytes = 1u << format->lbads,
		.metadata_bytes = format->ms,
		.blocks = data->nsze,
	};
	memcpy(info_ret->nguid, data->nguid, sizeof(data->nguid));
	memcpy(info_ret->eui64, data->eui64, sizeof(data->eui64));
	return 0;
}

int fathom_namespace_list(struct fathom_controller *controller, uint32_t after, struct fathom_fault *why, uint32_t *nsids,
			  size_t nsids_max, size_t *count_ret)
{
	const struct nvme_ns_list *list = controller->page;
	size_t count = 0;
	int error = controller_identify(controller, NVME_CNS_ACTIVE_NS_LIST, after, "Identify, active namespaces", why);

	if (error)
		return error;
	while (count < nsids_max && count < NVME_NS_LIST_ENTRIES && list->nsid[count] != 0) {
		nsids[count] = list->nsid[count];
		count++;
	}
	*count_ret = count;
	return 0;
}

/* `bytes` (a multiple of 4) of the discovery log, from `offset` on, into the page. */
static int get_discovery_log(struct fathom_controller *controller, uint64_t offset, uint32_t bytes,
			     struct fathom_fault *why)
{
	uint32_t dwords_less_1 = bytes / 4 - 1;
	struct controller_command command = {
		.nvme = {
			.opc = NVME_ADMIN_GET_LOG_PAGE,
			.cdw10 = NVME_LOG_DISCOVERY | dwords_less_1 << NVME_LOG_CDW10_NUMDL_SHIFT,
			.cdw11 = dwords_less_1 >> 16,
			.cdw12 = (uint32_t)offset,
			.cdw13 = (uint32_t)(offset >> 32),
		},
		.data = controller->page,
		.data_bytes = bytes,
		.name = "Get Log Page, discovery",
	};

	must(bytes <= NVME_IDENTIFY_BYTES);
	return controller_admin(controller, &command, why, NULL);
}

static void take_entry(const struct nvme_discovery_entry *from, struct fathom_discovery_entry *to)
{
	*to = (struct fathom_discovery_entry){
		.transport = from->trtype,
		.family = from->adrfam,
		.subtype = from->subtype,
		.portid = from->portid,
		.cntlid = from->cntlid,
	};
	controller_trim(to->service, from->trsvcid, sizeof(from->trsvcid));
	controller_trim(to->address, from->traddr, sizeof(from->traddr));
	memcpy(to->subnqn, from->subnqn, NVME_NQN_BYTES_MAX);
}

/* Read the log once. *stable_ret: its generation did not change meanwhile. */
static int read_discovery_log(struct fathom_controller *controller, struct fathom_discovery_entry *entries,
			      size_t entries_max, struct fathom_fault *why, size_t *count_ret, bool *stable_ret)
{
	const struct nvme_discovery_log *log = controller->page;
	uint64_t generation, count;
	int error = get_discovery_log(controller, 0, NVME_DISCOVERY_HEADER_BYTES, why);

	if (error)
		return error;
	generation = log->genctr;
	count = log->numrec;
	for (uint64_t i = 0; i < count && i < entries_max; i++) {
		error = get_discovery_log(controller, NVME_DISCOVERY_HEADER_BYTES + i * NVME_DISCOVERY_ENTRY_BYTES,
					  NVME_DISCOVERY_ENTRY_BYTES, why);
		if (error)
			return error;
		take_entry(controller->page, &entries[i]);
	}
	error = get_discovery_log(controller, 0, NVME_DISCOVERY_HEADER_BYTES, why);
	if (error)
		return error;
	*count_ret = count;
	*stable_ret = log->genctr == generation;
	return 0;
}

int fathom_discover(struct fathom_controller *controller, struct fathom_fault *why_door,
		    struct fathom_discovery_entry *entries, size_t entries_max, size_t *count_ret)
{
	struct fathom_fault *why = why_door;

	for (int i = 0; i < DISCOVERY_TRIES; i++) {
		bool stable = false;
		size_t count;
		int error = read_discovery_log(controller, entries, entries_max, why, &count, &stable);

		if (error)
			return error;
		if (stable) {
			*count_ret = count;
			return 0;
		}
	}
	return fault(why, -EAGAIN, "the discovery log kept changing");
}
