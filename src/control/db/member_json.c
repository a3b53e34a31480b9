/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Encode and decode one member as JSON. Nearly all input is the exact output of member_encode(), and a load may read ten
 * thousand members. So a parser for exactly that form comes first; it builds no tree. jansson reads all other forms.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "control/db/system_store.h"

enum { STATE_BYTES = 24, DIGITS_MAX = 19 };

/* jansson's integers are signed; the conversion keeps the bits. */
static json_t *pack_u64(uint64_t number)
{
	return json_integer((json_int_t)number);
}

static json_t *pack_fabrics(const struct member *member)
{
	json_t *fabrics = json_array();

	for (uint32_t i = 0; fabrics && i < member->fabric_count; i++) {
		json_t *fabric = json_pack("{s:s, s:o}", "uri", member->fabrics[i].uri, "contexts",
					   pack_u64(member->fabrics[i].contexts));

		if (json_array_append_new(fabrics, fabric) < 0) {
			json_decref(fabrics);
			return NULL;
		}
	}
	return fabrics;
}

int member_encode(const struct member *member, char **text_ret)
{
	char uuid[MEMBER_UUID_TEXT_BYTES];
	json_t *json = json_pack("{s:o, s:s, s:s, s:o, s:o, s:s, s:s, s:s, s:o}", "rank", pack_u64(member->rank), "uuid",
				 member_uuid_format(member->uuid, uuid), "state", member_state_wire(member->state),
				 "incarnation", pack_u64(member->incarnation), "updated_ns", pack_u64(member->updated_ns),
				 "address", member->address, "fault_domain", member->domain, "info", member->info,
				 "fabrics", pack_fabrics(member));
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

	json_decref(json);
	if (!text)
		return -ENOMEM;
	*text_ret = text;
	return 0;
}

static bool unpack_fabrics(const json_t *fabrics, struct member *member)
{
	size_t count = json_array_size(fabrics);

	if (count == 0 || count > MEMBER_FABRICS_MAX)
		return false;
	member->fabric_count = (uint32_t)count;
	for (size_t i = 0; i < count; i++) {
		json_int_t contexts;
		const char *uri;

		if (json_unpack(json_array_get(fabrics, i), "{s:s, s:I !}", "uri", &uri, "contexts", &contexts) < 0 ||
		    contexts < 0 || contexts > UINT32_MAX ||
		    text_copy(member->fabrics[i].uri, sizeof(member->fabrics[i].uri), uri) < 0)
			return false;
		member->fabrics[i].contexts = (uint32_t)contexts;
	}
	return true;
}

static bool unpack_member(json_t *json, struct member *member)
{
	const char *uuid, *state, *address, *domain, *info;
	json_int_t rank, incarnation, updated_ns;
	char labels[MEMBER_DOMAIN_BYTES];
	json_t *fabrics;
	uint32_t depth;

	if (json_unpack(json, "{s:I, s:s, s:s, s:I, s:I, s:s, s:s, s:s, s:o !}", "rank", &rank, "uuid", &uuid, "state",
			&state, "incarnation", &incarnation, "updated_ns", &updated_ns, "address", &address, "fault_domain",
			&domain, "info", &info, "fabrics", &fabrics) < 0)
		return false;
	if (rank < 0 || rank > RANK_MAX || member_uuid_parse(uuid, member->uuid) < 0 ||
	    member_state_parse(state, &member->state) < 0 || member_domain_parse(domain, &depth, labels, NULL) < 0)
		return false;
	member->rank = (uint32_t)rank;
	member->incarnation = (uint64_t)incarnation;
	member->updated_ns = (uint64_t)updated_ns;
	return text_copy(member->address, sizeof(member->address), address) == 0 &&
	       text_copy(member->domain, sizeof(member->domain), domain) == 0 &&
	       text_copy(member->info, sizeof(member->info), info) == 0 && unpack_fabrics(fabrics, member);
}

/* ---- the exact form of member_encode() ---- */

struct cursor {
	const char *at, *end;
};

static bool match_text(struct cursor *cursor, const char *words)
{
	size_t bytes = strlen(words);

	if ((size_t)(cursor->end - cursor->at) < bytes || memcmp(cursor->at, words, bytes) != 0)
		return false;
	cursor->at += bytes;
	return true;
}

