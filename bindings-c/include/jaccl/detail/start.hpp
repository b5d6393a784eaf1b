/// @file
/// Starting groups, and what is said about their links. No part of the interface.

#ifndef LYCAON_JACCL_DETAIL_START_HPP
#define LYCAON_JACCL_DETAIL_START_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../../lycaon/config.hpp"
#include "../../lycaon/group.hpp"
#include "../group.h"
#include "environment.hpp"
#include "linked.hpp"

namespace jaccl {
namespace detail {

/// A line on stderr, written at once so that those of several ranks do not mix. JACCL_QUIET=1 keeps
/// it back.
inline void note(const std::string& text) {
    const Variable quiet = variable("JACCL_QUIET");
    if (!quiet || std::string(quiet.text) == "0") {
        const std::string line = "lycaon: " + text + "\n";
        std::fwrite(line.data(), 1, line.size(), stderr);
    }
}

/// The result of a function; if it throws and the caller is not strict, a note and nothing.
template <class Function>
std::shared_ptr<Group> attempt(bool strict, Function function) {
    if (strict) {
        return function();
    }
    try {
        return function();
    } catch (const std::exception& error) {
        note(std::string("no group: ") + error.what());
        return nullptr;
    }
}

/// Makes lycaon's side channel of an all-gather of entries of one length.
inline lycaon::Config::AllGather side_channel(
    std::function<void(const char*, char*, std::size_t)> gather) {
    if (!gather) {
        throw std::runtime_error("jaccl: the all-gather of the program is an empty function");
    }
    return [gather = std::move(gather)](int, int size, lycaon::span<const std::byte> mine) {
        // No message of a start is longer; what is has not been written by a rank of this job.
        constexpr std::uint64_t longest_message = std::uint64_t{1} << 26;
        const auto ranks = static_cast<std::size_t>(size);
        const std::uint64_t length = mine.size();
        std::vector<std::uint64_t> lengths(ranks);
        gather(reinterpret_cast<const char*>(&length), reinterpret_cast<char*>(lengths.data()),
               sizeof length);
        const std::uint64_t longest = *std::max_element(lengths.begin(), lengths.end());
        if (longest > longest_message) {
            throw std::runtime_error("the all-gather of the program gave a length of " +
                                     std::to_string(longest) + " bytes: not what a rank gave it");
        }
        const auto padded = static_cast<std::size_t>(longest);
        std::vector<char> given(padded);
        std::vector<char> gathered(padded * ranks);
        if (!mine.empty()) {
            std::memcpy(given.data(), mine.data(), mine.size());
        }
        if (padded > 0) {
            gather(given.data(), gathered.data(), padded);
        }
        std::vector<std::vector<std::byte>> entries(ranks);
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            const auto* first = reinterpret_cast<const std::byte*>(gathered.data()) + rank * padded;
            entries[rank].assign(first, first + static_cast<std::size_t>(lengths[rank]));
        }
        return entries;
    };
}

inline const char* name_of(lycaon::LinkKind kind) noexcept {
    switch (kind) {
        case lycaon::LinkKind::shm:
            return "shm";
        case lycaon::LinkKind::tcp:
            return "tcp";
        case lycaon::LinkKind::rdma:
            return "rdma";
        default:
            return "another link";
    }
}

/// Which pairs of ranks have devices in the table and yet another link, for example "tcp 0-1, 1-2";
/// empty if there are none. All ranks call it and get the same answer.
inline std::string without_rdma(const lycaon::Group& group, const Devices& devices) {
    const auto ranks = static_cast<std::size_t>(group.size());
    std::vector<std::int32_t> own(ranks, static_cast<std::int32_t>(lycaon::LinkKind::none));
    for (const lycaon::Link& link : group.links()) {
        own[static_cast<std::size_t>(link.peer)] = static_cast<std::int32_t>(link.kind);
    }
    std::vector<std::int32_t> all(ranks * ranks);
    group.all_gather(own, all);
    // More pairs than this are only counted.
    constexpr std::size_t listed = 6;
    std::map<lycaon::LinkKind, std::vector<std::string>> pairs;
    for (std::size_t one = 0; one < ranks; ++one) {
        for (std::size_t other = one + 1; other < ranks; ++other) {
            const auto kind = static_cast<lycaon::LinkKind>(all[one * ranks + other]);
            const bool named = !devices[one][other].empty() || !devices[other][one].empty();
            if (named && kind != lycaon::LinkKind::rdma) {
                pairs[kind].push_back(std::to_string(one) + "-" + std::to_string(other));
            }
        }
    }
    std::string text;
    for (const auto& [kind, of_kind] : pairs) {
        text += (text.empty() ? "" : "; ") + std::string(name_of(kind));
        for (std::size_t at = 0; at < std::min(of_kind.size(), listed); ++at) {
            text += (at == 0 ? " " : ", ") + of_kind[at];
        }
        if (of_kind.size() > listed) {
            text += " and " + std::to_string(of_kind.size() - listed) + " more";
        }
    }
    return text;
}

/// Starts a group over the devices of a table, which may be empty: then no RDMA is expected.
inline std::shared_ptr<Group> join(lycaon::Config& config, const Devices& devices, bool strict) {
    if (strict) {
        if (mesh_problem(devices).empty()) {
            // The start fails, and says why, where a pair has no RDMA link.
            config.links({lycaon::LinkKind::rdma});
        } else {
            config.links(
                {lycaon::LinkKind::rdma, lycaon::LinkKind::shm, lycaon::LinkKind::tcp});
        }
    } else if (!devices.empty() && !variable("LYCAON_LINKS") && lycaon_rdma_device_count() == 0) {
        // The same table serves on a host without RDMA. Where there is some, a device that is not
        // there is a mistake, and the start says so.
        config.links({lycaon::LinkKind::shm, lycaon::LinkKind::tcp});
    }
    lycaon::Group group = lycaon::init(config);
    if (devices.size() == static_cast<std::size_t>(group.size())) {
        const std::string others = without_rdma(group, devices);
        if (strict && !others.empty()) {
            throw std::runtime_error("jaccl: JACCL_STRICT_RDMA or strict_rdma() wants RDMA between "
                                     "all ranks with devices, but the links are: " + others);
        }
        if (!others.empty() && group.rank() == 0) {
            note("ranks with RDMA devices are joined by " + others +
                 " (JACCL_STRICT_RDMA=1 makes that an error, JACCL_QUIET=1 says nothing)");
        }
    }
    return std::make_shared<LinkedGroup>(std::move(group));
}

/// Starts the group that another launcher's variables describe, `lycaon launch` among them.
inline std::shared_ptr<Group> join_as_launched() {
    Devices devices;
    if (const Variable file = devices_variable()) {
        devices = lycaon::read_rdma_devices(file.text);
    }
    const bool strict = flag(strict_variable());
    if (strict && devices.empty()) {
        throw std::runtime_error(
            "jaccl: JACCL_STRICT_RDMA is set, but JACCL_IBV_DEVICES (MLX_IBV_DEVICES) does not say "
            "which ranks have RDMA devices");
    }
    lycaon::Config config = lycaon::Config::from_env();
    std::shared_ptr<Group> group = join(config, devices, strict);
    if (group->size() == 1 && !variable("LYCAON_SIZE")) {
        throw std::runtime_error(
            "jaccl: the environment describes no group: set JACCL_RANK, JACCL_COORDINATOR and "
            "JACCL_IBV_DEVICES (or MLX_RANK, MLX_JACCL_COORDINATOR and MLX_IBV_DEVICES), or start "
            "the program with lycaon launch");
    }
    return group;
}

}  // namespace detail
}  // namespace jaccl

#endif
