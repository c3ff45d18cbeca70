// The product of a study's axes, without what its constraints leave out; see study.hpp.
#include <algorithm>
#include <map>

#include "cli/files/changes.hpp"
#include "cli/sweep/study.hpp"

namespace cplab {

namespace {

Expression::Value value_for_constraint(const SweepValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return value_of_text(*text);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* count = std::get_if<std::int64_t>(&value)) return static_cast<double>(*count);
  return std::get<double>(value);
}

// What a key is where a scenario does not say it: another key, or a value. Keys whose default takes more than
// that are not among them.
const std::map<std::string, std::variant<double, std::string>>& defaults() {
  static const std::map<std::string, std::variant<double, std::string>> table{
      {"problem.attention", "softmax"},
      {"problem.batch", 1.0},
      {"problem.direction", "forward+backward"},
      {"problem.format", "bshd"},
      {"problem.kv_heads", "problem.heads"},
      {"problem.value_size", "problem.head_size"},
      {"parallel.replicas", 1.0}};
  return table;
}

// Values of keys that do not vary: of the command line, the scenario, its defaults.
class FixedValues {
 public:
  FixedValues(Table table, const std::vector<std::string>& changes) : table_(std::move(table)) {
    std::vector<std::string> unused;
    for (const auto& [key, value] : apply_changes(table_, changes, unused))
      if (value != no_value) hardware_.insert_or_assign("hardware." + key, value_of_text(value));
  }

  // Throws ExpressionError for a key that nobody gave a value.
  Expression::Value of(const std::string& key, const Expression::Lookup& all) const {
    if (const auto found = hardware_.find(key); found != hardware_.end()) return found->second;
    const std::size_t dot = key.find('.');
    const std::string section = key.substr(0, dot), name = key.substr(dot + 1);
    if (table_.kind(section) == Table::Kind::table) {
      const Table inner = table_.table(section);
      if (inner.kind(name) != Table::Kind::missing) return value_for_constraint(inner.value(name).value);
    }
    const auto known = defaults().find(key);
    if (known == defaults().end())
      throw ExpressionError(key + " is no key that varies, and the scenario does not set it");
    if (const auto* number = std::get_if<double>(&known->second)) return *number;
    const std::string& text = std::get<std::string>(known->second);
    return text.find('.') == std::string::npos ? Expression::Value(text) : all(text);
  }

 private:
  Table table_;
  std::map<std::string, Expression::Value> hardware_;
};

// Of a change of --set: "problem.heads=8", "problem.heads = 8".
bool sets_key(const std::string& change, const std::string& key) {
  const std::size_t from = change.find_first_not_of(" \t");
  if (from == std::string::npos || change.compare(from, key.size(), key) != 0) return false;
  const std::size_t behind = change.find_first_not_of(" \t", from + key.size());
  return behind != std::string::npos && change[behind] == '=';
}

std::string condition_text(const StudyConstraint& constraint) {
  return constraint.why.empty() ? constraint.where.text()
                                : constraint.where.text() + " (" + constraint.why + ")";
}

}  // namespace

StudyPoints::StudyPoints(const Study& study, const std::vector<std::string>& changes)
    : axes_(study.axes), constraints_(study.constraints) {
  for (const StudyAxis& axis : axes_) {
    for (const std::string& key : axis.keys)
      for (const std::string& change : changes)
        if (sets_key(change, key)) throw InputError(option_text(change) + ": the study varies " + key);
    const auto rows = static_cast<std::int64_t>(axis.rows.size());
    if (product_ > most / rows)
      throw InputError(study.path + ": vary: more than " + std::to_string(most) +
                       " points; legal: fewer values, or several studies");
    product_ *= rows;
  }
  for (const StudyConstraint& constraint : constraints_)
    excluded_.emplace_back(condition_text(constraint), 0);
  const FixedValues others(study.table(), changes);
  const Fixed fixed = [&](const std::string& key, const Expression::Lookup& all) {
    return others.of(key, all);
  };
  for (std::int64_t place = 0; place < product_; ++place)
    if (keep(rows(place), fixed)) kept_.push_back(place);
}

std::vector<std::size_t> StudyPoints::rows(std::int64_t place) const {
  std::vector<std::size_t> rows(axes_.size());
  for (std::size_t a = axes_.size(); a-- > 0;) {
    const auto count = static_cast<std::int64_t>(axes_[a].rows.size());
    rows[a] = static_cast<std::size_t>(place % count);
    place /= count;
  }
  return rows;
}

bool StudyPoints::keep(const std::vector<std::size_t>& rows, const Fixed& fixed) {
  Expression::Lookup lookup;
  lookup = [&](const std::string& key) -> Expression::Value {
    for (std::size_t a = 0; a < axes_.size(); ++a)
      for (std::size_t k = 0; k < axes_[a].keys.size(); ++k)
        if (axes_[a].keys[k] == key) return value_for_constraint(axes_[a].rows[rows[a]][k].value);
    return fixed(key, lookup);
  };
  for (std::size_t c = 0; c < constraints_.size(); ++c) {
    try {
      if (constraints_[c].where.holds(lookup)) continue;
    } catch (const ExpressionError& error) {
      throw InputError(constraints_[c].place + error.what());
    }
    ++excluded_[c].second;
    return false;
  }
  return true;
}

std::vector<std::string> StudyPoints::keys() const {
  std::vector<std::string> keys;
  for (const StudyAxis& axis : axes_) keys.insert(keys.end(), axis.keys.begin(), axis.keys.end());
  return keys;
}

std::vector<std::pair<std::string, StudyValue>> StudyPoints::values(std::int64_t number) const {
  std::vector<std::pair<std::string, StudyValue>> values;
  const std::vector<std::size_t> chosen = rows(kept_[static_cast<std::size_t>(number)]);
  for (std::size_t a = 0; a < axes_.size(); ++a)
    for (std::size_t k = 0; k < axes_[a].keys.size(); ++k)
      values.emplace_back(axes_[a].keys[k], axes_[a].rows[chosen[a]][k]);
  return values;
}

std::vector<std::string> StudyPoints::changes(std::int64_t number) const {
  std::vector<std::string> changes;
  for (const auto& [key, value] : values(number)) changes.push_back(key + "=" + value.set);
  return changes;
}

}  // namespace cplab
