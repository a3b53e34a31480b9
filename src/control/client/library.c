/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * library - what a shared library has no linker's symbol for.
 *
 * Records of functions hold their distance from the start of the program (__executable_start), which a linker defines for
 * programs alone. A session's records are not kept, so any fixed place of the library will do.
 */
__attribute__((visibility("hidden"))) extern const char __executable_start[1];
const char __executable_start[1] = "";
