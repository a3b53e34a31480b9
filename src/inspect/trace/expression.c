/* SPDX-License-Identifier: BSD-2-Clause */
/* expression - a recursive-descent parser that stores its nodes in one array, and an evaluator that walks them. */
#include "inspect/trace/expression.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bits.h"

enum node_kind { NODE_OR, NODE_AND, NODE_NOT, NODE_COMPARE };

enum compare {
	COMPARE_TRUE,
	COMPARE_EQUAL,
	COMPARE_UNEQUAL,
	COMPARE_LESS,
	COMPARE_LESS_EQUAL,
	COMPARE_MORE,
	COMPARE_MORE_EQUAL,
	COMPARE_CONTAINS
};

struct node {
	enum node_kind kind;
	uint32_t left, right; /* other nodes */
	/* of a comparison */
	enum compare compare;
	uint32_t name;
	bool is_number, is_time; /* is_time: in nanoseconds */
	long double number;
	size_t text, text_bytes; /* offsets in the source */
};

struct expression {
	char source[EXPRESSION_BYTES_MAX + 1];
	uint32_t node_count, root, name_count;
	struct node nodes[EXPRESSION_NODES_MAX];
	struct {
		char text[EXPRESSION_NAME_BYTES_MAX];
		size_t place;
	} names[EXPRESSION_NAMES_MAX];
};

struct parser {
	struct expression *expression;
	const char *source;
	size_t at;
	int depth;
	struct fathom_fault *why;
	size_t place; /* offset of the error */
};

/* ---- words ---- */

static bool begins_word(char c)
{
	return isalpha((unsigned char)c) || c == '_';
}

static bool is_in_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static void skip_blanks(struct parser *parser)
{
	while (isspace((unsigned char)parser->source[parser->at]))
		parser->at++;
}

static size_t word_bytes(const struct parser *parser)
{
	size_t bytes = 0;

	while (is_in_word(parser->source[parser->at + bytes]))
		bytes++;
	return bytes;
}

static bool accept_token(struct parser *parser, const char *mark)
{
	size_t bytes = strlen(mark);

	skip_blanks(parser);
	if (strncasecmp(parser->source + parser->at, mark, bytes) != 0)
		return false;
	/* a keyword ends where a word ends: "order" is not "or" */
	if (begins_word(mark[0]) && is_in_word(parser->source[parser->at + bytes]))
		return false;
	parser->at += bytes;
	return true;
}

static int report_error(struct parser *parser, size_t place, const char *text)
{
	parser->place = place;
	return fault(parser->why, -EINVAL, "%s", text);
}

static int new_node(struct parser *parser, enum node_kind kind, uint32_t left, uint32_t right, uint32_t *node_ret)
{
	struct expression *expression = parser->expression;

	if (expression->node_count == EXPRESSION_NODES_MAX)
		return report_error(parser, parser->at, "this is too long: too many conditions");
	expression->nodes[expression->node_count] = (struct node){ .kind = kind, .left = left, .right = right };
	*node_ret = expression->node_count++;
	return 0;
}

/* ---- values ---- */

static const struct {
	const char *text;
	long double factor;
	bool is_time;
} units[] = {
	{ "ns", 1, true },
	{ "us", 1e3L, true },
	{ "ms", 1e6L, true },
	{ "s", 1e9L, true },
	{ "min", 60e9L, true },
	{ "k", 1024, false },
	{ "kib", 1024, false },
	{ "m", 1048576, false },
	{ "mib", 1048576, false },
	{ "g", 1073741824, false },
	{ "gib", 1073741824, false },
	{ "t", 1099511627776, false },
	{ "tib", 1099511627776, false },
};

