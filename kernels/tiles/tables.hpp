// One block of tables for device memory: pieces aligned to 256 bytes, equal ones stored once. Plain host
// code.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cplab::kernels::cuda {

class Tables {
 public:
  static constexpr std::size_t alignment = 256;

  // Where the piece begins in the block, in bytes. Items must have no padding.
  template <class Item>
  std::size_t place(std::span<const Item> items) {
    const std::string_view piece(reinterpret_cast<const char*>(items.data()), items.size_bytes());
    const std::size_t hash = std::hash<std::string_view>{}(piece);
    const auto [begin, end] = places_.equal_range(hash);
    for (auto at = begin; at != end; ++at)
      if (view(at->second) == piece) return at->second.offset;
    const std::size_t offset = append(piece);
    places_.emplace(hash, Place{offset, piece.size()});
    return offset;
  }

  // The same for a piece that kernels write: nothing else lies there, whatever it holds.
  template <class Item>
  std::size_t place_apart(std::span<const Item> items) {
    return append({reinterpret_cast<const char*>(items.data()), items.size_bytes()});
  }

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::size_t append(std::string_view piece) {
    const std::size_t offset = (bytes_.size() + alignment - 1) / alignment * alignment;
    bytes_.resize(offset + piece.size());
    if (!piece.empty()) std::memcpy(bytes_.data() + offset, piece.data(), piece.size());
    return offset;
  }

  struct Place {
    std::size_t offset, size;
  };
  std::string_view view(const Place& place) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + place.offset, place.size};
  }

  std::vector<std::byte> bytes_;
  std::unordered_multimap<std::size_t, Place> places_;
};

}  // namespace cplab::kernels::cuda
