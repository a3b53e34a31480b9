/* SPDX-License-Identifier: BSD-2-Clause */
/* Each malformed PDU has its FES and FEI; unusual but valid PDUs are accepted. */
#include "stream.h"

static const struct pdu_limits limits = { .in_capsule_bytes_max = 4096, .data_bytes_max = 65536 };

enum terms_index { PLAIN, HDGST, DDGST, BOTH, ALIGNED, TERMS_COUNT };
static const struct pdu_terms all_terms[TERMS_COUNT] = {
	[PLAIN] = { .data_align = 4 },
	[HDGST] = { .header_digest = true, .data_align = 4 },
	[DDGST] = { .data_digest = true, .data_align = 4 },
	[BOTH] = { .header_digest = true, .data_digest = true, .data_align = 4 },
	[ALIGNED] = { .data_align = 64 },
};

/* Valid PDUs, of which a field is then changed. */
enum base { ICREQ, ICRESP, CMD, CMD_DATA, RESP, H2C, C2H, R2T, H2C_TERM, C2H_TERM };

static size_t make_base(enum base base, const struct pdu_terms *terms, uint8_t *to)
{
	static const struct nvme_command command = { .opc = 2, .cid = 3 };
	static const struct nvme_completion completion = { .cid = 3 };
	static const uint8_t refused[72] = { 4 };

	switch (base) {
	case ICREQ:
		return pdu_put_icreq(to, 0, true, true, 0);
	case ICRESP:
		return pdu_put_icresp(to, 0, true, true, 8192);
	case CMD:
		return pdu_put_capsule_cmd(terms, to, &command, 0);
	case CMD_DATA:
		return pdu_put_capsule_cmd(terms, to, &command, 4096);
	case RESP:
		return pdu_put_capsule_resp(terms, to, &completion);
	case H2C:
		return pdu_put_h2c_data(terms, to,
					&(struct pdu_h2c_data){ .cccid = 3, .ttag = 4, .datal = 65536, .last = true });
	case C2H:
		return pdu_put_c2h_data(terms, to, 3, 0, 65536, NVME_TCP_FLAG_LAST | NVME_TCP_FLAG_SUCCESS);
	case R2T:
		return pdu_put_r2t(terms, to, 3, 4, 0, 65536);
	case H2C_TERM:
		return pdu_put_h2c_term_req(to, NVME_TCP_FES_LIMIT_EXCEEDED, 0, refused, sizeof(refused));
	case C2H_TERM:
		return pdu_put_c2h_term_req(to, NVME_TCP_FES_LIMIT_EXCEEDED, 0, refused, sizeof(refused));
	}
	return 0;
}

static bool is_ic(enum base base)
{
	return base == ICREQ || base == ICRESP;
}

static enum pdu_side side_of(enum base base)
{
	switch (base) {
	case ICREQ:
	case CMD:
	case CMD_DATA:
	case H2C:
	case H2C_TERM:
		return PDU_SIDE_TARGET;
	default:
		return PDU_SIDE_HOST;
	}
}

/* Write `width` bytes of `value` at `offset` of a header, and update its header digest if it has one. */
static void change_field(uint8_t *to, const struct pdu_terms *terms, enum base base, size_t offset, size_t width,
			 uint32_t value)
{
	static const uint8_t hlens[] = { 128, 128, 72, 72, 24, 24, 24, 24, 24, 24 };
	uint32_t digest;

	memcpy(to + offset, &value, width);
	if (terms->header_digest && !is_ic(base) && base != H2C_TERM && base != C2H_TERM) {
		digest = pdu_crc_final(pdu_crc_update(PDU_CRC_INIT, to, hlens[base]));
		memcpy(to + hlens[base], &digest, sizeof(digest));
	}
}

static void ready(struct pdu_decoder *decoder, enum base base, const struct pdu_terms *terms)
{
	if (is_ic(base))
		pdu_decoder_init(decoder, side_of(base));
	else
		decoder_at(decoder, side_of(base), terms, &limits);
}

