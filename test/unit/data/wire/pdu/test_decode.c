/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams of mixed PDUs give the same steps for all cuts. Data that bypasses the window. Phases. Mutations. */
#include "stream.h"

static const struct pdu_limits limits = { .in_capsule_bytes_max = 8192, .data_bytes_max = 131072 };

/* A host's stream: reads, writes with data in the capsule, data for R2Ts, and a TermReq at the end. */
static void host_stream(struct stream *stream, const struct pdu_terms *terms)
{
	static const uint32_t lengths[] = { 0, 512, 0, 1, 61, 0, 333 };
	uint8_t to[PDU_TERM_REQ_BYTES_MAX];
	struct nvme_command command = { .opc = 2, .nsid = 1 };

	stream->bytes_count = 0;
	for (size_t i = 0; i < ARRAY_COUNT(lengths); i++) {
		command.cid = (uint16_t)i;
		stream_add(stream, to, pdu_put_capsule_cmd(terms, to, &command, lengths[i]));
		stream_add_data(stream, terms, lengths[i], (uint8_t)i);
		if (lengths[i] == 0)
			continue;
		stream_add(stream, to,
			   pdu_put_h2c_data(terms, to,
					    &(struct pdu_h2c_data){
						    .cccid = command.cid, .ttag = 1, .datal = lengths[i], .last = i % 2 }));
		stream_add_data(stream, terms, lengths[i], (uint8_t)(i + 100));
	}
	stream_add(stream, to, pdu_put_h2c_term_req(to, NVME_TCP_FES_DATA_OUT_OF_RANGE, 0, stream->bytes, 72));
}

/* A controller's stream. */
static void controller_stream(struct stream *stream, const struct pdu_terms *terms)
{
	static const uint32_t lengths[] = { 512, 4, 0, 77 };
	uint8_t to[PDU_TERM_REQ_BYTES_MAX];
	struct nvme_completion completion = { .sqhd = 1 };

	stream->bytes_count = 0;
	for (size_t i = 0; i < ARRAY_COUNT(lengths); i++) {
		completion.cid = (uint16_t)i;
		if (lengths[i] > 0) {
			stream_add(stream, to,
				   pdu_put_c2h_data(terms, to, completion.cid, 0, lengths[i],
						    NVME_TCP_FLAG_LAST | (i == 0 ? NVME_TCP_FLAG_SUCCESS : 0)));
			stream_add_data(stream, terms, lengths[i], (uint8_t)i);
		}
		stream_add(stream, to, pdu_put_r2t(terms, to, completion.cid, 4, 0, 8192));
		stream_add(stream, to, pdu_put_capsule_resp(terms, to, &completion));
	}
	stream_add(stream, to, pdu_put_c2h_term_req(to, NVME_TCP_FES_HEADER_DIGEST_ERROR, 0, stream->bytes, 24));
}

static void make_stream(struct stream *stream, enum pdu_side side, const struct pdu_terms *terms)
{
	if (side == PDU_SIDE_TARGET)
		host_stream(stream, terms);
	else
		controller_stream(stream, terms);
}

static void for_all_terms(void (*body)(enum pdu_side side, const struct pdu_terms *terms))
{
	static const uint8_t pdas[] = { 0, 7, 31 };

	for (int digests = 0; digests < 4; digests++) {
		for (size_t i = 0; i < ARRAY_COUNT(pdas); i++) {
			struct pdu_terms terms = { .header_digest = digests & 1, .data_digest = digests & 2 };

			terms.data_align = pdu_align(pdas[i]);
			body(PDU_SIDE_TARGET, &terms);
			body(PDU_SIDE_HOST, &terms);
		}
	}
}

