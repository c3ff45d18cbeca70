// Tensors by DLPack as places of a plan's buffers; see tensor_run.hpp.
#include "python/tensor_run.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "exec/bind.hpp"
#include "exec/gpu/executor.hpp"
#include "exec/gpu/tensor_run.hpp"
#include "kernels/no_gpu_code.hpp"
#include "report/plan_json.hpp"

namespace nb = nanobind;

namespace cplab {
namespace {

using Array = nb::ndarray<>;

Phase phase_of(const std::string& word) {
  if (word == "forward") return Phase::forward;
  if (word == "backward") return Phase::backward;
  throw std::invalid_argument("phase \"" + word + "\"; legal: forward, backward");
}

std::string label_of(const PhaseTensor& tensor) {
  return tensor.plane < 0 ? tensor.buffer : tensor.buffer + (tensor.plane == 0 ? ", keys" : ", values");
}

bool has_dtype(const Array& array, DType dtype) {
  const auto code = static_cast<nb::dlpack::dtype_code>(array.dtype().code);
  if (array.dtype().lanes != 1) return false;
  switch (dtype) {
    case DType::fp64: return code == nb::dlpack::dtype_code::Float && array.dtype().bits == 64;
    case DType::fp32: return code == nb::dlpack::dtype_code::Float && array.dtype().bits == 32;
    case DType::fp16: return code == nb::dlpack::dtype_code::Float && array.dtype().bits == 16;
    case DType::bf16: return code == nb::dlpack::dtype_code::Bfloat && array.dtype().bits == 16;
  }
  return false;
}

bool lies_without_gaps(const Array& array) {
  std::int64_t distance = 1;
  for (std::size_t axis = array.ndim(); axis-- > 0;) {
    if (array.shape(axis) != 1 && array.stride(axis) != distance) return false;
    distance *= static_cast<std::int64_t>(array.shape(axis));
  }
  return true;
}

// The last line of defence before a kernel takes the address: cplab/torch.py has said what is wrong in terms
// of attention, and has copied what lies otherwise.
TensorPlace place_of(const Array& array, const PhaseTensor& tensor, int device) {
  const auto fail = [&](const std::string& what) {
    throw std::invalid_argument(label_of(tensor) + ": " + what);
  };
  if (tensor.bytes == 0) return {};
  if (array.device_type() != nb::device::cuda::value || array.device_id() != device)
    fail("is not on GPU " + std::to_string(device));
  const bool bytes = array.dtype() == nb::dtype<std::uint8_t>();
  if (!bytes && !has_dtype(array, tensor.dtype)) fail("has another dtype than the plan");
  TensorPlace place{static_cast<std::byte*>(array.data()), 0, 0};
  if (reinterpret_cast<std::uintptr_t>(place.data) % 16 != 0) fail("is not aligned to 16 bytes");
  if (static_cast<std::int64_t>(array.nbytes()) != tensor.bytes)
    fail("has " + std::to_string(array.nbytes()) + " bytes, not " + std::to_string(tensor.bytes));
  if (lies_without_gaps(array)) return place;
  const std::int64_t unit = 16 / (array.dtype().bits / 8);
  const bool fits = tensor.any_strides && array.ndim() == 3 &&
                    static_cast<std::int64_t>(array.shape(0)) == tensor.rows &&
                    static_cast<std::int64_t>(array.shape(1)) == tensor.heads &&
                    (array.stride(2) == 1 || array.shape(2) == 1) && array.stride(0) > 0 &&
                    array.stride(1) > 0 && array.stride(0) % unit == 0 && array.stride(1) % unit == 0;
  if (!fits) fail("lies with gaps that the plan cannot take");
  place.row_stride = array.stride(0);
  place.head_stride = array.stride(1);
  return place;
}

class PyTensorRun {
 public:
  // `text`: a plan as `show --json` writes it.
  PyTensorRun(const std::string& text, int rank, int device, const nb::bytes& id, bool deterministic,
              std::size_t keep)
      : device_(device) {
    if (!have_gpu_device()) throw GpuError(kernels::no_gpu_code);
    const std::vector<char> world(id.c_str(), id.c_str() + id.size());
    const nb::gil_scoped_release released;
    try {
      run_ = std::make_unique<TensorRun>(read_plan_json(text, "the plan"), rank, device, world, deterministic,
                                         keep);
    } catch (const BadPlan& error) {
      throw std::invalid_argument(error.what());
    }
  }
  ~PyTensorRun() {  // waits for the GPU
    const nb::gil_scoped_release released;
    run_.reset();
  }
  PyTensorRun(const PyTensorRun&) = delete;
  PyTensorRun& operator=(const PyTensorRun&) = delete;

