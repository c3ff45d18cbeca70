// Which buffers of a rank a framework's tensors stand for in one phase, and where the others lie in scratch
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/bind.hpp"
#include "exec/gpu/tensor_run.hpp"
#include "plan/plan.hpp"

namespace cplab {

// The planes of every rank's buffer kv, if it is an input, are tensors of their own from now on
// (Buffer::apart): a framework has K and V apart, and both ends of a message have to see the same pieces.
void part_inputs(Plan&);

// Whether anything goes over nccl. Throws std::invalid_argument for what goes over copy between ranks: that
// link writes into peers' memory, and a framework's tensors are not mapped there.
bool needs_nccl(const Plan&);

class PhaseMemory {
 public:
  // Of a rank with the operations of one phase (derive/phases.hpp); the plan outlives this.
  PhaseMemory(const RankPlan& plan, DType nominal);

  const std::vector<PhaseTensor>& tensors() const { return tensors_; }
  std::int64_t scratch_bytes() const { return scratch_bytes_; }
  // By buffer of the rank. `places` in the order of tensors(); of buffers that the phase does not touch
  // nothing.
  std::vector<BufferMemory> places(std::span<const TensorPlace> places, std::byte* scratch) const;

 private:
  void find_uses();
  void add_tensors(std::uint32_t buffer, DType nominal);
  void place_scratch();

  struct Use {
    bool read = false, written = false, sent = false;
    bool any() const { return read || written; }
  };
  const RankPlan& plan_;
  std::vector<Use> uses_;  // by buffer
  std::vector<PhaseTensor> tensors_;
  std::vector<std::uint32_t> buffers_;  // by tensor
  std::vector<std::int64_t> scratch_;   // by buffer, its offset; -1: none
  std::int64_t scratch_bytes_ = 0;
};

}  // namespace cplab
