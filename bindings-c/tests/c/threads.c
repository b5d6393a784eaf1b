/* Every operation in groups whose ranks are threads of this process. */
#include <pthread.h>

#include "operations.h"

static void *run(void *argument)
{
    lycaon_group *group = (lycaon_group *)argument;
    everything(group);
    history(group);
    lycaon_group_free(group);
    return NULL;
}

int main(int count, char **arguments)
{
    const int32_t most = count > 1 ? atoi(arguments[1]) : 4;
    CHECK(lycaon_abi_version() == LYCAON_ABI_VERSION);
    CHECK(strlen(lycaon_version()) > 0 && lycaon_protocol_version() > 0);
    for (int32_t size = 1; size <= most; size++) {
        lycaon_group *groups[16];
        pthread_t threads[16];
        OK(lycaon_in_process(size, groups));
        for (int32_t rank = 0; rank < size; rank++) {
            CHECK(lycaon_group_rank(groups[rank]) == rank);
            CHECK(lycaon_group_size(groups[rank]) == size);
            CHECK(pthread_create(&threads[rank], NULL, run, groups[rank]) == 0);
        }
        for (int32_t rank = 0; rank < size; rank++) {
            CHECK(pthread_join(threads[rank], NULL) == 0);
        }
    }
    puts("threads: ok");
    return 0;
}
