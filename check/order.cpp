// Happens-before within one rank, from lane order, `after` edges and host_sync, as vector clocks; races of
// conflicting accesses; buffers that share bytes of the arena.
//
// clock(o)[l] = how many operations of lane l are known complete when o starts. An operation occupies its
// views from its start to its completion, so x comes before y exactly if clock(y)[lane of x] > place of x.
#include <algorithm>
#include <string>
#include <utility>

#include "check/model.hpp"

namespace cplab::checking {
namespace {

class Order {
 public:
  Order(RankModel& rank, Findings& findings)
      : rank_(rank), findings_(findings), buffers_(rank.plan->buffers.size()), lanes_(rank.lanes.size()) {}

  void run() {
    const auto count = static_cast<std::uint32_t>(rank_.plan->operations.size());
    for (std::uint32_t i = 0; i < count; ++i)
      rank_.for_each_access(i, [&](std::uint32_t view, bool write) {
        if (write) buffers_[rank_.boxes[view].buffer].written = true;
      });
    rank_.clocks.assign(std::size_t{count} * lanes_, 0);
    host_.assign(lanes_, 0);
    for (BufferState& b : buffers_) b.last.assign(lanes_, 0), b.known.assign(lanes_, none);
    for (std::uint32_t i = 0; i < count; ++i) {
      set_clock(i);
      touch_all(i);
    }
    unused();
    shared_bytes();
    if (rank_.plan->between_layers) between_phases();
  }

 private:
  struct Live {  // an access that later ones must still be compared with
    std::uint32_t operation;
    std::uint32_t view;
    bool write;
    bool reported;
  };
  struct BufferState {
    bool written = false;
    std::uint32_t first = none;  // the first operation that touches it
    std::vector<Live> live;
    std::vector<std::uint32_t> last;   // by lane: 1 + place of its last access
    std::vector<std::uint32_t> known;  // by lane: least clock over its accesses
  };

  std::uint32_t* clock(std::uint32_t i) { return rank_.clocks.data() + std::size_t{i} * lanes_; }

  void set_clock(std::uint32_t i) {
    std::uint32_t* c = clock(i);
    const std::uint16_t own = rank_.lane_of[i];
    const std::uint32_t place = rank_.place[i];
    const auto join = [&](const std::uint32_t* other) {
      for (std::size_t l = 0; l < lanes_; ++l) c[l] = std::max(c[l], other[l]);
    };
    if (place > 0) join(clock(rank_.lanes[own][place - 1]));
    c[own] = place;
    if (host_synced_) join(host_.data());
    rank_.for_each_edge(i, [&](std::uint32_t e) {
      join(clock(e));
      c[rank_.lane_of[e]] = std::max(c[rank_.lane_of[e]], rank_.place[e] + 1);
    });
    if (rank_.op(i).kind == OpKind::host_sync) {
      host_synced_ = true;
      for (std::size_t l = 0; l < lanes_; ++l) host_[l] = std::max(host_[l], c[l]);
      host_[own] = std::max(host_[own], place + 1);
    }
  }

  void touch_all(std::uint32_t i) {
    const std::uint32_t* c = clock(i);
    rank_.for_each_access(i, [&](std::uint32_t view, bool write) {
      BufferState& b = buffers_[rank_.boxes[view].buffer];
      b.first = std::min(b.first, i);
      std::uint32_t& last = b.last[rank_.lane_of[i]];
      last = std::max(last, rank_.place[i] + 1);
      for (std::size_t l = 0; l < lanes_; ++l) b.known[l] = std::min(b.known[l], c[l]);
      if (b.written) touch(i, view, write, b);
      if (!rank_.plan->buffers[rank_.boxes[view].buffer].slab.empty()) touch_slab(i, view, write, b);
    });
  }

