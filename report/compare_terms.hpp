// The time of a result's last rank, taken apart by what runs on it at each moment.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "report/compare.hpp"

namespace cplab {

// An operation of this kind (by its name in files) communicates.
bool moves_data(std::string_view kind);

// Seconds by term, of the rank whose last operation ends last: at each moment attention counts if it runs
// (PHASE/KIND), else another kernel, else communication that has all of its peers (PHASE/KIND/transfer), else
// communication that lacks one (PHASE/KIND/wait), else nothing runs: launches, latencies, a host that waits
// (PHASE/launch, of the operation that begins next). Of several alike the one that began first. They sum to
// side.operations_s.
std::map<std::string, double> terms_of(const ResultFile&);

// What the rank that computes longest in that phase ("forward") computes: its time with at least one kernel
// under way.
double longest_compute_s(const ResultFile&, std::string_view phase);

}  // namespace cplab
