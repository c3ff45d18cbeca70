// Where an algorithm runs: a team, the tokens and heads of its members, and the buffers that fit them. The
// whole context-parallel group is one scope; what an outer algorithm leaves to an inner one is another.
#pragma once

#include <cstdint>
#include <string_view>

#include "algorithms/builder.hpp"
#include "algorithms/distribution.hpp"

namespace cplab {

class Scope {
 public:
  explicit Scope(Builder&);  // the whole group with all heads
  // `tokens`: of the queries; every member has the same heads. Nominal buffers get that layout.
  Scope(Builder&, const Team&, Distribution tokens, Layout);

  Builder& b;
  const Team& team;
  const Distribution tokens;  // of queries, with their heads
  const Distribution keys;    // the same tokens, with the key heads that these query heads read
  const Layout layout;
  const std::int64_t rows;  // local rows of every member

  int P() const { return team.size(); }
  int place() const { return team.place; }
  HeadRange heads() const { return tokens[place()].heads; }
  HeadRange key_heads() const { return keys[place()].heads; }
  // The work between this member's queries and that member's keys.
  Tile tile(int key_place, Take = Take::live) const;
  Rows live_key_rows(int q_place, int key_place) const;

  // Of the query heads, [slots, rows, heads, width].
  Box query_buffer(std::string_view name, Role, Category, std::int64_t slots, std::int64_t rows,
                   std::int64_t width) const;
  // K and V, or their gradients: [slots, rows, key heads, D + E], K in front. In a whole group a slot is one
  // message and two contiguous tensors.
  Box kv_buffer(std::string_view name, Role, Category, std::int64_t slots, std::int64_t rows) const;
  // The same of some heads only.
  Box kv_buffer(std::string_view name, Role, Category, std::int64_t slots, std::int64_t rows,
                HeadRange) const;
  // LSE or delta: wide, [slots, heads, rows].
  Box lse_buffer(std::string_view name, Category, std::int64_t slots, std::int64_t rows) const;
};

Box keys(const Builder&, const Box& kv);
Box values(const Builder&, const Box& kv);

}  // namespace cplab
