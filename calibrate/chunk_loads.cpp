// Calls of linear attention on operands that rotate; see loads.hpp.
#include <utility>

#include "calibrate/loads.hpp"

namespace cplab::measure {

Load::Load(const DeviceMemory& arena, std::int64_t l2_bytes, const ChunkShape& shape) : arena_(arena) {
  const ChunkLists lists(shape);
  const std::int64_t set_bytes = operand_bytes(shape);
  const int sets = sets_for(set_bytes, set_bytes, l2_bytes);
  for (int set = 0; set < sets; ++set)
    std::visit([&](const auto& call) { timed_.push_back(calls_.add(call)); },
               chunk_call(shape, lists, [&](std::int64_t bytes) { return take(bytes); }));
  // A combine reads from and into, and writes into.
  if (shape.kind == "combine") bytes_ = 1.5 * static_cast<double>(set_bytes);
  operands_ = "bf16, states fp32";
}

}  // namespace cplab::measure
