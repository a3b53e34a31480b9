/* SPDX-License-Identifier: BSD-2-Clause */
/* feature - Get and Set Features. Values are not saveable: a reset of the controller restores the defaults. */
#include <stdlib.h>
#include <string.h>

#include "data/target/controller/controller.h"
#include "data/target/probes.gen.h"
#include "data/target/request/internal.h"

enum {
	TEMPERATURE_DEFAULT = 0xffff, /* over threshold; the under threshold is 0. No temperature is measured */
	TEMPERATURE_TMPSEL_SHIFT = 16,
	TEMPERATURE_THSEL_SHIFT = 20,
	TEMPERATURE_THSEL_UNDER = 1,
	TEMPERATURE_ALL_SENSORS = 0xf,
	POWER_STATE_MASK = 0x1f,
	HOST_IDENTIFIER_BYTES = 16,
};

static_assert((int)HOST_IDENTIFIER_BYTES == (int)NVME_HOSTID_BYTES, "with EXHID, it is what Connect brought");

void nvmf_features_init(struct nvmf_ctrlr *ctrlr)
{
	ctrlr->features = (struct nvmf_features){
		.temperature_over = TEMPERATURE_DEFAULT,
		.write_cache = NVME_WRITE_CACHE_ENABLE,
	};
}

static uint8_t feature_id(const struct nvmf_req *req)
{
	return (uint8_t)(req->cmd.cdw10 & NVME_FEATURE_CDW10_FID_MASK);
}

/* Bytes of data transferred with a feature. */
static uint32_t data_bytes(uint8_t fid)
{
	switch (fid) {
	case NVME_FEATURE_HOST_IDENTIFIER:
		return HOST_IDENTIFIER_BYTES;
	case NVME_FEATURE_HOST_BEHAVIOR:
		return sizeof(struct nvme_host_behavior);
	default:
		return 0;
	}
}

static bool is_known_feature(const struct nvmf_ctrlr *ctrlr, uint8_t fid)
{
	if (ctrlr->discovery)
		return fid == NVME_FEATURE_ASYNC_EVENT_CONFIG || fid == NVME_FEATURE_KEEP_ALIVE_TIMER;
	switch (fid) {
	case NVME_FEATURE_ARBITRATION:
	case NVME_FEATURE_POWER_MANAGEMENT:
	case NVME_FEATURE_TEMPERATURE_THRESHOLD:
	case NVME_FEATURE_ERROR_RECOVERY:
	case NVME_FEATURE_VOLATILE_WRITE_CACHE:
	case NVME_FEATURE_NUMBER_OF_QUEUES:
	case NVME_FEATURE_INTERRUPT_COALESCING:
	case NVME_FEATURE_INTERRUPT_VECTOR:
	case NVME_FEATURE_WRITE_ATOMICITY:
	case NVME_FEATURE_ASYNC_EVENT_CONFIG:
	case NVME_FEATURE_KEEP_ALIVE_TIMER:
	case NVME_FEATURE_HOST_BEHAVIOR:
	case NVME_FEATURE_IOCS_PROFILE:
	case NVME_FEATURE_HOST_IDENTIFIER:
		return true;
	default:
		return false;
	}
}

bool nvmf_feature_known(const struct nvmf_ctrlr *ctrlr, uint8_t fid)
{
	return is_known_feature(ctrlr, fid);
}

/* ---- Get ---- */

static uint32_t get_selection(const struct nvmf_req *req)
{
	return req->cmd.cdw10 >> NVME_FEATURE_CDW10_SEL_SHIFT & NVME_FEATURE_CDW10_SEL_MASK;
}

enum nvme_status nvmf_get_features_received(struct nvmf_req *req)
{
	const struct nvmf_ctrlr *ctrlr = req->qpair->ctrlr;
	uint8_t fid = feature_id(req);

