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

struct FreeDevices {
    void operator()(lycaon_rdma_devices* devices) const noexcept {
        lycaon_rdma_devices_free(devices);
    }
};

using DevicesHandle = std::unique_ptr<lycaon_rdma_devices, FreeDevices>;

/// Nanoseconds for C; a negative time is none.
inline std::uint64_t nanoseconds(std::chrono::nanoseconds time) noexcept {
    return time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
}

}  // namespace detail
/// @endcond

/// The RDMA devices of each rank (first index) towards each other one (second), as many as there are
/// cables.
using RdmaDevices = std::vector<std::vector<std::vector<std::string>>>;

/// Reads a table of devices from a JSON file, as JACCL_IBV_DEVICES names one.
inline RdmaDevices read_rdma_devices(const std::string& path) {
    lycaon_rdma_devices* read = nullptr;
    detail::check(lycaon_rdma_devices_read(path.c_str(), &read));
    const detail::DevicesHandle table(read);
    const int ranks = lycaon_rdma_devices_ranks(read);
    RdmaDevices devices(static_cast<std::size_t>(ranks));
    for (int from = 0; from < ranks; ++from) {
        auto& row = devices[static_cast<std::size_t>(from)];
        row.resize(devices.size());
        for (int to = 0; to < ranks; ++to) {
            const std::size_t count = lycaon_rdma_devices_count(read, from, to);
            for (std::size_t at = 0; at < count; ++at) {
                row[static_cast<std::size_t>(to)].emplace_back(
                    lycaon_rdma_devices_name(read, from, to, at));
            }
        }
    }
    return devices;
}

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

    /// From the settings in the environment (token, deadlines, links, …) without those that say
    /// which rank this is and where the ranks meet: the program says that.
    static Config settings_from_env() {
        lycaon_config* handle = nullptr;
        detail::check(lycaon_config_settings_from_env(&handle));
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

    /// The RDMA devices of each rank towards each other one. Without this they are found.
    Config& rdma_devices(const RdmaDevices& devices) {
        const std::size_t ranks = devices.size();
        lycaon_rdma_devices* made = nullptr;
        detail::check(lycaon_rdma_devices_new(static_cast<std::int32_t>(ranks), &made));
        const detail::DevicesHandle table(made);
        for (std::size_t from = 0; from < ranks; ++from) {
            for (std::size_t to = 0; to < devices[from].size(); ++to) {
                for (const std::string& name : devices[from][to]) {
                    detail::check(lycaon_rdma_devices_add(made, static_cast<std::int32_t>(from),
                                                          static_cast<std::int32_t>(to),
                                                          name.c_str()));
                }
            }
        }
        return set(lycaon_config_set_rdma_devices(get(), made));
    }

    /// The type of RDMA queue pairs.
    Config& rdma_queue_pairs(QueuePairs kind) {
        return set(lycaon_config_set_rdma_queue_pairs(get(),
                                                      static_cast<lycaon_queue_pairs>(kind)));
    }

    /// Which of its identifiers (GIDs) an RDMA device uses.
    Config& rdma_gid_index(int index) {
        return set(lycaon_config_set_rdma_gid_index(get(), index));
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
