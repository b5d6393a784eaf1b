// The functions of bindings-swift/src/calls.rs, background.rs and side_channel.rs. They are internal to the Swift package.

#ifndef LYCAON_SWIFT_H
#define LYCAON_SWIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct LycaonGroup LycaonGroup;

typedef enum LycaonCountsForm {
    LycaonCountsEqual = 0,
    LycaonCountsAll = 1,
    LycaonCountsAtRoot = 2,
    LycaonCountsExchange = 3,
} LycaonCountsForm;

typedef struct LycaonRequest {
    uint8_t operation;
    uint8_t dtype;
    uint8_t op;
    bool rooted;
    LycaonCountsForm form;
    size_t root;
    const uint64_t *_Nullable counts;
    size_t count_entries;
    const uint64_t *_Nullable receive_counts;
    size_t receive_entries;
} LycaonRequest;

typedef struct LycaonInput {
    const void *_Nullable base;
    size_t length;
    bool given;
} LycaonInput;

typedef struct LycaonOutput {
    void *_Nullable base;
    size_t length;
    bool given;
} LycaonOutput;

// Whom to tell of the end of an operation: the failure, or null.
typedef void (*LycaonEnded)(void *_Nullable context, void *_Nullable failure);

// The results are failures of the bridge, owned by the caller; null is success.

void *_Nullable lycaon_swift_collective(const LycaonGroup *_Nonnull group,
                                        const LycaonRequest *_Nonnull request, LycaonInput input,
                                        LycaonOutput output);
void *_Nullable lycaon_swift_message(const LycaonGroup *_Nonnull group, uint8_t dtype,
                                     LycaonInput input, size_t to, LycaonOutput output, size_t from,
                                     uint32_t tag);
void *_Nullable lycaon_swift_start_message(const LycaonGroup *_Nonnull group, uint8_t dtype,
                                           LycaonInput input, size_t to, LycaonOutput output,
                                           size_t from, uint32_t tag, LycaonEnded _Nonnull ended,
                                           void *_Nullable context);
void *_Nullable lycaon_swift_split(const LycaonGroup *_Nonnull group, bool colored, uint32_t color,
                                   int64_t key, const LycaonGroup *_Nullable *_Nonnull made);
// The closure behind a rendezvous answers with what every rank has given, in rank order, or with the
// reason why it cannot, as UTF-8.
typedef void (*LycaonAllGather)(void *_Nullable context, size_t rank, size_t size,
                                const uint8_t *_Nullable mine, size_t length,
                                void *_Nonnull answer);
typedef void (*LycaonRelease)(void *_Nullable context);
void lycaon_swift_gathered(void *_Nonnull answer, const uint8_t *_Nullable base, size_t length);
void lycaon_swift_refused(void *_Nonnull answer, const uint8_t *_Nullable base, size_t length);

void lycaon_swift_free(const LycaonGroup *_Nonnull group);
void lycaon_swift_close(const LycaonGroup *_Nonnull group);
size_t lycaon_swift_rank(const LycaonGroup *_Nonnull group);
size_t lycaon_swift_size(const LycaonGroup *_Nonnull group);

#endif
