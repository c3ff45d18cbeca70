// Traces of other programs, read and matched, from small ones written by hand.
#include "report/spans.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "report/compare_spans.hpp"
#include "report/json.hpp"
#include "tests/report/hand_plan.hpp"

using namespace cplab;

namespace {

ResultFile predicted() {
  const Plan plan = hand_plan();
  const Timeline timeline = hand_timeline();
  SimulateReport report;
  report.header.scenario = plan.scenario;
  report.figures = derive_figures(plan, timeline, memory_of(plan));
  report.operations = OperationTimes{&plan, &timeline};
  std::ostringstream out;
  write_json(out, report);
  return read_result_json(out.str(), "a.json");
}

std::string event(const std::string& category, const std::string& name, double start_us, double us) {
  return "{\"ph\": \"X\", \"cat\": \"" + category + "\", \"name\": \"" + name +
         "\", \"ts\": " + std::to_string(start_us) + ", \"dur\": " + std::to_string(us) + ", \"pid\": 0}";
}

std::string kineto(const std::vector<std::string>& events, const std::string& more = "") {
  std::string text = "{\"schemaVersion\": 1, " + more + "\"traceEvents\": [";
  for (std::size_t i = 0; i < events.size(); ++i) text += (i == 0 ? "" : ", ") + events[i];
  return text + "]}";
}

const char* const forward =
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<...>>>";

const SpanComparison::Class& of(const SpanComparison& comparison, SpanClass wanted) {
  for (const SpanComparison::Class& each : comparison.classes)
    if (each.of == wanted) return each;
  throw std::out_of_range(std::string(name(wanted)));
}

}  // namespace

TEST_CASE("kernels of other programs by their names") {
  const std::vector<std::pair<const char*, SpanClass>> names = {
      {forward, SpanClass::attend},
      {"void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>", SpanClass::attend},
      {"void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<...>", SpanClass::attend_backward},
      {"void flash_bwd_dot_do_o_kernel<true, ...>", SpanClass::elementwise},
      {"void flash_bwd_convert_dq_kernel<...>", SpanClass::elementwise},
      {"void cutlass::device_kernel<flash::FlashAttnBwdPreprocess<...>>", SpanClass::elementwise},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_6_64x128x128_kernel0_0",
       SpanClass::attend},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_32_64x64x128_kernel0_0",
       SpanClass::attend_backward},
      {"fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<...>)",
       SpanClass::attend},
      {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", SpanClass::send_receive},
      {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", SpanClass::all_gather},
      {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(...)", SpanClass::reduce_scatter},
      {"ncclDevKernel_AllReduce_Sum_f32_TREE_LL(...)", SpanClass::all_reduce},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>",
       SpanClass::elementwise},
      {"Memcpy DtoD (Device -> Device)", SpanClass::elementwise},
      {"Memcpy PtoP (Device -> Device)", SpanClass::send_receive},
      {"triton_poi_fused_add_mul_0", SpanClass::elementwise},
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", SpanClass::other},
  };
  for (const auto& [kernel, expected] : names) {
    CAPTURE(kernel);
    CHECK(name(class_of_kernel(kernel)) == name(expected));
  }
  CHECK(class_of_operation("exchange") == SpanClass::send_receive);
  CHECK(class_of_operation("merge") == SpanClass::elementwise);
  CHECK(class_of_operation("scan") == SpanClass::other);
}