static int parse_number_operand(struct parser *parser, struct node *node)
{
	const char *from = parser->source + parser->at;
	size_t begin = parser->at, digits = from[0] == '-' || from[0] == '+' ? 1 : 0, bytes;
	char *end;

	node->is_number = true;
	if (from[digits] == '0' && (from[digits + 1] == 'x' || from[digits + 1] == 'X')) {
		/* strtold() would accept a binary exponent */
		errno = 0;
		node->number = (long double)strtoull(from + digits, &end, 16);
		if (errno)
			return report_error(parser, begin, "this number has more than 64 bits");
		if (from[0] == '-')
			node->number = -node->number;
	} else {
		node->number = strtold(from, &end);
	}
	parser->at = (size_t)(end - parser->source);
	bytes = word_bytes(parser);
	for (size_t i = 0; i < ARRAY_COUNT(units) && bytes > 0; i++) {
		if (strlen(units[i].text) == bytes && strncasecmp(units[i].text, end, bytes) == 0) {
			node->number *= units[i].factor;
			node->is_time = units[i].is_time;
			parser->at += bytes;
			return 0;
		}
	}
	if (bytes > 0)
		return report_error(parser, parser->at, "no unit: ns, us, ms, s, min; k, M, G, T");
	return 0;
}

static int parse_operand(struct parser *parser, struct node *node)
{
	const char *from;
	char quote;

	skip_blanks(parser);
	from = parser->source + parser->at;
	if (isdigit((unsigned char)from[0]) ||
	    ((from[0] == '-' || from[0] == '+' || from[0] == '.') && isdigit((unsigned char)from[1])))
		return parse_number_operand(parser, node);
	quote = from[0];
	if (quote == '"' || quote == '\'') {
		const char *end = strchr(from + 1, quote);

		if (!end)
			return report_error(parser, parser->at, "the closing quote is missing");
		node->text = parser->at + 1;
		node->text_bytes = (size_t)(end - from) - 1;
		parser->at += node->text_bytes + 2;
		return 0;
	}
	if (!begins_word(quote))
		return report_error(parser, parser->at, "a value is missing: a number, a word or \"text\"");
	node->text = parser->at;
	node->text_bytes = word_bytes(parser);
	parser->at += node->text_bytes;
	return 0;
}

/* ---- the grammar ---- */

static int parse_either(struct parser *parser, uint32_t *node_ret);

static int parse_name(struct parser *parser, uint32_t *name_ret)
{
	struct expression *expression = parser->expression;
	size_t bytes = word_bytes(parser);
	uint32_t name = 0;

	if (!begins_word(parser->source[parser->at]))
		return report_error(parser, parser->at, "the name of an argument is missing");
	if (bytes >= EXPRESSION_NAME_BYTES_MAX)
		return report_error(parser, parser->at, "this name is too long");
	while (name < expression->name_count &&
	       (strlen(expression->names[name].text) != bytes ||
		strncasecmp(expression->names[name].text, parser->source + parser->at, bytes) != 0))
		name++;
	if (name == EXPRESSION_NAMES_MAX)
		return report_error(parser, parser->at, "this is too long: too many names");
	if (name == expression->name_count) {
		memcpy(expression->names[name].text, parser->source + parser->at, bytes);
		expression->names[name].place = parser->at;
		expression->name_count++;
	}
	parser->at += bytes;
	*name_ret = name;
	return 0;
}

static enum compare parse_compare(struct parser *parser)
{
	/* longer operators first: "<" is a prefix of "<=" */
	static const struct {
		const char *text;
		enum compare compare;
	} rows[] = {
		{ "==", COMPARE_EQUAL },      { "=~", COMPARE_CONTAINS },   { "!=", COMPARE_UNEQUAL },
		{ "<=", COMPARE_LESS_EQUAL }, { ">=", COMPARE_MORE_EQUAL }, { "<", COMPARE_LESS },
		{ ">", COMPARE_MORE },	      { "=", COMPARE_EQUAL },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		if (accept_token(parser, rows[i].text))
			return rows[i].compare;
	}
	return COMPARE_TRUE;
}

