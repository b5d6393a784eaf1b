/* What the test programs share. Everything in here is C11 and C++17. */
#ifndef CHECK_H
#define CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lycaon/lycaon.h>

/** Ends the program unless the condition holds. */
#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: %s does not hold; last error: %s\n", __FILE__, __LINE__,   \
                    #condition, lycaon_last_error_message());                                  \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

/** Ends the program unless the call returns this status. */
#define EXPECT(wanted, call)                                                                   \
    do {                                                                                       \
        lycaon_status got_ = (call);                                                           \
        if (got_ != (wanted)) {                                                                \
            fprintf(stderr, "%s:%d: %s gives %s: %s\n", __FILE__, __LINE__, #call,             \
                    lycaon_status_name(got_), lycaon_last_error_message());                    \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

#define OK(call) EXPECT(LYCAON_STATUS_OK, call)

/** Data that differ by rank and position, and whose sums are exact. */
static inline int32_t value_of(int32_t rank, size_t at)
{
    return (rank + 1) * 1000 + (int32_t)(at * 7 % 101);
}

static inline void fill(int32_t *data, size_t count, int32_t rank)
{
    for (size_t at = 0; at < count; at++) {
        data[at] = value_of(rank, at);
    }
}

static inline int32_t *room(size_t count)
{
    int32_t *data = (int32_t *)malloc((count ? count : 1) * sizeof *data);
    CHECK(data != NULL);
    memset(data, 0x5a, (count ? count : 1) * sizeof *data);
    return data;
}

/** Waits for the end of an operation and frees its handle. */
static inline void finish(lycaon_work *work)
{
    bool done = false;
    OK(lycaon_work_wait(work));
    OK(lycaon_work_test(work, &done));
    CHECK(done);
    lycaon_work_free(work);
}

#endif
