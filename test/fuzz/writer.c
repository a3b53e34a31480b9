/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * writer - lets a fuzzer write its seeds: NAME --seeds FOLDER.
 *
 * scripts/fuzz links it with each target. The fuzzer's library has main(), so the target's own is named replay_main().
 */
#include <stdlib.h>
#include <string.h>

int replay_main(int argc, char **argv);
int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	if (*argc == 3 && strcmp((*argv)[1], "--seeds") == 0)
		exit(replay_main(*argc, *argv));
	return 0;
}