	if (!is_known_feature(ctrlr, fid))
		return NVME_SC_INVALID_FIELD;
	if (fid == NVME_FEATURE_HOST_IDENTIFIER && !(req->cmd.cdw11 & NVME_HOST_IDENTIFIER_EXHID))
		return NVME_SC_HOST_ID_INCONSISTENT;
	if (get_selection(req) == NVME_FEATURE_CAPABILITIES)
		return NVME_SC_SUCCESS;
	return nvmf_req_check_data(req, NVMF_TRANSFER_C2H, data_bytes(fid), 0, true);
}

static enum nvme_status get_temperature(const struct nvmf_features *features, uint32_t cdw11, uint32_t *value_ret)
{
	uint32_t sensor = cdw11 >> TEMPERATURE_TMPSEL_SHIFT & 0xf;
	uint32_t kind = cdw11 >> TEMPERATURE_THSEL_SHIFT & 0x3;

	if (sensor != 0 || kind > TEMPERATURE_THSEL_UNDER)
		return NVME_SC_INVALID_FIELD;
	*value_ret = kind == TEMPERATURE_THSEL_UNDER ? features->temperature_under : features->temperature_over;
	return NVME_SC_SUCCESS;
}

static uint32_t get_queue_counts(const struct nvmf_ctrlr *ctrlr)
{
	uint16_t less_1 = (uint16_t)(ctrlr->io_queues_max - 1);

	must(ctrlr->io_queues_max >= 1);
	return nvme_queues_dword(less_1, less_1);
}

static enum nvme_status get_value(struct nvmf_req *req, const struct nvmf_ctrlr *ctrlr,
				  const struct nvmf_features *features, uint32_t *value)
{
	switch (feature_id(req)) {
	case NVME_FEATURE_ARBITRATION:
		*value = features->arbitration;
		break;
	case NVME_FEATURE_POWER_MANAGEMENT:
		*value = features->power;
		break;
	case NVME_FEATURE_TEMPERATURE_THRESHOLD:
		return get_temperature(features, req->cmd.cdw11, value);
	case NVME_FEATURE_ERROR_RECOVERY:
		*value = features->error_recovery;
		break;
	case NVME_FEATURE_VOLATILE_WRITE_CACHE:
		*value = features->write_cache;
		break;
	case NVME_FEATURE_NUMBER_OF_QUEUES:
		*value = get_queue_counts(ctrlr);
		break;
	case NVME_FEATURE_INTERRUPT_COALESCING:
		*value = features->interrupt_coalescing;
		break;
	case NVME_FEATURE_INTERRUPT_VECTOR:
		*value = features->interrupt_vector | (req->cmd.cdw11 & 0xffff);
		break;
	case NVME_FEATURE_WRITE_ATOMICITY:
		*value = features->write_atomicity;
		break;
	case NVME_FEATURE_ASYNC_EVENT_CONFIG:
		*value = features->events;
		break;
	case NVME_FEATURE_KEEP_ALIVE_TIMER:
		*value = features->kato;
		break;
	case NVME_FEATURE_HOST_BEHAVIOR:
		nvmf_req_put_data(req, &features->behavior, sizeof(features->behavior));
		break;
	case NVME_FEATURE_HOST_IDENTIFIER:
		nvmf_req_put_data(req, ctrlr->host_id, sizeof(ctrlr->host_id));
		break;
	default:
		/* the only profile is 0 */
		must(feature_id(req) == NVME_FEATURE_IOCS_PROFILE);
		break;
	}
	return NVME_SC_SUCCESS;
}

static bool is_changeable(uint8_t fid)
{
	return fid != NVME_FEATURE_HOST_IDENTIFIER;
}

