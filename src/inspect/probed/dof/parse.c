/* SPDX-License-Identifier: BSD-2-Clause */
/* parse - dof_parse(): checks common to all kinds of input; object.c and notes.c parse the kinds. */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/probed/dof/internal.h"

/* Upper bounds of the limits, so that counts of parts fit in 32 bits. */
enum { BYTES_HIGHEST = 1 << 30, PROBES_HIGHEST = 1 << 26 };
static_assert((int)DOF_BYTES_MAX <= (int)BYTES_HIGHEST, "the default is allowed");
static_assert((int)DOF_PROBES_MAX <= (int)PROBES_HIGHEST, "the default is allowed");

static struct dof_limits apply_default_limits(const struct dof_limits *limits)
{
	size_t bytes_max = limits && limits->bytes_max ? limits->bytes_max : DOF_BYTES_MAX;
	uint32_t probes_max = limits && limits->probes_max ? limits->probes_max : DOF_PROBES_MAX;

	return (struct dof_limits){ .bytes_max = min_u64(bytes_max, BYTES_HIGHEST),
				    .probes_max = (uint32_t)min_u64(probes_max, PROBES_HIGHEST) };
}

static int check_input(const struct dof_parsing *parsing)
{
	const struct dof_input *input = parsing->input;
	size_t bytes = 0;

	for (size_t i = 0; i < DOF_BLOCKS_MAX; i++) {
		if (input->blocks[i].bytes > parsing->limits.bytes_max - bytes)
			return fault(parsing->why, -E2BIG, "more than %zu bytes", parsing->limits.bytes_max);
		bytes += input->blocks[i].bytes;
		must(bytes <= parsing->limits.bytes_max);
	}
	if (!memchr(input->helper.module, '\0', sizeof(input->helper.module)))
		return fault(parsing->why, -EINVAL, "the module's name does not end within %d bytes", DOF_MODULE_BYTES);
	if (!dof_name_ok(input->helper.module, DOF_MODULE_BYTES))
		return fault(parsing->why, -EINVAL,
			     "the module's name is not valid: it is empty or has '/', ':', a control or glob character");
	return 0;
}

int dof_parse_in(struct dof_memory *memory, const struct dof_input *input, const struct dof_limits *limits,
		 struct dof_set *set_ret, struct fathom_fault *why)
{
	struct dof_parsing parsing = {
		.input = input, .limits = apply_default_limits(limits), .memory = memory, .why = why
	};
	int rc;

	must(parsing.limits.bytes_max > 0 && parsing.limits.bytes_max <= BYTES_HIGHEST);
	must(parsing.limits.probes_max > 0 && parsing.limits.probes_max <= PROBES_HIGHEST);
	must(!memory->room || memory->room_used <= memory->room_bytes);
	rc = check_input(&parsing);
	if (rc)
		return rc;
	switch (input->kind) {
	case DOF_KIND_DOF:
		rc = dof_parse_object(&parsing, set_ret);
		break;
	case DOF_KIND_USDT:
		rc = dof_parse_usdt(&parsing, set_ret);
		break;
	case DOF_KIND_SDT:
		rc = dof_parse_sdt(&parsing, set_ret);
		break;
	default:
		return fault(why, -EINVAL, "an object of no known kind");
	}
	return rc == -ENOMEM ? fault(why, rc, "out of memory while parsing %zu bytes", input->blocks[0].bytes) : rc;
}

int dof_parse(const struct dof_input *input, const struct dof_limits *limits, struct dof_set *set_ret,
	      struct fathom_fault *why)
{
	struct dof_memory memory = { 0 };
	int rc = dof_parse_in(&memory, input, limits, set_ret, why);

	dof_memory_end(&memory);
	return rc;
}
