/* SPDX-License-Identifier: BSD-2-Clause */
#include "samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *sample_read(const char *name, const char *extension, size_t *bytes_ret)
{
	char path[512], *data;
	FILE *file;
	long bytes;

	snprintf(path, sizeof(path), "%s/%s%s", SAMPLES, name, extension);
	file = fopen(path, "rbe");
	must(file);
	must(fseek(file, 0, SEEK_END) == 0);
	bytes = ftell(file);
	must(bytes > 0);
	rewind(file);
	data = malloc((size_t)bytes + 1);
	must(data);
	must(fread(data, 1, (size_t)bytes, file) == (size_t)bytes);
	fclose(file);
	data[bytes] = '\0';
	*bytes_ret = (size_t)bytes;
	return data;
}

struct dof_input sample_input(const void *data, size_t bytes, uint64_t base)
{
	return (struct dof_input){ .kind = DOF_KIND_DOF,
				   .helper = { .module = "sample", .base = base },
				   .blocks = { { .data = data, .bytes = bytes } } };
}
