/* The other side of `make bench-peers`: float sum all_reduce over MPI, timed exactly as `lycaon
 * bench` does it. Warm-up; a first guess of how long one call takes; then batches of calls
 * between two looks at the clock, each batch counted by its slowest rank; the median of them.
 *
 * all_reduce SECONDS WARMUP PIN SIZE...    prints "SIZE MICROSECONDS" for each size
 * all_reduce memcpy SECONDS WARMUP PIN SIZE...   the same for a memcpy by all ranks at once
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCHES = 5 };

static int copies;

static void fail(const char *what)
{
    fprintf(stderr, "all_reduce: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Keeps this rank on the core with its number among those that it may use. */
static void pin(int rank)
{
    cpu_set_t allowed, own;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        fail("cannot ask for the cores");
    int nth = rank % CPU_COUNT(&allowed);
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &allowed) && nth-- == 0) {
            CPU_ZERO(&own);
            CPU_SET(core, &own);
            if (sched_setaffinity(0, sizeof own, &own) != 0)
                fail("cannot keep this rank on one core");
            return;
        }
    }
}

static void operation(const float *in, float *out, size_t count)
{
    if (copies)
        memcpy(out, in, count * sizeof *in);
    else if (MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS)
        fail("MPI_Allreduce failed");
}

static double batch(const float *in, float *out, size_t count, long calls)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now();
    for (long call = 0; call < calls; call++)
        operation(in, out, count);
    return (now() - start) / (double)(calls > 0 ? calls : 1);
}

static double slowest(double time)
{
    double most;
    MPI_Allreduce(&time, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static long fitting(double time, double each)
{
    double calls = time / (each > 1e-9 ? each : 1e-9);
    return calls < 1.0 ? 1 : calls > 1e6 ? 1000000 : (long)calls;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double measure(const float *in, float *out, size_t count, double seconds, long warmup)
{
    double each = batch(in, out, count, warmup);
    if (warmup == 0)
        each = batch(in, out, count, 1);
    each = slowest(each);
    each = slowest(batch(in, out, count, fitting(seconds / 20.0, each)));
    long batches = fitting(4.0 * seconds, each);
    if (batches > BATCHES)
        batches = BATCHES;
    long calls = fitting(seconds / (double)batches, each);
    double times[BATCHES];
    for (long at = 0; at < batches; at++)
        times[at] = batch(in, out, count, calls);
    for (long at = 0; at < batches; at++)
        times[at] = slowest(times[at]);
    qsort(times, (size_t)batches, sizeof times[0], ascending);
    return times[batches / 2];
}

static void check(float *in, float *out, size_t count, int rank, int ranks)
{
    for (size_t at = 0; at < count; at++)
        in[at] = (float)(at % 1021) + (float)rank;
    operation(in, out, count);
    float others = (float)(ranks * (ranks - 1) / 2);
    for (size_t at = 0; at < count; at++) {
        float sum = (float)(at % 1021) * (float)ranks + others;
        if (out[at] != (copies ? in[at] : sum))
            fail("the sum is wrong");
    }
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc > 1 && strcmp(argv[1], "memcpy") == 0) {
        copies = 1;
        argc--, argv++;
    }
    if (argc < 5)
        fail("usage: all_reduce [memcpy] SECONDS WARMUP PIN SIZE...");
    double seconds = atof(argv[1]);
    long warmup = atol(argv[2]);
    if (atoi(argv[3]))
        pin(rank);
    for (int arg = 4; arg < argc; arg++) {
        size_t bytes = strtoull(argv[arg], NULL, 10), count = bytes / sizeof(float);
        size_t room = (bytes + 63) / 64 * 64;
        float *in = aligned_alloc(64, room), *out = aligned_alloc(64, room);
        if (in == NULL || out == NULL)
            fail("out of memory");
        memset(in, 0, room);
        memset(out, 0, room);
        double time = measure(in, out, count, seconds, warmup);
        check(in, out, count, rank, ranks);
        if (rank == 0)
            printf("%zu %.3f\n", bytes, time * 1e6);
        free(in);
        free(out);
    }
    MPI_Finalize();
    return 0;
}
