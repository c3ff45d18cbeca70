// The messages of exec/processes/rendezvous as bytes: what may come from whom, how large it may be, and the
// decoder. No sockets here: exec/processes/wire.hpp moves the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace cplab::wire {

using Bytes = std::vector<std::byte>;

// The other side does not speak this protocol, speaks another version of it, or says what it may not say.
struct NotOurs : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct OtherVersion : NotOurs {
  using NotOurs::NotOurs;
};

enum class Kind : std::uint32_t { hello, refuse, joined, gather, barrier, failure, leave };

// `payload` is shared, so that one contribution waits in the queues of many connections at once.
struct Frame {
  Kind kind = Kind::hello;
  int rank = 0;              // whom it is about
  std::uint32_t detail = 0;  // by kind
  std::uint64_t sequence = 0;
  std::shared_ptr<Bytes> payload = std::make_shared<Bytes>();
};

// What stands before each payload. Bytes in the host's order: another order shows in the magic. Magic and
// version stay where they are in every version.
struct Header {
  std::uint64_t magic;
  std::uint32_t version;
  Kind kind;
  std::int32_t rank;
  std::uint32_t detail;
  std::uint64_t sequence;
  std::uint64_t bytes;
};
static_assert(sizeof(Header) == 40);
constexpr std::uint64_t magic = 0x767a6442414c5043;  // "CPLABdzv" in memory
constexpr std::uint32_t version = 2;

// Who sends. stranger: a connection that has not identified itself; it may send hello and nothing else. host:
// the process at the address of rank 0, before it has accepted this one. member: a process of the launch.
enum class Sender : std::uint8_t { stranger, host, member };

constexpr std::uint64_t max_greeting_bytes = 2048;
constexpr std::uint64_t max_text_bytes = std::uint64_t{64} << 10;   // of a refusal or a failure
constexpr std::uint64_t max_gather_bytes = std::uint64_t{1} << 36;  // of one rank's contribution
constexpr std::uint32_t last_failure_cause = 2;                     // of rendezvous::Cause
constexpr int max_ranks = 1 << 24;                                  // as exec/processes/launch takes them

// The largest payload of this kind from this sender; nothing if it may not send the kind at all.
std::optional<std::uint64_t> max_payload(Kind kind, Sender sender);

// `bytes` are the first that have come of a message. Nothing while the header is incomplete. Throws NotOurs
// as soon as they cannot become a message that this sender may send.
std::optional<Header> decode_header(std::span<const std::byte> bytes, Sender sender);

// Bytes in, frames out, in pieces of any size. Memory grows with what has come, not with what is announced.
class Decoder {
 public:
  // No contribution to a gather may be larger than `gather_bytes`: what this host could hold at all.
  explicit Decoder(Sender sender, std::uint64_t gather_bytes = max_gather_bytes)
      : sender_(sender), gather_bytes_(gather_bytes) {}

  // The sender is a member from now on. A host becomes one by itself, with the frame `joined`.
  void trust() { sender_ = Sender::member; }
  // Where the next bytes go: never empty. Throws NotOurs if there is no memory for them.
  std::span<std::byte> space();
  // So many bytes have been put there. Appends the frame that they complete, if any. Throws NotOurs.
  void advance(std::size_t bytes, std::vector<Frame>& frames);
  std::size_t held_bytes() const { return payload().capacity(); }

 private:
  Bytes& payload() const { return *incoming_.payload; }

  Sender sender_;
  std::uint64_t gather_bytes_;
  std::array<std::byte, sizeof(Header)> header_ = {};
  std::size_t header_got_ = 0;
  Frame incoming_;
  std::size_t announced_ = 0;  // bytes of the payload
  std::size_t payload_got_ = 0;
};

// All frames of `bytes`, which may end in the middle of one. Throws NotOurs.
std::vector<Frame> decode(std::span<const std::byte> bytes, Sender sender);
Header header_of(const Frame& frame);
Bytes encode(const Frame& frame);  // header and payload

// The first message of each process to rank 0. The token proves that the process belongs to the launch; the
// job tells the launch from an older one at the same port.
struct Greeting {
  int rank = 0;
  std::uint64_t world = 0;
  std::string token, job;
};
constexpr std::size_t max_token_bytes = 256;
constexpr std::size_t max_job_bytes = 1024;
Frame greeting_frame(const Greeting& greeting);
// Throws NotOurs if the frame is no greeting.
Greeting greeting_of(const Frame& frame);

// Takes as long whichever byte differs.
bool same_secret(std::string_view given, std::string_view secret);

std::shared_ptr<Bytes> bytes_of(std::string_view text);
// Control characters, save line feeds, as '?': it goes to a terminal.
std::string text_of(const Frame& frame);

}  // namespace cplab::wire
