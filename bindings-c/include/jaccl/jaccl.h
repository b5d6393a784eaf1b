/// @file
/// Starting a group, with JACCL's names and its environment variables. Programs written for JACCL
/// compile against this header and run over lycaon: over RDMA where there is some, over shared
/// memory and TCP elsewhere. See docs/jaccl.md.

#ifndef LYCAON_JACCL_JACCL_H
#define LYCAON_JACCL_JACCL_H

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "detail/environment.hpp"
#include "detail/start.hpp"
#include "group.h"

namespace jaccl {

/// An all-gather of the program itself, in place of a coordinator: every rank gives `n_bytes` bytes
/// from `src`, and gets those of all ranks, in rank order, at `dst`.
using AllGatherFn = std::function<void(const char* src, char* dst, std::size_t n_bytes)>;

/// What a rank must know to join its group: which rank it is, where the ranks meet, and the table
/// of devices, which also says how many ranks there are.
class Config {
public:
    Config() = default;

    /// This process in the group; nullptr changes nothing.
    Config& set_rank(const char* rank) {
        if (rank != nullptr) {
            rank_ = detail::number("the rank", rank);
        }
        return *this;
    }

    /// This process in the group.
    Config& set_rank(int rank) {
        rank_ = rank;
        return *this;
    }

    /// The address "ip:port" at which rank 0 listens; nullptr changes nothing.
    Config& set_coordinator(const char* coordinator) {
        if (coordinator != nullptr) {
            coordinator_ = coordinator;
        }
        return *this;
    }

    /// The address "ip:port" at which rank 0 listens.
    Config& set_coordinator(std::string coordinator) {
        coordinator_ = std::move(coordinator);
        return *this;
    }

    /// The table of devices from a JSON file; nullptr changes nothing.
    Config& set_devices_from_file(const char* path) {
        return path == nullptr ? *this : set_devices(lycaon::read_rdma_devices(path));
    }

    /// For each rank (first index) and each other one (second) the devices that join them, one per
    /// cable.
    Config& set_devices(std::vector<std::vector<std::vector<std::string>>> devices) {
        detail::expect_square(devices);
        devices_ = std::move(devices);
        return *this;
    }

    /// Whether the ring algorithms are to be used. A table that only has neighbours needs no such
    /// wish.
    Config& prefer_ring(bool prefer = true) {
        prefer_ring_ = prefer;
        return *this;
    }

    /// The program's own all-gather in place of a coordinator.
    Config& set_all_gather(AllGatherFn function) {
        all_gather_ = std::move(function);
        return *this;
    }

    /// Makes that all-gather, from the rank and the size, when the group starts.
    Config& set_all_gather_factory(std::function<AllGatherFn(int, int)> factory) {
        factory_ = std::move(factory);
        return *this;
    }

    /// Whether every pair of ranks with devices in the table must be joined by RDMA. Otherwise those
    /// that cannot be are joined by something else, and a note on stderr says so. lycaon's own.
    Config& strict_rdma(bool strict = true) {
        strict_rdma_ = strict;
        return *this;
    }

    /// Whether each pair of ranks has a device.
    bool is_valid_mesh() const { return detail::mesh_problem(devices_).empty(); }

    /// Whether neighbours have devices, all the same number of them.
    bool is_valid_ring() const { return detail::ring_problem(devices_).empty(); }

    /// Whether init() can start.
    bool is_valid() const { return problem().empty(); }

    int get_rank() const { return rank_; }
    int get_size() const { return static_cast<int>(devices_.size()); }
    std::string get_coordinator() const { return coordinator_; }
    bool get_prefer_ring() const { return prefer_ring_; }
    bool get_strict_rdma() const { return strict_rdma_; }

