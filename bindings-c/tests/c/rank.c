/* One rank of a group of processes: `rank all`, or `rank loop` until it is ended or a peer is. */
#include "operations.h"

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "all";
    lycaon_group *group = NULL;
    lycaon_config *config = NULL;
    OK(lycaon_config_from_env(&config));
    OK(lycaon_config_check(config));
    OK(lycaon_init_with(config, &group));
    lycaon_config_free(config);
    if (strcmp(what, "all") == 0) {
        everything(group);
        history(group);
        OK(lycaon_group_close(group));
        EXPECT(LYCAON_STATUS_CLOSED, lycaon_barrier(group));
        printf("rank %d of %d: ok\n", lycaon_group_rank(group), lycaon_group_size(group));
    } else {
        float data[3] = {1, 2, 3};
        for (int round = 0;; round++) {
            lycaon_status status =
                lycaon_all_reduce(group, NULL, data, 3, LYCAON_DTYPE_F32, LYCAON_OP_MAX);
            if (status != LYCAON_STATUS_OK) {
                const lycaon_error *error = lycaon_last_error();
                CHECK(error->status == status && error->family == LYCAON_FAMILY_OPERATION);
                CHECK(error->rank == lycaon_group_rank(group));
                CHECK(error->field_count > 0);
                printf("%s %s=%" PRId64 " %s\n", error->kind, error->fields[0].name,
                       error->fields[0].number, error->message);
                CHECK(lycaon_group_failure(group) == status);
                break;
            }
            if (round == 0) {
                /* All ranks are in the middle of it now. */
                FILE *file = fopen(getenv("READY"), "w");
                CHECK(file != NULL && fclose(file) == 0);
            }
        }
    }
    lycaon_group_free(group);
    return 0;
}
