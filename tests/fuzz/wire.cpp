// Fuzz target: what may come to the port of a launch. The first byte says from whom, and how the rest is cut
// into pieces as they arrive.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "exec/processes/frame.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using namespace cplab::wire;

// The frames of `bytes` in pieces; `refused` says whether they were refused before the end.
std::vector<Frame> in_pieces(std::span<const std::byte> bytes, std::size_t piece, Sender sender,
                             bool& refused) {
  Decoder decoder(sender);
  std::vector<Frame> frames;
  refused = false;
  try {
    while (!bytes.empty()) {
      const std::span<std::byte> space = decoder.space();
      const std::size_t count = std::min({piece, space.size(), bytes.size()});
      std::memcpy(space.data(), bytes.data(), count);
      bytes = bytes.subspan(count);
      decoder.advance(count, frames);
    }
  } catch (const NotOurs&) {
    refused = true;
  }
  return frames;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::size_t piece = std::size_t{1} << (data[0] & 15);
  const auto sender = static_cast<Sender>((data[0] >> 4) % 3);
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  bool refused = false, refused_at_once = false;
  const std::vector<Frame> frames = in_pieces(bytes, piece, sender, refused);
  const std::vector<Frame> whole = in_pieces(bytes, size, sender, refused_at_once);
  if (refused != refused_at_once || frames.size() != whole.size()) std::abort();
  std::size_t payload_bytes = 0;
  for (const Frame& frame : frames) {
    payload_bytes += frame.payload->size();
    try {
      (void)greeting_of(frame);
    } catch (const NotOurs&) {
    }
    (void)text_of(frame);
  }
  if (payload_bytes > size) std::abort();  // more than was ever sent
  return 0;
}
