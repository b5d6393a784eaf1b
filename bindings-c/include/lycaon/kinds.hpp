/// @file
/// The exceptions of lycaon's C++ interface: one class per kind of error, in `lycaon::errors`.

#ifndef LYCAON_KINDS_HPP
#define LYCAON_KINDS_HPP

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "error.hpp"

namespace lycaon {

/// One class per kind of error, named after its status.
namespace errors {

/// A pointer that must not be NULL is NULL.
class NullPointer final : public UsageError {
public:
    /// @cond internal
    using UsageError::UsageError;
    /// @endcond
};

/// A number is no variant of its enumeration.
class UnknownNumber final : public UsageError {
public:
    /// @cond internal
    using UsageError::UsageError;
    /// @endcond
};

/// Text that is not UTF-8.
class NotText final : public UsageError {
public:
    /// @cond internal
    using UsageError::UsageError;
    /// @endcond
};

/// A number is not in its range.
class OutOfRange final : public UsageError {
public:
    /// @cond internal
    using UsageError::UsageError;
    /// @endcond
};

/// A bug of the library, caught before it could reach the caller.
class Internal final : public UsageError {
public:
    /// @cond internal
    using UsageError::UsageError;
    /// @endcond
};

/// The operator is not defined for the element type.
class Unsupported final : public ArgumentError {
public:
    /// @cond internal
    using ArgumentError::ArgumentError;
    /// @endcond
    /// The operator.
    std::string op() const { return text("op"); }
    /// The element type.
    std::string dtype() const { return text("dtype"); }
};

/// No element type has this number.
class UnknownDtype final : public ArgumentError {
public:
    /// @cond internal
    using ArgumentError::ArgumentError;
    /// @endcond
    /// What was given as a name.
    std::string name() const { return text("name"); }
};

/// No operator has this number.
class UnknownOp final : public ArgumentError {
public:
    /// @cond internal
    using ArgumentError::ArgumentError;
    /// @endcond
    /// What was given as a name.
    std::string name() const { return text("name"); }
};

/// A rank that is not in the group.
class NoSuchRank final : public ArgumentError {
public:
    /// @cond internal
    using ArgumentError::ArgumentError;
    /// @endcond
    /// What it is about.
    std::string subject() const { return text("what"); }
    /// The number of ranks of the group.
    int size() const noexcept { return rank_field("size"); }
};

/// A message to oneself.
class SelfMessage final : public ArgumentError {
public:
    /// @cond internal
    using ArgumentError::ArgumentError;
    /// @endcond
    /// What it is about.
    std::string subject() const { return text("what"); }
};

/// A buffer has the wrong length.
class Length final : public ArgumentError {
public:
    /// @cond internal
    using ArgumentError::ArgumentError;
    /// @endcond
    /// What it is about.
    std::string subject() const { return text("what"); }
    /// What it must be.
    std::int64_t expected() const noexcept { return number("expected"); }
    /// What it is.
    std::int64_t actual() const noexcept { return number("actual"); }
};

/// Bytes that are no whole number of elements.
class Ragged final : public ArgumentError {
public:
    /// @cond internal
    using ArgumentError::ArgumentError;
    /// @endcond
    /// What it is about.
    std::string subject() const { return text("what"); }
    /// The element type.
    std::string dtype() const { return text("dtype"); }
    /// Its length in bytes.
    std::int64_t bytes() const noexcept { return number("bytes"); }
};

/// A buffer cannot be cut into equal blocks.
class Indivisible final : public ArgumentError {
public:
    /// @cond internal
    using ArgumentError::ArgumentError;
    /// @endcond
    /// What it is about.
    std::string subject() const { return text("what"); }
    /// Its length in elements.
    std::int64_t count() const noexcept { return number("count"); }
    /// The number of ranks of the group.
    int size() const noexcept { return rank_field("size"); }
};

/// A list of counts has not one entry per rank.
class Counts final : public ArgumentError {
public:
    /// @cond internal
    using ArgumentError::ArgumentError;
    /// @endcond
    /// What it is about.
    std::string subject() const { return text("what"); }
    /// What it is.
    std::int64_t actual() const noexcept { return number("actual"); }
    /// The number of ranks of the group.
    int size() const noexcept { return rank_field("size"); }
};

/// Input and output overlap without being the same buffer.
class Overlap final : public ArgumentError {
public:
    /// @cond internal
    using ArgumentError::ArgumentError;
    /// @endcond
};

/// A buffer that this rank has to give is missing.
class MissingBuffer final : public ArgumentError {
public:
    /// @cond internal
    using ArgumentError::ArgumentError;
    /// @endcond
    /// What it is about.
    std::string subject() const { return text("what"); }
};

/// A buffer was given that this rank has no use for.
class UnusedBuffer final : public ArgumentError {
public:
    /// @cond internal
    using ArgumentError::ArgumentError;
    /// @endcond
    /// What it is about.
    std::string subject() const { return text("what"); }
};

/// More bytes than this machine can address.
class TooLarge final : public ArgumentError {
public:
    /// @cond internal
    using ArgumentError::ArgumentError;
    /// @endcond
    /// What it is about.
    std::string subject() const { return text("what"); }
};

/// A collective was asked for with something that is none.
class NotACollective final : public ArgumentError {
public:
    /// @cond internal
    using ArgumentError::ArgumentError;
    /// @endcond
    /// The operation that was asked for.
    std::string operation_name() const { return text("operation"); }
};

/// Counts by rank in a form that the operation does not have.
class CountsForm final : public ArgumentError {
public:
    /// @cond internal
    using ArgumentError::ArgumentError;
    /// @endcond
    /// The operation that was asked for.
    std::string operation_name() const { return text("operation"); }
    /// The form of counts that it takes.
    std::string takes() const { return text("takes"); }
    /// The form that was given.
    std::string given() const { return text("given"); }
};

/// A reduction without an operator.
class MissingOp final : public ArgumentError {
public:
    /// @cond internal
    using ArgumentError::ArgumentError;
    /// @endcond
    /// The operation that was asked for.
    std::string operation_name() const { return text("operation"); }
};

/// An operator for an operation that does not reduce.
class UnusedOp final : public ArgumentError {
public:
    /// @cond internal
    using ArgumentError::ArgumentError;
    /// @endcond
    /// The operation that was asked for.
    std::string operation_name() const { return text("operation"); }
    /// The operator.
    std::string op() const { return text("op"); }
};

/// A value is not what it must be.
class Value final : public ConfigError {
public:
    /// @cond internal
    using ConfigError::ConfigError;
    /// @endcond
    /// What was given as a name.
    std::string name() const { return text("name"); }
    /// The value that was given.
    std::string value() const { return text("value"); }
    /// What it must be.
    std::string expected() const { return text("expected"); }
};

/// A variable is missing while others of its family are set.
class Missing final : public ConfigError {
public:
    /// @cond internal
    using ConfigError::ConfigError;
    /// @endcond
    /// What is missing.
    std::string missing() const { return text("missing"); }
    /// What is set.
    std::string present() const { return text("present"); }
};

/// Two values contradict each other.
class Conflict final : public ConfigError {
public:
    /// @cond internal
    using ConfigError::ConfigError;
    /// @endcond
    /// The first of the two.
    std::string first() const { return text("first"); }
    /// The second of the two.
    std::string second() const { return text("second"); }
    /// Why they contradict each other.
    std::string why() const { return text("why"); }
};

/// A file could not be read.
class File final : public ConfigError {
public:
    /// @cond internal
    using ConfigError::ConfigError;
    /// @endcond
    /// The file.
    std::string path() const { return text("path"); }
    /// Why.
    std::string reason() const { return text("reason"); }
};

/// A file's content is wrong.
class Content final : public ConfigError {
public:
    /// @cond internal
    using ConfigError::ConfigError;
    /// @endcond
    /// The file.
    std::string path() const { return text("path"); }
    /// Where in the file.
    std::string place() const { return text("place"); }
    /// Why.
    std::string reason() const { return text("reason"); }
};

/// Without a token only this machine may take part.
class TokenNeeded final : public ConfigError {
public:
    /// @cond internal
    using ConfigError::ConfigError;
    /// @endcond
    /// The address.
    std::string address() const { return text("address"); }
};

/// The start-up deadline passed.
class StartDeadline final : public StartError {
public:
    /// @cond internal
    using StartError::StartError;
    /// @endcond
    /// The deadline.
    std::chrono::nanoseconds within() const noexcept { return duration("within"); }
    /// What was still missing.
    std::string waiting_for() const { return text("waiting_for"); }
};

/// The rendezvous address could not be listened on or reached.
class Unreachable final : public StartError {
public:
    /// @cond internal
    using StartError::StartError;
    /// @endcond
    /// What was tried.
    std::string action() const { return text("action"); }
    /// The address.
    std::string address() const { return text("address"); }
    /// The address on this side.
    std::string local() const { return text("local"); }
    /// How long it was tried.
    std::chrono::nanoseconds tried() const noexcept { return duration("tried"); }
    /// Why.
    std::string reason() const { return text("reason"); }
};

/// One side does not know the job's token.
class Authentication final : public StartError {
public:
    /// @cond internal
    using StartError::StartError;
    /// @endcond
    /// The other side.
    std::string peer_name() const { return text("peer"); }
};

/// Two ranks differ in something that must be equal.
class Disagreement final : public StartError {
public:
    /// @cond internal
    using StartError::StartError;
    /// @endcond
    /// What it is about.
    std::string subject() const { return text("what"); }
    /// The first of the two ranks.
    int first() const noexcept { return rank_field("first"); }
    /// What the first one has.
    std::string first_value() const { return text("first_value"); }
    /// The second of the two ranks.
    int second() const noexcept { return rank_field("second"); }
    /// What the second one has.
    std::string second_value() const { return text("second_value"); }
};

/// Two processes claim one rank.
class DuplicateRank final : public StartError {
public:
    /// @cond internal
    using StartError::StartError;
    /// @endcond
    /// The first of the two.
    std::string first() const { return text("first"); }
    /// The second of the two.
    std::string second() const { return text("second"); }
};

/// A rank failed or went away while the group was forming.
class RankFailed final : public StartError {
public:
    /// @cond internal
    using StartError::StartError;
    /// @endcond
    /// Why.
    std::string reason() const { return text("reason"); }
};

/// No link that both sides accept joins two ranks.
class NoLink final : public StartError {
public:
    /// @cond internal
    using StartError::StartError;
    /// @endcond
    /// The first of the two ranks.
    int first() const noexcept { return rank_field("first"); }
    /// The second of the two ranks.
    int second() const noexcept { return rank_field("second"); }
    /// Why.
    std::string reason() const { return text("reason"); }
};

/// The operating system refused something.
class System final : public StartError {
public:
    /// @cond internal
    using StartError::StartError;
    /// @endcond
    /// What was tried.
    std::string action() const { return text("action"); }
    /// Why.
    std::string reason() const { return text("reason"); }
};

/// The program's own all-gather function failed.
class SideChannel final : public StartError {
public:
    /// @cond internal
    using StartError::StartError;
    /// @endcond
    /// Why.
    std::string reason() const { return text("reason"); }
};

/// The wait was interrupted by the program.
class StartInterrupted final : public StartError {
public:
    /// @cond internal
    using StartError::StartError;
    /// @endcond
};

/// A process ended without closing its group.
class RankDied final : public OperationError {
public:
    /// @cond internal
    using OperationError::OperationError;
    /// @endcond
    /// The rank that died.
    int dead_rank() const noexcept { return rank_field("dead_rank"); }
    /// How that was noticed.
    std::string how() const { return text("how"); }
};

/// A rank closed the group while others still needed it.
class RankLeft final : public OperationError {
public:
    /// @cond internal
    using OperationError::OperationError;
    /// @endcond
    /// The rank that left.
    int left_rank() const noexcept { return rank_field("left_rank"); }
};

/// A link broke while both processes live.
class LinkLost final : public OperationError {
public:
    /// @cond internal
    using OperationError::OperationError;
    /// @endcond
    /// The first of the two ranks.
    int first() const noexcept { return rank_field("first"); }
    /// The second of the two ranks.
    int second() const noexcept { return rank_field("second"); }
    /// The kind of the link.
    std::string lost_link() const { return text("lost_link"); }
    /// Why.
    std::string reason() const { return text("reason"); }
};

/// Nothing moved for as long as the deadline allows.
class Deadline final : public OperationError {
public:
    /// @cond internal
    using OperationError::OperationError;
    /// @endcond
    /// The rank whose deadline passed.
    int late_rank() const noexcept { return rank_field("late_rank"); }
    /// What it had called.
    std::string late_call() const { return text("late_call"); }
    /// The rank that it waited for, if it was one.
    std::optional<int> late_peer() const noexcept { return optional_rank("late_peer"); }
    /// How long it waited.
    std::chrono::nanoseconds waited() const noexcept { return duration("waited"); }
};

/// Two ranks called different things at the same place of the order.
class Mismatch final : public OperationError {
public:
    /// @cond internal
    using OperationError::OperationError;
    /// @endcond
    /// The first of the two ranks.
    int first() const noexcept { return rank_field("first"); }
    /// What the first one called.
    std::string first_call() const { return text("first_call"); }
    /// The second of the two ranks.
    int second() const noexcept { return rank_field("second"); }
    /// What the second one called.
    std::string second_call() const { return text("second_call"); }
};

/// The program asked for an end of waiting.
class Interrupted final : public OperationError {
public:
    /// @cond internal
    using OperationError::OperationError;
    /// @endcond
    /// The rank whose wait was interrupted.
    int interrupted_rank() const noexcept { return rank_field("interrupted_rank"); }
    /// What it had called.
    std::string interrupted_call() const { return text("interrupted_call"); }
};

/// This process closed the group itself.
class Closed final : public OperationError {
public:
    /// @cond internal
    using OperationError::OperationError;
    /// @endcond
};

/// This process is a fork of the one that owns the group.
class Forked final : public OperationError {
public:
    /// @cond internal
    using OperationError::OperationError;
    /// @endcond
    /// The process that owns the group.
    std::int64_t owner() const noexcept { return number("owner"); }
};

/// A peer sent what the protocol does not allow.
class Protocol final : public OperationError {
public:
    /// @cond internal
    using OperationError::OperationError;
    /// @endcond
    /// The rank that noticed.
    int receiver() const noexcept { return rank_field("receiver"); }
    /// The rank that sent it.
    int sender() const noexcept { return rank_field("sender"); }
    /// What it is about.
    std::string subject() const { return text("what"); }
};

/// One of the library's own threads panicked: a bug to report.
class Panicked final : public OperationError {
public:
    /// @cond internal
    using OperationError::OperationError;
    /// @endcond
    /// The rank whose thread panicked.
    int panicked_rank() const noexcept { return rank_field("panicked_rank"); }
    /// What the panic said.
    std::string panic() const { return text("panic"); }
};

}  // namespace errors

}  // namespace lycaon

#endif
