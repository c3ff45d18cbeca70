// The keys of [problem] and [parallel]; see scenario_keys.hpp.
#include "report/scenario_keys.hpp"

#include "plan/problem.hpp"

namespace cplab {

std::string_view name(KeyType type) {
  constexpr std::string_view names[] = {"word", "integer", "number", "true or false",
                                        "text", "list",    "section"};
  return names[static_cast<std::size_t>(type)];
}

namespace {

constexpr std::string_view masks_page = "20-masks.md";
constexpr std::string_view forms_page = "15-dynamic-mask.md";
constexpr std::string_view latent_page = "10-families.md";
constexpr std::string_view tensors_page =
    "06-files.md#tensors---inputs-dir---save-dir-run-verify---against-dir-verify";

const std::vector<KeyInfo>& shapes() {
  using enum KeyType;
  static const std::vector<KeyInfo> keys{
      {.key = "problem.attention",
       .type = word,
       .words = {"softmax", "linear", "dynamic_mask"},
       .value = "softmax",
       .meaning =
           "softmax attention; linear attention (a state per head, causal); softmax attention over the keys "
           "that a bias selects"},
      {.key = "problem.batch",
       .type = whole,
       .least = 1,
       .most = limits::sequences,
       .unit = "sequences",
       .value = "1",
       .taken_by = "problems with sequence",
       .meaning = "how many sequences of that length; sample b is on replica b mod replicas"},
      {.key = "problem.sequence",
       .type = whole,
       .least = 1,
       .most = limits::tokens,
       .unit = "tokens",
       .rule = "missing is an error, unless there are lengths",
       .meaning = "the length of every sequence"},
      {.key = "problem.lengths",
       .type = list,
       .legal = "a list of lengths from 0 on",
       .unit = "tokens",
       .rule = "batch sequences of sequence tokens",
       .meaning =
           "packed sequences, one after the other: the length of each, in the place of batch and sequence"},
      {.key = "problem.padded_lengths",
       .type = list,
       .legal = "a list with one for each of lengths, none shorter than it",
       .unit = "tokens",
       .rule = "lengths",
       .taken_by = "problems with lengths",
       .meaning = "what each packed sequence takes with the padding behind it"},
      {.key = "problem.kv_sequence",
       .type = whole,
       .least = 1,
       .most = limits::tokens,
       .unit = "tokens",
       .rule = "keys are of the queries' tokens",
       .taken_by = "problems with sequence",
       .meaning = "cross attention: keys have tokens of their own, so many",
       .page = masks_page},
      {.key = "problem.kv_lengths",
       .type = list,
       .legal = "a list with one for each of lengths",
       .unit = "tokens",
       .rule = "keys are of the queries' tokens",
       .taken_by = "problems with lengths",
       .meaning = "cross attention of packed sequences: how many keys each has",
       .page = masks_page},
      {.key = "problem.kv_padded_lengths",
       .type = list,
       .legal = "a list with one for each of kv_lengths, none shorter than it",
       .unit = "tokens",
       .rule = "kv_lengths",
       .taken_by = "problems with kv_lengths",
       .meaning = "what the keys of each packed sequence take with their padding",
       .page = masks_page},
      {.key = "problem.align",
       .type = word,
       .words = {"top_left", "bottom_right"},
       .rule = "missing is an error where a causal mask or window needs it",
       .taken_by = "cross attention",
       .meaning = "where the diagonal lies: the first query stands on the first key, or the last on the last",
       .page = masks_page},
      {.key = "problem.heads", .type = whole, .least = 1, .most = limits::heads, .meaning = "query heads"},
      {.key = "problem.kv_heads",
       .type = whole,
       .least = 1,
       .most = limits::heads,
       .legal = "divides heads",
       .rule = "heads",
       .meaning = "key and value heads; each serves heads / kv_heads query heads"},
      {.key = "problem.head_size",
       .type = whole,
       .least = 1,
       .most = limits::head_size,
       .unit = "elements",
       .meaning = "of a row of q and k in one head"},
      {.key = "problem.value_size",
       .type = whole,
       .least = 1,
       .most = limits::head_size,
       .unit = "elements",
       .rule = "head_size",
       .meaning = "of a row of v and of the output in one head"},
      {.key = "problem.kv_latent",
       .type = whole,
       .least = 1,
       .most = limits::head_size,
       .unit = "elements",
       .rule = "K and V are inputs",
       .taken_by = "softmax attention with kv_heads = heads",
       .meaning = "K and V of every head are made of a latent of this size (MLA)",
       .page = latent_page},
      {.key = "problem.rope_size",
       .type = whole,
       .least = 0,
       .most = limits::head_size,
       .unit = "elements",
       .rule = "missing is an error beside kv_latent",
       .taken_by = "problems with kv_latent",
       .meaning = "the last so many columns of head_size are a key of all heads as it is",
       .page = latent_page},
      {.key = "problem.dtype",
       .type = word,
       .words = {"bf16", "fp16", "fp32", "fp64"},
       .meaning = "of inputs, outputs and wires that no option makes wider"},
      {.key = "problem.format",
       .type = word,
       .words = {"bshd", "sbhd", "thd"},
       .rule = "bshd; thd with lengths",
       .meaning = "axes of tensors in memory, outermost first: B batch, S sequence, T all tokens, H heads, D "
                  "columns"},
      {.key = "problem.direction",
       .type = word,
       .words = {"forward", "forward+backward", "backward"},
       .value = "forward+backward",
       .meaning = "which phases there are; backward: both are executed, times are those of the second"},
  };
  return keys;
}

const std::vector<KeyInfo>& masks() {
  using enum KeyType;
  static const std::vector<KeyInfo> keys{
      {.key = "problem.mask",
       .type = word,
       .words = {"full", "causal", "none"},
       .meaning = "which keys a query sees: all, those up to its own token, or only what prefix, groups and "
                  "mask_rectangles add",
       .page = masks_page},
      {.key = "problem.window",
       .type = list,
       .legal = "[left, right], each -1 (unlimited) or from 0 on",
       .unit = "tokens",
       .value = "[-1, -1]",
       .taken_by = "softmax attention",
       .meaning = "how many keys to the left and to the right of itself a query sees",
       .page = masks_page},
      {.key = "problem.chunk",
       .type = whole,
       .least = 0,
       .most = limits::tokens,
       .unit = "tokens",
       .value = "0",
       .taken_by = "softmax attention",
       .meaning =
           "takes away the pairs of mask and window whose tokens are in different chunks of so many; 0: none",
       .page = masks_page},
      {.key = "problem.prefix",
       .type = whole,
       .least = 0,
       .most = limits::tokens,
       .unit = "tokens",
       .value = "0",
       .taken_by = "softmax attention",
       .meaning = "adds: every query sees the first so many keys of its sequence",
       .page = masks_page},
      {.key = "problem.groups",
       .type = list,
       .legal = "[[first, behind the last], ...]",
       .unit = "tokens",
       .rule = "none",
       .taken_by = "softmax attention",
       .meaning = "adds: these tokens see each other both ways (images in text)",
       .page = masks_page},
      {.key = "problem.mask_rectangles",
       .type = list,
       .legal = "[[q0, q1, k0, k1, \"full\" | \"causal\" | \"inverse_causal\"], ...]",
       .unit = "tokens",
       .rule = "none",
       .taken_by = "softmax attention",
       .meaning =
           "adds: queries q0 to q1 - 1 see keys k0 to k1 - 1; causal, inverse_causal: up to, or from, the "
           "diagonal through the last, or first, corner",
       .page = masks_page},
  };
  return keys;
}

const std::vector<KeyInfo>& logits() {
  using enum KeyType;
  static const std::vector<KeyInfo> keys{
      {.key = "problem.scale",
       .type = number,
       .legal = "a number",
       .rule = "head_size^-0.5",
       .taken_by = "softmax and dynamic mask attention",
       .meaning = "logits are scale times q.k"},
      {.key = "problem.max_logit",
       .type = flag,
       .value = "false",
       .taken_by = "softmax attention without softcap and bias",
       .meaning = "also compute max_logit [H], the largest scale q.k of each head",
       .page = tensors_page},
      {.key = "problem.softcap",
       .type = number,
       .legal = "numbers from 0 on",
       .value = "0.0",
       .taken_by = "softmax and dynamic mask attention",
       .meaning = "logits become softcap tanh(logit / softcap), after the bias; 0: they do not",
       .page = forms_page},
      {.key = "problem.sink",
       .type = word,
       .words = {"none", "head"},
       .value = "none",
       .taken_by = "softmax attention",
       .meaning = "head: one more logit in every row's sum, without a value, a number for each query head",
       .page = forms_page},
      {.key = "problem.bias",
       .type = word,
       .words = {"none", "alibi", "buckets", "full", "keys"},
       .value = "none",
       .taken_by = "softmax attention; none, full and keys also dynamic mask attention",
       .meaning =
           "what is added to logits: by formula alibi or buckets, stored full [B,S,H,S] or keys [B,S,G]",
       .page = forms_page},
      {.key = "problem.buckets",
       .type = whole,
       .legal = "multiples of 2 up to 1024; of 4 where queries see later keys",
       .value = "32",
       .taken_by = "bias = \"buckets\"",
       .meaning =
           "columns of bias_table.npy [H,buckets]; where later keys are seen half of them are for these",
       .page = forms_page},
      {.key = "problem.max_distance",
       .type = whole,
       .legal = "above half of the buckets of one side",
       .unit = "tokens",
       .value = "128",
       .taken_by = "bias = \"buckets\"",
       .meaning = "from here on all keys are in the last bucket (T5)",
       .page = forms_page},
      {.key = "problem.slopes",
       .type = list,
       .words = {"alibi"},
       .legal = "a number from 0 on for all heads, or a list with one for each head",
       .value = "alibi",
       .taken_by = "linear attention with transition = \"decay\"; bias = \"alibi\"",
       .meaning =
           "decay = exp(-slope) of a state per token; bias = -slope times the distance; alibi: the paper's",
       .page = forms_page},
      {.key = "problem.transition",
       .type = word,
       .words = {"decay", "head", "column", "matrix"},
       .value = "decay",
       .taken_by = "linear attention",
       .meaning = "how a state goes on to the next token: S_t = exp(-slope) S_{t-1} + k_t v_t^T; gates of "
                  "log_decay.npy "
                  "per head or per column; the delta rule with beta.npy",
       .page = tensors_page},
      {.key = "problem.gate",
       .type = word,
       .words = {"column", "head"},
       .value = "column",
       .taken_by = "transition = \"matrix\"",
       .meaning = "a gate for each column of k, or one for all of them",
       .page = tensors_page},
      {.key = "problem.convolution",
       .type = whole,
       .least = 0,
       .most = limits::convolution,
       .legal = "0 for none, else 2 at least",
       .unit = "tokens",
       .value = "0",
       .taken_by = "linear attention",
       .meaning = "a causal convolution over so many tokens, column by column, makes q, k and v; weights "
                  "conv_q.npy, conv_k.npy, conv_v.npy",
       .page = tensors_page},
      {.key = "problem.keep",
       .type = word,
       .words = {"none", "top_k", "relu"},
       .value = "none",
       .taken_by = "dynamic mask attention with a bias",
       .meaning = "which keys a row keeps: all, those with the largest biases, those with biases above 0",
       .page = forms_page},
      {.key = "problem.top_k",
       .type = whole,
       .least = 1,
       .most = limits::tokens,
       .unit = "keys",
       .rule = "missing is an error beside keep = \"top_k\"",
       .taken_by = "keep = \"top_k\"",
       .meaning = "how many keys of a row are kept",
       .page = forms_page},
      {.key = "problem.block",
       .type = whole,
       .least = 0,
       .most = limits::tokens,
       .unit = "keys",
       .value = "0",
       .taken_by = "keep = \"top_k\" and \"relu\"",
       .meaning = "keys in groups of so many, kept whole where more than half was selected; 0: as selected",
       .page = forms_page},
  };
  return keys;
}

const std::vector<KeyInfo>& parallel() {
  using enum KeyType;
  static const std::vector<KeyInfo> keys{
      {.key = "parallel.ranks",
       .type = whole,
       .least = 1,
       .most = limits::world,
       .unit = "GPUs",
       .meaning = "P, the ranks of one context-parallel group"},
      {.key = "parallel.replicas",
       .type = whole,
       .least = 1,
       .most = limits::world,
       .legal = "ranks x replicas at most 65536",
       .value = "1",
       .meaning =
           "groups beside each other: world = ranks x replicas; sample b is on replica b mod replicas"},
      {.key = "parallel.groups",
       .type = list,
       .words = {"consecutive", "strided"},
       .legal = "a list of lists of ranks, one for each replica",
       .value = "consecutive",
       .meaning = "which ranks are one group"},
      {.key = "parallel.algorithm",
       .type = word,
       .legal = "a name or alias of `cplab list algorithms`",
       .meaning = "how ranks exchange what attention needs",
       .page = "10-families.md"},
      {.key = "parallel.placement",
       .type = word,
       .legal = "a name or alias of `cplab list placements` that the algorithm takes",
       .rule = "the algorithm's first",
       .meaning = "which tokens a rank holds",
       .page = "lessons/02-placements.md"},
      {.key = "parallel.kv_placement",
       .type = word,
       .words = {"same", "replicated"},
       .value = "same",
       .taken_by = "cross attention",
       .meaning = "keys are cut as queries are, or every rank holds all of them",
       .page = masks_page},
      {.key = "parallel.tokens_per_rank",
       .type = whole,
       .least = 0,
       .most = limits::tokens,
       .unit = "tokens",
       .rule = "its share",
       .taken_by = "placement = \"dynamic\"",
       .meaning = "rows of one sequence that a rank gets at most"},
      {.key = "parallel.pieces",
       .type = list,
       .legal = "[[position, sequence, first row, rows], ...], each row of each sequence once",
       .rule = "by cost, by length",
       .taken_by = "placements \"balanced\" and \"dynamic\"",
       .meaning = "which rows of which sequence are where"},
      {.key = "parallel.homes",
       .type = list,
       .legal = "a list with one for each sequence: a position from 0 to P - 1, or -1",
       .rule = "sequences are shared out evenly",
       .taken_by = "placement = \"hybrid\"",
       .meaning = "by sequence the position of the rank that holds it; -1: it is cut"},
  };
  return keys;
}

}  // namespace

std::span<const KeyInfo> problem_key_table() {
  static const std::vector<KeyInfo> all = [] {
    std::vector<KeyInfo> keys = shapes();
    keys.insert(keys.end(), masks().begin(), masks().end());
    keys.insert(keys.end(), logits().begin(), logits().end());
    return keys;
  }();
  return all;
}

std::span<const KeyInfo> parallel_key_table() {
  return parallel();
}

std::string legal_text(const KeyInfo& key) {
  std::string text;
  for (const std::string_view word : key.words) text += (text.empty() ? "" : ", ") + std::string(word);
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
  if (key.type == KeyType::flag) add("true, false");
  if (key.type == KeyType::whole && key.most != 0)
    add("an integer from " + std::to_string(key.least) +
        (key.most == INT64_MAX ? " on" : " to " + std::to_string(key.most)) +
        (key.most > limits::world ? ", or a size such as \"4K\"" : ""));
  if (!key.legal.empty()) add(std::string(key.legal));
  return text;
}

std::string default_text(const KeyInfo& key) {
  if (key.is_required()) return "missing is an error";
  return std::string(key.value.empty() ? key.rule : key.value);
}

std::vector<std::string> names_of(std::span<const KeyInfo> keys) {
  std::vector<std::string> names;
  for (const KeyInfo& each : keys) {
    const std::string_view name = each.name_in_section();
    if (name.find_first_of(".[") == std::string_view::npos) names.emplace_back(name);
  }
  return names;
}

}  // namespace cplab