static void read_whole(struct transcript *t, const struct stream *stream, enum pdu_side side, const struct pdu_terms *terms)
{
	struct pdu_decoder decoder;
	size_t at = 0;

	memset(t, 0, sizeof(*t));
	decoder_at(&decoder, side, terms, &limits);
	feed(&decoder, t, stream, &at, stream->bytes_count);
	assert_int_equal(at, stream->bytes_count);
	assert_int_equal(decoder.phase, PDU_PHASE_CLOSED); /* each stream ends with a TermReq */
	for (size_t i = 0; i < t->events_count; i++) {
		assert_int_not_equal(t->events[i].kind, PDU_ERROR);
		if (t->events[i].kind == PDU_END)
			assert_true(t->events[i].digest_ok);
	}
}

static void cut_once(enum pdu_side side, const struct pdu_terms *terms)
{
	static struct stream stream;
	static struct transcript whole, pieces;

	make_stream(&stream, side, terms);
	read_whole(&whole, &stream, side, terms);
	for (size_t cut = 0; cut <= stream.bytes_count; cut++) {
		struct pdu_decoder decoder;
		size_t at = 0;

		memset(&pieces, 0, sizeof(pieces));
		decoder_at(&decoder, side, terms, &limits);
		feed(&decoder, &pieces, &stream, &at, cut);
		feed(&decoder, &pieces, &stream, &at, stream.bytes_count);
		assert_same_transcripts(&whole, &pieces);
	}
}

static void a_cut_at_any_byte_gives_the_same_steps(void **state)
{
	for_all_terms(cut_once);
}

static void byte_by_byte(enum pdu_side side, const struct pdu_terms *terms)
{
	static struct stream stream;
	static struct transcript whole, pieces;
	struct pdu_decoder decoder;
	size_t at = 0;

	make_stream(&stream, side, terms);
	read_whole(&whole, &stream, side, terms);
	memset(&pieces, 0, sizeof(pieces));
	decoder_at(&decoder, side, terms, &limits);
	for (size_t end = 0; end <= stream.bytes_count; end++)
		feed(&decoder, &pieces, &stream, &at, end);
	assert_same_transcripts(&whole, &pieces);
}

static void one_byte_at_a_time_gives_the_same_steps(void **state)
{
	for_all_terms(byte_by_byte);
}

/* need_bytes is a promise: with exactly that many there is progress, or a larger need. */
static void by_need(enum pdu_side side, const struct pdu_terms *terms)
{
	static struct stream stream;
	static struct transcript whole, pieces;
	struct pdu_decoder decoder;
	size_t at = 0;
	size_t window = 0;

	make_stream(&stream, side, terms);
	read_whole(&whole, &stream, side, terms);
	memset(&pieces, 0, sizeof(pieces));
	decoder_at(&decoder, side, terms, &limits);
	while (decoder.phase != PDU_PHASE_CLOSED) {
		struct pdu_step step;

		assert_true(at + window <= stream.bytes_count);
		if (pdu_step(&decoder, stream.bytes + at, window, &step) == PDU_NEED_MORE) {
			assert_true(step.need_bytes > window);
			assert_true(step.need_bytes <= PDU_WINDOW_BYTES_MIN);
			window = step.need_bytes;
			continue;
		}
		at += transcribe(&pieces, &decoder, stream.bytes + at, window, &step, at);
		window -= step.consumed;
	}
	assert_same_transcripts(&whole, &pieces);
}

static void need_bytes_is_always_sufficient(void **state)
{
	for_all_terms(by_need);
}

static void random_cuts(enum pdu_side side, const struct pdu_terms *terms)
{
	static struct stream stream;
	static struct transcript whole, pieces;
	struct random random;

	make_stream(&stream, side, terms);
	read_whole(&whole, &stream, side, terms);
	for (uint64_t seed = 0; seed < 200; seed++) {
		struct pdu_decoder decoder;
		size_t at = 0;
		size_t end = 0;

		random_init(&random, seed);
		memset(&pieces, 0, sizeof(pieces));
		decoder_at(&decoder, side, terms, &limits);
		while (end < stream.bytes_count) {
			end += random_below(&random, 300);
			end = min_u64(end, stream.bytes_count);
			feed(&decoder, &pieces, &stream, &at, end);
		}
		assert_same_transcripts(&whole, &pieces);
	}
}

