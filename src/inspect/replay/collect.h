/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * collect - the operations of hosts, out of the events of a trace file.
 *
 * Of each command the events say:
 *
 *   nvmf_req_state   when it was received and when its life ended, on which connection, and the length of its data
 *   bdev_io_submit   what it does, and at which device
 *   bdev_io_dispatch, _split, _hold, _range   its first block; _split and _range also how many
 *   bdev_io_done     how it ended
 *
 * The number of blocks follows from the length of the data and the block size. The size, and the namespace, stand in the
 * stories of requests that the file keeps (exemplars, requests in progress) and in bdev_register. So a command has no
 * record of its own for this.
 *
 * Of an SPDK target, TCP_REQ_NEW, BDEV_IO_START and BDEV_IO_DONE have the same, but no block size and no status.
 *
 * A recording may be several files, as `fathom trace record --rotate` writes them. They are read one after the other, and
 * a command may begin in one and end in another: ids of objects, owners and strings mean the same in all of them.
 *
 * Operations come out in the order in which they began. One that has not ended delays those behind it, until 131072
 * wait; then it comes out without a latency. Memory is bounded for a file of any size and content.
 *
 * Thread: one at a time per collector.
 */
#ifndef INSPECT_REPLAY_COLLECT_H
#define INSPECT_REPLAY_COLLECT_H

#include "inspect/replay/operation.h"
#include "inspect/trace/filter.h"

enum { REPLAY_FILES_MAX = 64 };

struct replay_collector;

/*
 * Collect from `readers`, which are lent: the files of one recording in any order, 1 to REPLAY_FILES_MAX. `spec`: only
 * commands of this owner and time (its other members are not used). Pair: replay_collector_destroy(). Errors (explained):
 * -ENODATA: a file lacks the events; -EINVAL: the files are of several processes; -ENOMEM; those of
 * reader_filter_create().
 */
MUST_CHECK int replay_collector_create(struct reader *const *readers, uint32_t reader_count,
				       const struct reader_filter_spec *spec, struct replay_collector **collector_ret,
				       struct fathom_fault *why);
/* Accepts NULL. */
void replay_collector_destroy(struct replay_collector *collector);

/* The next operation. False: there are no more. */
MUST_CHECK bool replay_collector_next(struct replay_collector *collector, struct replay_operation *operation_ret);

/*
 * What was collected, after the last operation. With `names`, hosts, devices and the program keep theirs. Pair:
 * replay_summary_deinit(). Errors: -ENOMEM.
 */
MUST_CHECK int replay_collector_summary(const struct replay_collector *collector, bool names,
					struct replay_summary *summary_ret);

#endif
