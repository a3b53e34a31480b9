/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * instruction - which memory an instruction of x86-64 accesses. A core has the address of a fault, but neither its size nor
 * whether it was a read or a write.
 *
 * It knows the instructions that compilers emit for moves, arithmetic, calls and vectors. For others the words of the
 * crash do not say read or write.
 */
#include <elf.h>
#include <string.h>

#include "inspect/core/internal.h"

enum { RAX, RDX, RCX, RBX, RSI, RDI, RBP, RSP, RIP = 16, INSTRUCTION_BYTES_MAX = 15 };

/* The processor's numbers of registers, as DWARF's. */
static const uint8_t dwarf_numbers[16] = { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, 8, 9, 10, 11, 12, 13, 14, 15 };

struct decoder {
	const uint8_t *code;
	size_t bytes, at;
	const uint64_t *registers;
	bool operand16, repeat, repeat_not, segment;
	uint8_t rex;	       /* bits W, R, X, B */
	uint32_t vector_bytes; /* of VEX and EVEX; 0: neither */
	bool scaled;	       /* EVEX: a short displacement counts in vectors */
	uint8_t map;	       /* 0: one byte; 1: 0F; 2: 0F 38; 3: 0F 3A */
	uint8_t opcode, modrm;
	bool has_modrm;
};

static int next_byte(struct decoder *decoder)
{
	if (decoder->at >= decoder->bytes || decoder->at >= INSTRUCTION_BYTES_MAX)
		return -1;
	return decoder->code[decoder->at++];
}

/* ---- prefixes ---- */

static void set_prefix(struct decoder *decoder, unsigned int kind)
{
	decoder->operand16 = kind == 1;
	decoder->repeat = kind == 2;
	decoder->repeat_not = kind == 3;
}

/* C5, C4 and 62 encode prefixes, map and length of vectors; the opcode follows. */
static bool read_vector_prefix(struct decoder *decoder, int first)
{
	int a = next_byte(decoder), b = first == 0xc5 ? a : next_byte(decoder), c = first == 0x62 ? next_byte(decoder) : 0;

	if (a < 0 || b < 0 || c < 0)
		return false;
	decoder->map = first == 0xc5 ? 1 : (uint8_t)(a & 3);
	decoder->rex = (uint8_t)(first == 0xc5 ? (~a >> 5 & 4) : ((~a >> 5 & 7) | (b >> 4 & 8)));
	set_prefix(decoder, (unsigned int)b & 3);
	decoder->vector_bytes = first == 0x62 ? 16u << (c >> 5 & 3) : b & 4 ? 32 : 16;
	decoder->scaled = first == 0x62;
	return true;
}

static bool read_opcode(struct decoder *decoder)
{
	int byte;

	while ((byte = next_byte(decoder)) >= 0) {
		if (byte == 0x66)
			decoder->operand16 = true;
		else if (byte == 0xf3)
			decoder->repeat = true;
		else if (byte == 0xf2)
			decoder->repeat_not = true;
		else if (byte == 0x64 || byte == 0x65)
			decoder->segment = true;
		else if (byte != 0xf0 && byte != 0x2e && byte != 0x3e && byte != 0x26 && byte != 0x36)
			break;
	}
	if (byte >= 0x40 && byte <= 0x4f) {
		decoder->rex = (uint8_t)(byte & 15);
		byte = next_byte(decoder);
	}
	if (byte == 0xc5 || byte == 0xc4 || byte == 0x62) {
		if (!read_vector_prefix(decoder, byte))
			return false;
		byte = next_byte(decoder);
	} else if (byte == 0x0f) {
		decoder->map = 1;
		byte = next_byte(decoder);
		if (byte == 0x38 || byte == 0x3a) {
			decoder->map = byte == 0x38 ? 2 : 3;
			byte = next_byte(decoder);
		}
	}
	decoder->opcode = (uint8_t)byte;
	return byte >= 0;
}

/* ---- what opcodes do ---- */

enum { NONE = 0, READ = 1, WRITE = 2, BOTH = 3 };

static uint32_t operand_bytes(const struct decoder *decoder)
{
	return decoder->rex & 8 ? 8 : decoder->operand16 ? 2 : 4;
}