static void random_cuts_give_the_same_steps(void **state)
{
	for_all_terms(random_cuts);
}

/* Data received outside of the window, in pieces, after the first `inside` bytes came through it. */
static void take_data(const struct pdu_terms *terms, uint32_t inside, uint32_t piece, bool spoil)
{
	static struct stream stream;
	struct pdu_decoder decoder;
	struct pdu_step step;
	struct nvme_command command = { .opc = 1 };
	uint8_t to[PDU_PUT_BYTES_MAX];
	uint32_t data_bytes = 1000;
	size_t header_bytes, at;

	stream.bytes_count = 0;
	header_bytes = pdu_put_h2c_data(terms, to,
					&(struct pdu_h2c_data){ .cccid = 1, .ttag = 2, .datal = data_bytes, .last = true });
	stream_add(&stream, to, header_bytes);
	stream_add_data(&stream, terms, data_bytes, 3);
	stream_add(&stream, to, pdu_put_capsule_cmd(terms, to, &command, 0));
	if (spoil)
		stream.bytes[header_bytes + data_bytes - 1] ^= 1;
	decoder_at(&decoder, PDU_SIDE_TARGET, terms, &limits);
	assert_int_equal(pdu_data_left(&decoder), 0);
	assert_int_equal(pdu_step(&decoder, stream.bytes, header_bytes + inside, &step), PDU_HEADER);
	at = step.consumed;
	assert_int_equal(pdu_data_left(&decoder), data_bytes);
	if (inside > 0) {
		assert_int_equal(pdu_step(&decoder, stream.bytes + at, inside, &step), PDU_DATA);
		assert_int_equal(step.bytes_count, inside);
		at += step.consumed;
	}
	while (pdu_data_left(&decoder) > 0) {
		uint32_t n = (uint32_t)min_u64(piece, pdu_data_left(&decoder));

		pdu_data_taken(&decoder, stream.bytes + at, n);
		at += n;
	}
	assert_int_equal(at, header_bytes + data_bytes);
	assert_int_equal(pdu_step(&decoder, stream.bytes + at, stream.bytes_count - at, &step), PDU_END);
	assert_int_equal(step.digest_ok, !(spoil && terms->data_digest));
	at += step.consumed;
	assert_int_equal(pdu_step(&decoder, stream.bytes + at, stream.bytes_count - at, &step), PDU_HEADER);
	assert_int_equal(step.type, NVME_TCP_CAPSULE_CMD);
}

static void data_may_bypass_the_window(void **state)
{
	static const uint32_t insides[] = { 0, 1, 500, 999, 1000 };
	static const uint32_t pieces[] = { 1, 7, 64, 1000 };

	for (int digests = 0; digests < 4; digests++) {
		struct pdu_terms terms = { .header_digest = digests & 1, .data_digest = digests & 2, .data_align = 4 };

		for (size_t i = 0; i < ARRAY_COUNT(insides); i++) {
			for (size_t p = 0; p < ARRAY_COUNT(pieces); p++) {
				take_data(&terms, insides[i], pieces[p], false);
				take_data(&terms, insides[i], pieces[p], true);
			}
		}
	}
}

static void a_wrong_data_digest_is_reported_and_decoding_continues(void **state)
{
	static const struct pdu_terms terms = { .data_digest = true, .data_align = 4 };
	static struct stream stream;
	static struct transcript t;
	struct pdu_decoder decoder;
	struct nvme_command command = { .opc = 1 };
	uint8_t to[PDU_PUT_BYTES_MAX];
	size_t at = 0;

	memset(&t, 0, sizeof(t));
	stream.bytes_count = 0;
	stream_add(&stream, to, pdu_put_capsule_cmd(&terms, to, &command, 512));
	stream_add_data(&stream, &terms, 512, 1);
	stream.bytes[stream.bytes_count - 1] ^= 0x80;
	stream_add(&stream, to, pdu_put_capsule_cmd(&terms, to, &command, 0));
	decoder_at(&decoder, PDU_SIDE_TARGET, &terms, &limits);
	feed(&decoder, &t, &stream, &at, stream.bytes_count);
	assert_int_equal(t.events_count, 3);
	assert_int_equal(t.events[1].kind, PDU_END);
	assert_false(t.events[1].digest_ok);
	assert_int_equal(t.events[2].kind, PDU_HEADER);
	assert_int_equal(decoder.phase, PDU_PHASE_RUNNING);
}

