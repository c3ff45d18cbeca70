// The executor's order: which of the items that are ready comes next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

#include "derive/walk.hpp"
#include "exec/cpu/executor.hpp"

namespace cplab {

// operation: starts `op` (computes it, or posts it). transfer, meeting: moves the data of one matched pair of
// parts, or of one all_reduce or barrier; `index` says which.
struct ReadyItem {
  enum class Kind : std::uint8_t { operation, transfer, meeting };
  Kind kind = Kind::operation;
  OpRef op;
  std::size_t index = 0;
  Lane lane;  // of `op`
};

// The items that are ready. Deterministic: the same pushes and seed give the same order on every platform.
class ReadyPool {
 public:
  explicit ReadyPool(ExecutionOrder order);

  bool empty() const { return pool_.empty() && first_.empty(); }
  void push(const ReadyItem& item);
  ReadyItem take();

 private:
  struct Later {
    bool operator()(const ReadyItem& a, const ReadyItem& b) const;
  };
  std::size_t choose();
  std::uint64_t priority(const ReadyItem& item) const;

  ExecutionOrder order_;
  std::uint64_t state_;
  std::uint64_t taken_ = 0;
  std::vector<ReadyItem> pool_;                                          // random
  std::priority_queue<ReadyItem, std::vector<ReadyItem>, Later> first_;  // program
};

}  // namespace cplab
