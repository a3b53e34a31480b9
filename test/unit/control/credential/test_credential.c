/* SPDX-License-Identifier: BSD-2-Clause */
/* Credentials: made by one side and verified by the other, and everything that must not be accepted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
/* after those */
#include <cmocka.h>

#include <errno.h>

#include "control/credential/credential.h"

static char folder[] = "/tmp/fathom-credential-XXXXXX", path[256], ca[256];
static struct credential_rules rules;
static struct fathom_fault why;
static char *groups[] = { (char *)"wheel", (char *)"disk" };
static const struct credential_identity identity = { "node7", "root", "root", groups, 2 };

static const char *file(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static int make_certificates(void **state)
{
	char command[1024];

	assert_non_null(mkdtemp(folder));
	snprintf(command, sizeof(command), "%s %s/certs >/dev/null 2>&1 && %s %s/foreign >/dev/null 2>&1",
		 getenv("MAKE_CERTIFICATES"), folder, getenv("MAKE_CERTIFICATES"), folder);
	assert_int_equal(system(command), 0);
	snprintf(ca, sizeof(ca), "%s/certs/ca.crt", folder);
	return 0;
}

static int remove_certificates(void **state)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

static int reset(void **state)
{
	static char certificates[256];

	snprintf(certificates, sizeof(certificates), "%s/certs", folder);
	rules = (struct credential_rules){ .folder = certificates, .ca = ca, .now_s = (int64_t)time(NULL) };
	return 0;
}

static Auth__Credential *make(const char *key_name)
{
	struct credential_key *key = NULL;
	Auth__Credential *credential;

	if (key_name)
		assert_int_equal(credential_key_read(file(key_name), &key, &why), 0);
	assert_int_equal(credential_make(&identity, key, &credential, &why), 0);
	credential_key_destroy(key);
	return credential;
}

static void discard(Auth__Credential *credential)
{
	auth__credential__free_unpacked(credential, NULL);
}

static void a_signed_credential_is_accepted_and_has_its_names(void **state)
{
	Auth__Credential *credential = make("certs/agent.key");
	Auth__Token *token = auth__token__unpack(NULL, credential->token.len, credential->token.data);
	Auth__Sys *sys = auth__sys__unpack(NULL, token->data.len, token->data.data);

	assert_int_equal(credential_verify(credential, &rules, &why), 0);
	assert_string_equal(credential->origin, "agent");
	assert_string_equal(sys->user, "root@");
	assert_string_equal(sys->machinename, "node7");
	assert_int_equal(sys->n_groups, 2);
	assert_string_equal(sys->groups[1], "disk@");
	auth__sys__free_unpacked(sys, NULL);
	auth__token__free_unpacked(token, NULL);
	discard(credential);
}

static void each_changed_byte_of_the_token_is_found(void **state)
{
	Auth__Credential *credential = make("certs/agent.key");

	for (size_t i = 0; i < credential->token.len; i++) {
		credential->token.data[i] ^= 1;
		assert_int_equal(credential_verify(credential, &rules, &why), -EACCES);
		credential->token.data[i] ^= 1;
	}
	credential->token.len--;
	assert_int_equal(credential_verify(credential, &rules, &why), -EACCES);
	discard(credential);
}

static void a_changed_verifier_is_refused(void **state)
{
	Auth__Credential *credential = make("certs/agent.key");

	for (size_t i = 0; i < credential->verifier.len; i += 7) {
		credential->verifier.data[i] ^= 0x40;
		assert_true(credential_verify(credential, &rules, &why) < 0);
		credential->verifier.data[i] ^= 0x40;
	}
	credential->verifier.len = 0;
	assert_int_equal(credential_verify(credential, &rules, &why), -EINVAL);
	discard(credential);
}

static void keys_of_other_roles_and_of_other_systems_are_refused(void **state)
{
	Auth__Credential *credential = make("certs/admin.key");

	assert_int_equal(credential_verify(credential, &rules, &why), -EACCES);
	free(credential->origin);
	credential->origin = strdup("admin");
	assert_int_equal(credential_verify(credential, &rules, &why), -EACCES);
	assert_non_null(strstr(why.text, "not an agent's"));
	discard(credential);
	credential = make("foreign/agent.key");
	assert_int_equal(credential_verify(credential, &rules, &why), -EACCES);
	rules.folder = file("foreign");
	assert_int_equal(credential_verify(credential, &rules, &why), -EACCES); /* of another authority */
	discard(credential);
}

static void an_origin_that_is_no_plain_name_is_refused(void **state)
{
	static const char *const origins[] = { "", "../certs/agent", "a/b", "agent.crt", ".", "agent\n", "a b" };
	Auth__Credential *credential = make("certs/agent.key");

	for (size_t i = 0; i < sizeof(origins) / sizeof(origins[0]); i++) {
		free(credential->origin);
		credential->origin = strdup(origins[i]);
		assert_int_equal(credential_verify(credential, &rules, &why), -EINVAL);
	}
	free(credential->origin);
	credential->origin = strdup("nobody");
	assert_int_equal(credential_verify(credential, &rules, &why), -ENOENT);
	discard(credential);
}

static void a_certificate_that_has_expired_is_refused(void **state)
{
	Auth__Credential *credential = make("certs/agent.key");

	rules.now_s += 10ll * 365 * 86400;
	assert_int_equal(credential_verify(credential, &rules, &why), -EACCES);
	discard(credential);
}

static void insecure_and_secure_credentials_are_not_exchangeable(void **state)
{
	Auth__Credential *digest = make(NULL), *signature = make("certs/agent.key");

	assert_int_equal(credential_verify(digest, &rules, &why), -EACCES);
	rules.is_insecure = true;
	assert_int_equal(credential_verify(digest, &rules, &why), 0);
	assert_int_equal(credential_verify(signature, &rules, &why), -EACCES);
	digest->token.data[3] ^= 1;
	assert_int_equal(credential_verify(digest, &rules, &why), -EACCES);
	discard(digest);
	discard(signature);
}

static void a_file_that_is_no_key_is_refused(void **state)
{
	struct credential_key *key = NULL;

	assert_int_equal(credential_key_read(file("certs/agent.crt"), &key, &why), -EINVAL);
	assert_int_equal(credential_key_read(file("certs/none.key"), &key, &why), -ENOENT);
	assert_null(key);
	credential_key_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_signed_credential_is_accepted_and_has_its_names, reset),
		cmocka_unit_test_setup(each_changed_byte_of_the_token_is_found, reset),
		cmocka_unit_test_setup(a_changed_verifier_is_refused, reset),
		cmocka_unit_test_setup(keys_of_other_roles_and_of_other_systems_are_refused, reset),
		cmocka_unit_test_setup(an_origin_that_is_no_plain_name_is_refused, reset),
		cmocka_unit_test_setup(a_certificate_that_has_expired_is_refused, reset),
		cmocka_unit_test_setup(insecure_and_secure_credentials_are_not_exchangeable, reset),
		cmocka_unit_test_setup(a_file_that_is_no_key_is_refused, reset),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
