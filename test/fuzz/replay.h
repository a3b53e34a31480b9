/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * replay - the other program that a fuzz target is built as: it writes the first corpus, or runs the target on files.
 *
 *     NAME-replay --seeds FOLDER
 *     NAME-replay FILE...
 */
#ifndef TEST_FUZZ_REPLAY_H
#define TEST_FUZZ_REPLAY_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* `write_seeds` gets the folder. A file's first `bytes_max` bytes go to `data`. Returns the exit status. */
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
