// The only numbers of a step that are fitted to published steps of whole models; everything else is a data
// sheet's, a measured kernel's or has a reason. Fitted to rows marked `fit` of
// scenarios/published/whole-model-rows.csv alone (docs/17-whole-models.md); rows marked `check` are held out.
#pragma once

namespace cplab {

struct Fitted {
  // Of the compute of a step, the time that no kernel of it takes: gaps between kernels, clocks that fall
  // where all GPUs work at once, small kernels that no formula names. Median over rows n001, n003 (8 x B200,
  // bf16), n095, n097 (8 x H100, bf16).
  double gaps = 0.15;
  // FLOPs a second of FP8 products over those of bf16 where power bounds both: operands of half the bits take
  // less than half the energy. Rows n016 (GB300), n074, n076 (B200).
  double fp8_of_bf16 = 2.6;
  // The same of FP4, which on GB200 and GB300 is above what such products reach of their own peak: that
  // binds. Row n018 (GB300).
  double fp4_of_bf16 = 6.7;
};
constexpr Fitted fitted;

}  // namespace cplab
