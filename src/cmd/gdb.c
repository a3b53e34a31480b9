/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What fathom-engine and fathom-server tell gdb about themselves: a few lines of Python in the section
 * .debug_gdb_scripts, which gdb runs when it loads the program, if `auto-load safe-path` has it. They source
 * gdb/fathom.py, which lies beside the programs both where they were built and where they are installed:
 * bin/../share/fathom/gdb.
 *
 * The section is allocated, so that strip(1) leaves it: a stripped program without its debug file still has the
 * commands, which then say what is missing. 4 is SECTION_SCRIPT_ID_PYTHON_TEXT; the first line is the script's name.
 */
__asm__(".pushsection \".debug_gdb_scripts\", \"aMS\", @progbits, 1\n"
	".byte 4\n"
	".ascii \"fathom\\n\"\n"
	".ascii \"import gdb, os\\n\"\n"
	".ascii \"_fathom = gdb.current_objfile()\\n\"\n"
	".ascii \"_fathom = os.path.realpath((_fathom.owner or _fathom).filename)\\n\"\n"
	".ascii \"_fathom = os.path.join(os.path.dirname(os.path.dirname(_fathom)), 'share/fathom/gdb/fathom.py')\\n\"\n"
	".ascii \"if os.path.exists(_fathom):\\n\"\n"
	".ascii \"    gdb.execute('source ' + _fathom)\\n\"\n"
	".ascii \"else:\\n\"\n"
	".ascii \"    print('fathom: there is no ' + _fathom +\\n\"\n"
	".ascii \"          ', so no fathom_ commands; source fathom.py from where it is')\\n\"\n"
	".byte 0\n"
	".popsection\n");
