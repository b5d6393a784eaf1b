/// @file
/// Groups of ranks and their operations.

#ifndef LYCAON_GROUP_HPP
#define LYCAON_GROUP_HPP

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "config.hpp"
#include "raise.hpp"
#include "trace.hpp"
#include "types.hpp"
#include "work.hpp"

namespace lycaon {

/// @cond internal
namespace detail {

struct FreeGroup {
    void operator()(lycaon_group* group) const noexcept { lycaon_group_free(group); }
};

template <class T>
constexpr lycaon_dtype dtype(span<T>) noexcept {
    return static_cast<lycaon_dtype>(dtype_of<T>);
}

constexpr lycaon_op plain(Op op) noexcept { return static_cast<lycaon_op>(op); }

template <class A, class B>
constexpr void same_type(span<A>, span<B>) noexcept {
    static_assert(dtype_of<A> == dtype_of<B>, "input and output have different element types");
}

template <class Range>
constexpr void expect_lasting() noexcept {
    static_assert(outlives<Range>,
                  "this temporary would be gone before the operation has ended; give it a name");
}

/// Counts by rank, of whatever integers they come as.
class CountList {
public:
    template <class Counts>
    explicit CountList(const Counts& counts) {
        counts_.reserve(std::size(counts));
        for (const auto& count : counts) {
            static_assert(std::is_integral_v<std::decay_t<decltype(count)>>, "counts are integers");
            // A negative count becomes one that no buffer has.
            counts_.push_back(static_cast<std::uint64_t>(count));
        }
    }

    template <class Counts>
    CountList(const char* what, const Counts& counts, std::size_t ranks) : CountList(counts) {
        expect_counts(what, counts_.size(), ranks);
    }

    const std::uint64_t* data() const noexcept { return counts_.data(); }
    std::size_t size() const noexcept { return counts_.size(); }
    std::size_t of(int rank) const { return counts_[static_cast<std::size_t>(rank)]; }
    std::size_t sum() const {
        return std::accumulate(counts_.begin(), counts_.end(), std::size_t{0});
    }

private:
    std::vector<std::uint64_t> counts_;
};

}  // namespace detail
/// @endcond

/// A group of ranks that compute together.
///
/// Collectives complete in the order in which they were called, and every rank has to call the same
/// ones in the same order. Messages between two ranks are ordered per tag and do not wait for
/// collectives. A group may be used from many threads at a time; the order of collectives is then
/// the order of the calls. When an operation fails for another reason than a wrong argument, the
/// group is poisoned: every later call throws the first cause at once.
///
/// Buffers are whatever has std::data and std::size: vectors, arrays, spans; `view(pointer, count)`
/// makes one of anything else. Input and output are the same buffer, which is in place, or do not
/// overlap. The destructor closes the group and never hangs.
class Group {
public:
    /// This rank, from 0 to size() - 1.
    int rank() const noexcept { return rank_; }

    /// The number of ranks.
    int size() const noexcept { return size_; }

    /// For each rank of this group, its rank in the job.
    std::vector<int> members() const {
        std::vector<std::int32_t> members(ranks());
        detail::check(lycaon_group_members(get(), members.data(), members.size()));
        return std::vector<int>(members.begin(), members.end());
    }

    /// How long an operation waits while nothing moves before it fails.
    std::chrono::nanoseconds timeout() const {
        return std::chrono::nanoseconds(lycaon_group_timeout_ns(get()));
    }

    /// Sets how long operations called from now on wait while nothing moves before they fail.
    void set_timeout(std::chrono::nanoseconds timeout) {
        detail::check(lycaon_group_set_timeout_ns(get(), detail::nanoseconds(timeout)));
    }

    /// How far this group has come. Any thread at any time.
    Progress progress() const { return detail::progress_of(get()); }

    /// The links to the other ranks, in rank order.
    std::vector<Link> links() const { return detail::links_of(get()); }

    /// The last operations of this group, oldest first. Any thread at any time.
    std::vector<Record> flight_recorder() const { return detail::records_of(get()); }

