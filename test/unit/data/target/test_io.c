/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands of I/O queues, valid and invalid. */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include "data/store/bdev/bdev.h"

static struct rig_conn *admin, *io;
static uint16_t cntlid;
static uint8_t out[NVMF_IO_BYTES_DEFAULT + 4096], in[NVMF_IO_BYTES_DEFAULT + 4096];

static int setup(void **state)
{
	rig_setup(state);
	admin = rig_admin(0, &cntlid);
	io = rig_io(1, cntlid, 1);
	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (uint8_t)(i * 7 + i / 512);
	return 0;
}

static int teardown(void **state)
{
	rig_close(admin);
	rig_free(admin);
	rig_free(io);
	return rig_teardown(state);
}

static uint16_t transfer(uint8_t opcode, uint32_t nsid, void *data, uint64_t slba, uint32_t count)
{
	uint32_t bytes = count * RIG_BLOCK_BYTES;
	struct rig_cmd cmd = opcode == NVME_NVM_READ ? rig_c2h(opcode, nsid, data, bytes)
						     : rig_h2c(opcode, nsid, data, bytes);

	rig_blocks(&cmd, slba, count);
	return rig_exec(io, &cmd);
}

static void test_a_read_returns_the_written_data(void **state)
{
	static const uint32_t counts[] = { 1, 2, 8, 9, 256 };

	for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
		memset(in, 0, sizeof(in));
		assert_int_equal(transfer(NVME_NVM_WRITE, 1, out, 100, counts[i]), NVME_SC_SUCCESS);
		assert_int_equal(transfer(NVME_NVM_READ, 1, in, 100, counts[i]), NVME_SC_SUCCESS);
		assert_memory_equal(in, out, counts[i] * RIG_BLOCK_BYTES);
		assert_int_equal(transfer(NVME_NVM_COMPARE, 1, out, 100, counts[i]), NVME_SC_SUCCESS);
		assert_int_equal(transfer(NVME_NVM_COMPARE, 1, out + 1, 100, counts[i]), NVME_SC_COMPARE_FAILURE);
	}
}

static void test_ranges_are_checked(void **state)
{
	assert_int_equal(transfer(NVME_NVM_READ, 1, in, RIG_BLOCKS - 1, 1), NVME_SC_SUCCESS);
	assert_int_equal(transfer(NVME_NVM_READ, 1, in, RIG_BLOCKS - 1, 2), NVME_SC_LBA_OUT_OF_RANGE);
	assert_int_equal(transfer(NVME_NVM_WRITE, 1, out, RIG_BLOCKS, 1), NVME_SC_LBA_OUT_OF_RANGE);
	assert_int_equal(transfer(NVME_NVM_READ, 1, in, UINT64_MAX, 1), NVME_SC_LBA_OUT_OF_RANGE);
	assert_int_equal(transfer(NVME_NVM_READ, 1, in, UINT64_MAX - 1, 8), NVME_SC_LBA_OUT_OF_RANGE);
	/* MDTS */
	assert_int_equal(transfer(NVME_NVM_READ, 1, in, 0, 257), NVME_SC_INVALID_FIELD);
}

static void test_namespaces_must_exist(void **state)
{
	static const uint32_t nsids[] = { 0, 2, 32, 33, 0xfffffffe, NVME_NSID_ALL };

	for (size_t i = 0; i < ARRAY_COUNT(nsids); i++) {
		struct rig_cmd flush = rig_plain(NVME_NVM_FLUSH, nsids[i]);

		assert_int_equal(transfer(NVME_NVM_READ, nsids[i], in, 0, 1), NVME_SC_INVALID_NAMESPACE);
		assert_int_equal(rig_exec(io, &flush), NVME_SC_INVALID_NAMESPACE);
		assert_true(flush.dnr);
	}
}

static void test_unknown_opcodes_are_refused(void **state)
{
	static const uint8_t known[] = { NVME_NVM_FLUSH,     NVME_NVM_WRITE,	    NVME_NVM_READ,
					 NVME_NVM_COMPARE,   NVME_NVM_WRITE_ZEROES, NVME_NVM_DATASET_MANAGEMENT,
					 NVME_OPCODE_FABRICS };

	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		struct rig_cmd cmd = rig_plain((uint8_t)opcode, 1);

		if (memchr(known, (int)opcode, sizeof(known)))
			continue;
		assert_int_equal(rig_exec(io, &cmd), NVME_SC_INVALID_OPCODE);
		assert_true(cmd.dnr);
	}
}

