// Emission of operations: interning of views and lists, bytes and FLOPs.
#include "algorithms/core/builder.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "algorithms/core/builder_pools.hpp"
#include "algorithms/core/defaults.hpp"
#include "algorithms/core/options.hpp"
#include "derive/arena.hpp"
#include "derive/pieces.hpp"
#include "plan/chunk_flops.hpp"
#include "plan/live_pairs.hpp"
#include "plan/operands.hpp"

namespace cplab {

Builder::Builder(const Scenario& resolved, const Placement& placement, Shared& shared, int replica,
                 int position, std::vector<Team> teams)
    : scenario_(resolved),
      placement_(placement),
      shared_(shared),
      pools_(std::make_unique<Pools>()),
      teams_(std::move(teams)) {
  plan_.replica = replica;
  plan_.between_layers = cplab::between_layers(resolved.schedule);
  plan_.position = position;
  plan_.rank =
      resolved.parallel.groups[static_cast<std::size_t>(replica)][static_cast<std::size_t>(position)];
}

Builder::~Builder() = default;

bool Builder::has_wide() const {
  return dtype_of(Role::wide, problem().dtype) != dtype_of(Role::nominal, problem().dtype);
}

const Team& Builder::team(std::string_view name) const {
  for (const Team& team : teams_)
    if (team.name == name) return team;
  throw std::logic_error("rank " + std::to_string(plan_.rank) + " is in no team " + std::string(name));
}

Span Builder::intern_ranges(const std::vector<RowRange>& ranges) {
  return pools_->ranges(plan_.row_ranges, ranges);
}

std::uint32_t Builder::intern_view(const View& view) {
  pools_->view_list.assign(1, view);
  return pools_->views(plan_.views, pools_->view_list).first;
}

BufferSpec Builder::like(const Box& box, std::string_view name) const {
  const Buffer& of = declared(box);
  const HeadRange heads = box.problem_heads();
  return {name,          of.role,  Category::working, 1,         of.rows,
          heads.count(), of.width, of.planes,         of.layout, heads.begin};
}

Box Builder::buffer(const BufferSpec& spec) {
  Buffer buffer;
  buffer.name = pools_->free_name(spec.name);
  buffer.role = spec.role;
  buffer.category = spec.category;
  buffer.layout = spec.layout;
  buffer.slots = spec.slots;
  buffer.rows = spec.rows;
  buffer.heads = spec.heads;
  buffer.width = spec.width;
  buffer.planes = spec.planes;
  buffer.bytes = spec.slots * spec.rows * spec.heads * spec.width * element_bytes(spec.role, problem().dtype);
  Box box;
  box.builder_ = this;
  box.first_head_ = spec.first_head;
  box.view_.buffer = static_cast<std::uint32_t>(plan_.buffers.size());
  box.view_.slot_end = static_cast<std::int32_t>(spec.slots);
  box.view_.head_end = static_cast<std::int32_t>(spec.heads);
  box.view_.width_end = static_cast<std::int32_t>(spec.width);
  buffer.slab = spec.slab;
  plan_.buffers.push_back(std::move(buffer));
  return box.first_rows(spec.rows);
}

std::int64_t Builder::pieces(const Box& box) const {
  return count_contiguous_pieces(plan_, box.view(), problem().dtype);
}

void Builder::phase(Phase phase) {
  if (phase != phase_) ordinal_ = 0;
  if (phase != phase_) beside_.clear();
  phase_ = phase;
  step_ = 0;
}

Operation& Builder::emit(Lane lane, OpKind kind, std::initializer_list<Box> reads,
                         std::initializer_list<std::pair<Box, WriteMode>> writes) {
  const DType dtype = problem().dtype;
  std::int64_t bytes = 0;
  std::vector<Access>& list = pools_->access_list;
  list.clear();
  for (const Box& box : reads) {
    list.push_back({intern_view(box.view()), WriteMode::store});
    bytes += view_bytes(plan_, box.view(), dtype);
  }
  std::vector<Access>& written = pools_->written_list;
  written.clear();
  for (const auto& [box, mode] : writes) {
    written.push_back({intern_view(box.view()), mode});
    bytes += view_bytes(plan_, box.view(), dtype) * (mode == WriteMode::store ? 1 : 2);
  }
  name_by_position(kind, list, written);  // the emitting functions below keep the table's order
  return emit_accesses(lane, kind, bytes);
}

Operation& Builder::emit_named(Lane lane, OpKind kind, const std::vector<Named>& reads,
                               const std::vector<Named>& writes) {
  std::int64_t bytes = 0;
  const auto collect = [&](const std::vector<Named>& operands, std::vector<Access>& list) {
    list.clear();
    for (const Named& each : operands) {
      if (!each.box.given()) continue;
      list.push_back({intern_view(each.box.view()), each.mode, each.operand});
      bytes += view_bytes(plan_, each.box.view(), problem().dtype) * (each.mode == WriteMode::store ? 1 : 2);
    }
  };
  collect(reads, pools_->access_list);
  collect(writes, pools_->written_list);
  return emit_accesses(lane, kind, bytes);
}

// An attention kernel may hold all multiprocessors from its start to its end. So it waits until what goes
// over nccl beside it has started, and holds its own.
void Builder::follow_communication(Lane lane) {
  for (const std::uint32_t communication : beside_)
    if (!(plan_.operations[communication].lane == lane) && !std::ranges::count(starts_, communication))
      starts_.push_back(communication);
  beside_.clear();
}

// An operation with the accesses that stand in the pools' lists.
Operation& Builder::emit_accesses(Lane lane, OpKind kind, std::int64_t bytes) {
  const bool attention = kind == OpKind::attend || kind == OpKind::attend_backward;
  if (attention && head_start_us(scenario_.schedule) > 0) follow_communication(lane);
  Operation op;
  op.kind = kind;
  op.phase = phase_;
  op.lane = lane;
  op.group = static_cast<std::uint16_t>(plan_.replica);
  op.step = step_;
  op.ordinal = ordinal_++;
  op.bytes = bytes;
  op.reads = pools_->accesses(plan_.accesses, pools_->access_list);
  op.writes = pools_->accesses(plan_.accesses, pools_->written_list);
  if (!starts_.empty()) op.after_started = pools_->edges(plan_.edges, starts_);
  starts_.clear();
  plan_.operations.push_back(op);
  return plan_.operations.back();
}

void Builder::attach_segments(Operation& op, const std::vector<Segment>& segments, const Box& q) {
  Pools::KnownSegments& known = pools_->known_segments[segments.data()];
  const auto pooled = RankPlan::slice(plan_.segments, known.span);
  if (known.span.count == 0 || !std::ranges::equal(pooled, segments)) {
    known = {pools_->segments(plan_.segments, segments), 0};
    for (const Segment& s : segments) known.pairs += live_pairs(s);
  }
  op.segments = known.span;
  op.head_begin = static_cast<std::int32_t>(q.problem_heads().begin);
  op.head_end = static_cast<std::int32_t>(q.problem_heads().end);
  op.value = problem().scale;
  op.softcap = problem().softcap;
  if (problem().places_bias()) op.bias = problem().bias;
  op.flops = known.pairs * (op.head_end - op.head_begin) *
             flops_per_pair(op.kind, problem().head_size, problem().value_size);
}

// The query heads of `q`, cut where the group that shares a key head is not whole: all whole groups are one
// range, what there is of a group at either end is another.
std::vector<HeadRange> Builder::groups_of_heads(const Box& q) const {
  const std::int64_t ratio = problem().heads / problem().kv_heads;
  const HeadRange all = q.problem_heads();
  std::vector<HeadRange> cut;
  for (std::int64_t begin = all.begin, end = 0; begin < all.end; begin = end) {
    end = begin % ratio == 0 ? all.end / ratio * ratio : (begin / ratio + 1) * ratio;
    if (end <= begin || end > all.end) end = all.end;
    cut.push_back({begin, end});
  }
  return cut;
}

void Builder::attend(Lane lane, const Attend& a) {
  for (const HeadRange h : groups_of_heads(a.q)) {
    const HeadRange g = key_heads(problem(), h);
    const auto query = [&](const Box& box) { return box.of_problem(h); };
    const auto key = [&](const Box& box) { return box.of_problem(g); };
    const PairMask m = a.mask.of_heads(h, g);
    using enum Operand;
    Operation& op =
        emit_named(lane, OpKind::attend,
                   {{q, query(a.q)},
                    {k, key(a.k)},
                    {v, key(a.v)},
                    {bias, m.bias},
                    {keep, m.keep},
                    {bias_table, m.table},
                    {sink, a.sink.given() ? query(a.sink) : Box()}},
                   {{out, query(a.out), a.mode},
                    {lse, query(a.lse), a.mode},
                    {max_logit, a.max_logit.given() ? query(a.max_logit) : Box(), WriteMode::max}});
    op.columns = intern_ranges(m.columns);
    attach_segments(op, a.segments, query(a.q));
  }
}

void Builder::attend_backward(Lane lane, const AttendBackward& a) {
  const bool computes_delta = a.out.given(), rounds_dq = a.rounded_dq.given();
  for (const HeadRange h : groups_of_heads(a.q)) {
    const HeadRange g = key_heads(problem(), h);
    const auto query = [&](const Box& box) { return box.of_problem(h); };
    const auto key = [&](const Box& box) { return box.of_problem(g); };
    const PairMask m = a.mask.of_heads(h, g);
    const Box sums = dkv_sums(lane, key(a.dk), h.count(), a.dk_mode);
    const bool rounds = sums.given();
    const std::int64_t D = problem().head_size;
    using enum Operand;
    Operation& op =
        emit_named(lane, OpKind::attend_backward,
                   {{q, query(a.q)},
                    {k, key(a.k)},
                    {v, key(a.v)},
                    {dout, query(a.dout)},
                    {lse, query(a.lse)},
                    {delta, computes_delta ? Box() : query(a.delta)},
                    {out, computes_delta ? query(a.out) : Box()},
                    {bias, m.bias},
                    {keep, m.keep},
                    {bias_table, m.table}},
                   {{dq, query(a.dq), a.dq_mode},
                    {dk, rounds ? sums.columns(0, D) : key(a.dk), a.dk_mode},
                    {dv, rounds ? sums.columns(D, D + problem().value_size) : key(a.dv), a.dk_mode},
                    {rounded_dk, rounds ? key(a.dk) : Box()},
                    {rounded_dv, rounds ? key(a.dv) : Box()},
                    {delta, computes_delta ? query(a.delta) : Box()},
                    {dbias, m.dbias, m.dbias_mode},
                    {dbias_table, m.dtable, WriteMode::add},
                    {rounded_dq, rounds_dq ? query(a.rounded_dq) : Box()}});
    op.columns = intern_ranges(m.columns);
    attach_segments(op, a.segments, query(a.q));
  }
}

void Builder::row_dot(Lane lane, const Box& dout, const Box& out, const Box& delta) {
  emit(lane, OpKind::row_dot, {dout, out}, {{delta, WriteMode::store}});
}

void Builder::sink_gradient(Lane lane, const Box& sink, const Box& lse, const Box& delta, const Box& dsink) {
  emit(lane, OpKind::sink_gradient, {sink, lse, delta}, {{dsink, WriteMode::store}});
}

void Builder::merge(Lane lane, const Box& part_out, const Box& part_lse, const Box& out, const Box& lse) {
  emit(lane, OpKind::merge, {part_out, part_lse}, {{out, WriteMode::merge}, {lse, WriteMode::merge}});
}

void Builder::merge_lse(Lane lane, const Box& part_lse, const Box& lse) {
  emit(lane, OpKind::merge, {part_lse}, {{lse, WriteMode::merge}});
}

void Builder::rescale_add(Lane lane, const Box& part_out, const Box& part_lse, const Box& lse,
                          const Box& out) {
  emit(lane, OpKind::merge, {part_out, part_lse, lse}, {{out, WriteMode::add}});
}

void Builder::copy(Lane lane, const Box& from, const Box& into) {
  emit(lane, OpKind::copy, {from}, {{into, WriteMode::store}});
}

void Builder::cast(Lane lane, const Box& from, const Box& into) {
  emit(lane, OpKind::cast, {from}, {{into, WriteMode::store}});
}

void Builder::convert(Lane lane, const Box& from, const Box& into) {
  const auto role = [&](const Box& box) { return plan_.buffers[box.view().buffer].role; };
  role(from) == role(into) ? copy(lane, from, into) : cast(lane, from, into);
}

void Builder::add(Lane lane, const Box& from, const Box& into) {
  emit(lane, OpKind::add, {from}, {{into, WriteMode::add}});
}

void Builder::maximum(Lane lane, const Box& from, const Box& into) {
  emit(lane, OpKind::maximum, {from}, {{into, WriteMode::max}});
}

void Builder::fill(Lane lane, const Box& into, double value) {
  emit(lane, OpKind::fill, {}, {{into, WriteMode::store}}).value = value;
}

// ---- Sums of dk and dv.

Box Builder::dkv_sums(Lane lane, const Box& dk, std::int64_t query_heads, WriteMode mode) {
  const Problem& p = problem();
  const HeadRange heads = dk.problem_heads();
  const std::int64_t rows = declared(dk).rows;
  const bool rounds = mode == WriteMode::store && declared(dk).role == Role::nominal && has_wide() &&
                      wide_accumulator(scenario_.schedule) && p.has_plain_logits();
  const bool empty = dk.row_list().empty();  // a tile that sees no keys
  const bool sums = query_heads > heads.count() && defaults::tiles_sum_dkv(rows * heads.count());
  if (!rounds || empty || !sums) return {};
  const Layout layout = declared(dk).layout;
  for (const Pools::DkvSums& made : pools_->dkv_sums)
    if (made.lane == lane && made.rows == rows && made.heads.begin == heads.begin &&
        made.heads.end == heads.end && made.layout == layout)
      return made.box.rows(dk.row_list());
  const Box box = buffer({"dkv_sum", Role::wide, Category::working, 1, rows, heads.count(),
                          p.head_size + p.value_size, p.head_size, layout, heads.begin});
  pools_->dkv_sums.push_back({lane, rows, heads, layout, box});
  return box.rows(dk.row_list());  // as dk lies: kernels want all that has rows of keys alike
}

// ---- Linear attention.

void Builder::linear(Lane lane, OpKind kind, const std::vector<Named>& reads,
                     const std::vector<Named>& writes, const OnChunks& chunks) {
  const Box* first = nullptr;
  for (const std::vector<Named>* operands : {&reads, &writes})
    for (const Named& each : *operands)
      if (!first && each.box.given()) first = &each.box;
  Operation& op = emit_named(lane, kind, reads, writes);
  op.chunks = pools_->chunks(plan_.chunks, chunks.list);
  op.chunk_work = chunks.work;
  op.reverse = chunks.reverse;
  op.head_begin = static_cast<std::int32_t>(first->problem_heads().begin);
  op.head_end = static_cast<std::int32_t>(first->problem_heads().end);
  op.flops = chunk_flops(plan_, op);
}

// ---- Communication: messages of a team become parts, with global ranks.

Lane Builder::lane_of(Lane lane, TransportChoice choice, Transport taken) const {
  const bool apart = !choice && taken == Transport::nccl && lane.kind == LaneKind::comm;
  if (apart && shared_.mixes_transports(scenario_.parallel)) lane.index += beside_copies;
  return lane;
}

void Builder::communicate(Lane lane, OpKind kind, TransportChoice choice, const Team& team,
                          const std::vector<Message>& messages) {
  if (choice || kind != OpKind::exchange || messages.empty()) {
    const Transport taken = choice.value_or(transport_within(scenario_.parallel, kind, team.ranks));
    post(lane_of(lane, choice, taken), kind, taken, team, messages);
    return;
  }
  // Each message takes the transport that its ends allow. Both ends divide messages alike, and on either side
  // the copies go first.
  std::vector<Message> of[2];
  for (const Message& m : messages) {
    const bool shared =
        share_island(scenario_.parallel, plan_.rank, team.ranks[static_cast<std::size_t>(m.peer)]);
    of[shared ? 0 : 1].push_back(m);
  }
  const std::vector<std::uint32_t> starts = starts_;  // both wait for what the exchange waits for
  if (!of[0].empty()) post(lane_of(lane, choice, Transport::copy), kind, Transport::copy, team, of[0]);
  if (of[1].empty()) return;
  starts_ = starts;
  post(lane_of(lane, choice, Transport::nccl), kind, Transport::nccl, team, of[1]);
}

void Builder::post(Lane lane, OpKind kind, Transport transport, const Team& team,
                   const std::vector<Message>& messages) {
  std::vector<Part>& list = pools_->part_list;
  list.clear();
  std::int64_t sent = 0, bytes = 0;  // bytes: of what was sent last, which the next mostly is once more
  const View* sent_last = nullptr;
  std::uint32_t view = 0;
  for (const Message& m : messages) {
    const int peer = team.ranks[static_cast<std::size_t>(m.peer)];
    if (!m.send) {
      list.push_back({intern_view(m.box.view()), peer, false});
      continue;
    }
    if (sent_last == nullptr || !(*sent_last == m.box.view())) {
      sent_last = &m.box.view();
      view = intern_view(*sent_last);
      bytes = view_bytes(plan_, *sent_last, problem().dtype);
    }
    list.push_back({view, peer, true});
    sent += bytes;
  }
  const Span parts = pools_->parts(plan_.parts, list);
  Operation& op = emit(lane, kind, {}, {});
  op.transport = transport;
  op.group = team.group;
  op.parts = parts;
  op.bytes = sent;
  if (transport != Transport::nccl) return;
  if (kind == OpKind::exchange) op.channels = exchange_channels(scenario_.schedule);
  if (kind != OpKind::barrier && !messages.empty()) beside_.push_back(last());
}

// Every member sends a message to every member, and receives one from each.
void Builder::collective(Lane lane, OpKind kind, TransportChoice transport, const Team& team,
                         const std::vector<Box>& from, const std::vector<Box>& into) {
  if (std::ssize(from) != team.size() || std::ssize(into) != team.size())
    throw std::logic_error("a collective of team " + team.name + " needs a box for every member");
  std::vector<Message> messages;
  for (int peer = 0; peer < team.size(); ++peer) {
    messages.push_back(send(from[static_cast<std::size_t>(peer)], peer));
    messages.push_back(receive(into[static_cast<std::size_t>(peer)], peer));
  }
  communicate(lane, kind, transport, team, messages);
}

void Builder::exchange_rows(Lane lane, TransportChoice transport, const Team& team,
                            std::vector<Message> messages) {
  std::erase_if(messages, [](const Message& m) { return m.box.row_list().empty(); });
  if (!messages.empty()) exchange(lane, transport, team, messages);
}

void Builder::exchange(Lane lane, TransportChoice transport, const std::vector<Message>& messages) {
  communicate(lane, OpKind::exchange, transport, everyone(), messages);
}

void Builder::exchange(Lane lane, TransportChoice transport, const Team& team,
                       const std::vector<Message>& messages) {
  communicate(lane, OpKind::exchange, transport, team, messages);
}

void Builder::all_gather(Lane lane, TransportChoice transport, const Team& team, const Box& own,
                         const std::vector<Box>& into) {
  collective(lane, OpKind::all_gather, transport, team, std::vector<Box>(into.size(), own), into);
}

void Builder::all_to_all(Lane lane, TransportChoice transport, const Team& team, const std::vector<Box>& from,
                         const std::vector<Box>& into) {
  collective(lane, OpKind::all_to_all, transport, team, from, into);
}

void Builder::reduce_scatter(Lane lane, TransportChoice transport, const Team& team,
                             const std::vector<Box>& from, const Box& into) {
  collective(lane, OpKind::reduce_scatter, transport, team, from, std::vector<Box>(from.size(), into));
}

void Builder::all_reduce(Lane lane, TransportChoice transport, const Team& team, Reduction reduction,
                         const Box& from, const Box& into) {
  const Transport taken =
      transport.value_or(transport_within(scenario_.parallel, OpKind::all_reduce, team.ranks));
  Operation& op =
      emit(lane_of(lane, transport, taken), OpKind::all_reduce, {from}, {{into, WriteMode::store}});
  op.transport = taken;
  op.group = team.group;
  op.reduction = reduction;
  op.bytes = view_bytes(plan_, from.view(), problem().dtype);
}

void Builder::barrier(Lane lane, TransportChoice transport, const Team& team) {
  communicate(lane, OpKind::barrier, transport, team, {});
}

void Builder::host_sync(Lane lane) {
  emit(lane, OpKind::host_sync, {}, {});
}

// ---- The end.

// An algorithm declares buffers before it knows whether this rank needs them; the plan has those that some
// operation touches.
void Builder::drop_unused_buffers() {
  std::vector<char> used(plan_.buffers.size(), 0);
  for (std::size_t i = 0; i < used.size(); ++i)
    used[i] = plan_.buffers[i].category != Category::working && plan_.buffers[i].category != Category::saved;
  const auto touch = [&](std::uint32_t view) { used[plan_.views[view].buffer] = 1; };
  for (const Operation& op : plan_.operations) {
    for (const Access& access : plan_.reads(op)) touch(access.view);
    for (const Access& access : plan_.writes(op)) touch(access.view);
    for (const Part& part : plan_.parts_of(op)) touch(part.view);
  }
  std::vector<std::uint32_t> number(used.size(), 0);
  std::uint32_t kept = 0;
  for (std::size_t i = 0; i < used.size(); ++i) {
    number[i] = kept;
    if (!used[i]) continue;
    if (kept != i) plan_.buffers[kept] = std::move(plan_.buffers[i]);
    ++kept;
  }
  plan_.buffers.resize(kept);
  for (View& view : plan_.views) view.buffer = number[view.buffer];
}

RankPlan Builder::finish() {
  drop_unused_buffers();
  lay_out(plan_, reuse_of(scenario_.schedule));
  return std::move(plan_);
}

}  // namespace cplab
