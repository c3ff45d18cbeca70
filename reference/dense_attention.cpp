// Dense softmax attention in double; see dense_attention.hpp for the formulas.
#include "reference/dense_attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "reference/products.hpp"
#include "reference/workers.hpp"

namespace cplab::reference {
namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

// Query rows, or keys, handled together; and queries that are multiplied with a block of keys at a time. With
// N keys a block of scores is 64 N doubles (4 MiB at N = 8192).
constexpr std::int64_t block_rows = 64;
constexpr std::int64_t queries_at_a_time = 512;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

void require_size(std::span<const double> tensor, std::int64_t rows, std::int64_t heads, std::int64_t width,
                  const char* what) {
  if (std::ssize(tensor) != rows * heads * width) throw std::invalid_argument(what);
}

// One head of a [S, heads, width] tensor.
Rows<const double> head_of(std::span<const double> tensor, std::int64_t S, std::int64_t heads,
                           std::int64_t head, std::int64_t width) {
  return {tensor.data() + head * width, S, width, heads * width};
}

Rows<double> head_of(std::vector<double>& tensor, std::int64_t S, std::int64_t heads, std::int64_t head,
                     std::int64_t width) {
  return {tensor.data() + head * width, S, width, heads * width};
}

// Of one worker: two blocks of numbers for pairs.
struct Scratch {
  std::vector<double> p, dp;

  static Rows<double> block(std::vector<double>& of, std::int64_t rows, std::int64_t cols) {
    if (std::ssize(of) < rows * cols) of.resize(at(rows * cols));
    return {of.data(), rows, cols, cols};
  }
};

class Attention {
 public:
  Attention(const AttentionShape& shape, std::span<const double> q, std::span<const double> k,
            std::span<const double> v, std::span<const double> dout, const RowSample* sample,
            std::span<const double> sinks)
      : shape_(shape),
        visible_(shape.rule()),
        sample_(sample),
        q_(q),
        k_(k),
        v_(v),
        dout_(dout),
        sinks_(sinks) {
    const std::int64_t S = shape_.S, N = shape_.N(), H = shape_.H, G = shape_.G, D = shape_.D, E = shape_.E;
    result_.out.resize(at(S * H * E));
    result_.lse.resize(at(H * S), minus_infinity);
    highest_.resize(at(H * S), minus_infinity);
    shift_.resize(at(H * S), minus_infinity);
    sum_.resize(at(H * S));
    // What a row is that sees no key.
    for (std::int64_t h = 0; h < std::ssize(sinks); ++h) {
      std::fill_n(result_.lse.begin() + h * S, S, sinks[at(h)]);
      std::fill_n(shift_.begin() + h * S, S, sinks[at(h)]);
      std::fill_n(sum_.begin() + h * S, S, 1.0);
    }
    if (dout.empty()) return;
    delta_.resize(at(H * S));
    result_.dq.resize(at(S * H * D));
    result_.dk.resize(at(N * G * D));
    result_.dv.resize(at(N * G * E));
  }

  // First every block of queries, then, knowing lse and delta of all, every block of keys: each result is
  // written by one unit, in one order. Of a sample before them what its keys need of every query.
  AttentionResult run(const std::function<void(std::int64_t)>& after_head) {
    const std::int64_t S = shape_.S, H = shape_.H, G = shape_.G;
    const bool backward = !dout_.empty(), others = sample_ && (backward || sample_->max_logit);
    const std::vector<RowRun> blocks = others ? blocks_of(S, block_rows) : std::vector<RowRun>(),
                              wanted = wanted_runs(sample_, S, block_rows),
                              keys = backward ? wanted_key_runs(sample_, shape_.N(), block_rows)
                                              : std::vector<RowRun>();
    const std::int64_t all = H * std::ssize(blocks) + H * std::ssize(wanted) + G * std::ssize(keys);
    std::vector<Scratch> scratch(at(worker_count(all)));
    std::int64_t before = 0;
    const auto each = [&](std::int64_t heads, const std::vector<RowRun>& runs, auto work) {
      for_each_unit(
          heads * std::ssize(runs),
          [&](std::int64_t unit, int worker) {
            work(unit / std::ssize(runs), runs[at(unit % std::ssize(runs))], scratch[at(worker)]);
          },
          [&](std::int64_t units) {
            if (after_head) after_head((before + units) * H / all);
          });
      before += heads * std::ssize(runs);
    };
    each(H, blocks, [&](auto h, RowRun run, Scratch& of) { of_query_rows(h, run, backward, false, of); });
    each(H, wanted, [&](auto h, RowRun run, Scratch& of) { of_query_rows(h, run, true, backward, of); });
    each(G, keys, [&](auto g, RowRun run, Scratch& of) { of_key_rows(g, run.first, run.count, of); });
    result_.max_logit.assign(at(shape_.H), minus_infinity);
    for (std::int64_t h = 0; h < shape_.H; ++h)
      for (std::int64_t i = 0; i < shape_.S; ++i)
        result_.max_logit[at(h)] = std::max(result_.max_logit[at(h)], highest_[at(h * shape_.S + i)]);
    if (backward) sum_sinks();
    return std::move(result_);
  }