static uint16_t altered(struct rig_cmd cmd)
{
	cmd.cmd.cid = 0;
	return rig_exec(io, &cmd);
}

static void test_data_pointers_are_checked(void **state)
{
	struct rig_cmd read = rig_c2h(NVME_NVM_READ, 1, in, 4096), write = rig_h2c(NVME_NVM_WRITE, 1, out, 4096), cmd;

	rig_blocks(&read, 0, 8);
	rig_blocks(&write, 0, 8);
	assert_int_equal(altered(read), NVME_SC_SUCCESS);
	assert_int_equal(altered(write), NVME_SC_SUCCESS);
	cmd = read;
	cmd.cmd.sgl.length = 4095;
	assert_int_equal(altered(cmd), NVME_SC_DATA_SGL_LENGTH_INVALID);
	cmd.cmd.sgl.length = 8192;
	assert_int_equal(altered(cmd), NVME_SC_DATA_SGL_LENGTH_INVALID);
	cmd = read;
	cmd.cmd.sgl.id = NVME_SGL_ID_DATA_BLOCK_OFFSET;
	assert_int_equal(altered(cmd), NVME_SC_SGL_TYPE_INVALID);
	cmd.cmd.sgl.id = NVME_SGL_KEYED_DATA_BLOCK << 4;
	assert_int_equal(altered(cmd), NVME_SC_SGL_TYPE_INVALID);
	cmd = write;
	cmd.cmd.sgl.address = 512;
	assert_int_equal(altered(cmd), NVME_SC_SGL_OFFSET_INVALID);
	cmd = write;
	cmd.bytes = 2048; /* data was in the capsule */
	assert_int_equal(altered(cmd), NVME_SC_DATA_SGL_LENGTH_INVALID);
	cmd = read;
	cmd.cmd.flags = NVME_CMD_PSDT_PRP;
	assert_int_equal(altered(cmd), NVME_SC_INVALID_FIELD);
	cmd.cmd.flags = NVME_CMD_PSDT_SGL | NVME_CMD_FUSE_FIRST;
	assert_int_equal(altered(cmd), NVME_SC_INVALID_FIELD);
	cmd.cmd.flags = NVME_CMD_PSDT_SGL_METADATA;
	assert_int_equal(altered(cmd), NVME_SC_SUCCESS);
}

static void test_write_zeroes_and_deallocate_make_zeroes(void **state)
{
	struct nvme_dsm_range ranges[3] = { { .slba = 0, .nlb = 4 }, { .slba = 100, .nlb = 0 }, { .slba = 6, .nlb = 2 } };
	struct rig_cmd zeroes = rig_plain(NVME_NVM_WRITE_ZEROES, 1);
	struct rig_cmd dsm = rig_h2c(NVME_NVM_DATASET_MANAGEMENT, 1, ranges, sizeof(ranges));
	static const uint8_t none[16 * RIG_BLOCK_BYTES];

	assert_int_equal(transfer(NVME_NVM_WRITE, 1, out, 0, 16), NVME_SC_SUCCESS);
	rig_blocks(&zeroes, 8, 8);
	assert_int_equal(rig_exec(io, &zeroes), NVME_SC_SUCCESS);
	dsm.cmd.cdw10 = 2;
	assert_int_equal(altered(dsm), NVME_SC_SUCCESS); /* without the AD attribute nothing changes */
	assert_int_equal(transfer(NVME_NVM_READ, 1, in, 0, 8), NVME_SC_SUCCESS);
	assert_memory_equal(in, out, 8 * RIG_BLOCK_BYTES);
	dsm.cmd.cdw11 = NVME_DSM_CDW11_AD;
	assert_int_equal(altered(dsm), NVME_SC_SUCCESS);
	assert_int_equal(transfer(NVME_NVM_READ, 1, in, 0, 16), NVME_SC_SUCCESS);
	assert_memory_equal(in, none, 4 * RIG_BLOCK_BYTES);
	assert_memory_equal(in + 4 * RIG_BLOCK_BYTES, out + 4 * RIG_BLOCK_BYTES, 2 * RIG_BLOCK_BYTES);
	assert_memory_equal(in + 6 * RIG_BLOCK_BYTES, none, 10 * RIG_BLOCK_BYTES);
	/* if one range is beyond the end, no range is changed */
	assert_int_equal(transfer(NVME_NVM_WRITE, 1, out, 0, 16), NVME_SC_SUCCESS);
	ranges[2].slba = RIG_BLOCKS - 1;
	assert_int_equal(altered(dsm), NVME_SC_LBA_OUT_OF_RANGE);
	assert_int_equal(transfer(NVME_NVM_READ, 1, in, 0, 16), NVME_SC_SUCCESS);
	assert_memory_equal(in, out, 16 * RIG_BLOCK_BYTES);
	rig_blocks(&zeroes, RIG_BLOCKS, 1);
	assert_int_equal(altered(zeroes), NVME_SC_LBA_OUT_OF_RANGE);
}

