// The only numbers of a step that are fitted to published steps of whole models; everything else is a data
// sheet's, a measured kernel's or has a reason. Fitted to rows marked `fit` of
// scenarios/published/whole-model-rows.csv alone (docs/17-whole-models.md); rows marked `check` are held out.
#pragma once

namespace cplab {

struct Fitted {
  // Of the compute of a step, the time that no kernel of it takes: gaps between kernels, clocks that fall
  // where all GPUs work at once, small kernels that no formula names. Rows n001, n003 (8 x B200, bf16), n095,
  // n097 (8 x H100).
  double gaps = 0.06;
  // The rate of FP8 products as a share of what bf16's share of peak says: scaling factors, and a peak twice
  // as high that power does not allow for. Rows n016 (GB300), n074, n076 (B200).
  double fp8 = 1.0;
  // The same of FP4 products. Row n018 (GB300).
  double fp4 = 1.0;
};
constexpr Fitted fitted;

}  // namespace cplab