/* Of opcodes whose bit 0 chooses between a byte and an operand of normal size. */
static uint32_t sized(const struct decoder *decoder)
{
	return decoder->opcode & 1 ? operand_bytes(decoder) : 1;
}

/* Also of whole vectors, by the prefix. */
static uint32_t scalar_bytes(const struct decoder *decoder)
{
	return decoder->repeat ? 4 : decoder->repeat_not ? 8 : decoder->vector_bytes ? decoder->vector_bytes : 16;
}

/* One-byte opcodes with a ModRM byte. */
static int effect_of_plain(const struct decoder *decoder, uint32_t *bytes_ret)
{
	uint8_t opcode = decoder->opcode, extension = decoder->modrm >> 3 & 7;

	*bytes_ret = sized(decoder);
	if (opcode < 0x40)
		return (opcode & 7) > 3 ? NONE : (opcode & 7) > 1 || (opcode & 0x38) == 0x38 ? READ : BOTH;
	switch (opcode) {
	case 0x63:
		*bytes_ret = 4;
		return READ;
	case 0x69:
	case 0x6b:
		*bytes_ret = operand_bytes(decoder);
		return READ;
	case 0x80 ... 0x83:
		*bytes_ret = opcode == 0x80 ? 1 : operand_bytes(decoder);
		return extension == 7 ? READ : BOTH;
	case 0x84:
	case 0x85:
	case 0x8a:
	case 0x8b:
		return READ;
	case 0x86:
	case 0x87:
	case 0xc0:
	case 0xc1:
	case 0xd0 ... 0xd3:
		return BOTH;
	case 0x88:
	case 0x89:
	case 0xc6:
	case 0xc7:
		return WRITE;
	case 0xd8 ... 0xdf:
		*bytes_ret = 0;
		return READ;
	case 0xf6:
	case 0xf7:
		return extension == 2 || extension == 3 ? BOTH : READ;
	case 0xfe:
	case 0xff:
		if (opcode == 0xff && extension >= 2)
			*bytes_ret = 8;
		return extension < 2 ? BOTH : READ;
	default:
		return NONE;
	}
}

enum size { OPERAND, BYTE_OR_OPERAND, SCALAR, VECTOR, BYTE, TWO, EIGHT, PAIR };

/* Opcodes after 0F. */
static const struct {
	uint8_t from, to, effect;
	enum size size;
} extended[] = {
	{ 0x10, 0x10, READ, SCALAR },
	{ 0x11, 0x11, WRITE, SCALAR },
	{ 0x12, 0x12, READ, EIGHT },
	{ 0x13, 0x13, WRITE, EIGHT },
	{ 0x14, 0x15, READ, VECTOR },
	{ 0x16, 0x16, READ, EIGHT },
	{ 0x17, 0x17, WRITE, EIGHT },
	{ 0x28, 0x28, READ, VECTOR },
	{ 0x29, 0x29, WRITE, VECTOR },
	{ 0x2a, 0x2a, READ, OPERAND },
	{ 0x2b, 0x2b, WRITE, VECTOR },
	{ 0x2c, 0x2f, READ, SCALAR },
	{ 0x40, 0x4f, READ, OPERAND },
	{ 0x51, 0x5f, READ, SCALAR },
	{ 0x60, 0x6d, READ, VECTOR },
	{ 0x6e, 0x6e, READ, OPERAND },
	{ 0x6f, 0x6f, READ, VECTOR },
	{ 0x74, 0x76, READ, VECTOR },
	{ 0x7f, 0x7f, WRITE, VECTOR },
	{ 0x90, 0x9f, WRITE, BYTE },
	{ 0xa3, 0xa3, READ, OPERAND },
	{ 0xa4, 0xa5, BOTH, OPERAND },
	{ 0xab, 0xad, BOTH, OPERAND },
	{ 0xaf, 0xaf, READ, OPERAND },
	{ 0xb0, 0xb1, BOTH, BYTE_OR_OPERAND },
	{ 0xb3, 0xb3, BOTH, OPERAND },
	{ 0xb6, 0xb6, READ, BYTE },
	{ 0xb7, 0xb7, READ, TWO },
	{ 0xb8, 0xb8, READ, OPERAND },
	{ 0xba, 0xba, BOTH, OPERAND },
	{ 0xbb, 0xbb, BOTH, OPERAND },
	{ 0xbc, 0xbd, READ, OPERAND },
	{ 0xbe, 0xbe, READ, BYTE },
	{ 0xbf, 0xbf, READ, TWO },
	{ 0xc0, 0xc1, BOTH, BYTE_OR_OPERAND },
	{ 0xc2, 0xc2, READ, VECTOR },
	{ 0xc6, 0xc6, READ, VECTOR },
	{ 0xc7, 0xc7, BOTH, PAIR },
	{ 0xd0, 0xd5, READ, VECTOR },
	{ 0xd6, 0xd6, WRITE, EIGHT },
	{ 0xd8, 0xe6, READ, VECTOR },
	{ 0xe7, 0xe7, WRITE, VECTOR },
	{ 0xe8, 0xfe, READ, VECTOR },
};