    /// The algorithm that an operation on so many bytes (of one rank's contribution, or of one
    /// block for reduce_scatter, scatter and all_to_all) would take.
    Algorithm algorithm(Operation operation, std::uint64_t bytes) const {
        lycaon_algorithm algorithm = LYCAON_ALGORITHM_NONE;
        detail::check(lycaon_group_algorithm(get(), static_cast<lycaon_operation>(operation), bytes,
                                             &algorithm));
        return static_cast<Algorithm>(algorithm);
    }

    /// Why the group can no longer be used, if it cannot.
    std::optional<OperationError> failure() const {
        if (lycaon_group_failure(get()) == LYCAON_STATUS_OK) {
            return std::nullopt;
        }
        return OperationError(*lycaon_last_error());
    }

    /// Forms a group of all ranks that give the same color, ordered by key and then by rank. Every
    /// rank calls it.
    Group split(int color, std::int64_t key = 0) const {
        lycaon_group* part = nullptr;
        // -1 would mean "no group" to C.
        const std::int32_t plain = color == LYCAON_COLOR_NONE ? -2 : color;
        detail::check(lycaon_group_split(get(), plain, key, &part));
        return Group(part);
    }

    /// As split(); ranks that give no color join no group.
    std::optional<Group> split(std::optional<int> color, std::int64_t key = 0) const {
        if (color.has_value()) {
            return split(*color, key);
        }
        lycaon_group* part = nullptr;
        detail::check(lycaon_group_split(get(), LYCAON_COLOR_NONE, key, &part));
        return std::nullopt;
    }

    /// Closes the group: later calls fail, operations under way fail. May be called more than once.
    void close() { detail::check(lycaon_group_close(get())); }

    /// Reduces the data of all ranks; every rank gets the result in place of its data. The result
    /// is bitwise equal on all ranks.
    template <class Data>
    void all_reduce(Data&& data, Op op) const {
        const auto to = detail::out(data);
        call(lycaon_all_reduce, to.data(), to.data(), to.size(), detail::dtype(to),
             detail::plain(op));
    }

    /// Starts all_reduce() in the background.
    template <class Data>
    Work all_reduce_async(Data&& data, Op op) const {
        detail::expect_lasting<Data>();
        const auto to = detail::out(data);
        return start(lycaon_all_reduce_async, to.data(), to.data(), to.size(), detail::dtype(to),
                     detail::plain(op));
    }

    /// As all_reduce() in place, from `input` into `output` of the same length.
    template <class In, class Out>
    void all_reduce(const In& input, Out&& output, Op op) const {
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        detail::expect_length("output", from.size(), to.size());
        call(lycaon_all_reduce, from.data(), to.data(), to.size(), detail::dtype(to),
             detail::plain(op));
    }

    /// Starts all_reduce() in the background.
    template <class In, class Out>
    Work all_reduce_async(In&& input, Out&& output, Op op) const {
        detail::expect_lasting<In>();
        detail::expect_lasting<Out>();
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        detail::expect_length("output", from.size(), to.size());
        return start(lycaon_all_reduce_async, from.data(), to.data(), to.size(), detail::dtype(to),
                     detail::plain(op));
    }

    /// The reduction of one value of each rank.
    template <class T>
    T all_reduce_value(T value, Op op) const {
        all_reduce(span<T>(&value, 1), op);
        return value;
    }

    /// Every rank gets the inputs of all ranks, in rank order. `output` is size() times as long as
    /// `input`.
    template <class In, class Out>
    void all_gather(const In& input, Out&& output) const {
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        detail::expect_length("output", from.size() * ranks(), to.size());
        call(lycaon_all_gather, from.data(), to.data(), from.size(), detail::dtype(to));
    }

    /// Starts all_gather() in the background.
    template <class In, class Out>
    Work all_gather_async(In&& input, Out&& output) const {
        detail::expect_lasting<In>();
        detail::expect_lasting<Out>();
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        detail::expect_length("output", from.size() * ranks(), to.size());
        return start(lycaon_all_gather_async, from.data(), to.data(), from.size(),
                     detail::dtype(to));
    }

