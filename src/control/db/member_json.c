/* SPDX-License-Identifier: BSD-2-Clause */
/* Encode and decode one member as JSON. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/json/json_memory.h"
#include "control/db/system_store.h"

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
	json_t *json;
	char *text;

	must(member->fabric_count > 0);
	must(member->fabric_count <= MEMBER_FABRICS_MAX);
	must(member->rank <= RANK_MAX);
	must(member->state != MEMBER_UNKNOWN);
	json_memory_begin();
	json = json_pack("{s:o, s:s, s:s, s:o, s:o, s:s, s:s, s:s, s:o}", "rank", pack_u64(member->rank), "uuid",
			 member_uuid_format(member->uuid, uuid), "state", member_state_wire(member->state), "incarnation",
			 pack_u64(member->incarnation), "updated_ns", pack_u64(member->updated_ns), "address",
			 member->address, "fault_domain", member->domain, "info", member->info, "fabrics",
			 pack_fabrics(member));
	text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	json_decref(json);
	if (json_memory_end(text) < 0) {
		free(text);
		return -ENOMEM;
	}
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

int member_decode(const char *text, size_t bytes, struct member *member_ret)
{
	json_t *json;
	bool is_good;

	memset(member_ret, 0, sizeof(*member_ret));
	json_memory_begin();
	json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
	is_good = json && unpack_member(json, member_ret);
	json_decref(json);
	return json_memory_end(is_good);
}
