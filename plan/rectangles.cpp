// See rectangles.hpp; Problem::rectangles_of.
#include "plan/rectangles.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace cplab {
namespace {

constexpr std::int64_t most_rectangles = std::int64_t{1} << 20;

std::string text_of(const MaskRectangle& r) {
  std::string text = "[";
  for (const std::int64_t edge : {r.q_begin, r.q_end, r.k_begin, r.k_end})
    text += std::to_string(edge) + ", ";
  return text + "\"" + std::string(name(r.form)) + "\"]";
}

std::string text_of(const std::pair<std::int64_t, std::int64_t>& group) {
  return "[" + std::to_string(group.first) + ", " + std::to_string(group.second) + "]";
}

// Where sequences begin in the rows that groups and rectangles count: all at 0 unless they are packed.
std::vector<std::int64_t> begins(const Problem& p, Side side) {
  const std::vector<std::int64_t>& padded = p.padded_lengths_of(side);
  std::vector<std::int64_t> first(padded.size(), 0);
  for (std::size_t b = 1; b < padded.size() && p.packed; ++b) first[b] = first[b - 1] + padded[b - 1];
  return first;
}

// The sequence that has tokens [begin, end) of one side; their number if none has. Of dense ones the first.
std::size_t sequence_of(const std::vector<std::int64_t>& first, const std::vector<std::int64_t>& lengths,
                        std::int64_t begin, std::int64_t end) {
  const auto after = std::ranges::upper_bound(first, begin);
  if (after == first.begin()) return lengths.size();
  const bool dense = first.back() == 0;  // or the only one that has rows
  for (std::size_t b = dense ? 0 : static_cast<std::size_t>(after - first.begin()) - 1;; ++b) {
    const bool inside = b < lengths.size() && begin < end && end - first[b] <= lengths[b];
    if (inside || !dense || b + 1 >= lengths.size()) return inside ? b : lengths.size();
  }
}

// The sequences of the queries and of the keys of rectangles.
class Sequences {
 public:
  explicit Sequences(const Problem& p)
      : p_(p), queries_(begins(p, Side::queries)), keys_(begins(p, Side::keys)) {}

  std::size_t none() const { return p_.lengths.size(); }
  // That has all of it.
  std::size_t of(const MaskRectangle& r) const {
    if (r.q_begin < 0 || r.k_begin < 0) return none();
    const std::size_t b = sequence_of(queries_, p_.lengths, r.q_begin, r.q_end);
    return b == sequence_of(keys_, p_.lengths_of(Side::keys), r.k_begin, r.k_end) ? b : none();
  }
  MaskRectangle within(const MaskRectangle& r, std::size_t b) const {
    return {r.q_begin - queries_[b], r.q_end - queries_[b], r.k_begin - keys_[b], r.k_end - keys_[b], r.form};
  }