static void a_term_req_is_legal_before_the_ic_exchange_ends(void **state)
{
	uint8_t to[PDU_TERM_REQ_BYTES_MAX];
	uint8_t header[128] = { 0 };
	struct pdu_decoder decoder;
	struct pdu_step step;
	size_t bytes = pdu_put_c2h_term_req(to, NVME_TCP_FES_UNSUPPORTED_PARAMETER, 8, header, sizeof(header));

	pdu_decoder_init(&decoder, PDU_SIDE_HOST); /* as the answer to an invalid ICReq */
	assert_int_equal(pdu_step(&decoder, to, bytes, &step), PDU_HEADER);
	assert_int_equal(step.data_bytes, 128);
	assert_int_equal(pdu_step(&decoder, to + 24, bytes - 24, &step), PDU_DATA);
	assert_int_equal(pdu_step(&decoder, NULL, 0, &step), PDU_END);
	assert_int_equal(decoder.phase, PDU_PHASE_CLOSED);

	pdu_decoder_init(&decoder, PDU_SIDE_TARGET); /* as the answer to an invalid ICResp */
	bytes = pdu_put_icreq(to, 0, false, false, 0);
	assert_int_equal(pdu_step(&decoder, to, bytes, &step), PDU_HEADER);
	assert_int_equal(decoder.phase, PDU_PHASE_NEGOTIATED);
	bytes = pdu_put_h2c_term_req(to, NVME_TCP_FES_UNSUPPORTED_PARAMETER, 8, NULL, 0);
	assert_int_equal(pdu_step(&decoder, to, bytes, &step), PDU_HEADER);
	assert_int_equal(step.consumed, bytes);
	assert_int_equal(decoder.phase, PDU_PHASE_CLOSED);
}

static void a_closed_decoder_ignores_further_bytes(void **state)
{
	uint8_t bytes[100] = { 4 };
	struct pdu_decoder decoder;
	struct pdu_step step;

	pdu_decoder_init(&decoder, PDU_SIDE_TARGET);
	assert_int_equal(pdu_step(&decoder, bytes, sizeof(bytes), &step), PDU_ERROR);
	assert_int_equal(step.consumed, 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(pdu_step(&decoder, bytes, sizeof(bytes), &step), PDU_NEED_MORE);
		assert_int_equal(step.consumed, sizeof(bytes));
	}
	assert_int_equal(pdu_step(&decoder, NULL, 0, &step), PDU_NEED_MORE);
	assert_int_equal(step.consumed, 0);
}

static void the_fast_path_and_the_general_path_agree(void **state)
{
	static const struct pdu_terms terms = { .data_align = 4 };
	struct nvme_command command = { .opc = 2, .cid = 77 };
	uint8_t to[PDU_PUT_BYTES_MAX];
	struct pdu_decoder decoder;
	struct pdu_step fast, slow;

	assert_int_equal(pdu_put_capsule_cmd(&terms, to, &command, 0), 72);
	for (int pdo = 0; pdo < 256; pdo++) {
		to[3] = (uint8_t)pdo; /* reserved without data */
		decoder_at(&decoder, PDU_SIDE_TARGET, &terms, &limits);
		assert_int_not_equal(decoder.plain_word, PDU_PLAIN_NONE);
		assert_int_equal(pdu_step(&decoder, to, 72, &fast), PDU_HEADER);
		assert_int_equal(pdu_step_general(&decoder, to, 72, &slow), PDU_HEADER);
		assert_int_equal(fast.consumed, slow.consumed);
		assert_int_equal(fast.bytes_count, slow.bytes_count);
		assert_int_equal(fast.type, slow.type);
		assert_int_equal(fast.data_bytes, slow.data_bytes);
		assert_ptr_equal(fast.bytes, slow.bytes);
	}
}