static void test_write_zeroes_accepts_up_to_the_limit_in_identify(void **state)
{
	struct rig_cmd zeroes = rig_plain(NVME_NVM_WRITE_ZEROES, 2);

	rig_null("n0", 1 << 20, 512);
	assert_int_equal(rig_add_ns("n0", 2, NULL), 0);
	rig_blocks(&zeroes, 0, 32768); /* WZSL 12: 16 MiB */
	assert_int_equal(rig_exec(io, &zeroes), NVME_SC_SUCCESS);
	rig_blocks(&zeroes, 0, 32769);
	assert_int_equal(altered(zeroes), NVME_SC_INVALID_FIELD);
}

/* Assert that blocks of namespace 1 are unchanged (`kept`) or zeroes. */
static void assert_blocks(uint64_t slba, uint32_t count, bool kept)
{
	static const uint8_t none[RIG_BLOCK_BYTES];

	assert_int_equal(transfer(NVME_NVM_READ, 1, in, slba, count), NVME_SC_SUCCESS);
	for (uint32_t i = 0; i < count; i++)
		assert_memory_equal(in + i * RIG_BLOCK_BYTES, kept ? out : none, RIG_BLOCK_BYTES);
}

static void fill_blocks(uint64_t slba, uint32_t count)
{
	while (count-- > 0)
		assert_int_equal(transfer(NVME_NVM_WRITE, 1, out, slba++, 1), NVME_SC_SUCCESS);
}

static void deallocate(struct nvme_dsm_range *ranges, uint32_t count)
{
	struct rig_cmd dsm = rig_h2c(NVME_NVM_DATASET_MANAGEMENT, 1, ranges, count * (uint32_t)sizeof(*ranges));

	dsm.cmd.cdw10 = count - 1;
	dsm.cmd.cdw11 = NVME_DSM_CDW11_AD;
	assert_int_equal(rig_exec(io, &dsm), NVME_SC_SUCCESS);
}

/* Connect `admin` and `io` to another subsystem, with its own namespace 1 and this DMRSL. */
static struct nvme_identify_controller_nvm move_to_dmrsl(uint32_t dmrsl)
{
	struct nvme_identify_controller_nvm id;
	struct rig_cmd identify = rig_identify(NVME_CNS_CONTROLLER_IOCS, 0, &id), connected;
	struct rig_connect connect = rig_connect_admin();
	struct nvmf_subsystem_options options;

	nvmf_subsystem_options_init(&options);
	snprintf(options.nqn, sizeof(options.nqn), RIG_NQN_TWO);
	options.allow_any_host = true;
	options.dmrsl = dmrsl;
	assert_int_equal(rig_create(&options), 0);
	assert_int_equal(rig_address_op(true, RIG_NQN_TWO, "127.0.0.1", "4420"), 0);
	rig_malloc("two", RIG_BLOCKS, RIG_BLOCK_BYTES);
	assert_int_equal(rig_add_ns_to(RIG_NQN_TWO, "two", 1), 0);
	rig_close(admin);
	rig_free(admin);
	rig_free(io);
	admin = rig_open(0);
	connect.subnqn = RIG_NQN_TWO;
	assert_int_equal(rig_connect(admin, &connect, &connected), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, RIG_CC_ENABLED), NVME_SC_SUCCESS);
	connect = rig_connect_io((uint16_t)connected.cpl.cdw0, 1);
	connect.subnqn = RIG_NQN_TWO;
	io = rig_open(1);
	assert_int_equal(rig_connect(io, &connect, NULL), NVME_SC_SUCCESS);
	assert_int_equal(rig_exec(admin, &identify), NVME_SC_SUCCESS);
	return id;
}

