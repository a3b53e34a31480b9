/* SPDX-License-Identifier: BSD-2-Clause */
/* Fuzz: any file is read, or refused with a fault that names it; nothing leaks. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/control/config/config_sample.h"
#include "control/fault/fault.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sample sample;
	struct fathom_fault why = { 0 };
	struct fault_shown shown;
	char lines[FAULT_LINES_BYTES_MAX];

	if (config_read("f.yml", (const char *)data, size, &sample_schema, &sample, &why) == 0) {
		must(sample.name && sample.port >= 1 && sample.port <= 65535);
		must(sample.level < 3);
		for (size_t i = 0; i < sample.engines.count; i++)
			must(engines_of(&sample)[i].cores >= 1 && engines_of(&sample)[i].cores <= 64);
		must(!sample.security.key || sample.security.key[0] == '/');
		config_free(&sample_schema, &sample);
		return 0;
	}
	must(strncmp(why.text, "f.yml:", 6) == 0);
	fault_show(&why, &shown);
	fault_print(&shown, "", lines, sizeof(lines));
	return 0;
}

#if !defined(__clang__) || defined(FUZZ_REPLAY)

#include "replay.h"

static const char *const seeds[] = {
	"name: x\nport: 0x2711\nis_on: true\nmemory: 16MiB\nlevel: warning\nhosts: [a, b]\nsecurity:\n  key: /k\n  tries: "
	"2\n",
	"name: \"a b\"\nengines:\n- name: one\n  cores: 4\n  disks: [/dev/a, '/dev/b']\n- {cores: 2}\n",
	"---\nname: |\n  folded\nlisten: 1\n...\n",
	"name: &a x\nhosts: *a\n",
	"prot: 1\n",
};

static int write_seeds(const char *folder)
{
	return write_texts(folder, seeds, ARRAY_COUNT(seeds));
}

int main(int argc, char **argv)
{
	static uint8_t data[1 << 16];

	for (size_t i = 0; argc == 1 && i < ARRAY_COUNT(seeds); i++)
		LLVMFuzzerTestOneInput((const uint8_t *)seeds[i], strlen(seeds[i]));
	return replay(argc, argv, write_seeds, data, sizeof(data));
}

#endif
