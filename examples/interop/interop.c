/* A rank of a group whose ranks are written in different languages; see README.md. */
#include "../support.h"

#include <inttypes.h>

/* What a rank has at a place. Divided by 7, so that the order of a sum shows in its bits. */
static float value(int rank, int at)
{
    return (float)((at * 37 + rank * 101) % 1009) / 7.0f;
}

static void fill(float *data, int rank, int count)
{
    for (int at = 0; at < count; at++) {
        data[at] = value(rank, at);
    }
}

/* FNV-1a. */
static uint64_t checksum(const void *data, size_t bytes)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t at = 0; at < bytes; at++) {
        hash = (hash ^ ((const unsigned char *)data)[at]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static uint64_t ring(const lycaon_group *group, int rank, int size)
{
    const int after = (rank + 1) % size, before = (rank + size - 1) % size;
    const size_t total = (size_t)size * 1000 + 4;
    float sum[1000], got[1000], baton[4] = {0};
    float *all = room(total * sizeof *all);

    fill(sum, rank, 1000);
    must(lycaon_send_recv(group, sum, 1000, after, got, 1000, before, LYCAON_DTYPE_F32, 1));
    for (int at = 0; at < 1000; at++) {
        sum[at] += got[at];
    }
    must(lycaon_all_gather(group, sum, all, 1000, LYCAON_DTYPE_F32));

    if (rank > 0) {
        must(lycaon_recv(group, baton, 4, LYCAON_DTYPE_F32, before, 2));
    }
    for (int at = 0; at < 4; at++) {
        baton[at] += value(rank, at);
    }
    must(lycaon_send(group, baton, 4, LYCAON_DTYPE_F32, after, 2));
    if (rank == 0) {
        must(lycaon_recv(group, baton, 4, LYCAON_DTYPE_F32, before, 2));
    }
    must(lycaon_broadcast(group, baton, 4, LYCAON_DTYPE_F32, 0));
    for (int at = 0; at < 4; at++) {
        all[total - 4 + (size_t)at] = baton[at];
    }
    const uint64_t result = checksum(all, total * sizeof *all);
    free(all);
    return result;
}

static uint64_t split(const lycaon_group *group, int rank, int size)
{
    lycaon_group *part = NULL;
    const size_t total = (size_t)size * 102;
    float sum[102];
    float *all = room(total * sizeof *all);

    must(lycaon_group_split(group, rank % 2, -rank, &part));
    fill(sum, rank, 100);
    must(lycaon_all_reduce(part, NULL, sum, 100, LYCAON_DTYPE_F32, LYCAON_OP_SUM));
    sum[100] = (float)lycaon_group_rank(part);
    sum[101] = (float)lycaon_group_size(part);
    must(lycaon_all_gather(group, sum, all, 102, LYCAON_DTYPE_F32));
    const uint64_t result = checksum(all, total * sizeof *all);
    lycaon_group_free(part);
    free(all);
    return result;
}

int main(void)
{
    lycaon_group *group = NULL;
    must(lycaon_init(&group));
    const int rank = lycaon_group_rank(group), size = lycaon_group_size(group);

    static float sum[5000];
    fill(sum, rank, 5000);
    must(lycaon_all_reduce(group, NULL, sum, 5000, LYCAON_DTYPE_F32, LYCAON_OP_SUM));

    double mine[3];
    double *all = room((size_t)size * sizeof mine);
    for (int at = 0; at < 3; at++) {
        mine[at] = (double)value(rank, at) / 3.0;
    }
    must(lycaon_all_gather(group, mine, all, 3, LYCAON_DTYPE_F64));
    const uint64_t gathered = checksum(all, (size_t)size * sizeof mine);
    const uint64_t around = ring(group, rank, size), parts = split(group, rank, size);

    printf("rank %d C all_reduce %016" PRIx64 " all_gather %016" PRIx64 " ring %016" PRIx64
           " split %016" PRIx64 "\n",
           rank, checksum(sum, sizeof sum), gathered, around, parts);
    free(all);
    lycaon_group_free(group);
    return 0;
}