void nvmf_get_features(struct nvmf_req *req, uint64_t now)
{
	struct nvmf_ctrlr *ctrlr = req->qpair->ctrlr;
	struct nvmf_features current = ctrlr->features, defaults;
	enum nvme_status status;
	uint32_t value = 0;

	must(is_known_feature(ctrlr, feature_id(req)));
	switch (get_selection(req)) {
	case NVME_FEATURE_CURRENT:
		status = get_value(req, ctrlr, &current, &value);
		break;
	case NVME_FEATURE_DEFAULT:
	case NVME_FEATURE_SAVED:
		nvmf_features_init(ctrlr);
		defaults = ctrlr->features;
		ctrlr->features = current;
		status = get_value(req, ctrlr, &defaults, &value);
		break;
	case NVME_FEATURE_CAPABILITIES:
		value = is_changeable(feature_id(req)) ? NVME_FEATURE_CHANGEABLE : 0;
		status = NVME_SC_SUCCESS;
		break;
	default:
		status = NVME_SC_INVALID_FIELD;
		break;
	}
	req->cpl.cdw0 = value;
	nvmf_req_complete(req, status, now);
}

/* ---- Set ---- */

enum nvme_status nvmf_set_features_received(struct nvmf_req *req, uint32_t capsule_bytes)
{
	const struct nvmf_ctrlr *ctrlr = req->qpair->ctrlr;
	uint8_t fid = feature_id(req);

	if (!is_known_feature(ctrlr, fid))
		return NVME_SC_INVALID_FIELD;
	if (req->cmd.cdw10 & NVME_FEATURE_CDW10_SAVE)
		return NVME_SC_FEATURE_NOT_SAVEABLE;
	/* The host identifier is set by Connect and cannot change. */
	if (!is_changeable(fid))
		return NVME_SC_COMMAND_SEQUENCE_ERROR;
	return nvmf_req_check_data(req, NVMF_TRANSFER_H2C, data_bytes(fid), capsule_bytes, true);
}

static enum nvme_status set_temperature(struct nvmf_features *features, uint32_t cdw11)
{
	uint32_t sensor = cdw11 >> TEMPERATURE_TMPSEL_SHIFT & 0xf;
	uint32_t kind = cdw11 >> TEMPERATURE_THSEL_SHIFT & 0x3;

	if ((sensor != 0 && sensor != TEMPERATURE_ALL_SENSORS) || kind > TEMPERATURE_THSEL_UNDER)
		return NVME_SC_INVALID_FIELD;
	if (kind == TEMPERATURE_THSEL_UNDER)
		features->temperature_under = cdw11 & 0xffff;
	else
		features->temperature_over = cdw11 & 0xffff;
	return NVME_SC_SUCCESS;
}

static enum nvme_status set_queues(struct nvmf_req *req, const struct nvmf_ctrlr *ctrlr)
{
	uint32_t asked = req->cmd.cdw11;

	if ((asked & 0xffff) == 0xffff || asked >> 16 == 0xffff)
		return NVME_SC_INVALID_FIELD;
	if (ctrlr->io_count > 0)
		return NVME_SC_COMMAND_SEQUENCE_ERROR;
	req->cpl.cdw0 = get_queue_counts(ctrlr);
	return NVME_SC_SUCCESS;
}

struct write_through {
	struct nvmf_qpair *qpair;
	bool on;
};

static void write_through_on_group(void *ctx)
{
	struct write_through *change = ctx;

	must_be_on(change->qpair->group->thread);
	change->qpair->write_through = change->on;
	free(change);
}

static enum nvme_status set_write_cache(struct nvmf_ctrlr *ctrlr, uint32_t value)
{
	struct nvmf_ctrlr_io *io;

	ctrlr->features.write_cache = value & NVME_WRITE_CACHE_ENABLE;
	TAILQ_FOREACH (io, &ctrlr->io_qpairs, link) {
		struct write_through *change = nvmf_alloc(sizeof(*change));

		change->qpair = io->qpair;
		change->on = ctrlr->features.write_cache == 0;
		thread_send_msg(io->group->thread, write_through_on_group, change);
	}
	return NVME_SC_SUCCESS;
}