 private:
  void sum_sinks() {
    const std::int64_t S = shape_.S;
    for (std::int64_t h = 0; h < std::ssize(sinks_); ++h) {
      double sum = 0;
      for (std::int64_t i = 0; i < S; ++i)
        sum -= std::exp(sinks_[at(h)] - shift_[at(h * S + i)]) / sum_[at(h * S + i)] * delta_[at(h * S + i)];
      result_.dsink.push_back(sum);
    }
  }

  // Softmax of row `i` of scores q.k, which begin at key `key`, over the keys it sees; the others become 0.
  void softmax_row(std::int64_t h, std::int64_t i, std::int64_t key, std::int64_t keys, double* p) {
    const KeyRun within{key, key + keys};
    double highest = minus_infinity, sum = 0;
    std::int64_t end = 0;  // of what is done
    visible_.for_each(i, within, [&](KeyRun run) {
      std::fill(p + end, p + run.begin - key, 0.0);
      end = run.end - key;
      for (std::int64_t j = run.begin - key; j < end; ++j) {
        p[j] *= shape_.scale;
        highest = std::max(highest, p[j]);
      }
    });
    std::fill(p + end, p + keys, 0.0);
    if (end == 0) return;
    const double sink = sinks_.empty() ? minus_infinity : sinks_[at(h)], shift = std::max(highest, sink);
    visible_.for_each(i, within, [&](KeyRun run) {
      sum += products_.exponentials(p + run.begin - key, run.end - run.begin, shift);
    });
    sum += std::exp(sink - shift);
    visible_.for_each(i, within, [&](KeyRun run) {
      for (std::int64_t j = run.begin - key; j < run.end - key; ++j) p[j] /= sum;
    });
    highest_[at(h * shape_.S + i)] = highest;
    shift_[at(h * shape_.S + i)] = shift;
    sum_[at(h * shape_.S + i)] = sum;
    result_.lse[at(h * shape_.S + i)] = shift + std::log(sum);
  }

  // lse, out and dq of a block of queries, and delta with each of the last two.
  void of_query_rows(std::int64_t h, RowRun run, bool wants_out, bool wants_dq, Scratch& scratch) {
    const std::int64_t S = shape_.S, N = shape_.N(), H = shape_.H, G = shape_.G, D = shape_.D, E = shape_.E;
    const auto [row, rows] = run;
    const KeyRun seen = visible_.seen_by(row, rows);
    if (seen.empty()) return;  // what all results are set to
    const std::int64_t g = h / (H / G), key = seen.begin, keys = seen.end - key;
    const auto k_rows = head_of(k_, N, G, g, D).from(key, keys),
               v_rows = head_of(v_, N, G, g, E).from(key, keys);
    const Rows<double> p = Scratch::block(scratch.p, rows, keys);
    products_.store_with_transposed(head_of(q_, S, H, h, D).from(row, rows), k_rows, p);
    for (std::int64_t i = 0; i < rows; ++i) softmax_row(h, row + i, key, keys, p.row(i));
    if (!wants_out) return;
    const Rows<double> out = head_of(result_.out, S, H, h, E).from(row, rows);
    for (std::int64_t i = 0; i < rows; ++i) std::fill_n(out.row(i), E, 0.0);
    products_.add(p, v_rows, out);
    if (dout_.empty()) return;
    const Rows<const double> dout = head_of(dout_, S, H, h, E).from(row, rows);
    if (!wants_dq) {
      for (std::int64_t i = 0; i < rows; ++i)
        delta_[at(h * S + row + i)] = std::inner_product(dout.row(i), dout.row(i) + E, out.row(i), 0.0);
      return;
    }
    const Rows<double> ds = Scratch::block(scratch.dp, rows, keys);
    products_.store_with_transposed(dout, v_rows, ds);
    for (std::int64_t i = 0; i < rows; ++i) {
      const double *const weights = p.row(i),
                          delta = std::inner_product(weights, weights + keys, ds.row(i), 0.0);
      delta_[at(h * S + row + i)] = delta;
      for (std::int64_t j = 0; j < keys; ++j)
        ds.row(i)[j] = shape_.scale * weights[j] * (ds.row(i)[j] - delta);
    }
    products_.add(ds, k_rows, head_of(result_.dq, S, H, h, D).from(row, rows));
  }

