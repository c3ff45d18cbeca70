// Messages that other programs measured: the JSON of nccl-tests (-J FILE) and of nvbandwidth (-j).
#pragma once

#include <string>

#include "calibrate/machine.hpp"

namespace cplab {

// What one file has: of nccl-tests a table of its collective over NCCL, wire bytes sent per rank, out of
// place (sendrecv_perf is an exchange: each rank sends to the next); of nvbandwidth the fastest copy of an
// engine between two GPUs, which is the link of a node. `machine` says where and when. Throws InputError or
// JsonFileError for a file of neither, a run with wrong results, or a collective that no plan has.
struct ImportedMessages {
  measure::Machine machine;
  measure::Measurement found;
};
ImportedMessages import_messages(const std::string& path);

}  // namespace cplab
