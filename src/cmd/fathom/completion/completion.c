/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * completion - `fathom completion SHELL [PROGRAM]`: prints a script that completes command lines in a shell.
 *
 * A script runs the program with --complete and the words before the cursor, and offers the words that it prints. The
 * program finds them in its tables, so that a script fits every version.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "cmd/fathom/command.h"

/* In a script "@" stands for the program's name, and "%" for a function's name made from it. */
static const char bash_script[] = "# bash completion for @\n"
				  "_%()\n"
				  "{\n"
				  "\tlocal words=() word offer front i\n"
				  "\tfor ((i = 1; i <= COMP_CWORD; i++)); do\n"
				  "\t\tword=${COMP_WORDS[i]}\n"
				  "\t\t# readline cuts words at : and =\n"
				  "\t\tif ((${#words[*]})) && [[ $word == [:=]* || ${COMP_WORDS[i - 1]} == *[:=] ]]; then\n"
				  "\t\t\twords[-1]+=$word\n"
				  "\t\telse\n"
				  "\t\t\twords+=(\"$word\")\n"
				  "\t\tfi\n"
				  "\tdone\n"
				  "\tword=${words[-1]}\n"
				  "\tfront=${word##*[:=]}\n"
				  "\tfront=${word::${#word}-${#front}}\n"
				  "\tCOMPREPLY=()\n"
				  "\twhile IFS= read -r offer; do\n"
				  "\t\tcase $offer in\n"
				  "\t\t\\@files) compopt -o default ;;\n"
				  "\t\t\\@folders) compopt -o dirnames ;;\n"
				  "\t\t*) offer=${offer\\%\\%$'\\t'*}; COMPREPLY+=(\"${offer#\"$front\"}\") ;;\n"
				  "\t\tesac\n"
				  "\tdone < <(\"$1\" --complete \"${words[\\@]}\" 2>/dev/null)\n"
				  "}\n"
				  "complete -F _% @\n";

static const char zsh_script[] =
	"#compdef @\n"
	"_%()\n"
	"{\n"
	"\tlocal -a offers\n"
	"\tlocal line\n"
	"\tfor line in ${(f)\"$(${words[1]} --complete \"${(\\@)words[2,CURRENT]}\" 2>/dev/null)\"}; do\n"
	"\t\tcase $line in\n"
	"\t\t\\@files) compset -P '--*='; _files; return ;;\n"
	"\t\t\\@folders) compset -P '--*='; _files -/; return ;;\n"
	"\t\t*) offers+=(\"${${line\\%\\%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\") ;;\n"
	"\t\tesac\n"
	"\tdone\n"
	"\t_describe '@' offers\n"
	"}\n"
	"if [ \"$funcstack[1]\" = \"_@\" ]; then\n"
	"\t_% \"$\\@\"\n"
	"else\n"
	"\tcompdef _% @\n"
	"fi\n";

static const char fish_script[] = "# fish completion for @\n"
				  "function __fish_%_offers\n"
				  "\tset -l words (commandline -opc)\n"
				  "\tset -l current (commandline -ct)\n"
				  "\tset -l front (string match -r -- '^--[^=]*=' \"$current\")\n"
				  "\tset -l value (string replace -r -- '^--[^=]*=' '' \"$current\")\n"
				  "\tfor line in ($words[1] --complete $words[2..-1] \"$current\" 2>/dev/null)\n"
				  "\t\tswitch $line\n"
				  "\t\t\tcase '\\@files'\n"
				  "\t\t\t\tfor path in (__fish_complete_path \"$value\")\n"
				  "\t\t\t\t\techo \"$front$path\"\n"
				  "\t\t\t\tend\n"
				  "\t\t\tcase '\\@folders'\n"
				  "\t\t\t\tfor path in (__fish_complete_directories \"$value\")\n"
				  "\t\t\t\t\techo \"$front$path\"\n"
				  "\t\t\t\tend\n"
				  "\t\t\tcase '*'\n"
				  "\t\t\t\techo $line\n"
				  "\t\tend\n"
				  "\tend\n"
				  "end\n"
				  "complete -c @ -f -a '(__fish_%_offers)'\n";

static const struct shell {
	const char *name, *script;
} shells[] = {
	{ "bash", bash_script },
	{ "zsh", zsh_script },
	{ "fish", fish_script },
};

static const struct option_command commands[] = {
	{ "bash", "[PROGRAM]", "for ~/.bashrc: eval \"$(fathom completion bash)\"",
	  "fathom fathom-agent fathom-engine fathom-helper fathom-probed fathom-probes fathom-server", .own = &shells[0] },
	{ "zsh", "[PROGRAM]", "for ~/.zshrc, after compinit: eval \"$(fathom completion zsh)\"",
	  "fathom fathom-agent fathom-engine fathom-helper fathom-probed fathom-probes fathom-server", .own = &shells[1] },
	{ "fish", "[PROGRAM]", "for ~/.config/fish/config.fish: fathom completion fish | source",
	  "fathom fathom-agent fathom-engine fathom-helper fathom-probed fathom-probes fathom-server", .own = &shells[2] },
};

static const struct option_row rows[] = { OPTION_HELP_ROW };

const struct option_table completion_table = {
	.name = "fathom completion",
	.usage = "fathom completion bash|zsh|fish [PROGRAM]",
	.about = "Print a script that completes the command lines of PROGRAM (default fathom) in a shell: commands, "
		 "options, their "
		 "values, methods of `fathom rpc`, names of trace files. An installation puts these scripts where the "
		 "shells find them.",
	OPTION_COMMANDS(commands),
	OPTION_ROWS(rows),
};

static void print_script(const char *script, const char *program)
{
	for (const char *at = script; *at; at++) {
		if (*at == '\\' && (at[1] == '@' || at[1] == '%')) {
			putchar(*++at);
		} else if (*at == '@') {
			fputs(program, stdout);
		} else if (*at == '%') {
			for (const char *letter = program; *letter; letter++)
				putchar(*letter == '-' ? '_' : *letter);
		} else {
			putchar(*at);
		}
	}
}

int cmd_completion(int argc, char **argv)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz-";
	const struct option_command *command;
	const char *program = "fathom";
	int at, status = options_parse(&completion_table, argc, argv, NULL, &at);

	if (status != OPTIONS_RUN)
		return status;
	if (at == argc || argc - at > 2)
		return options_reject(&completion_table,
				      "the shell is missing (bash, zsh or fish), or there is more than one program");
	command = options_find_command(&completion_table, argv[at]);
	if (!command)
		return options_reject(&completion_table, "\"%s\" is not bash, zsh or fish", argv[at]);
	if (argc - at == 2)
		program = argv[at + 1];
	if (!program[0] || program[strspn(program, letters)])
		return options_reject(&completion_table, "\"%s\" is not the name of a program of Fathom", program);
	print_script(((const struct shell *)command->own)->script, program);
	return EXIT_SUCCESS;
}
