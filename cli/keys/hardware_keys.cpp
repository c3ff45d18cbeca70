// The keys of hardware files, as --set hardware.KEY names them; see keys.hpp. Which values are plausible
// stands in sim/plausible.cpp; here is what they are.
#include <deque>
#include <string>

#include "cli/files/hardware_table.hpp"
#include "cli/keys/keys.hpp"
#include "kernels/families/rates.hpp"
#include "sim/class_efficiency.hpp"
#include "sim/fabrics.hpp"

namespace cplab {

namespace {

using Keys = std::vector<KeyInfo>;
constexpr std::string_view must = {};  // the reader insists on it
constexpr std::string_view rates_page = "14-kernels.md";

// What a key must be, beside its type.
struct Form {
  std::string_view unit = {}, legal = {};
};
constexpr Form in_seconds{"s", "a number"}, in_bytes_s{"bytes/s", "a number, or a rate such as \"450GB/s\""},
    in_bytes{"bytes", "a number, or a size such as \"79G\""},
    per_point{"", "a list with one number for each of seconds"}, bare{"", "a number"};

KeyInfo key(std::string_view path, KeyType type, Form form, std::string_view rule, std::string_view meaning) {
  return {
      .key = path, .type = type, .legal = form.legal, .unit = form.unit, .rule = rule, .meaning = meaning};
}
KeyInfo whole(std::string_view path, std::int64_t least, std::string_view rule, std::string_view meaning) {
  return {.key = path,
          .type = KeyType::whole,
          .least = least,
          .most = 1'000'000,
          .rule = rule,
          .meaning = meaning};
}
KeyInfo words(std::string_view path, std::vector<std::string_view> legal, std::string_view value,
              std::string_view meaning) {
  return {.key = path, .type = KeyType::word, .words = std::move(legal), .value = value, .meaning = meaning};
}
KeyInfo number(std::string_view path, Form form, std::string_view rule, std::string_view meaning) {
  return key(path, KeyType::number, form, rule, meaning);
}
KeyInfo text(std::string_view path, std::string_view rule, std::string_view meaning) {
  return key(path, KeyType::text, {}, rule, meaning);
}
KeyInfo flag(std::string_view path, std::string_view meaning) {
  return {.key = path, .type = KeyType::flag, .value = "false", .meaning = meaning};
}
KeyInfo list(std::string_view path, Form form, std::string_view rule, std::string_view meaning) {
  return key(path, KeyType::list, form, rule, meaning);
}
KeyInfo section(std::string_view path, std::string_view meaning) {
  return key(path, KeyType::section, {}, {}, meaning);
}

// Texts of rows that are made of other tables.
std::string_view kept(std::string text) {
  static std::deque<std::string> texts;
  return texts.emplace_back(std::move(text));
}

// Where the numbers of a section come from; every section but environment says it.
void add_origin(Keys& keys, const std::string& path) {
  keys.push_back(words(kept(path + ".origin"), {"measured", "assumed"}, must, "where the numbers come from"));
  for (const auto& [name, meaning] :
       {std::pair{"tool", "what measured them"}, {"machine", "on what"}, {"date", "when"}}) {
    KeyInfo row = text(kept(path + "." + name), must, meaning);
    row.taken_by = "origin = \"measured\"";
    keys.push_back(row);
  }
  keys.push_back(text(kept(path + ".source"), "missing is an error beside origin = \"assumed\"",
                      "why an assumed number was chosen, or more about a measured one"));
}

void add_head(Keys& keys) {
  keys.push_back(
      {.key = "hardware.file",
       .type = KeyType::text,
       .legal = "a path, beside the scenario, else in scenarios/; or a name of `cplab list hardware`",
       .rule = "only simulate needs it",
       .meaning = "of a scenario: the machine's hardware file"});
  keys.push_back(words("hardware.schema", {"cplab.hardware.1"}, "cplab.hardware.1", "the form of the file"));
  keys.push_back(text("hardware.include", "nothing",
                      "a file that this one is laid over: beside it, else in scenarios/"));
  keys.push_back(text("hardware.name", "the file's name", "what results call the machine"));
  keys.push_back(text("hardware.note", "nothing", "said with every answer"));
  keys.push_back(
      text("hardware.kernels_of", "our own", "the library whose attention kernels the tables time"));
  keys.push_back(text("hardware.source", "data sheet",
                      "of a file with [efficiency]: of every section that has none of its own"));
  keys.push_back(section("hardware.calibration", "what `cplab calibrate` says of its measurement"));
  keys.push_back(section("hardware.environment",
                         "driver, CUDA, NCCL and its variables as measured: any keys, all text"));
}

void add_machine(Keys& keys) {
  keys.push_back(section("hardware.node", "the GPUs that share a crossbar"));
  keys.push_back(whole("hardware.node.gpus", 1, must, "GPUs of a node; ranks fill nodes in order"));
  keys.push_back(number("hardware.node.link_bytes_s", in_bytes_s, must,
                        "of each GPU into the node's crossbar, and the same out of it"));
  add_origin(keys, "hardware.node");
  keys.push_back(section("hardware.network", "between nodes; a file of one node may leave it out"));
  Keys::value_type fabric = words("hardware.network.fabric", {}, must, "how switches join the nodes");
  for (const FabricType& type : fabric_types()) fabric.words.push_back(type.name);
  fabric.rule = "missing is an error; non_blocking of a data sheet";
  keys.push_back(fabric);
  keys.push_back(whole("hardware.network.nics", 1, "missing is an error; of a data sheet one for each GPU",
                       "NICs of a node: as many as GPUs, fewer that they share, or a multiple"));
  keys.push_back(number("hardware.network.nic_bytes_s", in_bytes_s, must, "of a NIC, in each direction"));
  keys.push_back(
      whole("hardware.network.max_nodes", 0, "0", "nodes that there are; 0: as many as asked for"));
  keys.push_back(
      section("hardware.network.level", "[[network.level]]: a level of switches, the lowest first"));
  keys.push_back(whole("hardware.network.level[].nodes", 1, must, "nodes that a switch of this level joins"));
  keys.push_back(number("hardware.network.level[].up_bytes_s", in_bytes_s, must,
                        "all its uplinks together, in one direction"));
  add_origin(keys, "hardware.network");
  keys.push_back(section("hardware.gpu", "one GPU"));
  keys.push_back(text("hardware.gpu.name", must, "as its maker calls it"));
  keys.push_back(whole("hardware.gpu.sms", 1, must, "multiprocessors"));
  keys.push_back(
      key("hardware.gpu.capacity_bytes", KeyType::whole, in_bytes, must, "memory that programs can have"));
  keys.push_back(
      number("hardware.gpu.copy_bytes_s", in_bytes_s, must, "of a long copy, bytes read plus bytes written"));
  keys.push_back(text("hardware.gpu.compute_capability", "kernels that every GPU has",
                      "major and minor version, such as 9.0: which kernels it runs"));
  keys.push_back(
      section("hardware.gpu.peak_flops", "peak of tensor cores by dtype (bf16, fp16, fp8, ...), in FLOP/s"));
  keys.push_back(number("hardware.gpu.least_kernel_s", in_seconds, "that of an H100 or H200, assumed",
                        "what any kernel takes, however little it does"));
  add_origin(keys, "hardware.gpu");
}

void add_costs(Keys& keys) {
  keys.push_back(
      section("hardware.host", "what the host costs; of a data sheet as measured on H100 and H200"));
  for (const auto& [name, meaning] :
       {std::pair{"kernel_launch_s", "host time to issue a kernel"},
        {"communication_launch_s", "to issue an NCCL group or collective"},
        {"copy_launch_s", "to issue an exchange or collective by copy engines"},
        {"launch_latency_s", "from the end of the issue to the earliest start on the device"},
        {"dependency_s", "from the end of an operation to the start of one on another lane"},
        {"sync_s", "for the host to notice that a lane has come to a host_sync"},
        {"graph_launch_s", "one launch of a whole CUDA graph"},
        {"graph_node_s", "replaces dependency_s inside a graph"}})
    keys.push_back(number(kept(std::string("hardware.host.") + name), in_seconds, must, meaning));
  keys.push_back({.key = "hardware.host.run_ahead",
                  .type = KeyType::whole,
                  .legal = "an integer from 1 on",
                  .unit = "operations",
                  .value = "1024",
                  .meaning = "issued and not complete, at most"});
  add_origin(keys, "hardware.host");
  keys.push_back(section("hardware.linear", "kernels of linear attention that no table has"));
  keys.push_back(
      number("hardware.linear.step_s", in_seconds, must, "in which a thread block takes 64 tokens"));
  keys.push_back(number("hardware.linear.floor_s", in_seconds, must, "of any kernel"));
  add_origin(keys, "hardware.linear");
  keys.push_back(
      section("hardware.elementwise", "kernels that go over their operands once and that no table has"));
  for (const OpKind kind : kinds_of(false))
    if (is_elementwise(kind))
      keys.push_back(
          number(kept("hardware.elementwise." + std::string(name(kind))), bare, "1",
                 kept("the part of gpu.copy_bytes_s that " + std::string(name(kind)) + " reaches")));
  keys.push_back(flag("hardware.elementwise.apart",
                      "attention stores its results, and a kernel behind it adds them to what is there"));
  keys.push_back(flag("hardware.elementwise.gathers",
                      "operands of attention are gathered before it and results scattered behind it"));
  add_origin(keys, "hardware.elementwise");
  keys.push_back(section("hardware.burst", "a GPU that was idle runs at its highest clock at first"));
  keys.push_back(number("hardware.burst.seconds", in_seconds, must,
                        "under load until its power limit bounds the clock"));
  keys.push_back(number("hardware.burst.speed", bare, must,
                        "of attention at the highest clock, over that alone after it"));
  keys.push_back(
      number("hardware.burst.small_heads_speed", bare, "speed", "the same of head sizes up to 64"));
  keys.push_back(number("hardware.burst.share", bare, must,
                        "where attention takes at most this part of the time, the clock does not fall"));
  add_origin(keys, "hardware.burst");
  keys.push_back(section("hardware.fixed", "memory outside the plan; of a data sheet as measured"));
  keys.push_back(
      key("hardware.fixed.bytes", KeyType::whole, in_bytes, must, "of a GPU: context, NCCL's buffers"));
  add_origin(keys, "hardware.fixed");
  keys.push_back(section("hardware.efficiency", "of a data sheet: what kernels reach of the peak"));
  for (const KernelClass each : kernel_classes)
    keys.push_back(number(kept("hardware.efficiency." + std::string(name(each))), {"", "above 0, at most 1"},
                          "as measured on H200",
                          each == KernelClass::elementwise
                              ? "part of gpu.copy_bytes_s that a long copy reaches"
                              : "part of the dtype's peak that long calls reach"));
  keys.push_back(number("hardware.efficiency.held", {"", "above 0, at most 1"}, "1",
                        "what whole training steps hold of these parts, once power bounds the clock"));
  add_origin(keys, "hardware.efficiency");
}

void add_rates(Keys& keys) {
  keys.push_back(section("hardware.rates", "how fast each family of our attention kernels is"));
  std::string_view before;
  for (const kernels::cuda::RateName& rate : kernels::cuda::rate_names) {
    const std::string within =
        "hardware.rates" + (rate.section.empty() ? "" : "." + std::string(rate.section));
    if (rate.section != before) keys.push_back(section(kept(within), "rates of this part"));
    before = rate.section;
    const std::string_view unit = rate.key.ends_with("_us")        ? "us"
                                  : rate.key.ends_with("_bytes_s") ? "bytes/s"
                                                                   : "";
    KeyInfo row =
        number(kept(within + "." + std::string(rate.key)), {unit, "above 0"},
               "that of the shipped file of this GPU, else of its compute capability", rate.meaning);
    row.page = rates_page;
    keys.push_back(row);
  }
  add_origin(keys, "hardware.rates");
}

const std::vector<std::string_view> dtypes{"fp64", "fp32", "bf16", "fp16"};

KeyInfo kinds(std::string_view path, const std::vector<OpKind>& legal, std::string_view meaning) {
  KeyInfo row = words(path, {}, must, meaning);
  for (const OpKind kind : legal) row.words.push_back(name(kind));
  return row;
}

void add_kernels(Keys& keys) {
  const std::string_view square = "attend, attend_backward",
                         chunks = "local, local_backward, state, scan, inter", curves = "all other classes";
  const auto of = [&](std::string_view who, KeyInfo row) {
    row.taken_by = who;
    keys.push_back(row);
  };
  keys.push_back(section("hardware.kernel", "[[kernel]]: measured seconds of one class of kernels"));
  keys.push_back(kinds("hardware.kernel[].class", kinds_of(false), "which operations"));
  keys.push_back(text("hardware.kernel[].variant", "any", "the kernel that was measured"));
  keys.push_back(words("hardware.kernel[].dtype", dtypes, must, "of its operands"));
  keys.push_back({.key = "hardware.kernel[].sustained",
                  .type = KeyType::flag,
                  .value = "true",
                  .meaning = "at the clock of a GPU under load; else at its highest"});
  keys.push_back(
      words("hardware.kernel[].l2", {"warm", "cold"}, "warm", "whether operands were in the L2 cache"));
  of("classes of attention",
     key("hardware.kernel[].head_size", KeyType::whole, {"elements", "an integer"}, must, "of q and k"));
  of("classes of attention",
     key("hardware.kernel[].value_size", KeyType::whole, {"elements", "an integer"}, "head_size", "of v"));
  of(square, words("hardware.kernel[].mask", {"full", "causal"}, must, "of the squares"));
  of(square, {.key = "hardware.kernel[].tile_rows",
              .type = KeyType::whole,
              .least = 1,
              .most = 1'000'000,
              .value = "128",
              .meaning = "rows of one thread block: query rows forward, key rows backward"});
  of(square, {.key = "hardware.kernel[].sms",
              .type = KeyType::whole,
              .least = 0,
              .most = 1'000'000,
              .value = "0",
              .meaning = "multiprocessors of the GPU it was measured on; 0: as gpu.sms"});
  of(square, words("hardware.kernel[].rows", {"queries", "both"}, "queries",
                   "on which sides rows cost beside FLOPs"));
  of(square, list("hardware.kernel[].batch", per_point, must, "of each point"));
  of(square, list("hardware.kernel[].sequence", per_point, must, "of each point, in tokens"));
  of("classes of attention", list("hardware.kernel[].heads", per_point, must, "of each point"));
  of(chunks,
     words("hardware.kernel[].cut", {"blocked", "serial", "sliced"}, "blocked", "how the work was cut"));
  of(chunks, {.key = "hardware.kernel[].chunk",
              .type = KeyType::whole,
              .legal = "an integer from 0 on",
              .unit = "tokens",
              .value = "0",
              .meaning = "of a chunk; 0: a sequence is one"});
  of(chunks, {.key = "hardware.kernel[].sequences",
              .type = KeyType::whole,
              .legal = "an integer from 1 on",
              .value = "1",
              .meaning = "that share the tokens"});
  of(chunks, list("hardware.kernel[].states",
                  {"", "operands that are states: state, carry, dstate, dcarry, final_state"},
                  "none; state, scan and inter need them", "which states the class has"));
  of("inter", list("hardware.kernel[].results", {"", "out, dq, dk, dv, or the last three"},
                   "out, or all gradients", "what it computes"));
  of(chunks, list("hardware.kernel[].tokens", per_point, must, "of each point, of all sequences"));
  of(curves,
     list("hardware.kernel[].bytes", {"bytes", "ascending numbers, or sizes"}, must, "read plus written"));
  keys.push_back(list("hardware.kernel[].seconds", {"s", "a list of numbers"}, must, "of each point"));
  add_origin(keys, "hardware.kernel[]");
}

void add_messages(Keys& keys) {
  keys.push_back(section("hardware.message", "[[message]]: measured seconds of one kind of communication"));
  keys.push_back(kinds("hardware.message[].kind", kinds_of(true), "which operations"));
  keys.push_back(
      words("hardware.message[].transport", {"nccl", "copy"}, must, "NCCL kernels or copy engines"));
  keys.push_back(
      words("hardware.message[].path", {"intra", "inter"}, must, "within a node, or over the network"));
  keys.push_back(whole("hardware.message[].group", 2, must, "ranks that took part"));
  keys.push_back(whole("hardware.message[].channels", 1, must, "multiprocessors that the kernel occupies"));
  keys.back().taken_by = "transport = \"nccl\"";
  keys.push_back(
      words("hardware.message[].busy", {"all", "alone"}, "all", "whether all ranks sent, or one alone"));
  keys.push_back(
      flag("hardware.message[].cuda_graph", "measured inside a CUDA graph, and used in that mode alone"));
  keys.push_back(
      flag("hardware.message[].whole",
           "of all_gather and all_to_all: a library's whole call, the own part and pieces included"));
  keys.push_back(number("hardware.message[].link_bytes_s", in_bytes_s, "as the machine's",
                        "what a flow has of the link that it was measured over"));
  keys.push_back(whole("hardware.message[].nics_per_gpu", 1, "as the machine's", "over how many NICs"));
  keys.back().taken_by = "path = \"inter\"";
  keys.push_back(list("hardware.message[].bytes", {"bytes", "ascending numbers, or sizes"}, must,
                      "wire bytes that a rank sends"));
  keys.push_back(list("hardware.message[].seconds", {"s", "a list of numbers"}, must, "of each point"));
  add_origin(keys, "hardware.message[]");
  keys.push_back(section("hardware.interference", "[[interference]]: kernels beside communication"));
  keys.push_back(kinds("hardware.interference[].class", kinds_of(false), "of kernels"));
  keys.push_back(
      words("hardware.interference[].beside", {"nccl", "copy"}, must, "the transport beside them"));
  keys.push_back(number("hardware.interference[].slowdown", bare, must, "times as long as alone"));
  add_origin(keys, "hardware.interference[]");
}

void add_finer(Keys& keys) {
  keys.push_back(
      section("hardware.form", "[[form]]: attention that is no square of as many key as query heads"));
  keys.push_back(words("hardware.form[].class", {"attend", "attend_backward"}, must, "which operations"));
  keys.push_back(text("hardware.form[].variant", must, "the kernel that was measured"));
  keys.push_back(words("hardware.form[].dtype", dtypes, must, "of its operands"));
  keys.push_back(
      key("hardware.form[].head_size", KeyType::whole, {"elements", "an integer"}, must, "of q, k and v"));
  keys.push_back(
      words("hardware.form[].mask", {"full", "causal"}, "full", "aligned at the first row of both"));
  keys.push_back({.key = "hardware.form[].window",
                  .type = KeyType::whole,
                  .legal = "an integer from -1 on",
                  .unit = "keys",
                  .value = "-1",
                  .meaning = "before its own that a query sees; -1: all"});
  keys.push_back(
      words("hardware.form[].write", {"store", "merge", "add"}, "store", "how results are written"));
  keys.push_back(
      words("hardware.form[].delta", {"given", "inside"}, "given", "whether the call computes delta first"));
  keys.back().taken_by = "attend_backward";
  keys.push_back(words("hardware.form[].dq", {"fp32", "rounded"}, "fp32", "whether dq comes out in dtype"));
  keys.back().taken_by = "attend_backward";
  keys.push_back({.key = "hardware.form[].row_runs",
                  .type = KeyType::whole,
                  .legal = "an integer from 1 on",
                  .value = "1",
                  .meaning = "in which the query rows lie, with gaps of as many rows"});
  for (const char* name : {"batch", "queries", "keys", "heads", "kv_heads"})
    keys.push_back(list(kept(std::string("hardware.form[].") + name), per_point, must, "of each point"));
  keys.push_back(list("hardware.form[].seconds", {"s", "a list of numbers"}, must, "of each point"));
  add_origin(keys, "hardware.form[]");
  keys.push_back(section("hardware.pieces", "[[pieces]]: as many bytes in pieces that are not contiguous"));
  keys.push_back(words("hardware.pieces[].kind", {"copy", "exchange"}, must, "which operations"));
  keys.push_back(words("hardware.pieces[].transport", {"nccl", "copy"}, must, "of exchange"));
  keys.back().taken_by = "kind = \"exchange\"";
  keys.push_back(
      list("hardware.pieces[].bytes", {"bytes", "numbers, or sizes"}, must, "of each point, in all"));
  keys.push_back(list("hardware.pieces[].pieces", per_point, must, "of each point"));
  keys.push_back(list("hardware.pieces[].seconds", {"s", "a list of numbers"}, must, "of each point"));
  add_origin(keys, "hardware.pieces[]");
  keys.push_back(section("hardware.beside", "[[beside]]: communication while kernels of a class run"));
  keys.push_back(kinds("hardware.beside[].kind", kinds_of(true), "which communication"));
  keys.push_back(
      words("hardware.beside[].transport", {"nccl", "copy"}, must, "NCCL kernels or copy engines"));
  keys.push_back(kinds("hardware.beside[].beside", kinds_of(false), "the class of kernels"));
  keys.push_back(list("hardware.beside[].bytes", {"bytes", "ascending numbers, or sizes"}, must,
                      "wire bytes of a rank"));
  keys.push_back(list("hardware.beside[].alone_s", {"s", "a list with one for each of bytes"}, must,
                      "of the message alone"));
  keys.push_back(list("hardware.beside[].beside_s", {"s", "a list with one for each of bytes"}, must,
                      "beside such kernels"));
  add_origin(keys, "hardware.beside[]");
  keys.push_back(section("hardware.launch", "[[launch]]: host time to issue one call"));
  std::vector<OpKind> all;
  for (int i = 0; i < static_cast<int>(OpKind::host_sync); ++i) all.push_back(static_cast<OpKind>(i));
  keys.push_back(kinds("hardware.launch[].kind", all, "which operations"));
  keys.push_back(words("hardware.launch[].transport", {"nccl", "copy"}, must, "of communication"));
  keys.back().taken_by = "communication";
  keys.push_back(number("hardware.launch[].seconds", in_seconds, must, "of one call"));
  add_origin(keys, "hardware.launch[]");
  keys.push_back(section("hardware.gemm", "[[gemm]]: C[m,n] = A[m,k] B[k,n] of a library"));
  keys.push_back(text("hardware.gemm[].library", must, "whose"));
  keys.push_back(words("hardware.gemm[].dtype", dtypes, must, "of A, B and C"));
  for (const char* name : {"m", "n", "k"})
    keys.push_back(list(kept(std::string("hardware.gemm[].") + name), per_point, must, "of each point"));
  keys.push_back(list("hardware.gemm[].seconds", {"s", "a list of numbers"}, must, "of each point"));
  add_origin(keys, "hardware.gemm[]");
  keys.push_back(section("hardware.cards", "one attention on each GPU of the node, alone"));
  keys.push_back(list("hardware.cards.attend_s", {"s", "a list of numbers"}, must, "of each GPU"));
  add_origin(keys, "hardware.cards");
  keys.push_back(
      section("hardware.accuracy", "predictions of this file held against runs, by kind of scenario"));
  keys.push_back(list("hardware.accuracy.kinds", {"", "a list of words"}, must, "kinds of scenarios"));
  for (const auto& [name, meaning] : {std::pair{"points", "runs of each kind"},
                                      {"median", "of |predicted / measured - 1|"},
                                      {"signed", "mean of predicted / measured - 1"},
                                      {"half_width", "that nine of ten lie within"}})
    keys.push_back(list(kept(std::string("hardware.accuracy.") + name),
                        {"", "a list with one for each of kinds"}, must, meaning));
  keys.push_back(
      flag("hardware.accuracy.with_assumed", "the file assumed the same when it was held against runs"));
}

}  // namespace

std::span<const KeyInfo> hardware_key_table() {
  static const Keys keys = [] {
    Keys all;
    add_head(all);
    add_machine(all);
    add_costs(all);
    add_rates(all);
    add_kernels(all);
    add_messages(all);
    add_finer(all);
    return all;
  }();
  return keys;
}

}  // namespace cplab
