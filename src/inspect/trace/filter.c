/* SPDX-License-Identifier: BSD-2-Clause */
/* filter - evaluates an expression bound to the schema, and the conditions on object, owner and time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/text.h"
#include "inspect/trace/filter_internal.h"

/* ---- objects ---- */

int reader_object_parse(const struct reader *reader, const char *text, const struct reader_object **object_ret,
			uint32_t *id_ret, struct fathom_fault *why)
{
	size_t letters = strcspn(text, "0123456789");
	uint64_t id;

	if (letters > 0 && text_parse_u64(text + letters, 10, UINT32_MAX - 1, &id) == 0) {
		for (uint32_t i = 0; i < reader->schema.object_count; i++) {
			const struct reader_object *object = &reader->schema.objects[i];

			if (strlen(object->prefix) == letters && strncasecmp(object->prefix, text, letters) == 0) {
				*object_ret = object;
				*id_ret = (uint32_t)id;
				return 0;
			}
		}
	}
	return fault(why, -ENOENT,
		     "no object has the name \"%.60s\"; use a name as `fathom trace show` prints it, such as r12", text);
}

static bool is_family_member(const struct reader_filter *filter, const struct reader_object *object, uint32_t id)
{
	for (uint32_t i = 0; i < filter->family_count; i++) {
		if (filter->family[i].type == object->id && filter->family[i].id == id)
			return true;
	}
	return false;
}

static void leave_family(struct reader_filter *filter, const struct reader_object *object, uint32_t id)
{
	/* entry 0 is the object itself and stays */
	for (uint32_t i = 1; i < filter->family_count; i++) {
		if (filter->family[i].type == object->id && filter->family[i].id == id)
			filter->family[i] = filter->family[--filter->family_count];
	}
}

static bool names_family_member(const struct reader_filter *filter, const struct reader_event *event)
{
	const struct reader_object *object;
	uint32_t id;

	for (uint32_t i = 0; i < event->point->arg_count; i++) {
		if (event->point->args[i].type >= READER_OBJ &&
		    reader_arg_object(filter->reader, &event->point->args[i], event->slots, &object, &id) &&
		    is_family_member(filter, object, id))
			return true;
	}
	return false;
}

/*
 * An object joins the family when one of its events names a member. It leaves when its next life begins without naming
 * one.
 */
static bool passes_object(struct reader_filter *filter, const struct reader_event *event)
{
	const struct reader_point *point = event->point;
	bool named, member;

	if (!point)
		return false;
	named = names_family_member(filter, event);
	if (!point->object || event->object_id == READER_NO_OBJECT)
		return named;
	member = is_family_member(filter, point->object, event->object_id);
	if (event->related && !member)
		named |= is_family_member(filter, event->related, event->related_id);
	if (member && !named && point->begins) {
		leave_family(filter, point->object, event->object_id);
		member = is_family_member(filter, point->object, event->object_id);
	}
	if (named && !member && filter->family_count < FAMILY_MAX && point->object->machine)
		filter->family[filter->family_count++] = (struct member){ point->object->id, event->object_id };
	return named || member;
}

/* ---- owners ---- */

static bool contains_part(const char *text, const char *part)
{
	size_t bytes = strlen(part);

	for (; strlen(text) >= bytes; text++) {
		if (strncasecmp(text, part, bytes) == 0)
			return true;
		if (!*text)
			break;
	}
	return false;
}

static bool passes_owner(struct reader_filter *filter, uint16_t owner_id, uint64_t tick)
{
	struct owner_verdict *verdict = &filter->owners[owner_id % TRACE_OWNERS_MAX];
	struct reader_owner owner;
	char name[64];

	if (owner_id == 0 || owner_id >= TRACE_OWNERS_MAX)
		return false;
	if (verdict->to == 0 || tick < verdict->from || tick > verdict->to) {
		if (!reader_owner(filter->reader, owner_id, tick, &owner))
			return false;
		snprintf(name, sizeof(name), "%s%u", owner.prefix, owner_id);
		*verdict = (struct owner_verdict){ .from = owner.from_tick,
						   .to = owner.to_tick,
						   .wanted = strcasecmp(name, filter->owner) == 0 ||
							     contains_part(owner.text, filter->owner) };
	}
	return verdict->wanted;
}

/* ---- the expression ---- */

static void set_number(struct expression_value *value, long double is, long double unit_ns)
{
	value->has_number = true;
	value->number = is;
	value->unit_ns = unit_ns;
}

static void set_text_value(struct expression_value *value, const char *is, size_t bytes)
{
	value->text = is;
	value->text_bytes = bytes;
}

static void object_text(struct reader_filter *filter, struct expression_value *value, const struct reader_object *object,
			uint32_t id)
{
	int bytes = snprintf(filter->scratch, sizeof(filter->scratch), "%s%u", object->prefix, id);

	set_number(value, id, 0);
	set_text_value(value, filter->scratch, min_u64((uint64_t)bytes, sizeof(filter->scratch) - 1));
}

