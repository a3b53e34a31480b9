/* SPDX-License-Identifier: BSD-2-Clause */
#include "subject.h"

#include <sys/sdt.h>

int subject_sdt(int number, const char *text)
{
	DTRACE_PROBE2(unit, pair, number, text);
	if (number > 3)
		DTRACE_PROBE2(unit, pair, number + 1, text + 1);
	DTRACE_PROBE(unit, none);
	return number + *text;
}

/* What a header of DTrace 2.0.3 and later generates, written from the description of its format. */
__attribute__((used)) static const char function_name[] __asm__("subject_function_name") = "subject_usdt";

#define NOTE(name, type, desc)                                                                                             \
	".pushsection .note.usdt,\"\",@note\n"                                                                             \
	".balign 4\n"                                                                                                      \
	".4byte 5, 992f-991f, " type "\n"                                                                                  \
	".asciz \"" name "\"\n"                                                                                            \
	".balign 4\n"                                                                                                      \
	"991: " desc "\n"                                                                                                  \
	"992: .balign 4\n"                                                                                                 \
	".popsection\n"
#define SITE(type, probe, count, args)                                                                                     \
	"990: nop\n" NOTE("usdt", type,                                                                                    \
			  ".8byte 990b, subject_function_name\n"                                                           \
			  ".asciz \"usdtest\", \"" probe "\"\n"                                                            \
			  ".byte " count "\n"                                                                              \
			  ".asciz \"" args "\"")

/* One copy of the function, so that its notes exist once. */
#ifdef __clang__
#define ONE_COPY __attribute__((noinline))
#else
#define ONE_COPY __attribute__((noinline, noclone))
#endif

ONE_COPY int subject_usdt(int number, const char *text)
{
	/* as the header of `probe multi-site-` writes it: the provider has hyphens, sites have two underscores for each */
	__asm__ volatile(SITE("1", "go", "2", "-4@%edi 8@%rsi") SITE("2", "go", "2", "-4@%edi 8@%rsi")
				 SITE("1", "multi___site__", "0", "") SITE("2", "multi___site__", "1", "8@%rsp")
					 NOTE("prov", "1",
					      ".asciz \"usdtest\"\n"
					      ".balign 4\n"
					      ".4byte 0x05050500, 0x01010000, 0x01010000, 0x05050500, 0x06060400, 3\n"
					      ".asciz \"go\"\n"
					      ".byte 2\n"
					      ".asciz \"int\", \"char *\"\n"
					      ".byte 1\n"
					      ".asciz \"char *\"\n"
					      ".byte 1\n"
					      ".balign 4\n"
					      ".asciz \"idle\"\n"
					      ".byte 0, 0\n"
					      ".balign 4\n"
					      ".asciz \"multi-_site-\"\n"
					      ".byte 0, 0") NOTE("dver", "1", ".4byte 2"));
	return number + *text;
}

__asm__(".pushsection .SUNW_dof,\"a\",@progbits\n"
	".balign 8\n"
	".incbin \"" SAMPLES "/multi.dof\"\n"
	".popsection\n");