static void limits_can_change_between_pdus(void **state)
{
	static const struct pdu_terms terms = { .data_align = 4 };
	static const struct pdu_limits small = { .in_capsule_bytes_max = 4096, .data_bytes_max = 131072 };
	struct nvme_command command = { .opc = 1 };
	uint8_t to[PDU_PUT_BYTES_MAX];
	struct pdu_decoder decoder;
	struct pdu_step step;
	size_t bytes = pdu_put_capsule_cmd(&terms, to, &command, 8192);

	decoder_at(&decoder, PDU_SIDE_TARGET, &terms, &limits);
	assert_int_equal(pdu_step(&decoder, to, bytes, &step), PDU_HEADER);
	decoder_at(&decoder, PDU_SIDE_TARGET, &terms, &limits);
	pdu_decoder_set_limits(&decoder, &small);
	assert_int_equal(pdu_step(&decoder, to, bytes, &step), PDU_ERROR);
	assert_int_equal(step.fes, NVME_TCP_FES_LIMIT_EXCEEDED);
}

/* Random bytes: the decoder must keep its contract (transcribe() asserts it), and cuts must not matter. */
static void mutate(enum pdu_side side, const struct pdu_terms *terms)
{
	static struct stream stream, mutant;
	static struct transcript whole, pieces;
	struct random random;

	make_stream(&stream, side, terms);
	for (uint64_t seed = 0; seed < 2000; seed++) {
		struct pdu_decoder decoder;
		uint64_t flips;
		size_t at = 0;

		random_init(&random, seed * 2 + side);
		mutant = stream;
		flips = 1 + random_below(&random, 4);
		for (uint64_t i = 0; i < flips; i++) {
			size_t where = random_below(&random, mutant.bytes_count);

			if (random_below(&random, 2))
				mutant.bytes[where] = (uint8_t)random_next(&random);
			else
				mutant.bytes[where] ^= (uint8_t)BIT(random_below(&random, 8));
		}
		memset(&whole, 0, sizeof(whole));
		decoder_at(&decoder, side, terms, &limits);
		feed(&decoder, &whole, &mutant, &at, mutant.bytes_count);

		memset(&pieces, 0, sizeof(pieces));
		decoder_at(&decoder, side, terms, &limits);
		at = 0;
		for (size_t end = random_below(&random, 40); end < mutant.bytes_count;
		     end += 1 + random_below(&random, 200))
			feed(&decoder, &pieces, &mutant, &at, end);
		feed(&decoder, &pieces, &mutant, &at, mutant.bytes_count);
		assert_same_transcripts(&whole, &pieces);
	}
}

static void mutated_streams_give_the_same_steps_for_all_cuts(void **state)
{
	for_all_terms(mutate);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cut_at_any_byte_gives_the_same_steps),
		cmocka_unit_test(one_byte_at_a_time_gives_the_same_steps),
		cmocka_unit_test(need_bytes_is_always_sufficient),
		cmocka_unit_test(random_cuts_give_the_same_steps),
		cmocka_unit_test(data_may_bypass_the_window),
		cmocka_unit_test(a_wrong_data_digest_is_reported_and_decoding_continues),
		cmocka_unit_test(a_term_req_is_legal_before_the_ic_exchange_ends),
		cmocka_unit_test(a_closed_decoder_ignores_further_bytes),
		cmocka_unit_test(the_fast_path_and_the_general_path_agree),
		cmocka_unit_test(limits_can_change_between_pdus),
		cmocka_unit_test(mutated_streams_give_the_same_steps_for_all_cuts),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("pdu decode", tests, NULL, NULL);
}