    /// Why init() cannot start, and how to put that right; empty if it can. lycaon's own.
    std::string problem() const {
        if (devices_.empty()) {
            return "no table of devices: set JACCL_IBV_DEVICES (MLX_IBV_DEVICES) to its file, or "
                   "call set_devices()";
        }
        if (rank_ < 0 || rank_ >= get_size()) {
            return "rank " + std::to_string(rank_) + " is not in the table of devices, whose ranks "
                   "are 0 to " + std::to_string(get_size() - 1);
        }
        if (coordinator_.empty() && !all_gather_ && !factory_) {
            return "no coordinator: set JACCL_COORDINATOR (MLX_JACCL_COORDINATOR) to the address "
                   "ip:port at which rank 0 listens, or call set_coordinator()";
        }
        const std::string mesh = detail::mesh_problem(devices_);
        const std::string ring = detail::ring_problem(devices_);
        if (!mesh.empty() && !ring.empty()) {
            return "the devices form no mesh (" + mesh + ") and no ring (" + ring + ")";
        }
        return {};
    }

    /// From the environment. What is not set stays unset; what is set wrongly is thrown.
    static Config from_env() {
        Config config;
        if (const detail::Variable rank = detail::rank_variable()) {
            config.rank_ = detail::number(rank.name, rank.text);
        }
        config.set_coordinator(detail::coordinator_variable().text);
        config.set_devices_from_file(detail::devices_variable().text);
        config.prefer_ring(detail::flag(detail::ring_variable()));
        config.strict_rdma(detail::flag(detail::strict_variable()));
        return config;
    }

    friend std::shared_ptr<Group> init(const Config& config, bool strict);

private:
    std::shared_ptr<Group> start() const {
        const std::string wrong = problem();
        if (!wrong.empty()) {
            throw std::runtime_error("jaccl: " + wrong);
        }
        lycaon::Config config = lycaon::Config::settings_from_env();
        config.rank(rank_).size(get_size()).rdma_devices(devices_);
        if (factory_) {
            config.all_gather(detail::side_channel(factory_(rank_, get_size())));
        } else if (all_gather_) {
            config.all_gather(detail::side_channel(all_gather_));
        } else {
            config.rendezvous(coordinator_);
        }
        if (prefer_ring_ && !detail::variable("LYCAON_ALGORITHM")) {
            config.algorithm(lycaon::Operation::none, lycaon::Algorithm::ring);
        }
        return detail::join(config, devices_, strict_rdma_);
    }

    int rank_ = 0;
    std::string coordinator_;
    std::vector<std::vector<std::vector<std::string>>> devices_;
    bool prefer_ring_ = false;
    bool strict_rdma_ = false;
    AllGatherFn all_gather_;
    std::function<AllGatherFn(int, int)> factory_;
};

/// Whether groups can be started: always, since there is a link between any two ranks; where
/// JACCL_STRICT_RDMA is set, if this host has an RDMA device.
inline bool is_available() {
    return !detail::flag(detail::strict_variable()) || lycaon_rdma_device_count() > 0;
}

/// Starts a group. If that fails: throws if `strict`, else says why on stderr and returns nullptr.
inline std::shared_ptr<Group> init(const Config& config, bool strict = false) {
    return detail::attempt(strict, [&] { return config.start(); });
}

/// Starts the group that the environment describes: JACCL_RANK, JACCL_COORDINATOR and
/// JACCL_IBV_DEVICES, or MLX's names for them, or the variables of `lycaon launch` or of another
/// launcher. On failure as above.
inline std::shared_ptr<Group> init(bool strict = false) {
    return detail::attempt(strict, [] {
        return detail::has_own_variables() ? init(Config::from_env(), true)
                                           : detail::join_as_launched();
    });
}

/// The same with an all-gather of the program, made by `factory`, in place of the coordinator.
inline std::shared_ptr<Group> init(bool strict, std::function<AllGatherFn(int, int)> factory) {
    return detail::attempt(strict, [&] {
        return init(Config::from_env().set_all_gather_factory(std::move(factory)), true);
    });
}

}  // namespace jaccl

#endif