  // All accesses to the slab's other buffers must be complete: they share its bytes.
  void touch_slab(std::uint32_t i, std::uint32_t view, bool write, BufferState& own) {
    const std::uint32_t buffer = rank_.boxes[view].buffer;
    if (!own.written) own.live.push_back({i, view, write, false});  // touch() is not called before a write
    const std::uint32_t* c = clock(i);
    rank_.for_each_of_slab(buffer, [&](std::uint32_t other) {
      for (Live& old : buffers_[other].live) {
        if (old.reported || c[rank_.lane_of[old.operation]] > rank_.place[old.operation]) continue;
        old.reported = true;
        findings_.add(FindingKind::lifetime, rank_.plan, i, buffer,
                      describe_operation(rank_, i) + (write ? " writes " : " reads ") +
                          rank_.plan->buffers[buffer].name + " while " +
                          describe_operation(rank_, old.operation) + " may still use " +
                          rank_.plan->buffers[other].name + ", which shares the bytes of slab " +
                          rank_.plan->buffers[buffer].slab);
      }
    });
  }

  // Where other layers run between the phases, the whole forward must end before the backward begins, and the
  // backward may use only inputs, outputs and saved buffers of the forward.
  void between_phases() {
    std::vector<std::uint32_t> forward(lanes_, 0);  // by lane: 1 + place of the last of the forward
    std::vector<std::uint8_t> phases(buffers_.size(), 0);
    const auto count = static_cast<std::uint32_t>(rank_.plan->operations.size());
    for (std::uint32_t i = 0; i < count; ++i) {
      const bool backward = rank_.op(i).phase == Phase::backward;
      if (!backward) forward[rank_.lane_of[i]] = std::max(forward[rank_.lane_of[i]], rank_.place[i] + 1);
      rank_.for_each_access(i, [&](std::uint32_t view, bool) {
        const std::uint32_t b = rank_.boxes[view].buffer;
        const Category category = rank_.plan->buffers[b].category;
        const bool freed = category == Category::working || category == Category::workspace;
        if (freed && backward && phases[b] == 1)
          findings_.add(FindingKind::lifetime, rank_.plan, i, b,
                        describe_operation(rank_, i) + " uses " + rank_.plan->buffers[b].name +
                            " of the forward: where other layers run in between, only inputs, outputs and "
                            "saved buffers are left");
        phases[b] |= backward ? 2 : 1;
      });
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      if (rank_.op(i).phase != Phase::backward) continue;
      for (std::size_t l = 0; l < lanes_; ++l) {
        if (clock(i)[l] >= forward[l]) continue;
        findings_.add(FindingKind::order, rank_.plan, i, none,
                      describe_operation(rank_, i) + " may begin before " +
                          describe_operation(rank_, rank_.lanes[l][forward[l] - 1]) +
                          " of the forward has ended, although other layers run in between");
        break;
      }
    }
  }

  void touch(std::uint32_t i, std::uint32_t view, bool write, BufferState& b) {
    const Box& box = rank_.boxes[view];
    const std::uint32_t* c = clock(i);
    std::size_t kept = 0;
    bool known = false;
    for (std::size_t n = 0; n < b.live.size(); ++n) {
      Live& old = b.live[n];
      bool keep = true;
      const Box& old_box = rank_.boxes[old.view];
      if (old.operation == i) {
        known = known || (old.view == view && old.write == write);
        if ((write || old.write) && rank_.overlap(box, old_box) && !may_share(i, view, write, old))
          report(i, view, write, old);
      } else if (c[rank_.lane_of[old.operation]] > rank_.place[old.operation]) {
        keep = (old.write && !write) || !rank_.contains(box, old_box);
      } else if ((write || old.write) && !old.reported && rank_.overlap(box, old_box)) {
        report(i, view, write, old);
        old.reported = true;  // later conflicts have the same cause
      }
      if (keep) b.live[kept++] = b.live[n];
    }
    b.live.resize(kept);
    if (!known) b.live.push_back({i, view, write, false});
  }

