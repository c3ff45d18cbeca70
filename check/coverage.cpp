// Tokens, live pairs and sets of tokens; see check/coverage.hpp.
#include "check/coverage.hpp"

#include <algorithm>
#include <utility>

namespace cplab::checking {
namespace {

std::int64_t ceil_of(std::int64_t a, std::int64_t b) {
  return a / b + (a % b > 0 ? 1 : 0);
}

// Differences j - i of two stretches' live pairs, before clipping.
std::pair<std::int64_t, std::int64_t> live_band(Window w, std::int64_t q_position, std::int64_t k_position,
                                                std::int64_t stride) {
  const std::int64_t apart = q_position - k_position;
  return {w.left < 0 ? -far : ceil_of(apart - w.left, stride),
          w.right < 0 ? far : floor_of(apart + w.right, stride)};
}

}  // namespace

Stretch Stretch::part(std::int64_t from, std::int64_t n) const {
  Stretch s = *this;
  s.row += from;
  s.count = n;
  s.valid = std::clamp<std::int64_t>(valid - from, 0, n);
  s.position += from * stride;
  s.token += from;
  return s;
}

namespace {

// By sequence, tokens and padding.
std::vector<std::int64_t> rows_in_pieces(const Scenario& scenario) {
  std::vector<std::int64_t> rows(scenario.problem.lengths.size(), 0);
  for (const Parallel::Piece& piece : scenario.parallel.pieces) {
    std::int64_t& end = rows[static_cast<std::size_t>(piece.sequence)];
    end = std::max(end, piece.begin + piece.count);
  }
  return rows;
}

}  // namespace

Tokens::Tokens(const Scenario& scenario)
    : kind_(scenario.placement == "zigzag"      ? Kind::zigzag
            : scenario.placement == "striped"   ? Kind::striped
            : scenario.placement == "stream"    ? Kind::stream
            : scenario.placement == "hybrid"    ? Kind::hybrid
            : !scenario.parallel.pieces.empty() ? Kind::pieces
                                                : Kind::contiguous),
      cross_(!scenario.problem.kv_lengths.empty()),
      P_(scenario.parallel.ranks),
      mask_(scenario.problem) {
  const Problem& p = scenario.problem;
  if (cross_ && p.align == Diagonal::bottom_right)
    for (std::size_t b = 0; b < p.lengths.size(); ++b) first_at_.push_back(p.kv_lengths[b] - p.lengths[b]);
  std::int64_t id = 0, token = 0;
  lay_side(scenario, Side::queries, id, token);
  if (cross_) lay_side(scenario, Side::keys, id, token);
}

void Tokens::lay_side(const Scenario& scenario, Side side, std::int64_t& id, std::int64_t& token) {
  const Problem& p = scenario.problem;
  const bool keys = side == Side::keys;
  const std::vector<std::int64_t>&lengths = keys ? p.kv_lengths : p.lengths,
        &padded_lengths = keys ? p.kv_padded_lengths : p.padded_lengths;
  const Kind kind = keys && scenario.parallel.keys_everywhere ? Kind::everywhere : kind_;
  const auto cut = [&](std::size_t b) { return kind == Kind::hybrid && scenario.parallel.homes[b] < 0; };
  const std::vector<std::int64_t> pieces =
      kind == Kind::pieces ? rows_in_pieces(scenario) : std::vector<std::int64_t>();
  const std::int64_t replicas = scenario.parallel.replicas;
  const std::size_t places_before = place_.size(), replicas_before = replicas_.size();
  place_.resize(places_before + lengths.size());
  for (std::int64_t replica = 0; replica < replicas; ++replica) {
    Replica r;
    r.side = side;
    r.kind = kind;
    r.first_id = id;
    for (std::size_t b = static_cast<std::size_t>(replica); b < lengths.size();
         b += static_cast<std::size_t>(replicas)) {
      const bool whole =
          kind == Kind::stream || kind == Kind::hybrid || kind == Kind::pieces || kind == Kind::everywhere;
      const std::int64_t unit = kind == Kind::zigzag || cut(b) ? 2 * P_ : whole ? 1 : P_;
      const std::int64_t padded =
          kind == Kind::pieces ? pieces[b] : (padded_lengths[b] + unit - 1) / unit * unit;
      if (padded == 0) continue;
      const auto number = static_cast<std::uint32_t>(b);
      const std::int64_t local = kind == Kind::stream ? 0 : unit == 1 && whole ? padded : padded / P_;
      place_[places_before + b] = {
          static_cast<std::uint32_t>(replicas_before + static_cast<std::size_t>(replica)),
          static_cast<std::uint32_t>(r.sequences.size())};
      r.sequences.push_back({lengths[b], local, r.rows, token, padded, number});
      first_.push_back({token, number, side});
      r.rows += kind == Kind::stream ? padded : local;
      token += padded;
    }
    if (kind == Kind::stream && !r.sequences.empty()) {
      const std::int64_t more = (P_ - r.rows % P_) % P_;
      r.sequences.back().rows += more;
      token += more;
      r.rows = (r.rows + more) / P_;
    }
    if (kind == Kind::hybrid) token += lay_hybrid(scenario.parallel, r);
    if (kind == Kind::pieces) token += lay_pieces(scenario.parallel, r);
    id += kind == Kind::everywhere ? r.rows : r.rows * P_;
    replicas_.push_back(std::move(r));
  }
}

// Where each rank's sequences begin; returns how many rows of padding the last of them gets.
std::int64_t Tokens::lay_hybrid(const Parallel& parallel, Replica& r) const {
  r.held.resize(static_cast<std::size_t>(P_));
  std::vector<std::int64_t> rows(static_cast<std::size_t>(P_), 0);
  const auto hold = [&](std::size_t p, std::uint32_t index, bool cut) {
    r.held[p].push_back({rows[p], index, 0, cut});
    rows[p] += r.sequences[index].local_rows;
  };
  for (std::uint32_t index = 0; index < r.sequences.size(); ++index) {
    const int home = parallel.homes[r.sequences[index].number];
    if (home >= 0) hold(static_cast<std::size_t>(home), index, false);
    for (std::size_t p = 0; home < 0 && p < rows.size(); ++p) hold(p, index, true);
  }
  return fill_up(r, rows);
}

std::int64_t Tokens::lay_pieces(const Parallel& parallel, Replica& r) const {
  r.held.resize(static_cast<std::size_t>(P_));
  std::vector<std::int64_t> rows(static_cast<std::size_t>(P_), 0);
  for (const Parallel::Piece& piece : parallel.pieces) {
    const auto at = std::ranges::lower_bound(r.sequences, piece.sequence, {}, &Sequence::number);
    if (at == r.sequences.end() || at->number != piece.sequence) continue;  // of another replica
    const auto p = static_cast<std::size_t>(piece.position);
    r.held[p].push_back({rows[p], static_cast<std::uint32_t>(at - r.sequences.begin()), piece.begin, false});
    rows[p] += piece.count;
  }
  return fill_up(r, rows);
}

// Gives every rank as many rows as the fullest has; returns how many these are.
std::int64_t Tokens::fill_up(Replica& r, const std::vector<std::int64_t>& rows) const {
  r.rows = *std::max_element(rows.begin(), rows.end());
  std::int64_t added = 0;
  for (std::size_t p = 0; p < rows.size(); ++p) {
    if (rows[p] == r.rows) continue;
    const auto last = static_cast<std::uint32_t>(r.sequences.size() - 1);
    r.held[p].push_back({rows[p], last, r.sequences[last].rows + added, false});
    added += r.rows - rows[p];
  }
  if (added > 0) r.sequences.back().rows += added;
  return added;
}

std::int64_t Tokens::first_row(int replica, int position, Side side) const {
  const Replica& r = replicas_[index(replica, side)];
  return r.kind == Kind::everywhere ? r.first_id : r.first_id + r.rows * position;
}

Tokens::Origin Tokens::origin_of(std::uint32_t number, Side side) const {
  const Sequence* const s = sequence(number, side);
  return {number, s->first_token, s->length};
}

Tokens::Origin Tokens::origin(std::int64_t token) const {
  const auto after =
      std::partition_point(first_.begin(), first_.end(), [&](const First& s) { return s.token <= token; });
  return origin_of((after - 1)->sequence, (after - 1)->side);
}

const Tokens::Place& Tokens::place(std::uint32_t number, Side side) const {
  return place_[number + (cross_ && side == Side::keys ? place_.size() / 2 : 0)];
}

const Tokens::Sequence* Tokens::sequence(std::uint32_t number, Side side) const {
  const Place& at = place(number, side);
  return at.index == none ? nullptr : &replicas_[at.replica].sequences[at.index];
}

Stretch Tokens::at(std::int64_t id) const {
  auto replica = replicas_.begin();
  if (replicas_.size() > 1)
    replica = std::partition_point(replicas_.begin() + 1, replicas_.end(),
                                   [&](const Replica& r) { return r.first_id <= id; }) -
              1;
  while (replica->rows == 0) --replica;  // without rows: begins at the same id
  const std::int64_t position = (id - replica->first_id) / replica->rows,
                     local = (id - replica->first_id) % replica->rows;
  const Kind kind = replica->kind;
  if (kind == Kind::hybrid || kind == Kind::pieces) return at_held(*replica, id, position, local);
  const std::int64_t row = kind == Kind::stream ? id - replica->first_id : local;
  auto s = replica->sequences.begin();
  if (replica->sequences.size() > 1)
    s = std::partition_point(s + 1, replica->sequences.end(),
                             [&](const Sequence& q) { return q.first_row <= row; }) -
        1;
  const std::int64_t i = row - s->first_row, n = s->local_rows;
  Stretch stretch;
  stretch.row = id;
  stretch.side = replica->side;
  stretch.sequence = s->number;
  if (kind == Kind::stream) {
    stretch.count = std::min(s->rows - i, replica->rows - local);
    stretch.position = i;
    stretch.token = s->first_token + i;
  } else if (kind == Kind::striped) {
    stretch.count = n - i;
    stretch.position = position + i * P_;
    stretch.stride = P_;
    stretch.token = s->first_token + position * n + i;
  } else {
    if (kind == Kind::zigzag)
      zigzag_from(stretch, position, i, n);
    else
      stretch.count = n - i, stretch.position = position * n + i;
    stretch.token = s->first_token + stretch.position;
  }
  stretch.valid =
      std::clamp<std::int64_t>(ceil_of(s->length - stretch.position, stretch.stride), 0, stretch.count);
  return stretch;
}

void Tokens::zigzag_from(Stretch& stretch, std::int64_t position, std::int64_t i, std::int64_t n) const {
  const std::int64_t chunk = n / 2;
  const bool second = i >= chunk;
  stretch.count = second ? n - i : chunk - i;
  stretch.position = second ? (2 * P_ - 1 - position) * chunk + (i - chunk) : position * chunk + i;
}

Stretch Tokens::at_held(const Replica& replica, std::int64_t id, std::int64_t position,
                        std::int64_t row) const {
  const std::vector<Held>& held = replica.held[static_cast<std::size_t>(position)];
  const auto after =
      std::partition_point(held.begin(), held.end(), [&](const Held& h) { return h.first_row <= row; });
  const Held& here = *(after - 1);
  const Sequence& s = replica.sequences[here.index];
  Stretch stretch;
  stretch.side = replica.side;
  stretch.row = id;
  stretch.sequence = s.number;
  if (here.cut) {
    zigzag_from(stretch, position, row - here.first_row, s.local_rows);
  } else {
    stretch.count = (after == held.end() ? replica.rows : after->first_row) - row;
    stretch.position = here.from + row - here.first_row;
  }
  stretch.token = s.first_token + stretch.position;
  stretch.valid = std::clamp<std::int64_t>(s.length - stretch.position, 0, stretch.count);
  return stretch;
}

std::int64_t pairs_in_band(std::int64_t rows, std::int64_t columns, std::int64_t low, std::int64_t high) {
  low = std::max(low, -(rows - 1));
  high = std::min(high, columns - 1);
  if (rows <= 0 || columns <= 0 || low > high) return 0;
  // Pairs with j - i <= h, for -rows <= h < columns: sum over i of clamp(i + h + 1, 0, columns).
  const auto below = [&](std::int64_t h) {
    const std::int64_t first = std::max<std::int64_t>(0, -h);                          // first row with any
    const std::int64_t full = std::clamp<std::int64_t>(columns - 1 - h, first, rows);  // first row with all
    const std::int64_t n = full - first, ends = (first + h + 1) + (full + h);          // an arithmetic series
    return (n % 2 == 0 ? n / 2 * ends : ends / 2 * n) + (rows - full) * columns;
  };
  return below(high) - below(low - 1);
}

// The first of the rows is at `position` among the keys. Tokens [begin, end) are of the rows' sequence, of
// that side.
std::int64_t Tokens::live_between(const Stretch& rows, std::int64_t position, Side side, std::int64_t begin,
                                  std::int64_t end) const {
  const Sequence* const s = sequence(rows.sequence, side);
  if (s == nullptr) return 0;
  const std::int64_t first_at = side == Side::queries ? this->first_at(rows.sequence) : 0;
  std::int64_t sum = 0;
  const auto add = [&](std::int64_t at, std::int64_t count) {
    count = std::min(count, ceil_of(s->length - at, rows.stride));
    const Line of_rows{position, rows.stride, rows.valid}, of_tokens{first_at + at, rows.stride, count};
    if (!mask_.is_window()) {
      sum += side == Side::keys ? mask_.count(rows.sequence, of_rows, of_tokens, -far, far)
                                : mask_.count(rows.sequence, of_tokens, of_rows, -far, far);
      return;
    }
    const Window w = side == Side::keys ? mask_.window() : Window{mask_.window().right, mask_.window().left};
    const auto [low, high] = live_band(w, position, first_at + at, rows.stride);
    sum += pairs_in_band(rows.valid, count, low, high);
  };
  begin = std::max<std::int64_t>(begin - s->first_token, 0);
  end = std::min(end - s->first_token, s->rows);
  if (begin >= end) return 0;
  if (replica_of(rows.sequence, side).kind != Kind::striped) {
    add(begin, end - begin);
    return sum;
  }
  while (begin < end) {  // stripe by stripe
    const std::int64_t stripe = begin / s->local_rows, stop = std::min(end, (stripe + 1) * s->local_rows);
    add(stripe + (begin - stripe * s->local_rows) * P_, stop - begin);
    begin = stop;
  }
  return sum;
}

std::int64_t Tokens::live_with_keys(const Stretch& queries, std::int64_t begin, std::int64_t end) const {
  return live_between(queries, among_keys(queries), Side::keys, begin, end);
}
std::int64_t Tokens::live_with_queries(const Stretch& keys, std::int64_t begin, std::int64_t end) const {
  return live_between(keys, keys.position, Side::queries, begin, end);
}
std::int64_t Tokens::live_of_queries(const Stretch& queries) const {
  const Sequence* const s = sequence(queries.sequence, Side::keys);
  return s ? live_with_keys(queries, s->first_token, s->first_token + s->rows) : 0;
}
std::int64_t Tokens::live_of_keys(const Stretch& keys) const {
  const Sequence* const s = sequence(keys.sequence, Side::queries);
  return s ? live_with_queries(keys, s->first_token, s->first_token + s->rows) : 0;
}

std::string Tokens::describe(const Stretch& s) const {
  std::string text = s.count == 1 ? "token " + std::to_string(s.position)
                                  : "tokens " + std::to_string(s.position) + ".." +
                                        std::to_string(s.position + (s.count - 1) * s.stride);
  if (s.stride > 1 && s.count > 1) text += " in steps of " + std::to_string(s.stride);
  return text + " of sequence " + std::to_string(s.sequence);
}

Pairs compare_band(const Tokens& tokens, const Segment& segment, const Stretch& q, std::int64_t i0,
                   const Stretch& k, std::int64_t j0, bool& live) {
  live = false;
  if (q.valid < q.count || k.valid < k.count) return Pairs::padding;
  const std::int64_t least = -(q.count - 1), greatest = k.count - 1, shift = i0 - j0 + segment.offset;
  const std::int64_t low = segment.left < 0 ? least : std::max(least, shift - segment.left);
  const std::int64_t high = segment.right < 0 ? greatest : std::min(greatest, shift + segment.right);
  live = low <= high;
  if (q.sequence != k.sequence) return live ? Pairs::foreign : Pairs::right;
  const LiveMask& mask = tokens.mask();
  if (!mask.is_window()) {
    const Line queries{tokens.among_keys(q), q.stride, q.count}, keys{k.position, k.stride, k.count};
    const std::int64_t right = mask.count(q.sequence, queries, keys, low, high);
    if (right < pairs_in_band(q.count, k.count, low, high)) return Pairs::dead;
    return right == mask.count(q.sequence, queries, keys, -far, far) ? Pairs::right : Pairs::left_out;
  }
  auto [want_low, want_high] = live_band(mask.window(), tokens.among_keys(q), k.position, q.stride);
  want_low = std::max(want_low, least);
  want_high = std::min(want_high, greatest);
  if (want_low > want_high) return live ? Pairs::dead : Pairs::right;
  if (!live) return Pairs::left_out;
  if (low < want_low || high > want_high) return Pairs::dead;
  return low == want_low && high == want_high ? Pairs::right : Pairs::left_out;
}

// ---- sets ---------------------------------------------------------------------------------------

Sets::Sets() : table_(1024, none), joins_(4096) {
  spans_.push_back({});
  hashes_.push_back(0);
}

std::span<const Sets::Interval> Sets::operator[](std::uint32_t id) const {
  return {pool_.data() + spans_[id].first, spans_[id].count};
}

std::uint32_t Sets::of(std::span<const Interval> sorted) {
  if (sorted.empty()) return 0;
  std::uint64_t hash = sorted.size();
  for (const Interval& i : sorted) {
    for (const std::int64_t word : {i.begin, i.end}) {
      hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 32;
    }
  }
  const std::size_t mask = table_.size() - 1;
  std::size_t at = hash & mask;
  for (; table_[at] != none; at = (at + 1) & mask) {
    const std::uint32_t id = table_[at];
    if (hashes_[id] == hash && std::ranges::equal((*this)[id], sorted)) return id;
  }
  const auto id = static_cast<std::uint32_t>(spans_.size());
  spans_.push_back({static_cast<std::uint32_t>(pool_.size()), static_cast<std::uint32_t>(sorted.size())});
  hashes_.push_back(hash);
  pool_.insert(pool_.end(), sorted.begin(), sorted.end());
  table_[at] = id;
  if (spans_.size() * 2 > table_.size()) grow();
  return id;
}

void Sets::grow() {
  table_.assign(table_.size() * 2, none);
  const std::size_t mask = table_.size() - 1;
  for (std::uint32_t id = 1; id < spans_.size(); ++id) {
    std::size_t at = hashes_[id] & mask;
    while (table_[at] != none) at = (at + 1) & mask;
    table_[at] = id;
  }
}

std::optional<std::uint32_t> Sets::join(std::uint32_t a, std::uint32_t b) {
  if (a == 0) return b;
  if (b == 0) return a;
  Known& known = joins_[(a * 2654435761u ^ b * 40503u) % joins_.size()];
  if (known.a == a && known.b == b) return known.result;
  scratch_.clear();
  const std::span<const Interval> x = (*this)[a], y = (*this)[b];
  for (std::size_t i = 0, j = 0; i < x.size() || j < y.size();) {
    const bool from_x = j == y.size() || (i < x.size() && x[i].begin < y[j].begin);
    const Interval next = from_x ? x[i++] : y[j++];
    if (!scratch_.empty() && scratch_.back().end > next.begin) return std::nullopt;
    if (!scratch_.empty() && scratch_.back().end == next.begin)
      scratch_.back().end = next.end;
    else
      scratch_.push_back(next);
  }
  const std::uint32_t result = of(scratch_);
  known = {a, b, result};
  return result;
}

}  // namespace cplab::checking
