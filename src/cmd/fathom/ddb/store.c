/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/fathom/ddb/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/text.h"
#include "cmd/fathom/ddb/internal.h"

enum { LIST_STEP = 64, KEPT_PARTS = 100 /* as the engine's ledger */ };

static const struct {
	const char *name;
	bool is_note;
	const char *repair;
} problems[] = {
#define ROW(name, text, is_note, repair) [STORE_##name] = { text, is_note, repair },
	STORE_PROBLEMS(ROW)
#undef ROW
};

const char *store_problem_name(enum store_problem problem)
{
	return problems[problem].name;
}

bool store_problem_is_note(enum store_problem problem)
{
	return problems[problem].is_note;
}

const char *store_problem_repair(enum store_problem problem)
{
	return problems[problem].repair;
}

/* ---- objects and findings ---- */

/* Room for one more element in an array of `count`. */
static void *grow(void *array, size_t count, size_t element_bytes)
{
	if (count % LIST_STEP == 0) {
		array = realloc(array, (count + LIST_STEP) * element_bytes);
		must(array);
	}
	return array;
}

static char *copy(const char *text)
{
	char *same = strdup(text);

	must(same);
	return same;
}

int store_add_object(struct store *store, enum store_kind kind, int parent, const char *path, const char *name)
{
	char full[3 * POOL_NAME_BYTES_MAX];

	must(kind == STORE_POOL ? parent == STORE_NONE : parent >= 0);
	if (parent == STORE_NONE)
		must(text_copy(full, sizeof(full), name) == 0);
	else
		must(snprintf(full, sizeof(full), "%s/%s", store->objects[parent].name, name) < (int)sizeof(full));
	store->objects = grow(store->objects, store->object_count, sizeof(*store->objects));
	store->objects[store->object_count] =
		(struct store_object){ .kind = kind, .parent = parent, .path = copy(path), .name = copy(full) };
	return (int)store->object_count++;
}

void store_add_finding(struct store *store, enum store_problem problem, const char *path, uint64_t size_bytes,
		       const char *format, ...)
{
	struct store_finding *finding;
	char raw[FAULT_TEXT_BYTES_MAX + 64], text[sizeof(raw)];
	va_list args;

	va_start(args, format);
	vsnprintf(raw, sizeof(raw), format, args);
	va_end(args);
	text_copy_words(text, sizeof(text), raw); /* names of files have any bytes */
	store->findings = grow(store->findings, store->finding_count, sizeof(*store->findings));
	finding = &store->findings[store->finding_count++];
	*finding = (struct store_finding){
		.problem = problem, .path = copy(path), .text = copy(text), .size_bytes = size_bytes
	};
}

static void forget(struct store *store)
{
	for (size_t i = 0; i < store->object_count; i++) {
		struct store_object *object = &store->objects[i];

		if (object->kind == STORE_VOLUME && object->is_read)
			volume_record_deinit(&object->record.volume);
		free(object->path);
		free(object->name);
	}
	for (size_t i = 0; i < store->finding_count; i++) {
		free(store->findings[i].path);
		free(store->findings[i].text);
	}
	free(store->objects);
	free(store->findings);
	store->objects = NULL;
	store->findings = NULL;
	store->object_count = store->finding_count = 0;
}

size_t store_count(const struct store *store, bool notes)
{
	size_t count = 0;

	for (size_t i = 0; i < store->finding_count; i++)
		count += problems[store->findings[i].problem].is_note == notes;
	return count;
}

/* ---- names ---- */

/* "[2]": 2; -1: not of this form. */
static long number_in_brackets(const char *word)
{
	char *end;
	long number;

	if (word[0] != '[' || word[1] < '0' || word[1] > '9')
		return -1;
	number = strtol(word + 1, &end, 10);
	return strcmp(end, "]") == 0 ? number : -1;
}

static int find_child(const struct store *store, int parent, const char *word)
{
	long number = number_in_brackets(word);

	for (size_t i = 0; i < store->object_count; i++) {
		const struct store_object *object = &store->objects[i];
		const char *name = strrchr(object->name, '/');

		if (object->parent != parent)
			continue;
		if (number >= 0 ? number-- == 0 : strcmp(name ? name + 1 : object->name, word) == 0)
			return (int)i;
	}
	return -ENOENT;
}