static void test_deallocation_stops_at_the_limit_of_each_range(void **state)
{
	struct nvme_dsm_range ranges[3] = { { 0, 20, 0 }, { 0, 16, 32 }, { 0, 17, 64 } }; /* attributes, nlb, slba */
	struct nvme_identify_controller_nvm id = move_to_dmrsl(16);

	assert_int_equal(id.dmrl, 255);
	assert_int_equal(id.dmrsl, 16);
	assert_true(id.dmsl == 255 * 16);
	fill_blocks(0, 96);
	deallocate(ranges, 3);
	assert_blocks(0, 16, false);
	assert_blocks(16, 16, true);
	assert_blocks(32, 16, false);
	assert_blocks(48, 16, true);
	assert_blocks(64, 16, false);
	assert_blocks(80, 16, true);
}

/* Blocks beyond the limit of one range count towards the limit of all ranges. */
static void test_deallocation_stops_at_the_limit_of_all_ranges(void **state)
{
	struct nvme_dsm_range ranges[3] = { { 0, 4076, 0 }, { 0, 8, 5000 }, { 0, 1, 6000 } };
	struct nvme_identify_controller_nvm id = move_to_dmrsl(16);

	assert_true(id.dmsl == 4080);
	fill_blocks(0, 32);
	fill_blocks(5000, 8);
	fill_blocks(6000, 1);
	deallocate(ranges, 3);
	assert_blocks(0, 16, false);
	assert_blocks(16, 16, true);
	assert_blocks(5000, 4, false);
	assert_blocks(5004, 4, true);
	assert_blocks(6000, 1, true);
}

static void test_without_limits_all_ranges_are_deallocated(void **state)
{
	struct nvme_identify_controller_nvm id = move_to_dmrsl(0);
	struct nvme_dsm_range ranges[NVME_DSM_RANGES_MAX];

	/* all limits are set or none */
	assert_int_equal(id.dmrl, 0);
	assert_int_equal(id.dmrsl, 0);
	assert_true(id.dmsl == 0);
	memset(ranges, 0, sizeof(ranges));
	ranges[0].nlb = RIG_BLOCKS;
	fill_blocks(0, 1);
	fill_blocks(RIG_BLOCKS - 1, 1);
	deallocate(ranges, 1);
	assert_blocks(0, 1, false);
	assert_blocks(RIG_BLOCKS - 1, 1, false);
	ranges[255].nlb = 1;
	fill_blocks(0, 1);
	ranges[0].nlb = 0;
	deallocate(ranges, 256);
	assert_blocks(0, 1, false);
}

static void test_deallocation_is_reported_also_for_hosts_without_limits(void **state)
{
	struct nvme_identify_controller id;
	struct rig_cmd identify = rig_identify(NVME_CNS_CONTROLLER, 0, &id);

	assert_int_equal(rig_exec(admin, &identify), NVME_SC_SUCCESS);
	assert_true(id.oncs & NVME_ONCS_DSM);
}

