/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gdb - loads gdb's commands for fathom-engine and fathom-server: a few lines of Python in the section
 * .debug_gdb_scripts. gdb runs them when it loads the program, if its `auto-load safe-path` contains the program. They
 * source gdb/fathom.py from bin/../share/fathom/gdb, which exists in the build folder and in an installation.
 *
 * The section is allocated, so that strip(1) keeps it: a stripped program without its debug file still has the commands,
 * which then report the missing file. 4 is SECTION_SCRIPT_ID_PYTHON_TEXT; the first line is the script's name.
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
	".ascii \"    print('fathom: ' + _fathom +\\n\"\n"
	".ascii \"          ' does not exist, so the fathom_ commands are not loaded; ' +\\n\"\n"
	".ascii \"          'source fathom.py from its folder')\\n\"\n"
	".byte 0\n"
	".popsection\n");