static long double unit_ns(const struct reader_filter *filter, const char *unit)
{
	if (!unit)
		return 0;
	if (strcmp(unit, "ticks") == 0)
		return (long double)NS_PER_SEC / (long double)filter->reader->scale.rate;
	return strcmp(unit, "ns") == 0 ? 1 : strcmp(unit, "us") == 0 ? 1e3L : strcmp(unit, "ms") == 0 ? 1e6L : 0;
}

static bool arg_value(struct reader_filter *filter, const struct reader_arg *arg, const uint32_t *slots,
		      struct expression_value *value)
{
	uint64_t raw = reader_arg_value(arg, slots);
	const struct reader_object *object;
	const char *label;
	uint32_t id;

	switch (arg->type) {
	case READER_STR:
		value->text = reader_string(filter->reader, (uint32_t)raw, &value->text_bytes);
		return true;
	case READER_OBJ:
	case READER_REF:
		if (!reader_arg_object(filter->reader, arg, slots, &object, &id))
			return false;
		object_text(filter, value, object, id);
		return true;
	case READER_BOOL:
		set_number(value, raw, 0);
		set_text_value(value, raw ? "true" : "false", raw ? 4 : 5);
		return true;
	case READER_I32:
	case READER_I64:
		set_number(value, (int64_t)raw, unit_ns(filter, arg->unit));
		return true;
	default:
		break;
	}
	set_number(value, raw, unit_ns(filter, arg->unit));
	label = arg->labels ? reader_label(arg->labels, (int64_t)raw) : NULL;
	if (label)
		set_text_value(value, label, strlen(label));
	return true;
}

static long double ticks_to_us(const struct reader_filter *filter, uint64_t ticks)
{
	return (long double)ticks * 1e6L / (long double)filter->reader->scale.rate;
}

static bool owner_value(struct reader_filter *filter, uint16_t id, uint64_t tick, struct expression_value *value)
{
	struct reader_owner owner;

	if (!reader_owner(filter->reader, id, tick, &owner))
		return false;
	snprintf(filter->scratch, sizeof(filter->scratch), "%s", owner.text);
	set_number(value, id, 0);
	set_text_value(value, filter->scratch, strlen(filter->scratch));
	return true;
}

static bool thread_value(struct reader_filter *filter, uint32_t index, struct expression_value *value)
{
	struct reader_thread thread;

	if (!reader_thread(filter->reader, index, &thread))
		return false;
	snprintf(filter->scratch, sizeof(filter->scratch), "%s", thread.name);
	set_number(value, index, 0);
	set_text_value(value, filter->scratch, strlen(filter->scratch));
	return true;
}

static bool event_pseudo(struct reader_filter *filter, enum pseudo pseudo, struct expression_value *value)
{
	const struct reader_event *event = filter->event;
	const struct reader_point *point = event->point;
	const char *name = NULL;

	switch (pseudo) {
	case PSEUDO_LATENCY:
		set_number(value, ticks_to_us(filter, event->total_ticks), 1000);
		return event->has_life;
	case PSEUDO_DWELL:
		set_number(value, ticks_to_us(filter, event->dwell_ticks), 1000);
		return event->has_life;
	case PSEUDO_TICK:
		set_number(value, event->tick, 0);
		return true;
	case PSEUDO_CORE:
		set_number(value, event->cpu, 0);
		return event->cpu >= 0;
	case PSEUDO_THREAD:
		return thread_value(filter, event->thread, value);
	case PSEUDO_OWNER:
		return owner_value(filter, event->owner, event->tick, value);
	case PSEUDO_OBJECT:
		if (!point || !point->object || event->object_id == READER_NO_OBJECT)
			return false;
		object_text(filter, value, point->object, event->object_id);
		return true;
	case PSEUDO_NAME:
		name = point ? point->name : NULL;
		break;
	case PSEUDO_GROUP:
		name = point ? point->group->name : NULL;
		break;
	case PSEUDO_STATE:
		name = reader_event_state(event);
		break;
	case PSEUDO_NONE:
		break;
	}
	if (name)
		set_text_value(value, name, strlen(name));
	return name != NULL;
}

/* Convert to the unit that ends the name, such as latency_ms. */
static bool convert_unit(const struct reader_filter *filter, uint32_t name, struct expression_value *value)
{
	if (filter->in_ns[name] != 0 && value->unit_ns != 0) {
		value->number = value->number * value->unit_ns / filter->in_ns[name];
		value->unit_ns = filter->in_ns[name];
	}
	return true;
}

static bool event_lookup(void *ctx, uint32_t name, struct expression_value *value)
{
	struct reader_filter *filter = ctx;
	const struct reader_point *point = filter->event->point;
	int arg;

	if (filter->pseudo[name] != PSEUDO_NONE)
		return event_pseudo(filter, filter->pseudo[name], value) && convert_unit(filter, name, value);
	if (!point)
		return false;
	arg = filter->args[(size_t)(point - filter->reader->schema.points) * expression_name_count(filter->where) + name];
	return arg != ARG_NONE && arg_value(filter, &point->args[arg], filter->event->slots, value) &&
	       convert_unit(filter, name, value);
}

