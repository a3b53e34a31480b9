/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pdu - bytes <-> NVMe/TCP PDUs. Pure: no socket, no clock, no allocation; bytes in, steps out.
 *
 * A decoder stands for one direction of one connection. The caller shows it a window, the bytes received and not yet
 * consumed, and takes one step at a time, each time moving its window on by step.consumed:
 *
 *      HEADER  a whole header, checked, digest too, at step.bytes in the window. data_bytes of data follow;
 *              if that is 0 the PDU ends here and the next step is about the next PDU.
 *      DATA    some of its data, at step.bytes in the window, from data_offset of the PDU's data, `last` on the last.
 *      END     after all the data, once: digest_ok tells whether its digest was right.
 *      NEED    nothing: show the same bytes again with more behind them, need_bytes in all at least.
 *      ERROR   the peer broke the protocol: what to put into a TermReq. Nothing more comes of this decoder.
 *
 * No byte is kept inside: what a step left unconsumed (never more than PDU_WINDOW_BYTES_MIN - 1 bytes after NEED) has to be
 * in the next window, at its front, so a header is always whole and in place. Windows may be cut anywhere: apart from where
 * DATA is split, the steps are the same. Payload may bypass the window: after a HEADER, pdu_data_left() bytes can be
 * received anywhere and reported by pdu_data_taken().
 *
 *                    start()                              ERROR, or END of a TermReq
 *      INITIAL ------ IC PDU -----> NEGOTIATED ---------> RUNNING -------------------> CLOSED (eats all bytes)
 *
 * ICReq (target side) or ICResp (host side) comes first, once; pdu_decoder_start() then says what was agreed. A TermReq is
 * legal whenever the peer may know of us: from NEGOTIATED on at the target, always at the host.
 *
 * What is checked: type for the side and phase, HLEN, HDGSTF and DDGSTF as agreed, PDO, PLEN, and the fields that need no
 * memory of other PDUs (PFV, PDA, MAXH2CDATA, DATAL, R2TL, LAST with SUCCESS, 32-bit ends). Reserved bits are not looked
 * at. What needs the request (TTAG, CCCID, DATAO against the R2T, number of R2Ts, SGLs) is the caller's, and
 * pdu_put_*_term_req() serves it too. With header digests a header is believed, and so judged, only after its digest.
 */
#ifndef WIRE_PDU_H
#define WIRE_PDU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "base/must.h"
#include "data/nvme/tcp.h"

enum {
	PDU_DIGEST_BYTES = NVME_TCP_DIGEST_BYTES,
	PDU_HLEN_MAX = 128,	    /* ICReq, ICResp */
	PDU_PDO_MAX = 252,	    /* the largest dword-aligned PDO */
	PDU_WINDOW_BYTES_MIN = 256, /* a window that can grow to this never stalls */
	PDU_TERM_REQ_BYTES_MAX = 152,
	PDU_PUT_BYTES_MAX = PDU_TERM_REQ_BYTES_MAX, /* the longest that pdu_put_*() writes */
};
static_assert(PDU_PDO_MAX < PDU_WINDOW_BYTES_MIN, "header, digest and padding fit the smallest window");
static_assert(sizeof(struct nvme_tcp_icreq) <= PDU_HLEN_MAX, "ICReq is the longest header");
static_assert(sizeof(struct nvme_tcp_term_req) + NVME_TCP_TERM_DATA_BYTES_MAX == PDU_TERM_REQ_BYTES_MAX, "as specified");
/* CapsuleCmd and its digest end at 76. An alignment of up to 72 gives a PDO of 144 at most, a larger one itself. */
static_assert((int)NVME_TCP_DATA_ALIGN_MAX <= PDU_PUT_BYTES_MAX, "a padded header fits");
static_assert(2 * sizeof(struct nvme_tcp_capsule_cmd) <= PDU_PUT_BYTES_MAX, "a padded header fits");

/* Which end is ours, and so which PDUs may come in. */
enum pdu_side { PDU_SIDE_TARGET, PDU_SIDE_HOST };

/* What ICReq and ICResp settled, for one direction. */
struct pdu_terms {
	bool header_digest;
	bool data_digest;
	uint16_t data_align; /* pdu_align(): toward the target by CPDA, toward the host by HPDA; 4 to 128 */
};

/* Decoder's limits; more is LIMIT_EXCEEDED. The target: IOCCSZ and MAXH2CDATA. The host: 0 and as large as it ever asks. */
struct pdu_limits {
	uint32_t in_capsule_bytes_max;
	uint32_t data_bytes_max; /* of one H2CData or C2HData */
};

