// Layouts that are legal, without their attention; see search.hpp.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "decide/search.hpp"

namespace cplab {

void refuse(std::vector<Refusal>& refused, std::string reason, std::string nearest) {
  for (Refusal& known : refused)
    if (known.reason == reason) {
      ++known.count;
      return;
    }
  refused.push_back({std::move(reason), 1, std::move(nearest)});
}

namespace {

constexpr std::int64_t least_tokens_a_rank = 128;
constexpr std::int64_t usual_tokens_per_step = std::int64_t{4} << 20;

std::string text_of(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t value : values) text += (text.empty() ? "" : " ") + std::to_string(value);
  return text;
}

bool allows(const std::vector<std::int64_t>& list, std::int64_t value) {
  return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

bool has_experts(const Model& model) {
  return std::any_of(model.feed_forward.begin(), model.feed_forward.end(),
                     [](const FeedForwardKind& kind) { return kind.experts > 0; });
}

// Degrees of expert parallelism: divisors of every count of experts.
std::vector<std::int64_t> legal_ep(const Model& model) {
  std::int64_t common = 0;
  for (const FeedForwardKind& kind : model.feed_forward) common = std::gcd(common, kind.experts);
  return common == 0 ? std::vector<std::int64_t>{1} : divisors(common);
}

}  // namespace

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> found;
  for (std::int64_t d = 1; d <= n; ++d)
    if (n % d == 0) found.push_back(d);
  return found;
}

std::vector<std::int64_t> legal_tp(const Model& model, std::int64_t most) {
  std::vector<std::int64_t> found;
  for (std::int64_t tp = 1; tp <= most; ++tp) {
    const bool legal =
        std::all_of(model.attention.begin(), model.attention.end(), [&](const AttentionKind& kind) {
          const std::int64_t keys = kind.mixer == Mixer::latent ? kind.heads : kind.kv_heads;
          return kind.heads % tp == 0 && (keys % tp == 0 || tp % keys == 0);
        });
    if (legal) found.push_back(tp);
  }
  return found;
}

std::int64_t rows_of_step(const Training& training) {
  const std::int64_t row = row_tokens(training);
  if (training.tokens_per_step > 0) {
    if (training.tokens_per_step % row != 0)
      throw ScenarioError(
          "training.tokens_per_step",
          "is no multiple of a row of " + std::to_string(row) + " tokens; nearest: " +
              std::to_string(std::max<std::int64_t>(1, training.tokens_per_step / row) * row) + " " +
              std::to_string((training.tokens_per_step / row + 1) * row));
    return training.tokens_per_step / row;
  }
  // A multiple of the GPUs, so that every degree of data parallelism divides it; of fewer rows than GPUs a
  // divisor.
  const std::int64_t rows = std::max<std::int64_t>(1, usual_tokens_per_step / row), gpus = training.gpus;
  if (rows >= gpus) return (rows + gpus - 1) / gpus * gpus;
  for (const std::int64_t divisor : divisors(gpus))
    if (divisor >= rows) return divisor;
  return gpus;
}

namespace {

// Fills in what follows from the degrees, and keeps the layout if it is legal.
class Enumeration {
 public:
  Enumeration(const Model& model, const Training& training, const SearchSpace& space,
              std::vector<Refusal>& refused)
      : model_(model), training_(training), space_(space), refused_(refused), rows_(rows_of_step(training)) {}

  void add(ModelLayout layout) {
    for (std::int64_t batch :
         space_.micro_batch.empty() ? std::vector{training_.micro_batch} : space_.micro_batch) {
      // All rows of a replica at once, whatever the mode.
      if (batch == 0) {
        if (rows_ % layout.dp != 0) {
          refuse(
              refused_,
              "dp " + std::to_string(layout.dp) + " does not divide the " + std::to_string(rows_) + " rows",
              text_of(divisors(rows_)));
          continue;
        }
        batch = rows_ / layout.dp;
      }
      layout.micro_batch = batch;
      if (training_.mode != Mode::training) {
        layout.micro_batches = 1;
        add_experts(layout);
        continue;
      }
      if (rows_ % (batch * layout.dp) != 0) {
        refuse(refused_,
               "the step's " + std::to_string(rows_) +
                   " rows are no multiple of dp x micro_batch = " + std::to_string(batch * layout.dp),
               text_of(divisors(rows_)));
        continue;
      }
      layout.micro_batches = rows_ / (batch * layout.dp);
      add_experts(layout);
    }
  }
  std::vector<ModelLayout> found;

