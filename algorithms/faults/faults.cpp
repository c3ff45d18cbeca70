// The table of faults: which bug, where it shipped, how it shows. The mutations are in faults_*.cpp.
#include "algorithms/faults/faults.hpp"

#include <array>

#include "algorithms/faults/mutations.hpp"

namespace cplab {
namespace {

void nothing(Plan&) {}

const std::vector<std::string_view> both{"cpu", "gpu"}, cpu{"cpu"};

ExpectedFinding expect(FindingKind kind, int rank = -1, std::string operation = {}) {
  return {kind, rank, std::move(operation)};
}

}  // namespace

std::string_view name(FaultForm form) {
  constexpr std::array<std::string_view, 3> names{"mutation", "substitute", "identity"};
  return names.at(static_cast<std::size_t>(form));
}

std::span<const Fault> faults() {
  using enum FaultForm;
  using enum FindingKind;
  using namespace mutations;
  static const std::vector<Fault> all{
      {"identity", identity, "nothing is changed: must be found right", "faults/ring.toml", both,
       std::nullopt, nothing},
      {"ring-slot-reuse", mutation, "a receive does not wait until the tile has read the slot it overwrites",
       "faults/ring.toml", both, expect(race, 0, "0/forward/4"), ring_slot_reuse},
      {"stale-kv", mutation, "a backward tile reads the K, V slot of the step before (Automodel#3157)",
       "faults/ring.toml", both, expect(coverage, 1, "1/backward/4"), stale_kv},
      {"drop-wait", mutation, "a tile does not wait for the K, V it reads", "faults/ring.toml", both,
       expect(race, 2, "2/forward/3"), drop_wait},
      {"unordered-exchange", mutation, "every rank sends first and receives then, none in one group (ZZ#39)",
       "faults/ring.toml", both, expect(deadlock, 0, "0/forward/0"), unordered_exchange},
      {"dropped-receive", mutation,
       "a rank sends on and never posts the receive of its neighbour's message (NCCL waits for ever)",
       "faults/ring.toml", both, expect(unmatched, 0, "0/forward/0"), dropped_receive},
      {"upper-half-overwrite", mutation, "the merge of an upper tile goes to the first half of the queries",
       "faults/ring.toml", both, expect(coverage, 0, "0/forward/6"), upper_half_overwrite},
      {"skip-tile", mutation, "one tile is left out", "faults/ring.toml", both, expect(coverage, 1),
       skip_tile},
      {"double-tile", mutation, "one tile is attended and merged twice", "faults/ring.toml", both,
       expect(coverage, 1, "1/forward/8"), double_tile},
      {"thd-even-split", mutation,
       "valid tokens per chunk taken as length / (2P), wrong where 2P does not divide it (TE#3331, TE#1930)",
       "faults/packed-odd.toml", both, expect(coverage, 0, "0/forward/1"), thd_even_split},
      {"last-token-dropped", mutation, "lengths taken as a multiple of P: 7 tokens count as 6 (TE#1930)",
       "faults/last-token.toml", both, expect(coverage, 0, "0/backward/0"), last_token_dropped},
      {"dead-padding-nan", mutation,
       "a chunk of nothing but padding is attended like tokens: NaN in dK, dV (TE#2186)",
       "faults/dead-padding.toml", both, expect(coverage, 0, "0/forward/1"), dead_padding_nan},
      {"cu-seqlens-cache-by-shape", mutation, "the lengths of another batch of the same shape, from a cache",
       "faults/packed-gather.toml", both, expect(coverage, 0, "0/forward/2"), cu_seqlens_cache_by_shape},
      {"no-visible-clamp", mutation,
       "keys up to the end of a chunk, not of its sequence: padding is attended", "faults/packed-gather.toml",
       both, expect(coverage, 0, "0/forward/2"), no_visible_clamp},
      {"window-one-shift", mutation,
       "a window's shift is that of the longest sequence for all of them (TransformerEngine PR 2829)",
       "faults/window.toml", both, expect(coverage, 0, "0/forward/1"), window_one_shift},
      {"reorder-by-valid-offsets", mutation,
       "gathered sequences are laid out by their lengths without padding", "faults/packed-gather.toml", both,
       expect(coverage, 0, "0/forward/1"), reorder_by_valid_offsets},
      {"gather-missing-wait", mutation,
       "tiles on the second lane do not wait for gathered K, V: showed at P = 8 only",
       "faults/all-gather.toml", both, expect(race, 0, "0/forward/2"), gather_missing_wait},
      {"gather-reuse", mutation, "a gather does not wait for the tile that reads the slot",
       "faults/head-strided.toml", both, expect(race, 0, "0/forward/5"), gather_reuse},
      {"batched-gather-layout", mutation,
       "gathered rank by rank, read sequence by sequence: right for one sequence only",
       "faults/head-strided.toml", both, expect(coverage, 0, "0/forward/4"), batched_gather_layout},
      {"batched-scatter-layout", mutation,
       "gradients are staged sequence by sequence, scattered rank by rank", "faults/head-strided.toml", both,
       expect(coverage, 0), batched_scatter_layout},
      {"issue-before-drain", mutation, "a reduce_scatter is issued while the one before has not been drained",
       "faults/head-strided.toml", both, expect(race, 0, "0/backward/13"), issue_before_drain},
      {"head-slice-wrong-dim", mutation,
       "the LSE is not cut along heads: every stride reads that of the first heads",
       "faults/head-strided.toml", both, expect(coverage, 0, "0/backward/11"), head_slice_wrong_dim},
      {"replicated-double-count", mutation,
       "the gradient of a key head that several ranks hold is added twice (verl#1226)",
       "faults/replicated.toml", both, expect(coverage, 0, "0/backward/9"), replicated_double_count},
      {"hierarchical-level-missing", mutation,
       "the ring across teams is left out, without a word (Megatron-Bridge#2665)", "faults/hierarchical.toml",
       both, expect(coverage, 0, "0/backward/0"), hierarchical_level_missing},
      {"communicator-order", mutation,
       "operations of two groups, in one order on some ranks, in the other on others (NCCL waits for ever)",
       "faults/hierarchical.toml", both, expect(order, 0, "0/backward/2"), communicator_order},
      {"sink-on-every-tile", mutation,
       "every tile counts the sink, not one for each row: a kernel with sinks called as without context "
       "parallelism (TE: sinks with a2a alone)",
       "faults/sink.toml", both, expect(coverage, 0, "0/forward/6"), sink_on_every_tile},
      {"sink-gradient-of-rank", mutation,
       "the gradient of the sinks stays that of a rank's own queries: nobody sums it over the group",
       "faults/sink.toml", both, expect(coverage, 0), sink_gradient_of_rank},
      {"naive-merge", substitute,
       "lse = a + log(1 + exp(b - a)) overflows for b - a > 88 in fp32 (EasyContext#14)",
       "faults/large-logits.toml", cpu, expect(numerics), nullptr},
      {"nominal-accumulator", substitute, "the running out is rounded to bf16 at every merge (TE#2916)",
       "faults/many-merges.toml", cpu, expect(numerics), nullptr},
      {"maxlogit-zero-offset", substitute,
       "max_logit counts rows from 0 where the valid ones begin at an offset: some are missed",
       "faults/max-logit.toml", cpu, expect(numerics), nullptr},
      {"no-zero-fill", substitute,
       "a backward tile leaves rows of dK, dV alone that no query sees, where it has to store 0",
       "faults/gaps.toml", cpu, expect(numerics), nullptr},
      {"decay-division", substitute,
       "states before a chunk as exp(slope * length) (what is up to its end - its own): inf * 0 for slope * "
       "length > 88.7 in fp32 (LASP)",
       "faults/decay-division.toml", cpu, expect(numerics, 0), nullptr},
      {"exclusive-without-undecay", substitute,
       "states before a chunk as what is up to its end - its own, which is decayed by the chunk (LASP)",
       "faults/exclusive-without-undecay.toml", cpu, expect(numerics, 0), nullptr},
      {"suffix-shift-left", mutation,
       "the backward's shift goes the forward's way: rank i receives from i - 1 (LASP)", "faults/scan.toml",
       both, expect(coverage, 0), suffix_shift_left},
      {"published-down-sweep", mutation,
       "the down-sweep sends from partials that are no prefix: wrong from P = 8 on (LASP)",
       "faults/scan.toml", both, expect(coverage, 7), published_down_sweep},
      {"blocking-shift", mutation,
       "the shift receives and only then sends: right, in P - 1 rounds where one would do (LASP)",
       "faults/scan.toml", both, std::nullopt, blocking_shift},
      {"left-edge-partner", mutation,
       "the up-sweep takes the left edge of the left subtree, not its right one (LASP)", "faults/scan.toml",
       both, expect(coverage, 3), left_edge_partner},
      {"swapped-states", mutation,
       "the backward takes states of keys for those of queries and the other way round (LASP)",
       "faults/scan.toml", both, expect(coverage, 1), swapped_states},
      {"inclusive-prefix", mutation, "the scan is not shifted: a rank's own tokens enter it (LASP)",
       "faults/scan.toml", both, expect(coverage, 1), inclusive_prefix},
      {"local-rank-as-global", mutation,
       "positions in a group are taken for global ranks: right for one group only (LASP)",
       "faults/replicas.toml", both, expect(unmatched), local_rank_as_global},
      {"uninitialised-state", mutation, "nobody zeroes the state where nothing enters (LASP)",
       "faults/lasp-cache.toml", both, expect(uninitialised, 0), uninitialised_state},
      {"bf16-index", substitute, "numbers of tokens in bf16: decays off by one and more above 256 (LASP)",
       "faults/bf16-index.toml", cpu, expect(numerics, 1), nullptr},
      {"bf16-state", substitute, "the state of a rank's own tokens is stored in bf16 (LASP)",
       "faults/bf16-state.toml", cpu, expect(numerics, 1), nullptr},
      {"dropped-tail", mutation, "tokens beyond the last whole block are left out (LASP)",
       "faults/dropped-tail.toml", both, expect(coverage, 0), dropped_tail},
      {"shared-kv-buffer", mutation,
       "another layer's forward goes through the buffer that the backward reads (LASP)",
       "faults/lasp-cache.toml", both, expect(coverage, 1), shared_kv_buffer},
      {"backward-right-on-last-rank-only", mutation,
       "the backward's states take the gates of the first sequence for all: right on the last rank only "
       "(flash-linear-attention#1115)",
       "faults/gates.toml", both, expect(coverage, 1), backward_right_on_last_rank_only},
  };
  return all;
}

const Fault* find_fault(std::string_view name) {
  for (const Fault& fault : faults())
    if (fault.name == name) return &fault;
  return nullptr;
}

}  // namespace cplab
