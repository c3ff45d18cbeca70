// What is asked for, before any algorithm: the problem, how many ranks share it, and the free choices.
// Plain data, filled by cli from a scenario file (DESIGN.md section 6) and read by everyone.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cplab {

// Shape letters: B batch, S sequence, H query heads, G key/value heads, D key size, E value size,
// P ranks of one context-parallel group.

enum class Attention : std::uint8_t { softmax, linear, dynamic_mask };
enum class DType : std::uint8_t { fp64, fp32, bf16, fp16 };
enum class Format : std::uint8_t { bshd, sbhd, thd };
// backward: both phases are built and executed, the second is reported.
enum class Direction : std::uint8_t { forward, forward_backward, backward };

// Of linear attention: what a state goes through from token to token. decay: a factor exp(-slope) for every
// head. head: a factor for every token and head, from log_decay. column: a factor for each of its D rows,
// from log_decay. matrix: such factors, then a delta rule with beta. kernels/linear.hpp has the formulas.
enum class Transition : std::uint8_t { decay, head, column, matrix };
// Of a matrix transition: factors for each of the D rows of a state (KDA), or one for all (Gated DeltaNet).
enum class Gate : std::uint8_t { column, head };

// What is added to scaled logits, before a softcap. Stored: full, one number for each pair of query and key,
// of every query head; keys, one for each key, of every key head. By formula, of how far the key lies behind
// the query, t - p, and never stored: alibi, -slope |t - p|, a slope for every query head (Press et al. 2021,
// arXiv 2108.12409); buckets, a number of a table [query heads, buckets], whose column says how far it is
// (T5, Raffel et al. 2020, arXiv 1910.10683; bucket_starts()).
enum class BiasForm : std::uint8_t { none, full, keys, alibi, buckets };
// Of dynamic mask attention (Flash-DMA; kernels/masked.hpp has the formulas): pairs that are not kept count
// for nothing. top_k: of each row of biases the largest, all keys of the sequence counting, the first of
// equal ones; relu: those above 0.
enum class Keep : std::uint8_t { none, top_k, relu };

std::string_view name(Attention);
std::string_view name(BiasForm);
std::string_view name(Keep);
std::string_view name(Transition);
std::string_view name(Gate);
std::string_view name(DType);
std::string_view name(Format);
std::string_view name(Direction);

// Query at position p sees key at position t of the same sequence iff -left <= t - p <= right; a negative
// bound is unlimited. In cross attention p is the key that the query stands on (Problem::first_query_at).
struct Window {
  std::int64_t left = -1;
  std::int64_t right = -1;
  bool operator==(const Window&) const = default;
};

// Pairs that are seen beside those that mask and window allow: of queries [q_begin, q_end) and keys [k_begin,
// k_end) of one sequence. causal: of them those with k - q at most as large as in the last row and column;
// inverse_causal: at least as large as in the first ones.
struct MaskRectangle {
  enum class Form : std::uint8_t { full, causal, inverse_causal };
  std::int64_t q_begin = 0, q_end = 0, k_begin = 0, k_end = 0;
  Form form = Form::full;
  bool operator==(const MaskRectangle&) const = default;
};
std::string_view name(MaskRectangle::Form);

// Which of the two lists of tokens something is about. They are the same tokens unless the problem is of
// cross attention.
enum class Side : std::uint8_t { queries, keys };

// Where the diagonal of mask and window lies in cross attention. top_left: the first query stands on the
// first key. bottom_right: the last one on the last key, as where the queries come behind keys of a cache.
enum class Diagonal : std::uint8_t { top_left, bottom_right };
std::string_view name(Diagonal);

