/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * net - the network between hosts and target: what stands behind data/wire/sock's door here.
 *
 * A wire is one connection: a pipe each way. Bytes written are not there to be read before the network has carried them, in
 * pieces and at times of the seed's choosing; the target's sends are taken in part or not at all when the pipe is full.
 */
#ifndef SIM_NET_H
#define SIM_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wire;

/* The host's end. A refused connection looks like one that was reset. */
struct wire *wire_connect(unsigned int host, const char *address, const char *service);
void wire_write(struct wire *wire, const void *bytes, size_t count);
size_t wire_peek(struct wire *wire, const uint8_t **at_ret);
void wire_consume(struct wire *wire, size_t count);
bool wire_ended(const struct wire *wire); /* the target's stream has ended, or was reset, and all of it has been read */
bool wire_target_gone(const struct wire *wire);
bool wire_was_reset(const struct wire *wire);
size_t wire_undelivered(const struct wire *wire); /* bytes that the target has not read */
void wire_stall(struct wire *wire, uint64_t ns);  /* nothing moves for so long */
void wire_crawl(struct wire *wire);		  /* until sim.woken the host gets its bytes drop by drop */
void wire_fin(struct wire *wire);		  /* the host will send no more */
void wire_reset(struct wire *wire);		  /* the host, or the network, breaks it */
void wire_free(struct wire *wire);		  /* the host lets go: reset, if it still stands */

void net_step(void);
unsigned int net_target_sockets(void); /* held by the target */

#endif
