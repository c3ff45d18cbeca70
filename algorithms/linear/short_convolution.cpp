// Halos and convolutions; see short_convolution.hpp.
#include "algorithms/linear/short_convolution.hpp"

#include <algorithm>

#include "algorithms/core/transfer.hpp"

namespace cplab {
namespace {

// Of every member the tokens next to its runs that their convolutions take, run by run.
Distribution beside_runs(const Problem& p, const Distribution& tokens, bool behind) {
  Distribution halo = tokens;
  halo.replicated = true;
  for (Holding& member : halo.members) {
    std::vector<TokenRun> beside;
    std::int64_t row = 0;
    for (const TokenRun& run : member.runs) {
      if (run.valid == 0) continue;
      const std::int64_t length = p.lengths[static_cast<std::size_t>(run.sequence)],
                         end = run.position + run.valid,
                         count = std::min(p.convolution - 1, behind ? length - end : run.position);
      if (count == 0) continue;
      beside.push_back({run.sequence, row, count, count, behind ? end : run.position - count});
      row += count;
    }
    member.runs = std::move(beside);
  }
  return halo;
}

std::vector<Chunk> chunks_of(const Problem& p, const Holding& tokens, bool behind) {
  std::vector<Chunk> chunks;
  std::int64_t row = 0;
  for (const TokenRun& run : tokens.runs) {
    if (run.valid == 0) continue;
    const std::int64_t length = p.lengths[static_cast<std::size_t>(run.sequence)],
                       count = std::min(p.convolution - 1,
                                        behind ? length - run.position - run.valid : run.position);
    Chunk c;
    c.row = run.row;
    c.count = run.valid;
    if (count > 0) c.state = static_cast<std::int32_t>(row);
    (behind ? c.right_exponent : c.left_exponent) = count;
    row += count;
    chunks.push_back(c);
  }
  return chunks;
}

// The member sends something, or receives it.
bool communicates(const Redistribution& how, int place) {
  bool found = false;
  for (const bool gives : {true, false})
    how.for_each_share(place, gives,
                       [&](int peer, const RangeList&, HeadRange) { found = found || peer != place; });
  return found;
}

}  // namespace

WithConvolution::Halo WithConvolution::exchanged(const Box& q, const Box& kv, bool behind) const {
  const Problem& p = b_.problem();
  Shared& shared = b_.shared();
  const Distribution& halo = shared.made(behind ? "rows behind runs" : "rows before runs", s_.tokens,
                                         [&] { return beside_runs(p, s_.tokens, behind); });
  const Redistribution& how = shared.redistribution(s_.tokens, halo);
  Halo result{{}, {}, chunks_of(p, s_.tokens[s_.place()], behind)};
  const std::int64_t rows = halo[s_.place()].rows();
  const std::string_view of_q = behind ? "dq_halo" : "q_halo", of_kv = behind ? "dkv_halo" : "kv_halo";
  result.q = s_.query_buffer(of_q, Role::nominal, Category::working, 1, rows, p.head_size);
  result.kv = behind ? s_.dkv_buffer(of_kv, Role::nominal, Category::working, 1, rows)
                     : s_.kv_buffer(of_kv, Role::nominal, Category::working, 1, rows);
  Transfer transfer(b_, b_.team(halo_team), {.transport = transport_of(b_.scenario().schedule)},
                    {{of_q, &how, q, result.q}, {of_kv, &how, kv, result.kv}});
  transfer.pack(linear_lane);
  if (communicates(how, s_.place())) transfer.move(inner_.comm());
  transfer.unpack(linear_lane);
  if (rows == 0) result.q = result.kv = {};
  return result;
}

void WithConvolution::convolve(const Box& from, const Box& filter, const Box& halo, const Box& into,
                               const std::vector<Chunk>& chunks, bool reverse) const {
  b_.linear(linear_lane, OpKind::convolve,
            {{Operand::from, from}, {Operand::filter, filter}, {Operand::halo, halo}},
            {{Operand::into, into}}, {chunks, ChunkWork::blocked, reverse});
}

namespace {

Box keys_of(const Builder& b, const Box& kv) {
  return kv.given() ? keys(b, kv) : Box();
}
Box values_of(const Builder& b, const Box& kv) {
  return kv.given() ? values(b, kv) : Box();
}

}  // namespace

void WithConvolution::forward(const LinearTensors& t) {
  const Problem& p = b_.problem();
  const Halo halo = exchanged(t.q, t.kv, false);
  // Of padding alone nobody need read them.
  const Category kept = b_.between_layers() && inner_.rereads() ? Category::saved
                        : halo.chunks.empty()                   ? Category::workspace
                                                                : Category::working;
  q_ = s_.query_buffer("q_convolved", Role::nominal, kept, 1, s_.rows, p.head_size);
  kv_ = s_.kv_buffer("kv_convolved", Role::nominal, kept, 1, s_.rows);
  LinearTensors inner = t;
  inner.q = q_;
  inner.take_kv(b_, kv_);
  convolve(t.q, t.filters.q, halo.q, q_, halo.chunks, false);
  convolve(t.k, t.filters.k, keys_of(b_, halo.kv), inner.k, halo.chunks, false);
  convolve(t.v, t.filters.v, values_of(b_, halo.kv), inner.v, halo.chunks, false);
  inner_.forward(inner);
}

void WithConvolution::backward(const LinearTensors& t) {
  LinearTensors inner = t;
  inner.q = q_;
  inner.take_kv(b_, kv_);
  inner.dq =
      s_.query_buffer("dq_convolved", Role::nominal, Category::working, 1, s_.rows, b_.problem().head_size);
  inner.take_dkv(b_, s_.dkv_buffer("dkv_convolved", Role::nominal, Category::working, 1, s_.rows));
  inner_.backward(inner);
  const Halo halo = exchanged(inner.dq, inner.dkv, true);
  const Box of_k = keys_of(b_, halo.kv), of_v = values_of(b_, halo.kv);
  convolve(inner.dq, t.filters.q, halo.q, t.dq, halo.chunks, true);
  convolve(inner.dk, t.filters.k, of_k, t.dk, halo.chunks, true);
  convolve(inner.dv, t.filters.v, of_v, t.dv, halo.chunks, true);
  // This rank's rows, then all of the group's.
  const auto sum = [&](const Box& from, const Box& dout, const Box& beside, const Box& dfilter) {
    b_.linear(linear_lane, OpKind::filter_gradient,
              {{Operand::from, from}, {Operand::dout, dout}, {Operand::halo, beside}},
              {{Operand::dfilter, dfilter}}, {halo.chunks});
    if (s_.P() > 1)
      b_.all_reduce(inner_.comm(), transport_of(b_.scenario().schedule), s_.team, Reduction::sum, dfilter,
                    dfilter);
  };
  sum(t.q, inner.dq, halo.q, t.dfilters.q);
  sum(t.k, inner.dk, of_k, t.dfilters.k);
  sum(t.v, inner.dv, of_v, t.dfilters.v);
}

}  // namespace cplab
