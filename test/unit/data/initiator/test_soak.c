/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A volume behind the fake: random reads and writes of random sizes in random pieces. The controller answers in any order
 * and splits data and R2Ts anywhere; the socket carries a few bytes at a time. The run depends only on its seed. At the end
 * each byte must be in its place.
 */
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "fake.h"

enum { SEEDS = 60, DEPTH = 16, COMMANDS = 300, LBA_BYTES = 512, LBAS = 256, PIECES = 4, BYTES_MAX = 64 * LBA_BYTES };

/* A command of the host. */
struct op {
	struct fake_end end;
	struct iovec iov[PIECES];
	uint8_t bytes[BYTES_MAX];
	uint8_t expected[BYTES_MAX];
	uint32_t lba;
	uint32_t lbas;
	bool write;
	bool busy;
};

/* A command in the controller. */
struct work {
	bool busy;
	struct nvme_command command;
	uint32_t done;	/* bytes sent or received */
	uint32_t asked; /* bytes requested by R2Ts */
	uint8_t bytes[BYTES_MAX];
};

struct soak {
	struct fake fake;
	struct random random;
	uint8_t volume[LBAS * LBA_BYTES]; /* the controller's data */
	uint8_t model[LBAS * LBA_BYTES];  /* the expected data */
	bool locked[LBAS];
	struct op ops[DEPTH];
	struct work works[DEPTH];
	uint32_t begun, ended;
};

static uint64_t below(struct soak *soak, uint64_t n)
{
	return random_below(&soak->random, n);
}

/* ---- The host's side ---- */

static void begin(struct soak *soak, struct op *op)
{
	uint32_t bytes, cut = 0;

	op->lbas = 1 + (uint32_t)below(soak, 1 + below(soak, 64));
	op->lba = (uint32_t)below(soak, LBAS - op->lbas);
	for (uint32_t i = 0; i < op->lbas; i++) {
		if (soak->locked[op->lba + i])
			return;
	}
	for (uint32_t i = 0; i < op->lbas; i++)
		soak->locked[op->lba + i] = true;
	bytes = op->lbas * LBA_BYTES;
	for (int i = 0; i < PIECES; i++) {
		uint32_t piece = i == PIECES - 1 ? bytes - cut : (uint32_t)below(soak, bytes - cut + 1);

		op->iov[i] = (struct iovec){ op->bytes + cut, piece };
		cut += piece;
	}
	op->end = (struct fake_end){ 0 };
	op->busy = true;
	op->write = below(soak, 2);
	soak->begun++;
	if (op->write) {
		for (uint32_t i = 0; i < bytes; i++)
			op->bytes[i] = (uint8_t)random_next(&soak->random);
		memcpy(soak->model + op->lba * LBA_BYTES, op->bytes, bytes);
		assert_int_equal(fathom_write(soak->fake.qpair, 1, op->lba, op->lbas, op->iov, PIECES, fake_ended,
					      &op->end),
				 0);
	} else {
		memcpy(op->expected, soak->model + op->lba * LBA_BYTES, bytes);
		memset(op->bytes, 0xee, bytes);
		assert_int_equal(fathom_read(soak->fake.qpair, 1, op->lba, op->lbas, op->iov, PIECES, fake_ended, &op->end),
				 0);
	}
}

static void end(struct soak *soak, struct op *op)
{
	assert_int_equal(op->end.calls, 1);
	assert_int_equal(op->end.completion.error, 0);
	assert_int_equal(op->end.completion.status, 0);
	if (!op->write)
		assert_memory_equal(op->bytes, op->expected, op->lbas * LBA_BYTES);
	for (uint32_t i = 0; i < op->lbas; i++)
		soak->locked[op->lba + i] = false;
	op->busy = false;
	soak->ended++;
}

/* ---- The controller's side ---- */

static struct work *work_of(struct soak *soak, uint16_t cid)
{
	for (int i = 0; i < DEPTH; i++) {
		if (soak->works[i].busy && soak->works[i].command.cid == cid)
			return &soak->works[i];
	}
	fail();
	return NULL;
}

static void take_command(struct soak *soak, const struct nvme_command *command, const struct fake_pdu *pdu)
{
	struct work *work = soak->works;

	while (work->busy)
		assert_true(++work < soak->works + DEPTH);
	*work = (struct work){ .busy = true, .command = *command };
	assert_int_equal(command->sgl.length, nvme_command_blocks(command) * LBA_BYTES);
	if (pdu->data_bytes > 0) {
		assert_int_equal(pdu->data_bytes, command->sgl.length);
		memcpy(work->bytes, pdu->data, pdu->data_bytes);
		work->done = work->asked = pdu->data_bytes;
	}
}

