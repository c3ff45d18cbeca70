// What may come from whom, and the decoder; see frame.hpp.
#include "exec/processes/frame.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace cplab::wire {
namespace {

constexpr std::size_t first_bytes = std::size_t{1} << 16;  // of a payload, until more has come

const char* name(Kind kind) {
  switch (kind) {
    case Kind::hello: return "hello";
    case Kind::refuse: return "refuse";
    case Kind::joined: return "joined";
    case Kind::gather: return "gather";
    case Kind::barrier: return "barrier";
    case Kind::failure: return "failure";
    case Kind::leave: return "leave";
  }
  return "unknown";
}

void require_right(const Header& header, Sender sender) {
  if (header.kind > Kind::leave)
    throw NotOurs("a message of the unknown kind " + std::to_string(static_cast<std::uint32_t>(header.kind)));
  const std::string what = std::string("a message \"") + name(header.kind) + "\"";
  const std::optional<std::uint64_t> most = max_payload(header.kind, sender);
  if (!most) throw NotOurs(what + ", which is not due");
  if (header.bytes > *most)
    throw NotOurs(what + " with " + std::to_string(header.bytes) + " bytes; " + std::to_string(*most) +
                  " are the most");
  if (header.rank < 0 || header.rank >= max_ranks)
    throw NotOurs(what + " of rank " + std::to_string(header.rank));
  if (header.kind == Kind::failure && header.detail > last_failure_cause)
    throw NotOurs(what + " of the unknown cause " + std::to_string(header.detail));
}

}  // namespace

std::optional<std::uint64_t> max_payload(Kind kind, Sender sender) {
  switch (kind) {
    case Kind::hello: return sender == Sender::stranger ? std::optional(max_greeting_bytes) : std::nullopt;
    case Kind::refuse: return sender == Sender::host ? std::optional(max_text_bytes) : std::nullopt;
    case Kind::joined: return sender != Sender::stranger ? std::optional<std::uint64_t>(0) : std::nullopt;
    case Kind::gather: return sender == Sender::member ? std::optional(max_gather_bytes) : std::nullopt;
    case Kind::failure: return sender == Sender::member ? std::optional(max_text_bytes) : std::nullopt;
    case Kind::barrier:
    case Kind::leave: return sender == Sender::member ? std::optional<std::uint64_t>(0) : std::nullopt;
  }
  return std::nullopt;
}

// A stranger may say less than a header and wait: the magic is judged when it is there, then the version.
std::optional<Header> decode_header(std::span<const std::byte> bytes, Sender sender) {
  Header header = {};
  std::memcpy(&header, bytes.data(), std::min(bytes.size(), sizeof(Header)));
  if (bytes.size() < sizeof(Header::magic)) return std::nullopt;
  if (header.magic != magic) throw NotOurs("what came is no message of cplab");
  if (bytes.size() < offsetof(Header, kind)) return std::nullopt;
  if (header.version != version)
    throw OtherVersion("the other side is another version of cplab (protocol " +
                       std::to_string(header.version) + ", here " + std::to_string(version) + ")");
  if (bytes.size() < sizeof(Header)) return std::nullopt;
  require_right(header, sender);
  return header;
}

std::span<std::byte> Decoder::space() {
  if (header_got_ < sizeof(Header)) return std::span(header_).subspan(header_got_);
  if (payload_got_ == payload().size()) {
    try {
      payload().resize(std::min(announced_, std::max(first_bytes, 2 * payload_got_)));
    } catch (const std::bad_alloc&) {
      throw NotOurs("a message of " + std::to_string(announced_) + " bytes: no memory for it");
    }
  }
  return std::span(payload()).subspan(payload_got_);
}

void Decoder::advance(std::size_t bytes, std::vector<Frame>& frames) {
  if (header_got_ < sizeof(Header)) {
    header_got_ += bytes;
    const std::optional<Header> header = decode_header(std::span(header_).first(header_got_), sender_);
    if (!header) return;
    if (header->kind == Kind::gather && header->bytes > gather_bytes_)
      throw NotOurs("a contribution of " + std::to_string(header->bytes) + " bytes; this host could hold " +
                    std::to_string(gather_bytes_));
    incoming_ = {header->kind, header->rank, header->detail, header->sequence, std::make_shared<Bytes>()};
    announced_ = static_cast<std::size_t>(header->bytes);
    payload_got_ = 0;
  } else {
    payload_got_ += bytes;
  }
  if (payload_got_ < announced_) return;
  if (sender_ == Sender::host && incoming_.kind == Kind::joined) sender_ = Sender::member;
  frames.push_back(std::move(incoming_));
  incoming_ = Frame();
  header_got_ = 0;
}

std::vector<Frame> decode(std::span<const std::byte> bytes, Sender sender) {
  Decoder decoder(sender);
  std::vector<Frame> frames;
  while (!bytes.empty()) {
    const std::span<std::byte> space = decoder.space();
    const std::size_t count = std::min(space.size(), bytes.size());
    std::memcpy(space.data(), bytes.data(), count);
    decoder.advance(count, frames);
    bytes = bytes.subspan(count);
  }
  return frames;
}

Header header_of(const Frame& frame) {
  return {magic, version, frame.kind, frame.rank, frame.detail, frame.sequence, frame.payload->size()};
}

Bytes encode(const Frame& frame) {
  const Header header = header_of(frame);
  Bytes bytes(sizeof(header) + frame.payload->size());
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::copy(frame.payload->begin(), frame.payload->end(), bytes.begin() + sizeof(header));
  return bytes;
}

// Payload: the length of the token in 4 bytes, the token, the job.
Frame greeting_frame(const Greeting& greeting) {
  const auto length = static_cast<std::uint32_t>(greeting.token.size());
  std::string payload(reinterpret_cast<const char*>(&length), sizeof(length));
  payload += greeting.token + greeting.job;
  return {Kind::hello, greeting.rank, 0, greeting.world, bytes_of(payload)};
}

Greeting greeting_of(const Frame& frame) {
  if (frame.kind != Kind::hello) throw NotOurs("the first message is no greeting");
  const std::string_view payload(reinterpret_cast<const char*>(frame.payload->data()), frame.payload->size());
  std::uint32_t length = 0;
  if (payload.size() < sizeof(length)) throw NotOurs("a greeting that is cut short");
  std::memcpy(&length, payload.data(), sizeof(length));
  const std::string_view rest = payload.substr(sizeof(length));
  if (length > max_token_bytes || length > rest.size() || rest.size() - length > max_job_bytes)
    throw NotOurs("a greeting with lengths that do not fit");
  return {frame.rank, frame.sequence, std::string(rest.substr(0, length)), std::string(rest.substr(length))};
}

bool same_secret(std::string_view given, std::string_view secret) {
  volatile unsigned char difference = given.size() == secret.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char other = secret.empty() ? '\0' : secret[i % secret.size()];
    difference = static_cast<unsigned char>(difference | (given[i] ^ other));
  }
  return difference == 0;
}

std::shared_ptr<Bytes> bytes_of(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return std::make_shared<Bytes>(data, data + text.size());
}

std::string text_of(const Frame& frame) {
  std::string text(reinterpret_cast<const char*>(frame.payload->data()), frame.payload->size());
  for (char& c : text) {
    const auto code = static_cast<unsigned char>(c);
    if ((code < 0x20 && c != '\n') || code == 0x7f) c = '?';
  }
  return text;
}

}  // namespace cplab::wire
