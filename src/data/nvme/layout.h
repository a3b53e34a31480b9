/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * layout - how the specification's structures are laid over bytes.
 *
 * Fields are plain uintN_t in the wire's byte order, which is little-endian; Fathom runs on little-endian hosts only, and
 * that is asserted here and nowhere else. Structures are packed: a PDU is read in place in the receive buffer, at any
 * address. Bits inside a field are named by masks and shifts, not by bit-fields. Field names are the specification's.
 */
#ifndef NVME_LAYOUT_H
#define NVME_LAYOUT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire is little-endian, and so must the host be");

#define NVME_PACKED __attribute__((packed))

#define NVME_ASSERT_SIZE(type, bytes) static_assert(sizeof(type) == (bytes), #type " has the wrong size")
#define NVME_ASSERT_OFFSET(type, field, bytes)                                                                             \
	static_assert(offsetof(type, field) == (bytes), #type "." #field " is at the wrong offset")

#endif
