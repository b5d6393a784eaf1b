/// @file
/// The exceptions of lycaon's C++ interface: one class per kind of error, in `lycaon::errors`.
///
/// A program catches the kind (`lycaon::errors::RankDied`), the family (`lycaon::OperationError`),
/// which says what state is left behind, or everything (`lycaon::Error`).

#ifndef LYCAON_ERROR_HPP
#define LYCAON_ERROR_HPP

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "types.hpp"

namespace lycaon {

/// Any error of the library. Copies share their fields and never throw.
class Error : public std::runtime_error {
public:
    /// One field that only errors of its kind have.
    struct Field {
        /// Its name, for example "dead_rank".
        std::string name;
        /// Its value as text.
        std::string text;
        /// The value if it is a number (ranks, counts, nanoseconds), else -1.
        std::int64_t number;
    };

    /// Copies an error of the C interface.
    explicit Error(const lycaon_error& error)
        : std::runtime_error(error.message), data_(std::make_shared<const Data>(error)) {}

    /// The number of the kind.
    lycaon_status status() const noexcept { return data_->status; }

    /// The name of the kind, for example "rank_died".
    const std::string& kind() const noexcept { return data_->kind; }

    /// Of an operation that failed: this rank, in its group. Else the rank that the error is about.
    std::optional<int> rank() const noexcept { return data_->rank; }

    /// The rank of the group that was waited for.
    std::optional<int> peer() const noexcept { return data_->peer; }

    /// The operation that failed here.
    Operation operation() const noexcept { return data_->operation; }

    /// The number of the operation in its group; of a message, on its tag between its two ranks.
    std::optional<std::int64_t> sequence() const noexcept { return data_->sequence; }

    /// The link to the peer.
    LinkKind link() const noexcept { return data_->link; }

    /// How long the operation had run.
    std::chrono::nanoseconds elapsed() const noexcept { return data_->elapsed; }

    /// What went wrong first, anywhere in the group; empty unless an operation failed.
    const std::string& cause() const noexcept { return data_->cause; }

    /// The fields that only errors of this kind have. The classes of the kinds have them as methods.
    const std::vector<Field>& fields() const noexcept { return data_->fields; }

protected:
    /// @cond internal
    const Field* find(const char* name) const noexcept {
        for (const Field& field : data_->fields) {
            if (field.name == name) {
                return &field;
            }
        }
        return nullptr;
    }

    std::string text(const char* name) const {
        const Field* field = find(name);
        return field == nullptr ? std::string() : field->text;
    }

    std::int64_t number(const char* name) const noexcept {
        const Field* field = find(name);
        return field == nullptr ? -1 : field->number;
    }

    int rank_field(const char* name) const noexcept { return static_cast<int>(number(name)); }

    std::optional<int> optional_rank(const char* name) const noexcept {
        return find(name) == nullptr ? std::nullopt : std::optional<int>(rank_field(name));
    }

    std::chrono::nanoseconds duration(const char* name) const noexcept {
        return std::chrono::nanoseconds(number(name));
    }
    /// @endcond

private:
    struct Data {
        explicit Data(const lycaon_error& error)
            : status(error.status),
              kind(error.kind),
              operation(static_cast<Operation>(error.operation)),
              link(static_cast<LinkKind>(error.link)),
              elapsed(error.elapsed_ns) {
            if (error.rank >= 0) {
                rank = error.rank;
            }
            if (error.peer >= 0) {
                peer = error.peer;
            }
            if (error.sequence >= 0) {
                sequence = error.sequence;
            }
            if (error.cause != nullptr) {
                cause = error.cause;
            }
            for (std::size_t at = 0; at < error.field_count; ++at) {
                const lycaon_error_field& field = error.fields[at];
                fields.push_back(Field{field.name, field.text, field.number});
            }
        }

        lycaon_status status;
        std::string kind;
        std::optional<int> rank;
        std::optional<int> peer;
        Operation operation;
        std::optional<std::int64_t> sequence;
        LinkKind link;
        std::chrono::nanoseconds elapsed;
        std::string cause;
        std::vector<Field> fields;
    };