struct Problem {
  Attention attention = Attention::softmax;
  Format format = Format::bshd;
  // Dense ([B,S,...] tensors): batch sequences of `sequence` tokens. Packed ([T,...] tensors): batch and
  // sequence are 0. `lengths` and `padded_lengths` hold one entry per sequence in both cases.
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  bool packed = false;
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> padded_lengths;
  // Cross attention: the keys' own lengths, one entry per sequence; kv_sequence where dense, else 0. Empty:
  // the keys are of the queries' tokens.
  std::int64_t kv_sequence = 0;
  std::vector<std::int64_t> kv_lengths;
  std::vector<std::int64_t> kv_padded_lengths;
  Diagonal align = Diagonal::top_left;
  std::int64_t heads = 0;       // H
  std::int64_t kv_heads = 0;    // G, divides H
  std::int64_t head_size = 0;   // D
  std::int64_t value_size = 0;  // E
  // Latent keys and values (MLA; DeepSeek-V2, arXiv 2405.04434): a token has `kv_latent` numbers, of which
  // each head's weights make head_size - rope_size columns of its K and its V, and rope_size columns that are
  // the last ones of every head's K. 0: keys and values are inputs. Softmax attention alone, and as many key
  // heads as query heads.
  std::int64_t kv_latent = 0, rope_size = 0;
  DType dtype = DType::bf16;
  bool causal = false;
  Window window;
  // A pair is seen if mask and window allow it and both its tokens are in one chunk of so many keys (0: there
  // are none); or if its key is one of the first `prefix` of its sequence; or if a group or a rectangle has
  // it. A group is a run of tokens [begin, end) that see each other. Tokens of groups and rectangles are
  // counted within a sequence, or where packed along all of them, padding included. only_rectangles: mask and
  // window allow nothing.
  bool only_rectangles = false;
  std::int64_t chunk = 0, prefix = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> groups;
  std::vector<MaskRectangle> rectangles;
  double scale = 0;
  // Asks for max_logit [H] beside out and lse: the largest scale * q.k of all pairs that are seen, -inf where
  // there is none. Softmax only.
  bool max_logit = false;
  // Linear attention only: the transition. One slope >= 0 for every head: of its decay, or of bias alibi;
  // else none.
  Transition transition = Transition::decay;
  Gate gate = Gate::column;
  std::vector<double> slopes;
  // Linear attention only: a causal convolution over so many tokens comes before Q, K and V, for each column
  // by itself, out_t = sum over i of w_i x_(t - convolution + 1 + i), zero before a sequence's first token
  // (Gated DeltaNet, Mamba-2). 0: there is none. No activation follows.
  std::int64_t convolution = 0;
  // Logits go through softcap tanh(. / softcap), after the bias; 0: they do not. sink: one more logit in
  // every row's sum, without a value, a learnable number of each query head (gpt-oss). Not of linear
  // attention.
  BiasForm bias = BiasForm::none;
  double softcap = 0;
  bool sink = false;
  // Bias buckets only: columns of its table, and the distance from which on all keys share the last one.
  std::int64_t buckets = 0;
  std::int64_t max_distance = 0;
  // Dynamic mask attention only. block: keys in groups of so many are kept whole where more than half of them
  // was selected, else dropped whole; 0: as selected.
  Keep keep = Keep::none;
  std::int64_t top_k = 0;
  std::int64_t block = 0;
  Direction direction = Direction::forward_backward;

  // Mask and window together: causal is right = 0. What else there is, is not in it.
  Window band() const;
  // Prefix, groups and rectangles of a sequence, as rectangles in its own tokens.
  std::vector<MaskRectangle> rectangles_of(std::size_t b) const;
  bool adds_pairs() const { return only_rectangles || prefix > 0 || !groups.empty() || !rectangles.empty(); }
  bool is_cross() const { return !kv_lengths.empty(); }
  const std::vector<std::int64_t>& lengths_of(Side side) const {
    return side == Side::keys && is_cross() ? kv_lengths : lengths;
  }
  const std::vector<std::int64_t>& padded_lengths_of(Side side) const {
    return side == Side::keys && is_cross() ? kv_padded_lengths : padded_lengths;
  }
  // The key that the first query of a sequence stands on; below 0: before the first one.
  std::int64_t first_query_at(std::size_t b) const {
    return is_cross() && align == Diagonal::bottom_right ? kv_lengths[b] - lengths[b] : 0;
  }
  // log_decay holds so many numbers for every token and head; with slopes there is none.
  std::int64_t gate_columns() const {
    if (transition == Transition::decay) return 0;
    return transition == Transition::head || gate == Gate::head ? 1 : head_size;
  }
  bool has_latent() const { return kv_latent > 0; }
  bool convolves() const { return convolution > 0; }
  std::int64_t projected_size() const { return head_size - rope_size; }  // columns of K from the latent
  bool has_backward() const { return direction != Direction::forward; }
  bool stores_bias() const { return bias == BiasForm::full || bias == BiasForm::keys; }
  // The bias is a formula of positions.
  bool places_bias() const { return bias == BiasForm::alibi || bias == BiasForm::buckets; }
  // Logits are more than scale q.k, or not all of them count. A sink is no part of them.
  bool changes_logits() const {
    return attention == Attention::dynamic_mask || bias != BiasForm::none || softcap != 0;
  }
  // Softmax attention whose logits are scale q.k and nothing else: what the fast kernels compute.
  bool has_plain_logits() const { return attention == Attention::softmax && !changes_logits(); }
  // A bias of keys and which keys are kept travel with K and V, as columns behind V (bias, keep); the bias's
  // gradient does behind dV. How many columns that makes.
  std::int64_t key_columns() const { return bias == BiasForm::keys ? 1 + (keep != Keep::none) : 0; }
  std::int64_t key_gradient_columns() const { return bias == BiasForm::keys ? 1 : 0; }
  // Of a row of a full bias: one for each key of the longest sequence.
  std::int64_t pair_columns() const;
};

