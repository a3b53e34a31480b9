/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults on purpose: fault_inject and related methods. A rule is in memory only; no configuration saves it. */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/inject/inject.h"
#include "data/engine/internal.h"
#include "data/engine/methods.gen.h"

static_assert((int)RPC_FAULT_ACTION_FAIL == (int)INJECT_FAIL,
	      "the table has the actions in the order of enum inject_action");
static_assert((int)RPC_FAULT_ACTION_HANG == (int)INJECT_HANG, "likewise");

void method_fault_inject(struct rpc_request *request, const struct fault_inject_params *p)
{
	struct inject_rule rule = {
		.action = (enum inject_action)p->action,
		.delay_ms = p->delay_ms,
		.skip = p->skip,
		.count = p->count,
	};
	enum inject_point point;
	struct fathom_fault why;
	int error = inject_find(p->point, &point, &why);

	if (!error && p->error)
		error = inject_parse_errno(p->error, &rule.error, &why);
	if (!error)
		error = inject_arm(point, &rule, &why);
	if (error)
		rpc_error_errno(request, error, why.text);
	else
		rpc_reply(request, NULL);
}

void method_fault_clear(struct rpc_request *request, const struct fault_clear_params *p)
{
	enum inject_point point;
	struct fathom_fault why;
	int error = 0;

	if (strcmp(p->point, "all") == 0) {
		inject_clear_all();
	} else {
		error = inject_find(p->point, &point, &why);
		if (!error)
			inject_clear(point);
	}
	if (error)
		rpc_error_errno(request, error, why.text);
	else
		rpc_reply(request, NULL);
}

static json_t *point_json(enum inject_point point)
{
	char text[INJECT_RULE_BYTES];
	struct inject_status status;
	json_t *object = json_made(json_object()), *may = json_made(json_array());

	inject_read(point, &status);
	for (unsigned int action = 0; action < INJECT_ACTIONS; action++) {
		if (status.may & BIT(action))
			json_add(may, json_string(inject_action_name((enum inject_action)action)));
	}
	json_put(object, "point", json_string(status.name));
	json_put(object, "at", json_string(status.text));
	json_put(object, "actions", may);
	json_put(object, "passed", json_integer((json_int_t)status.passed));
	json_put(object, "fired", json_integer((json_int_t)status.fired));
	json_put(object, "held", json_integer((json_int_t)status.held));
	if (status.is_armed) {
		json_put(object, "rule", json_string(inject_rule_text(&status.rule, text)));
		json_put(object, "armed_at_ns", json_integer((json_int_t)status.armed_ns));
	}
	if (status.fired_ns)
		json_put(object, "fired_at_ns", json_integer((json_int_t)status.fired_ns));
	return object;
}

void method_fault_get_points(struct rpc_request *request)
{
	json_t *object = json_made(json_object()), *points = json_made(json_array());

	for (unsigned int point = 0; point < INJECT_POINTS; point++)
		json_add(points, point_json((enum inject_point)point));
	json_put(object, "built", json_boolean(inject_is_built()));
	json_put(object, "points", points);
	rpc_reply(request, object);
}
