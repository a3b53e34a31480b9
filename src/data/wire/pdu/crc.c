/* SPDX-License-Identifier: BSD-2-Clause */
/* crc - CRC32C by ISA-L. Its crc32_iscsi() neither presets nor inverts, takes an int, and does not say const. */
#include <isa-l/crc.h>
#include <limits.h>

#include "base/bits.h"
#include "data/wire/pdu/pdu.h"

/* ISA-L takes the length as an int, so longer input is split. */
#define CRC_PIECE_BYTES (1u << 30)
static_assert(CRC_PIECE_BYTES <= INT_MAX, "ISA-L takes an int");

uint32_t pdu_crc_update(uint32_t crc, const void *bytes, size_t bytes_count)
{
	const uint8_t *at = bytes;

	must(at || bytes_count == 0);
	while (bytes_count > 0) {
		size_t piece = min_u64(bytes_count, CRC_PIECE_BYTES);

		crc = crc32_iscsi((unsigned char *)(uintptr_t)at, (int)piece, crc);
		at += piece;
		bytes_count -= piece;
	}
	return crc;
}

uint32_t pdu_data_digest(const struct iovec *iov, int iov_count)
{
	uint32_t crc = PDU_CRC_INIT;

	must(iov_count >= 0);
	for (int i = 0; i < iov_count; i++)
		crc = pdu_crc_update(crc, iov[i].iov_base, iov[i].iov_len);
	return pdu_crc_final(crc);
}