enum { BAD = NVME_TCP_FES_INVALID_HEADER_FIELD, LIMIT = NVME_TCP_FES_LIMIT_EXCEEDED };
enum { RANGE = NVME_TCP_FES_DATA_OUT_OF_RANGE, UNSUPPORTED = NVME_TCP_FES_UNSUPPORTED_PARAMETER, FINE = 0 };
enum { SEQUENCE = NVME_TCP_FES_PDU_SEQUENCE_ERROR, DIGEST = NVME_TCP_FES_HEADER_DIGEST_ERROR };

struct row {
	enum base base;
	enum terms_index terms;
	size_t offset;
	size_t width;
	uint32_t value;
	unsigned int fes;
	uint32_t fei;
};

static const struct row rows[] = {
	/* HLEN: exact for each type */
	{ ICREQ, PLAIN, 2, 1, 127, BAD, 2 },
	{ ICREQ, PLAIN, 2, 1, 129, BAD, 2 },
	{ ICRESP, PLAIN, 2, 1, 0, BAD, 2 },
	{ CMD, PLAIN, 2, 1, 71, BAD, 2 },
	{ CMD, HDGST, 2, 1, 76, BAD, 2 },
	{ RESP, PLAIN, 2, 1, 72, BAD, 2 },
	{ H2C, PLAIN, 2, 1, 25, BAD, 2 },
	{ C2H, PLAIN, 2, 1, 20, BAD, 2 },
	{ R2T, PLAIN, 2, 1, 255, BAD, 2 },
	{ H2C_TERM, PLAIN, 2, 1, 8, BAD, 2 },
	{ C2H_TERM, PLAIN, 2, 1, 28, BAD, 2 },
	/* digest flags: as agreed */
	{ CMD, PLAIN, 1, 1, 1, BAD, 1 },
	{ CMD, PLAIN, 1, 1, 2, BAD, 1 },
	{ CMD, HDGST, 1, 1, 0, BAD, 1 },
	{ CMD, HDGST, 1, 1, 3, BAD, 1 },
	{ CMD, DDGST, 1, 1, 2, FINE, 0 }, /* without data the flag has no meaning */
	{ CMD_DATA, DDGST, 1, 1, 0, BAD, 1 },
	{ CMD_DATA, PLAIN, 1, 1, 2, BAD, 1 },
	{ CMD_DATA, BOTH, 1, 1, 1, BAD, 1 },
	{ CMD_DATA, BOTH, 1, 1, 2, BAD, 1 },
	{ RESP, HDGST, 1, 1, 0, BAD, 1 },
	{ RESP, PLAIN, 1, 1, 1, BAD, 1 },
	{ H2C, DDGST, 1, 1, 4, BAD, 1 },
	{ C2H, BOTH, 1, 1, 1, BAD, 1 },
	{ R2T, HDGST, 1, 1, 0, BAD, 1 },
	/* C2HData: SUCCESS only with LAST */
	{ C2H, PLAIN, 1, 1, 8, BAD, 1 },
	{ C2H, PLAIN, 1, 1, 4, FINE, 0 },
	{ C2H, PLAIN, 1, 1, 0, FINE, 0 },
	/* PDO: behind the header, aligned */
	{ CMD_DATA, PLAIN, 3, 1, 0, BAD, 3 },
	{ CMD_DATA, PLAIN, 3, 1, 68, BAD, 3 },
	{ CMD_DATA, PLAIN, 3, 1, 73, BAD, 3 },
	{ CMD_DATA, HDGST, 3, 1, 72, BAD, 3 },
	{ CMD_DATA, ALIGNED, 3, 1, 72, BAD, 3 },
	{ CMD_DATA, ALIGNED, 3, 1, 192, FINE, 0 }, /* more padding than needed, so PLEN leaves less data */
	{ H2C, PLAIN, 3, 1, 20, BAD, 3 },
	{ H2C, PLAIN, 3, 1, 26, BAD, 3 },
	{ H2C, ALIGNED, 3, 1, 32, BAD, 3 },
	{ C2H, ALIGNED, 3, 1, 24, BAD, 3 },
	{ C2H, PLAIN, 3, 1, 255, BAD, 3 },
	/* PDO in types where it is reserved */
	{ CMD, PLAIN, 3, 1, 77, FINE, 0 },
	{ CMD, ALIGNED, 3, 1, 3, FINE, 0 },
	{ RESP, PLAIN, 3, 1, 255, FINE, 0 },
	{ R2T, HDGST, 3, 1, 1, FINE, 0 },
	{ ICREQ, PLAIN, 3, 1, 9, FINE, 0 },
	{ C2H_TERM, PLAIN, 3, 1, 9, FINE, 0 },
	/* PLEN */
	{ ICREQ, PLAIN, 4, 4, 127, BAD, 4 },
	{ ICREQ, PLAIN, 4, 4, 132, BAD, 4 },
	{ ICRESP, PLAIN, 4, 4, 0, BAD, 4 },
	{ CMD, PLAIN, 4, 4, 71, BAD, 4 },
	{ CMD, PLAIN, 4, 4, 0, BAD, 4 },
	{ CMD, HDGST, 4, 4, 72, BAD, 4 },
	{ CMD, PLAIN, 4, 4, 73, BAD, 3 },	/* PLEN includes data, but PDO is 0 */
	{ CMD_DATA, PLAIN, 4, 4, 72, FINE, 0 }, /* PLEN without data */
	{ CMD_DATA, PLAIN, 4, 4, 73, FINE, 0 },
	{ CMD_DATA, DDGST, 4, 4, 76, BAD, 4 }, /* a digest without data */
	{ CMD_DATA, DDGST, 4, 4, 77, FINE, 0 },
	{ CMD_DATA, ALIGNED, 4, 4, 128, BAD, 4 }, /* padding without data */
	{ CMD_DATA, PLAIN, 4, 4, 72 + 4096, FINE, 0 },
	{ CMD_DATA, PLAIN, 4, 4, 72 + 4097, LIMIT, 0 },
	{ CMD_DATA, BOTH, 4, 4, 76 + 4096 + 5, LIMIT, 0 },
	{ CMD_DATA, PLAIN, 4, 4, UINT32_MAX, LIMIT, 0 },
	{ RESP, PLAIN, 4, 4, 23, BAD, 4 },
	{ RESP, PLAIN, 4, 4, 28, BAD, 4 },
	{ RESP, HDGST, 4, 4, 24, BAD, 4 },
	{ R2T, PLAIN, 4, 4, 25, BAD, 4 },
	{ R2T, HDGST, 4, 4, 32, BAD, 4 },
	{ H2C, PLAIN, 4, 4, 23, BAD, 4 },
	{ H2C, PLAIN, 4, 4, 24, BAD, 4 },	  /* without data */
	{ H2C, PLAIN, 4, 4, 24 + 65535, BAD, 4 }, /* differs from DATAL */
	{ H2C, PLAIN, 4, 4, 24 + 65537, LIMIT, 0 },
	{ H2C, DDGST, 4, 4, 24 + 65536, BAD, 4 },
	{ C2H, PLAIN, 4, 4, 25, BAD, 4 },
	{ C2H, HDGST, 4, 4, 28, BAD, 4 },
	{ C2H, PLAIN, 4, 4, UINT32_MAX, LIMIT, 0 },
	{ H2C_TERM, PLAIN, 4, 4, 23, BAD, 4 },
	{ H2C_TERM, PLAIN, 4, 4, 153, BAD, 4 },
	{ H2C_TERM, PLAIN, 4, 4, 24, FINE, 0 },
	{ C2H_TERM, PLAIN, 4, 4, 152, FINE, 0 },
	{ C2H_TERM, PLAIN, 4, 4, UINT32_MAX, BAD, 4 },
	/* DATAL and DATAO */
	{ H2C, PLAIN, 16, 4, 0, BAD, 4 },
	{ H2C, PLAIN, 16, 4, 65540, BAD, 4 },
	{ H2C, PLAIN, 12, 4, UINT32_MAX - 65536, FINE, 0 },
	{ H2C, PLAIN, 12, 4, UINT32_MAX - 65535, RANGE, 0 },
	{ C2H, HDGST, 12, 4, UINT32_MAX, RANGE, 0 },
	/* R2TO and R2TL */
	{ R2T, PLAIN, 16, 4, 0, BAD, 16 },
	{ R2T, HDGST, 16, 4, 0, BAD, 16 },
	{ R2T, PLAIN, 12, 4, UINT32_MAX, RANGE, 0 },
	{ R2T, PLAIN, 12, 4, UINT32_MAX - 65535, RANGE, 0 },
	{ R2T, PLAIN, 12, 4, UINT32_MAX - 65536, FINE, 0 },
	/* ICReq and ICResp */
	{ ICREQ, PLAIN, 8, 2, 1, UNSUPPORTED, 8 },
	{ ICREQ, PLAIN, 8, 2, 0x100, UNSUPPORTED, 8 },
	{ ICREQ, PLAIN, 10, 1, 32, BAD, 10 },
	{ ICREQ, PLAIN, 10, 1, 31, FINE, 0 },
	{ ICREQ, PLAIN, 12, 4, UINT32_MAX, FINE, 0 },
	{ ICRESP, PLAIN, 8, 2, 7, UNSUPPORTED, 8 },
	{ ICRESP, PLAIN, 10, 1, 255, BAD, 10 },
	{ ICRESP, PLAIN, 10, 1, 32, BAD, 10 },
	{ ICRESP, PLAIN, 10, 1, 31, FINE, 0 },
	{ ICRESP, PLAIN, 12, 4, 4092, BAD, 12 },
	{ ICRESP, PLAIN, 12, 4, 0, BAD, 12 },
	{ ICRESP, PLAIN, 12, 4, 4098, BAD, 12 },
	{ ICRESP, PLAIN, 12, 4, 4096, FINE, 0 },
	/* reserved: ignored */
	{ ICREQ, PLAIN, 127, 1, 255, FINE, 0 },
	{ ICREQ, PLAIN, 1, 1, 255, FINE, 0 },
	{ H2C, PLAIN, 20, 4, UINT32_MAX, FINE, 0 },
	{ H2C, PLAIN, 1, 1, 0xf0, FINE, 0 },
	{ C2H, PLAIN, 10, 2, 0xffff, FINE, 0 },
	{ RESP, PLAIN, 1, 1, 0xf2, FINE, 0 },
	{ C2H_TERM, PLAIN, 1, 1, 3, FINE, 0 },
	{ C2H_TERM, PLAIN, 8, 2, 0xffff, FINE, 0 },
};

