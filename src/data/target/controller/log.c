/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log - the Get Log Page command.
 *
 * A page is built whole, and the requested part is copied out. Most pages are built at once in the group's scratch buffer.
 * SMART / Health collects counters from every group; the discovery log is built by the control thread.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "data/nvme/identify.h"
#include "data/target/controller/controller.h"
#include "data/target/probes.gen.h"
#include "data/target/request/internal.h"

enum {
	TEMPERATURE_KELVIN = 300, /* not measured: a constant room temperature raises no alarm */
	SPARE_PERCENT = 100,
	MI_EFFECTS_BYTES = 4096,
	COMMON_EFFECT = NVME_EFFECT_SUPPORTED,
};

static uint8_t page_id(const struct nvmf_req *req)
{
	return (uint8_t)(req->cmd.cdw10 & NVME_LOG_CDW10_LID_MASK);
}

static uint64_t page_offset(const struct nvmf_req *req)
{
	return (uint64_t)req->cmd.cdw13 << 32 | req->cmd.cdw12;
}

static bool retains_event(const struct nvmf_req *req)
{
	return (req->cmd.cdw10 & NVME_LOG_CDW10_RAE) != 0;
}

/* Complete the command with the requested part of the page. */
static void send_page(struct nvmf_req *req, const void *page, size_t bytes, uint64_t now)
{
	uint64_t offset = page_offset(req);

	if (offset > bytes) {
		nvmf_req_complete(req, NVME_SC_INVALID_FIELD, now);
		return;
	}
	must(req->counted);
	must(req->data_bytes >= nvme_log_bytes(req->cmd.cdw10, req->cmd.cdw11));
	nvmf_req_put_data(req, (const uint8_t *)page + offset,
			  min_u64(bytes - offset, nvme_log_bytes(req->cmd.cdw10, req->cmd.cdw11)));
	nvmf_req_complete(req, NVME_SC_SUCCESS, now);
}

/* ---- pages built at once; each function returns the size ---- */

static size_t supported_pages(const struct nvmf_ctrlr *ctrlr, uint8_t *page)
{
	static const uint8_t pages[] = { NVME_LOG_SUPPORTED_PAGES, NVME_LOG_ERROR,	     NVME_LOG_SMART,
					 NVME_LOG_FIRMWARE_SLOT,   NVME_LOG_CHANGED_NS_LIST, NVME_LOG_COMMAND_EFFECTS,
					 NVME_LOG_FEATURE_EFFECTS, NVME_LOG_MI_EFFECTS };
	static const uint8_t discovery_pages[] = { NVME_LOG_SUPPORTED_PAGES, NVME_LOG_ERROR, NVME_LOG_DISCOVERY };
	struct nvme_log_supported_pages *log = (struct nvme_log_supported_pages *)page;
	const uint8_t *lids = ctrlr->discovery ? discovery_pages : pages;
	size_t count = ctrlr->discovery ? ARRAY_COUNT(discovery_pages) : ARRAY_COUNT(pages);

	static_assert(sizeof(*log) <= NVME_IDENTIFY_BYTES, "the log fits the scratch page");
	for (size_t i = 0; i < count; i++)
		log->lid[lids[i]] = 1;
	return sizeof(*log);
}

static size_t build_error_log(const struct nvmf_ctrlr *ctrlr, uint8_t *page)
{
	struct nvme_log_error *entries = (struct nvme_log_error *)page;
	uint64_t count = min_u64(ctrlr->error_count, NVMF_ERROR_ENTRIES);

	static_assert(NVMF_ERROR_ENTRIES * sizeof(*entries) <= NVME_IDENTIFY_BYTES, "the log fits the scratch page");
	for (uint64_t i = 0; i < count; i++)
		entries[i] = ctrlr->errors[(ctrlr->error_count - 1 - i) % NVMF_ERROR_ENTRIES];
	return NVMF_ERROR_ENTRIES * sizeof(*entries);
}

static size_t firmware_slots(uint8_t *page)
{
	struct nvme_log_firmware_slot *log = (struct nvme_log_firmware_slot *)page;

	static_assert(sizeof(*log) <= NVME_IDENTIFY_BYTES, "the log fits the scratch page");
	log->afi = 1;
	memcpy(log->revision[0], "0.1     ", sizeof(log->revision[0]));
	return sizeof(*log);
}

