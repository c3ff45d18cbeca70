// CPU tiles of linear attention with bugs that LASP shipped, for `verify --inject`. Each table is the correct
// one with a few entries replaced, and each replacement calls the correct tile and spoils one thing.
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/cpu/linear_parts.hpp"
#include "kernels/cpu/linear_tiles.hpp"
#include "kernels/linear_checks.hpp"

namespace cplab::kernels {
namespace {

// From what the right scan leaves, the states before every chunk (reverse: behind it), to those that a
// subtraction makes: inclusive = lambda^count before + own, in the type of sums, and then inclusive - own,
// by exp(+slope count) moved back to the other edge, or not.
template <class T>
void scan_by_subtraction(const LinearScan& call, bool undecays) {
  const std::int64_t count = state_count(call);
  if (count == 0 || call.sums_only) return linear_scan_cpu(call);
  const States<T> states(call.state, call.state.rows / count);
  std::vector<RowMatrix<T>> own;
  const auto for_each_state = [&](const auto& visit) {
    for (std::int64_t head = 0; head < call.state.heads; ++head)
      for (const Chunk& chunk : call.chunks.list) visit(chunk, head);
  };
  for_each_state(
      [&](const Chunk& chunk, std::int64_t head) { own.push_back(states.load(chunk.state, head)); });
  linear_scan_cpu(call);
  auto mine = own.begin();
  for_each_state([&](const Chunk& chunk, std::int64_t head) {
    const double exponent =
        call.chunks.slopes[static_cast<std::size_t>(head)] * static_cast<double>(chunk.count);
    const T factor = static_cast<T>(std::exp(-exponent)),
            back = undecays ? std::exp(static_cast<T>(exponent)) : T{1};
    RowMatrix<T> before = states.load(chunk.state, head);
    for (std::int64_t i = 0; i < before.size(); ++i) {
      const T inclusive = factor * before.data()[i] + mine->data()[i];
      before.data()[i] = back * (inclusive - mine->data()[i]);
    }
    states.store(chunk.state, head, before);
    ++mine;
  });
}

template <bool undecays>
void scan_by_subtraction_cpu(const LinearScan& call) {
  check_call(call);
  is_fp64(call.state) ? scan_by_subtraction<double>(call, undecays)
                      : scan_by_subtraction<float>(call, undecays);
}

std::int64_t token_number_of_bf16(std::int64_t t) {
  float number = static_cast<float>(t);
  round_elements(&number, 1, DType::bf16);
  return static_cast<std::int64_t>(number);
}

void round_to_bf16(const std::optional<View>& states) {
  if (!states) return;
  const ViewRows rows(*states);
  std::vector<double> values(static_cast<std::size_t>(states->width));
  for (std::int64_t head = 0; head < states->heads; ++head) {
    for (std::int64_t row = 0; row < states->rows; ++row) {
      rows.load(row, head, values.data());
      round_elements(values.data(), states->width, DType::bf16);
      rows.store(row, head, values.data());
    }
  }
}

template <class Replace>
LinearTiles changed_tiles(Replace replace) {
  LinearTiles tiles = cpu_linear_tiles();
  replace(tiles);
  return tiles;
}

}  // namespace

const LinearTiles* faulty_cpu_linear_tiles(const char* name) {
  static const LinearTiles decay_division =
      changed_tiles([](LinearTiles& tiles) { tiles.scan = scan_by_subtraction_cpu<true>; });
  static const LinearTiles without_undecay =
      changed_tiles([](LinearTiles& tiles) { tiles.scan = scan_by_subtraction_cpu<false>; });
  static const LinearTiles bf16_index = changed_tiles([](LinearTiles& tiles) {
    tiles.inter = [](const LinearInter& call) { linear_inter_with(token_number_of_bf16, call); };
  });
  static const LinearTiles bf16_state = changed_tiles([](LinearTiles& tiles) {
    tiles.local = [](const LinearLocal& call) {
      linear_local_cpu(call);
      round_to_bf16(call.final_state);
    };
    tiles.local_backward = [](const LinearLocalBackward& call) {
      linear_local_backward_cpu(call);
      round_to_bf16(call.final_state);
    };
  });
  const std::string_view fault = name == nullptr ? "" : name;
  if (fault == "decay-division") return &decay_division;
  if (fault == "exclusive-without-undecay") return &without_undecay;
  if (fault == "bf16-index") return &bf16_index;
  if (fault == "bf16-state") return &bf16_state;
  return nullptr;
}

}  // namespace cplab::kernels
