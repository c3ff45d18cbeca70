// Where an algorithm runs: a team, the tokens and heads of its members, and the buffers that fit them. The
// whole context-parallel group is one scope; what an outer algorithm leaves to an inner one is another.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "algorithms/core/builder.hpp"
#include "algorithms/core/distribution.hpp"

namespace cplab {

class Scope {
 public:
  explicit Scope(Builder&);  // the whole group with all heads
  // `tokens`: of the queries; every member has the same heads. `key_tokens`: of the keys, with the heads of
  // the queries that read them; where keys are of the queries' tokens, the same. Nominal buffers get that
  // layout.
  Scope(Builder&, const Team&, const Distribution& tokens, const Distribution& key_tokens, Layout);
  Scope(Builder& builder, const Team& members, const Distribution& of_both, Layout buffers)
      : Scope(builder, members, of_both, of_both, buffers) {}

  Builder& b;
  const Team& team;
  const Distribution& tokens;      // of queries, with their heads: kept by Builder::shared()
  const Distribution& key_tokens;  // of keys: `tokens`, or in cross attention others
  const Distribution& keys;        // key_tokens, with the key heads that these query heads read
  const Layout layout;
  const std::int64_t rows, key_rows;  // local rows of every member

  int P() const { return team.size(); }
  int place() const { return team.place; }
  HeadRange heads() const { return tokens[place()].heads; }
  HeadRange key_heads() const { return keys[place()].heads; }
  // The work between this member's queries and that member's keys.
  Tile tile(int key_place, Take = Take::live) const;
  Rows live_key_rows(int q_place, int key_place) const;

  // A buffer of the query heads: [slots, rows, heads, width].
  Box query_buffer(std::string_view name, Role, Category, std::int64_t slots, std::int64_t rows,
                   std::int64_t width) const;
  // K and V: [slots, rows, key heads, D + E], K in front. In a whole group a slot is one message and two
  // contiguous tensors. What a bias of keys has for each key lies behind V (Problem::key_columns).
  Box kv_buffer(std::string_view name, Role, Category, std::int64_t slots, std::int64_t rows) const;
  // A buffer of the gradients of K and V in the same form, of all key heads or of some.
  Box dkv_buffer(std::string_view name, Role, Category, std::int64_t slots, std::int64_t rows) const;
  Box dkv_buffer(std::string_view name, Role, Category, std::int64_t slots, std::int64_t rows,
                 HeadRange) const;
  // LSE or delta: wide, [slots, heads, rows].
  Box lse_buffer(std::string_view name, Category, std::int64_t slots, std::int64_t rows) const;
};

Box keys(const Builder&, const Box& kv);
Box values(const Builder&, const Box& kv);
Box behind_keys(const Builder&, const Box& kv);  // V, with what lies behind it

// The biases' column behind the gradients of V.
Box bias_gradients(const Builder&, const Box& dkv);

// Bias, keep and dbias of a tile. Where they are of keys: columns of the rows `kv` of K and V, and of `dkv`,
// their gradients, to be written as these are. Where they are of pairs: `pairs`, in the tile's query rows,
// and the columns of the key rows, which are some of those runs. Of a bias of positions those of the tile's
// rows, and the table with its gradient. What does not exist is not given.
struct PairBoxes {
  Box bias, keep, dbias;
  WriteMode dbias_mode = WriteMode::store;
  Box table = {}, dtable = {};
};
// Rows of a member, which are some of its runs.
struct RowsOfRuns {
  std::span<const TokenRun> runs;
  const Rows& rows;
};
Builder::PairMask pair_mask(const Builder&, const Box& kv, const Box& dkv, WriteMode dkv_mode,
                            const PairBoxes& pairs, const RowsOfRuns& queries, const RowsOfRuns& keys);

}  // namespace cplab
