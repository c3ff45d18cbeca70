// Hardware files as a first guess, and one of data sheets; see base.hpp.
#include "calibrate/base.hpp"

#include <algorithm>
#include <array>

namespace cplab::measure {
namespace {

// Dense products with fp32 sums, memory and the link to other GPUs, one direction: the vendor's data sheets.
struct DataSheet {
  int sm_major, sm_minor;
  const char* product;
  double bf16_flops_s, fp32_flops_s, memory_bytes_s, link_bytes_s;
};
constexpr DataSheet data_sheets[] = {
    {8, 0, "A100 80GB SXM", 312e12, 19.5e12, 2.04e12, 300e9},
    {8, 6, "RTX 3090", 71e12, 35.6e12, 0.94e12, 25e9},
    {8, 9, "RTX 4090", 165e12, 82.6e12, 1.01e12, 25e9},
    {9, 0, "H100 SXM", 989e12, 67e12, 3.35e12, 450e9},
    {10, 0, "B200", 2250e12, 75e12, 8e12, 900e9},
    {10, 3, "B300", 2250e12, 75e12, 8e12, 900e9},
    {12, 0, "RTX 5090", 209.5e12, 104.8e12, 1.79e12, 55e9},
};

const DataSheet& sheet_of(const Machine& machine) {
  const DataSheet* best = &data_sheets[0];
  for (const DataSheet& sheet : data_sheets)
    if (sheet.sm_major * 10 + sheet.sm_minor <= machine.sm_major * 10 + machine.sm_minor) best = &sheet;
  return *best;
}

Provenance guess(const std::string& source) {
  Provenance provenance;
  provenance.source = source;
  return provenance;
}

// Half of the peak, which kernels that fill the GPU reach; a launch at least.
void add_attention(Hardware& hardware, const DataSheet& sheet, const Provenance& from) {
  for (const OpKind kind : {OpKind::attend, OpKind::attend_backward})
    for (const cplab::DType dtype : {cplab::DType::bf16, cplab::DType::fp16})
      for (const bool causal : {false, true}) {
        const bool backward = kind == OpKind::attend_backward;
        KernelTable table;
        table.kind = kind;
        table.dtype = dtype;
        table.head_size = table.value_size = 128;
        table.causal = causal;
        table.variant = std::string(name(kind)) + " mma " + std::string(name(dtype)) + " 128";
        table.sms = hardware.gpu.sms;
        table.cold_l2 = true;
        table.provenance = from;
        for (const std::int64_t sequence : {1024, 4096, 16384, 65536}) {
          const double pairs =
              static_cast<double>(sequence) * static_cast<double>(sequence) / (causal ? 2 : 1);
          const double flops = 16 * pairs * 128 * (backward ? 10 : 4);
          table.points.push_back({1, sequence, 16, 10e-6 + flops / (0.5 * sheet.bf16_flops_s)});
        }
        hardware.kernels.push_back(std::move(table));
      }
}

// 80 % of the link behind the start-up of a message of NCCL or of a copy engine on 4 x H200.
void add_messages(Hardware& hardware, const DataSheet& sheet, const Provenance& from) {
  for (const Transport transport : {Transport::nccl, Transport::copy}) {
    cplab::MessageTable table;
    table.transport = transport;
    table.group = std::max(2, hardware.node.gpus);
    table.channels = transport == Transport::nccl ? 16 : 0;
    const double startup_s = transport == Transport::nccl ? 20e-6 : 6e-6;
    for (const double bytes : {4096.0, 1048576.0, 268435456.0})
      table.points.push_back({bytes, startup_s + bytes / (0.8 * sheet.link_bytes_s)});
    table.provenance = from;
    hardware.messages.push_back(std::move(table));
  }
}

// More nodes like this one, so that a scenario of more ranks has a prediction: a NIC of 400 Gb/s for each
// GPU, nothing blocks. Start-up and rate as in scenarios/hardware/h200x64.toml.
void add_network(Hardware& hardware) {
  const Provenance from = guess("no network was measured: 400 Gb/s for each GPU, which is usual");
  hardware.network = {"non_blocking", hardware.node.gpus, 50e9, 0, {}, from};
  cplab::MessageTable table;
  table.path = Path::inter;
  table.group = 2;
  table.channels = 4;
  for (const double bytes : {4096.0, 1048576.0, 16777216.0, 268435456.0})
    table.points.push_back({bytes, 25e-6 + bytes / 45e9});
  table.provenance = from;
  hardware.messages.push_back(std::move(table));
}

std::string told(const Provenance& from) {
  if (from.origin == Origin::measured) return "measured on " + from.machine + " on " + from.date;
  return from.source;
}

}  // namespace

Hardware data_sheet(const Machine& machine) {
  const DataSheet& sheet = sheet_of(machine);
  const Provenance from =
      guess(std::string("data sheet of ") + sheet.product + "; kernels at half of the peak");
  Hardware hardware;
  hardware.name = machine.gpu;
  hardware.rates = kernels::cuda::shipped_rates(machine.gpu, machine.sms, machine.sm_major, machine.sm_minor);
  hardware.node = {std::max(1, machine.gpus), sheet.link_bytes_s, from};
  hardware.gpu.name = machine.gpu;
  hardware.gpu.sms = machine.sms;
  hardware.gpu.copy_bytes_s = 0.87 * sheet.memory_bytes_s;  // as H100 and H200 reach
  hardware.gpu.peak_flops = {
      {"bf16", sheet.bf16_flops_s}, {"fp16", sheet.bf16_flops_s}, {"fp32", sheet.fp32_flops_s}};
  hardware.gpu.least_kernel_s = usual_least_kernel_s;
  hardware.gpu.provenance = from;
  hardware.host = {4e-6,   9.7e-6, 10e-6, 3.3e-6, 0.5e-6,
                   2.7e-6, 4e-6,   0,     1024,   guess("usual figures of hosts")};
  hardware.fixed_bytes = 900 << 20;
  hardware.fixed = guess("a context and NCCL on 4 x H200");
  add_attention(hardware, sheet, from);
  add_messages(hardware, sheet, from);
  return hardware;
}

Hardware assumed_machine(const Hardware& base, const std::string& file, const Machine& machine) {
  Hardware hardware = base;
  const auto assume = [&](Provenance& from) { from = guess("from " + file + ": " + told(from)); };
  for (Provenance* from :
       {&hardware.node.provenance, &hardware.network.provenance, &hardware.gpu.provenance,
        &hardware.host.provenance, &hardware.linear.provenance, &hardware.burst.provenance, &hardware.fixed})
    assume(*from);
  if (!hardware.elementwise.efficiency.empty() || hardware.elementwise.apart || hardware.elementwise.gathers)
    assume(hardware.elementwise.provenance);
  for (KernelTable& table : hardware.kernels) assume(table.provenance);
  for (cplab::MessageTable& table : hardware.messages) assume(table.provenance);
  for (InterferenceRow& row : hardware.interference) assume(row.provenance);
  FinerTables& finer = hardware.finer;
  for (FormTable& table : finer.forms) assume(table.provenance);
  for (PiecesTable& table : finer.pieces) assume(table.provenance);
  for (BesideTable& table : finer.beside) assume(table.provenance);
  for (LaunchCost& cost : finer.launches) assume(cost.provenance);
  for (GemmTable& table : finer.gemms) assume(table.provenance);
  finer.cards = {};  // of those very cards
  hardware.notes.clear();
  if (machine.gpus == 0) return hardware;  // nothing is known of it: an import without a GPU
  hardware.node.gpus = machine.gpus;
  if (hardware.network.nics > 0 && machine.gpus % hardware.network.nics != 0)
    hardware.network.nics = machine.gpus;
  if (base.gpu.name != machine.gpu || base.gpu.sms != machine.sms)
    hardware.rates =
        kernels::cuda::shipped_rates(machine.gpu, machine.sms, machine.sm_major, machine.sm_minor);
  hardware.gpu.name = machine.gpu;
  hardware.gpu.sms = machine.sms;
  hardware.gpu.sm_major = machine.sm_major;
  hardware.gpu.sm_minor = machine.sm_minor;
  hardware.gpu.capacity_bytes = machine.capacity_bytes;
  hardware.environment = machine.environment;
  if (hardware.network.fabric.empty() || hardware.network.fabric == "none") add_network(hardware);
  return hardware;
}

}  // namespace cplab::measure