static size_t changed_namespaces(const struct nvmf_ctrlr *ctrlr, uint8_t *page)
{
	struct nvme_ns_list *list = (struct nvme_ns_list *)page;

	if (ctrlr->changed_ns_count > NVMF_CHANGED_NS_MAX) {
		list->nsid[0] = NVME_NSID_ALL;
		return sizeof(*list);
	}
	/* The specification requires ascending order. */
	for (uint32_t i = 0; i < ctrlr->changed_ns_count; i++) {
		uint32_t at = i;

		while (at > 0 && list->nsid[at - 1] > ctrlr->changed_ns[i]) {
			list->nsid[at] = list->nsid[at - 1];
			at--;
		}
		list->nsid[at] = ctrlr->changed_ns[i];
	}
	return sizeof(*list);
}

static size_t command_effects(uint8_t *page)
{
	static const uint8_t admin[] = { NVME_ADMIN_GET_LOG_PAGE, NVME_ADMIN_IDENTIFY,	   NVME_ADMIN_ABORT,
					 NVME_ADMIN_SET_FEATURES, NVME_ADMIN_GET_FEATURES, NVME_ADMIN_ASYNC_EVENT_REQUEST,
					 NVME_ADMIN_KEEP_ALIVE,	  NVME_ADMIN_FABRICS };
	struct nvme_log_command_effects *log = (struct nvme_log_command_effects *)page;

	static_assert(sizeof(*log) <= NVME_IDENTIFY_BYTES, "the log fits the scratch page");
	for (size_t i = 0; i < ARRAY_COUNT(admin); i++)
		log->admin[admin[i]] = COMMON_EFFECT;
	log->io[NVME_NVM_FLUSH] = COMMON_EFFECT;
	log->io[NVME_NVM_READ] = COMMON_EFFECT;
	log->io[NVME_NVM_COMPARE] = COMMON_EFFECT;
	log->io[NVME_NVM_WRITE] = COMMON_EFFECT | NVME_EFFECT_CONTENT;
	log->io[NVME_NVM_WRITE_ZEROES] = COMMON_EFFECT | NVME_EFFECT_CONTENT;
	log->io[NVME_NVM_DATASET_MANAGEMENT] = COMMON_EFFECT | NVME_EFFECT_CONTENT;
	return sizeof(*log);
}

static size_t feature_effects(const struct nvmf_ctrlr *ctrlr, uint8_t *page)
{
	struct nvme_log_feature_effects *log = (struct nvme_log_feature_effects *)page;

	static_assert(sizeof(*log) <= NVME_IDENTIFY_BYTES, "the log fits the scratch page");
	for (unsigned int fid = 0; fid < ARRAY_COUNT(log->fid); fid++)
		log->fid[fid] = nvmf_feature_known(ctrlr, (uint8_t)fid) ? 1 : 0;
	return sizeof(*log);
}

/* ---- SMART / Health: counters of all groups ---- */

struct smart {
	struct nvmf_req *req;
	struct nvmf_ctrlr *ctrlr;
	struct nvmf_counters counters;
};

static uint64_t data_units(uint64_t bytes)
{
	return (bytes + NVME_SMART_DATA_UNIT_BYTES - 1) / NVME_SMART_DATA_UNIT_BYTES;
}

static void read_smart_on_ctrlr_thread(void *ctx)
{
	struct smart *smart = ctx;
	uint64_t hours = clock_ns_from_ticks(reactor_now() - smart->ctrlr->created_tick) / NS_PER_SEC / 3600;
	struct nvme_log_smart log = {
		.temperature = TEMPERATURE_KELVIN,
		.available_spare = SPARE_PERCENT,
		.data_units_read.low = data_units(smart->counters.read_bytes),
		.data_units_written.low = data_units(smart->counters.written_bytes),
		.host_read_commands.low = smart->counters.read_commands,
		.host_write_commands.low = smart->counters.write_commands,
		.power_cycles.low = 1,
		.power_on_hours.low = hours,
		.media_errors.low = smart->counters.media_errors,
		.error_log_entries.low = smart->ctrlr->error_count,
	};

	send_page(smart->req, &log, sizeof(log), reactor_now());
	free(smart);
}

static void smart_gathered(int status, void *ctx)
{
	struct smart *smart = ctx;

	must_be_on(thread_control());
	must(status == 0);
	thread_send_msg(smart->ctrlr->group->thread, read_smart_on_ctrlr_thread, smart);
}

static void smart_on_group(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct nvmf_poll_group *group = nvmf_group_of(channel);
	struct smart *smart = ctx;
	const struct nvmf_group_subsystem *part = group->subsystems[smart->ctrlr->subsystem->id];

	must_be_on(group->thread);
	must(!part || part->subsystem == smart->ctrlr->subsystem);
	if (part)
		nvmf_counters_add(&smart->counters, &part->counters);
	channel_iter_next(iter, 0);
}

/* Add the counters of freed parts before visiting the groups: a part freed during the visits must not be counted twice. */
static void smart_on_control(void *ctx)
{
	struct smart *smart = ctx;

	nvmf_counters_add(&smart->counters, &smart->ctrlr->subsystem->counters);
	for_each_channel(&nvmf_tgt, smart_on_group, smart_gathered, smart);
}

