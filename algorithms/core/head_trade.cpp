// Trades of heads for tokens; see head_trade.hpp.
#include "algorithms/core/head_trade.hpp"

#include <string>
#include <utility>

#include "algorithms/core/options.hpp"

namespace cplab {

namespace {

// From all heads of the keys at their place to those that a member's share of the query heads reads, or back.
const Redistribution& of_keys(Builder& b, const Distribution& tokens, bool back) {
  const Distribution& placed = b.shared().key_heads(b.problem(), tokens);
  const Distribution& split = b.shared().key_heads(b.problem(), b.shared().split_heads(tokens));
  return back ? b.shared().redistribution(split, placed) : b.shared().redistribution(placed, split);
}

}  // namespace

HeadTrade::HeadTrade(Builder& b, const Team& team, const Distribution& tokens, const Distribution& key_tokens,
                     TradeOptions options, Lane compute, Lane comm)
    : b_(b),
      team_(team),
      o_(options),
      compute_(compute),
      comm_(comm),
      queries_(b.shared().redistribution(tokens, b.shared().split_heads(tokens))),
      keys_(of_keys(b, key_tokens, false)),
      keys_back_(key_tokens.everywhere ? &of_keys(b, key_tokens, true) : nullptr) {}

Transfer HeadTrade::transfer(bool back, const std::vector<TransferTensor>& tensors) const {
  return Transfer(b_, team_, {back, {}, o_.transport, o_.most_pieces}, tensors);
}

Transfer HeadTrade::there(const std::vector<TransferTensor>& tensors) const {
  return transfer(false, tensors);
}

Transfer HeadTrade::back(const std::vector<TransferTensor>& tensors) const {
  return transfer(true, tensors);
}

Transfer HeadTrade::return_keys(std::string_view name, const Box& from, const Box& into) const {
  if (keys_back_ == nullptr) return transfer(true, {{name, &keys_, from, into}});
  return transfer(false, {{name, keys_back_, from, into}});
}

void HeadTrade::run(std::vector<Transfer> transfers) const {
  for (Transfer& t : transfers) {
    t.pack(compute_);
    t.move(comm());
    if (o_.one_by_one) t.unpack(compute_);
  }
  for (Transfer& t : transfers)
    if (!o_.one_by_one) t.unpack(compute_);
}

Scope scope_of_share(const Scope& whole, const Team& self) {
  Builder& b = whole.b;
  if (whole.P() == 1) return Scope(b);
  const Distribution &all = b.shared().split_heads(whole.tokens),
                     &all_keys = b.shared().split_heads(whole.key_tokens);
  return Scope(b, self, {{all[whole.place()]}}, {{all_keys[whole.place()]}}, Layout::heads_first);
}

std::vector<OptionInfo> trade_option_infos() {
  OptionInfo wire = gradient_wire_option();
  wire.help = "dtype in which dK and dV of key heads that several ranks hold are summed and sent";
  return {pack_above_option(), wire};
}

TradeOptions trade_options(const Schedule& s) {
  return {transport_of(s), s.count("pack_above"), gradient_wire_of(s), false};
}

void require_divided_heads(const Scenario& s, std::int64_t members, std::string_view members_are) {
  if (s.problem.heads % members == 0) return;
  throw ScenarioError("problem.heads", std::string(members_are) + " (" + std::to_string(members) +
                                           ") must divide heads (" + std::to_string(s.problem.heads) +
                                           "): every rank takes as many query heads; key heads may be fewer");
}

}  // namespace cplab
