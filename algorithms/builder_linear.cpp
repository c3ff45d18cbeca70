// Emission of the operations of linear attention.
#include "algorithms/builder.hpp"
#include "algorithms/builder_pools.hpp"
#include "plan/chunk_flops.hpp"

namespace cplab {

Operation& Builder::emit_named(Lane lane, OpKind kind, const std::vector<Named>& reads,
                               const std::vector<Named>& writes) {
  std::int64_t bytes = 0;
  const auto collect = [&](const std::vector<Named>& operands, std::vector<Access>& list) {
    list.clear();
    for (const Named& each : operands) {
      if (!each.box.given()) continue;
      list.push_back({intern_view(each.box.view()), each.mode, each.operand});
      bytes += view_bytes(plan_, each.box.view(), problem().dtype) * (each.mode == WriteMode::store ? 1 : 2);
    }
  };
  collect(reads, pools_->access_list);
  collect(writes, pools_->written_list);
  return emit_accesses(lane, kind, bytes);
}

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