static void smart_log(struct nvmf_req *req, uint64_t now)
{
	struct smart *smart;

	/* The log exists per controller only, not per namespace. */
	if (req->cmd.nsid != 0 && req->cmd.nsid != NVME_NSID_ALL) {
		nvmf_req_complete(req, NVME_SC_INVALID_FIELD, now);
		return;
	}
	smart = nvmf_alloc(sizeof(*smart));
	smart->req = req;
	smart->ctrlr = req->qpair->ctrlr;
	thread_send_msg(thread_control(), smart_on_control, smart);
}

/* ---- the discovery log ---- */

struct discovery {
	struct nvmf_req *req;
	struct nvmf_ctrlr *ctrlr;
	struct nvme_discovery_log *log;
	size_t bytes;
};

static void read_discovery_on_ctrlr_thread(void *ctx)
{
	struct discovery *fetch = ctx;

	must(fetch->log);
	must(fetch->bytes >= NVME_DISCOVERY_HEADER_BYTES);
	send_page(fetch->req, fetch->log, fetch->bytes, reactor_now());
	free(fetch->log);
	free(fetch);
}

static void discovery_on_control(void *ctx)
{
	struct discovery *fetch = ctx;

	fetch->log = nvmf_discovery_log(fetch->ctrlr->host_nqn, fetch->ctrlr->local_address, fetch->ctrlr->local_service,
					&fetch->bytes);
	thread_send_msg(fetch->ctrlr->group->thread, read_discovery_on_ctrlr_thread, fetch);
}

static void discovery_log(struct nvmf_req *req)
{
	struct discovery *fetch = nvmf_alloc(sizeof(*fetch));

	fetch->req = req;
	fetch->ctrlr = req->qpair->ctrlr;
	/* Unmask the event before the log is built: a later change, which the log lacks, must raise a new event. */
	if (!retains_event(req))
		nvmf_ctrlr_event_seen(fetch->ctrlr, NVMF_EVENT_DISCOVERY_CHANGED);
	thread_send_msg(thread_control(), discovery_on_control, fetch);
}

/* ---- dispatch ---- */

/* Build a page in `page` and return its size; 0: the page is unknown. */
static size_t build_page(const struct nvmf_req *req, uint8_t *page)
{
	const struct nvmf_ctrlr *ctrlr = req->qpair->ctrlr;

	switch (page_id(req)) {
	case NVME_LOG_SUPPORTED_PAGES:
		return supported_pages(ctrlr, page);
	case NVME_LOG_ERROR:
		return build_error_log(ctrlr, page);
	default:
		break;
	}
	if (ctrlr->discovery)
		return 0;
	switch (page_id(req)) {
	case NVME_LOG_FIRMWARE_SLOT:
		return firmware_slots(page);
	case NVME_LOG_CHANGED_NS_LIST:
		return changed_namespaces(ctrlr, page);
	case NVME_LOG_COMMAND_EFFECTS:
		return command_effects(page);
	case NVME_LOG_FEATURE_EFFECTS:
		return feature_effects(ctrlr, page);
	case NVME_LOG_MI_EFFECTS:
		return MI_EFFECTS_BYTES;
	default:
		return 0;
	}
}

void nvmf_get_log_page(struct nvmf_req *req, uint64_t now)
{
	struct nvmf_ctrlr *ctrlr = req->qpair->ctrlr;
	uint8_t *page = req->qpair->group->scratch;
	size_t bytes;

	/* No page supports index offsets (OT); offsets must be multiples of 4. */
	if ((req->cmd.cdw14 & NVME_LOG_CDW14_OT) || page_offset(req) % 4 != 0) {
		nvmf_req_complete(req, NVME_SC_INVALID_FIELD, now);
		return;
	}
	if (page_id(req) == NVME_LOG_SMART && !ctrlr->discovery) {
		smart_log(req, now);
		return;
	}
	if (page_id(req) == NVME_LOG_DISCOVERY && ctrlr->discovery) {
		discovery_log(req);
		return;
	}
	memset(page, 0, NVME_IDENTIFY_BYTES);
	bytes = build_page(req, page);
	if (bytes == 0) {
		nvmf_req_complete(req, NVME_SC_INVALID_LOG_PAGE, now);
		return;
	}
	if (page_id(req) == NVME_LOG_CHANGED_NS_LIST && !retains_event(req))
		nvmf_ctrlr_event_seen(ctrlr, NVMF_EVENT_NS_CHANGED);
	must(bytes <= NVME_IDENTIFY_BYTES);
	send_page(req, page, bytes, now);
}