    /// As all_gather(), with the contribution of this rank already at its place in `data`.
    template <class Data>
    void all_gather_in_place(Data&& data) const {
        const auto to = detail::out(data);
        const std::size_t share = detail::expect_share("data", to.size(), ranks());
        call(lycaon_all_gather, nullptr, to.data(), share, detail::dtype(to));
    }

    /// Starts all_gather_in_place() in the background.
    template <class Data>
    Work all_gather_in_place_async(Data&& data) const {
        detail::expect_lasting<Data>();
        const auto to = detail::out(data);
        const std::size_t share = detail::expect_share("data", to.size(), ranks());
        return start(lycaon_all_gather_async, nullptr, to.data(), share, detail::dtype(to));
    }

    /// As all_gather(), where rank i contributes counts[i] elements. All ranks pass the same
    /// counts.
    template <class In, class Out, class Counts>
    void all_gather_v(const In& input, Out&& output, const Counts& counts) const {
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        const detail::CountList list("counts", counts, ranks());
        detail::expect_length("input", list.of(rank()), from.size());
        detail::expect_length("output", list.sum(), to.size());
        call(lycaon_all_gather_v, from.data(), to.data(), list.data(), detail::dtype(to));
    }

    /// Starts all_gather_v() in the background.
    template <class In, class Out, class Counts>
    Work all_gather_v_async(In&& input, Out&& output, const Counts& counts) const {
        detail::expect_lasting<In>();
        detail::expect_lasting<Out>();
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        const detail::CountList list("counts", counts, ranks());
        detail::expect_length("input", list.of(rank()), from.size());
        detail::expect_length("output", list.sum(), to.size());
        return start(lycaon_all_gather_v_async, from.data(), to.data(), list.data(),
                     detail::dtype(to));
    }

    /// Reduces the inputs of all ranks; rank i gets the i-th of size() equal blocks. `input` is
    /// size() times as long as `output`.
    template <class In, class Out>
    void reduce_scatter(const In& input, Out&& output, Op op) const {
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        detail::expect_length("input", to.size() * ranks(), from.size());
        call(lycaon_reduce_scatter, from.data(), to.data(), to.size(), detail::dtype(to),
             detail::plain(op));
    }

    /// Starts reduce_scatter() in the background.
    template <class In, class Out>
    Work reduce_scatter_async(In&& input, Out&& output, Op op) const {
        detail::expect_lasting<In>();
        detail::expect_lasting<Out>();
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        detail::expect_length("input", to.size() * ranks(), from.size());
        return start(lycaon_reduce_scatter_async, from.data(), to.data(), to.size(),
                     detail::dtype(to), detail::plain(op));
    }

    /// As reduce_scatter(), in place: returns the part of `data` that holds the block of this rank;
    /// the rest of `data` is undefined afterwards.
    template <class Data>
    auto reduce_scatter_in_place(Data&& data, Op op) const {
        const auto whole = detail::out(data);
        const auto block = own_block(whole);
        call(lycaon_reduce_scatter, whole.data(), block.data(), block.size(), detail::dtype(whole),
             detail::plain(op));
        return block;
    }

    /// Starts reduce_scatter_in_place() in the background; the block is where that says.
    template <class Data>
    Work reduce_scatter_in_place_async(Data&& data, Op op) const {
        detail::expect_lasting<Data>();
        const auto whole = detail::out(data);
        const auto block = own_block(whole);
        return start(lycaon_reduce_scatter_async, whole.data(), block.data(), block.size(),
                     detail::dtype(whole), detail::plain(op));
    }

    /// As reduce_scatter(), where rank i gets counts[i] elements. All ranks pass the same counts.
    template <class In, class Out, class Counts>
    void reduce_scatter_v(const In& input, Out&& output, const Counts& counts, Op op) const {
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        const detail::CountList list("counts", counts, ranks());
        detail::expect_length("input", list.sum(), from.size());
        detail::expect_length("output", list.of(rank()), to.size());
        call(lycaon_reduce_scatter_v, from.data(), to.data(), list.data(), detail::dtype(to),
             detail::plain(op));
    }