    std::shared_ptr<const Data> data_;
};

/// Wrong use of the C interface, or a bug of the library. Nothing was done.
class UsageError : public Error {
public:
    /// @cond internal
    using Error::Error;
    /// @endcond
};

/// The call makes no sense; nothing was sent and the group goes on.
class ArgumentError : public Error {
public:
    /// @cond internal
    using Error::Error;
    /// @endcond
};

/// The environment or a value of a configuration is wrong; nothing was started.
class ConfigError : public Error {
public:
    /// @cond internal
    using Error::Error;
    /// @endcond
};

/// The group could not be formed; nothing is left of it.
class StartError : public Error {
public:
    /// @cond internal
    using Error::Error;
    /// @endcond
};

/// An operation failed; the group is poisoned, unless the wait of a `Work` was interrupted.
class OperationError : public Error {
public:
    /// @cond internal
    using Error::Error;
    /// @endcond
};

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

/// @cond internal
namespace detail {

/// Throws an error as the class of its kind; one of a kind that this header does not know as its
/// family.
[[noreturn]] inline void raise(const lycaon_error& error) {
    switch (error.status) {
        case LYCAON_STATUS_NULL_POINTER:
            throw errors::NullPointer(error);
        case LYCAON_STATUS_UNKNOWN_NUMBER:
            throw errors::UnknownNumber(error);
        case LYCAON_STATUS_NOT_TEXT:
            throw errors::NotText(error);
        case LYCAON_STATUS_OUT_OF_RANGE:
            throw errors::OutOfRange(error);
        case LYCAON_STATUS_INTERNAL:
            throw errors::Internal(error);
        case LYCAON_STATUS_UNSUPPORTED:
            throw errors::Unsupported(error);
        case LYCAON_STATUS_UNKNOWN_DTYPE:
            throw errors::UnknownDtype(error);
        case LYCAON_STATUS_UNKNOWN_OP:
            throw errors::UnknownOp(error);
        case LYCAON_STATUS_NO_SUCH_RANK:
            throw errors::NoSuchRank(error);
        case LYCAON_STATUS_SELF_MESSAGE:
            throw errors::SelfMessage(error);
        case LYCAON_STATUS_LENGTH:
            throw errors::Length(error);
        case LYCAON_STATUS_RAGGED:
            throw errors::Ragged(error);
        case LYCAON_STATUS_INDIVISIBLE:
            throw errors::Indivisible(error);
        case LYCAON_STATUS_COUNTS:
            throw errors::Counts(error);
        case LYCAON_STATUS_OVERLAP:
            throw errors::Overlap(error);
        case LYCAON_STATUS_MISSING_BUFFER:
            throw errors::MissingBuffer(error);
        case LYCAON_STATUS_UNUSED_BUFFER:
            throw errors::UnusedBuffer(error);
        case LYCAON_STATUS_TOO_LARGE:
            throw errors::TooLarge(error);
        case LYCAON_STATUS_NOT_A_COLLECTIVE:
            throw errors::NotACollective(error);
        case LYCAON_STATUS_COUNTS_FORM:
            throw errors::CountsForm(error);
        case LYCAON_STATUS_MISSING_OP:
            throw errors::MissingOp(error);
        case LYCAON_STATUS_UNUSED_OP:
            throw errors::UnusedOp(error);
        case LYCAON_STATUS_VALUE:
            throw errors::Value(error);
        case LYCAON_STATUS_MISSING:
            throw errors::Missing(error);
        case LYCAON_STATUS_CONFLICT:
            throw errors::Conflict(error);
        case LYCAON_STATUS_FILE:
            throw errors::File(error);
        case LYCAON_STATUS_CONTENT:
            throw errors::Content(error);
        case LYCAON_STATUS_TOKEN_NEEDED:
            throw errors::TokenNeeded(error);
        case LYCAON_STATUS_START_DEADLINE:
            throw errors::StartDeadline(error);
        case LYCAON_STATUS_UNREACHABLE:
            throw errors::Unreachable(error);
        case LYCAON_STATUS_AUTHENTICATION:
            throw errors::Authentication(error);
        case LYCAON_STATUS_DISAGREEMENT:
            throw errors::Disagreement(error);
        case LYCAON_STATUS_DUPLICATE_RANK:
            throw errors::DuplicateRank(error);
        case LYCAON_STATUS_RANK_FAILED:
            throw errors::RankFailed(error);
        case LYCAON_STATUS_NO_LINK:
            throw errors::NoLink(error);
        case LYCAON_STATUS_SYSTEM:
            throw errors::System(error);
        case LYCAON_STATUS_SIDE_CHANNEL:
            throw errors::SideChannel(error);
        case LYCAON_STATUS_START_INTERRUPTED:
            throw errors::StartInterrupted(error);
        case LYCAON_STATUS_RANK_DIED:
            throw errors::RankDied(error);
        case LYCAON_STATUS_RANK_LEFT:
            throw errors::RankLeft(error);
        case LYCAON_STATUS_LINK_LOST:
            throw errors::LinkLost(error);
        case LYCAON_STATUS_DEADLINE:
            throw errors::Deadline(error);
        case LYCAON_STATUS_MISMATCH:
            throw errors::Mismatch(error);
        case LYCAON_STATUS_INTERRUPTED:
            throw errors::Interrupted(error);
        case LYCAON_STATUS_CLOSED:
            throw errors::Closed(error);
        case LYCAON_STATUS_FORKED:
            throw errors::Forked(error);
        case LYCAON_STATUS_PROTOCOL:
            throw errors::Protocol(error);
        case LYCAON_STATUS_PANICKED:
            throw errors::Panicked(error);
        default:
            break;
    }
    switch (error.family) {
        case LYCAON_FAMILY_ARGUMENT:
            throw ArgumentError(error);
        case LYCAON_FAMILY_CONFIG:
            throw ConfigError(error);
        case LYCAON_FAMILY_START:
            throw StartError(error);
        case LYCAON_FAMILY_OPERATION:
            throw OperationError(error);
        default:
            throw UsageError(error);
    }
}

/// Throws the last error of this thread.
[[noreturn]] inline void raise_last() {
    const lycaon_error* error = lycaon_last_error();
    if (error == nullptr) {
        throw std::logic_error("lycaon: a call failed without an error");
    }
    raise(*error);
}

/// Throws unless a call succeeded.
inline void check(lycaon_status status) {
    if (status != LYCAON_STATUS_OK) {
        raise_last();
    }
}

/// An error that the C++ interface finds itself: lengths that C cannot know.
[[noreturn]] inline void raise_argument(lycaon_status status, const std::string& message,
                                        const std::vector<Error::Field>& fields) {
    std::vector<lycaon_error_field> plain;
    for (const Error::Field& field : fields) {
        plain.push_back(lycaon_error_field{field.name.c_str(), field.text.c_str(), field.number});
    }
    lycaon_error error = {};
    error.status = status;
    error.family = LYCAON_FAMILY_ARGUMENT;
    error.kind = lycaon_status_name(static_cast<std::uint32_t>(status));
    error.message = message.c_str();
    error.rank = -1;
    error.peer = -1;
    error.operation = LYCAON_OPERATION_NONE;
    error.sequence = -1;
    error.fields = plain.data();
    error.field_count = plain.size();
    raise(error);
}

inline Error::Field number_field(const char* name, std::size_t value) {
    return Error::Field{name, std::to_string(value), static_cast<std::int64_t>(value)};
}

/// A buffer has the length that the call needs.
inline void expect_length(const char* what, std::size_t expected, std::size_t actual) {
    if (expected != actual) {
        raise_argument(LYCAON_STATUS_LENGTH,
                       std::string(what) + " holds " + std::to_string(actual) +
                           " elements where the call needs " + std::to_string(expected),
                       {Error::Field{"what", what, -1}, number_field("expected", expected),
                        number_field("actual", actual)});
    }
}

/// A buffer can be cut into one block per rank. Returns the length of a block.
inline std::size_t expect_share(const char* what, std::size_t count, std::size_t size) {
    if (count % size != 0) {
        raise_argument(LYCAON_STATUS_INDIVISIBLE,
                       std::string(what) + " holds " + std::to_string(count) + " elements, which " +
                           std::to_string(size) +
                           " ranks cannot share equally; pad it or use the form with counts",
                       {Error::Field{"what", what, -1}, number_field("count", count),
                        number_field("size", size)});
    }
    return count / size;
}

/// A list of counts has one entry per rank.
inline void expect_counts(const char* what, std::size_t actual, std::size_t size) {
    if (actual != size) {
        raise_argument(LYCAON_STATUS_COUNTS,
                       std::string(what) + " has " + std::to_string(actual) +
                           " entries for a group of " + std::to_string(size),
                       {Error::Field{"what", what, -1}, number_field("actual", actual),
                        number_field("size", size)});
    }
}

}  // namespace detail
/// @endcond
}  // namespace lycaon

#endif