static uint32_t bytes_of(const struct decoder *decoder, enum size size)
{
	switch (size) {
	case OPERAND:
		return operand_bytes(decoder);
	case BYTE_OR_OPERAND:
		return sized(decoder);
	case SCALAR:
		return scalar_bytes(decoder);
	case VECTOR:
		return decoder->vector_bytes ? decoder->vector_bytes : 16;
	case BYTE:
		return 1;
	case TWO:
		return 2;
	case EIGHT:
		return 8;
	case PAIR:
		return decoder->rex & 8 ? 16 : 8;
	}
	return 0;
}

static int effect_of_extended(const struct decoder *decoder, uint32_t *bytes_ret)
{
	uint8_t opcode = decoder->opcode;

	if (opcode == 0x7e) { /* movq from memory, or movd to it */
		*bytes_ret = decoder->repeat ? 8 : operand_bytes(decoder);
		return decoder->repeat ? READ : WRITE;
	}
	for (size_t i = 0; i < ARRAY_COUNT(extended); i++) {
		if (opcode < extended[i].from || opcode > extended[i].to)
			continue;
		*bytes_ret = bytes_of(decoder, extended[i].size);
		/* bt only reads */
		return opcode == 0xba && (decoder->modrm >> 3 & 7) == 4 ? READ : extended[i].effect;
	}
	return NONE;
}

/* The effect on the operand of the ModRM byte. */
static int effect_of(const struct decoder *decoder, uint32_t *bytes_ret)
{
	if (decoder->map == 0)
		return effect_of_plain(decoder, bytes_ret);
	if (decoder->map == 1)
		return effect_of_extended(decoder, bytes_ret);
	*bytes_ret = decoder->vector_bytes ? decoder->vector_bytes : 16;
	if (decoder->map == 2 && decoder->opcode >= 0xf0) /* crc32, movbe */
		*bytes_ret = sized(decoder);
	return READ;
}

/* ---- addresses ---- */

static uint64_t register_of(const struct decoder *decoder, uint32_t number)
{
	return decoder->registers[dwarf_numbers[number & 15]];
}

static bool read_displacement(struct decoder *decoder, uint32_t bytes, int64_t *distance_ret)
{
	uint32_t raw = 0;

	for (uint32_t i = 0; i < bytes; i++) {
		int byte = next_byte(decoder);

		if (byte < 0)
			return false;
		raw |= (uint32_t)byte << (8 * i);
	}
	*distance_ret = bytes == 1 ? (int8_t)raw : bytes == 4 ? (int32_t)raw : 0;
	if (bytes == 1 && decoder->scaled)
		*distance_ret *= decoder->vector_bytes;
	return true;
}

/* The address in the ModRM byte and those behind it. False: a register, or an address that is relative to the code. */
static bool read_address(struct decoder *decoder, struct core_access *access)
{
	uint8_t mode = decoder->modrm >> 6, low = decoder->modrm & 7;
	uint64_t index = 0;
	bool has_base = true;
	uint32_t base = low | (decoder->rex & 1u) << 3;

	if (mode == 3 || (mode == 0 && low == 5))
		return false;
	if (low == 4) {
		int sib = next_byte(decoder);
		uint32_t number;

		if (sib < 0)
			return false;
		number = ((uint32_t)sib >> 3 & 7) | (decoder->rex & 2u) << 2;
		base = ((uint32_t)sib & 7) | (decoder->rex & 1u) << 3;
		if (number != 4)
			index = register_of(decoder, number) << (sib >> 6);
		has_base = mode != 0 || (sib & 7) != 5;
	}
	if (!read_displacement(decoder, mode == 1 ? 1 : mode == 2 || !has_base ? 4 : 0, &access->distance))
		return false;
	access->has_base = has_base && !decoder->segment;
	access->base = dwarf_numbers[base];
	access->address = (has_base ? register_of(decoder, base) : 0) + index + (uint64_t)access->distance;
	/* what was added to the base register, by an index or a constant */
	access->distance += (int64_t)index;
	return !decoder->segment;
}

