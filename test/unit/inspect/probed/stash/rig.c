/* SPDX-License-Identifier: BSD-2-Clause */
#include "rig.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"

/* ---- directories ---- */

static void append_log(void *ctx, const char *text)
{
	struct rig *rig = ctx;
	size_t used = strlen(rig->logged);

	snprintf(rig->logged + used, sizeof(rig->logged) - used, "%s\n", text);
}

int rig_setup(void **state)
{
	struct rig *rig = calloc(1, sizeof(*rig));
	struct fathom_fault why = { 0 };

	assert_non_null(rig);
	snprintf(rig->directory, sizeof(rig->directory), "/dev/shm/stash-test-XXXXXX");
	assert_non_null(mkdtemp(rig->directory));
	rig->options = (struct stash_options){ .directory = rig->directory, .log = append_log, .log_ctx = rig };
	if (stash_open(&rig->options, &rig->stash, &why) != 0)
		fail_msg("%s", why.text);
	*state = rig;
	return 0;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	return remove(path);
}

void rig_remove_directory(const char *directory)
{
	(void)nftw(directory, remove_entry, 32, FTW_DEPTH | FTW_PHYS);
}

int rig_teardown(void **state)
{
	struct rig *rig = *state;

	stash_close(rig->stash);
	(void)umount2(rig->directory, MNT_DETACH); /* left by a failed test */
	rig_remove_directory(rig->directory);
	free(rig);
	return 0;
}

void rig_reopen(struct rig *rig)
{
	struct fathom_fault why = { 0 };

	stash_close(rig->stash);
	rig->stash = NULL;
	if (stash_open(&rig->options, &rig->stash, &why) != 0)
		fail_msg("%s", why.text);
}

static uint32_t files_counted;

static int count_file(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	files_counted += S_ISREG(status->st_mode);
	return 0;
}

uint32_t rig_count_files(const struct rig *rig, const char *path)
{
	char full[RIG_PATH_BYTES];

	files_counted = 0;
	snprintf(full, sizeof(full), "%s/%s", rig->directory, path);
	(void)nftw(full, count_file, 32, FTW_PHYS);
	return files_counted;
}

bool rig_exists(const struct rig *rig, const char *path)
{
	char full[RIG_PATH_BYTES];
	struct stat status;

	snprintf(full, sizeof(full), "%s/%s", rig->directory, path);
	return lstat(full, &status) == 0;
}

/* ---- sets ---- */

static const char *const types[] = { "int", "char *", "struct request *" };
static const uint8_t map[] = { 0, 2, 1 };

static void fill_probe(struct dof_probe *probe, struct dof_site *sites, uint32_t index, char *function, char *name,
		       uint64_t base)
{
	*probe = (struct dof_probe){
		.module = "program",
		.function = function,
		.name = name,
		.native = types,
		.native_count = index % 4,
		.translated = types,
		.translated_count = index % 4 == 3 ? 3 : 0,
		.map = map,
		.sites = sites,
		.site_count = 1 + index % 2,
	};
	sites[0] = (struct dof_site){ .address = base + 16ull * index, .args = index % 3 == 2 ? "-4@%edi 8@%rsi" : "" };
	sites[1] = (struct dof_site){ .address = base + 16ull * index + 8, .is_enabled = true, .args = "" };
}

struct rig_set *rig_set(const char *prefix, uint32_t providers, uint32_t probes, uint32_t functions, uint64_t base)
{
	enum { NAME_BYTES = 24 };
	struct rig_set *set = calloc(1, sizeof(*set));
	struct dof_provider *provider = calloc(providers + 1, sizeof(*provider));
	struct dof_probe *probe = calloc((size_t)providers * probes + 1, sizeof(*probe));
	struct dof_site *sites = calloc(2ul * providers * probes + 1, sizeof(*sites));
	char *names = calloc((size_t)providers * (2 * probes + 1) + 1, NAME_BYTES);
	char *raw = malloc(256);

	assert_true(set && provider && probe && sites && names && raw);
	set->set = (struct dof_set){ .provider_count = providers, .providers = provider, .memory = names };
	for (uint32_t i = 0; i < providers; i++) {
		provider[i] = (struct dof_provider){ .name = names, .probe_count = probes, .probes = probe };
		snprintf(names, NAME_BYTES, "%s%c", prefix, 'a' + (int)i);
		names += NAME_BYTES;
		for (uint32_t j = 0; j < probes; j++, probe++, sites += 2, names += 2ul * NAME_BYTES) {
			snprintf(names, NAME_BYTES, "function_%05u", j * functions / probes);
			snprintf(names + NAME_BYTES, NAME_BYTES, "probe-%05u", j);
			fill_probe(probe, sites, j, names, names + NAME_BYTES, base);
		}
	}
	snprintf(raw, 256, "the object of %s: %u %u %u %lx", prefix, providers, probes, functions, (unsigned long)base);
	set->input = (struct dof_input){ .kind = DOF_KIND_DOF,
					 .helper = { .module = "program", .base = base, .dof = base + 64 } };
	set->input.blocks[0] = (struct dof_block){ .data = raw, .bytes = strlen(raw) };
	return set;
}

void rig_free(struct rig_set *set)
{
	const struct dof_provider *provider = set->set.providers;

	if (set->set.provider_count > 0) {
		if (provider->probe_count > 0)
			free((void *)(uintptr_t)provider->probes->sites);
		free((void *)(uintptr_t)provider->probes);
	}
	free((void *)(uintptr_t)provider);
	free(set->set.memory);
	free((void *)(uintptr_t)set->input.blocks[0].data);
	free(set);
}

struct stash_process rig_process(pid_t pid)
{
	return (struct stash_process){ .pid = pid, .uid = 1000, .start_time = 5000, .exec_device = 2049, .exec_inode = 77 };
}

int64_t rig_add(struct rig *rig, pid_t pid, uint64_t inode, const struct rig_set *set)
{
	const struct stash_process process = rig_process(pid);
	const struct stash_mapping mapping = { .device = 2049, .inode = inode };
	struct fathom_fault why = { 0 };
	uint64_t generation;
	int rc = stash_add(rig->stash, &RIG_ADDITION(&process, &mapping, set), &generation, &why);

	if (rc) {
		assert_int_equal(why.error, rc);
		assert_true(why.text[0]);
		return rc;
	}
	return (int64_t)generation;
}
