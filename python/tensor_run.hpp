// Plans on tensors of PyTorch, or of another framework that speaks DLPack: what cplab.torch stands on.
#pragma once

#include <nanobind/nanobind.h>

namespace cplab {

// Adds the class TensorRun to the module.
void add_tensor_run(nanobind::module_&);

}  // namespace cplab
