/* Messages between two ranks: one that goes round all ranks, and a shift where everybody sends and
 * receives at the same time. */
#include "../support.h"

/* Messages with different tags do not wait for one another. */
enum { BATON = 1, SHIFT = 2 };

enum { COUNT = 100000 };

int main(void)
{
    lycaon_group *group = NULL;
    must(lycaon_init(&group));
    const int32_t rank = lycaon_group_rank(group), size = lycaon_group_size(group);
    if (size == 1) {
        puts("one rank has nobody to write to");
        lycaon_group_free(group);
        return 0;
    }
    const int32_t after = (rank + 1) % size, before = (rank + size - 1) % size;
    const size_t ranks = (size_t)size;

    /* Each rank writes its number into the baton and hands it on. */
    int64_t *baton = room(ranks * sizeof *baton);
    for (size_t at = 0; at < ranks; at++) {
        baton[at] = -1;
    }
    if (rank == 0) {
        baton[0] = 0;
        must(lycaon_send(group, baton, ranks, LYCAON_DTYPE_I64, after, BATON));
        must(lycaon_recv(group, baton, ranks, LYCAON_DTYPE_I64, before, BATON));
        printf("the baton came back as [");
        for (size_t at = 0; at < ranks; at++) {
            printf("%s%lld", at == 0 ? "" : ", ", (long long)baton[at]);
        }
        puts("]");
    } else {
        must(lycaon_recv(group, baton, ranks, LYCAON_DTYPE_I64, before, BATON));
        baton[rank] = rank;
        must(lycaon_send(group, baton, ranks, LYCAON_DTYPE_I64, after, BATON));
    }

    /* All at once: send and receive together, or a ring of ranks would wait for itself. */
    double *mine = room(COUNT * sizeof *mine), *got = room(COUNT * sizeof *got);
    for (int at = 0; at < COUNT; at++) {
        mine[at] = rank + 0.5;
    }
    must(lycaon_send_recv(group, mine, COUNT, after, got, COUNT, before, LYCAON_DTYPE_F64, SHIFT));
    for (int at = 0; at < COUNT; at++) {
        if (got[at] != before + 0.5) {
            fprintf(stderr, "element %d is %g\n", at, got[at]);
            return 1;
        }
    }

    lycaon_records *records = NULL;
    must(lycaon_group_flight_recorder(group, &records));
    int messages = 0;
    for (size_t at = 0; at < lycaon_records_count(records); at++) {
        messages += lycaon_records_at(records, at)->operation == LYCAON_OPERATION_SEND_RECV;
    }
    printf("rank %d got %.1f from rank %d in %d exchange\n", rank, got[0], before, messages);

    lycaon_records_free(records);
    lycaon_group_free(group);
    free(baton);
    free(mine);
    free(got);
    return 0;
}