int store_find(const struct store *store, const char *name, struct fathom_fault *why)
{
	char words[STORE_PATH_BYTES_MAX], *rest = words, *word;
	int at = STORE_NONE;

	if (text_copy(words, sizeof(words), name) < 0)
		return fault(why, -ENOENT, "the path is too long");
	while ((word = strsep(&rest, "/"))) {
		if (*word == '\0')
			continue;
		at = find_child(store, at, word);
		if (at < 0)
			return fault(why, -ENOENT, "there is no \"%s\" in the storage; `list` shows what there is", name);
	}
	return at >= 0 ? at : fault(why, -ENOENT, "the path names no pool, volume or snapshot: POOL[/VOLUME[/SNAPSHOT]]");
}

/* ---- folders and files ---- */

int store_open_folder(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int store_open_parent(const struct store *store, const char *path, const char **last_ret)
{
	int fd = fcntl(store->root, F_DUPFD_CLOEXEC, 0), next;
	char name[NAME_MAX + 1];
	const char *slash;

	if (fd < 0)
		return -errno;
	for (; (slash = strchr(path, '/')); path = slash + 1) {
		if (slash == path || (size_t)(slash - path) > NAME_MAX) {
			close(fd);
			return -EINVAL;
		}
		memcpy(name, path, (size_t)(slash - path));
		name[slash - path] = '\0';
		next = strcmp(name, "..") == 0 ? -EINVAL : store_open_folder(fd, name);
		close(fd);
		if (next < 0)
			return next;
		fd = next;
	}
	if (*path == '\0' || strcmp(path, ".") == 0 || strcmp(path, "..") == 0) {
		close(fd);
		return -EINVAL;
	}
	*last_ret = path;
	return fd;
}

int store_open_path(const struct store *store, const char *path, int flags)
{
	const char *last;
	int fd, folder = store_open_parent(store, path, &last);

	if (folder < 0)
		return folder;
	fd = openat(folder, last, flags | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		fd = -errno;
	close(folder);
	return fd;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int store_list(int folder, struct store_names *names_ret)
{
	int fd = store_open_folder(folder, "."); /* with a position of its own */
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	struct store_names names = { 0 };
	struct dirent *entry;
	int error = 0;

	if (!stream)
		return fd < 0 ? fd : -errno;
	while ((errno = 0, entry = readdir(stream))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		names.names = grow(names.names, names.count, sizeof(*names.names));
		names.names[names.count++] = copy(entry->d_name);
	}
	error = -errno;
	closedir(stream);
	if (error) {
		store_free_names(&names);
		return error;
	}
	if (names.count > 1)
		qsort(names.names, names.count, sizeof(*names.names), compare_names);
	*names_ret = names;
	return 0;
}

void store_free_names(struct store_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->names[i]);
	free(names->names);
	*names = (struct store_names){ 0 };
}

int store_read_text(int folder, const char *name, char **text_ret, size_t *bytes_ret)
{
	int error = 0, fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char *text;
	size_t bytes = 0;
	ssize_t part = 1;

	if (fd < 0)
		return -errno;
	text = malloc(POOL_RECORD_BYTES_MAX + 2);
	must(text);
	while (part > 0 && bytes <= POOL_RECORD_BYTES_MAX) {
		part = read(fd, text + bytes, POOL_RECORD_BYTES_MAX + 1 - bytes);
		if (part < 0 && errno == EINTR)
			part = 1;
		else if (part < 0)
			error = -errno;
		else
			bytes += (size_t)part;
	}
	close(fd);
	if (error == 0 && bytes > POOL_RECORD_BYTES_MAX)
		error = -EFBIG;
	if (error) {
		free(text);
		return error;
	}
	text[bytes] = '\0';
	*text_ret = text;
	*bytes_ret = bytes;
	return 0;
}

int store_read_record(const struct store *store, const struct store_object *object, char **text_ret,
		      struct fathom_fault *why)
{
	size_t bytes;
	int error, folder = store_open_path(store, object->path, O_RDONLY | O_DIRECTORY);

	if (folder < 0)
		return fault(why, folder, "cannot open %s: %s", object->path, strerror(-folder));
	error = store_read_text(folder, store_record_name(object->kind), text_ret, &bytes);
	close(folder);
	if (error)
		return fault(why, error, "cannot read %s/%s: %s", object->path, store_record_name(object->kind),
			     strerror(-error));
	return 0;
}

const char *store_record_name(enum store_kind kind)
{
	return kind == STORE_POOL ? "pool.json" : kind == STORE_VOLUME ? "volume.json" : "snapshot.json";
}

void store_data_name(const struct store_object *object, char name_ret[STORE_DATA_NAME_BYTES])
{
	must(object->kind != STORE_POOL && object->is_read);
	if (object->kind == STORE_SNAPSHOT)
		snprintf(name_ret, STORE_DATA_NAME_BYTES, "data");
	else
		snprintf(name_ret, STORE_DATA_NAME_BYTES, "data.%u", object->record.volume.generation);
}

bool store_has_sums(const struct store_object *object)
{
	return object->is_read && ((object->kind == STORE_VOLUME && object->record.volume.checksums) ||
				   (object->kind == STORE_SNAPSHOT && object->record.snapshot.checksums));
}

void store_sums_name(const struct store_object *object, char name_ret[STORE_DATA_NAME_BYTES])
{
	must(store_has_sums(object));
	if (object->kind == STORE_SNAPSHOT)
		snprintf(name_ret, STORE_DATA_NAME_BYTES, "sums");
	else
		snprintf(name_ret, STORE_DATA_NAME_BYTES, "sums.%u", object->record.volume.generation);
}

uint64_t store_size_of(const struct store_object *object)
{
	must(object->is_read);
	return object->kind == STORE_POOL     ? object->record.pool.size_bytes
	       : object->kind == STORE_VOLUME ? object->record.volume.size_bytes
					      : object->record.snapshot.size_bytes;
}

/* ---- open, close ---- */

static int lock(struct store *store, bool write, struct fathom_fault *why)
{
	/* A shared lock would stop an engine that starts now, so a reader releases it at once. */
	if (flock(store->root, (write ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0) {
		store->is_writable = write;
		if (!write)
			flock(store->root, LOCK_UN);
		return 0;
	}
	if (errno != EWOULDBLOCK)
		return fault(why, -errno, "cannot lock %s: %s", store->root_path, strerror(errno));
	store->is_in_use = true;
	if (write)
		return fault(
			why, -EBUSY,
			"another process uses %s, so it cannot be changed: stop its engine, or open it without --write",
			store->root_path);
	return 0;
}

static int open_root(struct store *store, bool write, struct fathom_fault *why)
{
	int pools;

	store->root = open(store->root_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (store->root < 0)
		return fault(why, -errno, "cannot open %s: %s", store->root_path, strerror(errno));
	pools = store_open_folder(store->root, "pools");
	if (pools == -ENOENT)
		return fault(why, -EINVAL, "%s is not the storage of an engine: it has no folder \"pools\"",
			     store->root_path);
	if (pools >= 0)
		close(pools);
	return lock(store, write, why);
}

int store_open(const char *root, bool write, struct store **store_ret, struct fathom_fault *why)
{
	struct store *store = calloc(1, sizeof(*store));
	int error;

	must(store);
	store->root = -1;
	store->root_path = copy(root);
	error = open_root(store, write, why);
	if (error) {
		store_close(store);
		return error;
	}
	store_read(store);
	*store_ret = store;
	return 0;
}

void store_close(struct store *store)
{
	if (!store)
		return;
	forget(store);
	if (store->root >= 0)
		close(store->root);
	free(store->root_path);
	free(store);
}

void store_read(struct store *store)
{
	struct statvfs space;

	forget(store);
	store->space = (struct store_space){ 0 };
	if (fstatvfs(store->root, &space) == 0) {
		store->space.total_bytes = (uint64_t)space.f_blocks * space.f_frsize;
		store->space.free_bytes = (uint64_t)space.f_bavail * space.f_frsize;
		store->space.kept_bytes = store->space.total_bytes / KEPT_PARTS;
	}
	store_walk(store);
	store_check(store);
}
