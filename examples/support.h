/* What the C examples share: an error ends the program with its text. */
#ifndef LYCAON_EXAMPLES_SUPPORT_H
#define LYCAON_EXAMPLES_SUPPORT_H

#include <stdio.h>
#include <stdlib.h>

#include <lycaon/lycaon.h>

/** Ends the program if the call has failed. */
static inline void must(lycaon_status status)
{
    if (status != LYCAON_STATUS_OK) {
        fprintf(stderr, "%s\n", lycaon_last_error_message());
        exit(1);
    }
}

/** Memory, or the end of the program. */
static inline void *room(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return memory;
}

#endif