struct Parallel {
  std::int64_t ranks = 1;     // P of one group
  std::int64_t replicas = 1;  // sample b belongs to replica b mod replicas
  // groups[replica] lists the global ranks of that context-parallel group by position; a partition of
  // 0 .. ranks*replicas-1.
  std::vector<std::vector<int>> groups;
  // Placement "hybrid" alone, then by sequence: the position in its group that holds all of it, or -1: it is
  // cut over all positions as in zigzag.
  std::vector<int> homes;
  // Placements "balanced" and "dynamic" alone, then all there are: which rows lie where. Rows [begin, begin +
  // count) of a sequence, padding and rows behind it included, are the next rows of the rank at `position`.
  struct Piece {
    int position = 0;
    std::int64_t sequence = 0, begin = 0, count = 0;
    bool operator==(const Piece&) const = default;
  };
  std::vector<Piece> pieces;
  std::int64_t tokens_per_rank = 0;  // placement "dynamic": of a sequence at most; 0: a rank's share of all
  // Cross attention: every rank of a group holds all keys of its replica, and their gradients.
  bool keys_everywhere = false;
  // A fact of the machine, which no scenario names: by global rank a number that is equal for ranks that
  // share a node and reach each other's memory. Empty: all do. transport = "auto" decides by it
  // (plan/islands.hpp).
  std::vector<int> islands;
  std::int64_t world() const { return ranks * replicas; }
};

// One option's value: a switch, a count or a word.
using OptionValue = std::variant<bool, std::int64_t, std::string>;
std::string to_string(const OptionValue&);

// The free choices of an algorithm; keys and legal values are registered by it
// (algorithms/core/algorithm.hpp). After `resolve` every registered key is present, defaults included.
struct Schedule {
  std::vector<std::pair<std::string, OptionValue>> options;

  const OptionValue* find(std::string_view key) const;
  void set(std::string_view key, OptionValue value);
  bool is_on(std::string_view key) const;               // a bool option
  std::int64_t count(std::string_view key) const;       // an integer option
  const std::string& word(std::string_view key) const;  // a string option
  bool is_word(std::string_view key, std::string_view word) const;
};

struct Scenario {
  Problem problem;
  Parallel parallel;
  std::string algorithm;
  std::string placement;
  Schedule schedule;
};

// The user's scenario asks for something that does not exist. `key` is "section.key" of the scenario
// file, so that cli can name the line; exit code 2.
struct ScenarioError : std::runtime_error {
  ScenarioError(std::string key_, const std::string& message)
      : std::runtime_error(message), key(std::move(key_)) {}
  std::string key;
};

// The largest problem that anybody may ask for, in a scenario or in a plan file: far above what can be run,
// and small enough that bytes, offsets and counts of (query, key) pairs stay inside the 64-bit integers.
namespace limits {
inline constexpr std::int64_t world = 65536;  // ranks x replicas
inline constexpr std::int64_t sequences = std::int64_t{1} << 20;
inline constexpr std::int64_t tokens = std::int64_t{1}
                                       << 31;  // of all sequences with their padding; of a window
inline constexpr std::int64_t heads = 65536;
inline constexpr std::int64_t head_size = 65536;
inline constexpr std::int64_t row_elements = std::int64_t{1} << 22;  // heads x (head_size + value_size)
inline constexpr std::int64_t buckets = 1024;
inline constexpr std::int64_t convolution = 8;
inline constexpr std::int64_t pair_elements = std::int64_t{1} << 30;    // heads x columns of a full bias
inline constexpr std::int64_t weight_elements = std::int64_t{1} << 30;  // of all heads, of latent attention
}  // namespace limits

// Throws ScenarioError for sizes that are not positive, contradict each other (heads that kv_heads does not
// divide, a length above its padded length) or are beyond `limits`, alone or as a product. Readers of files
// call it before they allocate memory by any of these sizes.
void require_sizes(const Problem&, const Parallel&);

// Bias buckets: from which distance on a key is in bucket 1, 2, ..., buckets - 1; bucket 0 begins at 0. The
// first half of them hold one distance each, the others so that their borders grow in proportion up to
// max_distance (T5's relative_position_bucket, whose logarithms are taken in double here). Where queries see
// later keys too (Problem::band), half of the table is for these: then the list is that of buckets / 2,
// and a later key's bucket is so many columns further on.
std::vector<std::int64_t> bucket_starts(const Problem&);

// The multiprocessors that schedule.reserved_sms takes from kernels on a GPU of `sms`; 0 where it does not
// say. Throws ScenarioError unless one is left.
int reserved_sms(const Schedule& schedule, int sms);

// schedule.head_start_us: by how many microseconds an attention kernel starts later than what goes over nccl
// beside it, so that the latter finds multiprocessors; 0: neither waits for the other, or the schedule does
// not say.
int head_start_us(const Schedule& schedule);

}  // namespace cplab
