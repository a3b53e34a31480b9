/* SPDX-License-Identifier: BSD-2-Clause */
/* internal - what the target's other parts need of requests beyond what transports see. */
#ifndef TARGET_REQUEST_INTERNAL_H
#define TARGET_REQUEST_INTERNAL_H

#include "data/target/subsystem/subsystem.h"

/* It ends with `status`; cpl.cdw0 and cdw1 have been filled. On its group's thread. */
void nvmf_req_complete(struct nvmf_req *req, enum nvme_status status, uint64_t now);

/* Run it, or run it again after it waited: state EXECUTING afterwards, WAIT_SUBSYSTEM or COMPLETED. */
void nvmf_req_go_on(struct nvmf_req *req, uint64_t now);

/* Wait until the subsystem is active. */
void nvmf_req_wait(struct nvmf_req *req, uint64_t now) COLD;

/* A pause of the subsystem waits for it from now on, until it completes. */
static inline void nvmf_req_count(struct nvmf_req *req)
{
	must(!req->counted);
	req->counted = true;
	req->qpair->subsystem->outstanding++;
}

/* Free what req->kept_data is, if anything. */
void nvmf_req_release_kept(struct nvmf_req *req);

/* Copy `bytes` of H2C data at `offset` out of the request's buffer, or C2H data into it, and zeroes to its end. */
void nvmf_req_get_data(const struct nvmf_req *req, size_t offset, void *to, size_t bytes);
void nvmf_req_put_data(struct nvmf_req *req, const void *from, size_t bytes);

/*
 * Check the data pointer of a command that moves `bytes` (0: none): kind, length, in-capsule bounds. `longer_ok`: the host
 * may give more room. Sets transfer and data_bytes.
 */
enum nvme_status nvmf_req_check_data(struct nvmf_req *req, enum nvmf_transfer transfer, uint32_t bytes,
				     uint32_t capsule_bytes, bool longer_ok);

/* io.c: commands of I/O queues. */
enum nvme_status nvmf_io_received(struct nvmf_req *req, uint32_t capsule_bytes);
void nvmf_io_execute(struct nvmf_req *req, uint64_t now);

/* parking.c: a block device has it, and it has not been answered. */
bool nvmf_req_is_at_device(const struct nvmf_req *req);
/* Answer it with `status` all the same: what the device holds is lent. */
void nvmf_req_give_up(struct nvmf_req *req, enum nvme_status status, uint64_t now);
/* All of `qpair` that devices have; of `ns`, if it is not NULL. */
void nvmf_qpair_give_up(struct nvmf_qpair *qpair, const struct nvmf_group_ns *ns, enum nvme_status status, uint64_t now);
/* It is lent, and its response has left. */
void nvmf_req_park(struct nvmf_req *req, uint64_t now);
/* Its device has ended it, too late: nothing else is to be done about it. */
void nvmf_req_returned(struct nvmf_req *req, uint64_t now) COLD;

/* What a block device's status is to a host. */
enum nvme_status nvmf_status_from_io(enum io_status status, enum io_type type);

/* qpair.c: the last request that a closing queue pair waited for is gone. */
void nvmf_qpair_drained(struct nvmf_qpair *qpair);
/* Its controller has let go of it, or it never had one. */
void nvmf_qpair_finish(struct nvmf_qpair *qpair);
/* It is PARKED, and devices have returned all its commands. */
void nvmf_qpair_returned(struct nvmf_qpair *qpair);
/* It may have commands at devices no longer than this, if it closes; `deadline_tick` 0: as long as any that closes. */
void nvmf_qpair_hurry(struct nvmf_qpair *qpair, uint64_t deadline_tick);
/* The same, from another thread. `qpair` is closing or will be told so by its transport. */
void nvmf_qpair_disconnect_msg(struct nvmf_poll_group *group, struct nvmf_qpair *qpair, const char *reason);

#endif
