// Emission of the operations of linear attention.
#include "algorithms/core/builder.hpp"
#include "algorithms/core/builder_pools.hpp"
#include "plan/chunk_flops.hpp"

namespace cplab {

void Builder::linear(Lane lane, OpKind kind, const std::vector<Named>& reads,
                     const std::vector<Named>& writes, const OnChunks& chunks) {
  const Box* first = nullptr;
  for (const std::vector<Named>* operands : {&reads, &writes})
    for (const Named& each : *operands)
      if (!first && each.box.given()) first = &each.box;
  Operation& op = emit_named(lane, kind, reads, writes);
  op.chunks = pools_->chunks(plan_.chunks, chunks.list);
  op.chunk_work = chunks.work;
  op.reverse = chunks.reverse;
  op.head_begin = static_cast<std::int32_t>(first->problem_heads().begin);
  op.head_end = static_cast<std::int32_t>(first->problem_heads().end);
  op.flops = chunk_flops(plan_, op);
}

}  // namespace cplab
