/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host_log - lines for the operator about hosts: which connected, which left and why, which were refused and why.
 *
 * The names are the hosts' own, so what is no printable ASCII is shown as '?'. Each kind of line is limited in rate, and
 * hosts of discovery controllers, which come and go by the minute, are logged at INFO.
 */
#ifndef TARGET_CONTROLLER_HOST_LOG_H
#define TARGET_CONTROLLER_HOST_LOG_H

#include "data/nvme/status.h"
#include "data/target/controller/controller.h"

/* A Connect that was refused: copies, because the queue pair belongs to its group. */
struct nvmf_refusal {
	char peer_address[NVMF_ADDRESS_BYTES_MAX];
	char local_address[NVMF_ADDRESS_BYTES_MAX], local_service[8];
	char host_nqn[NVME_NQN_FIELD_BYTES], subsystem_nqn[NVME_NQN_FIELD_BYTES];
	uint16_t qid;
	enum nvme_status status;
	uint16_t ipo; /* of NVME_SC_CONNECT_INVALID_PARAMETERS, as in the response */
	uint8_t iattr;
};

/* Home thread: a controller is connected. The line follows on the control thread. */
void nvmf_host_log_connected(struct nvmf_ctrlr *ctrlr);
/* Control thread: a controller is about to be removed. */
void nvmf_host_log_left(const struct nvmf_ctrlr *ctrlr);
/* Any thread. Takes `refusal`, which is from nvmf_alloc(). */
void nvmf_host_log_refused(struct nvmf_refusal *refusal);

/* Why it was refused, in a sentence that is valid until the next call. Control thread. */
const char *nvmf_refusal_text(const struct nvmf_refusal *refusal);

#endif