static bool life_value(struct reader_filter *filter, uint32_t name, struct expression_value *value)
{
	const struct reader_exemplar *exemplar = filter->exemplar;
	const struct reader_story *story = &exemplar->stories[0];
	const char *wanted;
	long double ns;
	size_t place;

	switch (filter->pseudo[name]) {
	case PSEUDO_LATENCY:
		set_number(value, ticks_to_us(filter, exemplar->spent_ticks), 1000);
		return true;
	case PSEUDO_TICK:
		set_number(value, story->begin_tick, 0);
		return true;
	case PSEUDO_CORE:
		set_number(value, exemplar->cpu, 0);
		return exemplar->cpu >= 0;
	case PSEUDO_THREAD:
		return thread_value(filter, exemplar->thread, value);
	case PSEUDO_OWNER:
		return owner_value(filter, story->owner, story->begin_tick, value);
	case PSEUDO_OBJECT:
		object_text(filter, value, story->object, story->id);
		return true;
	case PSEUDO_NAME:
		set_text_value(value, story->object->name, strlen(story->object->name));
		return true;
	case PSEUDO_NONE:
		break;
	default:
		return false;
	}
	wanted = expression_name(filter->where, name, &place);
	for (uint32_t i = 0; i < exemplar->story_count; i++) {
		const struct reader_object *object = exemplar->stories[i].object;

		for (uint32_t arg = 0; exemplar->args_known[i] && arg < object->story_arg_count; arg++) {
			if (filter_arg_is_called(&object->story_args[arg], wanted, &ns))
				return arg_value(filter, &object->story_args[arg], exemplar->stories[i].args, value);
		}
	}
	return false;
}

static bool life_lookup(void *ctx, uint32_t name, struct expression_value *value)
{
	return life_value(ctx, name, value) && convert_unit(ctx, name, value);
}

/* An engine leaves this prefix of a host's NQN out of the texts of owners. */
static const char *without_prefix(const char *owner)
{
	static const char prefix[] = "nqn.2014-08.org.nvmexpress:";

	return strncmp(owner, prefix, sizeof(prefix) - 1) == 0 ? owner + sizeof(prefix) - 1 : owner;
}

/* ---- public functions ---- */

int reader_filter_create(const struct reader *reader, const struct reader_filter_spec *spec,
			 struct reader_filter **filter_ret, struct fathom_fault *why)
{
	struct reader_filter *filter = calloc(1, sizeof(*filter));
	int rc = 0;

	if (!filter)
		return fault(why, -ENOMEM, "out of memory");
	filter->reader = reader;
	filter->until = UINT64_MAX;
	if (spec->owner && !(filter->owner = strdup(without_prefix(spec->owner))))
		rc = fault(why, -ENOMEM, "out of memory");
	if (rc == 0 && spec->object) {
		uint32_t id;

		rc = reader_object_parse(reader, spec->object, &filter->object, &id, why);
		if (rc == 0)
			filter->family[filter->family_count++] = (struct member){ filter->object->id, id };
	}
	if (rc == 0 && spec->since)
		rc = moment_parse(reader, spec, spec->since, &filter->since, why);
	if (rc == 0 && spec->until)
		rc = moment_parse(reader, spec, spec->until, &filter->until, why);
	if (rc == 0 && spec->where)
		rc = filter_bind(filter, spec->where, why);
	if (rc) {
		reader_filter_destroy(filter);
		return rc;
	}
	*filter_ret = filter;
	return 0;
}

void reader_filter_destroy(struct reader_filter *filter)
{
	if (!filter)
		return;
	expression_free(filter->where);
	free(filter->args);
	free(filter->owner);
	free(filter);
}

bool reader_filter_time_and_owner(struct reader_filter *filter, const struct reader_event *event)
{
	return event->tick >= filter->since && event->tick <= filter->until &&
	       (!filter->owner || passes_owner(filter, event->owner, event->tick));
}

bool reader_filter_event(struct reader_filter *filter, const struct reader_event *event)
{
	/* before any other condition: it must see every event to maintain the family */
	if (filter->object && !passes_object(filter, event))
		return false;
	if (filter->point && filter->point != event->point)
		return false;
	if (!reader_filter_time_and_owner(filter, event))
		return false;
	filter->event = event;
	return !filter->where || expression_evaluate(filter->where, event_lookup, filter);
}

bool reader_filter_life(struct reader_filter *filter, const struct reader_exemplar *exemplar)
{
	const struct reader_story *story = &exemplar->stories[0];
	bool of_object = !filter->object;

	for (uint32_t i = 0; i < exemplar->story_count && !of_object; i++)
		of_object = is_family_member(filter, exemplar->stories[i].object, exemplar->stories[i].id);
	if (!of_object || exemplar->end_ticks[0] < filter->since || story->begin_tick > filter->until ||
	    (filter->owner && !passes_owner(filter, story->owner, story->begin_tick)))
		return false;
	if (filter->point && filter->point->object != story->object &&
	    !(exemplar->story_count > 1 && filter->point->object == exemplar->stories[1].object))
		return false;
	filter->exemplar = exemplar;
	return !filter->where || expression_evaluate(filter->where, life_lookup, filter);
}
