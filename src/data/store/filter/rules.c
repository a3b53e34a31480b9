/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "data/store/filter/internal.h"

static void rules_lock(struct rules *rules)
{
	must(pthread_mutex_lock(&rules->mutex) == 0);
}

static void rules_unlock(struct rules *rules)
{
	must(pthread_mutex_unlock(&rules->mutex) == 0);
}

void rules_init(struct rules *rules, uint64_t seed)
{
	must(pthread_mutex_init(&rules->mutex, NULL) == 0);
	random_init(&rules->random, seed);
	rules->count = 0;
}

void rules_deinit(struct rules *rules)
{
	must(pthread_mutex_destroy(&rules->mutex) == 0);
}

int rules_add(struct rules *rules, const struct filter_rule *rule)
{
	int rc = -ENOSPC;

	must(rule->effect != FILTER_NONE);
	must(rule->types != 0);
	rules_lock(rules);
	if (rules->count < FILTER_RULES_MAX) {
		rules->states[rules->count++] = (struct rule_state){ .rule = *rule };
		rc = 0;
	}
	rules_unlock(rules);
	return rc;
}

void rules_clear(struct rules *rules, uint32_t types)
{
	uint32_t kept = 0;

	rules_lock(rules);
	for (uint32_t i = 0; i < rules->count; i++) {
		if (!(rules->states[i].rule.types & types))
			rules->states[kept++] = rules->states[i];
	}
	rules->count = kept;
	rules_unlock(rules);
}

/* Whether `state` applies to one more I/O of its types; counts the I/O. */
static bool rule_applies(struct rules *rules, struct rule_state *state)
{
	const struct filter_rule *rule = &state->rule;

	if (state->seen++ < rule->skip)
		return false;
	if (rule->count && state->used >= rule->count)
		return false;
	if (rule->one_in > 1 && random_below(&rules->random, rule->one_in) != 0)
		return false;
	state->used++;
	return true;
}

struct filter_rule rules_choose(struct rules *rules, enum io_type type)
{
	struct filter_rule rule = { .effect = FILTER_NONE };

	must(type != IO_TYPE_RESET);
	rules_lock(rules);
	for (uint32_t i = 0; i < rules->count && rule.effect == FILTER_NONE; i++) {
		struct rule_state *state = &rules->states[i];

		if ((state->rule.types & BIT(type)) && rule_applies(rules, state))
			rule = state->rule;
	}
	must((int)rule.effect < (int)FILTER_EFFECTS_MAX);
	rules->counts[rule.effect]++;
	rules_unlock(rules);
	return rule;
}

uint64_t rules_random(struct rules *rules, uint64_t below)
{
	uint64_t number;

	must(below > 0);
	rules_lock(rules);
	number = random_below(&rules->random, below);
	rules_unlock(rules);
	return number;
}

void rules_counts(struct rules *rules, uint64_t counts[FILTER_EFFECTS_MAX])
{
	rules_lock(rules);
	memcpy(counts, rules->counts, sizeof(rules->counts));
	rules_unlock(rules);
}