TEST_CASE("a Kineto trace: matched by class and order, the rest listed") {
  // Rank 0 of the hand plan: attends of 2 and 2 s, an exchange of 4 (1 of them waiting), a merge of 1, a fill
  // of 1, an all_reduce of 1.
  const std::string text =
      kineto({event("kernel", forward, 3e6, 1.5e6), event("kernel", forward, 1e6, 2.5e6),
              event("kernel", "ncclDevKernel_SendRecv(...)", 1.1e6, 3e6),
              event("kernel", "void at::native::elementwise_kernel<...>", 5e6, 0.5e6),
              event("kernel", "sm90_xmma_gemm_bf16", 6e6, 1e6),
              event("kernel", "sm90_xmma_gemm_bf16", 7e6, 2e6), event("cpu_op", "aten::mul", 0, 9e6)});
  REQUIRE(is_span_file(text));
  const SpanFile trace = read_spans(text, "t.json");
  CHECK(trace.tool == "Kineto");
  CHECK(trace.spans.size() == 6);
  CHECK(trace.spans[0].start_s == doctest::Approx(1));
  const SpanComparison comparison = compare_spans(predicted(), trace);
  CHECK(comparison.rank == 0);
  const SpanComparison::Class& attend = of(comparison, SpanClass::attend);
  CHECK(attend.ours == 2);
  CHECK(attend.theirs == 2);
  CHECK(attend.matched == 2);
  // The first by its start took 2.5 s, the second 1.5: no error in the sum, 0.5 s in each.
  CHECK(attend.predicted_s == doctest::Approx(4));
  CHECK(attend.measured_s == doctest::Approx(4));
  CHECK(std::abs(attend.error) < 1e-12);
  CHECK(attend.absolute_s == doctest::Approx(1));
  CHECK(of(comparison, SpanClass::send_receive).error == doctest::Approx(4.0 / 3 - 1));
  const SpanComparison::Class& elementwise = of(comparison, SpanClass::elementwise);
  CHECK(elementwise.ours == 2);  // merge, fill
  CHECK(elementwise.matched == 1);
  CHECK(elementwise.predicted_s == doctest::Approx(1));
  REQUIRE(comparison.pairs.size() == 4);
  CHECK(comparison.pairs[0].id == "0/forward/1");
  CHECK(comparison.pairs[0].measured_s == doctest::Approx(2.5));
  CHECK(comparison.pairs[1].id == "0/forward/0");
  CHECK(comparison.pairs[1].wait_s == 1);
  // Two products of 3 s together, then a fill and an all_reduce of ours of 1 s each.
  REQUIRE(comparison.unmatched.size() == 3);
  CHECK_FALSE(comparison.unmatched[0].ours);
  CHECK(comparison.unmatched[0].name == "sm90_xmma_gemm_bf16");
  CHECK(comparison.unmatched[0].count == 2);
  CHECK(comparison.unmatched[0].seconds == doctest::Approx(3));
  CHECK(comparison.unmatched[1].ours);
  CHECK(comparison.unmatched[2].ours);
  // From 1 s to 9 s; ours from 0 to 11, of which 7 s compute: 0-2, 6-10 make 6.
  CHECK(comparison.measured_s == doctest::Approx(8));
  CHECK(comparison.predicted_s == doctest::Approx(11));
  CHECK(comparison.compute_alone_s == doctest::Approx(6));
  CHECK(comparison.error == doctest::Approx(11.0 / 8 - 1));

  std::ostringstream out;
  write_json(out, comparison);
  const nlohmann::json json = nlohmann::json::parse(out.str());
  CHECK(json.at("schema") == "cplab.spans.1");
  CHECK(json.at("matched").size() == 4);
  CHECK(json.at("unmatched").at(0).at("side") == "theirs");
  CHECK(json.at("classes").at(0).at("class") == "attend");
}

TEST_CASE("totals of a trace: what is under way at a moment, stream by stream, and what is exposed of it") {
  const auto on = [](const std::string& name, double start_s, double end_s, int stream) {
    std::string text = event("kernel", name, start_s * 1e6, (end_s - start_s) * 1e6);
    return text.insert(text.size() - 1, ", \"args\": {\"stream\": " + std::to_string(stream) + "}");
  };
  // Two streams compute from 0 to 5 and from 6 to 8, with an overlap of 1; NCCL runs from 4 to 7 on its own
  // stream, of which 1 is beside nothing.
  const SpanFile trace =
      read_spans(kineto({on(forward, 0, 4, 7), on("sm90_xmma_gemm", 3, 5, 9), on(forward, 6, 8, 7),
                         on("ncclDevKernel_SendRecv(...)", 4, 7, 20)}),
                 "t.json");
  const SpanComparison comparison = compare_spans(predicted(), trace);
  const auto segment = [&](const char* name) {
    for (const SpanComparison::Segment& each : comparison.segments)
      if (each.name == name) return each;
    throw std::out_of_range(name);
  };
  CHECK(segment("total").measured_s == doctest::Approx(8));
  CHECK(segment("compute").measured_s == doctest::Approx(7));
  CHECK(segment("communication").measured_s == doctest::Approx(3));
  CHECK(segment("exposed_communication").measured_s == doctest::Approx(1));
  // Ours: 0-2, 6-10 compute; 1-5, 10-11 communicate, 2-5 and 10-11 beside nothing.
  CHECK(segment("compute").predicted_s == doctest::Approx(6));
  CHECK(segment("communication").predicted_s == doctest::Approx(5));
  CHECK(segment("exposed_communication").predicted_s == doctest::Approx(4));
  REQUIRE(comparison.streams.size() == 3);
  CHECK(comparison.streams[0].number == 7);
  CHECK(comparison.streams[0].spans == 2);
  CHECK(comparison.streams[0].compute_s == doctest::Approx(6));
  CHECK(comparison.streams[2].communication_s == doctest::Approx(3));
  CHECK(comparison.streams[2].compute_s == 0);
  CHECK(comparison.notes.back().find("not compared") != std::string::npos);
}

