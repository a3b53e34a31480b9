/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_core - any bytes as a core file, plain or compressed, with and without a trace in it.
 *
 * Invariants: the file is refused with a reason, or all that it has is read: threads, mappings, memory, the crash,
 * backtraces, lists; without access outside of the file, and in finite time. Built by clang -fsanitize=fuzzer it fuzzes.
 * Built by gcc, or with -DFUZZ_REPLAY, it runs the given files, and with `--seeds DIR` it writes the seeds.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zstd.h>

#include "base/bits.h"
#include "inspect/core/core.h"

enum { UNPACKED_BYTES_MAX = 16 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Memory at the ends of mappings. */
static void read_memory(const struct core *core)
{
	for (uint32_t i = 0; i < core_info(core)->mapping_count && i < 64; i++) {
		struct core_mapping mapping;
		char bytes[64], text[64];

		core_mapping_at(core, i, &mapping);
		must(mapping.from < mapping.to);
		must(i == 0 || core_mapping_of(core, mapping.from, &mapping));
		(void)core_read(core, mapping.to - 8, bytes, sizeof(bytes));
		(void)core_read(core, mapping.from, bytes, min_u64(sizeof(bytes), mapping.to - mapping.from));
		(void)core_read_text(core, mapping.to - 3, text, sizeof(text));
	}
}

static void read_core(struct core *core)
{
	struct core_frame frames[CORE_FRAMES_MAX];
	struct core_crash crash;
	struct core_list list;
	const char *end;

	core_crash(core, &crash);
	must(crash.words[0]);
	for (uint32_t i = 0; i < core_info(core)->thread_count && i < 16; i++)
		must(core_backtrace(core, core_thread_at(core, i), frames, &end) <= CORE_FRAMES_MAX);
	for (uint32_t i = 0; core_list_name(i); i++)
		(void)core_list(core, i, &list);
	for (uint32_t i = 0; i < core_info(core)->remark_count; i++)
		must(core_remark_at(core, i)[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct rlimit limit = { .rlim_cur = UNPACKED_BYTES_MAX, .rlim_max = UNPACKED_BYTES_MAX };
	int fd = memfd_create("fuzz_core", MFD_CLOEXEC);
	struct fathom_fault why = { 0 };
	static bool limited;
	struct core *core;
	char path[64];

	if (!limited) {
		/* a few compressed bytes may unpack to a huge file */
		signal(SIGXFSZ, SIG_IGN);
		must(setrlimit(RLIMIT_FSIZE, &limit) == 0);
		must(setenv("TMPDIR", "/dev/shm", 1) == 0);
		limited = true;
	}
	must(fd >= 0);
	must(write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (core_open(path, NULL, &core, &why) != 0) {
		must(why.text[0]);
	} else {
		read_memory(core);
		read_core(core);
		core_close(core);
	}
	close(fd);
	return 0;
}

#if !defined(__clang__) || defined(FUZZ_REPLAY)

#include "../unit/inspect/core/make_core.h"
#include "replay.h"
#define TRACE_SEED_OBJECT "nvmf_req"
#define TRACE_SEED_POINT "nvmf_ctrlr_create"
#include "trace_seed.h"

static int write_seed(const char *folder, const char *name, const void *data, size_t bytes)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file)) {
		perror(path);
		return 1;
	}
	return 0;
}

static int write_seeds(const char *folder)
{
	static const uint8_t load[] = { 0x48, 0x8b, 0x40, 0x10 };
	static const struct made_core seeds[] = {
		{ .signal = 11,
		  .code = 1,
		  .address = 0x10,
		  .rip = MADE_CODE,
		  .rsp = MADE_STACK + 4096,
		  .instruction = load,
		  .instruction_bytes = 4 },
		{ .signal = 11,
		  .code = 128,
		  .rax = 0x6b6b6b6b6b6b6b6b,
		  .rip = MADE_CODE,
		  .instruction = load,
		  .instruction_bytes = 4 },
		{ .signal = 6, .code = -6, .address = MADE_TID },
	};
	static uint8_t bytes[MADE_BYTES_MAX], packed[MADE_BYTES_MAX];
	size_t count;

	for (size_t i = 0; i < ARRAY_COUNT(seeds); i++) {
		char name[32];

		count = make_core(&seeds[i], bytes);
		snprintf(name, sizeof(name), "seed-%zu", i);
		if (write_seed(folder, name, bytes, count) != 0)
			return 1;
	}
	count = ZSTD_compress(packed, sizeof(packed), bytes, count, 1);
	must(!ZSTD_isError(count));
	make_seed();
	make_seed_core();
	return write_seed(folder, "seed-zstd", packed, count) +
	       write_seed(folder, "seed-trace", &seed_core, sizeof(seed_core));
}

int main(int argc, char **argv)
{
	static uint8_t data[MADE_BYTES_MAX];

	return replay(argc, argv, write_seeds, data, sizeof(data));
}

#endif