/* Decode the row at once, then with the window growing byte by byte: the result must be the same. */
static void check_row(const struct row *row)
{
	const struct pdu_terms *terms = &all_terms[row->terms];
	uint8_t to[512] = { 0 };
	struct pdu_decoder decoder;
	struct pdu_step whole, step;
	size_t bytes = make_base(row->base, terms, to);
	size_t window = 0;

	if (row->offset == 3 && row->value < 253)
		bytes = bytes < row->value ? row->value : bytes; /* the padding that the changed field claims */
	change_field(to, terms, row->base, row->offset, row->width, row->value);
	if (row->base == H2C || row->base == CMD_DATA)
		assert_true(bytes <= sizeof(to));
	ready(&decoder, row->base, terms);
	pdu_step(&decoder, to, bytes, &whole);
	if (whole.kind != (row->fes ? PDU_ERROR : PDU_HEADER) ||
	    (row->fes && (whole.fes != row->fes || whole.fei != row->fei)))
		fail_msg("row %zu: step %d, FES %u, FEI %u", (size_t)(row - rows), whole.kind, whole.fes, whole.fei);
	ready(&decoder, row->base, terms);
	do {
		memset(&step, 0, sizeof(step));
	} while (pdu_step(&decoder, to, window++, &step) == PDU_NEED_MORE);
	assert_int_equal(step.kind, whole.kind);
	assert_int_equal(step.consumed, whole.consumed);
	assert_int_equal(step.bytes_count, whole.bytes_count);
	if (row->fes) {
		assert_int_equal(step.fes, whole.fes);
		assert_int_equal(step.fei, whole.fei);
		assert_int_equal(step.type, to[0]);
		assert_ptr_equal(step.bytes, to);
		assert_int_equal(decoder.phase, PDU_PHASE_CLOSED);
	} else {
		assert_int_equal(step.data_bytes, whole.data_bytes);
	}
}