 private:
  const Problem& p_;
  std::vector<std::int64_t> queries_, keys_;
};

// Of k - q.
std::int64_t low_of(const MaskRectangle& r) {
  return r.form == MaskRectangle::Form::inverse_causal ? r.k_begin - r.q_begin : r.k_begin - r.q_end + 1;
}
std::int64_t high_of(const MaskRectangle& r) {
  return r.form == MaskRectangle::Form::causal ? r.k_end - r.q_end : r.k_end - 1 - r.q_begin;
}

bool share_a_pair(const MaskRectangle& a, const MaskRectangle& b) {
  const std::int64_t q_begin = std::max(a.q_begin, b.q_begin), q_end = std::min(a.q_end, b.q_end),
                     k_begin = std::max(a.k_begin, b.k_begin), k_end = std::min(a.k_end, b.k_end);
  if (q_begin >= q_end || k_begin >= k_end) return false;
  return std::max({low_of(a), low_of(b), k_begin - q_end + 1}) <=
         std::min({high_of(a), high_of(b), k_end - 1 - q_begin});
}

// A rectangle, and what it is called in messages.
struct Named {
  MaskRectangle rectangle;
  const char* key;
  std::string text;
};

void require_inside(const Problem& p, const Sequences& sequences, const Named& named) {
  const MaskRectangle& r = named.rectangle;
  if (r.q_begin >= r.q_end || r.k_begin >= r.k_end)
    throw ScenarioError(named.key, named.text + " is empty; legal: begins below its ends");
  if (sequences.of(r) != sequences.none()) return;
  const auto first = [&](Side side) {
    return std::to_string(p.lengths.empty() ? 0 : p.lengths_of(side).front());
  };
  throw ScenarioError(
      named.key, named.text + (p.packed ? " does not lie within the tokens of one sequence; legal: rows "
                                          "of the packed tensors, within one of problem.lengths"
                                        : " does not lie within a sequence; legal: queries 0 to " +
                                              first(Side::queries) + ", keys 0 to " + first(Side::keys)));
}

void require_apart(std::vector<Named> all) {
  std::ranges::stable_sort(all, {}, [](const Named& each) { return each.rectangle.q_begin; });
  std::vector<const Named*> open;
  for (const Named& next : all) {
    std::erase_if(open, [&](const Named* other) { return other->rectangle.q_end <= next.rectangle.q_begin; });
    for (const Named* other : open)
      if (share_a_pair(other->rectangle, next.rectangle))
        throw ScenarioError(next.key,
                            next.text + " and " + other->text +
                                " share a pair of query and key; legal: rectangles and groups that do "
                                "not overlap (they may overlap mask, window and prefix)");
    open.push_back(&next);
  }
}

void require_softmax(const Problem& p) {
  const char* key = p.only_rectangles       ? "problem.mask"
                    : p.chunk != 0          ? "problem.chunk"
                    : p.prefix != 0         ? "problem.prefix"
                    : !p.groups.empty()     ? "problem.groups"
                    : !p.rectangles.empty() ? "problem.mask_rectangles"
                                            : nullptr;
  if (key && p.attention != Attention::softmax)
    throw ScenarioError(key, "only attention = \"softmax\" has masks beside mask and window");
}

void require_logits_beside(const Problem& p) {
  if (p.adds_pairs() && p.bias == BiasForm::buckets)
    throw ScenarioError("problem.bias",
                        "buckets follow from mask and window; legal beside prefix, groups and "
                        "mask_rectangles: \"none\", \"alibi\", \"full\", \"keys\"");
}

MaskRectangle of_group(const std::pair<std::int64_t, std::int64_t>& group) {
  return {group.first, group.second, group.first, group.second, MaskRectangle::Form::full};
}

}  // namespace

void require_rectangles(const Problem& p) {
  require_softmax(p);
  require_logits_beside(p);
  for (const auto& [key, count] :
       {std::pair("problem.chunk", p.chunk), std::pair("problem.prefix", p.prefix)})
    if (count < 0 || count > limits::tokens)
      throw ScenarioError(key, std::to_string(count) + " is not legal; legal: 0 to " +
                                   std::to_string(limits::tokens) + ", 0 is none");
  if (p.is_cross() && !p.groups.empty())
    throw ScenarioError("problem.groups",
                        "keys of their own are no tokens that could see each other; legal with them: "
                        "problem.mask_rectangles");
  if (std::ssize(p.groups) + std::ssize(p.rectangles) > most_rectangles)
    throw ScenarioError("problem.mask_rectangles",
                        "more than " + std::to_string(most_rectangles) + " rectangles");
  std::vector<Named> all;
  for (const auto& group : p.groups)
    all.push_back({of_group(group), "problem.groups", "group " + text_of(group)});
  for (const MaskRectangle& r : p.rectangles)
    all.push_back({r, "problem.mask_rectangles", "rectangle " + text_of(r)});
  const Sequences sequences(p);
  for (const Named& each : all) require_inside(p, sequences, each);
  require_apart(std::move(all));
}

std::vector<MaskRectangle> Problem::rectangles_of(std::size_t b) const {
  const std::int64_t queries = lengths[b], keys = lengths_of(Side::keys)[b];
  std::vector<MaskRectangle> all;
  const std::int64_t seen_by_all = std::min(prefix, keys);
  if (seen_by_all > 0 && queries > 0) all.push_back({0, queries, 0, seen_by_all, MaskRectangle::Form::full});
  if (groups.empty() && rectangles.empty()) return all;
  const Sequences sequences(*this);
  const auto add = [&](const MaskRectangle& r) {
    if (!packed || sequences.of(r) == b) all.push_back(sequences.within(r, b));
  };
  for (const auto& group : groups) add(of_group(group));
  for (const MaskRectangle& r : rectangles) add(r);
  return all;
}

}  // namespace cplab
