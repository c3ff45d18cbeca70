// How libFuzzer changes a plan: half of the time single values of the JSON tree, so that what comes out is
// JSON and gets past the parser; else bytes, as libFuzzer does by itself.
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned int seed);

namespace {

using Json = nlohmann::ordered_json;
using Random = std::mt19937;

std::size_t below(Random& random, std::size_t count) {
  return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
}

void collect(Json& value, std::vector<Json*>& all) {
  all.push_back(&value);
  if (value.is_structured())
    for (Json& member : value) collect(member, all);
}

void change_number(Json& value, Random& random) {
  constexpr std::array<std::int64_t, 16> extremes{0,
                                                  1,
                                                  -1,
                                                  2,
                                                  3,
                                                  255,
                                                  256,
                                                  65536,
                                                  std::numeric_limits<std::int32_t>::max(),
                                                  std::numeric_limits<std::int32_t>::min(),
                                                  std::int64_t{1} << 31,
                                                  std::int64_t{1} << 36,
                                                  std::int64_t{1} << 40,
                                                  std::int64_t{1} << 62,
                                                  std::numeric_limits<std::int64_t>::max(),
                                                  std::numeric_limits<std::int64_t>::min()};
  const std::int64_t old = value.is_number_integer() ? value.get<std::int64_t>() : 1;
  switch (below(random, 4)) {
    case 0: value = extremes[below(random, extremes.size())]; break;
    case 1: value = static_cast<std::int64_t>(static_cast<std::uint64_t>(old) + 1); break;
    case 2: value = static_cast<std::int64_t>(static_cast<std::uint64_t>(old) - 1); break;
    default: value = static_cast<std::int64_t>(static_cast<std::uint64_t>(old) * 2); break;
  }
}

void change(Json& value, const std::vector<Json*>& all, Random& random) {
  if (value.is_number() && below(random, 2) == 0) return change_number(value, random);
  if (value.is_array() && !value.empty() && below(random, 3) != 0) {
    const std::size_t at = below(random, value.size());
    const std::size_t other = below(random, value.size());
    switch (below(random, 3)) {
      case 0: value.erase(at); break;
      case 1: {
        const Json twice = value[at];
        value.push_back(twice);
        break;
      }
      default: std::swap(value[at], value[other]); break;
    }
    return;
  }
  // Another value of the file of the same kind: a name that exists, a box of another operation.
  for (int tries = 0; tries < 20; ++tries) {
    const Json* from = all[below(random, all.size())];
    if (from->type() != value.type() || from == &value) continue;
    const Json copy = *from;
    value = copy;
    return;
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned int seed) {
  Random random(seed);
  if (below(random, 8) == 0) return LLVMFuzzerMutate(data, size, most);
  Json tree = Json::parse(data, data + size, nullptr, false);
  if (tree.is_discarded()) return LLVMFuzzerMutate(data, size, most);
  const std::size_t changes = 1 + below(random, 3);
  for (std::size_t i = 0; i < changes; ++i) {
    std::vector<Json*> all;
    collect(tree, all);
    change(*all[below(random, all.size())], all, random);
  }
  const std::string text = tree.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
