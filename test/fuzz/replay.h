/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * replay - the program of a fuzz target of its own: it writes the seeds, or runs the target on files.
 *
 *     NAME --seeds FOLDER
 *     NAME FILE...
 */
#ifndef TEST_FUZZ_REPLAY_H
#define TEST_FUZZ_REPLAY_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* For `write_seeds` of a target whose seeds are texts: write each to a file in `folder`. Return the exit status. */
static inline int write_texts(const char *folder, const char *const *seeds, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char path[512];
		FILE *file;

		snprintf(path, sizeof(path), "%s/seed-%zu", folder, i);
		file = fopen(path, "w");
		if (!file || fwrite(seeds[i], 1, strlen(seeds[i]), file) != strlen(seeds[i]) || fclose(file)) {
			perror(path);
			return 1;
		}
	}
	return 0;
}

/* `write_seeds` gets the folder. The first `bytes_max` bytes of a file are read into `data`. Return the exit status. */
static inline int replay(int argc, char **argv, int (*write_seeds)(const char *folder), uint8_t *data, size_t bytes_max)
{
	if (argc == 3 && strcmp(argv[1], "--seeds") == 0)
		return write_seeds(argv[2]);
	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "rb");
		size_t bytes = file ? fread(data, 1, bytes_max, file) : 0;

		if (!file) {
			perror(argv[i]);
			return 1;
		}
		fclose(file);
		LLVMFuzzerTestOneInput(data, bytes);
	}
	return 0;
}

#endif