/* Parse `before` and an unsigned number of at most INT64_MAX. A larger one is written with a sign: left to jansson. */
static bool parse_number(struct cursor *cursor, const char *before, uint64_t *number_ret)
{
	uint64_t number = 0;
	int digits = 0;

	if (!match_text(cursor, before))
		return false;
	for (; cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9'; cursor->at++, digits++) {
		if (digits == DIGITS_MAX || (digits > 0 && number == 0))
			return false;
		number = number * 10 + (uint64_t)(*cursor->at - '0');
	}
	*number_ret = number;
	return digits > 0 && number <= INT64_MAX;
}

/* Parse `before`, printable ASCII without escapes, and the closing quote. Bytes after the text in `to` are not changed. */
static bool parse_text(struct cursor *cursor, const char *before, char *to, size_t room)
{
	size_t bytes = 0;

	if (!match_text(cursor, before))
		return false;
	for (; cursor->at < cursor->end && *cursor->at != '"'; cursor->at++) {
		if (*cursor->at < ' ' || *cursor->at > '~' || *cursor->at == '\\' || bytes + 1 >= room)
			return false;
		to[bytes++] = *cursor->at;
	}
	to[bytes] = '\0';
	return match_text(cursor, "\"");
}

static bool parse_fabrics(struct cursor *cursor, struct member *member)
{
	uint64_t contexts;

	if (!match_text(cursor, ",\"fabrics\":["))
		return false;
	do {
		struct member_fabric *fabric = &member->fabrics[member->fabric_count];

		if (member->fabric_count == MEMBER_FABRICS_MAX ||
		    !parse_text(cursor, "{\"uri\":\"", fabric->uri, sizeof(fabric->uri)) ||
		    !parse_number(cursor, ",\"contexts\":", &contexts) || contexts > UINT32_MAX || !match_text(cursor, "}"))
			return false;
		fabric->contexts = (uint32_t)contexts;
		member->fabric_count++;
	} while (match_text(cursor, ","));
	return match_text(cursor, "]}") && cursor->at == cursor->end;
}

/* `member` must be zeroed. false: another form, or invalid; `member` is then partly filled. */
static bool parse_own_form(const char *text, size_t bytes, struct member *member)
{
	struct cursor cursor = { text, text + bytes };
	char uuid[MEMBER_UUID_TEXT_BYTES], state[STATE_BYTES], labels[MEMBER_DOMAIN_BYTES];
	uint32_t depth;
	uint64_t rank;

	if (!parse_number(&cursor, "{\"rank\":", &rank) || rank > RANK_MAX ||
	    !parse_text(&cursor, ",\"uuid\":\"", uuid, sizeof(uuid)) ||
	    !parse_text(&cursor, ",\"state\":\"", state, sizeof(state)) ||
	    !parse_number(&cursor, ",\"incarnation\":", &member->incarnation) ||
	    !parse_number(&cursor, ",\"updated_ns\":", &member->updated_ns) ||
	    !parse_text(&cursor, ",\"address\":\"", member->address, sizeof(member->address)) ||
	    !parse_text(&cursor, ",\"fault_domain\":\"", member->domain, sizeof(member->domain)) ||
	    !parse_text(&cursor, ",\"info\":\"", member->info, sizeof(member->info)) || !parse_fabrics(&cursor, member))
		return false;
	member->rank = (uint32_t)rank;
	return member_uuid_parse(uuid, member->uuid) == 0 && member_state_parse(state, &member->state) == 0 &&
	       member_domain_parse(member->domain, &depth, labels, NULL) == 0;
}

int member_decode(const char *text, size_t bytes, struct member *member_ret)
{
	json_t *json;
	bool is_good;

	memset(member_ret, 0, sizeof(*member_ret));
	if (parse_own_form(text, bytes, member_ret))
		return 0;
	memset(member_ret, 0, sizeof(*member_ret));
	json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
	is_good = json && unpack_member(json, member_ret);
	json_decref(json);
	return is_good ? 0 : -EBADMSG;
}
