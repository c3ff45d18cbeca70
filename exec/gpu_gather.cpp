// Outcomes of ranks as bytes; see gpu_gather.hpp. Both ends are the same program on the same kind of machine.
#include "exec/gpu_gather.hpp"

#include <cstdint>
#include <type_traits>

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
    if (count == 0) return;
    const std::size_t at = bytes.size();
    bytes.resize(at + count);
    std::memcpy(bytes.data() + at, data, count);
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
  template <class Value>
  void operator()(std::vector<Value>& values) {
    std::uint64_t count = 0;
    (*this)(count);
    if (count > bytes_.size() - at_) throw std::invalid_argument("outcome: cut short");
    values.resize(count);
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
  archive(o.operations);
  archive(o.clock_residual_s);
  archive(o.memory);
  archive(o.log.blocks);
  archive(o.log.uses);
  archive(o.overrun);
  archive(o.outputs);
}

}  // namespace

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

}  // namespace cplab