/* DMRL is at most 255: of 256 ranges the last is not processed. */
static void test_the_most_ranges_are_deallocated(void **state)
{
	struct nvme_dsm_range ranges[NVME_DSM_RANGES_MAX];
	struct rig_cmd dsm = rig_h2c(NVME_NVM_DATASET_MANAGEMENT, 1, ranges, sizeof(ranges));

	memset(ranges, 0, sizeof(ranges));
	for (uint32_t i = 0; i < ARRAY_COUNT(ranges); i++) {
		ranges[i].slba = i;
		ranges[i].nlb = 1;
	}
	assert_int_equal(transfer(NVME_NVM_WRITE, 1, out, 0, 256), NVME_SC_SUCCESS);
	dsm.cmd.cdw10 = 255;
	dsm.cmd.cdw11 = NVME_DSM_CDW11_AD;
	assert_int_equal(rig_exec(io, &dsm), NVME_SC_SUCCESS);
	assert_int_equal(transfer(NVME_NVM_READ, 1, in, 0, 256), NVME_SC_SUCCESS);
	for (size_t i = 0; i < 255 * RIG_BLOCK_BYTES; i++)
		assert_int_equal(in[i], 0);
	assert_memory_equal(in + 255 * RIG_BLOCK_BYTES, out + 255 * RIG_BLOCK_BYTES, RIG_BLOCK_BYTES);
	/* the same on a disk that completes them one by one */
	rig_disk("d0", false, false);
	assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
	dsm.cmd.nsid = 2;
	dsm.cmd.cid = 0;
	rig_submit(io, &dsm);
	for (unsigned int i = 0; i < 255; i++) {
		assert_false(dsm.done);
		assert_int_equal(rig_disk_held(), 1);
		rig_disk_release(IO_SUCCESS);
	}
	assert_true(dsm.done);
	assert_int_equal(dsm.status, NVME_SC_SUCCESS);
	assert_int_equal(rig_disk_count(IO_TYPE_UNMAP), 255);
}

/* Deallocation is a hint: it succeeds without effect, and the namespace does not report zeroes. */
static void test_deallocation_on_a_device_without_unmap_has_no_effect(void **state)
{
	struct nvme_dsm_range range = { .slba = 1, .nlb = 4 };
	struct rig_cmd dsm = rig_h2c(NVME_NVM_DATASET_MANAGEMENT, 2, &range, sizeof(range));
	struct nvme_identify_ns id;
	struct rig_cmd identify = rig_identify(NVME_CNS_NS, 1, &id);

	assert_int_equal(rig_exec(admin, &identify), NVME_SC_SUCCESS);
	assert_int_equal(id.dlfeat, NVME_DLFEAT_READ_ZEROES | NVME_DLFEAT_WRITE_ZEROES_DEALLOCATE);
	rig_disk("d0", false, false);
	rig_disk_hold(false);
	rig_disk_lacks(IO_TYPE_UNMAP);
	assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
	identify = rig_identify(NVME_CNS_NS, 2, &id);
	assert_int_equal(rig_exec(admin, &identify), NVME_SC_SUCCESS);
	assert_int_equal(id.dlfeat, 0);
	dsm.cmd.cdw11 = NVME_DSM_CDW11_AD;
	assert_int_equal(altered(dsm), NVME_SC_SUCCESS);
	assert_int_equal(rig_disk_count(IO_TYPE_UNMAP) + rig_disk_count(IO_TYPE_WRITE_ZEROES), 0);
	/* an invalid command is still an error */
	range.slba = RIG_BLOCKS;
	assert_int_equal(altered(dsm), NVME_SC_LBA_OUT_OF_RANGE);
}

/* Write Zeroes with Deallocate gives space back: an unmapped block reads as zeroes. */
static void test_write_zeroes_with_deallocate_is_an_unmap_where_the_device_has_it(void **state)
{
	struct rig_cmd zeroes = rig_plain(NVME_NVM_WRITE_ZEROES, 2);

	rig_disk("d0", true, false);
	rig_disk_hold(false);
	assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
	rig_blocks(&zeroes, 1, 4);
	assert_int_equal(altered(zeroes), NVME_SC_SUCCESS);
	assert_int_equal(rig_disk_count(IO_TYPE_UNMAP), 0);
	assert_int_equal(rig_disk_count(IO_TYPE_WRITE_ZEROES), 1);
	zeroes.cmd.cdw12 |= NVME_CDW12_DEAC | NVME_CDW12_FUA;
	assert_int_equal(altered(zeroes), NVME_SC_SUCCESS);
	assert_int_equal(rig_disk_count(IO_TYPE_UNMAP), 1);
	assert_int_equal(rig_disk_count(IO_TYPE_WRITE_ZEROES), 1);
	assert_int_equal(rig_disk_count(IO_TYPE_FLUSH), 1);
	rig_disk_lacks(IO_TYPE_UNMAP);
	assert_int_equal(altered(zeroes), NVME_SC_SUCCESS);
	assert_int_equal(rig_disk_count(IO_TYPE_UNMAP), 1);
	assert_int_equal(rig_disk_count(IO_TYPE_WRITE_ZEROES), 2);
}

