/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_core - any bytes as a core file.
 *
 * Invariants: the file is refused with a reason, or all that it has is read: threads, mappings, memory, the crash,
 * backtraces, lists; without access outside of the file, and in finite time. Built by clang -fsanitize=fuzzer it fuzzes.
 * Built by gcc, or with -DFUZZ_REPLAY, it runs the given files, and with `--seeds DIR` it writes the seeds.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bits.h"
#include "inspect/core/core.h"

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
	int fd = memfd_create("fuzz_core", MFD_CLOEXEC);
	struct fathom_fault why = { 0 };
	struct core *core;
	char path[64];

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
	static uint8_t bytes[MADE_BYTES_MAX];

	for (size_t i = 0; i < ARRAY_COUNT(seeds); i++) {
		size_t count = make_core(&seeds[i], bytes);
		char path[512];
		FILE *file;

		snprintf(path, sizeof(path), "%s/seed-%zu", folder, i);
		file = fopen(path, "w");
		if (!file || fwrite(bytes, 1, count, file) != count || fclose(file)) {
			perror(path);
			return 1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	static uint8_t data[MADE_BYTES_MAX];

	return replay(argc, argv, write_seeds, data, sizeof(data));
}

#endif
