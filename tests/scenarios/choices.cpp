// See choices.hpp.
#include "tests/scenarios/choices.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <set>

#include "algorithms/core/list.hpp"
#include "algorithms/core/options.hpp"
#include "algorithms/core/resolve.hpp"
#include "tests/scenarios/any_scenario.hpp"

namespace cplab::testing {
namespace {

// A value of an option, or none: left out of the scenario.
using Setting = std::optional<OptionValue>;

std::vector<Setting> settings_of(const OptionInfo& option) {
  std::vector<Setting> settings(option.legal.begin(), option.legal.end());
  if (option.any_count) {
    settings.push_back(std::get<std::int64_t>(option.legal[0]) + 1);
    if (!std::ranges::count(settings, Setting(option.default_value)))
      settings.push_back(option.default_value);
  }
  return settings;
}

// Which options of an algorithm may be set beside each other.
class Options {
 public:
  Options(const Algorithm& algorithm, bool common)
      : bases_{any_scenario(4, std::string(algorithm.name))}, all_(algorithm.options) {
    bases_[0].schedule = {};
    bases_[0].problem.kv_heads = bases_[0].problem.heads;  // enough for options that cut heads in strides
    if (const std::string placement = placement_for_linear_too(algorithm); !placement.empty()) {
      bases_.push_back(bases_[0]);
      bases_[1].placement = placement;
      take_attention(bases_[1].problem, Attention::linear);
    }
    if (!common) {
      for (const OptionInfo& shared : common_options())
        std::erase_if(all_, [&](const OptionInfo& o) { return o.key == shared.key; });
    }
  }

  // Options that restrict each other, each set in the order of the registry; sets by their last member.
  std::vector<std::vector<std::size_t>> linked() const {
    std::vector<std::size_t> root(all_.size());
    std::iota(root.begin(), root.end(), 0u);
    for (std::size_t a = 0; a < all_.size(); ++a)
      for (std::size_t b = a + 1; b < all_.size(); ++b)
        if (restrict_each_other(a, b)) std::ranges::replace(root, std::size_t{root[a]}, std::size_t{root[b]});
    std::vector<std::vector<std::size_t>> sets;
    for (std::size_t last = 0; last < all_.size(); ++last) {
      std::vector<std::size_t> members;
      for (std::size_t i = 0; i < all_.size(); ++i)
        if (root[i] == root[last]) members.push_back(i);
      if (members.back() == last) sets.push_back(members);
    }
    return sets;
  }

  // All legal combinations of the options of one set; the last of them varies slowest.
  Dimension dimension(const std::vector<std::size_t>& set) const {
    Dimension d;
    for (const std::size_t i : set) d.name += (d.name.empty() ? "" : "/") + std::string(all_[i].key);
    std::vector<Setting> chosen(set.size());
    const std::function<void(std::size_t)> go = [&](std::size_t left) {
      if (left == 0) return add(d, set, chosen);
      for (const Setting& s : settings_of(all_[set[left - 1]])) {
        chosen[left - 1] = s;
        go(left - 1);
      }
      chosen[left - 1].reset();
      if (all_[set[left - 1]].applies) go(left - 1);
    };
    go(set.size());
    return d;
  }

