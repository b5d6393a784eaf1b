/// @file
/// What every error of lycaon's C++ interface has, and the classes of their families.
///
/// A program catches the kind (`lycaon::errors::RankDied`, in kinds.hpp), the family
/// (`lycaon::OperationError`), which says what state is left behind, or everything (`lycaon::Error`).

#ifndef LYCAON_ERROR_HPP
#define LYCAON_ERROR_HPP

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
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

}  // namespace lycaon

#endif
