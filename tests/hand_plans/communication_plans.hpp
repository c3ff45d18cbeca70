// Plans that only communicate, written by hand: input given or own, output all, own or heads. For tests of
// what is sent, gathered and summed, on the CPU and on GPUs.
#pragma once

#include <cstdint>

#include "plan/plan.hpp"

namespace cplab::hand {

// `rows` tokens a rank, 2 heads of 5 columns, in bf16; zigzag: a rank's rows are two halves.
struct Shape {
  int P = 4;
  std::int64_t rows = 6;
  bool zigzag = false, in_place = false;
  std::int64_t planes = 3;
  Role role = Role::nominal;
};

// K and V of every member to all, into planes that span all rows: own -> all, both with the planes of the
// shape.
Plan gather(const Shape&);
// The gradients of all rows, summed where the rows are: given -> own.
Plan scatter(const Shape&);
// Heads [0, heads) of [rows, 4, 3], over all ranks, in place; the others stay: given -> all.
Plan reduce(const Shape&, Reduction, Layout, std::int32_t heads);
// Every rank's LSE of its `rows` tokens and all H heads becomes that of all tokens and H/P heads: tokens ->
// heads.
Plan trade_of_lse(int P, std::int64_t rows, std::int32_t H, Layout from, Layout into);

// All communication over this link.
void set_transport(Plan&, Transport);

}  // namespace cplab::hand
