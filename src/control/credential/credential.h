/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * credential - a user's identity, signed by an agent and verified by a server. The messages are DAOS's (rpc/proto).
 *
 *     credential_make(identity, key) -> Credential{token, verifier, origin} -> credential_verify(credential, folder)
 *
 * The signature is RSA-PSS with SHA-512 (ECDSA with an elliptic key) over the bytes of the token. Without certificates the
 * verifier is the SHA-512 of the token, which proves nothing: every process of the host can compute it. `origin` names the
 * file of the certificate; it comes from the client, so only a plain name is accepted.
 */
#ifndef CONTROL_CREDENTIAL_CREDENTIAL_H
#define CONTROL_CREDENTIAL_CREDENTIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"
#include "rpc/proto/security.pb-c.h"

enum { CREDENTIAL_GROUPS_MAX = 1024, CREDENTIAL_BYTES_MAX = 1 << 20, CREDENTIAL_ORIGIN_BYTES = 64 };

#define CREDENTIAL_ORIGIN "agent"

/* Names without "@"; all borrowed. */
struct credential_identity {
	const char *machine, *user, *group;
	char *const *groups;
	size_t group_count;
};

struct credential_key;

/* Read a private key. Errors (explained): -ENOENT, -EACCES, -EINVAL. credential_key_destroy() it. */
MUST_CHECK int credential_key_read(const char *path, struct credential_key **key_ret, struct fathom_fault *why);
/* Accepts NULL. */
void credential_key_destroy(struct credential_key *key);

/*
 * `key` NULL: without certificates. Free it with auth__credential__free_unpacked(). Errors (explained): -ENOMEM, -EINVAL.
 * Any thread; a signature takes about a millisecond.
 */
MUST_CHECK int credential_make(const struct credential_identity *identity, const struct credential_key *key,
			       Auth__Credential **credential_ret, struct fathom_fault *why);

/* What a server accepts. */
struct credential_rules {
	bool is_insecure;   /* accept only verifiers without a key; otherwise only signatures */
	const char *folder; /* of certificates, `origin`.crt */
	const char *ca;	    /* of the authority that must have signed them */
	int64_t now_s;	    /* seconds since 1970: certificates must be valid then */
};

/*
 * 0: the verifier belongs to the token. Errors (explained): -EINVAL (not a credential), -ENOENT (no such certificate),
 * -EACCES (not signed by the certificate, which must be an agent's, valid and of our authority).
 */
MUST_CHECK int credential_verify(const Auth__Credential *credential, const struct credential_rules *rules,
				 struct fathom_fault *why);

/*
 * What the token of a credential says, which credential_verify() has accepted. Free it with auth__sys__free_unpacked().
 * Errors (explained): -EINVAL.
 */
MUST_CHECK int credential_read_token(const Auth__Credential *credential, Auth__Sys **sys_ret, struct fathom_fault *why);

#endif
