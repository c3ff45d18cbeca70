// LASP with buffers and tables that the caller keeps (OpenNLPLab/LASP, lasp_cache.py): lasp_naive's kernels
// and messages without what naive makes anew in every call. What entered is kept for the backward in both.
#include "algorithms/linear/lasp_serial.hpp"

namespace cplab {

Algorithm lasp_cache_algorithm() {
  Algorithm a;
  a.name = "lasp_cache";
  a.summary = "lasp_naive with buffers and tables of decays kept from call to call (LASP)";
  a.placements = {"contiguous", "stream"};
  a.options = {state_wire_option()};
  a.validate = [](const Scenario& s) { require_linear(s, {Transition::decay}); };
  a.build = run_linear_algorithm<LaspSerial>;
  return a;
}

}  // namespace cplab
