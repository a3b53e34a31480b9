/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/credential/credential.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include "base/bits.h"
#include "base/text.h"

enum { PATH_BYTES = 4352, NAME_BYTES = 258 };

struct credential_key {
	EVP_PKEY *key;
};

int credential_key_read(const char *path, struct credential_key **key_ret, struct fathom_fault *why)
{
	FILE *file = fopen(path, "re");
	struct credential_key *key;

	if (!file)
		return fault(why, -errno, "the key %s cannot be read: %s", path, strerror(errno));
	key = calloc(1, sizeof(*key));
	must(key);
	key->key = PEM_read_PrivateKey(file, NULL, NULL, (void *)"");
	fclose(file);
	if (!key->key) {
		free(key);
		return fault(why, -EINVAL, "%s is not a private key", path);
	}
	*key_ret = key;
	return 0;
}

void credential_key_destroy(struct credential_key *key)
{
	if (key)
		EVP_PKEY_free(key->key);
	free(key);
}

/* Salts have the longest length for signing, any length for verifying; as DAOS's agents and servers do. */
static bool is_padding_set(EVP_PKEY *key, EVP_PKEY_CTX *context, int salt)
{
	if (EVP_PKEY_get_base_id(key) != EVP_PKEY_RSA)
		return true;
	return EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PSS_PADDING) > 0 &&
	       EVP_PKEY_CTX_set_rsa_pss_saltlen(context, salt) > 0;
}

/* ---- making ---- */

/* Sign `token` into `verifier`, whose data the caller frees. */
static int sign(const struct credential_key *key, const ProtobufCBinaryData *token, ProtobufCBinaryData *signature)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	EVP_PKEY_CTX *options;
	bool is_signed = false;

	must(context);
	if (EVP_DigestSignInit(context, &options, EVP_sha512(), NULL, key->key) > 0 &&
	    is_padding_set(key->key, options, RSA_PSS_SALTLEN_MAX_SIGN) &&
	    EVP_DigestSign(context, NULL, &signature->len, token->data, token->len) > 0) {
		signature->data = malloc(signature->len);
		must(signature->data);
		is_signed = EVP_DigestSign(context, signature->data, &signature->len, token->data, token->len) > 0;
	}
	EVP_MD_CTX_free(context);
	return is_signed ? 0 : -EINVAL;
}

static int make_signature(const struct credential_key *key, const ProtobufCBinaryData *token,
			  ProtobufCBinaryData *signature)
{
	if (key)
		return sign(key, token, signature);
	signature->len = SHA512_DIGEST_LENGTH;
	signature->data = malloc(SHA512_DIGEST_LENGTH);
	must(signature->data);
	SHA512(token->data, token->len, signature->data);
	return 0;
}

/* "root" becomes "root@". */
static char *principal(const char *name)
{
	char *text = NULL;

	must(asprintf(&text, "%s@", name) >= 0);
	return text;
}

static void pack_token(ProtobufCBinaryData data, ProtobufCBinaryData *token_ret)
{
	Auth__Token token = AUTH__TOKEN__INIT;

	token.flavor = AUTH__FLAVOR__AUTH_SYS;
	token.data = data;
	token_ret->len = auth__token__get_packed_size(&token);
	token_ret->data = malloc(token_ret->len);
	must(token_ret->data);
	(void)auth__token__pack(&token, token_ret->data); /* returns the size again */
}

static void pack_identity(const struct credential_identity *identity, ProtobufCBinaryData *token_ret)
{
	Auth__Sys sys = AUTH__SYS__INIT;
	ProtobufCBinaryData data;
	char **groups;

	must(identity->group_count <= CREDENTIAL_GROUPS_MAX);
	groups = calloc(identity->group_count + 1, sizeof(*groups));
	must(groups);
	for (size_t i = 0; i < identity->group_count; i++)
		groups[i] = principal(identity->groups[i]);
	sys.machinename = (char *)identity->machine;
	sys.user = principal(identity->user);
	sys.group = principal(identity->group);
	sys.groups = groups;
	sys.n_groups = identity->group_count;
	data.len = auth__sys__get_packed_size(&sys);
	data.data = malloc(data.len + 1);
	must(data.data);
	(void)auth__sys__pack(&sys, data.data); /* returns the size again */
	pack_token(data, token_ret);
	free(data.data);
	for (size_t i = 0; i < identity->group_count; i++)
		free(groups[i]);
	free(groups);
	free(sys.user);
	free(sys.group);
}

int credential_make(const struct credential_identity *identity, const struct credential_key *key,
		    Auth__Credential **credential_ret, struct fathom_fault *why)
{
	Auth__SysVerifier verifier = AUTH__SYS_VERIFIER__INIT;
	Auth__Credential *credential = malloc(sizeof(*credential));
	ProtobufCBinaryData data;

	must(credential);
	auth__credential__init(credential);
	pack_identity(identity, &credential->token);
	credential->origin = strdup(CREDENTIAL_ORIGIN);
	must(credential->origin);
	if (make_signature(key, &credential->token, &verifier.signature) != 0) {
		free(verifier.signature.data);
		auth__credential__free_unpacked(credential, NULL);
		return fault(why, -EINVAL, "the agent's key cannot sign");
	}
	data.len = auth__sys_verifier__get_packed_size(&verifier);
	data.data = malloc(data.len);
	must(data.data);
	(void)auth__sys_verifier__pack(&verifier, data.data); /* returns the size again */
	pack_token(data, &credential->verifier);
	free(data.data);
	free(verifier.signature.data);
	*credential_ret = credential;
	return 0;
}

