/* SPDX-License-Identifier: BSD-2-Clause */
/* What a PDU costs, with the floor in the same run: walking the same bytes by PLEN, checking nothing. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/clock.h"
#include "data/wire/pdu/pdu.h"

enum { WINDOW_BYTES = 262144, ROUNDS = 400 };

static uint8_t window[WINDOW_BYTES];

static size_t fill(const struct pdu_terms *terms, uint32_t data_bytes, unsigned int *pdus_ret)
{
	struct nvme_command command = { .opc = data_bytes ? 1 : 2 };
	uint8_t header[PDU_PUT_BYTES_MAX];
	size_t at = 0;

	*pdus_ret = 0;
	for (;;) {
		size_t bytes = pdu_put_capsule_cmd(terms, header, &command, data_bytes);
		struct nvme_tcp_common common;

		memcpy(&common, header, sizeof(common));
		if (at + common.plen > sizeof(window))
			return at;
		memcpy(window + at, header, bytes);
		if (terms->data_digest && data_bytes) {
			struct iovec iov = { .iov_base = window + at + bytes, .iov_len = data_bytes };
			uint32_t digest = pdu_data_digest(&iov, 1);

			memcpy(window + at + bytes + data_bytes, &digest, sizeof(digest));
		}
		at += common.plen;
		++*pdus_ret;
	}
}

static double floor_ns(size_t bytes, unsigned int pdus)
{
	uint64_t start = clock_monotonic_ns();
	uint64_t sum = 0;

	for (int round = 0; round < ROUNDS; round++) {
		for (size_t at = 0; at < bytes;) {
			struct nvme_tcp_common common;

			memcpy(&common, window + at, sizeof(common));
			sum += common.type;
			at += common.plen;
		}
		__asm__ volatile("" : : "r"(sum) : "memory");
	}
	return (double)(clock_monotonic_ns() - start) / ROUNDS / pdus;
}

static double step_ns(const struct pdu_terms *terms, size_t bytes, unsigned int pdus)
{
	static const struct pdu_limits limits = { .in_capsule_bytes_max = 8192, .data_bytes_max = 131072 };
	struct pdu_decoder decoder;
	struct pdu_step step;
	uint8_t icreq[PDU_PUT_BYTES_MAX];
	uint64_t start, sum = 0;

	pdu_decoder_init(&decoder, PDU_SIDE_TARGET);
	if (pdu_step(&decoder, icreq, pdu_put_icreq(icreq, 0, false, false, 0), &step) != PDU_HEADER)
		abort();
	pdu_decoder_start(&decoder, terms, &limits);
	start = clock_monotonic_ns();
	for (int round = 0; round < ROUNDS; round++) {
		size_t at = 0;
		enum pdu_step_kind kind;

		while ((kind = pdu_step(&decoder, window + at, bytes - at, &step)) != PDU_NEED_MORE) {
			if (kind == PDU_ERROR)
				abort();
			at += step.consumed;
			sum += step.bytes_count;
		}
		if (at != bytes)
			abort();
		__asm__ volatile("" : : "r"(sum) : "memory");
	}
	return (double)(clock_monotonic_ns() - start) / ROUNDS / pdus;
}

int main(void)
{
	static const struct {
		const char *name;
		struct pdu_terms terms;
		uint32_t data_bytes;
	} cases[] = {
		{ "read, plain", { .data_align = 4 }, 0 },
		{ "read, header digest", { .header_digest = true, .data_align = 4 }, 0 },
		{ "write 4 KiB, plain", { .data_align = 4 }, 4096 },
		{ "write 4 KiB, both digests", { .header_digest = true, .data_digest = true, .data_align = 4 }, 4096 },
	};

	for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
		unsigned int pdus;
		size_t bytes = fill(&cases[i].terms, cases[i].data_bytes, &pdus);
		double floor, step;

		step_ns(&cases[i].terms, bytes, pdus); /* warm */
		floor = floor_ns(bytes, pdus);
		step = step_ns(&cases[i].terms, bytes, pdus);
		printf("%-28s %8.1f ns a PDU   floor %5.1f ns   ratio %.1f\n", cases[i].name, step, floor, step / floor);
	}
	return 0;
}
