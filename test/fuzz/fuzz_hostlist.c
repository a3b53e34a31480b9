/* SPDX-License-Identifier: BSD-2-Clause */
/* Fuzz: a valid host list or rank set folds to a valid text, which folds to the same text again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "control/hostlist/hostlist.h"
#include "control/hostlist/rankset.h"

enum { TEXT_BYTES_MAX = 512 };

static void try_hosts(const char *text)
{
	struct host_set *set, *again;
	struct host_address address;
	char *folded, *twice;

	if (host_set_parse(text, &set, NULL) < 0)
		return;
	if (host_set_count(set) < 2000) {
		must(host_set_fold(set, &folded) == 0);
		must(host_set_parse(folded, &again, NULL) == 0);
		must(host_set_count(again) == host_set_count(set));
		must(host_set_is_within(set, again));
		must(host_set_fold(again, &twice) == 0);
		must(strcmp(folded, twice) == 0);
		free(folded);
		free(twice);
		host_set_destroy(again);
	}
	for (size_t i = 0; i < host_set_count(set); i++) {
		must(strlen(host_set_at(set, i)) < HOST_BYTES_MAX);
		host_address(host_set_at(set, i), 1, &address);
		must(address.port > 0 && address.host[0]);
	}
	host_set_destroy(set);
}

static void try_ranks(const char *text)
{
	struct rank_set set = { 0 }, again = { 0 };
	char *folded;

	if (rank_set_parse(text, &set, NULL) < 0)
		return;
	must(rank_set_fold(&set, true, &folded) == 0);
	must(rank_set_parse(folded, &again, NULL) == 0);
	must(again.count == set.count);
	must(set.count == 0 || memcmp(again.ranks, set.ranks, set.count * sizeof(*set.ranks)) == 0);
	free(folded);
	rank_set_deinit(&set);
	rank_set_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[TEXT_BYTES_MAX + 1];

	if (size > TEXT_BYTES_MAX)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	try_hosts(text);
	try_ranks(text);
	return 0;
}

#if !defined(__clang__) || defined(FUZZ_REPLAY)

#include "replay.h"

static const char *const seeds[] = {
	"node[1-128,133]:10001",
	"rack[0-1]node[008-012].ib,a-[1-2]-b",
	"[fe80::1]:10001,::1 10.0.0.[1-4]:1",
	"[0-3,7]",
	"0-3,7,11",
};

static int write_seeds(const char *folder)
{
	return write_texts(folder, seeds, ARRAY_COUNT(seeds));
}

int main(int argc, char **argv)
{
	static uint8_t data[TEXT_BYTES_MAX];

	for (size_t i = 0; argc == 1 && i < ARRAY_COUNT(seeds); i++)
		LLVMFuzzerTestOneInput((const uint8_t *)seeds[i], strlen(seeds[i]));
	return replay(argc, argv, write_seeds, data, sizeof(data));
}

#endif
