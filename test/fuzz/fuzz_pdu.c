/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_pdu - any bytes, cut anywhere, at either side.
 *
 *      byte 0        bit 0: side, bit 1: header digest, bit 2: data digest, bit 3: after the IC exchange,
 *                    bit 4: correct the header digests before decoding (otherwise almost all PDUs are refused)
 *      byte 1        low 5 bits: PDA, bits 7:5: limits
 *      byte 2        seed of the cuts
 *      the rest      the stream
 *
 * Invariants: consumed <= given; progress, or NEED_MORE with a larger need; pointers inside the window; data offsets in
 * order; an error makes a TermReq; and the stream cut into pieces, with some data received outside of the window, gives the
 * same steps as the whole. Built by clang -fsanitize=fuzzer it fuzzes. Built by gcc, or with -DFUZZ_REPLAY, it runs the
 * given files, and with `--seeds DIR` it writes the seed corpus.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/random.h"
#include "data/wire/pdu/pdu.h"

enum { STREAM_BYTES_MAX = 1 << 16, EVENTS_MAX = 1 << 14, SETUP_BYTES = 3 };
enum { OPT_HOST = 1, OPT_HDGST = 2, OPT_DDGST = 4, OPT_RUNNING = 8, OPT_MEND = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The steps of one pass over the stream; DATA is combined in `data_crc`. */
struct reading {
	size_t count;
	struct said {
		uint8_t kind;
		uint8_t type;
		bool digest_ok;
		uint16_t fes;
		uint32_t fei;
		uint32_t bytes_count;
		uint32_t data_bytes;
		uint32_t data_crc;
		size_t at;
	} said[EVENTS_MAX];
	uint32_t data_crc;
	uint32_t data_next;
};

struct setup {
	enum pdu_side side;
	bool running;
	struct pdu_terms terms;
	struct pdu_limits limits;
};

static struct reading whole, pieces;

static void start(struct pdu_decoder *decoder, const struct setup *setup)
{
	uint8_t ic[PDU_PUT_BYTES_MAX];
	struct pdu_step step;
	size_t bytes;

	pdu_decoder_init(decoder, setup->side);
	if (!setup->running)
		return;
	if (setup->side == PDU_SIDE_TARGET)
		bytes = pdu_put_icreq(ic, 0, setup->terms.header_digest, setup->terms.data_digest, 0);
	else
		bytes = pdu_put_icresp(ic, 0, setup->terms.header_digest, setup->terms.data_digest, 131072);
	must(pdu_step(decoder, ic, bytes, &step) == PDU_HEADER);
	must(step.consumed == bytes);
	pdu_decoder_start(decoder, &setup->terms, &setup->limits);
}

static void check_refusal(const struct setup *setup, const struct pdu_step *step)
{
	uint8_t to[PDU_PUT_BYTES_MAX];
	size_t bytes;

	must(step->consumed == 0);
	must(step->bytes_count >= sizeof(struct nvme_tcp_common));
	must(step->fei == 0 || step->fei < step->bytes_count);
	if (setup->side == PDU_SIDE_TARGET)
		bytes = pdu_put_c2h_term_req(to, (enum nvme_tcp_fes)step->fes, step->fei, step->bytes, step->bytes_count);
	else
		bytes = pdu_put_h2c_term_req(to, (enum nvme_tcp_fes)step->fes, step->fei, step->bytes, step->bytes_count);
	must(bytes == sizeof(struct nvme_tcp_term_req) + step->bytes_count);
}

static void note(struct reading *reading, const struct pdu_step *step, size_t at)
{
	struct said *said = &reading->said[reading->count++];

	must(reading->count < EVENTS_MAX);
	memset(said, 0, sizeof(*said));
	said->kind = (uint8_t)step->kind;
	said->type = step->type;
	said->at = at;
	if (step->kind == PDU_END) {
		said->digest_ok = step->digest_ok;
		said->data_crc = reading->data_crc;
	} else {
		said->bytes_count = step->bytes_count;
	}
	if (step->kind == PDU_ERROR) {
		said->fes = step->fes;
		said->fei = step->fei;
	} else {
		said->data_bytes = step->data_bytes;
	}
}

static void note_data(struct reading *reading, const uint8_t *bytes, uint32_t bytes_count)
{
	reading->data_crc = pdu_crc_update(reading->data_crc, bytes, bytes_count);
	reading->data_next += bytes_count;
}

/* Do a step with a window of `in_bytes`. Return its kind; `*at` advances. */
static enum pdu_step_kind take_step(struct pdu_decoder *decoder, const struct setup *setup, struct reading *reading,
				    const uint8_t *in, size_t in_bytes, size_t *at)
{
	struct pdu_step step;
	enum pdu_step_kind kind;
	uint8_t *copy = in_bytes ? malloc(in_bytes) : NULL; /* so that a sanitizer detects a read past the window */

	must(copy || in_bytes == 0);
	if (in_bytes)
		memcpy(copy, in, in_bytes);
	kind = pdu_step(decoder, copy, in_bytes, &step);
	must(kind == step.kind);
	must(step.consumed <= in_bytes);
	*at += step.consumed;
	switch (kind) {
	case PDU_NEED_MORE:
		must(step.consumed == in_bytes || (step.consumed == 0 && step.need_bytes > in_bytes));
		must(step.need_bytes <= PDU_WINDOW_BYTES_MIN);
		break;
	case PDU_HEADER:
		must(step.bytes == copy);
		must(step.bytes_count <= step.consumed);
		must(step.data_bytes == pdu_data_left(decoder));
		reading->data_crc = PDU_CRC_INIT;
		reading->data_next = 0;
		note(reading, &step, *at);
		if (decoder->phase == PDU_PHASE_NEGOTIATED)
			pdu_decoder_start(decoder, &setup->terms, &setup->limits);
		break;
	case PDU_DATA:
		must(step.bytes == copy);
		must(step.bytes_count > 0);
		must(step.bytes_count == step.consumed);
		must(step.data_offset == reading->data_next);
		note_data(reading, copy, step.bytes_count);
		must(step.last == (reading->data_next == step.data_bytes));
		break;
	case PDU_END:
		must(reading->data_next == step.data_bytes);
		note(reading, &step, *at);
		break;
	case PDU_ERROR:
		must(step.bytes == copy);
		must(step.bytes_count <= in_bytes);
		check_refusal(setup, &step);
		note(reading, &step, *at);
		break;
	}
	free(copy);
	return kind;
}

static void read_whole(const struct setup *setup, const uint8_t *stream, size_t bytes)
{
	struct pdu_decoder decoder;
	size_t at = 0;

	whole.count = 0;
	start(&decoder, setup);
	while (take_step(&decoder, setup, &whole, stream + at, bytes - at, &at) != PDU_NEED_MORE)
		;
}

static void read_pieces(const struct setup *setup, const uint8_t *stream, size_t bytes, uint8_t seed)
{
	struct pdu_decoder decoder;
	struct random random;
	size_t at = 0;
	size_t end = 0;

	random_init(&random, seed);
	pieces.count = 0;
	start(&decoder, setup);
	while (end < bytes) {
		uint32_t left = pdu_data_left(&decoder);

		if (left > 0 && at == end && random_next(&random) & 1) {
			/* these bytes arrive in the caller's buffer */
			uint32_t taken = (uint32_t)min_u64(1 + random_below(&random, left), bytes - at);

			pdu_data_taken(&decoder, stream + at, taken);
			note_data(&pieces, stream + at, taken);
			at += taken;
			end = at;
		}
		end = min_u64(bytes, end + 1 + random_below(&random, seed & 1 ? 8 : 512));
		while (take_step(&decoder, setup, &pieces, stream + at, end - at, &at) != PDU_NEED_MORE)
			;
	}
	while (take_step(&decoder, setup, &pieces, stream + at, bytes - at, &at) != PDU_NEED_MORE)
		;
}

/* Correct each header digest, advancing by PLEN, so that the fuzzer reaches the checks after it. */
static void correct_digests(const struct setup *setup, uint8_t *stream, size_t bytes)
{
	size_t at = 0;

	while (bytes - at >= sizeof(struct nvme_tcp_common)) {
		struct nvme_tcp_common common;
		uint32_t digest;

		memcpy(&common, stream + at, sizeof(common));
		if (common.flags & NVME_TCP_FLAG_HDGST && bytes - at >= common.hlen + sizeof(digest) &&
		    setup->terms.header_digest) {
			digest = pdu_crc_final(pdu_crc_update(PDU_CRC_INIT, stream + at, common.hlen));
			memcpy(stream + at + common.hlen, &digest, sizeof(digest));
			/* HLEN may be so small that the digest has overwritten it */
			memcpy(&common, stream + at, sizeof(common));
		}
		if (common.plen < sizeof(common) || common.plen > bytes - at)
			return;
		at += common.plen;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t limits[8] = { 0, 1, 512, 4096, 8192, 65536, 131072, UINT32_MAX };
	static uint8_t stream[STREAM_BYTES_MAX];
	struct setup setup = { 0 };
	size_t bytes;

	if (size < SETUP_BYTES || size - SETUP_BYTES > sizeof(stream))
		return 0;
	setup.side = data[0] & OPT_HOST ? PDU_SIDE_HOST : PDU_SIDE_TARGET;
	setup.running = data[0] & OPT_RUNNING;
	setup.terms.header_digest = data[0] & OPT_HDGST;
	setup.terms.data_digest = data[0] & OPT_DDGST;
	setup.terms.data_align = pdu_align(data[1] & 31);
	setup.limits.in_capsule_bytes_max = limits[data[1] >> 5];
	setup.limits.data_bytes_max = limits[data[1] >> 5];
	bytes = size - SETUP_BYTES;
	memcpy(stream, data + SETUP_BYTES, bytes);
	if (data[0] & OPT_MEND)
		correct_digests(&setup, stream, bytes);
	read_whole(&setup, stream, bytes);
	read_pieces(&setup, stream, bytes, data[2]);
	must(whole.count == pieces.count);
	must(memcmp(whole.said, pieces.said, whole.count * sizeof(whole.said[0])) == 0);
	return 0;
}

#if !defined(__clang__) || defined(FUZZ_REPLAY)

#include "replay.h"

#include <stdio.h>

/* A stream of each PDU that `side` receives, with the terms of `options`. */
static size_t make_seed(uint8_t options, uint8_t pda, uint8_t *to)
{
	struct pdu_terms terms = { .header_digest = options & OPT_HDGST, .data_digest = options & OPT_DDGST };
	static const struct nvme_command command = { .opc = 1, .cid = 1 };
	static const struct nvme_completion completion = { .cid = 1 };
	static uint8_t payload[512];
	struct iovec iov = { .iov_base = payload, .iov_len = sizeof(payload) };
	uint32_t digest = pdu_data_digest(&iov, 1);
	size_t at = SETUP_BYTES;

	terms.data_align = pdu_align(pda);
	to[0] = options;
	to[1] = (uint8_t)(pda | 4 << 5);
	to[2] = 1;
	for (int data = 0; data < 2; data++) {
		if (options & OPT_HOST) {
			if (data == 0 && !(options & OPT_RUNNING))
				at += pdu_put_icresp(to + at, 0, false, false, 8192);
			at += pdu_put_r2t(&terms, to + at, 1, 2, 0, 512);
			at += pdu_put_capsule_resp(&terms, to + at, &completion);
			at += pdu_put_c2h_data(&terms, to + at, 1, 0, sizeof(payload),
					       NVME_TCP_FLAG_LAST | (data ? NVME_TCP_FLAG_SUCCESS : 0));
		} else {
			if (data == 0 && !(options & OPT_RUNNING))
				at += pdu_put_icreq(to + at, pda, false, false, 0);
			at += pdu_put_capsule_cmd(&terms, to + at, &command, 0);
			at += data ? pdu_put_capsule_cmd(&terms, to + at, &command, sizeof(payload))
				   : pdu_put_h2c_data(&terms, to + at,
						      &(struct pdu_h2c_data){ .cccid = 1,
									      .ttag = 2,
									      .datal = sizeof(payload),
									      .last = true });
		}
		memcpy(to + at, payload, sizeof(payload));
		at += sizeof(payload);
		if (terms.data_digest) {
			memcpy(to + at, &digest, sizeof(digest));
			at += sizeof(digest);
		}
	}
	if (options & OPT_HOST)
		at += pdu_put_c2h_term_req(to + at, NVME_TCP_FES_DATA_OUT_OF_RANGE, 0, to + SETUP_BYTES, 24);
	else
		at += pdu_put_h2c_term_req(to + at, NVME_TCP_FES_DATA_OUT_OF_RANGE, 0, to + SETUP_BYTES, 24);
	return at;
}

static int write_seeds(const char *directory)
{
	static uint8_t seed[4096];
	char path[4096];

	for (unsigned int options = 0; options < 32; options++) {
		for (uint8_t pda = 0; pda < 32; pda += 31) {
			size_t bytes = make_seed((uint8_t)options, pda, seed);
			FILE *file;

			snprintf(path, sizeof(path), "%s/seed-%02x-%02x", directory, options, pda);
			file = fopen(path, "wb");
			if (!file || fwrite(seed, 1, bytes, file) != bytes || fclose(file) != 0) {
				perror(path);
				return 1;
			}
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	static uint8_t data[STREAM_BYTES_MAX + SETUP_BYTES];

	return replay(argc, argv, write_seeds, data, sizeof(data));
}

#endif
