/* SPDX-License-Identifier: BSD-2-Clause */
/* spool_fixture - a folder with one spool; functions that read and write the file's bytes. */
#ifndef TEST_UNIT_CONTROL_EVENTS_SPOOL_FIXTURE_H
#define TEST_UNIT_CONTROL_EVENTS_SPOOL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* after those four */
#include <cmocka.h>

#include "base/bits.h"
#include "control/events/spool.h"

#include "event_sample.h"

static char spool_folder[] = "/tmp/fathom-spool-XXXXXX";
static char spool_path[64];

/* Create a folder without a spool. Pair: spool_folder_remove(). */
static inline void spool_folder_create(void)
{
	must(mkdtemp(spool_folder));
	snprintf(spool_path, sizeof(spool_path), "%s/spool", spool_folder);
}

static inline void spool_folder_remove(void)
{
	char path[sizeof(spool_path) + 4];

	unlink(spool_path);
	snprintf(path, sizeof(path), "%s.new", spool_path);
	unlink(path);
	rmdir(spool_folder);
}

/* The setup of a test: remove the spool. */
static inline int spool_delete(void **state)
{
	unlink(spool_path);
	return 0;
}

static inline struct spool *spool_open_whole(void)
{
	struct fathom_fault why = { 0 };
	struct spool *spool;

	if (spool_open(spool_path, 0, &spool, NULL, &why) < 0)
		fail_msg("%s", why.text);
	return spool;
}

static inline uint64_t spool_file_bytes(void)
{
	struct stat about;

	assert_int_equal(stat(spool_path, &about), 0);
	return (uint64_t)about.st_size;
}

/* The file's bytes; pair: free(). */
static inline uint8_t *spool_file_read(void)
{
	uint64_t bytes = spool_file_bytes();
	uint8_t *data = malloc(bytes);
	FILE *file = fopen(spool_path, "r");

	assert_int_equal(fread(data, 1, bytes, file), bytes);
	fclose(file);
	return data;
}

static inline void spool_file_write(const uint8_t *data, size_t bytes)
{
	FILE *file = fopen(spool_path, "w");

	assert_int_equal(fwrite(data, 1, bytes, file), bytes);
	fclose(file);
}

#endif