    /// Starts reduce_scatter_v() in the background.
    template <class In, class Out, class Counts>
    Work reduce_scatter_v_async(In&& input, Out&& output, const Counts& counts, Op op) const {
        detail::expect_lasting<In>();
        detail::expect_lasting<Out>();
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        const detail::CountList list("counts", counts, ranks());
        detail::expect_length("input", list.sum(), from.size());
        detail::expect_length("output", list.of(rank()), to.size());
        return start(lycaon_reduce_scatter_v_async, from.data(), to.data(), list.data(),
                     detail::dtype(to), detail::plain(op));
    }

    /// Every rank gets the root's data.
    template <class Data>
    void broadcast(Data&& data, int root) const {
        const auto to = detail::out(data);
        call(lycaon_broadcast, to.data(), to.size(), detail::dtype(to), root);
    }

    /// Starts broadcast() in the background.
    template <class Data>
    Work broadcast_async(Data&& data, int root) const {
        detail::expect_lasting<Data>();
        const auto to = detail::out(data);
        return start(lycaon_broadcast_async, to.data(), to.size(), detail::dtype(to), root);
    }

    /// Reduces the data of all ranks; the root gets the result in place of its data, the data of
    /// the others stays as it is.
    template <class Data>
    void reduce(Data&& data, Op op, int root) const {
        const auto to = detail::out(data);
        call(lycaon_reduce, to.data(), to.data(), to.size(), detail::dtype(to), detail::plain(op),
             root);
    }

    /// Starts reduce() in the background.
    template <class Data>
    Work reduce_async(Data&& data, Op op, int root) const {
        detail::expect_lasting<Data>();
        const auto to = detail::out(data);
        return start(lycaon_reduce_async, to.data(), to.data(), to.size(), detail::dtype(to),
                     detail::plain(op), root);
    }

    /// As reduce() in place, from `input` into the `output` of the root; that of other ranks is not
    /// looked at and may be empty.
    template <class In, class Out>
    void reduce(const In& input, Out&& output, Op op, int root) const {
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        if (rank() == root) {
            detail::expect_length("output", from.size(), to.size());
        }
        call(lycaon_reduce, from.data(), to.data(), from.size(), detail::dtype(to),
             detail::plain(op), root);
    }

    /// Starts reduce() in the background.
    template <class In, class Out>
    Work reduce_async(In&& input, Out&& output, Op op, int root) const {
        detail::expect_lasting<In>();
        detail::expect_lasting<Out>();
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        if (rank() == root) {
            detail::expect_length("output", from.size(), to.size());
        }
        return start(lycaon_reduce_async, from.data(), to.data(), from.size(), detail::dtype(to),
                     detail::plain(op), root);
    }

    /// The root gets the inputs of all ranks, in rank order, in its `output`; that of other ranks
    /// is not looked at and may be empty.
    template <class In, class Out>
    void gather(const In& input, Out&& output, int root) const {
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        if (rank() == root) {
            detail::expect_length("output", from.size() * ranks(), to.size());
        }
        call(lycaon_gather, from.data(), to.data(), from.size(), detail::dtype(to), root);
    }

    /// Starts gather() in the background.
    template <class In, class Out>
    Work gather_async(In&& input, Out&& output, int root) const {
        detail::expect_lasting<In>();
        detail::expect_lasting<Out>();
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        if (rank() == root) {
            detail::expect_length("output", from.size() * ranks(), to.size());
        }
        return start(lycaon_gather_async, from.data(), to.data(), from.size(), detail::dtype(to),
                     root);
    }

    /// As gather(), where rank i contributes counts[i] elements. Only the counts of the root are
    /// looked at.
    template <class In, class Out, class Counts>
    void gather_v(const In& input, Out&& output, const Counts& counts, int root) const {
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        const detail::CountList list(counts);
        if (rank() == root) {
            detail::expect_counts("counts", list.size(), ranks());
            detail::expect_length("input", list.of(rank()), from.size());
            detail::expect_length("output", list.sum(), to.size());
        }
        call(lycaon_gather_v, from.data(), to.data(), from.size(), list.data(), detail::dtype(to),
             root);
    }

