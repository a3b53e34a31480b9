/* SPDX-License-Identifier: BSD-2-Clause */
/* ctf_metadata - writes the description of the streams, in the Trace Stream Description Language of CTF 1.8. */
#include <ctype.h>
#include <inttypes.h>

#include "base/clock.h"
#include "inspect/export/ctf.h"

void ctf_uuid(const struct reader *reader, uint8_t uuid_ret[CTF_UUID_BYTES])
{
	const struct reader_info *info = reader_info(reader);
	uint64_t words[2] = { info->start_tick ^ (uint64_t)(uint32_t)info->pid << 40, info->tick_rate };

	for (const char *at = info->host; *at; at++)
		words[1] = (words[1] ^ (unsigned char)*at) * 0x100000001b3ull;
	for (const char *at = info->build_id; *at; at++)
		words[0] = (words[0] ^ (unsigned char)*at) * 0x100000001b3ull;
	for (size_t i = 0; i < CTF_UUID_BYTES; i++)
		uuid_ret[i] = (uint8_t)(words[i / 8] >> i % 8 * 8);
	/* version 8: a custom UUID */
	uuid_ret[6] = (uint8_t)((uuid_ret[6] & 0x0f) | 0x80);
	uuid_ret[8] = (uint8_t)((uuid_ret[8] & 0x3f) | 0x80);
}

void ctf_string(struct out *out, const char *text)
{
	out_char(out, '"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			out_char(out, '\\');
		out_char(out, *text >= 0x20 && *text < 0x7f ? *text : '?');
	}
	out_char(out, '"');
}

static char field_char(char c)
{
	return isalnum((unsigned char)c) && (unsigned char)c < 0x80 ? c : '_';
}

void ctf_field_name(struct out *out, const char *name, bool is_taken, uint32_t index)
{
	out_char(out, '_');
	for (; *name; name++)
		out_char(out, field_char(*name));
	if (is_taken)
		out_format(out, "__%" PRIu32, index);
}

static bool is_same_field(const char *a, const char *b)
{
	while (*a && field_char(*a) == field_char(*b)) {
		a++;
		b++;
	}
	return *a == *b || (*a && *b && field_char(*a) == field_char(*b));
}

/* ---- events ---- */

static bool has_earlier_label(const struct reader_enum *labels, uint32_t index)
{
	for (uint32_t i = 0; i < index; i++) {
		if (strcmp(labels->labels[i].text, labels->labels[index].text) == 0)
			return true;
	}
	return false;
}

/* Readers reject an enumeration without labels, and a duplicate label. False: nothing was written. */
static bool put_labels(struct out *out, const struct reader_enum *labels, uint64_t max)
{
	bool any = false;

	for (uint32_t i = 0; labels && i < labels->label_count; i++) {
		const struct reader_label *label = &labels->labels[i];

		if (label->value < 0 || (uint64_t)label->value > max || has_earlier_label(labels, i))
			continue;
		out_text(out, any ? ", " : "enum : ");
		if (!any)
			out_text(out, max > UINT32_MAX ? "uint64_t { " : "uint32_t { ");
		ctf_string(out, label->text);
		out_format(out, " = %" PRId64, label->value);
		any = true;
	}
	if (any)
		out_text(out, " }");
	return any;
}

/* The type as ctf.c writes it: whole slots, even if the schema's type is narrower. */
static void put_type(struct out *out, const struct reader_arg *arg)
{
	switch (arg->type) {
	case READER_U8:
	case READER_U16:
	case READER_U32:
		if (!put_labels(out, arg->labels, UINT32_MAX))
			out_text(out, "uint32_t");
		break;
	case READER_U64:
		if (!put_labels(out, arg->labels, INT64_MAX))
			out_text(out, "uint64_t");
		break;
	case READER_I32:
		out_text(out, "int32_t");
		break;
	case READER_I64:
		out_text(out, "int64_t");
		break;
	case READER_BOOL:
		out_text(out, "bool_t");
		break;
	case READER_HEX8:
	case READER_HEX16:
	case READER_HEX32:
		out_text(out, "hex32_t");
		break;
	case READER_HEX64:
	case READER_PTR:
		out_text(out, "hex64_t");
		break;
	case READER_STR:
	case READER_OBJ:
	case READER_REF:
		out_text(out, "string");
		break;
	}
}

static void put_event_type(struct out *out, const struct reader_point *point)
{
	out_text(out, "event {\n\tname = ");
	ctf_string(out, point->name);
	out_format(out, ";\n\tid = %u;\n\tstream_id = 0;\n\tfields := struct {\n", point->id);
	for (uint32_t i = 0; i < point->arg_count; i++) {
		bool is_taken = false;

		for (uint32_t j = 0; j < i; j++)
			is_taken = is_taken || is_same_field(point->args[j].name, point->args[i].name);
		out_text(out, "\t\t");
		put_type(out, &point->args[i]);
		out_char(out, ' ');
		ctf_field_name(out, point->args[i].name, is_taken, i);
		out_text(out, ";\n");
	}
	out_text(out, "\t};\n};\n\n");
}

