// Machines of which no more is known than a data sheet says, and which share of it kernels of a class reach:
// the rest is as measured on another machine.
#pragma once

#include "sim/hardware.hpp"

namespace cplab {

// Sections that the sheet's own file has; what it says it says alone.
struct SaidSections {
  bool host = false, fixed = false;
};

// Fills in what `sheet` leaves out. `measured` is a machine whose tables are a library's attention in bf16,
// element-wise kernels in bf16, messages over its links and NICs, and interference:
// - host costs and memory beside the plan are those of `measured`;
// - attention of bf16 and fp16: its tables, in which a tile of one multiprocessor takes as many times longer
//   as the sheet's efficiency x peak / multiprocessors is less than measured's; launches stay. So tiles,
//   waves and short calls behave as measured, and long full ones with heads of 128 reach efficiency x peak;
// - element-wise kernels of all dtypes likewise, by efficiency x copy_bytes_s;
// - messages: its curves with the links that they were measured over (Hardware::curve_bytes_s), from which
//   start-up and efficiency over the sheet's own follow;
// - interference where the sheet has none.
// A table is filled in where the sheet has none of its class and dtype (messages: kind, transport and path).
// Efficiencies that the sheet does not say are those of `measured`. All of it is assumed. Peaks, memory and
// links are those of the sheet's file, whatever was set since (measured_gpu()).
void complete_data_sheet(Hardware& sheet, const Hardware& measured, const SaidSections& said);

}  // namespace cplab