    /// Starts gather_v() in the background.
    template <class In, class Out, class Counts>
    Work gather_v_async(In&& input, Out&& output, const Counts& counts, int root) const {
        detail::expect_lasting<In>();
        detail::expect_lasting<Out>();
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        const detail::CountList list(counts);
        if (rank() == root) {
            detail::expect_counts("counts", list.size(), ranks());
            detail::expect_length("input", list.of(rank()), from.size());
            detail::expect_length("output", list.sum(), to.size());
        }
        return start(lycaon_gather_v_async, from.data(), to.data(), from.size(), list.data(),
                     detail::dtype(to), root);
    }

    /// Rank i gets the i-th of size() equal blocks of the root's `input`; that of other ranks is
    /// not looked at and may be empty.
    template <class In, class Out>
    void scatter(const In& input, Out&& output, int root) const {
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        if (rank() == root) {
            detail::expect_length("input", to.size() * ranks(), from.size());
        }
        call(lycaon_scatter, from.data(), to.data(), to.size(), detail::dtype(to), root);
    }

    /// Starts scatter() in the background.
    template <class In, class Out>
    Work scatter_async(In&& input, Out&& output, int root) const {
        detail::expect_lasting<In>();
        detail::expect_lasting<Out>();
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        if (rank() == root) {
            detail::expect_length("input", to.size() * ranks(), from.size());
        }
        return start(lycaon_scatter_async, from.data(), to.data(), to.size(), detail::dtype(to),
                     root);
    }

    /// As scatter(), where rank i gets counts[i] elements. Only the counts of the root are looked
    /// at.
    template <class In, class Counts, class Out>
    void scatter_v(const In& input, const Counts& counts, Out&& output, int root) const {
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        const detail::CountList list(counts);
        if (rank() == root) {
            detail::expect_counts("counts", list.size(), ranks());
            detail::expect_length("input", list.sum(), from.size());
            detail::expect_length("output", list.of(rank()), to.size());
        }
        call(lycaon_scatter_v, from.data(), to.data(), to.size(), list.data(), detail::dtype(to),
             root);
    }

    /// Starts scatter_v() in the background.
    template <class In, class Counts, class Out>
    Work scatter_v_async(In&& input, const Counts& counts, Out&& output, int root) const {
        detail::expect_lasting<In>();
        detail::expect_lasting<Out>();
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        const detail::CountList list(counts);
        if (rank() == root) {
            detail::expect_counts("counts", list.size(), ranks());
            detail::expect_length("input", list.sum(), from.size());
            detail::expect_length("output", list.of(rank()), to.size());
        }
        return start(lycaon_scatter_v_async, from.data(), to.data(), to.size(), list.data(),
                     detail::dtype(to), root);
    }

    /// Rank i gets the i-th block of every rank's input, in rank order. Both buffers hold size()
    /// equal blocks.
    template <class In, class Out>
    void all_to_all(const In& input, Out&& output) const {
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        detail::expect_length("output", from.size(), to.size());
        const std::size_t block = detail::expect_share("input", from.size(), ranks());
        call(lycaon_all_to_all, from.data(), to.data(), block, detail::dtype(to));
    }

    /// Starts all_to_all() in the background.
    template <class In, class Out>
    Work all_to_all_async(In&& input, Out&& output) const {
        detail::expect_lasting<In>();
        detail::expect_lasting<Out>();
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        detail::expect_length("output", from.size(), to.size());
        const std::size_t block = detail::expect_share("input", from.size(), ranks());
        return start(lycaon_all_to_all_async, from.data(), to.data(), block, detail::dtype(to));
    }

    /// As all_to_all(), in place of the data (which is copied for it).
    template <class Data>
    void all_to_all_in_place(Data&& data) const {
        const auto to = detail::out(data);
        const std::size_t block = detail::expect_share("data", to.size(), ranks());
        call(lycaon_all_to_all, nullptr, to.data(), block, detail::dtype(to));
    }

