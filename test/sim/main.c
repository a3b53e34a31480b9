/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim - run seeds, each in its own process.
 *
 *   sim --seed N [--steps N] [--verbose] [--trace FILE]    one seed, with its result
 *   sim --seeds A-B [--steps N]                            many; stops at the first failure
 *   sim --seeds A-B --twice                                each twice: the traces must be equal
 *   sim --tap --seeds A-B [--twice]                        with TAP output
 *   sim --seed N --real-time                               a seed that other programs can watch (live.c)
 *   --hangs                                                devices or hosts hang in each seed (hang.c), not only in a third
 */
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "sim.h"

/* SEED_SECONDS_MAX ends a seed that loops. With sanitizers, beside other tests, a seed took more than 60 s. */
enum { STEPS_DEFAULT = 20000, SEED_SECONDS_MAX = 300, LIVE_SECONDS_MAX = 3600 };

struct options {
	uint64_t first, last, steps;
	bool verbose, twice, tap, keep_going, hangs, real_time;
	const char *trace;
	int hash_fd; /* inherited descriptor; -1: none */
};

/* The checksum of a run's trace. */
static struct {
	int fd;
	void *memory;
} shared;

static void usage(void)
{
	fprintf(stderr, "usage: sim --seed N | --seeds A-B [--steps N] [--verbose] [--trace FILE] [--twice] [--keep-going] "
			"[--hangs] [--real-time] [--tap]\n");
	exit(2);
}

static uint64_t number(const char *text)
{
	uint64_t n;

	if (text_parse_u64(text, 10, UINT32_MAX, &n) != 0)
		usage();
	return n;
}

static void parse(int argc, char **argv, struct options *options)
{
	static const struct option names[] = { { "seed", 1, NULL, 's' },       { "seeds", 1, NULL, 'S' },
					       { "steps", 1, NULL, 'n' },      { "verbose", 0, NULL, 'v' },
					       { "trace", 1, NULL, 't' },      { "twice", 0, NULL, '2' },
					       { "keep-going", 0, NULL, 'k' }, { "tap", 0, NULL, 'T' },
					       { "hash-fd", 1, NULL, 'h' },    { "hangs", 0, NULL, 'H' },
					       { "real-time", 0, NULL, 'r' },  { NULL, 0, NULL, 0 } };
	char *dash;
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 's':
			options->first = options->last = number(optarg);
			break;
		case 'S':
			dash = strchr(optarg, '-');
			if (!dash)
				usage();
			*dash = 0;
			options->first = number(optarg);
			options->last = number(dash + 1);
			break;
		case 'n':
			options->steps = number(optarg);
			break;
		case 'v':
			options->verbose = true;
			break;
		case 't':
			options->trace = optarg;
			break;
		case '2':
			options->twice = true;
			break;
		case 'k':
			options->keep_going = true;
			break;
		case 'h':
			options->hash_fd = (int)number(optarg);
			break;
		case 'H':
			options->hangs = true;
			break;
		case 'r':
			options->real_time = true;
			break;
		case 'T':
			options->tap = true;
			break;
		default:
			usage();
		}
	}
	if (optind < argc || options->last < options->first)
		usage();
}

static void print_figures(void)
{
	printf("seed %lu: %lu commands (%lu reads, %lu writes), %lu connections, %lu TermReqs, %lu ended by the target, "
	       "%lu operations, %lu disk errors, %lu KiB checked, trace %016lx\n",
	       (unsigned long)sim.seed, (unsigned long)sim.commands, (unsigned long)sim.reads, (unsigned long)sim.writes,
	       (unsigned long)sim.connects, (unsigned long)sim.term_reqs, (unsigned long)sim.deaths,
	       (unsigned long)sim.operations, (unsigned long)sim.disk_errors, (unsigned long)(sim.bytes_checked / 1024),
	       (unsigned long)world_trace_hash());
}

/* Run the seed in a new process image: at other addresses, with another environment. */
static void run_in_new_image(uint64_t seed, const struct options *options)
{
	char seed_text[32], steps_text[32], fd_text[32];

	snprintf(seed_text, sizeof(seed_text), "%lu", (unsigned long)seed);
	snprintf(steps_text, sizeof(steps_text), "%lu", (unsigned long)options->steps);
	snprintf(fd_text, sizeof(fd_text), "%d", shared.fd);
	setenv("SIM_ELSEWHERE", seed_text, 1);
	execl("/proc/self/exe", "sim", "--seed", seed_text, "--steps", steps_text, "--hash-fd", fd_text,
	      options->hangs ? "--hangs" : (char *)NULL, (char *)NULL);
	perror("execl");
	_exit(2);
}

/* Run a seed in its own process. */
static bool run(uint64_t seed, const struct options *options, bool again, uint64_t *hash_ret)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0) {
		perror("fork");
		exit(2);
	}
	if (pid == 0 && again)
		run_in_new_image(seed, options);
	if (pid == 0) {
		alarm(options->real_time ? LIVE_SECONDS_MAX : SEED_SECONDS_MAX);
		sim.seed = seed;
		sim.steps = options->steps;
		sim.verbose = options->verbose;
		sim.always_hangs = options->hangs;
		sim.real_time = options->real_time;
		world_run(options->trace);
		if (options->hash_fd < 0 && (options->verbose || options->first == options->last))
			print_figures();
		*(uint64_t *)shared.memory = world_trace_hash();
		exit(0);
	}
	if (waitpid(pid, &status, 0) != pid)
		exit(2);
	*hash_ret = *(uint64_t *)shared.memory;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return true;
	if (WIFSIGNALED(status))
		fprintf(stderr, "seed %lu died of signal %d (%s)\n", (unsigned long)seed, WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	fprintf(stderr, "repeat it: sim --seed %lu --steps %lu%s --verbose --trace FILE\n", (unsigned long)seed,
		(unsigned long)options->steps, options->hangs ? " --hangs" : "");
	return false;
}

static bool run_all(const struct options *options)
{
	bool passed = true;

	for (uint64_t seed = options->first; seed <= options->last && (passed || options->keep_going); seed++) {
		uint64_t hash = 0, again = 0;
		bool good = run(seed, options, false, &hash);

		if (good && options->twice) {
			good = run(seed, options, true, &again);
			if (good && hash != again) {
				fprintf(stderr, "seed %lu: two runs gave different traces\n", (unsigned long)seed);
				good = false;
			}
		}
		passed &= good;
	}
	return passed;
}

int main(int argc, char **argv)
{
	struct options options = { .first = 1, .last = 1, .steps = STEPS_DEFAULT, .hash_fd = -1 };
	bool passed;

	parse(argc, argv, &options);
	/* no log lines for the connections of thousands of hosts */
	log_set_level(options.verbose ? LOG_LEVEL_DEBUG : LOG_LEVEL_ERROR);
	if (options.hash_fd < 0)
		shared.fd = memfd_create("sim", 0);
	else
		shared.fd = options.hash_fd;
	if (shared.fd < 0 || ftruncate(shared.fd, 4096) != 0)
		return 2;
	shared.memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, shared.fd, 0);
	if (shared.memory == MAP_FAILED)
		return 2;
	passed = run_all(&options);
	if (options.tap)
		printf("1..1\n%s 1 - seeds %lu to %lu %s\n", passed ? "ok" : "not ok", (unsigned long)options.first,
		       (unsigned long)options.last, options.twice ? "leave the same trace twice" : "meet no fault");
	return passed ? 0 : 1;
}
