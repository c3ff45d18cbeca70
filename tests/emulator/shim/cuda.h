// Stands in for CUDA's header: a tensor map that says what it means.
#pragma once

#include "kernels/tiles/params.hpp"

struct CUtensorMap {
  cplab::kernels::cuda::DeviceView view;
  int rows = 0;     // of a tile
  int columns = 0;  // likewise; 0: all
  bool single_groups = false;  // tiles of one group of 128 bytes of columns, which may begin at any of them
};
