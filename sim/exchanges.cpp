// Exchanges of the simulator: what matches travels, with what its pieces cost beyond one message.
#include <algorithm>
#include <unordered_map>

#include "derive/pieces.hpp"
#include "sim/engine.hpp"

namespace cplab {

const Engine::ViewFacts& Engine::facts_of(const RankPlan& rank, std::uint32_t view) {
  std::vector<ViewFacts>& all = view_facts_[static_cast<std::size_t>(rank.rank)];
  if (all.empty()) all.resize(rank.views.size());
  ViewFacts& facts = all[view];
  if (facts.bytes < 0) facts.bytes = view_bytes(rank, rank.views[view], plan_.scenario.problem.dtype);
  return facts;
}

std::uint64_t Engine::bytes_of(const RankPlan& rank, std::uint32_t view) {
  return static_cast<std::uint64_t>(facts_of(rank, view).bytes);
}

bool Engine::is_one_piece(const RankPlan& rank, std::uint32_t view) {
  (void)facts_of(rank, view);
  ViewFacts& facts = view_facts_[static_cast<std::size_t>(rank.rank)][view];
  if (facts.pieces == 0) {
    const DType nominal = plan_.scenario.problem.dtype;
    facts.pieces = count_contiguous_pieces(rank, rank.views[view], nominal) == 1 ? 1 : 2;
  }
  return facts.pieces == 1;
}

void Engine::post_exchange(OpRef ref) {
  const RankPlan& rank = plan_.ranks[ref.rank];
  std::array<std::uint64_t, 2> bytes{};
  for (const Part& part : rank.parts_of(operation(ref)))
    if (part.send && part.peer != rank.rank)
      bytes[static_cast<std::size_t>(path_of(rank.rank, part.peer))] += bytes_of(rank, part.view);
  lane(ref).startup_us = prepare_port(ref, bytes) + local_copy_us(ref);

  matched_.clear();
  walk_.post(ref, matched_);
  gather_matches(ref);
  for (const Together& together : together_)
    begin_transfer(together.transfer, lane(together.transfer.sender).startup_us + longer_by_us(together));
}

// Parts of one pair of operations that match together travel together: one transfer each, in the order of
// their first parts.
void Engine::gather_matches(OpRef ref) {
  together_.clear();
  next_match_.assign(matched_.size(), 0);
  // `ref` is one side of all of them.
  std::unordered_map<std::uint64_t, std::size_t> by_other;
  const auto is_of = [](const Together& one, const Match& match) {
    return one.transfer.sender == match.sender && one.transfer.receiver == match.receiver;
  };
  constexpr std::size_t few = 16;
  for (std::uint32_t i = 0; i < matched_.size(); ++i) {
    const Match& match = matched_[i];
    std::size_t at = together_.size();
    if (matched_.size() <= few) {
      at = static_cast<std::size_t>(std::find_if(together_.begin(), together_.end(),
                                                 [&](const Together& one) { return is_of(one, match); }) -
                                    together_.begin());
    } else {
      const bool sends = match.sender == ref;
      const OpRef other = sends ? match.receiver : match.sender;
      const std::uint64_t key =
          std::uint64_t{sends} << 63 | std::uint64_t{other.rank} << 32 | other.operation;
      at = by_other.try_emplace(key, together_.size()).first->second;
    }
    const RankPlan& sender = plan_.ranks[match.sender.rank];
    const std::uint64_t size = bytes_of(sender, sender.parts[match.send_part].view);
    if (at == together_.size()) {
      Together one;
      one.transfer.sender = match.sender;
      one.transfer.receiver = match.receiver;
      one.transfer.trigger = ref;
      one.first = one.last = i;
      together_.push_back(one);
    } else {
      next_match_[together_[at].last] = i;
      together_[at].last = i;
    }
    ++together_[at].transfer.parts;
    together_[at].transfer.bytes += size;
  }
}

std::vector<MessagePart> Engine::parts_between(OpRef from, OpRef into) const {
  const RankPlan &sender = plan_.ranks[from.rank], &receiver = plan_.ranks[into.rank];
  std::vector<MessagePart> all;
  const std::span<const Part> targets = receiver.parts_of(operation(into));
  auto target = targets.begin();
  for (const Part& part : sender.parts_of(operation(from))) {
    if (!part.send || part.peer != receiver.rank) continue;
    target = std::find_if(target, targets.end(),
                          [&](const Part& each) { return !each.send && each.peer == sender.rank; });
    if (target == targets.end()) break;
    all.push_back({&sender, &sender.views[part.view], &receiver, &receiver.views[target->view]});
    ++target;
  }
  return all;
}

double Engine::local_copy_us(OpRef ref) {
  const RankPlan& rank = plan_.ranks[ref.rank];
  std::uint64_t bytes = 0;
  for (const Part& part : rank.parts_of(operation(ref)))
    if (part.send && part.peer == rank.rank) bytes += bytes_of(rank, part.view);
  if (bytes == 0) return 0;
  const GpuSpec& gpu = hardware_.gpu;
  return (2 * static_cast<double>(bytes) / gpu.copy_bytes_s + gpu.least_kernel_s) * us_per_s;
}

double Engine::longer_by_us(const Together& together) {
  const Transfer& transfer = together.transfer;
  if (transfer.sender.rank == transfer.receiver.rank) return 0;
  const RankPlan &sender = plan_.ranks[transfer.sender.rank], &receiver = plan_.ranks[transfer.receiver.rank];
  const Match& only = matched_[together.first];
  if (transfer.parts == 1 && is_one_piece(sender, sender.parts[only.send_part].view) &&
      is_one_piece(receiver, receiver.parts[only.receive_part].view))
    return 0;
  if (transfer.parts > 1) return longer_in_parts_us(together);
  const Operation& op = operation(transfer.sender);
  // A ring sends between the same views again and again.
  const LongerKey key{std::uint64_t{sender.parts[only.send_part].view} << 32 | transfer.sender.rank,
                      std::uint64_t{receiver.parts[only.receive_part].view} << 32 | transfer.receiver.rank,
                      std::uint64_t{op.group} << 8 | static_cast<std::uint64_t>(op.transport)};
  const auto [at, is_new] = longer_us_.try_emplace(key, 0);
  if (is_new) at->second = longer_in_parts_us(together);
  return at->second;
}

double Engine::longer_in_parts_us(const Together& together) {
  const Transfer& transfer = together.transfer;
  const RankPlan &sender = plan_.ranks[transfer.sender.rank], &receiver = plan_.ranks[transfer.receiver.rank];
  std::vector<MessagePart> parts;
  for (std::uint32_t i = together.first, n = 0; n < transfer.parts; i = next_match_[i], ++n)
    parts.push_back({&sender, &sender.views[sender.parts[matched_[i].send_part].view], &receiver,
                     &receiver.views[receiver.parts[matched_[i].receive_part].view]});
  const Operation& op = operation(transfer.sender);
  const std::vector<double> calls = call_bytes(parts, op.transport, plan_.scenario.problem.dtype);
  const MessageChoice choice =
      find_flow(hardware_, use_of(op, path_of(transfer), static_cast<double>(transfer.bytes)));
  const auto alone_s = [&](double bytes) { return message_time(hardware_, *choice.table, bytes).seconds; };
  return longer_by_s(calls, op.transport, 1, hardware_.gpu.least_kernel_s, alone_s) * us_per_s;
}

}  // namespace cplab