static void take(struct soak *soak, const struct fake_pdu *pdu)
{
	struct nvme_tcp_capsule_cmd capsule;
	struct nvme_tcp_data data;
	struct work *work;

	assert_true(pdu->digest_ok);
	if (pdu->type == NVME_TCP_CAPSULE_CMD) {
		memcpy(&capsule, pdu->header, sizeof(capsule));
		take_command(soak, &capsule.command, pdu);
		return;
	}
	assert_int_equal(pdu->type, NVME_TCP_H2C_DATA);
	memcpy(&data, pdu->header, sizeof(data));
	work = work_of(soak, data.cccid);
	assert_true(data.datao + data.datal <= work->asked);
	memcpy(work->bytes + data.datao, pdu->data, data.datal);
	work->done += data.datal;
}

/* Make one step of a command's answer. */
static void answer(struct soak *soak, struct work *work)
{
	uint32_t bytes = work->command.sgl.length, piece;
	uint64_t at = nvme_command_slba(&work->command) * LBA_BYTES;

	if (work->command.opc == NVME_NVM_WRITE) {
		if (work->asked < bytes && work->done == work->asked) {
			for (uint64_t r2ts = 1 + below(soak, 4); r2ts > 0 && work->asked < bytes; r2ts--) {
				piece = 1 + (uint32_t)below(soak, bytes - work->asked);
				fake_put_r2t(&soak->fake, work->command.cid, (uint16_t)below(soak, 65536), work->asked,
					     piece);
				work->asked += piece;
			}
		} else if (work->done == bytes) {
			memcpy(soak->volume + at, work->bytes, bytes);
			fake_put_response(&soak->fake, work->command.cid, 0);
			work->busy = false;
		}
		return;
	}
	if (work->done < bytes) {
		bool last, success;

		piece = below(soak, 2) ? bytes - work->done : 1 + (uint32_t)below(soak, bytes - work->done);
		last = work->done + piece == bytes;
		success = last && below(soak, 2);
		memcpy(work->bytes, soak->volume + at, bytes);
		fake_put_data(&soak->fake, work->command.cid, work->bytes, work->done, piece, last, success);
		work->done += piece;
		work->busy = !success;
		return;
	}
	fake_put_response(&soak->fake, work->command.cid, 0);
	work->busy = false;
}

static void step(struct soak *soak)
{
	struct fake_pdu pdu;
	uint64_t kind = below(soak, 8);
	struct work *work = &soak->works[below(soak, DEPTH)];
	struct op *op = &soak->ops[below(soak, DEPTH)];

	if (kind < 3) {
		if (!op->busy && soak->begun < COMMANDS)
			begin(soak, op);
	} else if (kind < 5) {
		if (fake_next(&soak->fake, &pdu))
			take(soak, &pdu);
	} else if (kind < 7) {
		if (work->busy)
			answer(soak, work);
	} else {
		assert_true(fake_send(&soak->fake, below(soak, 2) ? 1 + below(soak, 100) : SIZE_MAX) >= 0);
	}
	for (int i = 0; i < DEPTH; i++) {
		if (soak->ops[i].busy && soak->ops[i].end.calls > 0)
			end(soak, &soak->ops[i]);
	}
}

static void each_byte_arrives_in_its_place_for_any_order_and_split(void **state)
{
	struct soak *soak = malloc(sizeof(*soak));

	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct qpair_params params = {
			.depth = DEPTH,
			.in_capsule_bytes = seed % 3 ? 4096 : 0,
			.r2ts_max = 4,
			.header_digest = seed & 1,
			.data_digest = seed & 2,
			.data_align = (uint8_t)(seed % 32),
		};

		memset(soak, 0, sizeof(*soak));
		random_init(&soak->random, seed);
		fake_open(&soak->fake, &params, seed & 4 ? 4096 : 131072, (uint8_t)(31 - seed % 32));
		while (soak->ended < COMMANDS)
			step(soak);
		assert_memory_equal(soak->volume, soak->model, sizeof(soak->volume));
		assert_int_equal(fathom_qpair_in_flight(soak->fake.qpair), 0);
		fake_close(&soak->fake);
	}
	free(soak);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_byte_arrives_in_its_place_for_any_order_and_split),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
