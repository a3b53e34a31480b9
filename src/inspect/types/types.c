/* SPDX-License-Identifier: BSD-2-Clause */
/* types - uses libdw, which also finds separate debug files and rejects those of another build. */
#include "inspect/types/types.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/must.h"
#include "inspect/types/internal.h"

static int declare_program_types(Dwarf *dwarf, const struct types_wanted *wanted, struct types_declared *declared,
				 struct fathom_fault *why)
{
	struct found found;
	int rc = types_find(dwarf, wanted, &found, why);

	if (rc == 0)
		rc = types_write(&found, wanted, declared, why);
	found_free(&found);
	return rc;
}

int types_declare(const struct types_program *program, const struct types_wanted *wanted,
		  struct types_declared *declared_ret, struct fathom_fault *why)
{
	struct types_declared declared = { 0 };
	int fd = open(program->path, O_RDONLY | O_CLOEXEC), rc;
	char *folders;
	Dwfl_Module *module;
	Dwarf *dwarf;
	Dwarf_Addr bias;
	Dwfl *dwfl;

	if (fd < 0)
		return fault(why, -errno, "cannot open %s: %s", program->path, strerror(errno));
	/* the empty path: beside the program */
	must(asprintf(&folders, ":.debug:/usr/lib/debug:%s/usr/lib/debug", program->root) > 0);
	const Dwfl_Callbacks callbacks = { .find_elf = dwfl_build_id_find_elf,
					   .find_debuginfo = dwfl_standard_find_debuginfo,
					   .section_address = dwfl_offline_section_address,
					   .debuginfo_path = &folders };
	dwfl = dwfl_begin(&callbacks);
	must(dwfl);
	/* takes the descriptor on success */
	module = dwfl_report_offline(dwfl, "", program->beside, fd);
	if (!module)
		close(fd);
	dwfl_report_end(dwfl, NULL, NULL);
	dwarf = module ? dwfl_module_getdwarf(module, &bias) : NULL;
	if (dwarf)
		rc = declare_program_types(dwarf, wanted, &declared, why);
	else
		rc = fault(why, -ENODATA, "%s has no debug information, and there is no debug file of it", program->beside);
	dwfl_end(dwfl);
	free(folders);
	if (rc)
		types_declared_free(&declared);
	else
		*declared_ret = declared;
	return rc;
}

void types_declared_free(struct types_declared *declared)
{
	for (uint32_t i = 0; i < declared->alias_count; i++) {
		free(declared->aliases[i].name);
		free(declared->aliases[i].spelled);
	}
	free(declared->aliases);
	free(declared->text);
	*declared = (struct types_declared){ 0 };
}
