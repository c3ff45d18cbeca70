// From the operands of a call to its products; host code.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/families/products/params.cuh"
#include "kernels/families/products/plain_products.cuh"
#include "kernels/families/products/products.hpp"

namespace cplab::kernels::cuda {

inline Lines rows_of(const DeviceView& view, bool one_head = false) {
  return {.view = view, .first_column = 0, .line_columns = 0, .one_head = one_head};
}

// Weights of each head, so many numbers for each of the latent's.
inline Lines weights_of(const DeviceView& view, std::int32_t latent) {
  return {.view = view, .first_column = 0, .line_columns = view.width / latent, .one_head = false};
}

inline Products prepared(const ProjectParams& call) {
  const DeviceView& latent = call.latent;
  const std::int32_t C = latent.width, X = call.k.width - call.rope_key.width;
  Products p;
  p.of[0] = {rows_of(latent, true), weights_of(call.key_weights, C), rows_of(call.k), C, X};
  p.of[1] = {rows_of(latent, true), weights_of(call.value_weights, C), rows_of(call.v), C, call.v.width};
  p.rows = call.k.rows, p.heads = call.k.heads;
  return p;
}

inline Products prepared(const ProjectBackwardParams& call) {
  const std::int32_t C = call.dlatent.width, X = call.dk.width - call.drope_key.width;
  const Lines into = rows_of(call.dlatent, true);
  Products p;
  p.of[0] = {rows_of(call.dk), weights_of(call.key_weights, C), into, X, C};
  p.of[1] = {rows_of(call.dv), weights_of(call.value_weights, C), into, call.dv.width, C};
  p.rows = call.dk.rows, p.heads = call.dk.heads;
  p.sums = true;
  p.write = call.write;
  return p;
}

inline Products prepared(const WeightGradientParams& call) {
  const DeviceView& latent = call.latent;
  const std::int32_t C = latent.width;
  Products p;
  p.of[0] = {rows_of(latent, true), rows_of(call.dk), weights_of(call.dkey_weights, C), latent.rows,
             call.dkey_weights.width / C};
  p.of[1] = {rows_of(latent, true), rows_of(call.dv), weights_of(call.dvalue_weights, C), latent.rows,
             call.dv.width};
  p.rows = C, p.heads = call.dk.heads;
  p.write = call.write;
  return p;
}

inline SharedColumns shared_columns(const ProjectParams& call) {
  return {.keys = call.k, .shared = call.rope_key, .first = call.k.width - call.rope_key.width};
}
inline SharedColumns shared_columns(const ProjectBackwardParams& call) {
  return {.keys = call.dk,
          .shared = call.drope_key,
          .first = call.dk.width - call.drope_key.width,
          .write = call.write};
}

// What multiplies: of 16 bits both operands, or one of them beside fp32; or whatever they are.
enum class Multiplier : std::uint8_t { same, wide_a, wide_b, plain };

inline Multiplier multiplier_of(const Products& p) {
  const auto are = [&p](DType a, DType b) {
    return std::ranges::all_of(
        p.of, [=](const Product& each) { return each.a.view.dtype == a && each.b.view.dtype == b; });
  };
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    if (are(dtype, dtype)) return Multiplier::same;
    if (are(DType::fp32, dtype)) return Multiplier::wide_a;
    if (are(dtype, DType::fp32)) return Multiplier::wide_b;
  }
  return Multiplier::plain;
}

inline bool has_fp64(const Products& p) {
  return std::ranges::any_of(p.of, [](const Product& each) {
    return each.a.view.dtype == DType::fp64 || each.b.view.dtype == DType::fp64 ||
           each.into.view.dtype == DType::fp64;
  });
}

// Whether the operands of 16 bits are bf16.
inline bool has_bf16(const Products& p) {
  return p.of[0].a.view.dtype == DType::bf16 || p.of[0].b.view.dtype == DType::bf16;
}

// Thread blocks of so many rows and columns of a result.
struct ProductGrid {
  std::int64_t rows, columns, results;
  bool empty() const { return rows * columns * results == 0; }
};
inline ProductGrid grid_of(const Products& p, std::int32_t tile) {
  const std::int32_t columns = p.sums ? p.of[0].columns : std::max(p.of[0].columns, p.of[1].columns);
  return {(p.rows + tile - 1) / tile, (columns + tile - 1) / tile,
          p.heads == 0 ? 0
          : p.sums     ? 1
                       : 2 * std::int64_t{p.heads}};
}

}  // namespace cplab::kernels::cuda
