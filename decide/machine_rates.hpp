// What a machine does in the parts of a step that no plan describes: matrix products, element-wise kernels,
// collectives of other groups than context parallelism's, and copies to the host. Each time has an origin.
#pragma once

#include <cstdint>
#include <string_view>

#include "decide/resources.hpp"
#include "sim/hardware.hpp"

namespace cplab {

// Ranks of one group: `size` of them, `stride` GPUs apart in the order in which ranks fill nodes.
struct GroupShape {
  std::int64_t size = 1, stride = 1;
};

// A kernel's time, and what bounds it: products, memory or launches.
struct KernelTime : Estimate {
  Resource bound = Resource::products;
};

// A message's time: before its bytes move, and what they go through.
struct WireTime : Estimate {
  double startup_s = 0;
  Resource carrier = Resource::links;
  void add_to(ResourceSeconds& path, double times = 1) const {
    path.add(Resource::launches, times * startup_s);
    path.add(carrier, times * (seconds - startup_s));
  }
};

// Of an element of a product's operand: bf16, fp16 2, fp8 1, fp4 a half.
double operand_bytes(std::string_view dtype);
// fp8, fp4: operands that a kernel has made narrower than what layers hand on.
bool is_narrow(std::string_view dtype);

class MachineRates {
 public:
  // `hardware` must outlive it.
  explicit MachineRates(const Hardware& hardware) : hardware_(hardware) {}

  // C[m,n] += A[m,k] B[k,n], `groups` of them in one launch. Tiles of 128 x 256 fill the multiprocessors in
  // waves at gemm_efficiency() of peak_flops, and no faster than the operands go through memory. `dtype`:
  // bf16, fp16, fp8, fp4. Of a GPU without that type's peak: bf16's, since such products are then computed in
  // bf16.
  KernelTime product(std::string_view dtype, double m, double n, double k, double groups = 1) const;
  // Of element-wise kernels: bytes read plus bytes written.
  KernelTime move(double bytes) const;

  // all_gather and reduce_scatter of a group: `bytes` is the whole (gathered) operand; (size - 1) / size of
  // it goes over the wire. A group that spans nodes has as many rings as it has members of a node, one
  // through the NICs of each.
  WireTime gather(GroupShape, double bytes) const;
  // Each member has `bytes`, and sends (size - 1) / size of them, to each other member the same part.
  WireTime all_to_all(GroupShape, double bytes) const;
  // To the neighbour `stride` GPUs further.
  WireTime send(std::int64_t stride, double bytes) const;
  // To or from the host's memory, all GPUs of a node at once.
  Estimate to_host(double bytes) const;

  // Share of peak_flops that large products reach, partial waves apart: what [efficiency] says, else the
  // median over the file's [[gemm]] tables, else efficiency_of().
  Estimate gemm_efficiency(std::string_view dtype) const;
  double peak_flops(std::string_view dtype) const;

  const Hardware& hardware() const { return hardware_; }

 private:
  Path path_of(GroupShape) const;
  // What one member sends and what it can send a second, over the path of its group.
  WireTime wire(OpKind, GroupShape, double sent_bytes) const;
  double waves_share(double m, double n, double groups) const;
  double held_flops(std::string_view dtype, double share) const;

  const Hardware& hardware_;
};

// Assumed, since no hardware file says so: bytes a second between a GPU and its host over PCIe 5 x16, one
// direction, and of host memory bandwidth that the update of an optimizer on the host reaches, for each GPU.
constexpr double usual_host_link_bytes_s = 45e9;
constexpr double usual_host_update_bytes_s = 40e9;

}  // namespace cplab
