// The table of kernels: complete, equal to the code, within the budgets of the architectures that are
// claimed.
#include "kernels/compiled.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "kernels/families/linear/variants.hpp"
#include "kernels/families/masked/variants.hpp"

namespace cplab::testing {
namespace {

using namespace kernels;
using namespace kernels::cuda;

constexpr KernelBuild builds[] = {{false, false}, {true, false}, {false, true}, {true, true}};

template <class Variants>
void add_names(std::set<std::string>& names, const Variants& variants) {
  for (const auto& variant : variants) names.insert(variant.name);
}

}  // namespace

TEST_CASE("kernel entries: every variant of every build has some, none has another name, none is twice") {
  for (const KernelBuild& build : builds) {
    std::set<std::string> variants{
        "row_dot",   "merge",          "sink_gradient", "merge_lse",        "rescale",
        "copy",      "cast",           "add",           "maximum",          "fill",
        "mask_scan", "select_keys",    "project",       "project_backward", "weight_gradient",
        "convolve",  "filter_gradient"};
    add_names(variants, attend_variants(build));
    add_names(variants, attend_backward_variants(build));
    add_names(variants, linear_variants(build));
    add_names(variants, masked_variants(build));
    add_names(variants, masked_backward_variants(build));
    std::set<std::string> described, names;
    for (const KernelEntry& entry : kernel_entries(build)) {
      CAPTURE(entry.name());
      described.insert(entry.variant);
      CHECK(names.insert(entry.name()).second);
      CHECK(entry.threads % 32 == 0);
      CHECK(entry.warps() * 32 == entry.threads);
      CHECK((entry.tile_rows == 0) == (entry.stages == 0));
      // Those of gated linear attention need Hopper's shared memory, sums of states do not; so do keys of
      // 576.
      const bool gated = entry.family == "gated" && entry.kind != "linear_combine";
      const bool wide_keys = entry.family == "decode" && entry.key_size > 256 && entry.part == "pieces";
      CHECK((entry.claim == Claim::hopper) == (entry.family == "hopper" || gated || wide_keys));
    }
    CHECK(described == variants);
  }
}

TEST_CASE("kernel entries: what a GPU runs is the nearest code of its major compute capability") {
  CompiledKernel kernel;
  for (const char* name : {"sm_80", "sm_86", "sm_90", "sm_90a", "sm_100"}) {
    CompiledCode code;
    code.architecture = name;
    kernel.codes.push_back(code);
  }
  const auto runs = [&](std::size_t n) { return kernel.code_for(architectures[n])->architecture; };
  CHECK(runs(0) == "sm_80");
  CHECK(runs(1) == "sm_86");
  CHECK(runs(2) == "sm_86");  // 8.9
  CHECK(runs(3) == "sm_90a");
  kernel.codes = {kernel.codes[3]};
  CHECK(kernel.code_for(architectures[2]) == nullptr);
  kernel.codes.clear();
  CHECK(kernel.code_for(architectures[3]) == nullptr);
}

#ifndef CPLAB_TEST_COMPILED
TEST_CASE("compiled kernels: there are none in a build without nvcc") {
  CHECK(compiled_kernels() == nullptr);
}
#else
// compiled_kernels() itself throws where threads, tiles, stages, claims or names differ from the code.
TEST_CASE("compiled kernels: every kernel has an entry, every entry a kernel") {
  const CompiledKernels* compiled = compiled_kernels();
  REQUIRE(compiled != nullptr);
  for (const std::string& name : compiled->without_an_entry) CHECK_MESSAGE(false, name, " has no entry");
  const auto entries = kernel_entries(compiled->build);
  REQUIRE(compiled->kernels.size() == entries.size());
  for (std::size_t n = 0; n < entries.size(); ++n) {
    CHECK(compiled->kernels[n].entry == &entries[n]);
    CHECK_FALSE(compiled->kernels[n].codes.empty());
  }
}

TEST_CASE("compiled kernels: each fits the architectures that it claims, and no other") {
  for (const CompiledKernel& kernel : compiled_kernels()->kernels) {
    CAPTURE(kernel.entry->name());
    for (const Architecture& gpu : architectures) {
      const CompiledCode* code = kernel.code_for(gpu);
      if (code == nullptr) continue;
      CAPTURE(gpu.name);
      if (claims(kernel.entry->claim, gpu)) {
        CHECK(misfit(gpu, kernel.needs(*code)) == "");
        CHECK(occupancy(gpu, kernel.needs(*code)).blocks > 0);
      } else {
        CHECK(misfit(gpu, kernel.needs(*code)) != "");
      }
    }
  }
}

TEST_CASE("compiled kernels: softmax attention and everything for Hopper spill no register") {
  for (const CompiledKernel& kernel : compiled_kernels()->kernels) {
    const KernelEntry& entry = *kernel.entry;
    // Others do, by up to so many bytes: those of linear attention that every architecture has, and fp64.
    const bool is_double = entry.dtype == DType::fp64;
    const bool may_spill = is_double || (entry.kind.starts_with("linear") && entry.family != "hopper");
    const std::int64_t most = !may_spill ? 0 : is_double ? 768 : 256;
    CAPTURE(entry.name());
    for (const CompiledCode& code : kernel.codes) {
      CAPTURE(code.architecture);
      CHECK(code.spill_store_bytes + code.spill_load_bytes <= most);
    }
  }
}
#endif

}  // namespace cplab::testing
