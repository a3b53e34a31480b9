/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pdu - bytes <-> NVMe/TCP PDUs. Pure: no socket, no clock, no allocation; bytes in, steps out.
 *
 * A decoder handles one direction of one connection. The caller passes a window: the bytes received and not yet consumed.
 * Each call returns one step, after which the caller advances its window by step.consumed:
 *
 *      HEADER  a whole header at step.bytes in the window; its fields and digest are checked. data_bytes of data follow.
 *              If data_bytes is 0, the PDU ends here.
 *      DATA    part of the PDU's data, at step.bytes in the window and at data_offset in the data; `last` on the last part.
 *      END     once, after all the data: digest_ok is false if the data digest was wrong.
 *      NEED    (PDU_NEED_MORE) pass the same bytes again with more behind them, at least need_bytes in all.
 *      ERROR   the peer broke the protocol; the step has the contents of a TermReq. The decoder is closed.
 *
 * The decoder stores no bytes. Unconsumed bytes (after NEED at most PDU_WINDOW_BYTES_MIN - 1) must be at the front of the
 * next window, so a header is always whole and in place. Windows may be cut anywhere: only the splitting of DATA depends on
 * it. Payload may bypass the window: after a HEADER, the caller may receive pdu_data_left() bytes anywhere and report them
 * with pdu_data_taken().
 *
 *                    start()                              ERROR, or END of a TermReq
 *      INITIAL ------ IC PDU -----> NEGOTIATED ---------> RUNNING -------------------> CLOSED (discards all bytes)
 *
 * ICReq (target side) or ICResp (host side) comes first, once; the caller then passes the agreed terms to
 * pdu_decoder_start(). A target accepts a TermReq from NEGOTIATED on, a host in every phase.
 *
 * The decoder checks: type for the side and phase, HLEN, HDGSTF and DDGSTF as agreed, PDO, PLEN, and the fields that do not
 * depend on other PDUs (PFV, PDA, MAXH2CDATA, DATAL, R2TL, LAST with SUCCESS, 32-bit ends). It ignores reserved bits. The
 * caller checks fields that depend on the request (TTAG, CCCID, DATAO against the R2T, number of R2Ts, SGLs), and builds
 * its own TermReq with pdu_put_*_term_req(). With header digests, lengths and fields are checked only after the digest.
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
	PDU_WINDOW_BYTES_MIN = 256, /* a smaller window could stall: NEED never asks for more than this */
	PDU_TERM_REQ_BYTES_MAX = 152,
	PDU_PUT_BYTES_MAX = PDU_TERM_REQ_BYTES_MAX, /* the longest that pdu_put_*() writes */
};
static_assert(PDU_PDO_MAX < PDU_WINDOW_BYTES_MIN, "header, digest and padding fit the smallest window");
static_assert(sizeof(struct nvme_tcp_icreq) <= PDU_HLEN_MAX, "ICReq is the longest header");
static_assert(sizeof(struct nvme_tcp_term_req) + NVME_TCP_TERM_DATA_BYTES_MAX == PDU_TERM_REQ_BYTES_MAX, "as specified");
/* CapsuleCmd and its digest end at 76. An alignment of up to 72 gives a PDO of 144 at most, a larger one itself. */
static_assert((int)NVME_TCP_DATA_ALIGN_MAX <= PDU_PUT_BYTES_MAX, "a padded header fits");
static_assert(2 * sizeof(struct nvme_tcp_capsule_cmd) <= PDU_PUT_BYTES_MAX, "a padded header fits");

/* Which end we are. It determines the PDU types that may be received. */
enum pdu_side { PDU_SIDE_TARGET, PDU_SIDE_HOST };

/* The terms negotiated by ICReq and ICResp, for one direction. */
struct pdu_terms {
	bool header_digest;
	bool data_digest;
	uint16_t data_align; /* pdu_align(): toward the target by CPDA, toward the host by HPDA; 4 to 128 */
};

/* More data is LIMIT_EXCEEDED. A target passes IOCCSZ and MAXH2CDATA; a host 0 and the size of its largest read. */
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

/* The part of a PDU to which the next byte belongs. */
enum pdu_position { PDU_AT_HEADER, PDU_AT_DATA, PDU_AT_END };

/* Storage is the caller's; only the decoder reads and writes the fields. */
struct pdu_decoder {
	uint64_t plain_word;  /* first 8 bytes, PDO as 0, of the PDU on the fast path; PDU_PLAIN_NONE: no fast path */
	uint16_t plain_bytes; /* its length */
	uint8_t side;	      /* enum pdu_side */
	uint8_t phase;	      /* enum pdu_phase */
	uint8_t position;     /* enum pdu_position */
	uint8_t type;	      /* of the current PDU */
	bool data_digest;     /* the current PDU's data ends with a digest */
	uint32_t data_bytes;  /* of the current PDU */
	uint32_t data_offset; /* bytes of them already consumed */
	uint32_t crc;	      /* of the consumed bytes */
	struct pdu_terms terms;
	struct pdu_limits limits;
};

enum pdu_step_kind { PDU_NEED_MORE, PDU_HEADER, PDU_DATA, PDU_END, PDU_ERROR };

