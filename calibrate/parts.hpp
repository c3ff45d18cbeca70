// The parts of a measurement; each adds to `into`. Called by measure::machine alone.
#pragma once

#include "calibrate/machine.hpp"

namespace cplab::measure {

void measure_kernels(const Options& options, const Progress& progress, Measurement& into);       // GPU 0
void measure_linear(const Options& options, const Progress& progress, Measurement& into);        // GPU 0
void measure_messages(const Options& options, const Progress& progress, Measurement& into);      // all, and 2
void measure_host(const Options& options, const Progress& progress, Measurement& into);          // all
void measure_interference(const Options& options, const Progress& progress, Measurement& into);  // all

}  // namespace cplab::measure