/* Alignment in bytes of HPDA or CPDA. `pda` is NVME_TCP_PDA_MAX at most. */
static inline uint16_t pdu_align(uint8_t pda)
{
	return (uint16_t)((pda + 1) * 4);
}

/* ---- Decoding ---- */

enum pdu_phase { PDU_PHASE_INITIAL, PDU_PHASE_NEGOTIATED, PDU_PHASE_RUNNING, PDU_PHASE_CLOSED };

/* Where in a PDU the next byte stands. */
enum pdu_position { PDU_AT_HEADER, PDU_AT_DATA, PDU_AT_END };

/* The caller's storage; its fields are the decoder's own. */
struct pdu_decoder {
	uint64_t plain_word;  /* first 8 bytes, PDO as 0, of the PDU that takes the short way; PDU_PLAIN_NONE: none does */
	uint16_t plain_bytes; /* its length */
	uint8_t side;	      /* enum pdu_side */
	uint8_t phase;	      /* enum pdu_phase */
	uint8_t position;     /* enum pdu_position */
	uint8_t type;	      /* of the current PDU */
	bool data_digest;     /* the current PDU's data ends with a digest */
	uint32_t data_bytes;  /* of the current PDU */
	uint32_t data_offset; /* how many of them have gone by */
	uint32_t crc;	      /* of those */
	struct pdu_terms terms;
	struct pdu_limits limits;
};

enum pdu_step_kind { PDU_NEED_MORE, PDU_HEADER, PDU_DATA, PDU_END, PDU_ERROR };

/* Fields that a kind does not name are undefined. */
struct pdu_step {
	enum pdu_step_kind kind;
	uint32_t consumed;    /* bytes of the window that are done with; NEED_MORE: 0 or, when closed, all */
	const uint8_t *bytes; /* HEADER: the header. DATA: the data. ERROR: the refused header. Borrowed from the window */
	uint32_t bytes_count; /* of `bytes`; HEADER: HLEN, without digest and padding */
	uint8_t type;	      /* HEADER, DATA, END: enum nvme_tcp_pdu_type. ERROR: as received */
	bool last;	      /* DATA: nothing is left */
	bool digest_ok;	      /* END: true, too, without a data digest */
	uint32_t data_bytes;  /* HEADER, DATA, END: of the whole PDU */
	uint32_t data_offset; /* DATA: of `bytes` in the PDU's data */
	uint32_t need_bytes;  /* NEED_MORE: the least size of the next window */
	uint16_t fes;	      /* ERROR: enum nvme_tcp_fes */
	uint32_t fei;	      /* ERROR: offset of the field for INVALID_HEADER_FIELD and UNSUPPORTED_PARAMETER, else 0 */
};

#define PDU_PLAIN_NONE UINT64_MAX
/* Clears PDO, which says nothing in a PDU without data, from the first 8 bytes. */
#define PDU_PLAIN_MASK 0xffffffff00ffffffull

/* For the PDUs that come in at `side`. Pair: none, a decoder owns nothing. */
void pdu_decoder_init(struct pdu_decoder *decoder, enum pdu_side side);

/*
 * The IC exchange is over. `decoder` has given the HEADER of the ICReq or ICResp. `terms` are for this direction; both
 * arguments are borrowed.
 */
void pdu_decoder_start(struct pdu_decoder *decoder, const struct pdu_terms *terms, const struct pdu_limits *limits);

/* Other limits from the next PDU on: an admin queue takes larger capsules, and a Connect tells which queue it is. */
void pdu_decoder_set_limits(struct pdu_decoder *decoder, const struct pdu_limits *limits);

/* pdu_step() for everything but the short way. */
enum pdu_step_kind pdu_step_general(struct pdu_decoder *decoder, const uint8_t *in, size_t in_bytes,
				    struct pdu_step *step_ret);

/*
 * Take the next step at `in`, a window of `in_bytes` (0 is legal, `in` may then be NULL); less than 4 GiB. Returns
 * step_ret->kind. The pointers in `step_ret` point into `in`.
 *
 * The short way, inline: a CapsuleCmd (target) or CapsuleResp (host) without data and digests, whole in the window.
 */
static inline enum pdu_step_kind pdu_step(struct pdu_decoder *decoder, const uint8_t *in, size_t in_bytes,
					  struct pdu_step *step_ret)
{
	uint64_t word;