  // Two accesses of one operation may overlap only where a reduce_scatter sums into one view or an all_reduce
  // works in place. All others may happen at the same time, over two links.
  bool may_share(std::uint32_t i, std::uint32_t view, bool write, const Live& old) const {
    const OpKind kind = rank_.op(i).kind;
    const bool possible = kind == OpKind::reduce_scatter ? write && old.write : kind == OpKind::all_reduce;
    return possible && (old.view == view ||
                        same_elements(*rank_.plan, rank_.plan->views[old.view], rank_.plan->views[view]));
  }

  void report(std::uint32_t i, std::uint32_t view, bool write, const Live& old) {
    const Box& box = rank_.boxes[view];
    std::string text =
        describe_operation(rank_, i) + (write ? " writes " : " reads ") + describe_box(rank_, box);
    if (old.operation == i) {
      text += old.write ? " and writes part of it elsewhere in the same operation"
                        : " and reads part of it elsewhere in the same operation";
    } else {
      text += " while " + describe_operation(rank_, old.operation) + " may still be " +
              (old.write ? "writing" : "reading") + " it: nothing orders the two";
    }
    findings_.add(FindingKind::race, rank_.plan, i, box.buffer, std::move(text));
  }

  void unused() {
    for (std::uint32_t b = 0; b < buffers_.size(); ++b) {
      const Buffer& buffer = rank_.plan->buffers[b];
      const bool holds = buffer.slots > 0 && buffer.rows > 0 && buffer.heads > 0 && buffer.width > 0;
      const bool temporary = buffer.category != Category::input && buffer.category != Category::output;
      if (holds && temporary && buffers_[b].first == none)
        findings_.add(FindingKind::leak, rank_.plan, none, b, "no operation touches buffer " + buffer.name);
    }
  }

  // Every access of a is complete before any of b starts.
  bool before(const BufferState& a, const BufferState& b) const {
    for (std::size_t l = 0; l < lanes_; ++l)
      if (a.last[l] > 0 && b.known[l] < a.last[l]) return false;
    return true;
  }

  void shared_bytes() {
    std::vector<std::uint32_t> order;
    for (std::uint32_t b = 0; b < buffers_.size(); ++b)
      if (rank_.plan->buffers[b].bytes > 0 && rank_.plan->buffers[b].offset >= 0 && lives(b))
        order.push_back(b);
    const auto& list = rank_.plan->buffers;
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(list[a].offset, a) < std::pair(list[b].offset, b);
    });
    for (std::size_t n = 0; n < order.size(); ++n) {
      for (std::size_t m = n + 1; m < order.size(); ++m) {
        const Buffer &a = list[order[n]], &b = list[order[m]];
        if (b.offset - a.offset >= a.bytes) break;
        if (!a.slab.empty() && a.slab == b.slab) continue;  // touch_slab tests it access by access
        test_pair(std::min(order[n], order[m]), std::max(order[n], order[m]));
      }
    }
  }

  // Inputs are there from the beginning, whether read or not.
  bool lives(std::uint32_t b) const {
    return buffers_[b].first != none || rank_.plan->buffers[b].category == Category::input;
  }

  void test_pair(std::uint32_t a, std::uint32_t b) {
    const Buffer &first = rank_.plan->buffers[a], &second = rank_.plan->buffers[b];
    const bool input = first.category == Category::input || second.category == Category::input;
    // An output stays in use to the end, so nothing may come after it.
    const bool a_first = first.category != Category::output && before(buffers_[a], buffers_[b]);
    const bool b_first = second.category != Category::output && before(buffers_[b], buffers_[a]);
    if (!input && (a_first || b_first)) return;
    // The finding names the first operation on the buffer that is used later.
    const std::uint32_t x = buffers_[a].first, y = buffers_[b].first;
    const std::uint32_t later = x == none ? y : y == none ? x : std::max(x, y);
    findings_.add(FindingKind::lifetime, rank_.plan, later, later == x ? a : b,
                  "buffers " + first.name + " and " + second.name + " share bytes of the arena " +
                      (input ? "although an input may share none" : "while both may be in use"));
  }