/* ---- types, stream and clock ---- */

static const char types[] = "typealias integer { size = 8; align = 8; signed = false; } := uint8_t;\n"
			    "typealias integer { size = 16; align = 8; signed = false; } := uint16_t;\n"
			    "typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"
			    "typealias integer { size = 64; align = 8; signed = false; } := uint64_t;\n"
			    "typealias integer { size = 32; align = 8; signed = true; } := int32_t;\n"
			    "typealias integer { size = 64; align = 8; signed = true; } := int64_t;\n"
			    "typealias integer { size = 32; align = 8; signed = false; base = 16; } := hex32_t;\n"
			    "typealias integer { size = 64; align = 8; signed = false; base = 16; } := hex64_t;\n"
			    "typealias enum : uint8_t { \"false\" = 0, \"true\" = 1 } := bool_t;\n\n";

static const char streams[] =
	"typealias integer { size = 64; align = 8; signed = false; map = clock.fathom.value; } := ns_t;\n\n"
	"stream {\n"
	"\tid = 0;\n"
	"\tpacket.context := struct {\n"
	"\t\tns_t timestamp_begin;\n"
	"\t\tns_t timestamp_end;\n"
	"\t\tuint64_t content_size;\n"
	"\t\tuint64_t packet_size;\n"
	"\t\tuint64_t events_discarded;\n"
	"\t\tint32_t _core;\n"
	"\t\tint32_t _tid;\n"
	"\t\tstring _thread;\n"
	"\t};\n"
	"\tevent.header := struct {\n"
	"\t\tuint16_t id;\n"
	"\t\tns_t timestamp;\n"
	"\t};\n"
	"\tevent.context := struct {\n"
	"\t\tuint64_t _tick;\n"
	"\t\tuint32_t _seq;\n"
	"\t\tbool_t _shared;\n"
	"\t\tstring _owner;\n"
	"\t\tstring _object;\n"
	"\t\tstring _related;\n"
	"\t\tuint64_t _dwell_ns;\n"
	"\t\tuint64_t _total_ns;\n"
	"\t\tbool_t _total_partial;\n"
	"\t};\n"
	"};\n\n";

static void put_env(const struct reader_info *info, struct out *out)
{
	const char *const rows[][2] = {
		{ "hostname", info->host },   { "tracer_name", "fathom" },    { "program", info->name },
		{ "version", info->version }, { "build_id", info->build_id },
	};

	out_text(out, "env {\n");
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		out_format(out, "\t%s = ", rows[i][0]);
		ctf_string(out, rows[i][1]);
		out_text(out, ";\n");
	}
	out_format(out, "\tvpid = %" PRId32 ";\n\ttick_rate = %" PRIu64 ";\n};\n\n", info->pid,
		   (uint64_t)min_u64(info->tick_rate, INT64_MAX));
}

void ctf_metadata(const struct reader *reader, struct out *out)
{
	const struct reader_info *info = reader_info(reader);
	uint8_t uuid[CTF_UUID_BYTES];
	uint64_t realtime;

	ctf_uuid(reader, uuid);
	out_text(out, "/* CTF 1.8 */\n\n");
	out_text(out, types);
	out_text(out, "trace {\n\tmajor = 1;\n\tminor = 8;\n\tbyte_order = le;\n\tuuid = \"");
	for (size_t i = 0; i < CTF_UUID_BYTES; i++)
		out_format(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
	out_text(out,
		 "\";\n\tpacket.header := struct {\n\t\tuint32_t magic;\n\t\tuint8_t uuid[16];\n\t\tuint32_t stream_id;\n"
		 "\t\tuint64_t stream_instance_id;\n\t};\n};\n\n");
	put_env(info, out);
	/* without clock pairs the wall-clock time is unknown */
	if (reader_wall_ns(reader, info->start_tick, &realtime) != 0 || realtime >> CTF_NS_BITS)
		realtime = 0;
	out_format(out,
		   "clock {\n\tname = fathom;\n\tdescription = \"nanoseconds since the program started\";\n"
		   "\tfreq = 1000000000;\n\toffset_s = %" PRIu64 ";\n\toffset = %" PRIu64 ";\n\tabsolute = %s;\n};\n\n",
		   (uint64_t)(realtime / NS_PER_SEC), (uint64_t)(realtime % NS_PER_SEC), realtime ? "TRUE" : "FALSE");
	out_text(out, streams);
	for (uint32_t i = 0; i < info->point_count; i++)
		put_event_type(out, reader_point_at(reader, i));
	out_format(out,
		   "event {\n\tname = \"unknown point\";\n\tid = %d;\n\tstream_id = 0;\n\tfields := struct {\n"
		   "\t\tuint32_t _point;\n\t\thex32_t _object_id;\n\t\thex32_t _slots[3];\n\t};\n};\n",
		   CTF_UNKNOWN_POINT);
}
