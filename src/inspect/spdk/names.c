/* SPDX-License-Identifier: BSD-2-Clause */
/* names - SPDK's names for the numbers and letters of types and groups in the file. */
#include <stdio.h>

#include "inspect/spdk/internal.h"

struct name {
	uint32_t number;
	const char *name;
};

/* In the form that -e and trace_enable_tpoint_group accept. */
static const struct name groups[] = {
	{ 0x1, "iscsi_conn" }, { 0x2, "scsi" },	      { 0x3, "bdev" },	    { 0x4, "nvmf_rdma" }, { 0x5, "nvmf_tcp" },
	{ 0x6, "ftl" },	       { 0x8, "nvmf_fc" },    { 0x9, "dsa" },	    { 0xa, "thread" },	  { 0xb, "nvme_pcie" },
	{ 0xc, "iaa" },	       { 0xd, "nvme_tcp" },   { 0xe, "bdev_nvme" }, { 0xf, "sock" },	  { 0x10, "blob" },
	{ 0x11, "bdev_raid" }, { 0x12, "scheduler" },
};

static const struct name objects[] = {
	{ 0x1, "iscsi_pdu" },	  { 0x2, "bdev_io" },	   { 0x3, "nvme_pcie_req" }, { 0x4, "nvme_tcp_req" },
	{ 0x5, "bdev_nvme_io" },  { 0x6, "sock_req" },	   { 0x10, "scsi_task" },    { 0x40, "nvmf_rdma_req" },
	{ 0x80, "nvmf_tcp_req" }, { 0xa0, "nvmf_fc_req" }, { 0xb0, "blob_req" },     { 0xc0, "bdev_raid_io" },
};

static const struct name owners[] = {
	{ 0x1, "iscsi_conn" },	    { 0x2, "bdev" },	  { 0x3, "nvme_pcie_qpair" },
	{ 0x4, "nvme_tcp_qpair" },  { 0x5, "sock" },	  { 0x6, "reactor" },
	{ 0x7, "thread" },	    { 0x10, "scsi_dev" }, { 0x20, "ftl" },
	{ 0x30, "nvmf_tcp_qpair" },
};

static void copy_name(const struct name *names, size_t count, uint32_t number, const char *kind, char *name, size_t room)
{
	for (size_t i = 0; i < count; i++) {
		if (names[i].number == number) {
			snprintf(name, room, "%s", names[i].name);
			return;
		}
	}
	snprintf(name, room, "%s_%u", kind, number);
}

void name_of_group(uint32_t group, char *name, size_t room)
{
	copy_name(groups, ARRAY_COUNT(groups), group, "group", name, room);
}

void name_of_object(uint8_t type, char *name, size_t room)
{
	copy_name(objects, ARRAY_COUNT(objects), type, "object", name, room);
}

void name_of_owner(uint8_t type, char *name, size_t room)
{
	copy_name(owners, ARRAY_COUNT(owners), type, "owner", name, room);
}
