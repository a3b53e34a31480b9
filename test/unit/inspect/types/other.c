/* SPDX-License-Identifier: BSD-2-Clause */
/* other - a second unit: the definition of hidden, and different definitions of the same names. For test_layout.py. */
struct hidden {
	int found;
};

struct twice {
	char one[3];
};
enum { TWICE = 2 };

struct holds_other_twice {
	struct twice other;
	struct hidden hidden;
};

struct holds_other_twice *holds_other_twice;
int uses_twice = TWICE;
