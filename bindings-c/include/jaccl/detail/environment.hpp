/// @file
/// The environment variables of JACCL, and the checks of its table of devices. No part of the
/// interface.

#ifndef LYCAON_JACCL_DETAIL_ENVIRONMENT_HPP
#define LYCAON_JACCL_DETAIL_ENVIRONMENT_HPP

#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

namespace jaccl {
namespace detail {

/// A variable of the environment that may be set.
struct Variable {
    const char* name;
    const char* text;

    explicit operator bool() const noexcept { return text != nullptr; }
};

inline Variable variable(const char* name) noexcept { return {name, std::getenv(name)}; }

/// The first that is set.
inline Variable first_of(std::initializer_list<const char*> names) noexcept {
    for (const char* name : names) {
        if (const Variable found = variable(name)) {
            return found;
        }
    }
    return {*names.begin(), nullptr};
}

inline Variable rank_variable() noexcept { return first_of({"JACCL_RANK", "MLX_RANK"}); }
inline Variable coordinator_variable() noexcept {
    return first_of({"JACCL_COORDINATOR", "MLX_JACCL_COORDINATOR"});
}
inline Variable devices_variable() noexcept {
    return first_of({"JACCL_IBV_DEVICES", "MLX_IBV_DEVICES"});
}
inline Variable ring_variable() noexcept { return first_of({"JACCL_RING", "MLX_JACCL_RING"}); }
inline Variable strict_variable() noexcept { return variable("JACCL_STRICT_RDMA"); }

/// Whether JACCL's variables describe this process. lycaon's own ones win, and MLX's rank is also
/// that of its other backend, which has a hostfile.
inline bool has_own_variables() noexcept {
    if (first_of({"LYCAON_RANK", "LYCAON_SIZE"})) {
        return false;
    }
    return coordinator_variable() || devices_variable() || variable("JACCL_RANK") ||
           (variable("MLX_RANK") && !variable("MLX_HOSTFILE"));
}

[[noreturn]] inline void refuse(const std::string& what, const std::string& text,
                                const std::string& expected) {
    throw std::runtime_error("jaccl: " + what + " is \"" + text + "\", expected " + expected);
}

/// A natural number, and nothing else.
inline int number(const std::string& what, const std::string& text) {
    bool good = !text.empty() && text.size() <= 9;
    int value = 0;
    for (const char digit : text) {
        good = good && std::isdigit(static_cast<unsigned char>(digit)) != 0;
        value = good ? value * 10 + (digit - '0') : 0;
    }
    if (!good) {
        refuse(what, text, "a number: 0, 1, …");
    }
    return value;
}

/// Whether a variable says yes.
inline bool flag(Variable variable) {
    const std::string text = variable ? variable.text : "0";
    for (const char* yes : {"1", "true", "yes", "on"}) {
        if (text == yes) {
            return true;
        }
    }
    for (const char* no : {"0", "false", "no", "off"}) {
        if (text == no) {
            return false;
        }
    }
    refuse(variable.name, text, "0 or 1");
}

using Devices = std::vector<std::vector<std::vector<std::string>>>;

/// Throws unless there is a cell for each pair of ranks.
inline void expect_square(const Devices& devices) {
    for (std::size_t rank = 0; rank < devices.size(); ++rank) {
        if (devices[rank].size() != devices.size()) {
            throw std::invalid_argument(
                "jaccl: row " + std::to_string(rank) + " of the devices has " +
                std::to_string(devices[rank].size()) + " cells, but there are " +
                std::to_string(devices.size()) + " rows: each rank needs a cell for each rank");
        }
    }
}

inline std::string missing(std::size_t from, std::size_t to) {
    return "rank " + std::to_string(from) + " has no device towards rank " + std::to_string(to);
}

/// Why the devices form no mesh; empty if they do.
inline std::string mesh_problem(const Devices& devices) {
    if (devices.size() < 2) {
        return "there are fewer than two ranks";
    }
    for (std::size_t from = 0; from < devices.size(); ++from) {
        for (std::size_t to = 0; to < devices.size(); ++to) {
            if (from == to && !devices[from][to].empty()) {
                return "rank " + std::to_string(from) + " has a device towards itself";
            }
            if (from != to && devices[from][to].empty()) {
                return missing(from, to);
            }
        }
    }
    return {};
}

/// Why the devices form no ring; empty if they do.
inline std::string ring_problem(const Devices& devices) {
    const std::size_t size = devices.size();
    if (size < 2) {
        return "there are fewer than two ranks";
    }
    const std::size_t cables = devices[0][1].size();
    for (std::size_t from = 0; from < size; ++from) {
        for (const std::size_t to : {(from + 1) % size, (from + size - 1) % size}) {
            if (devices[from][to].empty()) {
                return missing(from, to);
            }
            if (devices[from][to].size() != cables) {
                return "rank " + std::to_string(from) + " has " +
                       std::to_string(devices[from][to].size()) + " devices towards rank " +
                       std::to_string(to) + ", rank 0 has " + std::to_string(cables) +
                       " towards rank 1";
            }
        }
    }
    return {};
}

}  // namespace detail
}  // namespace jaccl

#endif