static void each_bad_field_has_its_fes_and_fei(void **state)
{
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
		check_row(&rows[i]);
}

/* The expected result of a type at a side in a phase: FINE, BAD (FEI 0: unknown type, or not from that side), SEQUENCE. */
static unsigned int expected_for_type(unsigned int type, enum pdu_side side, enum pdu_phase phase)
{
	bool from_host = type == NVME_TCP_ICREQ || type == NVME_TCP_H2C_TERM_REQ || type == NVME_TCP_CAPSULE_CMD ||
			 type == NVME_TCP_H2C_DATA;
	bool ic = type == NVME_TCP_ICREQ || type == NVME_TCP_ICRESP;
	bool term = type == NVME_TCP_H2C_TERM_REQ || type == NVME_TCP_C2H_TERM_REQ;

	if (type > NVME_TCP_R2T || type == 8 || from_host != (side == PDU_SIDE_TARGET))
		return BAD;
	if (term)
		return phase == PDU_PHASE_INITIAL && side == PDU_SIDE_TARGET ? SEQUENCE : FINE;
	if (ic)
		return phase == PDU_PHASE_INITIAL ? FINE : SEQUENCE;
	return phase == PDU_PHASE_RUNNING ? FINE : SEQUENCE;
}

static void each_type_is_accepted_only_in_its_phases_and_from_its_side(void **state)
{
	static const enum base bases[] = { ICREQ, ICRESP, H2C_TERM, C2H_TERM, CMD, RESP, H2C, C2H, CMD, R2T };
	const struct pdu_terms *terms = &all_terms[PLAIN];

	for (unsigned int type = 0; type < 256; type++) {
		for (int side = 0; side < 2; side++) {
			for (int phase = PDU_PHASE_INITIAL; phase <= PDU_PHASE_RUNNING; phase++) {
				uint8_t to[512] = { 0 };
				struct pdu_decoder decoder;
				struct pdu_step step;
				unsigned int fes = expected_for_type(type, (enum pdu_side)side, (enum pdu_phase)phase);

				make_base(type < ARRAY_COUNT(bases) ? bases[type] : CMD, terms, to);
				to[0] = (uint8_t)type;
				if (phase == PDU_PHASE_RUNNING) {
					decoder_at(&decoder, (enum pdu_side)side, terms, &limits);
				} else {
					pdu_decoder_init(&decoder, (enum pdu_side)side);
					decoder.phase = (uint8_t)phase;
				}
				pdu_step(&decoder, to, sizeof(to), &step);
				assert_int_equal(step.kind, fes ? PDU_ERROR : PDU_HEADER);
				if (fes) {
					assert_int_equal(step.fes, fes);
					assert_int_equal(step.fei, 0);
					assert_int_equal(step.bytes_count, sizeof(struct nvme_tcp_common));
				}
			}
		}
	}
}

