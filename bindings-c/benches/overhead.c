/* The loop of the benchmark `overhead` in C. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <time.h>

#include <lycaon/lycaon.h>

static lycaon_group *group;

/** Forms the group; 0 if that has worked. */
int32_t start(const char *meeting, int32_t rank, int32_t size);
int32_t start(const char *meeting, int32_t rank, int32_t size)
{
    const lycaon_link_kind shm = LYCAON_LINK_KIND_SHM;
    lycaon_config *config = lycaon_config_new();
    lycaon_status status = lycaon_config_set_rank(config, rank);
    status = status ? status : lycaon_config_set_size(config, size);
    status = status ? status : lycaon_config_set_links(config, &shm, 1);
    if (size > 1) {
        status = status ? status : lycaon_config_set_rendezvous(config, meeting);
    }
    status = status ? status : lycaon_init_with(config, &group);
    lycaon_config_free(config);
    if (status != LYCAON_STATUS_OK) {
        fprintf(stderr, "%s\n", lycaon_last_error_message());
    }
    return (int32_t)status;
}

/** So many calls; the nanoseconds that they took. */
uint64_t in_c(uint32_t calls);
uint64_t in_c(uint32_t calls)
{
    struct timespec began, ended;
    double value = 1;
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (uint32_t call = 0; call < calls; call++) {
        if (lycaon_all_reduce(group, NULL, &value, 1, LYCAON_DTYPE_F64, LYCAON_OP_MAX)) {
            fprintf(stderr, "%s\n", lycaon_last_error_message());
            return 0;
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    return (uint64_t)((ended.tv_sec - began.tv_sec) * 1000000000LL + ended.tv_nsec - began.tv_nsec);
}
