/// @file
/// How what the C interface returns becomes an exception. Nothing in it is for programs.

#ifndef LYCAON_RAISE_HPP
#define LYCAON_RAISE_HPP

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "kinds.hpp"

namespace lycaon {

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
