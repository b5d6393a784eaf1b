/// @file
/// What has happened in a group: counters, links and the flight recorder.

#ifndef LYCAON_TRACE_HPP
#define LYCAON_TRACE_HPP

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "raise.hpp"

namespace lycaon {

/// How far a group has come.
struct Progress {
    /// Operations that this rank has begun.
    std::uint64_t started = 0;
    /// Operations that have completed.
    std::uint64_t completed = 0;
    /// Operations that have failed.
    std::uint64_t failed = 0;
    /// Payload bytes that this process has sent over its links, for all groups.
    std::uint64_t bytes_sent = 0;
    /// Payload bytes that this process has received over its links, for all groups.
    std::uint64_t bytes_received = 0;
};

/// The link between this rank and another one of its group.
struct Link {
    /// The other rank, in this group.
    int peer = 0;
    /// What joins the two.
    LinkKind kind = LinkKind::none;
    /// Where it leads, for example the two addresses of a TCP link.
    std::string detail;
    /// Payload bytes sent to the peer.
    std::uint64_t bytes_sent = 0;
    /// Payload bytes received from the peer.
    std::uint64_t bytes_received = 0;
    /// Messages sent to the peer.
    std::uint64_t messages_sent = 0;
    /// Messages received from the peer.
    std::uint64_t messages_received = 0;
};

/// One operation in the flight recorder.
struct Record {
    /// Its number in the group; of a message, its number on its tag between the two ranks.
    std::uint64_t sequence = 0;
    /// What was called.
    Operation operation = Operation::none;
    /// The type of its elements.
    DType dtype = DType::none;
    /// The operator of a reduction.
    Op op = Op::none;
    /// The root of a rooted operation.
    std::optional<int> root;
    /// Elements of one rank's contribution, or of one block.
    std::uint64_t count = 0;
    /// The other rank of a message.
    std::optional<int> peer;
    /// The tag of a message.
    std::optional<std::uint32_t> tag;
    /// How it was carried out.
    Algorithm algorithm = Algorithm::none;
    /// How far it has come.
    State state = State::running;
    /// When it began, since the group was formed.
    std::chrono::nanoseconds began{0};
    /// How long it took, or has taken so far.
    std::chrono::nanoseconds took{0};
    /// Why it failed; empty unless it has.
    std::string error;
    /// All of it in one line.
    std::string text;
};

/// @cond internal
namespace detail {

struct FreeLinks {
    void operator()(lycaon_links* links) const noexcept { lycaon_links_free(links); }
};

struct FreeRecords {
    void operator()(lycaon_records* records) const noexcept { lycaon_records_free(records); }
};

inline Progress progress_of(const lycaon_group* group) {
    lycaon_progress now = {};
    check(lycaon_group_progress(group, &now));
    return Progress{now.started, now.completed, now.failed, now.bytes_sent, now.bytes_received};
}

inline std::vector<Link> links_of(const lycaon_group* group) {
    lycaon_links* handle = nullptr;
    check(lycaon_group_links(group, &handle));
    const std::unique_ptr<lycaon_links, FreeLinks> links(handle);
    std::vector<Link> result(lycaon_links_count(handle));
    for (std::size_t at = 0; at < result.size(); ++at) {
        const lycaon_link& link = *lycaon_links_at(handle, at);
        result[at] = Link{link.peer,           static_cast<LinkKind>(link.kind),
                          link.detail,         link.bytes_sent,
                          link.bytes_received, link.messages_sent,
                          link.messages_received};
    }
    return result;
}

inline std::vector<Record> records_of(const lycaon_group* group) {
    lycaon_records* handle = nullptr;
    check(lycaon_group_flight_recorder(group, &handle));
    const std::unique_ptr<lycaon_records, FreeRecords> records(handle);
    std::vector<Record> result(lycaon_records_count(handle));
    for (std::size_t at = 0; at < result.size(); ++at) {
        const lycaon_record& from = *lycaon_records_at(handle, at);
        Record& to = result[at];
        to.sequence = from.sequence;
        to.operation = static_cast<Operation>(from.operation);
        to.dtype = static_cast<DType>(from.dtype);
        to.op = static_cast<Op>(from.op);
        to.root = from.root < 0 ? std::nullopt : std::optional<int>(from.root);
        to.count = from.count;
        to.peer = from.peer < 0 ? std::nullopt : std::optional<int>(from.peer);
        if (from.tag >= 0) {
            to.tag = static_cast<std::uint32_t>(from.tag);
        }
        to.algorithm = static_cast<Algorithm>(from.algorithm);
        to.state = static_cast<State>(from.state);
        to.began = std::chrono::nanoseconds(from.began_ns);
        to.took = std::chrono::nanoseconds(from.took_ns);
        to.error = from.error == nullptr ? "" : from.error;
        to.text = from.text;
    }
    return result;
}

}  // namespace detail
/// @endcond
}  // namespace lycaon

#endif
