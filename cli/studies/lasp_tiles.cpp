// Tiles that read fp32 copies of their rows; see lasp_tiles.hpp.
#include "cli/studies/lasp_tiles.hpp"

#include <cstddef>
#include <list>
#include <optional>
#include <vector>

#include "kernels/cpu/view_rows.hpp"

namespace cplab {

namespace {

// Copies of rows in fp32, which live as long as this.
class WideRows {
 public:
  void widen(kernels::View& view) {
    if (view.dtype == kernels::DType::fp64) return;
    const kernels::ViewRows rows(view);
    std::vector<float>& values =
        copies_.emplace_back(static_cast<std::size_t>(view.rows * view.heads * view.width));
    for (std::int64_t row = 0; row < view.rows; ++row)
      for (std::int64_t head = 0; head < view.heads; ++head)
        rows.load(row, head, &values[static_cast<std::size_t>((row * view.heads + head) * view.width)]);
    view = {values.data(), kernels::DType::fp32,    view.rows,  view.heads,
            view.width,    view.heads * view.width, view.width, {}};
  }
  void widen(std::optional<kernels::View>& view) {
    if (view) widen(*view);
  }

 private:
  std::list<std::vector<float>> copies_;
};

const kernels::LinearTiles& right() {
  return kernels::cpu_linear_tiles();
}

const kernels::LinearTiles& with_defects() {
  static const kernels::LinearTiles both = [] {
    kernels::LinearTiles tiles = *kernels::faulty_cpu_linear_tiles("bf16-state");
    tiles.inter = kernels::faulty_cpu_linear_tiles("bf16-index")->inter;
    return tiles;
  }();
  return both;
}

template <const kernels::LinearTiles& (*base)()>
kernels::LinearTiles wide() {
  kernels::LinearTiles tiles = base();
  tiles.local = [](const kernels::LinearLocal& call) {
    kernels::LinearLocal with = call;
    WideRows rows;
    for (kernels::View* view : {&with.q, &with.k, &with.v}) rows.widen(*view);
    base().local(with);
  };
  tiles.local_backward = [](const kernels::LinearLocalBackward& call) {
    kernels::LinearLocalBackward with = call;
    WideRows rows;
    for (kernels::View* view : {&with.q, &with.k, &with.v, &with.dout}) rows.widen(*view);
    base().local_backward(with);
  };
  tiles.state = [](const kernels::LinearState& call) {
    kernels::LinearState with = call;
    WideRows rows;
    for (kernels::View* view : {&with.rows, &with.columns}) rows.widen(*view);
    base().state(with);
  };
  tiles.inter = [](const kernels::LinearInter& call) {
    kernels::LinearInter with = call;
    WideRows rows;
    for (std::optional<kernels::View>* view : {&with.q, &with.k, &with.v, &with.dout}) rows.widen(*view);
    base().inter(with);
  };
  return tiles;
}

}  // namespace

const kernels::LinearTiles& lasp_tiles(bool defects) {
  static const kernels::LinearTiles without = wide<right>(), with = wide<with_defects>();
  return defects ? with : without;
}

}  // namespace cplab
