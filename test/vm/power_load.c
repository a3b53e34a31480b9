/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * power_load - writes to a volume until its engine loses power, and checks afterwards what the volume has kept.
 *
 *     power_load load PORT NQN LEDGER SEED     until the connection is lost; then exit status 0
 *     power_load check PORT NQN LEDGER SEED    exit status 1: a block is not what it may be
 *     power_load adopt PORT NQN LEDGER SEED    the same; the volume was restored, and what it has is written to the ledger
 *
 * Each block has a version, which each of its sectors of 512 bytes states. The ledger, a file, has two versions of each
 * block: the last that was submitted, and the last that must survive: one whose write was acknowledged before a flush was
 * submitted that was acknowledged, or a write with FUA that was acknowledged. After a power cut each sector may have any
 * version from the one to the other. A command that fails while the connection lasts is an error.
 *
 * A restore undoes writes. Their versions are not used again, so the ledger has the last version of each block, too, and
 * which versions the last restore has undone: none of them may come back.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fathom/initiator.h"

enum { BLOCK_BYTES = 4096, SECTOR_BYTES = 512, DEPTH = 16, BLOCKS_MAX = 2048, MAGIC = 0x7077 };
enum { FLUSH_EVERY = 200, FUA_EVERY = 61, CHECK_BLOCKS = 16, CONNECT_TIMEOUT_MS = 60000 };

struct sector {
	uint64_t magic, seed, block, sector, version;
	uint64_t filler[(SECTOR_BYTES - 40) / 8];
};

struct ledger {
	uint64_t submitted[BLOCKS_MAX], durable[BLOCKS_MAX], last[BLOCKS_MAX];
	uint64_t undone_after[BLOCKS_MAX], undone_last[BLOCKS_MAX]; /* equal: none */
	uint64_t writes, flushes;
};

struct slot {
	struct sector data[BLOCK_BYTES / SECTOR_BYTES];
	uint64_t block, version;
	bool is_used, is_fua;
};

static struct ledger *ledger;
static struct slot slots[DEPTH];
static uint64_t acked[BLOCKS_MAX], flushing[BLOCKS_MAX], blocks, seed, chance;
static bool is_writing[BLOCKS_MAX], is_flushing, failed;
static struct fathom_qpair *qpair;

static uint64_t next_random(void)
{
	chance ^= chance << 13;
	chance ^= chance >> 7;
	chance ^= chance << 17;
	return chance;
}

static void fill_sector(struct sector *sector, uint64_t block, uint64_t number, uint64_t version)
{
	*sector = (struct sector){ .magic = MAGIC, .seed = seed, .block = block, .sector = number, .version = version };
	for (size_t i = 0; i < sizeof(sector->filler) / sizeof(*sector->filler); i++)
		sector->filler[i] = (block << 40) ^ (version << 12) ^ (number << 8) ^ i;
}

/* A lost connection ends all commands with an error, which is expected; a status of the controller is not. */
static bool is_success(const char *what, const struct fathom_completion *completion)
{
	char text[128];

	if (completion->error == 0 && completion->status != 0) {
		printf("%s: %s\n", what, fathom_completion_text(completion, text, sizeof(text)));
		failed = true;
	}
	return completion->error == 0 && completion->status == 0;
}

static void write_done(void *ctx, const struct fathom_completion *completion)
{
	struct slot *slot = ctx;

	slot->is_used = is_writing[slot->block] = false;
	if (!is_success("write", completion))
		return;
	acked[slot->block] = slot->version;
	if (slot->is_fua)
		ledger->durable[slot->block] = slot->version;
	ledger->writes++;
}

static void flush_done(void *ctx, const struct fathom_completion *completion)
{
	is_flushing = false;
	if (!is_success("flush", completion))
		return;
	for (uint64_t block = 0; block < blocks; block++) {
		if (flushing[block] > ledger->durable[block])
			ledger->durable[block] = flushing[block];
	}
	ledger->flushes++;
}

static void submit_write(struct slot *slot)
{
	uint32_t command[FATHOM_COMMAND_BYTES / 4] = { 0x01, 1 }; /* Write, namespace 1 */
	struct iovec iov = { slot->data, sizeof(slot->data) };

	slot->block = next_random() % blocks;
	if (is_writing[slot->block])
		return;
	slot->version = ledger->submitted[slot->block] = ++ledger->last[slot->block];
	slot->is_fua = next_random() % FUA_EVERY == 0;
	for (uint64_t i = 0; i < BLOCK_BYTES / SECTOR_BYTES; i++)
		fill_sector(&slot->data[i], slot->block, i, slot->version);
	command[10] = (uint32_t)slot->block;
	command[12] = slot->is_fua ? 1u << 30 : 0;
	if (fathom_submit(qpair, command, &iov, 1, write_done, slot) == 0)
		slot->is_used = is_writing[slot->block] = true;
}

static int load(void)
{
	printf("connected\n");
	fflush(stdout);
	while (!failed) {
		for (int i = 0; i < DEPTH; i++) {
			if (!slots[i].is_used)
				submit_write(&slots[i]);
		}
		if (!is_flushing && next_random() % FLUSH_EVERY == 0) {
			memcpy(flushing, acked, sizeof(flushing));
			is_flushing = fathom_flush(qpair, 1, flush_done, NULL) == 0;
		}
		fathom_qpair_wait(qpair, 1000);
		if (fathom_qpair_poll(qpair) < 0)
			break;
	}
	printf("writes=%" PRIu64 " flushes=%" PRIu64 "\n", ledger->writes, ledger->flushes);
	return failed ? 1 : 0;
}

static int read_status;

