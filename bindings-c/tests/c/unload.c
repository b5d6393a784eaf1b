/* The library can be loaded, used and unloaded, and leaves no thread behind. */
#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include "check.h"

#ifdef __cplusplus
#define FUNCTION(name) decltype(&name) name##_ = (decltype(&name))dlsym(library, #name)
#else
#define FUNCTION(name) __typeof__(&name) name##_ = (__typeof__(&name))dlsym(library, #name)
#endif

static int threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL) {
        exit(1);
    }
    for (struct dirent *entry = readdir(tasks); entry != NULL; entry = readdir(tasks)) {
        count += entry->d_name[0] != '.';
    }
    closedir(tasks);
    return count;
}

int main(int count, char **arguments)
{
    for (int round = 0; round < 3 && count > 1; round++) {
        void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        FUNCTION(lycaon_in_process);
        FUNCTION(lycaon_send_async);
        FUNCTION(lycaon_recv_async);
        FUNCTION(lycaon_work_wait);
        FUNCTION(lycaon_work_free);
        FUNCTION(lycaon_group_free);
        lycaon_group *groups[2];
        lycaon_work *works[2];
        double from = 2.5 + round, into = 0;
        if (lycaon_in_process_(2, groups) != LYCAON_STATUS_OK ||
            lycaon_send_async_(groups[0], &from, 1, LYCAON_DTYPE_F64, 1, 0, &works[0]) != 0 ||
            lycaon_recv_async_(groups[1], &into, 1, LYCAON_DTYPE_F64, 0, 0, &works[1]) != 0 ||
            lycaon_work_wait_(works[1]) != 0 || into != from || threads() < 2) {
            return 2;
        }
        for (int at = 0; at < 2; at++) {
            lycaon_work_free_(works[at]);
            lycaon_group_free_(groups[at]);
        }
        if (threads() != 1 || dlclose(library) != 0) {
            fprintf(stderr, "%d threads are left\n", threads());
            return 3;
        }
    }
    puts("unload: ok");
    return 0;
}
