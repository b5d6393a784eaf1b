/// @file
/// Configurations of lycaon's C++ interface.

#ifndef LYCAON_CONFIG_HPP
#define LYCAON_CONFIG_HPP

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "raise.hpp"

namespace lycaon {

/// @cond internal
namespace detail {

struct FreeConfig {
    void operator()(lycaon_config* config) const noexcept { lycaon_config_free(config); }
};

/// Nanoseconds for C; a negative time is none.
inline std::uint64_t nanoseconds(std::chrono::nanoseconds time) noexcept {
    return time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
}

}  // namespace detail
/// @endcond

/// What a rank must know to join its group. Values that are not set have their defaults. One thread
/// at a time may use it; it must live for as long as init() with it runs.
///
///     lycaon::Config config;
///     config.rank(0).size(2).rendezvous("10.0.0.1:4000").token("secret");
class Config {
public:
    /// An all-gather of the program itself: gets what this rank gives, returns what every rank
    /// gave, in rank order. What it throws ends the start with errors::SideChannel.
    using AllGather = std::function<std::vector<std::vector<std::byte>>(
        int rank, int size, span<const std::byte> mine)>;

    /// Nothing is set: without more, a group of one.
    Config() : handle_(lycaon_config_new()) {
        if (handle_ == nullptr) {
            detail::raise_last();
        }
    }

    /// From the environment; single values can then be replaced.
    static Config from_env() {
        lycaon_config* handle = nullptr;
        detail::check(lycaon_config_from_env(&handle));
        return Config(handle);
    }

    /// This process in the group.
    Config& rank(int rank) { return set(lycaon_config_set_rank(get(), rank)); }

    /// Processes in the group.
    Config& size(int size) { return set(lycaon_config_set_size(get(), size)); }

    /// Where the ranks meet: "host:port" or "[v6]:port" where rank 0 listens, or "file:/path" on a
    /// disk that all ranks see.
    Config& rendezvous(const std::string& place) {
        return set(lycaon_config_set_rendezvous(get(), place.c_str()));
    }

    /// The program's own all-gather in place of a rendezvous.
    Config& all_gather(AllGather function) {
        auto kept = std::make_unique<AllGather>(std::move(function));
        set(lycaon_config_set_all_gather(get(), call, kept.get()));
        all_gather_ = std::move(kept);
        return *this;
    }

    /// The secret that all ranks share; needed if the rendezvous is not on this machine.
    Config& token(std::string_view token) {
        return set(lycaon_config_set_token(
            get(), reinterpret_cast<const std::uint8_t*>(token.data()), token.size()));
    }

    /// A name that keeps jobs apart.
    Config& job(const std::string& job) { return set(lycaon_config_set_job(get(), job.c_str())); }

    /// How long forming the group may take.
    Config& start_timeout(std::chrono::nanoseconds timeout) {
        return set(lycaon_config_set_start_timeout_ns(get(), detail::nanoseconds(timeout)));
    }

    /// How long an operation waits while nothing moves.
    Config& timeout(std::chrono::nanoseconds timeout) {
        return set(lycaon_config_set_timeout_ns(get(), detail::nanoseconds(timeout)));
    }

    /// The kinds of link that may be used, in order of preference.
    Config& links(std::initializer_list<LinkKind> kinds) {
        std::vector<lycaon_link_kind> plain;
        for (LinkKind kind : kinds) {
            plain.push_back(static_cast<lycaon_link_kind>(kind));
        }
        return set(lycaon_config_set_links(get(), plain.data(), plain.size()));
    }

    /// TCP sockets per link, 1 to 64.
    Config& rails(int rails) { return set(lycaon_config_set_rails(get(), rails)); }

    /// A name for this host; ranks with different names share no memory.
    Config& host_id(const std::string& id) {
        return set(lycaon_config_set_host_id(get(), id.c_str()));
    }

    /// Local addresses or names of interfaces that data may use, separated by commas.
    Config& interfaces(const std::string& interfaces) {
        return set(lycaon_config_set_interfaces(get(), interfaces.c_str()));
    }

    /// Fixes the algorithm of an operation, or of all of them (Operation::none).
    Config& algorithm(Operation of, Algorithm by) {
        return set(lycaon_config_set_algorithm(get(), static_cast<lycaon_operation>(of),
                                               static_cast<lycaon_algorithm>(by)));
    }

    /// Whether only algorithms that sum in rank order may be used.
    Config& rank_order(bool only) { return set(lycaon_config_set_rank_order(get(), only)); }

    /// How long a wait polls before it sleeps in the kernel.
    Config& spin(std::chrono::nanoseconds spin) {
        return set(lycaon_config_set_spin_ns(get(), detail::nanoseconds(spin)));
    }

    /// Upper bound of the staging memory of a rank, in bytes.
    Config& staging(std::size_t bytes) { return set(lycaon_config_set_staging(get(), bytes)); }

    /// Operations that the flight recorder of a group keeps.
    Config& recorder(std::size_t operations) {
        return set(lycaon_config_set_recorder(get(), operations));
    }

    /// Interval of the keep-alive on the control connection.
    Config& liveness(std::chrono::nanoseconds interval) {
        return set(lycaon_config_set_liveness_ns(get(), detail::nanoseconds(interval)));
    }

    /// Throws if the values contradict one another, as init() does.
    void check() const { detail::check(lycaon_config_check(handle_.get())); }

    /// The handle of the C interface; it stays owned by this object.
    lycaon_config* get() const noexcept { return handle_.get(); }

private:
    explicit Config(lycaon_config* handle) noexcept : handle_(handle) {}

    Config& set(lycaon_status status) {
        detail::check(status);
        return *this;
    }

    static std::int32_t call(void* user_data, std::int32_t rank, std::int32_t size,
                             const std::uint8_t* mine, std::size_t length,
                             lycaon_gathered* answer) noexcept {
        try {
            const AllGather& function = *static_cast<const AllGather*>(user_data);
            const span<const std::byte> given(reinterpret_cast<const std::byte*>(mine), length);
            const auto entries = function(rank, size, given);
            std::int32_t from = 0;
            for (const std::vector<std::byte>& entry : entries) {
                detail::check(lycaon_gathered_set(
                    answer, from++, reinterpret_cast<const std::uint8_t*>(entry.data()),
                    entry.size()));
            }
            return 0;
        } catch (const std::exception& error) {
            (void)lycaon_gathered_fail(answer, error.what());
        } catch (...) {
            (void)lycaon_gathered_fail(answer, "it threw something that is no std::exception");
        }
        return 1;
    }

    std::unique_ptr<lycaon_config, detail::FreeConfig> handle_;
    std::unique_ptr<AllGather> all_gather_;
};

}  // namespace lycaon

#endif
