// The symbolic run of a plan: what every buffer holds, moved and joined by the operations as they happen.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "check/coverage.hpp"
#include "check/head_sets.hpp"
#include "check/model.hpp"
#include "check/pair_sets.hpp"
#include "check/regions.hpp"

namespace cplab::checking {

class Contents final : public Interpreter {
 public:
  Contents(Model&, Findings&, CheckResult&);

  void run(std::uint32_t rank, std::uint32_t operation) override;
  void transfer(std::uint32_t from_rank, std::uint32_t send_operation, const Part& send,
                std::uint32_t into_rank, std::uint32_t receive_operation, const Part& receive, bool fits,
                bool first) override;
  void all_reduce(std::span<const std::pair<std::uint32_t, std::uint32_t>> members) override;
  // After the last operation: reports incomplete outputs and computed values that nobody reads.
  void finish();
  // Some value became unknown: the result of a mistake, which must have been reported.
  bool lost_track() const { return lost_track_; }

 private:
  friend class LinearStep;  // check/linear.hpp: the operations of linear attention
  struct Write {            // by one operation into one buffer
    std::uint32_t operation = none;
    std::uint32_t buffer = none;
    bool read = false;
  };
  struct RankState {
    std::vector<std::vector<Region>> buffers;  // by buffer and slot
    std::vector<Write> writes;
    std::unordered_map<std::string, std::uint32_t> slabs;  // by name: the buffer written last
  };
  // The operation that is being interpreted, for messages and for recording who wrote what.
  struct Site {
    std::uint32_t rank = 0;
    std::uint32_t operation = 0;
  };
  // Heads [begin, end) of an operation, the same heads of every operand.
  struct Heads {
    std::int32_t begin = 0, end = 0;
  };
  struct HeadsOf {
    const Box* box;
    std::int32_t query_heads;  // for each head of the box
  };
  // sums: of queries, whose sinks count too.
  enum class Axis : std::uint8_t { queries, keys, sums };
  struct Place {  // a stretch of a segment's runs and where it begins in them
    Stretch stretch;
    std::int64_t at = 0;    // in the segment
    std::int64_t view = 0;  // in the view
  };

  // check/contents.cpp: buffers and their values.
  void hold_inputs(std::uint32_t rank);
  Region& region(std::uint32_t rank, std::uint32_t buffer, std::int32_t slot);
  std::uint32_t writer(Site, const Box&);
  void take_slab(std::uint32_t rank, std::uint32_t view);
  void mark_read(std::uint32_t rank, const Runs&);
  // The values' shifts are relative to the view: its first head and column count as 0.
  void read(std::uint32_t rank, const Box&, Heads, Runs&);
  void write(Site, const Box&, Heads, Runs&, std::uint32_t writer);
  void excuse(std::uint32_t rank, const Runs&, std::uint32_t writer);
  void write_unknown(Site, const Box&, std::uint32_t writer = none);
  void forget(Site, const Box&);  // nobody may read it afterwards
  void write_everywhere(Site, const Box&, const Value&, std::uint32_t writer);
  template <class Visit>
  void for_each_column(std::uint32_t from_rank, const Box& from, std::uint32_t into_rank, const Box& into,
                       Visit);
  std::vector<Heads> cut_heads(std::uint32_t rank, std::initializer_list<HeadsOf> operands,
                               std::int32_t heads) {
    return cut_heads(rank, std::span(operands.begin(), operands.size()), heads);
  }
  std::vector<Heads> cut_heads(std::uint32_t rank, std::span<const HeadsOf>, std::int32_t heads);

  void fill(Site, const Operation&, const Box&);
  void move(Site, std::uint32_t from_rank, const Box& from, const Box& into, bool report_nothing,
            std::uint32_t writer);
  void add(Site, std::uint32_t from_rank, const Box& from, const Box& into, bool report_nothing,
           std::uint32_t writer);
  // `head`: of the runs' first, so that its shift says which head of the tensor that is.
  Value join(Site, const Box& into, const Run& a, const Run& b, std::int32_t head);
  bool narrow() const;
  bool kept_wide(Holds) const;
  bool rounds_bias_alone(Site, const Box&, Holds) const;
  void settle(Site, const Box&, Runs&, std::uint32_t writer);
  void check_output(std::uint32_t rank, std::string_view name, Holds, std::int64_t width_begin,
                    std::int64_t width_end);
  void check_piece(Site, const Box&, const Column&, const Piece&, Holds);
  void find_leaks(std::uint32_t rank);