  static nb::bytes make_id() {
    const std::vector<char> id = TensorRun::make_id();
    return nb::bytes(id.data(), id.size());
  }

  nb::list tensors(const std::string& phase) const {
    nb::list list;
    for (const PhaseTensor& tensor : run_->tensors(phase_of(phase))) {
      nb::dict of;
      of["buffer"] = tensor.buffer;
      of["plane"] = tensor.plane;
      of["category"] = std::string(name(tensor.category));
      of["written"] = tensor.written;
      of["dtype"] = std::string(name(tensor.dtype));
      of["heads_first"] = tensor.layout == Layout::heads_first;
      of["slots"] = tensor.slots;
      of["rows"] = tensor.rows;
      of["heads"] = tensor.heads;
      of["width"] = tensor.width;
      of["bytes"] = tensor.bytes;
      of["any_strides"] = tensor.any_strides;
      list.append(of);
    }
    return list;
  }

  void queue(const std::string& phase, const nb::list& tensors, const Array& scratch, std::uintptr_t stream) {
    const std::vector<PhaseTensor>& wanted = run_->tensors(phase_of(phase));
    if (tensors.size() != wanted.size()) throw std::invalid_argument("another number of tensors");
    std::vector<Array> arrays;  // hold the memory until all is queued
    std::vector<TensorPlace> places;
    for (std::size_t t = 0; t < wanted.size(); ++t) {
      arrays.push_back(nb::cast<Array>(tensors[t]));
      places.push_back(place_of(arrays.back(), wanted[t], device_));
    }
    if (static_cast<std::int64_t>(scratch.nbytes()) < run_->scratch_bytes())
      throw std::invalid_argument("the scratch memory is too small");
    auto* const memory = static_cast<std::byte*>(scratch.data());
    const nb::gil_scoped_release released;
    run_->queue(phase_of(phase), places, memory, reinterpret_cast<void*>(stream));
  }

  std::int64_t scratch_bytes() const { return run_->scratch_bytes(); }
  std::int64_t known() const { return run_->known(); }
  std::int64_t bound() const { return run_->bound(); }
  nb::list variants(const std::string& phase) const {
    nb::list list;
    for (const auto& [id, variant] : run_->variants(phase_of(phase)))
      list.append(nb::make_tuple(id, variant));
    return list;
  }

 private:
  int device_;
  std::unique_ptr<TensorRun> run_;
};

}  // namespace

void add_tensor_run(nb::module_& module) {
  module.def("have_gpu_code", &have_gpu_device);
  nb::class_<PyTensorRun>(module, "TensorRun")
      .def(nb::init<const std::string&, int, int, const nb::bytes&, bool, std::size_t>(), nb::arg("text"),
           nb::arg("rank"), nb::arg("device"), nb::arg("id"), nb::arg("deterministic"), nb::arg("keep"))
      .def_static("make_id", &PyTensorRun::make_id)
      .def("tensors", &PyTensorRun::tensors, nb::arg("phase"))
      .def("queue", &PyTensorRun::queue, nb::arg("phase"), nb::arg("tensors"), nb::arg("scratch"),
           nb::arg("stream"))
      .def("variants", &PyTensorRun::variants, nb::arg("phase"))
      .def_prop_ro("scratch_bytes", &PyTensorRun::scratch_bytes)
      .def_prop_ro("known", &PyTensorRun::known)
      .def_prop_ro("bound", &PyTensorRun::bound);
}

}  // namespace cplab