static int parse_comparison(struct parser *parser, uint32_t *node_ret)
{
	struct node comparison = { .kind = NODE_COMPARE };
	size_t place;
	int rc;

	skip_blanks(parser);
	rc = parse_name(parser, &comparison.name);
	if (rc)
		return rc;
	comparison.compare = parse_compare(parser);
	if (comparison.compare != COMPARE_TRUE) {
		skip_blanks(parser);
		place = parser->at;
		rc = parse_operand(parser, &comparison);
		if (rc)
			return rc;
		if (comparison.compare == COMPARE_CONTAINS && comparison.is_number)
			return report_error(parser, place, "=~ needs a text: put it in quotes");
		if (comparison.compare >= COMPARE_LESS && comparison.compare <= COMPARE_MORE_EQUAL && !comparison.is_number)
			return report_error(parser, place, "<, <=, > and >= need a number");
	}
	rc = new_node(parser, NODE_COMPARE, 0, 0, node_ret);
	if (rc == 0)
		parser->expression->nodes[*node_ret] = comparison;
	return rc;
}

static int parse_one(struct parser *parser, uint32_t *node_ret)
{
	uint32_t inner;
	int rc;

	skip_blanks(parser);
	if (parser->depth == EXPRESSION_DEPTH_MAX)
		return report_error(parser, parser->at, "too many parentheses");
	parser->depth++;
	if (accept_token(parser, "not") || (parser->source[parser->at] == '!' && accept_token(parser, "!"))) {
		rc = parse_one(parser, &inner);
		if (rc == 0)
			rc = new_node(parser, NODE_NOT, inner, inner, node_ret);
	} else if (accept_token(parser, "(")) {
		size_t place = parser->at - 1;

		rc = parse_either(parser, node_ret);
		if (rc == 0 && !accept_token(parser, ")"))
			rc = parser->source[parser->at] ? report_error(parser, parser->at, "`and`, `or` or `)` is missing")
							: report_error(parser, place, "this parenthesis is not closed");
	} else {
		rc = parse_comparison(parser, node_ret);
	}
	parser->depth--;
	return rc;
}

static int parse_both(struct parser *parser, uint32_t *node_ret)
{
	int rc = parse_one(parser, node_ret);

	while (rc == 0 && (accept_token(parser, "and") || accept_token(parser, "&&"))) {
		uint32_t left = *node_ret, right;

		rc = parse_one(parser, &right);
		if (rc == 0)
			rc = new_node(parser, NODE_AND, left, right, node_ret);
	}
	return rc;
}

static int parse_either(struct parser *parser, uint32_t *node_ret)
{
	int rc = parse_both(parser, node_ret);

	while (rc == 0 && (accept_token(parser, "or") || accept_token(parser, "||"))) {
		uint32_t left = *node_ret, right;

		rc = parse_both(parser, &right);
		if (rc == 0)
			rc = new_node(parser, NODE_OR, left, right, node_ret);
	}
	return rc;
}

int expression_parse(const char *text, struct expression **expression_ret, struct fathom_fault *why, size_t *place_ret)
{
	struct parser parser = { .why = why };
	size_t bytes = strnlen(text, EXPRESSION_BYTES_MAX + 1);
	int rc;

	*place_ret = 0;
	if (bytes > EXPRESSION_BYTES_MAX) {
		*place_ret = EXPRESSION_BYTES_MAX;
		return fault(why, -EINVAL, "this is too long: at most %d bytes", EXPRESSION_BYTES_MAX);
	}
	parser.expression = calloc(1, sizeof(*parser.expression));
	if (!parser.expression)
		return fault(why, -ENOMEM, "out of memory");
	memcpy(parser.expression->source, text, bytes);
	parser.source = parser.expression->source;
	rc = parse_either(&parser, &parser.expression->root);
	skip_blanks(&parser);
	if (rc == 0 && parser.source[parser.at])
		rc = report_error(&parser, parser.at, "`and` or `or` is missing");
	if (rc) {
		must(parser.place <= bytes);
		*place_ret = parser.place;
		free(parser.expression);
		return rc;
	}
	*expression_ret = parser.expression;
	return 0;
}

void expression_free(struct expression *expression)
{
	free(expression);
}

uint32_t expression_name_count(const struct expression *expression)
{
	return expression->name_count;
}

const char *expression_name(const struct expression *expression, uint32_t name, size_t *place_ret)
{
	must(name < expression->name_count);
	*place_ret = expression->names[name].place;
	return expression->names[name].text;
}