/* ---- verifying ---- */

static bool is_plain_name(const char *name)
{
	size_t bytes = strlen(name);

	return bytes > 0 && bytes < CREDENTIAL_ORIGIN_BYTES &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == bytes;
}

static X509 *read_certificate(const char *path)
{
	FILE *file = fopen(path, "re");
	X509 *certificate;

	if (!file)
		return NULL;
	certificate = PEM_read_X509(file, NULL, NULL, (void *)"");
	fclose(file);
	return certificate;
}

/* Whether the authority signed it, it is valid now, and it is an agent's. */
static int check_certificate(X509 *certificate, const struct credential_rules *rules, const char *path,
			     struct fathom_fault *why)
{
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *context = X509_STORE_CTX_new();
	char name[NAME_BYTES] = "";
	int error = 0;

	must(store && context);
	if (X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof(name)) < 0 ||
	    strcmp(name, "agent") != 0)
		error = fault(why, -EACCES, "the certificate %s is not an agent's", path);
	else if (X509_STORE_load_file(store, rules->ca) <= 0)
		error = fault(why, -EACCES, "the certificate of the authority, %s, cannot be read", rules->ca);
	else if (X509_STORE_CTX_init(context, store, certificate, NULL) <= 0)
		error = fault(why, -ENOMEM, "out of memory");
	if (!error) {
		X509_STORE_CTX_set_time(context, 0, (time_t)rules->now_s);
		if (X509_verify_cert(context) <= 0)
			error = fault(why, -EACCES, "the certificate %s: %s", path,
				      X509_verify_cert_error_string(X509_STORE_CTX_get_error(context)));
	}
	X509_STORE_CTX_free(context);
	X509_STORE_free(store);
	return error;
}

static bool is_signed_by(EVP_PKEY *key, const ProtobufCBinaryData *token, const ProtobufCBinaryData *signature)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	EVP_PKEY_CTX *options;
	bool is_signed;

	must(context);
	is_signed = EVP_DigestVerifyInit(context, &options, EVP_sha512(), NULL, key) > 0 &&
		    is_padding_set(key, options, RSA_PSS_SALTLEN_AUTO) &&
		    EVP_DigestVerify(context, signature->data, signature->len, token->data, token->len) == 1;
	EVP_MD_CTX_free(context);
	return is_signed;
}

static int verify_signature(const Auth__Credential *credential, const ProtobufCBinaryData *signature,
			    const struct credential_rules *rules, struct fathom_fault *why)
{
	char path[PATH_BYTES];
	X509 *certificate;
	int error;

	if (!is_plain_name(credential->origin))
		return fault(why, -EINVAL, "the origin of a credential is no plain name");
	if (!rules->folder ||
	    snprintf(path, sizeof(path), "%s/%s.crt", rules->folder, credential->origin) >= (int)sizeof(path))
		return fault(why, -ENOENT, "client_cert_dir is not set, or too long");
	certificate = read_certificate(path);
	if (!certificate)
		return fault(why, -ENOENT, "there is no certificate %s", path);
	error = check_certificate(certificate, rules, path, why);
	if (!error && !is_signed_by(X509_get0_pubkey(certificate), &credential->token, signature))
		error = fault(why, -EACCES, "the credential is not signed by the key of %s", path);
	X509_free(certificate);
	return error;
}

static int verify_digest(const ProtobufCBinaryData *token, const ProtobufCBinaryData *signature, struct fathom_fault *why)
{
	uint8_t digest[SHA512_DIGEST_LENGTH];

	SHA512(token->data, token->len, digest);
	if (signature->len == sizeof(digest) && memcmp(digest, signature->data, sizeof(digest)) == 0)
		return 0;
	return fault(why, -EACCES, "the verifier of the credential is not the digest of its token");
}

int credential_verify(const Auth__Credential *credential, const struct credential_rules *rules, struct fathom_fault *why)
{
	Auth__Token *verifier;
	Auth__SysVerifier *inner = NULL;
	int error = 0;

	if (credential->token.len == 0 || credential->token.len > CREDENTIAL_BYTES_MAX ||
	    credential->verifier.len > CREDENTIAL_BYTES_MAX)
		return fault(why, -EINVAL, "the credential has no token, or is too large");
	verifier = auth__token__unpack(NULL, credential->verifier.len, credential->verifier.data);
	if (verifier && verifier->flavor == AUTH__FLAVOR__AUTH_SYS)
		inner = auth__sys_verifier__unpack(NULL, verifier->data.len, verifier->data.data);
	if (!inner)
		error = fault(why, -EINVAL, "the verifier of the credential is not valid");
	else if (rules->is_insecure)
		error = verify_digest(&credential->token, &inner->signature, why);
	else
		error = verify_signature(credential, &inner->signature, rules, why);
	auth__sys_verifier__free_unpacked(inner, NULL);
	auth__token__free_unpacked(verifier, NULL);
	return error;
}

int credential_read_token(const Auth__Credential *credential, Auth__Sys **sys_ret, struct fathom_fault *why)
{
	Auth__Token *token = auth__token__unpack(NULL, credential->token.len, credential->token.data);
	Auth__Sys *sys = NULL;

	if (token && token->flavor == AUTH__FLAVOR__AUTH_SYS)
		sys = auth__sys__unpack(NULL, token->data.len, token->data.data);
	auth__token__free_unpacked(token, NULL);
	if (!sys)
		return fault(why, -EINVAL, "the token of the credential is not valid");
	*sys_ret = sys;
	return 0;
}
