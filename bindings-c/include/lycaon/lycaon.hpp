/// @file
/// lycaon for C++17: header-only, over the C interface. std::span is used where there is one.
///
///     lycaon::Group group = lycaon::init();
///     std::vector<float> data(1000, group.rank() + 1.0f);
///     group.all_reduce(data, lycaon::Op::sum);
///
/// Errors are exceptions (error.hpp, kinds.hpp); nothing leaks when one is thrown.

#ifndef LYCAON_LYCAON_HPP
#define LYCAON_LYCAON_HPP

#include "config.hpp"
#include "error.hpp"
#include "group.hpp"
#include "kinds.hpp"
#include "trace.hpp"
#include "types.hpp"
#include "work.hpp"

#endif
