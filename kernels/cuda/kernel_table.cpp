// Gathers the kernels of all families; see kernel_table.hpp.
#include "kernels/cuda/kernel_table.hpp"

namespace cplab::kernels::cuda {

// What each family's folder defines (kernels.cpp): kernels/CMakeLists.txt writes a line for each.
#define CPLAB_FAMILY(NAME) void add_kernels_of_##NAME(KernelTables&);
#include "attention_families.inc"
#undef CPLAB_FAMILY

namespace {

const KernelTables& kernel_tables() {
  static const KernelTables tables = [] {
    KernelTables all;
#define CPLAB_FAMILY(NAME) add_kernels_of_##NAME(all);
#include "attention_families.inc"
#undef CPLAB_FAMILY
    require_same_names(all.attend, attend_variants(built_kernels()));
    require_same_names(all.attend_backward, attend_backward_variants(built_kernels()));
    return all;
  }();
  return tables;
}

}  // namespace

KernelBuild built_kernels() {
  KernelBuild build{.hopper = false, .full = false};
#ifdef CPLAB_HOPPER_KERNELS
  build.hopper = true;
#endif
#ifdef CPLAB_FULL_KERNELS
  build.full = true;
#endif
  return build;
}

const AttendKernel& kernel_of(const AttendVariant& variant) {
  return kernel_tables().attend.at(variant.name);
}

const AttendBackwardKernel& kernel_of(const AttendBackwardVariant& variant) {
  return kernel_tables().attend_backward.at(variant.name);
}

}  // namespace cplab::kernels::cuda