TEST_CASE("of Kineto's steps the last, of its ranks the one that it says") {
  const auto at = [](double start_us) { return event("kernel", forward, start_us, 1e5); };
  const std::string text =
      kineto({event("gpu_user_annotation", "ProfilerStep#1", 0, 1e6),
              event("gpu_user_annotation", "ProfilerStep#2", 1e6, 1e6), at(0), at(5e5), at(1e6), at(15e5)},
             "\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 1, \"world_size\": 2}, ");
  const SpanFile trace = read_spans(text, "t.json");
  CHECK(trace.spans.size() == 2);
  CHECK(trace.spans[0].start_s == doctest::Approx(1));
  CHECK(trace.notes == std::vector<std::string>{"t.json: the last of 2 steps, ProfilerStep#2"});
  const SpanComparison comparison = compare_spans(predicted(), trace);
  CHECK(comparison.rank == 1);
  CHECK(comparison.pairs[0].id == "1/forward/1");
  // Without steps: more iterations than one are said.
  const SpanComparison many =
      compare_spans(predicted(), read_spans(kineto({at(0), at(1e6), at(2e6), at(3e6)}), "t.json"));
  CHECK(of(many, SpanClass::attend).matched == 2);
  CHECK(many.notes.back().find("4 forward attention kernels where one iteration of ours has 2") !=
        std::string::npos);
  SpanFile ninth = trace;
  ninth.rank = 9;
  CHECK_THROWS_WITH_AS(compare_spans(predicted(), ninth), "t.json: is of rank 9, and a.json has 2 ranks",
                       JsonFileError);
}

TEST_CASE("lines of nsys: names by their place, kernels, copies and fills of one device") {
  const std::string text =
      "{\"data\": [\"[Unknown]\", \"flash_fwd_kernel\", \"ncclDevKernel_SendRecv\"]}\n"
      "{\"Type\": 48, \"TraceProcessEvent\": {\"startNs\": \"5\"}}\n"
      "{\"Type\": 79, \"CudaEvent\": {\"startNs\": \"2000000000\", \"endNs\": \"4500000000\", \"deviceId\": "
      "0, "
      "\"kernel\": {\"shortName\": \"1\"}}}\n"
      "{\"Type\": 79, \"CudaEvent\": {\"startNs\": \"1000000000\", \"endNs\": \"1500000000\", \"deviceId\": "
      "0, "
      "\"kernel\": {\"demangledName\": 2, \"shortName\": \"0\"}}}\n"
      "{\"Type\": 80, \"CudaEvent\": {\"startNs\": \"0\", \"endNs\": \"1000\", \"deviceId\": 0, \"memset\": "
      "{}}}\n"
      "{\"Type\": 80, \"CudaEvent\": {\"startNs\": \"0\", \"endNs\": \"9\", \"deviceId\": 0, \"sync\": {}}}\n"
      "{\"Type\": 79, \"CudaEvent\": {\"startNs\": \"0\", \"endNs\": \"9\", \"deviceId\": 1, \"kernel\": "
      "{\"shortName\": \"1\"}}}\n";
  REQUIRE(is_span_file(text));
  const SpanFile trace = read_spans(text, "r.jsonl");
  CHECK(trace.tool == "nsys");
  REQUIRE(trace.spans.size() == 3);
  CHECK(trace.spans[0].name == "Memset");
  CHECK(trace.spans[1].of == SpanClass::send_receive);
  CHECK(trace.spans[2].of == SpanClass::attend);
  CHECK(trace.spans[2].end_s - trace.spans[2].start_s == doctest::Approx(2.5));
  CHECK(trace.notes == std::vector<std::string>{"r.jsonl: device 0 of 2"});
  const std::string wrong =
      "{\"data\": [\"a\"]}\n{\"CudaEvent\": {\"startNs\": \"0\", \"endNs\": \"9\", \"kernel\": "
      "{\"shortName\": "
      "\"7\"}}}\n";
  CHECK_THROWS_WITH_AS(read_spans(wrong, "r.jsonl"), doctest::Contains("r.jsonl:2"), JsonFileError);
}

TEST_CASE("what is no trace, or of no GPU") {
  CHECK_FALSE(is_span_file("{\"schema\": \"cplab.run.1\"}"));
  CHECK_THROWS_WITH_AS(
      read_spans(kineto({event("cpu_op", "aten::mul", 0, 1)}), "t.json"),
      "t.json: nothing in it ran on a GPU: no event is of cat kernel, gpu_memcpy or gpu_memset",
      JsonFileError);
  CHECK_THROWS_WITH_AS(read_spans(kineto({event("kernel", "k", 0, -1)}), "t.json"),
                       "t.json: /traceEvents/0/dur: legal: microseconds from 0 on", JsonFileError);
  const auto lines = [](const std::string& start, const std::string& end) {
    return "{\"CudaEvent\": {\"startNs\": \"" + start + "\", \"endNs\": \"" + end + "\", \"memcpy\": {}}}\n";
  };
  CHECK_THROWS_WITH_AS(read_spans(lines("5", "4"), "r.jsonl"), doctest::Contains("lies before startNs"),
                       JsonFileError);
  CHECK_THROWS_WITH_AS(read_spans(lines("nan", "4"), "r.jsonl"), doctest::Contains("legal: a number from 0"),
                       JsonFileError);
  CHECK_THROWS_AS(read_spans("{\"traceEvents\": 3}", "t.json"), JsonFileError);
  CHECK_THROWS_AS(read_spans("{\"traceEvents\": [", "t.json"), JsonFileError);
}
