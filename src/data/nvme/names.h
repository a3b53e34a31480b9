/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * names - what the specification's numbers are called, for people.
 *
 * Each takes any value and returns a string that lives for ever: the name from the table that the enum is made of, "vendor
 * specific" where the specification leaves the value to vendors, "reserved" else. Thread: any.
 */
#ifndef NVME_NAMES_H
#define NVME_NAMES_H

#include <stdint.h>

const char *nvme_admin_opcode_name(uint8_t opcode);
const char *nvme_nvm_opcode_name(uint8_t opcode);
const char *nvme_fabrics_type_name(uint8_t fctype);

/* `status` is an enum nvme_status. Command specific codes from 80h up as I/O commands, or as Fabrics commands mean them. */
const char *nvme_status_name(uint16_t status);
const char *nvme_fabrics_status_name(uint16_t status);

const char *nvme_tcp_pdu_type_name(uint8_t type);
const char *nvme_tcp_fes_name(uint16_t fes);

const char *nvme_feature_name(uint8_t fid);
const char *nvme_log_page_name(uint8_t lid);
const char *nvme_cns_name(uint8_t cns);

#endif