bool expression_wanted_text(const struct expression *expression, uint32_t index, uint32_t *name_ret, const char **text_ret,
			    size_t *bytes_ret, size_t *place_ret)
{
	const struct node *node;

	if (index >= expression->node_count)
		return false;
	node = &expression->nodes[index];
	*bytes_ret = 0;
	if (node->kind != NODE_COMPARE || node->is_number ||
	    (node->compare != COMPARE_EQUAL && node->compare != COMPARE_UNEQUAL))
		return true;
	*name_ret = node->name;
	*text_ret = expression->source + node->text;
	*bytes_ret = node->text_bytes;
	*place_ret = node->text;
	return true;
}

/* ---- evaluating ---- */

static bool contains_ignoring_case(const char *text, size_t bytes, const char *part, size_t part_bytes)
{
	for (size_t at = 0; at + part_bytes <= bytes; at++) {
		if (strncasecmp(text + at, part, part_bytes) == 0)
			return true;
	}
	return false;
}

static bool compare_numbers(enum compare compare, long double left, long double right)
{
	switch (compare) {
	case COMPARE_EQUAL:
		return left == right;
	case COMPARE_UNEQUAL:
		return left != right;
	case COMPARE_LESS:
		return left < right;
	case COMPARE_LESS_EQUAL:
		return left <= right;
	case COMPARE_MORE:
		return left > right;
	case COMPARE_MORE_EQUAL:
		return left >= right;
	case COMPARE_TRUE:
	case COMPARE_CONTAINS:
		break;
	}
	return false;
}

static bool compare_value(const struct expression *expression, const struct node *node,
			  const struct expression_value *value)
{
	const char *text = expression->source + node->text;

	if (node->compare == COMPARE_TRUE)
		return value->has_number ? value->number != 0 : value->text_bytes > 0;
	if (node->is_number) {
		if (!value->has_number || (node->is_time && value->unit_ns == 0))
			return false;
		return compare_numbers(node->compare, node->is_time ? value->number * value->unit_ns : value->number,
				       node->number);
	}
	if (!value->text)
		return false;
	if (node->compare == COMPARE_CONTAINS)
		return contains_ignoring_case(value->text, value->text_bytes, text, node->text_bytes);
	return (value->text_bytes == node->text_bytes && strncasecmp(value->text, text, node->text_bytes) == 0) ==
	       (node->compare == COMPARE_EQUAL);
}

static bool evaluate_node(const struct expression *expression, uint32_t index, expression_lookup_fn lookup, void *ctx)
{
	const struct node *node = &expression->nodes[index];
	struct expression_value value = { 0 };

	switch (node->kind) {
	case NODE_OR:
		return evaluate_node(expression, node->left, lookup, ctx) ||
		       evaluate_node(expression, node->right, lookup, ctx);
	case NODE_AND:
		return evaluate_node(expression, node->left, lookup, ctx) &&
		       evaluate_node(expression, node->right, lookup, ctx);
	case NODE_NOT:
		return !evaluate_node(expression, node->left, lookup, ctx);
	case NODE_COMPARE:
		break;
	}
	return lookup(ctx, node->name, &value) && compare_value(expression, node, &value);
}

bool expression_evaluate(const struct expression *expression, expression_lookup_fn lookup, void *ctx)
{
	return evaluate_node(expression, expression->root, lookup, ctx);
}

/* ---- the event in front of an expression ---- */

static size_t copy_event_word(const char *text, char *word)
{
	size_t bytes = 0;

	while (begins_word(text[0]) && is_in_word(text[bytes]))
		bytes++;
	if (bytes >= EXPRESSION_NAME_BYTES_MAX)
		return 0;
	memcpy(word, text, bytes);
	word[bytes] = '\0';
	return bytes;
}

size_t expression_event(const char *text, char *group, char *name)
{
	size_t begin = strspn(text, " \t\r\n"), at = begin, bytes;

	bytes = copy_event_word(text + at, group);
	at += bytes;
	if (bytes > 0 && text[at] == '.' && (bytes = copy_event_word(text + at + 1, name)) > 0) {
		at += 1 + bytes;
		if (text[at] == '\0' || isspace((unsigned char)text[at]))
			return at + strspn(text + at, " \t\r\n");
	}
	group[0] = name[0] = '\0';
	return begin;
}
