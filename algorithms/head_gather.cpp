// Gathers of some heads; see head_gather.hpp.
#include "algorithms/head_gather.hpp"

#include <algorithm>
#include <utility>

namespace cplab {

HeadGather::HeadGather(const Scope& s, const Distribution& to, std::vector<HeadRange> parts,
                       Transport transport, std::int64_t most_pieces)
    : s_(s),
      to_(to[s.place()]),
      parts_(std::move(parts)),
      transport_(transport),
      most_pieces_(most_pieces) {
  for (const HeadRange heads : parts_) how_.emplace_back(with_heads(s.keys, heads), with_heads(to, heads));
}

HeadRange HeadGather::queries(int part) const {
  const std::int64_t ratio = s_.b.problem().heads / s_.b.problem().kv_heads;
  return {keys(part).begin * ratio, keys(part).end * ratio};
}

std::int64_t HeadGather::widest() const {
  std::int64_t most = 0;
  for (const HeadRange heads : parts_) most = std::max(most, heads.count());
  return most;
}

Box HeadGather::buffer(std::string_view name, Role role, Category category, std::int64_t slots,
                       std::int64_t rows, std::int64_t heads) const {
  const Problem& p = s_.b.problem();
  return s_.b.buffer(
      {name, role, category, slots, rows, heads, p.head_size + p.value_size, p.head_size, s_.layout});
}

Box HeadGather::slot(const Box& buffer, std::int64_t index, int part) const {
  return buffer.slot(index).numbered(keys(part).begin).of_problem(keys(part));
}

Transfer HeadGather::gather(int part, const Box& kv, const Box& into, const Box& staging) const {
  return Transfer(s_.b, s_.team, {false, {}, transport_, most_pieces_},
                  {{"kv", &how_[static_cast<std::size_t>(part)], kv.of_problem(keys(part)), into, staging}});
}

Transfer HeadGather::scatter(int part, const Box& gradients, const Box& dkv, Role wire, const Box& packed,
                             const Box& received) const {
  return Transfer(s_.b, s_.team, {true, wire, transport_, most_pieces_},
                  {{"dkv", &how_[static_cast<std::size_t>(part)], gradients, dkv.of_problem(keys(part)),
                    packed, received}});
}

std::vector<std::vector<TokenRun>> query_chunks(const Holding& holding) {
  std::vector<std::vector<TokenRun>> chunks;
  std::size_t of_sequence = 0;
  for (std::size_t i = 0; i < holding.runs.size(); ++i) {
    of_sequence = i > 0 && holding.runs[i].sequence == holding.runs[i - 1].sequence ? of_sequence + 1 : 0;
    if (of_sequence == chunks.size()) chunks.emplace_back();
    chunks[of_sequence].push_back(holding.runs[i]);
  }
  return chunks;
}

}  // namespace cplab
