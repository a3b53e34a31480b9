/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host_log - log lines about hosts that connected, disconnected or were rejected, with the reason.
 *
 * Hosts choose their names, so bytes that are not printable ASCII are shown as '?'. Each kind of line is rate limited.
 * Hosts of discovery controllers connect and disconnect often, so they are logged at INFO.
 */
#ifndef TARGET_CONTROLLER_HOST_LOG_H
#define TARGET_CONTROLLER_HOST_LOG_H

#include "data/nvme/status.h"
#include "data/target/controller/controller.h"

/* A rejected Connect. It has copies of all data, because the queue pair belongs to another thread. */
struct nvmf_refusal {
	char peer_address[NVMF_ADDRESS_BYTES_MAX];
	char local_address[NVMF_ADDRESS_BYTES_MAX], local_service[8];
	char host_nqn[NVME_NQN_FIELD_BYTES], subsystem_nqn[NVME_NQN_FIELD_BYTES];
	uint16_t qid;
	enum nvme_status status;
	uint16_t ipo; /* parameter offset, for NVME_SC_CONNECT_INVALID_PARAMETERS */
	uint8_t iattr;
};

/* Log that a controller is connected, by a message to the control thread. Home thread. */
void nvmf_host_log_connected(struct nvmf_ctrlr *ctrlr);
/* Log that a controller is about to be removed. Control thread. */
void nvmf_host_log_left(const struct nvmf_ctrlr *ctrlr);
/* Log a rejected Connect, by a message. Any thread. Takes `refusal`, which must come from nvmf_alloc(). */
void nvmf_host_log_refused(struct nvmf_refusal *refusal);

/* The reason of the rejection, in a sentence valid until the next call. Control thread. */
const char *nvmf_refusal_text(const struct nvmf_refusal *refusal);

#endif
