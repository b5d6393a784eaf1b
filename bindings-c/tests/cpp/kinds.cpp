// Every kind of error of the core as the class of its name; tests/kinds.rs writes kinds.inc.
#include <string>

#include "check.hpp"

namespace {

void same(const std::string& value, const lycaon_error_field& field) { CHECK(value == field.text); }
void same(std::int64_t value, const lycaon_error_field& field) {
    CHECK(field.number >= 0 && value == field.number);
}
void same(int value, const lycaon_error_field& field) {
    CHECK(field.number >= 0 && value == field.number);
}
void same(std::optional<int> value, const lycaon_error_field& field) {
    CHECK(field.number >= 0 && value == field.number);
}
void same(std::chrono::nanoseconds value, const lycaon_error_field& field) {
    CHECK(field.number >= 0 && value.count() == field.number);
}

template <class Kind, class Family, class Fields>
void expect(const lycaon_error& error, Fields fields) {
    static_assert(std::is_base_of_v<Family, Kind>);
    try {
        lycaon::detail::raise(error);
    } catch (const lycaon::Error& thrown) {
        const auto* kind = dynamic_cast<const Kind*>(&thrown);
        if (kind == nullptr) {
            std::fprintf(stderr, "%s is not of its class\n", error.kind);
            std::exit(1);
        }
        CHECK(std::string(kind->what()) == error.message && kind->kind() == error.kind);
        CHECK(kind->status() == error.status && kind->fields().size() == error.field_count);
        CHECK(kind->rank().value_or(-1) == error.rank && kind->peer().value_or(-1) == error.peer);
        CHECK(kind->sequence().value_or(-1) == error.sequence);
        CHECK(static_cast<int>(kind->operation()) == static_cast<int>(error.operation));
        CHECK(static_cast<int>(kind->link()) == static_cast<int>(error.link));
        CHECK(kind->elapsed().count() == static_cast<std::int64_t>(error.elapsed_ns));
        CHECK(kind->cause() == (error.cause == nullptr ? "" : error.cause));
        fields(*kind);
    }
}

}  // namespace

int main() {
#include "kinds.inc"
    // A number of a later version is its family.
    lycaon_error later = {};
    later.status = static_cast<lycaon_status>(499);
    later.family = LYCAON_FAMILY_OPERATION;
    later.kind = "later";
    later.message = "not known here";
    THROWS(lycaon::OperationError, lycaon::detail::raise(later));
    std::puts("kinds: ok");
}