static void set_by_register(struct core_access *access, const uint64_t *registers, uint32_t number, int64_t distance,
			    int effect)
{
	access->has_base = true;
	access->base = number;
	access->distance = distance;
	access->address = registers[number] + (uint64_t)distance;
	access->reads = effect & READ;
	access->writes = effect & WRITE;
}

/* Instructions that name no address: on the stack, and on strings. False: another one. */
static bool decode_implicit(const struct decoder *decoder, uint64_t fault, struct core_access *access)
{
	const uint64_t *registers = decoder->registers;
	uint8_t opcode = decoder->opcode;

	access->bytes = 8;
	if (decoder->map)
		return false;
	if (opcode >= 0xa0 && opcode <= 0xa3) { /* the address follows */
		if (decoder->bytes - decoder->at < sizeof(access->address))
			return false;
		memcpy(&access->address, decoder->code + decoder->at, sizeof(access->address));
		access->bytes = sized(decoder);
		access->reads = opcode < 0xa2;
		access->writes = !access->reads;
		return true;
	}
	if ((opcode >= 0x50 && opcode <= 0x57) || opcode == 0x68 || opcode == 0x6a || opcode == 0xe8) {
		set_by_register(access, registers, RSP, -8, WRITE);
		return true;
	}
	if ((opcode >= 0x58 && opcode <= 0x5f) || opcode == 0xc2 || opcode == 0xc3 || opcode == 0xc9) {
		set_by_register(access, registers, opcode == 0xc9 ? RBP : RSP, 0, READ);
		return true;
	}
	access->bytes = sized(decoder);
	switch (opcode & 0xfe) {
	case 0xa4: /* from rsi to rdi */
		if (fault - registers[RDI] < 64)
			set_by_register(access, registers, RDI, 0, WRITE);
		else
			set_by_register(access, registers, RSI, 0, READ);
		return true;
	case 0xa6:
		set_by_register(access, registers, fault - registers[RDI] < 64 ? RDI : RSI, 0, READ);
		return true;
	case 0xaa:
		set_by_register(access, registers, RDI, 0, WRITE);
		return true;
	case 0xac:
		set_by_register(access, registers, RSI, 0, READ);
		return true;
	default:
		return false;
	}
}

bool core_decode_access(const uint8_t *code, size_t bytes, const uint64_t *registers, uint64_t fault,
			struct core_access *access_ret)
{
	struct decoder decoder = { .code = code, .bytes = bytes, .registers = registers };
	struct core_access *access = access_ret;
	uint8_t operation;
	int modrm, effect;

	*access = (struct core_access){ 0 };
	if (!read_opcode(&decoder))
		return false;
	if (decode_implicit(&decoder, fault, access))
		return true;
	modrm = next_byte(&decoder);
	if (modrm < 0)
		return false;
	decoder.modrm = (uint8_t)modrm;
	effect = effect_of(&decoder, &access->bytes);
	access->reads = effect & READ;
	access->writes = effect & WRITE;
	if (effect == NONE || modrm >> 6 == 3)
		return false;
	if (!read_address(&decoder, access)) {
		access->has_base = false;
		access->address = fault;
	}
	/* a call or a push through memory also writes to the stack */
	operation = decoder.modrm >> 3 & 7;
	if (decoder.map == 0 && decoder.opcode == 0xff && (operation == 2 || operation == 6) &&
	    fault == registers[RSP] - 8) {
		access->reads = false;
		set_by_register(access, registers, RSP, -8, WRITE);
	}
	return true;
}

const char *core_register_name(const struct core *core, uint32_t number)
{
	static const char *const names[] = { "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8",
					     "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip" };

	return core->machine == EM_X86_64 && number < ARRAY_COUNT(names) ? names[number] : "a register";
}
