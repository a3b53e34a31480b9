/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/probed/register/line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

json_t *line_text(const char *text)
{
	char copy[DOF_TYPE_BYTES * 2];

	return json_stringn(copy, text_utf8_copy(copy, sizeof(copy), text, strlen(text)));
}

static json_t *json_of_types(uint32_t count, const char *const *types)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(array, line_text(types[i]));
	return array;
}

static json_t *json_of_sites(const struct dof_probe *probe)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < probe->site_count; i++) {
		const struct dof_site *site = &probe->sites[i];
		json_t *row = json_object();
		char address[24];

		snprintf(address, sizeof(address), "0x%" PRIx64, site->address);
		json_object_set_new(row, "address", json_string(address));
		if (site->is_enabled)
			json_object_set_new(row, "is_enabled", json_true());
		if (site->args && site->args[0])
			json_object_set_new(row, "args", line_text(site->args));
		json_array_append_new(array, row);
	}
	return array;
}

json_t *line_of_probe(pid_t pid, const char *found, const struct dof_provider *provider, const struct dof_probe *probe)
{
	return json_pack("{si, ss, so, so, so, so, so, so, so}", "pid", (int)pid, "found", found, "provider",
			 line_text(provider->name), "module", line_text(probe->module), "function",
			 line_text(probe->function), "probe", line_text(probe->name), "args",
			 json_of_types(probe->translated_count, probe->translated), "native",
			 json_of_types(probe->native_count, probe->native), "sites", json_of_sites(probe));
}
