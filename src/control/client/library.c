/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * library - a symbol that the linker does not define for shared libraries.
 *
 * Trace records store functions as offsets from __executable_start, which the linker defines only for programs. The records
 * of a session are not kept, so any fixed address in the library is sufficient.
 */
__attribute__((visibility("hidden"))) extern const char __executable_start[1];
const char __executable_start[1] = "";