/* Each flipped bit of each header with a digest is refused; if the header's shape is valid, because of the digest. */
static void a_flipped_bit_under_a_header_digest_is_refused(void **state)
{
	static const enum base bases[] = { CMD, CMD_DATA, RESP, H2C, C2H, R2T };
	const struct pdu_terms *terms = &all_terms[BOTH];

	for (size_t i = 0; i < ARRAY_COUNT(bases); i++) {
		uint8_t sound[512] = { 0 };
		size_t bytes = make_base(bases[i], terms, sound);

		for (size_t bit = 0; bit < bytes * 8; bit++) {
			uint8_t to[512];
			struct pdu_decoder decoder;
			struct pdu_step step;

			memcpy(to, sound, sizeof(to));
			to[bit / 8] ^= (uint8_t)BIT(bit % 8);
			ready(&decoder, bases[i], terms);
			assert_int_equal(pdu_step(&decoder, to, sizeof(to), &step), PDU_ERROR);
			if (bit >= 24 || (bit > 8 && bit < 16)) {
				assert_int_equal(step.fes, DIGEST);
				assert_int_equal(step.fei, 0);
				assert_int_equal(step.bytes_count, sound[2]);
			}
		}
	}
}

/* The error must be reported at once, not after more bytes of the sender. */
static void an_invalid_common_header_is_reported_after_8_bytes(void **state)
{
	uint8_t to[PDU_PUT_BYTES_MAX];
	struct pdu_decoder decoder;
	struct pdu_step step;

	make_base(CMD, &all_terms[PLAIN], to);
	to[4] = 8; /* PLEN */
	ready(&decoder, CMD, &all_terms[PLAIN]);
	assert_int_equal(pdu_step(&decoder, to, 7, &step), PDU_NEED_MORE);
	assert_int_equal(step.need_bytes, 8);
	assert_int_equal(pdu_step(&decoder, to, 8, &step), PDU_ERROR);
	assert_int_equal(step.fei, 4);
}