static void read_done(void *ctx, const struct fathom_completion *completion)
{
	read_status = is_success("read", completion) ? 0 : 1;
}

static bool is_undone(uint64_t block, uint64_t version)
{
	return version > ledger->undone_after[block] && version <= ledger->undone_last[block];
}

static int check_sector(const struct sector *found, uint64_t block, uint64_t number)
{
	static const struct sector zero;
	uint64_t low = ledger->durable[block], high = ledger->submitted[block];
	struct sector expected;

	if (memcmp(found, &zero, sizeof(zero)) == 0) {
		if (low == 0)
			return 0;
		printf("block %" PRIu64 " sector %" PRIu64 ": zeroes, but version %" PRIu64 " must have survived\n", block,
		       number, low);
		return 1;
	}
	fill_sector(&expected, block, number, found->version);
	if (memcmp(found, &expected, sizeof(expected)) == 0 && found->version >= low && found->version <= high &&
	    !is_undone(block, found->version))
		return 0;
	printf("block %" PRIu64 " sector %" PRIu64 ": magic %" PRIx64 " block %" PRIu64 " version %" PRIu64 ", not %" PRIu64
	       " to %" PRIu64 "%s\n",
	       block, number, found->magic, found->block, found->version, low, high,
	       is_undone(block, found->version) ? ", and a restore has undone it" : "");
	return 1;
}

/* Note which versions a restored block has: the lowest and the highest of its sectors. Later ones are undone. */
static void adopt_block(const struct sector *sectors, uint64_t block)
{
	uint64_t low = UINT64_MAX, high = 0;

	for (uint64_t i = 0; i < BLOCK_BYTES / SECTOR_BYTES; i++) {
		low = sectors[i].version < low ? sectors[i].version : low;
		high = sectors[i].version > high ? sectors[i].version : high;
	}
	ledger->durable[block] = low;
	ledger->submitted[block] = ledger->undone_after[block] = high;
	ledger->undone_last[block] = ledger->last[block];
}

/* Wait for the read that was submitted. 0, or the exit status. */
static int wait_read(void)
{
	while (read_status < 0) {
		fathom_qpair_wait(qpair, 1000);
		if (fathom_qpair_poll(qpair) < 0) {
			printf("the connection was lost: %s\n", fathom_qpair_fault(qpair)->text);
			return 1;
		}
	}
	return read_status;
}

static int check(bool is_adopting)
{
	static struct sector data[CHECK_BLOCKS][BLOCK_BYTES / SECTOR_BYTES];
	uint64_t wrong = 0;

	for (uint64_t first = 0; first < blocks; first += CHECK_BLOCKS) {
		uint32_t count = (uint32_t)(blocks - first < CHECK_BLOCKS ? blocks - first : CHECK_BLOCKS);
		struct iovec iov = { data, count * sizeof(data[0]) };

		read_status = -1;
		if (fathom_read(qpair, 1, first, count, &iov, 1, read_done, NULL) != 0 || wait_read() != 0)
			return 1;
		for (uint64_t i = 0; i < count; i++)
			for (uint64_t sector = 0; sector < BLOCK_BYTES / SECTOR_BYTES; sector++)
				wrong += (uint64_t)check_sector(&data[i][sector], first + i, sector);
		for (uint64_t i = 0; is_adopting && i < count; i++)
			adopt_block(data[i], first + i);
	}
	printf("wrong=%" PRIu64 " of %" PRIu64 " blocks\n", wrong, blocks);
	return wrong ? 1 : 0;
}

static struct ledger *map_ledger(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *place = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, sizeof(struct ledger)) == 0)
		place = mmap(NULL, sizeof(struct ledger), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (place == MAP_FAILED) {
		perror(path);
		exit(2);
	}
	close(fd);
	return place;
}

int main(int argc, char **argv)
{
	struct fathom_connect_options options;
	struct fathom_controller *controller;
	struct fathom_namespace_info info;
	struct fathom_fault why;
	int status;

	if (argc != 6 || (strcmp(argv[1], "load") != 0 && strcmp(argv[1], "check") != 0 && strcmp(argv[1], "adopt") != 0)) {
		fprintf(stderr, "usage: power_load load|check|adopt PORT NQN LEDGER SEED\n");
		return 2;
	}
	seed = strtoull(argv[5], NULL, 10);
	chance = seed * 0x9e3779b97f4a7c15 + 1;
	ledger = map_ledger(argv[4]);
	chance += ledger->writes;
	memcpy(acked, ledger->durable, sizeof(acked));
	fathom_connect_options_init(&options);
	options.address = "127.0.0.1";
	options.service = argv[2];
	options.subnqn = argv[3];
	options.keep_alive_ms = options.command_timeout_ms = 0; /* nothing polls the admin queue; a busy machine is slow */
	options.connect_timeout_ms = CONNECT_TIMEOUT_MS;
	options.hostnqn = "nqn.2014-08.org.nvmexpress:uuid:6cf5e4a2-0f0e-4f0b-9d6e-70a1b8f3c001";
	if (fathom_connect(&options, &why, &controller) != 0 || fathom_namespace_info(controller, 1, &why, &info) != 0 ||
	    fathom_qpair_create(controller, DEPTH + 1, &why, &qpair) != 0) {
		fprintf(stderr, "power_load: %s\n", why.text);
		return 3;
	}
	blocks = info.blocks < BLOCKS_MAX ? info.blocks : BLOCKS_MAX;
	status = strcmp(argv[1], "load") == 0 ? load() : check(strcmp(argv[1], "adopt") == 0);
	fathom_qpair_destroy(qpair);
	fathom_disconnect(controller);
	return status;
}