	if (likely(decoder->position == PDU_AT_HEADER && in_bytes >= decoder->plain_bytes)) {
		memcpy(&word, in, sizeof(word));
		if (likely((word & PDU_PLAIN_MASK) == decoder->plain_word)) {
			step_ret->kind = PDU_HEADER;
			step_ret->consumed = decoder->plain_bytes;
			step_ret->bytes = in;
			step_ret->bytes_count = decoder->plain_bytes;
			step_ret->type = (uint8_t)word;
			step_ret->data_bytes = 0;
			return PDU_HEADER;
		}
	}
	return pdu_step_general(decoder, in, in_bytes, step_ret);
}

/* Data bytes of the current PDU that are still to come: in DATA steps, or taken. 0 between PDUs. */
static inline uint32_t pdu_data_left(const struct pdu_decoder *decoder)
{
	return decoder->position == PDU_AT_DATA ? decoder->data_bytes - decoder->data_offset : 0;
}

/*
 * The next `bytes_count` data bytes were received outside of the window, at `bytes` (borrowed; read only where there is a
 * digest). At most pdu_data_left(). The next window begins behind them; the last ones are followed by END all the same.
 */
void pdu_data_taken(struct pdu_decoder *decoder, const uint8_t *bytes, size_t bytes_count);

/* ---- Encoding ----
 *
 * Each writes a header, its digest and the padding up to the data at `to` (PDU_PUT_BYTES_MAX bytes of the caller's) and
 * returns how many bytes these are. PLEN counts the data and its digest, which the caller sends behind: `data_bytes` of
 * data and then, if terms->data_digest and there is data, pdu_data_digest(). `terms` are those of the sending direction.
 */

MUST_CHECK size_t pdu_put_icreq(uint8_t *to, uint8_t hpda, bool header_digest, bool data_digest, uint32_t maxr2t_less_1);
MUST_CHECK size_t pdu_put_icresp(uint8_t *to, uint8_t cpda, bool header_digest, bool data_digest, uint32_t maxh2cdata);

/* `data_bytes` of in-capsule data follow; 0: none. */
MUST_CHECK size_t pdu_put_capsule_cmd(const struct pdu_terms *terms, uint8_t *to, const struct nvme_command *command,
				      uint32_t data_bytes);
MUST_CHECK size_t pdu_put_capsule_resp(const struct pdu_terms *terms, uint8_t *to,
				       const struct nvme_completion *completion);
MUST_CHECK size_t pdu_put_r2t(const struct pdu_terms *terms, uint8_t *to, uint16_t cccid, uint16_t ttag, uint32_t r2to,
			      uint32_t r2tl);

/* `datal` is not 0. `last`: the last PDU of this R2T. */
MUST_CHECK size_t pdu_put_h2c_data(const struct pdu_terms *terms, uint8_t *to, uint16_t cccid, uint16_t ttag,
				   uint32_t datao, uint32_t datal, bool last);

/* `datal` is not 0. `last`: the last PDU of this command. `success`: no CapsuleResp follows; needs `last`. */
MUST_CHECK size_t pdu_put_c2h_data(const struct pdu_terms *terms, uint8_t *to, uint16_t cccid, uint32_t datao,
				   uint32_t datal, bool last, bool success);

/*
 * A whole TermReq, data included: at most PDU_TERM_REQ_BYTES_MAX. The refused header (`header_bytes` of it at
 * `header`, borrowed) is cut to NVME_TCP_TERM_DATA_BYTES_MAX.
 */
MUST_CHECK size_t pdu_put_h2c_term_req(uint8_t *to, enum nvme_tcp_fes fes, uint32_t fei, const uint8_t *header,
				       size_t header_bytes);
MUST_CHECK size_t pdu_put_c2h_term_req(uint8_t *to, enum nvme_tcp_fes fes, uint32_t fei, const uint8_t *header,
				       size_t header_bytes);

/* ---- Digests: CRC32C, as iSCSI's: all ones at first, inverted at the end. ---- */

#define PDU_CRC_INIT 0xffffffffu

/* Bytes in any pieces: crc = PDU_CRC_INIT, crc = update(crc, piece) ..., final(crc). The digest goes out little-endian. */
uint32_t pdu_crc_update(uint32_t crc, const void *bytes, size_t bytes_count);

static inline uint32_t pdu_crc_final(uint32_t crc)
{
	return crc ^ 0xffffffffu;
}

/* The digest of `iov_count` pieces, as the number to send. */
uint32_t pdu_data_digest(const struct iovec *iov, int iov_count);

#endif
