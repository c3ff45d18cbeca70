// Emulated backward calls whose kernel works beside tiles (kernels/cuda/hopper/backward_fused/dq_beside.cuh).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>

#include "kernels/work/dq_sections.hpp"
#include "kernels/work/fits.hpp"
#include "kernels/work/params.hpp"
#include "kernels/work/work_list.hpp"

namespace cplab::emulator {

using kernels::cuda::AttendBackwardParams;
using kernels::cuda::BesideTiles;
using kernels::cuda::DeviceView;
using kernels::cuda::DqPart;
using kernels::cuda::DqSections;
using kernels::cuda::WorkTables;

// A call whose kernel prepares and rounds dq beside tiles: what the launch before has not prepared is NaN.
class BesideCall {
 public:
  BesideCall(const WorkTables& by_k, const AttendBackwardParams& params)
      : sections_(
            kernels::cuda::dq_sections(by_k, params.q.rows, kernels::cuda::dq_part_rows(params.q.width))),
        units_(kernels::cuda::hopper::splits_query_heads(params) ? params.q.heads : params.k.heads) {}

  std::int64_t sections() const { return static_cast<std::int64_t>(sections_.all.size()); }

  void set(AttendBackwardParams& params, const DeviceView& out, int together, std::uint64_t seed) const {
    std::mt19937 generator(static_cast<unsigned>(seed));
    const auto up_to = [&](int most) { return static_cast<int>(generator() % (most + 1U)); };
    const int heads_of_tile = params.q.heads / units_, parts = static_cast<int>(sections_.parts.size()),
              all = static_cast<int>(sections_.all.size());
    if (all > 1)
      params.sections = {sections_.of_tile.data(), sections_.all.data(), sections_.parts.data(), all, parts};
    BesideTiles& beside = params.beside;
    beside.out = out;
    beside.heads_together = std::min(together, units_);
    const int groups = up_to((units_ + together - 1) / together);
    beside.ahead_heads = std::min(groups * together, units_) * heads_of_tile;
    beside.ahead_sections = groups == 1 ? up_to(all) : all;
    beside.ahead_parts = beside.ahead_sections == all
                             ? parts
                             : sections_.all[static_cast<std::size_t>(beside.ahead_sections)].first_part;
    beside.rounded_parts = up_to(parts * params.q.heads);
    for (const DqPart& part : sections_.parts)
      for (int head = 0; head < params.q.heads; ++head)
        for (int row = part.begin; row < part.end; ++row)
          prepare(params, row, head, head < beside.ahead_heads && part.section < beside.ahead_sections);
  }

 private:
  static void prepare(const AttendBackwardParams& params, int row, int head, bool ahead) {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    const auto at = [&](const DeviceView& view) {
      return static_cast<float*>(view.data) + head * view.head_stride +
             (view.map != nullptr ? view.map[row] : row) * view.row_stride;
    };
    std::fill_n(at(params.dq), params.dq.width, ahead ? 0.0F : nan);
    if (!ahead) *at(params.delta) = nan;
  }

  DqSections sections_;
  int units_;
};

}  // namespace cplab::emulator