 private:
  std::optional<Schedule> resolved(Scenario s, const std::vector<std::size_t>& set,
                                   const std::vector<Setting>& chosen) const {
    for (std::size_t i = 0; i < set.size(); ++i)
      if (chosen[i]) s.schedule.set(all_[set[i]].key, *chosen[i]);
    try {
      return resolve(s).schedule;
    } catch (const ScenarioError&) {
      return std::nullopt;
    }
  }
  bool restrict_each_other(std::size_t a, std::size_t b) const {
    for (const Setting& x : settings_of(all_[a]))
      for (const Setting& y : settings_of(all_[b]))
        for (const Scenario& base : bases_) {
          const auto legal = [&](const std::vector<std::size_t>& set, const std::vector<Setting>& chosen) {
            return resolved(base, set, chosen).has_value();
          };
          if (legal({a, b}, {x, y}) != (legal({a}, {x}) && legal({b}, {y}))) return true;
        }
    return false;
  }
  // A combination that leaves an option out counts only where the option has no value.
  void add(Dimension& d, const std::vector<std::size_t>& set, const std::vector<Setting>& chosen) const {
    const auto counts = [&](const Scenario& base) {
      const std::optional<Schedule> schedule = resolved(base, set, chosen);
      if (!schedule) return false;
      for (std::size_t i = 0; i < set.size(); ++i)
        if (!chosen[i] && schedule->find(all_[set[i]].key)) return false;
      return true;
    };
    if (std::ranges::none_of(bases_, counts)) return;
    Value value;
    std::vector<std::pair<std::string, OptionValue>> options;
    for (std::size_t i = 0; i < set.size(); ++i) {
      const std::string key(all_[set[i]].key);
      value.name += (i > 0 ? "/" : "") + (chosen[i] ? to_string(*chosen[i]) : "-");
      if (chosen[i]) options.emplace_back(key, *chosen[i]);
    }
    value.choose = [options](Scenario& s) {
      for (const auto& [key, option] : options) s.schedule.set(key, option);
    };
    d.values.push_back(std::move(value));
  }

