/* SPDX-License-Identifier: BSD-2-Clause */
/* stream - shared by the PDU tests: bytes with PDUs, and a transcript of a decoder's steps. */
#ifndef TEST_STREAM_H
#define TEST_STREAM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/random.h"
#include "data/wire/pdu/pdu.h"

enum { STREAM_BYTES_MAX = 65536, STREAM_EVENTS_MAX = 4096 };

struct stream {
	size_t bytes_count;
	uint8_t bytes[STREAM_BYTES_MAX];
};

static inline void stream_add(struct stream *stream, const void *bytes, size_t bytes_count)
{
	assert_true(bytes_count <= sizeof(stream->bytes) - stream->bytes_count);
	memcpy(stream->bytes + stream->bytes_count, bytes, bytes_count);
	stream->bytes_count += bytes_count;
}

/* `data_bytes` of a pattern that depends on `seed`, and their digest if there is one. */
static inline void stream_add_data(struct stream *stream, const struct pdu_terms *terms, uint32_t data_bytes, uint8_t seed)
{
	struct iovec iov = { .iov_base = stream->bytes + stream->bytes_count, .iov_len = data_bytes };

	for (uint32_t i = 0; i < data_bytes; i++) {
		uint8_t byte = (uint8_t)(seed + i * 7);

		stream_add(stream, &byte, 1);
	}
	if (terms->data_digest && data_bytes > 0) {
		uint32_t digest = pdu_data_digest(&iov, 1);

		stream_add(stream, &digest, sizeof(digest));
	}
}

/* A step, without fields that depend on the window's position and on how data was cut. */
struct event {
	enum pdu_step_kind kind; /* HEADER, END, ERROR; DATA is in `data_crc` of END */
	uint8_t type;
	uint32_t data_bytes;
	uint32_t bytes_count;
	uint32_t bytes_crc; /* of the header */
	uint32_t data_crc;
	bool digest_ok;
	uint16_t fes;
	uint32_t fei;
	size_t at; /* its end in the stream */
};

struct transcript {
	size_t events_count;
	struct event events[STREAM_EVENTS_MAX];
	uint32_t data_crc;
	uint32_t data_next; /* offset that the next DATA must have */
	bool data_last;
};

/* Start a decoder at `phase`. */
static inline void decoder_at(struct pdu_decoder *decoder, enum pdu_side side, const struct pdu_terms *terms,
			      const struct pdu_limits *limits)
{
	uint8_t ic[PDU_PUT_BYTES_MAX];
	struct pdu_step step;
	size_t ic_bytes;

	pdu_decoder_init(decoder, side);
	if (side == PDU_SIDE_TARGET)
		ic_bytes = pdu_put_icreq(ic, 0, false, false, 0);
	else
		ic_bytes = pdu_put_icresp(ic, 0, false, false, 131072);
	assert_int_equal(pdu_step(decoder, ic, ic_bytes, &step), PDU_HEADER);
	pdu_decoder_start(decoder, terms, limits);
}

/* Record one step; return how far the window moves. */
static inline uint32_t transcribe(struct transcript *t, const struct pdu_decoder *decoder, const uint8_t *in,
				  size_t in_bytes, const struct pdu_step *step, size_t at)
{
	struct event event = { .kind = step->kind };

	assert_true(step->consumed <= in_bytes);
	switch (step->kind) {
	case PDU_NEED_MORE:
		assert_true(step->need_bytes > 0);
		assert_true(step->consumed == 0 || step->consumed == in_bytes);
		assert_true(in_bytes == 0 || step->consumed > 0 || step->need_bytes > in_bytes);
		return step->consumed;
	case PDU_DATA:
		assert_true(step->consumed > 0);
		assert_int_equal(step->bytes_count, step->consumed);
		assert_ptr_equal(step->bytes, in);
		assert_int_equal(step->data_offset, t->data_next);
		t->data_next += step->bytes_count;
		t->data_last = step->last;
		assert_int_equal(step->last, t->data_next == step->data_bytes);
		t->data_crc = pdu_crc_update(t->data_crc, step->bytes, step->bytes_count);
		return step->consumed;
	case PDU_HEADER:
		assert_true(step->consumed >= step->bytes_count);
		assert_int_equal(pdu_data_left(decoder), step->data_bytes);
		t->data_crc = PDU_CRC_INIT;
		t->data_next = 0;
		t->data_last = false;
		break;
	case PDU_END:
		assert_true(t->data_last);
		assert_int_equal(t->data_next, step->data_bytes);
		event.data_crc = t->data_crc;
		event.digest_ok = step->digest_ok;
		break;
	case PDU_ERROR:
		assert_int_equal(step->consumed, 0);
		event.fes = step->fes;
		event.fei = step->fei;
		break;
	}
	event.type = step->type;
	event.at = at + step->consumed;
	if (step->kind != PDU_ERROR)
		event.data_bytes = step->data_bytes;
	if (step->kind != PDU_END) {
		assert_ptr_equal(step->bytes, in);
		assert_true(step->bytes_count <= in_bytes);
		event.bytes_count = step->bytes_count;
		event.bytes_crc = pdu_crc_update(PDU_CRC_INIT, step->bytes, step->bytes_count);
	}
	assert_true(t->events_count < STREAM_EVENTS_MAX);
	t->events[t->events_count++] = event;
	return step->consumed;
}

/* Record all steps while the window ends at `end`; `*at` advances. */
static inline void feed(struct pdu_decoder *decoder, struct transcript *t, const struct stream *stream, size_t *at,
			size_t end)
{
	struct pdu_step step;
	enum pdu_step_kind kind;

	assert_true(end <= stream->bytes_count);
	do {
		const uint8_t *in = stream->bytes + *at;
		size_t in_bytes = end - *at;

		memset(&step, 0xa5, sizeof(step));
		kind = pdu_step(decoder, in, in_bytes, &step);
		assert_int_equal(kind, step.kind);
		*at += transcribe(t, decoder, in, in_bytes, &step, *at);
	} while (kind != PDU_NEED_MORE);
}

static inline void assert_same_transcripts(const struct transcript *a, const struct transcript *b)
{
	assert_int_equal(a->events_count, b->events_count);
	for (size_t i = 0; i < a->events_count; i++) {
		const struct event *x = &a->events[i];
		const struct event *y = &b->events[i];

		assert_int_equal(x->kind, y->kind);
		assert_int_equal(x->type, y->type);
		assert_int_equal(x->data_bytes, y->data_bytes);
		assert_int_equal(x->bytes_count, y->bytes_count);
		assert_int_equal(x->bytes_crc, y->bytes_crc);
		assert_int_equal(x->data_crc, y->data_crc);
		assert_int_equal(x->digest_ok, y->digest_ok);
		assert_int_equal(x->fes, y->fes);
		assert_int_equal(x->fei, y->fei);
		assert_int_equal(x->at, y->at);
	}
}

#endif