  RankModel& rank_;
  Findings& findings_;
  std::vector<BufferState> buffers_;
  std::size_t lanes_;
  std::vector<std::uint32_t> host_;  // clock after the last host_sync
  bool host_synced_ = false;
};

bool apart(std::int64_t a_begin, std::int64_t a_end, std::int64_t b_begin, std::int64_t b_end) {
  return a_end <= b_begin || b_end <= a_begin;
}

}  // namespace

bool RankModel::rows_overlap(const Box& a, const Box& b) const {
  const RowRange a_run{a.low, a.high - a.low, 1}, b_run{b.low, b.high - b.low, 1};
  const RowSet* a_set = a.row_set < 0 ? nullptr : &row_sets[static_cast<std::size_t>(a.row_set)];
  const RowSet* b_set = b.row_set < 0 ? nullptr : &row_sets[static_cast<std::size_t>(b.row_set)];
  const std::span<const RowRange> x = a_set ? std::span<const RowRange>(a_set->sorted) : std::span(&a_run, 1);
  const std::span<const RowRange> y = b_set ? std::span<const RowRange>(b_set->sorted) : std::span(&b_run, 1);
  if ((a_set && a_set->strided) || (b_set && b_set->strided)) {
    for (const RowRange& r : x)
      for (const RowRange& s : y)
        if (runs_meet(r, s)) return true;
    return false;
  }
  for (std::size_t i = 0, j = 0; i < x.size() && j < y.size();) {
    if (runs_meet(x[i], y[j])) return true;
    (x[i].begin < y[j].begin ? i : j)++;
  }
  return false;
}

bool RankModel::rows_contain(const Box& a, const Box& b) const {
  if (a.row_set < 0) return a.low <= b.low && b.high <= a.high;
  const RowSet& x = row_sets[static_cast<std::size_t>(a.row_set)];
  if (x.strided || (b.row_set >= 0 && row_sets[static_cast<std::size_t>(b.row_set)].strided)) return false;
  const RowRange run{b.low, b.high - b.low, 1};
  const std::span<const RowRange> y =
      b.row_set < 0 ? std::span(&run, 1)
                    : std::span<const RowRange>(row_sets[static_cast<std::size_t>(b.row_set)].sorted);
  std::size_t i = 0;
  for (const RowRange& r : y) {
    while (i < x.sorted.size() && x.sorted[i].begin + x.sorted[i].count < r.begin + r.count) ++i;
    if (i == x.sorted.size() || x.sorted[i].begin > r.begin) return false;
  }
  return true;
}

bool RankModel::overlap(const Box& a, const Box& b) {
  if (apart(a.slot_begin, a.slot_end, b.slot_begin, b.slot_end) || apart(a.low, a.high, b.low, b.high) ||
      apart(a.width_begin, a.width_end, b.width_begin, b.width_end) ||
      apart(a.head_begin, a.head_end, b.head_begin, b.head_end)) {
    return false;
  }
  if (a.row_set == b.row_set) return true;  // both plain, or the same rows
  if (a.row_set < 0 || b.row_set < 0) return rows_overlap(a, b);
  const auto [low, high] = std::minmax(a.row_set, b.row_set);
  std::uint8_t& known = row_relations_[(std::uint64_t{static_cast<std::uint32_t>(low)} << 32) |
                                       static_cast<std::uint32_t>(high)];
  if (known == 0) known = rows_overlap(a, b) ? 1 : 2;
  return known == 1;
}

bool RankModel::contains(const Box& a, const Box& b) {
  if (a.slot_begin > b.slot_begin || b.slot_end > a.slot_end || a.head_begin > b.head_begin ||
      b.head_end > a.head_end || a.width_begin > b.width_begin || b.width_end > a.width_end ||
      a.low > b.low || b.high > a.high) {
    return false;
  }
  if (a.row_set == b.row_set) return true;
  if (a.row_set < 0) return true;  // its bounds hold the other's
  return rows_contain(a, b);
}

void check_order(RankModel& rank, Findings& findings) {
  Order(rank, findings).run();
}

}  // namespace cplab::checking