static void test_fua_and_a_disabled_cache_cause_flushes(void **state)
{
	struct rig_cmd write = rig_h2c(NVME_NVM_WRITE, 2, out, 512);
	struct rig_cmd features = rig_plain(NVME_ADMIN_SET_FEATURES, 0);

	rig_disk("d0", true, false);
	rig_disk_hold(false);
	assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
	rig_blocks(&write, 0, 1);
	assert_int_equal(altered(write), NVME_SC_SUCCESS);
	assert_int_equal(rig_disk_count(IO_TYPE_FLUSH), 0);
	write.cmd.cdw12 |= NVME_CDW12_FUA;
	assert_int_equal(altered(write), NVME_SC_SUCCESS);
	assert_int_equal(rig_disk_count(IO_TYPE_FLUSH), 1);
	features.cmd.cdw10 = NVME_FEATURE_VOLATILE_WRITE_CACHE;
	assert_int_equal(rig_exec(admin, &features), NVME_SC_SUCCESS);
	write.cmd.cdw12 &= ~(uint32_t)NVME_CDW12_FUA;
	assert_int_equal(altered(write), NVME_SC_SUCCESS);
	assert_int_equal(rig_disk_count(IO_TYPE_FLUSH), 2);
	assert_int_equal(rig_disk_count(IO_TYPE_WRITE), 3);
}

static void test_fua_is_a_durable_write_where_the_device_has_them(void **state)
{
	struct rig_cmd write = rig_h2c(NVME_NVM_WRITE, 2, out, 512), zeroes = rig_plain(NVME_NVM_WRITE_ZEROES, 2);

	rig_disk_durable(true);
	rig_disk("d0", true, false);
	rig_disk_durable(false);
	rig_disk_hold(false);
	assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
	rig_blocks(&write, 0, 1);
	write.cmd.cdw12 |= NVME_CDW12_FUA;
	assert_int_equal(altered(write), NVME_SC_SUCCESS);
	assert_int_equal(rig_disk_durable_count(), 1);
	assert_int_equal(rig_disk_count(IO_TYPE_FLUSH), 0);
	write.cmd.cdw12 &= ~(uint32_t)NVME_CDW12_FUA;
	assert_int_equal(altered(write), NVME_SC_SUCCESS);
	assert_int_equal(rig_disk_durable_count(), 1);
	zeroes.cmd.cdw12 |= NVME_CDW12_FUA;
	assert_int_equal(rig_exec(io, &zeroes), NVME_SC_SUCCESS);
	assert_int_equal(rig_disk_count(IO_TYPE_FLUSH), 1);
}

static void test_io_statuses_map_to_nvme_statuses(void **state)
{
	static const struct {
		enum io_status io;
		uint16_t read, write;
		bool dnr;
	} rows[] = {
		{ IO_FAILED, NVME_SC_INTERNAL_ERROR, NVME_SC_INTERNAL_ERROR, false },
		{ IO_MEDIA_ERROR, NVME_SC_UNRECOVERED_READ_ERROR, NVME_SC_WRITE_FAULT, false },
		{ IO_NO_SPACE, NVME_SC_CAPACITY_EXCEEDED, NVME_SC_CAPACITY_EXCEEDED, true },
		{ IO_READ_ONLY, NVME_SC_NAMESPACE_WRITE_PROTECTED, NVME_SC_NAMESPACE_WRITE_PROTECTED, true },
		{ IO_GONE, NVME_SC_NAMESPACE_NOT_READY, NVME_SC_NAMESPACE_NOT_READY, false },
		{ IO_ABORTED, NVME_SC_ABORTED_BY_REQUEST, NVME_SC_ABORTED_BY_REQUEST, false },
	};

	rig_disk("d0", false, false);
	assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		struct rig_cmd read = rig_c2h(NVME_NVM_READ, 2, in, 512), write = rig_h2c(NVME_NVM_WRITE, 2, out, 512);

		rig_submit(io, &read);
		rig_submit(io, &write);
		assert_false(read.done || write.done);
		rig_disk_release((int)rows[i].io);
		assert_int_equal(read.status, rows[i].read);
		assert_int_equal(write.status, rows[i].write);
		assert_int_equal(read.dnr, rows[i].dnr);
		assert_int_equal(read.received_bytes, 0);
	}
}