/* The values of an ERROR make a TermReq that the other side's decoder accepts. */
static void an_error_makes_a_valid_term_req(void **state)
{
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		const struct pdu_terms *terms = &all_terms[rows[i].terms];
		uint8_t to[512] = { 0 };
		uint8_t term[PDU_TERM_REQ_BYTES_MAX];
		struct pdu_decoder decoder, peer;
		struct pdu_step step, got;
		size_t bytes = make_base(rows[i].base, terms, to);

		if (!rows[i].fes)
			continue;
		change_field(to, terms, rows[i].base, rows[i].offset, rows[i].width, rows[i].value);
		ready(&decoder, rows[i].base, terms);
		assert_int_equal(pdu_step(&decoder, to, bytes, &step), PDU_ERROR);
		if (side_of(rows[i].base) == PDU_SIDE_TARGET) {
			bytes = pdu_put_c2h_term_req(term, (enum nvme_tcp_fes)step.fes, step.fei, step.bytes,
						     step.bytes_count);
			pdu_decoder_init(&peer, PDU_SIDE_HOST);
		} else {
			bytes = pdu_put_h2c_term_req(term, (enum nvme_tcp_fes)step.fes, step.fei, step.bytes,
						     step.bytes_count);
			decoder_at(&peer, PDU_SIDE_TARGET, terms, &limits);
		}
		assert_int_equal(pdu_step(&peer, term, bytes, &got), PDU_HEADER);
		assert_int_equal(got.data_bytes, step.bytes_count);
		assert_int_equal(got.consumed + got.data_bytes, bytes);
		assert_memory_equal(term + got.consumed, to, step.bytes_count);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_bad_field_has_its_fes_and_fei),
		cmocka_unit_test(each_type_is_accepted_only_in_its_phases_and_from_its_side),
		cmocka_unit_test(a_flipped_bit_under_a_header_digest_is_refused),
		cmocka_unit_test(an_invalid_common_header_is_reported_after_8_bytes),
		cmocka_unit_test(an_error_makes_a_valid_term_req),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("pdu refuse", tests, NULL, NULL);
}