  std::vector<Scenario> bases_;  // of every kind of attention that the options differ for
  std::vector<OptionInfo> all_;
};

std::vector<std::size_t> levels_of(const std::vector<Dimension>& dimensions) {
  std::vector<std::size_t> levels;
  for (const Dimension& d : dimensions) levels.push_back(d.values.size());
  return levels;
}

Value lengths(std::string name, std::function<void(Problem&, std::int64_t P)> set) {
  return {std::move(name), [set](Scenario& s) {
            Problem& p = s.problem;
            p.batch = p.sequence = 0;
            p.lengths.clear();
            p.padded_lengths.clear();
            set(p, s.parallel.ranks);
            p.packed = p.batch == 0;
            p.format = p.packed ? Format::thd : Format::bshd;
            if (!p.packed) p.lengths.assign(static_cast<std::size_t>(p.batch), p.sequence);
            if (p.padded_lengths.empty()) p.padded_lengths = p.lengths;
          }};
}

}  // namespace

std::vector<Dimension> option_dimensions(const Algorithm& algorithm, bool common) {
  const Options options(algorithm, common);
  std::vector<Dimension> dimensions;
  for (const std::vector<std::size_t>& set : options.linked()) dimensions.push_back(options.dimension(set));
  return dimensions;
}

Dimension placement_dimension(const Algorithm& algorithm) {
  Dimension d{"placement", {}};
  for (const PlacementInfo& p : placements())
    if (std::ranges::count(algorithm.placements, p.name) > 0)
      d.values.push_back({std::string(p.name), [&p](Scenario& s) { s.placement = p.name; }});
  return d;
}

Dimension ranks_dimension(const std::vector<int>& ranks) {
  Dimension d{"ranks", {}};
  for (const int P : ranks)
    d.values.push_back({std::to_string(P), [P](Scenario& s) { s.parallel.ranks = P; }});
  return d;
}

Dimension mask_dimension() {
  Dimension d{"mask", {}};
  const auto add = [&](const char* name, bool causal, Window window) {
    d.values.push_back({name, [=](Scenario& s) { s.problem.causal = causal, s.problem.window = window; }});
  };
  add("full", false, {});
  add("causal", true, {});
  add("(5,0)", false, {5, 0});
  add("(6,6)", false, {6, 6});
  add("(0,0)", false, {0, 0});
  add("(-1,3)", false, {-1, 3});
  add("causal (4,9)", true, {4, 9});
  return d;
}

Dimension heads_dimension(const std::vector<std::string>& pairs) {
  Dimension d{"heads", {}};
  for (const std::string& pair : pairs) {
    const std::int64_t heads = std::atoll(pair.c_str()), kv = std::atoll(pair.c_str() + pair.find(':') + 1);
    d.values.push_back({pair, [=](Scenario& s) { s.problem.heads = heads, s.problem.kv_heads = kv; }});
  }
  return d;
}

Dimension size_dimension(const std::vector<std::string>& sizes) {
  Dimension d{"sizes", {}};
  for (const std::string& size : sizes) {
    const auto slash = size.find('/');
    const std::int64_t D = std::atoll(size.c_str());
    const std::int64_t E = slash == std::string::npos ? D : std::atoll(size.c_str() + slash + 1);
    d.values.push_back({size, [=](Scenario& s) {
                          s.problem.head_size = D, s.problem.value_size = E;
                          s.problem.scale = s.problem.attention == Attention::linear
                                                ? 1
                                                : 1 / std::sqrt(static_cast<double>(D));
                        }});
  }
  return d;
}

Dimension length_dimension(std::int64_t scale) {
  const auto packed = [](Problem& p, std::vector<std::int64_t> all, std::vector<std::int64_t> padded) {
    p.lengths = std::move(all);
    p.padded_lengths = std::move(padded);
  };
  return {"lengths",
          {lengths("dense even", [=](Problem& p, auto P) { p.batch = 2, p.sequence = 8 * P * scale; }),
           lengths("dense odd", [=](Problem& p, auto P) { p.batch = 1, p.sequence = 6 * P * scale + 5; }),
           lengths("dense one", [=](Problem& p, auto) { p.batch = 3, p.sequence = 1; }),
           lengths("packed odd",
                   [=](Problem& p, auto P) {
                     packed(p, {2 * P - 1, 0, 1, 2 * P + 1, 17 * scale}, {});
                   }),
           lengths("packed padded",
                   [=](Problem& p, auto P) {
                     packed(p, {7, 3 * P * scale, 13}, {8, 4 * P * scale, 21});
                   }),
           lengths("packed chunks of padding", [=](Problem& p, auto P) {
             packed(p, {3, 0, 9}, {8 * P * scale, 2 * P, 12 * P * scale});
           })}};
}

Dimension dtype_dimension(const std::vector<DType>& dtypes) {
  Dimension d{"dtype", {}};
  for (const DType dtype : dtypes)
    d.values.push_back({std::string(name(dtype)), [dtype](Scenario& s) { s.problem.dtype = dtype; }});
  return d;
}

Dimension direction_dimension() {
  Dimension d{"direction", {}};
  for (const Direction direction : {Direction::forward_backward, Direction::forward, Direction::backward})
    d.values.push_back(
        {std::string(name(direction)), [direction](Scenario& s) { s.problem.direction = direction; }});
  return d;
}

Dimension max_logit_dimension() {
  Dimension d{"max_logit", {}};
  for (const bool asked : {false, true})
    d.values.push_back({asked ? "true" : "false", [asked](Scenario& s) {
                          s.problem.max_logit = asked && s.problem.has_plain_logits();
                        }});
  return d;
}

Dimension transition_dimension(const Algorithm& algorithm) {
  Dimension d{"transition", {}};
  const auto add = [&](const char* name, Transition transition, const std::vector<double>& slopes,
                       Gate gate = Gate::column) {
    d.values.push_back({name, [=](Scenario& s) {
                          s.problem.transition = transition;
                          s.problem.gate = gate;
                          s.problem.slopes = slopes;  // for as many heads as there are: resolve_with_heads
                        }});
  };
  if (attention_of(std::string(algorithm.name)) != Attention::linear) {
    d.values.push_back({"-", [](Scenario&) {}});
    return d;
  }
  add("decay", Transition::decay, {});
  add("decay 0 8", Transition::decay, {0, 8});
  add("head", Transition::head, {});
  add("column", Transition::column, {});
  add("matrix", Transition::matrix, {});
  add("matrix of heads", Transition::matrix, {}, Gate::head);
  return d;
}

Dimension pair_mask_dimension(const Algorithm& algorithm) {
  Dimension d{"pair mask", {{"none", [](Scenario&) {}}}};
  if (attention_of(std::string(algorithm.name)) == Attention::linear) return d;
  // Some algorithms take some of them alone.
  const auto add_softmax = [&](const char* name, BiasForm bias, double softcap, bool sink) {
    const auto choose = [=](Scenario& s) {
      Problem& p = s.problem;
      p.attention = Attention::softmax;
      p.bias = bias, p.softcap = softcap, p.sink = sink;
      if (bias == BiasForm::alibi) p.slopes = {0.5, 0.1};
      if (bias == BiasForm::buckets) p.buckets = 8, p.max_distance = 12;
    };
    Scenario asks = any_scenario(2, std::string(algorithm.name));
    asks.schedule = {};
    choose(asks);
    try {
      (void)resolve_with_heads(asks);
    } catch (const ScenarioError&) {
      return;
    }
    d.values.push_back({name, choose});
  };
  add_softmax("sink", BiasForm::none, 0, true);
  add_softmax("softcap", BiasForm::none, 2, false);
  add_softmax("alibi, softcap, sink", BiasForm::alibi, 30, true);
  add_softmax("buckets, sink", BiasForm::buckets, 0, true);
  add_softmax("softmax keys", BiasForm::keys, 0, true);
  add_softmax("softmax full", BiasForm::full, 0, false);
  if (!placement_for_linear_too(algorithm).empty())
    for (const Transition transition :
         {Transition::decay, Transition::head, Transition::column, Transition::matrix})
      d.values.push_back({"linear " + std::string(name(transition)), [transition](Scenario& s) {
                            s.problem.transition = transition;
                            take_attention(s.problem, Attention::linear);
                          }});
  Scenario asks = any_scenario(2, std::string(algorithm.name));
  asks.schedule = {};
  asks.problem.attention = Attention::dynamic_mask;
  try {
    (void)resolve(asks);
  } catch (const ScenarioError&) {
    return d;
  }
  const auto add = [&](const char* name, BiasForm bias, Keep keep, std::int64_t block, double softcap) {
    d.values.push_back({name, [=](Scenario& s) {
                          Problem& p = s.problem;
                          p.attention = Attention::dynamic_mask;
                          p.bias = bias, p.keep = keep, p.block = block, p.softcap = softcap;
                          p.top_k = keep == Keep::top_k ? 6 : 0;
                        }});
  };
  add("keys", BiasForm::keys, Keep::none, 0, 3);
  add("keys top_k", BiasForm::keys, Keep::top_k, 4, 0);
  add("full", BiasForm::full, Keep::none, 0, 0);
  add("full top_k", BiasForm::full, Keep::top_k, 0, 0);
  add("full relu", BiasForm::full, Keep::relu, 2, 2);
  return d;
}

namespace {

// Keys of their own, `more` of them than there are queries (half as many if that is 0), in each sequence.
void take_keys(Scenario& s, std::int64_t more, Diagonal align, bool everywhere) {
  Problem& p = s.problem;
  for (std::size_t b = 0; b < p.lengths.size(); ++b) {
    const std::int64_t keys = more > 0 ? p.lengths[b] + more : p.lengths[b] / 2;
    p.kv_lengths.push_back(p.packed ? keys : std::max<std::int64_t>(1, keys));
    p.kv_padded_lengths.push_back(p.kv_lengths.back() + (p.packed ? 2 : 0));
  }
  p.kv_sequence = p.packed ? 0 : p.kv_lengths.front();
  p.align = align;
  s.parallel.keys_everywhere = everywhere;
}

// In the first sequence: a group of its first tokens, and the last half of its queries with its first keys.
void take_rectangles(Problem& p) {
  const std::int64_t tokens = p.lengths.front(), half = tokens / 2, few = std::min<std::int64_t>(5, half);
  if (few == 0) return;
  using enum MaskRectangle::Form;
  p.groups = {{0, few}};
  p.rectangles = {{half, tokens, 0, half, causal}, {0, few, half, tokens, inverse_causal}};
}

}  // namespace

Dimension keys_dimension(const Algorithm& algorithm) {
  Dimension d{"keys", {{"own", [](Scenario&) {}}}};
  const auto add = [&](const char* name, std::function<void(Scenario&)> choose) {
    d.values.push_back({name, std::move(choose)});
  };
  if (attention_of(std::string(algorithm.name)) == Attention::linear) return d;
  add("chunks", [](Scenario& s) { s.problem.chunk = 7; });
  add("prefix", [](Scenario& s) { s.problem.prefix = 3; });
  add("rectangles", [](Scenario& s) { take_rectangles(s.problem); });
  add("rectangles alone", [](Scenario& s) {
    take_rectangles(s.problem);
    if (s.problem.rectangles.empty()) return;
    s.problem.causal = false, s.problem.only_rectangles = true, s.problem.window = {};
  });
  if (algorithm.cross) {
    add("more", [](Scenario& s) { take_keys(s, 5, Diagonal::bottom_right, false); });
    add("fewer", [](Scenario& s) { take_keys(s, 0, Diagonal::top_left, false); });
  }
  if (algorithm.keys_everywhere)
    add("everywhere", [](Scenario& s) { take_keys(s, 0, Diagonal::bottom_right, true); });
  return d;
}

Dimension replica_dimension() {
  const auto interleaved = [](Scenario& s) {
    s.parallel.replicas = 2;
    s.parallel.groups = {{}, {}};
    for (int r = 0; r < s.parallel.world(); ++r)
      s.parallel.groups[static_cast<std::size_t>(r) % 2].push_back(r);
    std::ranges::reverse(s.parallel.groups[1]);
  };
  return {"replicas",
          {{"1", [](Scenario& s) { s.parallel.replicas = 1; }},
           {"2", [](Scenario& s) { s.parallel.replicas = 2; }},
           {"2 interleaved", interleaved}}};
}

Scenario scenario_of(const Algorithm& algorithm, const std::vector<Dimension>& dimensions,
                     const Case& values) {
  Scenario s;
  s.algorithm = algorithm.name;
  s.problem.attention = attention_of(s.algorithm);
  if (s.problem.attention == Attention::linear) s.problem.scale = 1;
  for (std::size_t d = 0; d < dimensions.size(); ++d) dimensions[d].values[values[d]].choose(s);
  std::erase_if(s.schedule.options, [&](const auto& each) {
    const OptionInfo* option = find_option(algorithm, each.first);
    return option && !option->is_for(s.problem);
  });
  return resolve_with_heads(s);
}

std::string describe(const std::vector<Dimension>& dimensions, const Case& values) {
  std::string text;
  for (std::size_t d = 0; d < dimensions.size(); ++d)
    text += (d ? ", " : "") + dimensions[d].name + "=" + dimensions[d].values[values[d]].name;
  return text;
}

std::vector<Case> cases_of(const Algorithm& algorithm, const std::vector<Dimension>& dimensions,
                           std::size_t strength, std::size_t* impossible) {
  const auto legal = [&](const Case& values) {
    try {
      scenario_of(algorithm, dimensions, values);
      return true;
    } catch (const ScenarioError&) {
      return false;
    }
  };
  return covering_array(levels_of(dimensions), strength, legal, impossible);
}

std::size_t uncovered(const std::vector<Dimension>& dimensions, std::size_t strength,
                      const std::vector<Case>& cases) {
  return uncovered(levels_of(dimensions), strength, cases);
}

}  // namespace cplab::testing
