// How fast the kernels are that the tables of a hardware file were measured on.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "report/json_writer.hpp"
#include "report/table.hpp"
#include "sim/hardware.hpp"

namespace cplab {

// One point of a table. Attention and linear attention: FLOPs as plans count them (live pairs times 2(D+E) or
// 2(3D+2E); chunk_flops) over time; others: bytes read plus written over time. The other of the two is 0.
struct KernelRate {
  std::string variant;  // the table's
  std::string gpu;      // the file's
  DType dtype = DType::bf16;
  std::int64_t head_size = 0, value_size = 0;
  std::string mask;                                 // "full", "causal"; empty: not attention
  std::int64_t batch = 0, sequence = 0, heads = 0;  // 0: a curve over bytes
  double bytes = 0;
  double seconds = 0;
  double flops_s = 0, bytes_s = 0;
  Provenance provenance;
};

// All points of the file's tables of these variants, in the order of the file. `file` as [hardware] file of a
// scenario names it; sets: --set hardware.KEY=VALUE. Throws InputError.
std::vector<KernelRate> kernel_rates(const std::string& file, const std::vector<std::string>& sets,
                                     const std::vector<std::string>& variants);

// The member measured[], all points.
void write_rates(JsonWriter&, const std::vector<KernelRate>&);
// A table of the fastest point of each variant, dtype, sizes and mask.
void write_rates(std::ostream&, const std::string& file, const std::vector<KernelRate>&, const TextStyle&);

}  // namespace cplab