static enum nvme_status set_kato(struct nvmf_ctrlr *ctrlr, uint32_t kato_ms)
{
	if (kato_ms == 0 && !ctrlr->discovery)
		return NVME_SC_KEEP_ALIVE_INVALID;
	ctrlr->features.kato = nvmf_ctrlr_round_kato(ctrlr, kato_ms);
	nvmf_ctrlr_keep_alive(ctrlr);
	return NVME_SC_SUCCESS;
}

static enum nvme_status set_behavior(struct nvmf_req *req, struct nvmf_features *features)
{
	struct nvme_host_behavior behavior;

	must(req->data_bytes >= sizeof(behavior));
	nvmf_req_get_data(req, 0, &behavior, sizeof(behavior));
	if (behavior.acre > 1)
		return NVME_SC_INVALID_FIELD;
	features->behavior = behavior;
	return NVME_SC_SUCCESS;
}

static enum nvme_status set_events(struct nvmf_ctrlr *ctrlr, uint32_t value)
{
	uint32_t known_events = ctrlr->discovery ? NVME_AEC_DISCOVERY_LOG
						 : (uint32_t)(NVME_AEC_SMART_MASK | NVME_AEC_NS_ATTRIBUTE);

	/* A host may enable events that this target never sends; those bits are ignored. */
	ctrlr->features.events = value & known_events;
	return NVME_SC_SUCCESS;
}

static enum nvme_status set_value(struct nvmf_req *req, struct nvmf_ctrlr *ctrlr)
{
	struct nvmf_features *features = &ctrlr->features;
	uint32_t value = req->cmd.cdw11;

	switch (feature_id(req)) {
	case NVME_FEATURE_ARBITRATION:
		features->arbitration = value;
		break;
	case NVME_FEATURE_POWER_MANAGEMENT:
		if ((value & POWER_STATE_MASK) != 0)
			return NVME_SC_INVALID_FIELD;
		features->power = value;
		break;
	case NVME_FEATURE_TEMPERATURE_THRESHOLD:
		return set_temperature(features, value);
	case NVME_FEATURE_ERROR_RECOVERY:
		/* No namespace reports reads of deallocated blocks as errors, so DULBE cannot be set. */
		if (value & NVME_ERROR_RECOVERY_DULBE)
			return NVME_SC_INVALID_FIELD;
		features->error_recovery = value;
		break;
	case NVME_FEATURE_VOLATILE_WRITE_CACHE:
		return set_write_cache(ctrlr, value);
	case NVME_FEATURE_NUMBER_OF_QUEUES:
		return set_queues(req, ctrlr);
	case NVME_FEATURE_INTERRUPT_COALESCING:
		features->interrupt_coalescing = value & 0xffff;
		break;
	case NVME_FEATURE_INTERRUPT_VECTOR:
		features->interrupt_vector = value & BIT(16);
		break;
	case NVME_FEATURE_WRITE_ATOMICITY:
		features->write_atomicity = value & NVME_WRITE_ATOMICITY_DN;
		break;
	case NVME_FEATURE_ASYNC_EVENT_CONFIG:
		return set_events(ctrlr, value);
	case NVME_FEATURE_KEEP_ALIVE_TIMER:
		return set_kato(ctrlr, value);
	case NVME_FEATURE_HOST_BEHAVIOR:
		return set_behavior(req, features);
	case NVME_FEATURE_IOCS_PROFILE:
		/* The only combination is 0: NVM. */
		return (value & 0x1ff) == 0 ? NVME_SC_SUCCESS : NVME_SC_INVALID_FIELD;
	default:
		return NVME_SC_INVALID_FIELD;
	}
	return NVME_SC_SUCCESS;
}

void nvmf_set_features(struct nvmf_req *req, uint64_t now)
{
	must(is_known_feature(req->qpair->ctrlr, feature_id(req)));
	must(is_changeable(feature_id(req)));
	nvmf_req_complete(req, set_value(req, req->qpair->ctrlr), now);
}
