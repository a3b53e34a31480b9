/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * disk - simulated block devices: memory, with completions late and out of order, refusals, failures, and a write cache
 * that only a flush empties. A read's buffer is overwritten first, and a write's data is read late.
 */
#ifndef SIM_DISK_H
#define SIM_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "data/store/bdev/bdev.h"

struct disk;

/* Register "disk<index>". On the control thread. */
struct disk *disk_create(unsigned int index);
void disk_remove(struct disk *disk); /* removes the bdev; the struct stays */
void disk_free(struct disk *disk);
bool disk_is_gone(const struct disk *disk); /* removed and no longer in use */

const struct bdev *disk_bdev(const struct disk *disk);
uint32_t disk_under_way(const struct disk *disk);
uint32_t disk_channels(const struct disk *disk);
/* The stamp in `block` after a power cut. */
uint64_t disk_durable_stamp(const struct disk *disk, uint64_t block);
const uint8_t *disk_block(const struct disk *disk, uint64_t block);
void disk_hang(struct disk *disk, uint64_t ns); /* nothing completes for `ns` */
/* From now until `sim.woken`: `permille` of the I/Os never complete; 1000: none does. */
void disk_hang_for_ever(struct disk *disk, uint32_t permille);
uint32_t disk_hung(const struct disk *disk); /* I/Os that wait for `sim.woken` */

#endif
