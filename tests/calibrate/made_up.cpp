// Made-up measurements; see made_up.hpp.
#include "tests/calibrate/made_up.hpp"

using namespace cplab;
using namespace cplab::measure;

Machine made_up_machine() {
  Machine machine;
  machine.gpu = "NVIDIA H200";
  machine.driver = "580.1";
  machine.date = "2026-11-29";
  machine.gpus = 2;
  machine.sms = 132;
  machine.sm_major = 9;
  machine.capacity_bytes = 150'000'000'000;
  machine.l2_bytes = 52'428'800;
  machine.context_bytes = 500'000'000;
  machine.context_source = "NVML";
  machine.environment = {{"driver", "580.1"}, {"nccl", "2.28.9"}};
  return machine;
}

double made_up_attend_s(bool backward, bool causal, std::int64_t sequence) {
  const auto n = static_cast<double>(sequence);
  return 4 * 16 * 128 * n * n / 400e12 * (backward ? 3 : 1) * (causal ? 0.6 : 1);
}

namespace {

void add_attention(Measurement& into) {
  for (const bool backward : {false, true})
    for (const bool causal : {false, true}) {
      AttentionTable table{backward ? "attend_backward" : "attend",
                           backward ? "attend_backward hopper bf16 128" : "attend hopper bf16 128",
                           128,
                           causal,
                           128,
                           {}};
      for (const std::int64_t sequence : {1024, 4096, 16384})
        table.points.push_back({1, sequence, 16, made_up_attend_s(backward, causal, sequence), true});
      into.attention.push_back(table);
    }
}

cplab::measure::MessageTable message(const char* kind, const char* transport, int channels) {
  cplab::measure::MessageTable table;
  table.kind = kind;
  table.transport = transport;
  table.group = 2;
  table.channels = channels;
  for (const double bytes : {4096.0, 1048576.0, 268435456.0})
    table.points.push_back({bytes, 10e-6 + bytes / 300e9});
  return table;
}

}  // namespace

Measurement MadeUp::measure(std::string_view part, double, int channels) {
  asked.emplace_back(part);
  channels_asked = channels;
  clock_s += part_s;
  if (reference_later > 0) reference = reference_later;
  if (part == fails) throw Error("the card fell off the bus");
  Measurement into;
  if (part == "host")
    into.host.push_back({3e-6, 2e-6, 8e-6, 5e-6, 2e-6, 3e-6, 1e-6, 1e-6, 9e-6, 5e-6, 1e-6, 0});
  if (part == "copies") {
    into.copy_bytes_s = 4e12;
    into.curves.push_back(
        {"merge", "merge", "bf16 into fp32", {{65536, 3e-6}, {131072, 2.9e-6}, {268435456, 8e-5}}});
  }
  if (part == "attention 128") add_attention(into);
  if (part == "exchanges") {
    into.messages = {message("exchange", "nccl", 16), message("exchange", "copy", 0)};
    into.communicator_bytes = 400'000'000;
  }
  if (part == "interference") into.interference.push_back({"attend", "nccl", {}, {}, 1.2, channels});
  if (part == "forms 128") {
    FormTable form{OpKind::attend_backward,
                   "attend_backward hopper bf16 128",
                   cplab::DType::bf16,
                   128,
                   true,
                   1024,
                   WriteMode::add,
                   true,
                   true,
                   4,
                   {{4, 512, 2048, 16, 2, 3e-4}},
                   {}};
    into.finer.forms = {form,
                        {OpKind::attend,
                         "attend hopper bf16 128",
                         cplab::DType::bf16,
                         128,
                         false,
                         -1,
                         WriteMode::merge,
                         false,
                         false,
                         1,
                         {{1, 2048, 4096, 16, 16, 2e-4}},
                         {}}};
  }
  if (part == "copies in pieces")
    into.finer.pieces.push_back(
        {OpKind::copy, Transport::nccl, {{4194304, 1, 5e-6}, {4194304, 512, 9e-6}}, {}});
  if (part == "exchanges in pieces")
    into.finer.pieces.push_back({OpKind::exchange, Transport::copy, {{1048576, 64, 2e-4}}, {}});
  if (part == "exchanges beside attention")
    into.finer.beside.push_back(
        {OpKind::exchange, Transport::nccl, OpKind::attend, {{1048576, 2e-5, 3e-5}}, {}});
  if (part == "launches")
    into.finer.launches = {{OpKind::attend, Transport::nccl, 4e-6, {}},
                           {OpKind::exchange, Transport::copy, 9e-6, {}}};
  if (part == "gemm")
    into.finer.gemms.push_back({"cuBLAS 13.0.2", cplab::DType::bf16, {{1024, 4096, 4096, 7e-5}}, {}});
  if (part == "cards") into.finer.cards.attend_s = {1e-3, 1.03e-3};
  return into;
}
