// What CudaCalls holds: tables for device memory, and launch functions whose parameters point into them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/choice/choose.hpp"
#include "kernels/choice/fall_back.hpp"
#include "kernels/cuda.hpp"
#include "kernels/cuda/kernel_table.hpp"
#include "kernels/families/call_tables.hpp"
#include "kernels/families/parts/cuda_error.hpp"

namespace cplab::kernels {

struct CudaCalls::State : cuda::CallTables {
  struct Call {
    std::string variant;
    std::function<void(CudaStream)> launch;
    bool deterministic = true;
    std::string fall_back = {};  // from which kernel, and why
    // Of dynamic mask attention: the scan of the keep mask, and what comes after it.
    std::function<void(CudaStream)> scan = {}, products = {};
  };

  std::vector<Call> calls;
  bool uploaded = false;
  cuda::VariantOptions options;

  template <class Params>
  std::shared_ptr<Params> begin() {
    if (uploaded) throw std::logic_error("CudaCalls: add() after upload()");
    begin_call();
    return std::make_shared<Params>();
  }

  std::size_t push(std::string variant, std::function<void(CudaStream)> launch) {
    calls.push_back({std::move(variant), std::move(launch)});
    keep_call();
    return calls.size() - 1;
  }

  // What is said of the call that was added last.
  std::size_t note(std::size_t number, const std::optional<cuda::FallBack>& fall_back) {
    if (fall_back) calls[number].fall_back = fall_back->text();
    return number;
  }
};

}  // namespace cplab::kernels