  // check/merge.cpp: maxima.
  Run larger(Site, std::uint32_t from_rank, const Box& from, const Box& into, const Run& a, const Run& b);
  void maximum(Site, std::uint32_t from_rank, const Box& from, const Box& into, std::uint32_t writer);
  void raise_max_logit(Site, const Operation&, Heads, const Runs& tile, std::uint32_t writer);
  const std::string& wrong_pairs(int replica, std::uint32_t pairs, Axis = Axis::queries);

  // check/parameters.cpp: what ranks hold whole, sinks and tables, and its gradients.
  bool hold_parameter(std::uint32_t rank, std::uint32_t buffer);
  const Box* optional_box(Site, const Operation&, Operand) const;  // null: the operation has none
  bool count_sink(Site, const Operation&, Heads, Runs& tile);
  bool counts_sink(std::uint32_t set) const;
  std::string twice(const char* verb, std::uint32_t a, std::uint32_t b) const;
  bool expect_table(Site, const Operation&, Heads);
  void add_table(Site, const Operation&, Heads, const Runs& tile, std::uint32_t writer);
  void add_to_parameter(Site, const Box&, Heads, const Run& more, std::uint32_t writer);
  void sink_gradient(Site);
  std::optional<std::uint32_t> tokens_of_rows(const Runs&);
  bool holds_padding(const Runs&) const;
  std::string wrong_queries(int replica, std::uint32_t set);
  // max_logit, dsink, dbias_table, gradients of weights.
  void check_whole_output(std::uint32_t rank, std::string_view name, Holds);

  // check/projections.cpp: K and V from latents, and their gradients.
  void project(Site, const Operation&);
  void project_backward(Site, const Operation&);
  void weight_gradient(Site, const Operation&);
  void count_products(Site, const Operation&, Operand rows, Operand latents, Operand of_keys, Operand values);
  bool expect_weights(Site, const Operation&, Heads);
  bool expect_gradient(Site, const Box&, const Runs&, Holds, std::int32_t head);
  bool sum_of_heads(Site, const Operation&, Heads, Runs& sum, bool first);
  void write_weights(Site, const Operation&, Operand, Heads, const Runs& gradients, std::uint32_t writer);

  // check/outputs.cpp: states wherever they are added, and at the end.
  Value join_states(Site, const Box& into, const Run& a, const Run& b);
  std::string tokens_of(std::uint32_t set) const;                   // "tokens 0..7 of sequence 2"
  std::string edge_in(std::uint32_t set, std::int64_t edge) const;  // "token 8"
  void check_linear_outputs(std::uint32_t rank);
  void check_edge_states(std::uint32_t rank, std::string_view name, Holds, bool left_edge);

