/* SPDX-License-Identifier: BSD-2-Clause */
/* layouts - structures of each kind, for test_layout.py to compile. The code does not run. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

enum plain { PLAIN_A, PLAIN_B = 200, PLAIN_C };
enum signed_one { SIGNED_A = -5, SIGNED_B = 7 };
enum large { LARGE_A = 1, LARGE_B = 0x8000000000000001ull };
enum small { SMALL_A = 255 } __attribute__((packed));
enum { LOOSE_A = 77, LOOSE_B = 3000000000u };

struct nested {
	char letter;
	uint64_t number;
};
struct hidden;
typedef struct {
	int x, y;
} point_t;
typedef struct nested nested_t;
typedef nested_t *nested_ref;
typedef unsigned int count_t;
typedef void (*callback_t)(int);

struct bits {
	unsigned int a : 3, b : 7;
	int c : 5;
	unsigned int : 0;
	uint8_t d : 1, : 2, e : 4;
	uint64_t f : 40, g : 20;
	bool h : 1;
	_Bool i;
	enum plain j : 9;
	signed char k : 3;
	uint16_t last;
};

struct packed_bits {
	char first;
	unsigned int a : 5;
	unsigned int b : 30;
	uint16_t c;
} __attribute__((packed));

union both {
	uint8_t bytes[9];
	uint64_t word;
	unsigned int low : 4;
	struct {
		short one, two;
	};
	struct nested nested;
};

struct aligned {
	char a;
	int b __attribute__((aligned(32)));
	char c;
} __attribute__((aligned(64)));

struct packed {
	char a;
	uint64_t b;
	uint16_t c[3];
	struct nested d;
} __attribute__((packed));

struct empty {
};

struct everything {
	char letter;
	struct nested nested;
	struct nested many[3];
	struct nested table[2][3];
	int numbers[2][3][4];
	char name[33];
	char names[4][16];
	const char *text;
	char **words;
	volatile int volatile_one;
	_Atomic uint64_t atomic_one;
	const volatile uint16_t both_qualified;
	void (*function)(int, void *);
	callback_t callbacks[3];
	int (*row)[4];
	struct hidden *hidden;
	struct nested *pointer;
	struct nested *const *pointers;
	struct nested *slots[5];
	enum plain plain;
	enum signed_one signed_one;
	enum large large;
	enum small small;
	bool yes;
	float real;
	double reals[2];
	long double longest;
	__int128 wide;
	_Complex double complex;
	wchar_t letter_too;
	point_t point;
	point_t points[2];
	nested_ref reference;
	struct bits bits;
	struct packed_bits packed_bits[3];
	union both both;
	struct aligned aligned;
	struct packed packed;
	struct empty empty;
	union {
		int anonymous_a;
		struct {
			char anonymous_b;
			uint64_t anonymous_c;
		};
		union {
			uint8_t anonymous_d[24];
		} inner;
	};
	struct {
		int in_nameless;
		struct {
			short deeper;
		} nameless[2];
	} nameless;
	TAILQ_HEAD(, everything) list;
	TAILQ_ENTRY(everything) link;
	int linux_too, unix_too;
	char tail;
	uint16_t flexible[];
};

struct text {
	int bytes;
	char text[];
};

struct zero {
	int count;
	struct nested rows[0];
};

/* Names that another unit defines differently. */
struct twice {
	int a, b;
};
enum { TWICE = 1 };

struct holds_twice {
	struct twice own;
	struct other *other;
};

struct other {
	struct other *next;
	struct twice *twice;
	struct nested *unfollowed;
};

struct everything *everything;
struct text *text;
struct zero *zero;
struct holds_twice *holds_twice;
nested_t *uses_nested;
count_t uses_count;
enum plain uses_plain;

int main(void)
{
	return LOOSE_A + TWICE;
}