 private:
  void add_experts(ModelLayout layout) {
    layout.etp = std::max<std::int64_t>(1, training_.etp);
    const std::int64_t ranks = layout.tp * layout.cp * layout.dp;
    const std::vector<std::int64_t> legal =
        has_experts(model_) ? legal_ep(model_) : std::vector<std::int64_t>{1};
    for (const std::int64_t asked : space_.ep)
      if (!std::binary_search(legal.begin(), legal.end(), asked))
        refuse(refused_, "ep " + std::to_string(asked) + " does not divide the experts", text_of(legal));
    for (const std::int64_t ep : legal) {
      if (!allows(space_.ep, ep) || (training_.ep > 0 && ep != training_.ep)) continue;
      layout.ep = ep;
      if (ranks % (ep * layout.etp) != 0) {
        refuse(refused_, "ep x etp = " + std::to_string(ep * layout.etp) +
                             " does not divide tp x cp x dp = " + std::to_string(ranks));
        continue;
      }
      add_zero(layout);
    }
  }
  // With a pipeline, weights that are gathered for every micro-batch are what nobody does.
  void add_zero(ModelLayout layout) {
    std::vector<int> levels = layout.pp > 1 ? std::vector<int>{1} : std::vector<int>{1, 3};
    if (training_.mode != Mode::training) levels = {0};
    if (training_.zero >= 0) levels = {training_.zero};
    for (const int zero : levels) {
      if (!allows(space_.zero, zero)) continue;
      layout.zero = zero;
      found.push_back(layout);
    }
  }

  const Model& model_;
  const Training& training_;
  const SearchSpace& space_;
  std::vector<Refusal>& refused_;
  std::int64_t rows_;
};

bool given_or(std::int64_t given, std::int64_t value) {
  return given == 0 || given == value;
}

}  // namespace

std::vector<ModelLayout> legal_layouts(const Model& model, const Training& training, const Hardware& hardware,
                                       const SearchSpace& space, std::vector<Refusal>& refused) {
  const std::int64_t gpus = training.gpus, row = row_tokens(training), layers = model.layer_count();
  const std::vector<std::int64_t> tps = legal_tp(model, hardware.node.gpus);
  Enumeration legal(model, training, space, refused);
  const std::vector<std::int64_t> parts = divisors(gpus);
  for (const auto& [degree, asked] : {std::pair{"tp", &space.tp}, std::pair{"cp", &space.cp},
                                      std::pair{"pp", &space.pp}, std::pair{"dp", &space.dp}})
    for (const std::int64_t value : *asked)
      if (!std::binary_search(parts.begin(), parts.end(), value))
        refuse(refused,
               degree + (" " + std::to_string(value)) + " does not divide " + std::to_string(gpus) + " GPUs",
               text_of(parts));
  for (const std::int64_t tp : divisors(gpus)) {
    if (!allows(space.tp, tp) || !given_or(training.tp, tp)) continue;
    if (!std::binary_search(tps.begin(), tps.end(), tp)) {
      refuse(refused, "tp " + std::to_string(tp) + " is above a node's GPUs, or does not divide the heads",
             text_of(tps));
      continue;
    }
    for (const std::int64_t cp : divisors(gpus / tp)) {
      if (!allows(space.cp, cp) || !given_or(training.cp, cp)) continue;
      if (cp > 1 && row / cp < least_tokens_a_rank) {
        refuse(refused, "cp " + std::to_string(cp) + " leaves a rank fewer than 128 tokens");
        continue;
      }
      for (const std::int64_t pp : divisors(gpus / tp / cp)) {
        if (!allows(space.pp, pp) || !given_or(training.pp, pp) ||
            !given_or(training.dp, gpus / tp / cp / pp))
          continue;
        if (!allows(space.dp, gpus / tp / cp / pp)) continue;
        if (pp > layers) {
          refuse(refused, "pp " + std::to_string(pp) + " is above the " + std::to_string(layers) + " layers");
          continue;
        }
        ModelLayout layout;
        layout.tp = tp, layout.cp = cp, layout.pp = pp, layout.dp = gpus / tp / cp / pp;
        layout.pipeline_chunks = pp > 1 ? training.pipeline_chunks : 1;
        layout.loss_chunks = training.loss_chunks;
        layout.offload_checkpoints = training.offload_checkpoints;
        layout.offload_optimizer = training.offload_optimizer;
        layout.recompute = training.recompute;
        legal.add(layout);
      }
    }
  }
  return std::move(legal.found);
}

}  // namespace cplab