    /// Starts all_to_all_in_place() in the background.
    template <class Data>
    Work all_to_all_in_place_async(Data&& data) const {
        detail::expect_lasting<Data>();
        const auto to = detail::out(data);
        const std::size_t block = detail::expect_share("data", to.size(), ranks());
        return start(lycaon_all_to_all_async, nullptr, to.data(), block, detail::dtype(to));
    }

    /// As all_to_all(), with send_counts[i] elements going to rank i and recv_counts[i] coming from
    /// it.
    template <class In, class SendCounts, class Out, class RecvCounts>
    void all_to_all_v(const In& input, const SendCounts& send_counts, Out&& output,
                      const RecvCounts& recv_counts) const {
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        const detail::CountList sent("send_counts", send_counts, ranks());
        const detail::CountList received("recv_counts", recv_counts, ranks());
        detail::expect_length("input", sent.sum(), from.size());
        detail::expect_length("output", received.sum(), to.size());
        call(lycaon_all_to_all_v, from.data(), sent.data(), to.data(), received.data(),
             detail::dtype(to));
    }

    /// Starts all_to_all_v() in the background.
    template <class In, class SendCounts, class Out, class RecvCounts>
    Work all_to_all_v_async(In&& input, const SendCounts& send_counts, Out&& output,
                            const RecvCounts& recv_counts) const {
        detail::expect_lasting<In>();
        detail::expect_lasting<Out>();
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        const detail::CountList sent("send_counts", send_counts, ranks());
        const detail::CountList received("recv_counts", recv_counts, ranks());
        detail::expect_length("input", sent.sum(), from.size());
        detail::expect_length("output", received.sum(), to.size());
        return start(lycaon_all_to_all_v_async, from.data(), sent.data(), to.data(),
                     received.data(), detail::dtype(to));
    }

    /// Rank i gets the reduction of the data of ranks 0 to i, in place of its data.
    template <class Data>
    void scan(Data&& data, Op op) const {
        const auto to = detail::out(data);
        call(lycaon_scan, to.data(), to.data(), to.size(), detail::dtype(to), detail::plain(op));
    }

    /// Starts scan() in the background.
    template <class Data>
    Work scan_async(Data&& data, Op op) const {
        detail::expect_lasting<Data>();
        const auto to = detail::out(data);
        return start(lycaon_scan_async, to.data(), to.data(), to.size(), detail::dtype(to),
                     detail::plain(op));
    }

    /// As scan() in place, from `input` into `output` of the same length.
    template <class In, class Out>
    void scan(const In& input, Out&& output, Op op) const {
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        detail::expect_length("output", from.size(), to.size());
        call(lycaon_scan, from.data(), to.data(), to.size(), detail::dtype(to), detail::plain(op));
    }

    /// Starts scan() in the background.
    template <class In, class Out>
    Work scan_async(In&& input, Out&& output, Op op) const {
        detail::expect_lasting<In>();
        detail::expect_lasting<Out>();
        const auto from = detail::in(input);
        const auto to = detail::out(output);
        detail::same_type(from, to);
        detail::expect_length("output", from.size(), to.size());
        return start(lycaon_scan_async, from.data(), to.data(), to.size(), detail::dtype(to),
                     detail::plain(op));
    }

    /// Returns when every rank has called it.
    void barrier() const {
        call(lycaon_barrier);
    }

    /// Starts barrier() in the background.
    Work barrier_async() const {
        return start(lycaon_barrier_async);
    }

    /// Sends data to a rank. Small messages are buffered; large ones wait for their receiver.
    template <class Data>
    void send(const Data& data, int to, std::uint32_t tag = 0) const {
        const auto from = detail::in(data);
        call(lycaon_send, from.data(), from.size(), detail::dtype(from), to, tag);
    }

    /// Starts send() in the background.
    template <class Data>
    Work send_async(Data&& data, int to, std::uint32_t tag = 0) const {
        detail::expect_lasting<Data>();
        const auto from = detail::in(data);
        return start(lycaon_send_async, from.data(), from.size(), detail::dtype(from), to, tag);
    }

