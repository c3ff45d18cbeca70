// Keys and values from latents, and the way back of their gradients: matrix products, head by head.
#include <algorithm>
#include <vector>

#include "kernels/call_checks.hpp"
#include "kernels/cpu/cpu_tiles.hpp"
#include "kernels/cpu/row_matrix.hpp"
#include "kernels/cpu/view_rows.hpp"

namespace cplab::kernels {
namespace {

// Rows that are multiplied at a time, so that what is converted stays in a core's cache.
constexpr std::int64_t block_rows = 256;

template <class T>
RowMatrix<T> rows_of_head(const ViewRows& view, std::int64_t first, std::int64_t count, std::int64_t head) {
  RowMatrix<T> rows(count, view.width());
  view.gather(first, count, head, rows.data());
  return rows;
}

// The one row that a head has of weights, as `rows` rows.
template <class T>
RowMatrix<T> weights_of_head(const ViewRows& view, std::int64_t rows, std::int64_t head) {
  RowMatrix<T> weights(rows, view.width() / rows);
  view.load(0, head, weights.data());
  return weights;
}

template <class T>
void store_sum(const ViewRows& into, std::int64_t row, std::int64_t head, Write write, T* values) {
  if (write == Write::add) {
    std::vector<T> held(static_cast<std::size_t>(into.width()));
    into.load(row, head, held.data());
    for (std::size_t x = 0; x < held.size(); ++x) values[x] += held[x];
  }
  into.store(row, head, values);
}

template <class T>
void project_rows(const Project& call) {
  const ViewRows latent(call.latent), rope(call.rope_key), k(call.k), v(call.v), of_k(call.key_weights),
      of_v(call.value_weights);
  const std::int64_t X = k.width() - rope.width();
  std::vector<T> row(static_cast<std::size_t>(k.width()));
  for (std::int64_t head = 0; head < call.k.heads; ++head) {
    const RowMatrix<T> key_weights = weights_of_head<T>(of_k, latent.width(), head),
                       value_weights = weights_of_head<T>(of_v, latent.width(), head);
    for (std::int64_t first = 0; first < call.k.rows; first += block_rows) {
      const std::int64_t count = std::min(block_rows, call.k.rows - first);
      const RowMatrix<T> c = rows_of_head<T>(latent, first, count, 0);
      const RowMatrix<T> keys = product(c, key_weights), values = product(c, value_weights);
      for (std::int64_t i = 0; i < count; ++i) {
        std::copy_n(keys.row(i), X, row.data());
        rope.load(first + i, 0, row.data() + X);
        k.store(first + i, head, row.data());
        v.store(first + i, head, values.row(i));
      }
    }
  }
}

template <class T>
void project_back(const ProjectBackward& call) {
  const ViewRows dk(call.dk), dv(call.dv), of_k(call.key_weights), of_v(call.value_weights),
      dlatent(call.dlatent), drope(call.drope_key);
  const std::int64_t C = dlatent.width(), R = drope.width(), X = dk.width() - R;
  std::vector<RowMatrix<T>> key_weights, value_weights;
  for (std::int64_t head = 0; head < call.dk.heads; ++head) {
    key_weights.push_back(weights_of_head<T>(of_k, C, head));
    value_weights.push_back(weights_of_head<T>(of_v, C, head));
  }
  for (std::int64_t first = 0; first < call.dk.rows; first += block_rows) {
    const std::int64_t count = std::min(block_rows, call.dk.rows - first);
    RowMatrix<T> of_latent(count, C), of_rope(count, R);
    for (std::int64_t head = 0; head < call.dk.heads; ++head) {
      const RowMatrix<T> keys = rows_of_head<T>(dk, first, count, head),
                         values = rows_of_head<T>(dv, first, count, head);
      const auto h = static_cast<std::size_t>(head);
      of_latent += product_with_transposed(keys.columns(0, X), key_weights[h]);
      of_latent += product_with_transposed(values, value_weights[h]);
      of_rope += keys.columns(X, R);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      store_sum(dlatent, first + i, 0, call.write, of_latent.row(i));
      store_sum(drope, first + i, 0, call.write, of_rope.row(i));
    }
  }
}

template <class T>
void differentiate_weights(const WeightGradient& call) {
  const ViewRows latent(call.latent), dk(call.dk), dv(call.dv), of_k(call.dkey_weights),
      of_v(call.dvalue_weights);
  const std::int64_t C = latent.width(), X = of_k.width() / C;
  for (std::int64_t head = 0; head < call.dk.heads; ++head) {
    RowMatrix<T> of_keys(C, X), of_values(C, dv.width());
    for (std::int64_t first = 0; first < call.dk.rows; first += block_rows) {
      const std::int64_t count = std::min(block_rows, call.dk.rows - first);
      const RowMatrix<T> c = rows_of_head<T>(latent, first, count, 0);
      of_keys += product_of_transposed(c, rows_of_head<T>(dk, first, count, head).columns(0, X));
      of_values += product_of_transposed(c, rows_of_head<T>(dv, first, count, head));
    }
    store_sum(of_k, 0, head, call.write, of_keys.data());
    store_sum(of_v, 0, head, call.write, of_values.data());
  }
}

}  // namespace

void project_cpu(const Project& call) {
  check_call(call);
  is_fp64(call.k) ? project_rows<double>(call) : project_rows<float>(call);
}

void project_backward_cpu(const ProjectBackward& call) {
  check_call(call);
  is_fp64(call.dlatent) ? project_back<double>(call) : project_back<float>(call);
}

void weight_gradient_cpu(const WeightGradient& call) {
  check_call(call);
  is_fp64(call.dkey_weights) ? differentiate_weights<double>(call) : differentiate_weights<float>(call);
}

}  // namespace cplab::kernels
