// See compare_terms.hpp.
#include "report/compare_terms.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "plan/plan.hpp"

namespace cplab {
namespace {

// "3/forward/12" makes "forward".
std::string phase_of(const std::string& id) {
  const std::size_t first = id.find('/'), second = id.find('/', first + 1);
  return id.substr(first + 1, second - first - 1);
}

bool is_named(std::string_view kind, OpKind of) {
  return kind == name(of);
}

bool computes(std::string_view kind) {
  return !moves_data(kind) && !is_named(kind, OpKind::host_sync);
}

// What may be under way, what counts most first.
enum Activity : std::uint8_t { attends, other_kernel, moves, waits, activity_count };

// A part of an operation.
struct Piece {
  double begin_s = 0, end_s = 0;
  Activity activity = other_kernel;
  std::string term;
};

std::vector<Piece> pieces_of(const ResultFile& file) {
  std::vector<Piece> pieces;
  for (const ResultFile::Operation& op : file.operations) {
    if (op.rank != file.side.last_rank || is_named(op.kind, OpKind::host_sync)) continue;
    const std::string term = phase_of(op.id) + "/" + op.kind;
    const double end_s = op.start_s + op.seconds;
    if (!moves_data(op.kind)) {
      const bool attention = is_named(op.kind, OpKind::attend) || is_named(op.kind, OpKind::attend_backward);
      pieces.push_back({op.start_s, end_s, attention ? attends : other_kernel, term});
      continue;
    }
    const double moves_s = std::clamp(op.start_s + op.wait_s, op.start_s, end_s);
    pieces.push_back({op.start_s, moves_s, waits, term + "/wait"});
    pieces.push_back({moves_s, end_s, moves, term + "/transfer"});
  }
  std::erase_if(pieces, [](const Piece& piece) { return !(piece.end_s > piece.begin_s); });
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.begin_s < b.begin_s; });
  return pieces;
}

}  // namespace

bool moves_data(std::string_view kind) {
  for (int i = 0; i < static_cast<int>(OpKind::host_sync); ++i) {
    const OpKind each = static_cast<OpKind>(i);
    if (is_communication(each) && is_named(kind, each)) return true;
  }
  return false;
}

std::map<std::string, double> terms_of(const ResultFile& file) {
  const std::vector<Piece> pieces = pieces_of(file);
  std::vector<double> times{0, file.side.operations_s};
  for (const Piece& piece : pieces) times.insert(times.end(), {piece.begin_s, piece.end_s});
  std::sort(times.begin(), times.end());
  std::map<std::string, double> terms;
  std::array<std::set<std::size_t>, activity_count> under_way;  // pieces in the order in which they began
  std::set<std::pair<double, std::size_t>> ends;
  std::size_t next = 0;
  std::string phase = pieces.empty() ? "forward" : pieces.back().term;
  phase = phase.substr(0, phase.find('/'));  // of what lies behind the last
  for (std::size_t t = 0; t + 1 < times.size(); ++t) {
    for (; next < pieces.size() && pieces[next].begin_s <= times[t]; ++next) {
      under_way[pieces[next].activity].insert(next);
      ends.emplace(pieces[next].end_s, next);
    }
    for (; !ends.empty() && ends.begin()->first <= times[t]; ends.erase(ends.begin()))
      under_way[pieces[ends.begin()->second].activity].erase(ends.begin()->second);
    const double seconds = times[t + 1] - times[t];
    if (!(seconds > 0)) continue;
    const auto most = std::find_if(under_way.begin(), under_way.end(),
                                   [](const std::set<std::size_t>& some) { return !some.empty(); });
    if (most != under_way.end()) {
      terms[pieces[*most->begin()].term] += seconds;
    } else {
      const std::string& following = next < pieces.size() ? pieces[next].term : phase;
      terms[following.substr(0, following.find('/')) + "/launch"] += seconds;
    }
  }
  return terms;
}

double longest_compute_s(const ResultFile& file, std::string_view phase) {
  std::map<int, std::vector<std::pair<double, double>>> runs;  // by rank: begin, end
  for (const ResultFile::Operation& op : file.operations)
    if (computes(op.kind) && phase_of(op.id) == phase)
      runs[op.rank].emplace_back(op.start_s, op.start_s + op.seconds);
  double longest_s = 0;
  for (auto& [rank, own] : runs) {
    std::sort(own.begin(), own.end());
    double sum_s = 0, until_s = 0;
    for (const auto& [begin_s, end_s] : own) {
      sum_s += std::max(0.0, end_s - std::max(begin_s, until_s));
      until_s = std::max(until_s, end_s);
    }
    longest_s = std::max(longest_s, sum_s);
  }
  return longest_s;
}

}  // namespace cplab
