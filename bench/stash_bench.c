/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stash_bench - what it costs to put a registration into the stash and to take it out, beside the floor: the bare system
 * calls that make the same files and links, and remove them, with nothing checked, staged or counted.
 *
 * Both take turns, on a tmpfs; each figure is the median. Prints a JSON line for each number of probes, which are all of
 * one provider and one function, as objects made by dtrace -G often have them.
 *
 *     stash-bench [FOLDER]
 */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/fault.h"
#include "inspect/probed/stash/record.h"
#include "inspect/probed/stash/stash.h"
#include "median.h"

enum { ROUNDS_MAX = 401, PROBES_BUDGET = 60000, NAME_BYTES = 64, BYTES_A_PROBE = 113, PID = 4711 };

static const uint32_t counts[] = { 2, 10, 100, 1000, 5000 };

enum figure { ADD, ADD_FLOOR, REMOVE, REMOVE_FLOOR, FIGURES };

static struct {
	struct dof_provider provider;
	struct dof_set set;
	struct dof_input input;
	struct dof_probe *probes;
	struct dof_site *sites;
	char (*names)[NAME_BYTES];
	uint8_t *record;
	int root, parsed, function; /* of the floor */
	double us[FIGURES][ROUNDS_MAX];
} bench;

static void make_set(uint32_t count)
{
	static const char *const types[] = { "int", "char *" };
	static const uint8_t map[] = { 0, 1 };
	uint8_t *raw = calloc(count, BYTES_A_PROBE);

	bench.probes = calloc(count, sizeof(*bench.probes));
	bench.sites = calloc(count, sizeof(*bench.sites));
	bench.names = calloc(count, sizeof(*bench.names));
	must(raw && bench.probes && bench.sites && bench.names);
	for (uint32_t i = 0; i < count; i++) {
		snprintf(bench.names[i], NAME_BYTES, "probe-%05u", i);
		bench.sites[i] = (struct dof_site){ .address = 0x401000 + 16ull * i, .args = "" };
		bench.probes[i] = (struct dof_probe){ .module = "program",
						      .function = "main",
						      .name = bench.names[i],
						      .native = types,
						      .native_count = 2,
						      .translated = types,
						      .translated_count = 2,
						      .map = map,
						      .sites = &bench.sites[i],
						      .site_count = 1 };
	}
	bench.provider = (struct dof_provider){ .name = "many", .probe_count = count, .probes = bench.probes };
	bench.set = (struct dof_set){ .provider_count = 1, .providers = &bench.provider };
	bench.input = (struct dof_input){ .kind = DOF_KIND_DOF, .helper = { .module = "program" } };
	bench.input.blocks[0] = (struct dof_block){ .data = raw, .bytes = (size_t)count * BYTES_A_PROBE };
	bench.record = malloc(record_bytes(&bench.provider, &bench.probes[count - 1], RECORD_VERSION_MAX));
	must(bench.record);
}

static void free_set(void)
{
	free((void *)(uintptr_t)bench.input.blocks[0].data);
	free(bench.probes);
	free(bench.sites);
	free(bench.names);
	free(bench.record);
}

/* ---- the floor ---- */

static void write_file(int at, const char *name, const void *data, size_t bytes)
{
	int fd = openat(at, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);

	must(fd >= 0);
	must(write(fd, data, bytes) == (ssize_t)bytes);
	close(fd);
}

