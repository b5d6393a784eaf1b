/* Every rank gives a vector; all get the sum, the maximum and the mean. */
#include "../support.h"

static void print(const char *name, const float *data, const char *after)
{
    printf("%s [%.1f, %.1f, %.1f, %.1f]%s", name, data[0], data[1], data[2], data[3], after);
}

int main(void)
{
    lycaon_group *group = NULL;
    must(lycaon_init(&group));
    const int32_t rank = lycaon_group_rank(group), size = lycaon_group_size(group);
    float mine[4], sum[4], largest[4], mean[4];
    for (int at = 0; at < 4; at++) {
        mine[at] = sum[at] = (float)(at + 10 * rank);
    }

    /* In place: the result replaces the data. */
    must(lycaon_all_reduce(group, NULL, sum, 4, LYCAON_DTYPE_F32, LYCAON_OP_SUM));

    /* From one buffer into another. */
    must(lycaon_all_reduce(group, mine, largest, 4, LYCAON_DTYPE_F32, LYCAON_OP_MAX));
    must(lycaon_all_reduce(group, mine, mean, 4, LYCAON_DTYPE_F32, LYCAON_OP_AVG));

    printf("rank %d of %d: ", rank, size);
    print("sum", sum, ", ");
    print("max", largest, ", ");
    print("mean", mean, "\n");
    lycaon_group_free(group);
    return 0;
}
