#include <lycaon/lycaon.h>
#include <stdio.h>

int main(void)
{
    lycaon_group *group = NULL;
    int64_t sum = 0;
    if (lycaon_abi_version() != LYCAON_ABI_VERSION || lycaon_init(&group) != LYCAON_STATUS_OK) {
        fprintf(stderr, "%s\n", lycaon_last_error_message());
        return 1;
    }
    sum = lycaon_group_rank(group) + 1;
    if (lycaon_all_reduce(group, NULL, &sum, 1, LYCAON_DTYPE_I64, LYCAON_OP_SUM) != LYCAON_STATUS_OK) {
        fprintf(stderr, "%s\n", lycaon_last_error_message());
        return 1;
    }
    printf("sum %d\n", (int)sum);
    lycaon_group_free(group);
    return 0;
}
