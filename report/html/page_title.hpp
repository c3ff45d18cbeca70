// What a page says at its top.
#pragma once

#include <string>

namespace cplab {

struct PageTitle {
  std::string title, lead;  // "ring, zigzag", "8 ranks, 1 x 131072 tokens, ..."
};

}  // namespace cplab
