/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_stash - any bytes as a file of the stash: as a record under probes/, and as each file of a registration.
 *
 * Invariants: a record is refused with a reason, or encodes to the same bytes and decodes to an equal record. A tree with
 * any content in one file opens without access outside of it, accepts registrations, and removes all. Built by clang
 * -fsanitize=fuzzer it fuzzes. Built by gcc, or with -DFUZZ_REPLAY, it runs the given files, and with `--seeds DIR` it
 * writes the seeds.
 */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "inspect/probed/stash/record.h"
#include "inspect/probed/stash/stash.h"

enum { FILE_BYTES_MAX = 1 << 16, TREE_BYTES_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const types[] = { "int", "char *" };
static const uint8_t map[] = { 1 };
static const struct dof_site sites[] = { { 0x401000, false, "-4@%edi" }, { 0x401008, true, "" } };
static const struct dof_probe probes[] = { { .module = "program",
					     .function = "main",
					     .name = "go",
					     .native = types,
					     .native_count = 2,
					     .translated = types,
					     .translated_count = 1,
					     .map = map,
					     .sites = sites,
					     .site_count = 2 } };
static const struct dof_provider provider = { .name = "seed", .probe_count = 1, .probes = probes };
static const struct dof_set set = { .provider_count = 1, .providers = &provider };

/* ---- records ---- */

static void read_record(const uint8_t *data, size_t size)
{
	struct record record, again;
	struct fathom_fault why = { 0 };
	uint8_t *written;
	size_t bytes;

	if (record_decode(data, size, &record, &why) != 0) {
		must(why.error < 0 && why.text[0]);
		return;
	}
	bytes = record_bytes(record.set.providers, record.set.providers->probes, record.version);
	written = malloc(bytes);
	must(written);
	record_encode(record.set.providers, record.set.providers->probes, record.version, written);
	must(record_decode(written, bytes, &again, &why) == 0);
	must(dof_probe_equal(record.set.providers->probes, again.set.providers->probes));
	record_free(&again);
	record_free(&record);
	free(written);
}

/* ---- trees ---- */

static char directory[64];

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	return remove(path);
}

static uint32_t files_left;

static int count_file(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	files_left += S_ISREG(status->st_mode);
	return 0;
}

static void count_below(const char *folder)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", directory, folder);
	(void)nftw(path, count_file, 16, FTW_PHYS);
}

static void open_stash(struct stash **stash)
{
	const struct stash_options options = { .directory = directory };
	struct fathom_fault why = { 0 };

	if (stash_open(&options, stash, &why) != 0) {
		fprintf(stderr, "%s\n", why.text);
		abort();
	}
}

static void add(struct stash *stash, pid_t pid)
{
	const struct stash_process process = { .pid = pid, .uid = 10, .start_time = 1 };
	const struct stash_mapping mapping = { .device = 1, .inode = 2 };
	struct dof_input input = { .kind = DOF_KIND_USDT };
	struct fathom_fault why = { 0 };
	uint64_t generation;

	input.blocks[0] = (struct dof_block){ .base = 16, .data = "note", .bytes = 4 };
	input.blocks[1] = (struct dof_block){ .base = 32, .data = "rodata", .bytes = 6 };
	must(stash_add(stash,
		       &(struct stash_addition){ .process = &process, .mapping = &mapping, .input = &input, .set = &set },
		       &generation, &why) == 0);
}

static int read_and_parse(void *ctx, const struct stash_registration *registration)
{
	struct stash *stash = ctx;
	struct dof_input input;
	struct fathom_fault why = { 0 };
	void *memory;

	must(stash_read(stash, registration, &input, &memory, &why) == 0);
	must(input.blocks[0].bytes + input.blocks[1].bytes <= FILE_BYTES_MAX);
	free(memory);
	must(stash_reparsed(stash, registration, &set, &why) == 0);
	return 0;
}

static void damage(const char *name, const uint8_t *data, size_t size)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/stash/dof-pid/7/%s", directory, name);
	must(unlink(path) == 0);
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
	must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	close(fd);
}

/* The first byte selects the file that gets the rest. */
static void open_tree(const uint8_t *data, size_t size)
{
	static const char *const names[] = {
		"process",    "exec-mapping", "next-gen",	    "1-2/dh",
		"1-2/blocks", "1-2/raw",      "1-2/parsed/version", "1-2/parsed/seed7:program:main:go",
		"1-2/raw-1"
	};
	struct fathom_fault why = { 0 };
	struct stash *stash;

	snprintf(directory, sizeof(directory), "/dev/shm/stash-fuzz-XXXXXX");
	must(mkdtemp(directory));
	open_stash(&stash);
	add(stash, 7);
	stash_close(stash);
	damage(names[data[0] % ARRAY_COUNT(names)], data + 1, size - 1);
	open_stash(&stash);
	must(stash_walk(stash, read_and_parse, stash) == 0);
	add(stash, 8);
	for (pid_t pid = 7; pid < 9; pid++)
		must(stash_remove_process(stash, pid, &why) == 0);
	stash_close(stash);
	files_left = 0;
	count_below("probes");
	count_below("stash/dof");
	count_below("stash/dof-pid");
	must(files_left == 0);
	must(nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > FILE_BYTES_MAX)
		return 0;
	read_record(data, size);
	if (size > 0 && size < TREE_BYTES_MAX)
		open_tree(data, size);
	return 0;
}

#if !defined(__clang__) || defined(FUZZ_REPLAY)

#include "replay.h"

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
	static const char *const texts[] = { "\0"
					     "1 10\n",
					     "\1"
					     "1-2",
					     "\2",
					     "\4usdt 64 16 32 0\n",
					     "\4sdt 32 1 0 7\n",
					     "\5note" };
	int rc = 0;

	for (uint32_t version = RECORD_VERSION_MIN; version <= RECORD_VERSION_MAX; version++) {
		uint8_t data[1024];
		char name[32];

		record_encode(&provider, probes, version, data + 1);
		data[0] = 7;
		snprintf(name, sizeof(name), "record-%u", version);
		rc += write_seed(folder, name, data + 1, record_bytes(&provider, probes, version));
		snprintf(name, sizeof(name), "parsed-%u", version);
		rc += write_seed(folder, name, data, 1 + record_bytes(&provider, probes, version));
	}
	for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
		char name[32];

		snprintf(name, sizeof(name), "text-%zu", i);
		rc += write_seed(folder, name, texts[i], 1 + strlen(texts[i] + 1));
	}
	return rc;
}

int main(int argc, char **argv)
{
	static uint8_t data[FILE_BYTES_MAX];

	return replay(argc, argv, write_seeds, data, sizeof(data));
}

#endif
