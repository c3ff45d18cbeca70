// Outcomes of ranks as bytes; see gather.hpp. Both ends are the same program on the same kind of machine.
#include "exec/gpu/gather.hpp"

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>

#include "exec/processes/rendezvous.hpp"

namespace cplab {

namespace {

class Writer {
 public:
  template <class Value>
  void operator()(const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    append(&value, sizeof(Value));
  }
  template <class Value>
  void operator()(const std::vector<Value>& values) {
    (*this)(static_cast<std::uint64_t>(values.size()));
    if constexpr (std::is_trivially_copyable_v<Value>) {
      append(values.data(), values.size() * sizeof(Value));
    } else {
      for (const Value& value : values) (*this)(value);
    }
  }
  std::vector<std::byte> bytes;

 private:
  void append(const void* data, std::size_t count) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), first, first + count);
  }
};

class Reader {
 public:
  explicit Reader(const std::vector<std::byte>& bytes) : bytes_(bytes) {}
  template <class Value>
  void operator()(Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    take(&value, sizeof(Value));
  }
  void operator()(bool& value) {  // only 0 and 1 may be read as one
    std::uint8_t byte = 0;
    take(&byte, sizeof(byte));
    if (byte > 1) throw std::invalid_argument("outcome: a truth value of " + std::to_string(byte));
    value = byte == 1;
  }
  template <class Value>
  void operator()(std::vector<Value>& values) {
    std::uint64_t count = 0;
    (*this)(count);
    // An element takes at least its own bytes, or the eight of its own count.
    constexpr std::size_t least = std::is_trivially_copyable_v<Value> ? sizeof(Value) : sizeof(count);
    if (count > (bytes_.size() - at_) / least) throw std::invalid_argument("outcome: cut short");
    values.resize(static_cast<std::size_t>(count));
    if constexpr (std::is_trivially_copyable_v<Value>) {
      take(values.data(), count * sizeof(Value));
    } else {
      for (Value& value : values) (*this)(value);
    }
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  void take(void* data, std::size_t count) {
    if (count > bytes_.size() - at_) throw std::invalid_argument("outcome: cut short");
    if (count > 0) std::memcpy(data, bytes_.data() + at_, count);
    at_ += count;
  }
  const std::vector<std::byte>& bytes_;
  std::size_t at_ = 0;
};

template <class Archive, class Outcome>
void each_field(Archive& archive, Outcome& o) {
  archive(o.ends_s);
  archive(o.forward_ends_s);
  archive(o.operations);
  archive(o.clock_residual_s);
  archive(o.memory);
  archive(o.log.blocks);
  archive(o.log.uses);
  archive(o.overrun);
  archive(o.outputs);
  archive(o.variants);
  archive(o.fall_backs);
}

void require(bool fine, const char* what) {
  if (!fine) throw std::invalid_argument(std::string("outcome: ") + what);
}

// No execution lasts as long (--timeout is 1e6 s at most), and a time before the start is a clock's error.
bool is_time(double seconds) {
  return std::isfinite(seconds) && std::abs(seconds) < 1e7;
}

bool is_size(std::int64_t bytes) {
  constexpr std::int64_t most = std::int64_t{1} << 50;
  return bytes > -most && bytes < most;
}

void require_times(const RankPlan& rank, const RankOutcome& theirs) {
  for (const double end_s : theirs.ends_s) require(is_time(end_s), "a time that is none");
  for (const double end_s : theirs.forward_ends_s) require(is_time(end_s), "a time that is none");
  for (const std::vector<OperationTime>& operations : theirs.operations) {
    require(operations.size() == rank.operations.size(), "another number of operations than the plan's");
    for (const OperationTime& time : operations) {
      require(is_time(time.issue_s) && is_time(time.start_s) && is_time(time.end_s) && is_time(time.wait_s),
              "an operation's time that is none");
      require(time.origin <= Origin::assumed, "an origin of a time that is none");
    }
  }
  require(is_time(theirs.clock_residual_s), "a clock's error that is none");
}

// Words that people read, of a kernel or a condition.
void require_words(const RankPlan& rank, const std::vector<std::vector<char>>& words) {
  constexpr std::size_t longest = 1000;
  require(words.size() == rank.operations.size(), "another number of operations than the plan's");
  for (const std::vector<char>& word : words) {
    require(word.size() <= longest, "the name of a kernel that is too long");
    for (const char c : word) require(c >= ' ' && c <= '~', "the name of a kernel that is none");
  }
}

void require_memory(const RankPlan& rank, const RankOutcome& theirs) {
  const RankMemory& memory = theirs.memory;
  require(memory.rank == rank.rank, "the memory of another rank");
  for (const std::int64_t bytes : {memory.context_bytes, memory.communicator_bytes, memory.tables_bytes,
                                   memory.arena_bytes, memory.growth_bytes, memory.unexplained_bytes})
    require(is_size(bytes), "a size of memory that is none");
  for (const MemoryBlock& block : theirs.log.blocks)
    require(block.buffer < rank.buffers.size() && is_size(block.bytes) && is_size(block.offset),
            "a block of a buffer that the plan does not have");
  for (const MemoryUse& use : theirs.log.uses) {
    require(use.buffer < rank.buffers.size() && use.operation < rank.operations.size(),
            "a use that the plan does not have");
    std::uint8_t written = 0;  // as it came, before it is looked at as a truth value
    std::memcpy(&written, &use.written, sizeof(written));
    require(written <= 1 && use.lane.kind <= LaneKind::host, "a use that is none");
  }
}

}  // namespace

void require_outcome_of(const RankPlan& rank, const RankOutcome& theirs, const RankOutcome& own) {
  require(theirs.forward_ends_s.size() == own.forward_ends_s.size(), "another number of repetitions");
  require(theirs.ends_s.size() == own.ends_s.size() && theirs.operations.size() == own.operations.size(),
          "another number of repetitions");
  require_times(rank, theirs);
  require_memory(rank, theirs);
  require_words(rank, theirs.variants);
  require_words(rank, theirs.fall_backs);
  require(theirs.outputs.size() == rank.buffers.size(), "another number of buffers than the plan's");
  for (std::size_t b = 0; b < rank.buffers.size(); ++b) {
    const Buffer& buffer = rank.buffers[b];
    const std::int64_t expected = buffer.category == Category::output ? buffer.bytes : 0;
    require(static_cast<std::int64_t>(theirs.outputs[b].size()) == expected,
            "an output of another size than the plan's");
  }
}

std::vector<std::byte> pack(const RankOutcome& outcome) {
  Writer writer;
  each_field(writer, outcome);
  return std::move(writer.bytes);
}

RankOutcome unpack(const std::vector<std::byte>& bytes) {
  RankOutcome outcome;
  Reader reader(bytes);
  each_field(reader, outcome);
  if (!reader.at_end()) throw std::invalid_argument("outcome: bytes left over");
  return outcome;
}

RankOutcome received_outcome(const RankPlan& rank, const std::vector<std::byte>& bytes,
                             const RankOutcome& own) {
  try {
    RankOutcome outcome = unpack(bytes);
    require_outcome_of(rank, outcome, own);
    return outcome;
  } catch (const std::invalid_argument& error) {
    throw RendezvousError("what rank " + std::to_string(rank.rank) +
                          " says of its run does not fit this plan: " + error.what());
  }
}

}  // namespace cplab