/* A comment names the kinds for which a field is set. For other kinds the field is undefined. */
struct pdu_step {
	enum pdu_step_kind kind;
	uint32_t consumed;    /* every kind: bytes by which to advance the window; NEED_MORE: 0 or, when closed, all */
	const uint8_t *bytes; /* HEADER: the header. DATA: the data. ERROR: the rejected header. Borrowed from the window */
	uint32_t bytes_count; /* of `bytes`; HEADER: HLEN, without digest and padding */
	uint8_t type;	      /* HEADER, DATA, END: enum nvme_tcp_pdu_type. ERROR: as received */
	bool last;	      /* DATA: this is the end of the data */
	bool digest_ok;	      /* END: also true without a data digest */
	uint32_t data_bytes;  /* HEADER, DATA, END: of the whole PDU */
	uint32_t data_offset; /* DATA: of `bytes` in the PDU's data */
	uint32_t need_bytes;  /* NEED_MORE: the least size of the next window */
	uint16_t fes;	      /* ERROR: enum nvme_tcp_fes */
	uint32_t fei;	      /* ERROR: offset of the field for INVALID_HEADER_FIELD and UNSUPPORTED_PARAMETER, else 0 */
};

#define PDU_PLAIN_NONE UINT64_MAX
/* Clears PDO, which has no meaning in a PDU without data, from the first 8 bytes. */
#define PDU_PLAIN_MASK 0xffffffff00ffffffull

/* Prepare to decode the PDUs received by `side`. Pair: none, a decoder owns nothing. */
void pdu_decoder_init(struct pdu_decoder *decoder, enum pdu_side side);

/*
 * Start the RUNNING phase after the IC exchange: `decoder` has returned the HEADER of the ICReq or ICResp. `terms` are
 * those of this direction. Both arguments are borrowed.
 */
void pdu_decoder_start(struct pdu_decoder *decoder, const struct pdu_terms *terms, const struct pdu_limits *limits);

/* Change the limits from the next PDU on: capsule sizes differ by queue, and the queue is known only after its Connect. */
void pdu_decoder_set_limits(struct pdu_decoder *decoder, const struct pdu_limits *limits);

/* pdu_step() without the fast path. */
enum pdu_step_kind pdu_step_general(struct pdu_decoder *decoder, const uint8_t *in, size_t in_bytes,
				    struct pdu_step *step_ret);

/*
 * Decode the next step of the window `in` of `in_bytes` (less than 4 GiB; 0 is legal, `in` may then be NULL). Returns
 * step_ret->kind. The pointers in `step_ret` point into `in`.
 *
 * The inline fast path: a CapsuleCmd (target) or CapsuleResp (host) without data and digests, whole in the window.
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

/* Data bytes of the current PDU still expected, by DATA steps or pdu_data_taken(). 0 between PDUs. */
static inline uint32_t pdu_data_left(const struct pdu_decoder *decoder)
{
	return decoder->position == PDU_AT_DATA ? decoder->data_bytes - decoder->data_offset : 0;
}

/*
 * Report that the next `bytes_count` data bytes, at most pdu_data_left(), were received outside the window, at `bytes`
 * (borrowed; read only if there is a data digest). The next window starts behind them. END still follows the last ones.
 */
void pdu_data_taken(struct pdu_decoder *decoder, const uint8_t *bytes, size_t bytes_count);

/* ---- Encoding ----
 *
 * Each function writes a header, its digest and the padding before the data at `to` (the caller's, PDU_PUT_BYTES_MAX
 * bytes), and returns the number of bytes written. PLEN includes the data and its digest, which the caller sends next:
 * `data_bytes` of data and then, if terms->data_digest and there is data, pdu_data_digest(). `terms` are those of the
 * sending direction.
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

/* A part of the data that an R2T asked for, with the specification's field names. */
struct pdu_h2c_data {
	uint16_t cccid, ttag; /* those of the R2T */
	uint32_t datao;	      /* in the data of the command, not of the R2T */
	uint32_t datal;	      /* not 0 */
	bool last;	      /* the last PDU of this R2T */
};

MUST_CHECK size_t pdu_put_h2c_data(const struct pdu_terms *terms, uint8_t *to, const struct pdu_h2c_data *data);

/*
 * `datal` is not 0. `flags`: NVME_TCP_FLAG_LAST for the last PDU of this command; with it, NVME_TCP_FLAG_SUCCESS if no
 * CapsuleResp follows.
 */
MUST_CHECK size_t pdu_put_c2h_data(const struct pdu_terms *terms, uint8_t *to, uint16_t cccid, uint32_t datao,
				   uint32_t datal, uint8_t flags);

/*
 * A whole TermReq including its data, at most PDU_TERM_REQ_BYTES_MAX. The rejected header (`header_bytes` at `header`,
 * borrowed) is cut to NVME_TCP_TERM_DATA_BYTES_MAX.
 */
MUST_CHECK size_t pdu_put_h2c_term_req(uint8_t *to, enum nvme_tcp_fes fes, uint32_t fei, const uint8_t *header,
				       size_t header_bytes);
MUST_CHECK size_t pdu_put_c2h_term_req(uint8_t *to, enum nvme_tcp_fes fes, uint32_t fei, const uint8_t *header,
				       size_t header_bytes);

/* ---- Digests: CRC32C as in iSCSI: starts with all ones, inverted at the end. ---- */

#define PDU_CRC_INIT 0xffffffffu

/*
 * Pieces may have any size: crc = PDU_CRC_INIT, crc = update(crc, piece) ..., final(crc). Digests are sent little-endian.
 */
uint32_t pdu_crc_update(uint32_t crc, const void *bytes, size_t bytes_count);

static inline uint32_t pdu_crc_final(uint32_t crc)
{
	return crc ^ 0xffffffffu;
}

/* The digest of `iov_count` pieces, as the number to send. */
uint32_t pdu_data_digest(const struct iovec *iov, int iov_count);

#endif