static void test_a_read_only_disk_is_write_protected(void **state)
{
	struct rig_cmd zeroes = rig_plain(NVME_NVM_WRITE_ZEROES, 2);

	rig_disk("d0", false, true);
	rig_disk_hold(false);
	assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
	assert_int_equal(transfer(NVME_NVM_WRITE, 2, out, 0, 1), NVME_SC_NAMESPACE_WRITE_PROTECTED);
	assert_int_equal(rig_exec(io, &zeroes), NVME_SC_NAMESPACE_WRITE_PROTECTED);
	assert_int_equal(transfer(NVME_NVM_READ, 2, in, 0, 1), NVME_SC_SUCCESS);
}

static void make_read_only(void *ctx)
{
	bdev_make_read_only(bdev_find("d0"));
}

/* A volume whose file could not be synced. */
static void test_a_disk_that_becomes_read_only_is_write_protected(void **state)
{
	struct nvme_identify_ns *id = (struct nvme_identify_ns *)in;
	struct rig_cmd identify = rig_c2h(NVME_ADMIN_IDENTIFY, 2, in, 4096);
	struct rig_cmd zeroes = rig_plain(NVME_NVM_WRITE_ZEROES, 2);

	rig_disk("d0", false, false);
	rig_disk_hold(false);
	assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
	assert_int_equal(transfer(NVME_NVM_WRITE, 2, out, 0, 1), NVME_SC_SUCCESS);
	rig_call(thread_control(), make_read_only, NULL);
	rig_run();
	assert_int_equal(transfer(NVME_NVM_WRITE, 2, out, 0, 1), NVME_SC_NAMESPACE_WRITE_PROTECTED);
	assert_int_equal(rig_exec(io, &zeroes), NVME_SC_NAMESPACE_WRITE_PROTECTED);
	assert_int_equal(transfer(NVME_NVM_READ, 2, in, 0, 1), NVME_SC_SUCCESS);
	assert_int_equal(rig_disk_count(IO_TYPE_WRITE), 1);
	assert_int_equal(rig_exec(admin, &identify), NVME_SC_SUCCESS);
	assert_int_equal(id->nsattr, NVME_NSATTR_WRITE_PROTECTED);
}

static void test_null_needs_no_buffer_and_malloc_completes_inside_submit(void **state)
{
	struct rig_cmd read = rig_c2h(NVME_NVM_READ, 2, in, 512), write = rig_h2c(NVME_NVM_WRITE, 1, out, 512);

	rig_null("n0", 1000, 512);
	assert_int_equal(rig_add_ns("n0", 2, NULL), 0);
	assert_int_equal(rig_exec(io, &read), NVME_SC_SUCCESS);
	assert_true(read.reads_zeroes);
	assert_int_equal(rig_exec(io, &write), NVME_SC_SUCCESS);
	assert_true(write.inline_done);
	assert_int_equal(write.transfer, NVMF_TRANSFER_H2C);
}

static void test_the_submission_queue_head_follows_and_wraps(void **state)
{
	struct rig_connect connect = rig_connect_io(cntlid, 2);
	struct rig_conn *conn = rig_open(0);
	struct rig_cmd flush;

	connect.sqsize = 3;
	assert_int_equal(rig_connect(conn, &connect, &flush), NVME_SC_SUCCESS);
	assert_int_equal(flush.cpl.sqhd, 1);
	for (uint16_t i = 2; i < 20; i++) {
		flush = rig_plain(NVME_NVM_FLUSH, 1);
		assert_int_equal(rig_exec(conn, &flush), NVME_SC_SUCCESS);
		assert_int_equal(flush.cpl.sqhd, i % 4);
		assert_int_equal(flush.cpl.sqid, 2);
	}
	rig_close(conn);
	rig_free(conn);
}