  // dk and dv of a block of keys, from the queries of all heads of the group that see one of them.
  void of_key_rows(std::int64_t g, std::int64_t key, std::int64_t keys, Scratch& scratch) {
    const std::int64_t group = shape_.H / shape_.G;
    const auto [begin, end] = visible_.seeing(key, keys);
    for (std::int64_t h = g * group; h < (g + 1) * group; ++h)
      for (std::int64_t row = begin; row < end; row += queries_at_a_time)
        add_to_keys(h, row, std::min(queries_at_a_time, end - row), key, keys, scratch);
  }

  void add_to_keys(std::int64_t h, std::int64_t row, std::int64_t rows, std::int64_t key, std::int64_t keys,
                   Scratch& scratch) {
    const std::int64_t S = shape_.S, N = shape_.N(), H = shape_.H, G = shape_.G, D = shape_.D, E = shape_.E;
    const std::int64_t g = h / (H / G);
    const auto q_rows = head_of(q_, S, H, h, D).from(row, rows),
               dout_rows = head_of(dout_, S, H, h, E).from(row, rows);
    const Rows<double> p = Scratch::block(scratch.p, rows, keys), ds = Scratch::block(scratch.dp, rows, keys);
    products_.store_with_transposed(q_rows, head_of(k_, N, G, g, D).from(key, keys), p);
    products_.store_with_transposed(dout_rows, head_of(v_, N, G, g, E).from(key, keys), ds);
    for (std::int64_t i = 0; i < rows; ++i) {
      double *const weights = p.row(i), *const gradients = ds.row(i);
      const double delta = delta_[at(h * S + row + i)], sum = sum_[at(h * S + row + i)],
                   highest = shift_[at(h * S + row + i)];
      std::int64_t done = 0;
      const auto hide = [&](std::int64_t until) {
        for (double* const values : {weights, gradients}) std::fill(values + done, values + until, 0.0);
      };
      visible_.for_each(row + i, {key, key + keys}, [&](KeyRun run) {
        const std::int64_t begin = run.begin - key, end = run.end - key;
        for (std::int64_t j = begin; j < end; ++j) weights[j] *= shape_.scale;
        products_.exponentials(weights + begin, end - begin, highest);
        for (std::int64_t j = begin; j < end; ++j) {
          weights[j] /= sum;
          gradients[j] = shape_.scale * weights[j] * (gradients[j] - delta);
        }
        hide(begin);
        done = end;
      });
      hide(keys);
    }
    products_.add_of_transposed(ds, q_rows, head_of(result_.dk, N, G, g, D).from(key, keys));
    products_.add_of_transposed(p, dout_rows, head_of(result_.dv, N, G, g, E).from(key, keys));
  }

  const AttentionShape& shape_;
  const VisibleKeys visible_;
  const RowSample* sample_;
  const Products& products_ = products();
  std::span<const double> q_, k_, v_, dout_, sinks_;
  // [H,S]: of a row the largest logit of a key, and of the sink too; the sum of exp(logit - largest); and
  // sum_n p_in dout_i.v_n.
  std::vector<double> highest_, shift_, sum_, delta_;
  AttentionResult result_;
};

}  // namespace

AttentionResult dense_attention(const AttentionShape& shape, std::span<const double> q,
                                std::span<const double> k, std::span<const double> v,
                                std::span<const double> dout,
                                const std::function<void(std::int64_t)>& after_head, const RowSample* sample,
                                std::span<const double> sinks) {
  const std::int64_t S = shape.S, N = shape.N(), H = shape.H, G = shape.G, D = shape.D, E = shape.E;
  if (S < 0 || N < 0 || H < 1 || G < 1 || D < 1 || E < 1 || H % G != 0)
    throw std::invalid_argument("dense_attention: sizes must be positive and H a multiple of G");
  require_size(q, S, H, D, "dense_attention: q is not [S,H,D]");
  require_size(k, N, G, D, "dense_attention: k is not [N,G,D]");
  require_size(v, N, G, E, "dense_attention: v is not [N,G,E]");
  if (!dout.empty()) require_size(dout, S, H, E, "dense_attention: dout is not [S,H,E]");
  if (!sinks.empty())
    require_size(sinks, 1, H, 1, "dense_attention: there is not one sink for each query head");
  return Attention(shape, q, k, v, dout, sample, sinks).run(after_head);
}

}  // namespace cplab::reference
