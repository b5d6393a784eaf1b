/// @file
/// Operations in the background, and interruption of waits.

#ifndef LYCAON_WORK_HPP
#define LYCAON_WORK_HPP

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "config.hpp"
#include "raise.hpp"

namespace lycaon {

/// @cond internal
namespace detail {

struct FreeWork {
    void operator()(lycaon_work* work) const noexcept { lycaon_work_free(work); }
};

}  // namespace detail
/// @endcond

/// An operation under way, as the functions that end in `_async` return it.
///
/// The buffers of the operation must stay valid, and must not be touched (what is only read must
/// not be written), until it has ended. The destructor waits for that, bounded by the deadline of
/// the operation, so that a buffer declared before its Work is safe when an exception passes by.
/// Several threads may wait at a time.
class [[nodiscard]] Work {
public:
    /// Waits until the operation has ended; throws if it failed. May be called more than once.
    void wait() const { detail::check(lycaon_work_wait(handle_.get())); }

    /// Waits at most so long. Returns whether the operation has ended; throws if it failed.
    [[nodiscard]] bool wait_for(std::chrono::nanoseconds limit) const {
        bool done = false;
        detail::check(lycaon_work_wait_for(handle_.get(), detail::nanoseconds(limit), &done));
        return done;
    }

    /// Whether the operation has ended; throws if it failed. Never waits.
    [[nodiscard]] bool test() const {
        bool done = false;
        detail::check(lycaon_work_test(handle_.get(), &done));
        return done;
    }

    /// The handle of the C interface; it stays owned by this object.
    lycaon_work* get() const noexcept { return handle_.get(); }

    /// Takes over a handle of the C interface.
    explicit Work(lycaon_work* handle) noexcept : handle_(handle) {}

private:
    std::unique_ptr<lycaon_work, detail::FreeWork> handle_;
};

/// While it exists, the waits of its thread ask a function, at least every 50 ms, whether they
/// should end; those that do throw errors::Interrupted or errors::StartInterrupted. May be nested:
/// the innermost one is asked. A function that throws ends the wait.
class Interruption {
public:
    /// From now on, `check` says whether the waits of this thread should end.
    explicit Interruption(std::function<bool()> check)
        : check_(std::move(check)), outer_(innermost()) {
        innermost() = this;
        lycaon_set_interrupt(call, this);
    }

    /// What was asked before is asked again.
    ~Interruption() {
        innermost() = outer_;
        lycaon_set_interrupt(outer_ == nullptr ? nullptr : call, outer_);
    }

    Interruption(const Interruption&) = delete;
    Interruption& operator=(const Interruption&) = delete;

private:
    static bool call(void* user_data) noexcept {
        try {
            return static_cast<Interruption*>(user_data)->check_();
        } catch (...) {
            return true;
        }
    }

    static Interruption*& innermost() noexcept {
        thread_local Interruption* current = nullptr;
        return current;
    }

    std::function<bool()> check_;
    Interruption* outer_;
};

}  // namespace lycaon

#endif
