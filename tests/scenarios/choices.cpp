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
  Options(const Algorithm& algorithm, bool common, Attention attention, bool latents)
      : base_(any_scenario(4, std::string(algorithm.name))), all_(algorithm.options) {
    base_.schedule = {};
    base_.problem.kv_heads = base_.problem.heads;  // enough for options that cut heads in strides
    if (base_.problem.attention != attention) {
      take_attention(base_.problem, attention);
      base_.placement = placement_for_linear_too(algorithm);
    }
    if (latents) take_latents(base_.problem);
    std::erase_if(all_, [&](const OptionInfo& o) { return !o.is_for(base_.problem); });
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
  std::optional<Schedule> resolved(const std::vector<std::size_t>& set,
                                   const std::vector<Setting>& chosen) const {
    Scenario s = base_;
    for (std::size_t i = 0; i < set.size(); ++i)
      if (chosen[i]) s.schedule.set(all_[set[i]].key, *chosen[i]);
    try {
      return resolve(s).schedule;
    } catch (const ScenarioError&) {
      return std::nullopt;
    }
  }
  bool legal(const std::vector<std::size_t>& set, const std::vector<Setting>& chosen) const {
    return resolved(set, chosen).has_value();
  }
  bool restrict_each_other(std::size_t a, std::size_t b) const {
    for (const Setting& x : settings_of(all_[a]))
      for (const Setting& y : settings_of(all_[b]))
        if (legal({a, b}, {x, y}) != (legal({a}, {x}) && legal({b}, {y}))) return true;
    return false;
  }
  // A combination that leaves an option out counts only where the option has no value.
  void add(Dimension& d, const std::vector<std::size_t>& set, const std::vector<Setting>& chosen) const {
    const std::optional<Schedule> schedule = resolved(set, chosen);
    if (!schedule) return;
    Value value;
    std::vector<std::pair<std::string, OptionValue>> options;
    for (std::size_t i = 0; i < set.size(); ++i) {
      const std::string key(all_[set[i]].key);
      if (!chosen[i] && schedule->find(key)) return;
      value.name += (i > 0 ? "/" : "") + (chosen[i] ? to_string(*chosen[i]) : "-");
      if (chosen[i]) options.emplace_back(key, *chosen[i]);
    }
    value.choose = [options](Scenario& s) {
      for (const auto& [key, option] : options) s.schedule.set(key, option);
    };
    d.values.push_back(std::move(value));
  }

  Scenario base_;
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
  return option_dimensions(algorithm, common, attention_of(std::string(algorithm.name)));
}

std::vector<Dimension> option_dimensions(const Algorithm& algorithm, bool common, Attention attention,
                                         bool latents) {
  const Options options(algorithm, common, attention, latents);
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