  // check/attention.cpp, check/merge.cpp: operations that compute.
  double pairs_of(Site) const;
  // A gradient of keys: it covers queries.
  bool of_keys(Holds holds) const {
    return holds == Holds::dk || holds == Holds::dv || holds == Holds::dlatent || holds == Holds::drope_key ||
           (holds == Holds::dbias && model_.plan->scenario.problem.bias == BiasForm::keys);
  }
  // A sum over tokens that every rank holds whole.
  static bool of_tokens(Holds holds) {
    return holds == Holds::dsink || holds == Holds::dconv_q || holds == Holds::dconv_k ||
           holds == Holds::dconv_v;
  }
  // A sum over pairs that every rank holds whole.
  static bool of_pairs(Holds holds) {
    return holds == Holds::dtable || holds == Holds::dkey_weights || holds == Holds::dvalue_weights;
  }
  // Bias and keep mask of dynamic mask attention.
  std::pair<const Box*, const Box*> pair_masks(Site, const Operation&) const;  // bias, keep; null: absent
  bool expect_pair_mask(Site, const Operation&, Heads queries, Heads keys, const Runs& q, const Runs& k);
  void expect_columns(Site, const Operation&, const Place& query, const Place& key);
  void attend(Site, const Operation&);
  void attend_backward(Site, const Operation&);
  struct GradientWriters {
    std::uint32_t dq, dbias, dtable;
  };
  bool backward_tile(Site, const Operation&, Heads, Heads keys, Runs& dk, Runs& dv, Runs& dbias,
                     const GradientWriters&);
  std::vector<Heads> cut_key_heads(const Operation&, const std::vector<Heads>&, std::int32_t ratio) const;
  void share(const Operation&, Heads, Runs&);
  void sum_shares(Runs& sum, const Runs& more);
  void row_dot(Site);
  void merge(Site);
  bool expect(Site, const Box&, const Runs&, Holds, std::int32_t head);
  bool expect_same_rows(Site, const Box&, const Runs&, const Runs&);
  bool expect_group(Site, const Operation&, Heads, std::int32_t ratio, const Box& k, const Runs& k_runs);
  bool expect_complete_lse(Site, const Box&, const Runs& q, const Runs& lse);
  void cover_tile(Site, const Runs& q, const Runs& k);
  void tile_runs(const Runs& rows, const std::vector<Cover>&, Holds, Runs&) const;
  void pair_up(Site, const Box& out_box, const Box& lse_box, const Runs& out, const Runs& lse, bool own_norm,
               Runs&);
  void merge_into(Site, const Box& out, const Box& lse, Heads, const Runs& part, std::uint32_t out_writer,
                  std::uint32_t lse_writer);
  void store_or_add(Site, const Box&, Heads, Runs& tile, WriteMode, std::uint32_t writer);
  // Live pairs of the rows with tokens that are not in the set; sums: and rows whose sink is not in it.
  std::int64_t lacking(Axis, const Stretch&, std::uint32_t tokens) const;
  bool complete(Axis, std::int64_t id, std::int64_t count, std::uint32_t set);
  bool complete(Axis, const Run& rows, std::uint32_t set);
  // key_head: whose gradient it is, to name the query heads.
  std::string missing(Axis, std::int64_t id, std::int64_t count, std::uint32_t set,
                      std::int32_t key_head = 0) const;
  std::string missing(Axis, const Run& rows, std::uint32_t set) const;
  std::string query_heads(std::int32_t key_head, const HeadShare&) const;

  const Box& box_of(Site s, Operand operand) const {
    return model_.ranks[s.rank].operand(s.operation, operand);
  }
  WriteMode mode_of(Site s, Operand operand) const {
    const RankModel& rank = model_.ranks[s.rank];
    return rank.plan->mode_of(rank.op(s.operation), operand);
  }
  void report(Site, FindingKind, const Box&, const std::string& what);  // a box of the site's rank
  void report_peer(Site, std::uint32_t peer_rank, FindingKind, const Box&, const std::string& what);

  struct Known {
    std::int64_t id = -1, count = 0;
    std::uint32_t set = 0;
    Axis axis = Axis::queries;
    bool result = false;
  };
  void places(const Runs&, std::int64_t begin, std::int64_t count, std::vector<Place>&) const;

  Model& model_;
  Findings& findings_;
  CheckResult& result_;
  Budget budget_;
  bool lost_track_ = false;  // something became unknown
  Tokens tokens_;
  Sets sets_;
  HeadSets head_sets_;
  PairSets pairs_{sets_, budget_};
  const std::uint32_t sink_set_ = sets_.of(std::vector<Sets::Interval>{{sink_token, sink_token + 1}});
  std::vector<RankState> ranks_;
  std::vector<Known> known_;                                    // completeness, direct-mapped
  std::unordered_map<std::uint64_t, std::string> wrong_pairs_;  // by set of pairs and replica
  // Scratch of one operation.
  Runs q_, k_, v_, dout_, lse_, delta_, a_, b_, joined_, tile_, into_out_, into_lse_;
  std::vector<Rectangle> by_query_, by_key_;
  std::vector<Cover> covers_;
  std::vector<Place> q_places_, k_places_;
};

}  // namespace cplab::checking
