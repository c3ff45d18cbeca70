// The requirements of kernels.hpp as code; see call_checks.hpp.
#include "kernels/call_checks.hpp"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>

namespace cplab::kernels {
namespace {

void check_views(std::initializer_list<const View*> views) {
  for (const View* view : views) check_view(*view);
}

void check_segments(std::span<const Segment> segments, std::int64_t q_rows, std::int64_t k_rows) {
  for (const Segment& segment : segments) {
    require(segment.q_begin >= 0 && segment.q_count >= 0 && segment.q_begin <= q_rows - segment.q_count,
            "a segment leaves the query rows");
    require(segment.k_begin >= 0 && segment.k_count >= 0 && segment.k_begin <= k_rows - segment.k_count,
            "a segment leaves the key rows");
  }
}

bool is_lse_of(const View& lse, const View& out) {
  return lse.rows == out.rows && lse.heads == out.heads && lse.width == 1;
}

// A gradient that is summed in one view and comes out rounded in another.
struct RoundedNames {
  const char *rounded, *sum, *of;
};
void check_rounded(const std::optional<View>& rounded, const View& sum, const View& of,
                   const RoundedNames& names) {
  if (!rounded) return;
  check_view(*rounded);
  const std::string name = "attend_backward: " + std::string(names.rounded);
  if (!same_shape(*rounded, of)) throw std::invalid_argument(name + " and " + names.of + " differ in shape");
  if (rounded->dtype != of.dtype || bytes_of(sum.dtype) < bytes_of(of.dtype))
    throw std::invalid_argument(name + " is not of " + names.of + "'s dtype, or " + names.sum +
                                " is narrower");
}

}  // namespace

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

bool any_fp64(std::initializer_list<const View*> views) {
  return std::any_of(views.begin(), views.end(), [](const View* view) { return view->dtype == DType::fp64; });
}

bool same_shape(const View& a, const View& b) {
  return a.rows == b.rows && a.heads == b.heads && a.width == b.width;
}

void check_view(const View& view) {
  require(view.rows >= 0 && view.heads >= 0 && view.width >= 0, "a view has a negative extent");
  require(view.data != nullptr || view.rows * view.heads * view.width == 0, "a view has no memory");
  if (view.runs.empty()) return;
  std::int64_t rows = 0;
  for (const RowRun& run : view.runs) {
    require(run.count >= 0, "a row run has a negative count");
    rows += run.count;
  }
  require(rows == view.rows, "the row runs of a view do not add up to its rows");
}

void check_call(const Attend& call) {
  const auto& [q, k, v, out, lse, segments, scale, write, max_logit, sink] = call;
  check_views({&q, &k, &v, &out, &lse});
  require(q.width == k.width, "attend: q and k differ in width");
  require(q.width > 0 && v.width > 0, "attend: a width is 0");
  require(k.rows == v.rows && k.heads == v.heads, "attend: k and v differ in rows or heads");
  require(out.rows == q.rows && out.heads == q.heads && out.width == v.width,
          "attend: out does not fit q and v");
  require(is_lse_of(lse, q), "attend: lse does not fit q");
  if (max_logit) {
    check_view(*max_logit);
    require(max_logit->rows == 1 && max_logit->heads == q.heads && max_logit->width == 1,
            "attend: max_logit is not one number for each query head");
    const bool fp64 = any_fp64({&q, &k, &v});
    require(max_logit->dtype == (fp64 ? DType::fp64 : DType::fp32),
            "attend: max_logit is not of the dtype that sums run in");
  }
  if (sink) {
    check_view(*sink);
    require(sink->rows == 1 && sink->heads == q.heads && sink->width == 1,
            "attend: the sink is not one number for each query head");
    require(sink->dtype == (any_fp64({&q, &k, &v}) ? DType::fp64 : DType::fp32),
            "attend: the sink is not of the dtype that sums run in");
  }
  require(q.heads == 0 || (k.heads > 0 && q.heads % k.heads == 0),
          "attend: query heads are no multiple of key heads");
  require(write != Write::add, "attend: write must be store or merge");
  check_segments(segments, q.rows, k.rows);
}

void check_call(const AttendBackward& call) {
  const auto& [q, k, v, dout, lse, delta, dq, dk, dv, segments, scale, write_dq, write_dk, rounded_dq,
               rounded_dk, rounded_dv, out] = call;
  check_views({&q, &k, &v, &dout, &lse, &delta, &dq, &dk, &dv});
  require(q.width == k.width, "attend_backward: q and k differ in width");
  require(q.width > 0 && v.width > 0, "attend_backward: a width is 0");
  require(k.rows == v.rows && k.heads == v.heads, "attend_backward: k and v differ in rows or heads");
  require(dout.rows == q.rows && dout.heads == q.heads && dout.width == v.width,
          "attend_backward: dout does not fit q and v");
  require(is_lse_of(lse, q), "attend_backward: lse does not fit q");
  require(same_shape(delta, lse), "attend_backward: delta and lse differ in shape");
  if (out) {
    check_view(*out);
    require(same_shape(*out, dout), "attend_backward: out and dout differ in shape");
  }
  require(same_shape(dq, q), "attend_backward: dq and q differ in shape");
  check_rounded(rounded_dq, dq, q, {"rounded_dq", "dq", "q"});
  require(same_shape(dk, k), "attend_backward: dk and k differ in shape");
  require(same_shape(dv, v), "attend_backward: dv and v differ in shape");
  check_rounded(rounded_dk, dk, k, {"rounded_dk", "dk", "k"});
  check_rounded(rounded_dv, dv, v, {"rounded_dv", "dv", "v"});
  require(rounded_dk.has_value() == rounded_dv.has_value(),
          "attend_backward: one of rounded_dk and rounded_dv is missing");
  require(!rounded_dk || write_dk == Write::store,
          "attend_backward: rounded_dk and rounded_dv must be written with store");
  require(k.heads == 0 ? q.heads == 0 : q.heads % k.heads == 0,
          "attend_backward: query heads are no multiple of key heads");
  require(write_dq != Write::merge && write_dk != Write::merge,
          "attend_backward: writes must be store or add");
  check_segments(segments, q.rows, k.rows);
}

void check_call(const Merge& call) {
  check_views({&call.part_out, &call.part_lse, &call.into_out, &call.into_lse});
  require(same_shape(call.part_out, call.into_out), "merge: part_out and into_out differ in shape");
  require(is_lse_of(call.part_lse, call.part_out), "merge: part_lse does not fit part_out");
  require(is_lse_of(call.into_lse, call.into_out), "merge: into_lse does not fit into_out");
}

void check_call(const MergeLse& call) {
  check_views({&call.part_lse, &call.into_lse});
  require(same_shape(call.part_lse, call.into_lse) && call.into_lse.width == 1,
          "merge_lse: part_lse and into_lse differ in shape");
}

void check_call(const Rescale& call) {
  check_views({&call.part_out, &call.part_lse, &call.final_lse, &call.into_out});
  require(same_shape(call.part_out, call.into_out), "rescale: part_out and into_out differ in shape");
  require(is_lse_of(call.part_lse, call.part_out), "rescale: part_lse does not fit part_out");
  require(is_lse_of(call.final_lse, call.part_out), "rescale: final_lse does not fit part_out");
  require(call.write != Write::merge, "rescale: write must be store or add");
}

void check_call(const SinkGradient& call) {
  check_views({&call.sink, &call.lse, &call.delta, &call.dsink});
  require(same_shape(call.sink, call.dsink) && call.sink.rows == 1 && call.sink.width == 1,
          "sink_gradient: the sink and its gradient are not one number for each query head");
  require(same_shape(call.lse, call.delta) && call.lse.heads == call.sink.heads && call.lse.width == 1,
          "sink_gradient: lse and delta are not one number for each row and query head");
  for (const View* view : {&call.lse, &call.delta, &call.dsink})
    require(view->dtype == call.sink.dtype, "sink_gradient: the operands differ in dtype");
}

namespace {

// K and V, or their gradients, with a latent and weights of C rows, or gradients of these.
void check_projection(const View& latent, const View& k, const View& v, const View& of_k, const View& of_v,
                      std::int64_t rope_columns) {
  check_views({&latent, &k, &v, &of_k, &of_v});
  const std::int64_t C = latent.width;
  require(latent.heads == 1 && k.rows == latent.rows && v.rows == latent.rows && k.heads == v.heads,
          "a projection: latents, keys and values differ in rows or heads");
  require(of_k.rows == 1 && of_v.rows == 1 && of_k.heads == k.heads && of_v.heads == k.heads,
          "a projection: the weights are not one row for each head");
  require(rope_columns >= 0 && of_k.width == C * (k.width - rope_columns) && of_v.width == C * v.width,
          "a projection: the weights do not fit latents, keys and values");
}

}  // namespace

void check_call(const Project& call) {
  check_view(call.rope_key);
  require(call.rope_key.heads == 1 && call.rope_key.rows == call.latent.rows,
          "project: the rope key does not fit the latents");
  check_projection(call.latent, call.k, call.v, call.key_weights, call.value_weights, call.rope_key.width);
}

void check_call(const ProjectBackward& call) {
  check_view(call.drope_key);
  require(call.drope_key.heads == 1 && call.drope_key.rows == call.dlatent.rows,
          "project_backward: the gradients of rope key and latents differ in rows");
  check_projection(call.dlatent, call.dk, call.dv, call.key_weights, call.value_weights,
                   call.drope_key.width);
  require(call.write != Write::merge, "project_backward: write must be store or add");
}

void check_call(const WeightGradient& call) {
  const std::int64_t C = call.latent.width;
  require(C > 0 && call.dkey_weights.width % C == 0, "weight_gradient: the weights do not fit the latents");
  check_projection(call.latent, call.dk, call.dv, call.dkey_weights, call.dvalue_weights,
                   call.dk.width - call.dkey_weights.width / C);
  require(call.write != Write::merge, "weight_gradient: write must be store or add");
}

void check_call(const Rowwise& call) {
  check_view(call.into);
  if (call.sources() > 0) check_view(call.a);
  if (call.sources() > 1) check_view(call.b);
  if (call.kind == Rowwise::Kind::row_dot) {
    require(same_shape(call.a, call.b), "row_dot: the factors differ in shape");
    require(call.into.rows == call.a.rows && call.into.heads == call.a.heads && call.into.width == 1,
            "row_dot: the result does not fit the factors");
    return;
  }
  // All others: element by element.
  require((call.sources() < 1 || same_shape(call.a, call.into)) &&
              (call.sources() < 2 || same_shape(call.b, call.into)),
          "the operands of a row-wise operation differ in shape");
}

}  // namespace cplab::kernels
