// Selection of keys: from a problem to a call; see selection.hpp.
#include "calls/selection.hpp"

namespace cplab {

kernels::SelectKeys selection_call(const Problem& p) {
  kernels::SelectKeys call;
  call.full = p.bias == BiasForm::full;
  call.rule = p.keep == Keep::relu ? kernels::SelectKeys::Rule::relu : kernels::SelectKeys::Rule::top_k;
  call.top_k = p.top_k;
  call.block = p.block;
  return call;
}

}  // namespace cplab