static int make_folder(int at, const char *name)
{
	int fd;

	must(mkdirat(at, name, 0755) == 0);
	fd = openat(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	must(fd >= 0);
	return fd;
}

static void add_floor(uint32_t count)
{
	int process, mapping, fd;

	process = make_folder(bench.root, "dof-pid/4711");
	mapping = make_folder(process, "2049-55");
	write_file(mapping, "raw", bench.input.blocks[0].data, bench.input.blocks[0].bytes);
	must(linkat(mapping, "raw", bench.root, "dof/2049-55", 0) == 0);
	write_file(mapping, "dh", &bench.input.helper, sizeof(bench.input.helper));
	write_file(process, "exec-mapping", "2049-77", 7);
	write_file(process, "process", "5000 1000\n", 10);
	fd = openat(process, "next-gen", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
	must(fd >= 0 && ftruncate(fd, 1) == 0);
	close(fd);
	must(symlinkat("2049-55", process, "0") == 0);
	bench.parsed = make_folder(mapping, "parsed");
	must(linkat(bench.root, "version", bench.parsed, "version", 0) == 0);
	must(mkdirat(bench.root, "probes/4711", 0755) == 0 && mkdirat(bench.root, "probes/4711/many4711", 0755) == 0 &&
	     mkdirat(bench.root, "probes/4711/many4711/program", 0755) == 0);
	bench.function = make_folder(bench.root, "probes/4711/many4711/program/main");
	for (uint32_t i = 0; i < count; i++) {
		char name[2 * NAME_BYTES];
		size_t bytes = record_bytes(&bench.provider, &bench.probes[i], RECORD_VERSION_MAX);

		record_encode(&bench.provider, &bench.probes[i], RECORD_VERSION_MAX, bench.record);
		snprintf(name, sizeof(name), "many4711:program:main:%s", bench.names[i]);
		write_file(bench.parsed, name, bench.record, bytes);
		must(linkat(bench.parsed, name, bench.function, bench.names[i], 0) == 0);
	}
	close(bench.function);
	close(bench.parsed);
	close(mapping);
	close(process);
}

static void remove_floor(uint32_t count)
{
	static const char *const files[] = { "dof-pid/4711/0", "dof/2049-55", "dof-pid/4711/2049-55/raw",
					     "dof-pid/4711/2049-55/dh", "dof-pid/4711/2049-55/parsed/version" };
	static const char *const folders[] = {
		"probes/4711/many4711/program/main", "probes/4711/many4711/program", "probes/4711/many4711", "probes/4711",
		"dof-pid/4711/2049-55/parsed",	     "dof-pid/4711/2049-55"
	};
	char entries[16384];

	bench.parsed = openat(bench.root, "dof-pid/4711/2049-55/parsed", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bench.function = openat(bench.root, "probes/4711/many4711/program/main", O_PATH | O_DIRECTORY | O_CLOEXEC);
	must(bench.parsed >= 0 && bench.function >= 0);
	while (getdents64(bench.parsed, entries, sizeof(entries)) > 0)
		continue; /* what there is has to be read; here it is known */
	for (uint32_t i = 0; i < count; i++) {
		char name[2 * NAME_BYTES];

		snprintf(name, sizeof(name), "many4711:program:main:%s", bench.names[i]);
		must(unlinkat(bench.function, bench.names[i], 0) == 0);
		must(unlinkat(bench.parsed, name, 0) == 0);
	}
	close(bench.parsed);
	close(bench.function);
	for (size_t i = 0; i < ARRAY_COUNT(files); i++)
		must(unlinkat(bench.root, files[i], 0) == 0);
	for (size_t i = 0; i < ARRAY_COUNT(folders); i++)
		must(unlinkat(bench.root, folders[i], AT_REMOVEDIR) == 0);
}

/* What stays for the counter of generations, with the stash as well. */
static void forget_floor(void)
{
	static const char *const files[] = { "dof-pid/4711/exec-mapping", "dof-pid/4711/process", "dof-pid/4711/next-gen" };

	for (size_t i = 0; i < ARRAY_COUNT(files); i++)
		must(unlinkat(bench.root, files[i], 0) == 0);
	must(unlinkat(bench.root, "dof-pid/4711", AT_REMOVEDIR) == 0);
}

/* ---- in turn ---- */

static void run_stash(struct stash *stash, uint32_t round)
{
	const struct stash_process process = {
		.pid = PID, .uid = 1000, .start_time = 5000, .exec_device = 2049, .exec_inode = 77
	};
	const struct stash_mapping mapping = { .device = 2049, .inode = 55 };
	const struct stash_addition addition = {
		.process = &process, .mapping = &mapping, .input = &bench.input, .set = &bench.set
	};
	struct fathom_fault why = { 0 };
	uint64_t began = clock_ticks(), generation;

	if (stash_add(stash, &addition, &generation, &why) != 0) {
		fprintf(stderr, "stash-bench: %s\n", why.text);
		exit(1);
	}
	bench.us[ADD][round] = us_since(began);
	began = clock_ticks();
	must(stash_remove(stash, PID, generation, &why) == 0);
	bench.us[REMOVE][round] = us_since(began);
	must(stash_remove_process(stash, PID, &why) == 0);
}

static void run_floor(uint32_t count, uint32_t round)
{
	uint64_t began = clock_ticks();

	add_floor(count);
	bench.us[ADD_FLOOR][round] = us_since(began);
	began = clock_ticks();
	remove_floor(count);
	bench.us[REMOVE_FLOOR][round] = us_since(began);
	forget_floor();
}

static void run(struct stash *stash, uint32_t count)
{
	uint32_t rounds = PROBES_BUDGET / count;

	rounds = rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
	make_set(count);
	for (uint32_t i = 0; i < rounds; i++) {
		run_stash(stash, i);
		run_floor(count, i);
	}
	printf("{\"probes\": %u, \"add_us\": %.1f, \"add_floor_us\": %.1f, \"remove_us\": %.1f, \"remove_floor_us\": "
	       "%.1f}\n",
	       count, median(bench.us[ADD], rounds), median(bench.us[ADD_FLOOR], rounds), median(bench.us[REMOVE], rounds),
	       median(bench.us[REMOVE_FLOOR], rounds));
	fflush(stdout);
	free_set();
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	return remove(path);
}

int main(int argc, char **argv)
{
	const uint64_t version = RECORD_VERSION_MAX;
	char folder[256], tree[300];
	struct stash_options options = { .directory = tree };
	struct stash *stash;
	struct fathom_fault why = { 0 };

	snprintf(folder, sizeof(folder), "%s/stash-bench-XXXXXX", argc > 1 ? argv[1] : "/dev/shm");
	must(mkdtemp(folder));
	snprintf(tree, sizeof(tree), "%s/stash", folder);
	bench.root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(bench.root >= 0);
	must(mkdirat(bench.root, "dof", 0755) == 0 && mkdirat(bench.root, "dof-pid", 0755) == 0 &&
	     mkdirat(bench.root, "probes", 0755) == 0);
	write_file(bench.root, "version", &version, sizeof(version));
	if (stash_open(&options, &stash, &why) != 0) {
		fprintf(stderr, "stash-bench: %s\n", why.text);
		return 1;
	}
	for (size_t i = 0; i < ARRAY_COUNT(counts); i++)
		run(stash, counts[i]);
	stash_close(stash);
	return nftw(folder, remove_entry, 32, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : 1;
}