static void test_commands_over_the_queue_size_end_the_connection(void **state)
{
	struct rig_connect connect = rig_connect_io(cntlid, 2);
	struct rig_conn *conn = rig_open(0);
	struct rig_cmd reads[5];

	rig_disk("d0", false, false);
	assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
	connect.sqsize = 3;
	assert_int_equal(rig_connect(conn, &connect, NULL), NVME_SC_SUCCESS);
	for (int i = 0; i < 5; i++) {
		reads[i] = rig_c2h(NVME_NVM_READ, 2, in, 512);
		assert_null(conn->reason);
		rig_submit(conn, &reads[i]);
	}
	assert_non_null(conn->reason);
	assert_true(reads[4].done);
	assert_int_equal(reads[4].status, NVME_SC_COMMAND_SEQUENCE_ERROR);
	assert_false(conn->closed);
	rig_disk_release(IO_SUCCESS);
	assert_true(conn->closed);
	rig_free(conn);
}

/* The queue pair closes with a command in each state. */
static void test_closing_ends_commands_in_each_state(void **state)
{
	struct rig_cmd at_disk, in_transfer, waiting, completed, admin_waiting;
	uint8_t page[NVME_IDENTIFY_BYTES];

	rig_disk("d0", false, false);
	assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
	completed = rig_c2h(NVME_NVM_READ, 1, in, 512);
	completed.hold_response = true;
	rig_submit(io, &completed);
	assert_true(completed.done);
	in_transfer = rig_h2c(NVME_NVM_WRITE, 1, out, 8192);
	rig_blocks(&in_transfer, 0, 16);
	in_transfer.hold_transfer = true;
	rig_submit(io, &in_transfer);
	assert_int_equal(rig_subsystem(nvmf_subsystem_pause, RIG_NQN), 0);
	waiting = rig_c2h(NVME_NVM_READ, 1, in, 512);
	rig_submit(io, &waiting);
	admin_waiting = rig_identify(NVME_CNS_NS, 1, page);
	rig_submit(admin, &admin_waiting);
	assert_false(waiting.done || in_transfer.done || admin_waiting.done);
	rig_close(io);
	assert_true(waiting.done && in_transfer.done);
	assert_int_equal(waiting.status, NVME_SC_ABORTED_SQ_DELETION);
	assert_int_equal(in_transfer.status, NVME_SC_ABORTED_SQ_DELETION);
	assert_false(io->closed); /* the response is not sent yet */
	rig_sent(&completed);
	assert_true(io->closed);
	assert_int_equal(rig_subsystem(nvmf_subsystem_resume, RIG_NQN), 0);
	assert_true(admin_waiting.done);
	assert_int_equal(admin_waiting.status, NVME_SC_SUCCESS);
	/* one command at the disk */
	rig_free(io);
	io = rig_io(0, cntlid, 7);
	at_disk = rig_c2h(NVME_NVM_READ, 2, in, 512);
	rig_submit(io, &at_disk);
	rig_close(io);
	assert_false(at_disk.done || io->closed);
	rig_disk_release(IO_SUCCESS);
	assert_true(at_disk.done && io->closed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_a_read_returns_the_written_data),
		T(test_ranges_are_checked),
		T(test_namespaces_must_exist),
		T(test_unknown_opcodes_are_refused),
		T(test_data_pointers_are_checked),
		T(test_write_zeroes_and_deallocate_make_zeroes),
		T(test_write_zeroes_accepts_up_to_the_limit_in_identify),
		T(test_deallocation_stops_at_the_limit_of_each_range),
		T(test_deallocation_stops_at_the_limit_of_all_ranges),
		T(test_without_limits_all_ranges_are_deallocated),
		T(test_deallocation_is_reported_also_for_hosts_without_limits),
		T(test_the_most_ranges_are_deallocated),
		T(test_deallocation_on_a_device_without_unmap_has_no_effect),
		T(test_write_zeroes_with_deallocate_is_an_unmap_where_the_device_has_it),
		T(test_fua_and_a_disabled_cache_cause_flushes),
		T(test_fua_is_a_durable_write_where_the_device_has_them),
		T(test_io_statuses_map_to_nvme_statuses),
		T(test_a_read_only_disk_is_write_protected),
		T(test_a_disk_that_becomes_read_only_is_write_protected),
		T(test_null_needs_no_buffer_and_malloc_completes_inside_submit),
		T(test_the_submission_queue_head_follows_and_wraps),
		T(test_commands_over_the_queue_size_end_the_connection),
		T(test_closing_ends_commands_in_each_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
