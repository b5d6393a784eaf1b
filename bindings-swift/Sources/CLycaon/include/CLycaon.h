// Everything that Swift sees of Rust, and a counter.
// What is under generated/ is put there by tools/build-library.

#ifndef LYCAON_SWIFT_CLYCAON_H
#define LYCAON_SWIFT_CLYCAON_H

#include "lycaon_swift.h"

#include "generated/SwiftBridgeCore.h"

#include "generated/bridge.h"

static inline int64_t LycaonCounterLoad(const int64_t *_Nonnull counter) {
    return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

static inline void LycaonCounterAdd(int64_t *_Nonnull counter, int64_t difference) {
    __atomic_fetch_add(counter, difference, __ATOMIC_ACQ_REL);
}

#endif
