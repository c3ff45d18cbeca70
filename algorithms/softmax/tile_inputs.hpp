// What a tile reads: a view of the operand's rows, or TransformerEngine's form, a contiguous copy of the rows
// where they are not all of them (half tiles of a zigzag placement).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "algorithms/core/scope.hpp"

namespace cplab {

class TileInputs {
 public:
  // `tiles`: all tiles to come; a copy's buffer has as many rows as the largest tile of some rows needs.
  TileInputs(const Scope&, bool copies, const std::vector<Tile>& tiles);
  Box queries(Lane, const std::string& name, const Box& from, const Tile&);
  Box keys(Lane, const std::string& name, const Box& from, const Tile&);

 private:
  Box read(Lane, const std::string& name, const Box& from, const Rows&, std::int64_t all, std::int64_t most);

  const Scope& s_;
  Builder& b_;
  bool copies_;
  std::int64_t most_queries_ = 0, most_keys_ = 0;
  std::map<std::string, Box> buffers_;
};

}  // namespace cplab