    /// Receives data from a rank; the message has exactly the length of `data`.
    template <class Data>
    void recv(Data&& data, int from, std::uint32_t tag = 0) const {
        const auto to = detail::out(data);
        call(lycaon_recv, to.data(), to.size(), detail::dtype(to), from, tag);
    }

    /// Starts recv() in the background.
    template <class Data>
    Work recv_async(Data&& data, int from, std::uint32_t tag = 0) const {
        detail::expect_lasting<Data>();
        const auto to = detail::out(data);
        return start(lycaon_recv_async, to.data(), to.size(), detail::dtype(to), from, tag);
    }

    /// Sends to one rank and receives from another (or the same) at the same time.
    template <class In, class Out>
    void send_recv(const In& data, int to, Out&& into, int from, std::uint32_t tag = 0) const {
        const auto sent = detail::in(data);
        const auto received = detail::out(into);
        detail::same_type(sent, received);
        call(lycaon_send_recv, sent.data(), sent.size(), to, received.data(), received.size(), from,
             detail::dtype(sent), tag);
    }

    /// Starts send_recv() in the background.
    template <class In, class Out>
    Work send_recv_async(In&& data, int to, Out&& into, int from, std::uint32_t tag = 0) const {
        detail::expect_lasting<In>();
        detail::expect_lasting<Out>();
        const auto sent = detail::in(data);
        const auto received = detail::out(into);
        detail::same_type(sent, received);
        return start(lycaon_send_recv_async, sent.data(), sent.size(), to, received.data(),
                     received.size(), from, detail::dtype(sent), tag);
    }

    /// The handle of the C interface; it stays owned by this object.
    lycaon_group* get() const noexcept { return handle_.get(); }

    /// Takes over a handle of the C interface.
    explicit Group(lycaon_group* handle) noexcept
        : handle_(handle), rank_(lycaon_group_rank(handle)), size_(lycaon_group_size(handle)) {}

private:
    std::size_t ranks() const noexcept { return static_cast<std::size_t>(size_); }

    template <class T>
    span<T> own_block(span<T> whole) const {
        const std::size_t block = detail::expect_share("data", whole.size(), ranks());
        return span<T>(whole.data() + block * static_cast<std::size_t>(rank_), block);
    }

    template <class Function, class... Arguments>
    void call(Function function, Arguments... arguments) const {
        detail::check(function(get(), arguments...));
    }

    template <class Function, class... Arguments>
    Work start(Function function, Arguments... arguments) const {
        lycaon_work* work = nullptr;
        detail::check(function(get(), arguments..., &work));
        return Work(work);
    }

    std::unique_ptr<lycaon_group, detail::FreeGroup> handle_;
    int rank_;
    int size_;
};

/// Starts the group that the environment describes: `lycaon launch` and other launchers set it.
/// Without any of their variables it is a group of one, in which everything works.
[[nodiscard]] inline Group init() {
    lycaon_group* group = nullptr;
    detail::check(lycaon_init(&group));
    return Group(group);
}

/// Starts the group that a configuration describes.
[[nodiscard]] inline Group init(const Config& config) {
    lycaon_group* group = nullptr;
    detail::check(lycaon_init_with(config.get(), &group));
    return Group(group);
}

/// Makes a group whose ranks are threads of this process, for tests and for trying things out. The
/// groups are returned in rank order; give each to a thread of its own.
[[nodiscard]] inline std::vector<Group> in_process(int size) {
    std::vector<lycaon_group*> handles(size > 0 ? static_cast<std::size_t>(size) : 1);
    std::vector<Group> groups;
    groups.reserve(handles.size());
    detail::check(lycaon_in_process(size, handles.data()));
    for (lycaon_group* handle : handles) {
        groups.emplace_back(handle);
    }
    return groups;
}

/// The version of the library, for example "0.1.0".
inline std::string version() { return lycaon_version(); }

}  // namespace lycaon

#endif
